"""The preparation of a run: model, budget, tools, skills and folder, checked before it spends.

A person's prompt alone decides the model. A job that must not run raises RefusedError here.
"""

import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from relight.config import Config, JobRoute, JobSettings
from relight.errors import ModelContextError, RefusedError, RelightError
from relight.locks import make_folder
from relight.models.endpoints import Endpoint
from relight.store import Store
from relight.work.jobs.delivery import find_job_folder
from relight.work.jobs.job import JobDefinition, JobRun
from relight.work.jobs.recipes import can_choose_model
from relight.work.jobs.scripts import find_script
from relight.work.jobs.skills import SkillDocument, find_skills
from relight.work.jobs.spending import DaySpending, count_left, read_spending

MINIMUM_TOKENS = 64_000
# a run is unattended, and its answer is delivered by Relight
NEVER = frozenset(("ask_user", "clarify", "cronjob", "messaging", "send_message"))
# tools that can do all that the person can: not for a model outside this machine and network
POWERFUL = frozenset(("execute_code", "terminal"))


class RunTask(Struct, frozen=True, kw_only=True):
    """A run to be done, and its surroundings."""

    store: Store
    job: JobDefinition
    run: JobRun
    config: Config
    clock: Callable[[], float]
    environment: Mapping[str, str]
    # for tests; None: waits take their time
    sleep: Callable[[float], None] | None


class Route(Struct, frozen=True, kw_only=True):
    """The model of a run; None where only the program that is run knows it.

    `endpoints` are all endpoints in use; a mixture has several.
    """

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    endpoints: list[Endpoint] = []

    @property
    def is_local(self) -> bool:
        """True if every endpoint is on this machine or in its private network."""
        return bool(self.endpoints) and all(is_local(one.base_url) for one in self.endpoints)


class Allowance(Struct, frozen=True, kw_only=True):
    """The tools of a run, and the dollars it may cost; None is no limit."""

    tools: list[str]
    cost_usd: float | None
    warnings: list[str]


class Prepared(Struct, frozen=True, kw_only=True):
    """A run that has passed all checks: model, tools, skills and folder."""

    route: Route
    allowance: Allowance
    skills: list[SkillDocument]
    folder: Path


def settle_job(store: Store, job: JobDefinition) -> JobDefinition:
    """Return the job with today's default model noted; raise if something it names is missing."""
    from relight.warm.library import find_template
    from relight.work.agent.tools import choose_tools

    home = store.config.home
    choose_tools(job.tools)
    if job.script is not None:
        find_script(home, job.script)
    if job.template not in ("auto", "none"):
        find_template(store, job.template)
    folder = Path(job.workdir).expanduser() if job.workdir else None
    find_skills(job.skills, home=home, workdir=folder)
    route = choose_route(job, config=store.config)
    is_limited = job.runner == "chat" and job.tools is not None
    if is_limited and (dropped := choose_job_tools(job, route)[1]):
        raise RelightError(
            f"{job.name} cannot have {' and '.join(dropped)}: {route.model} is outside this"
            " machine and its network",
            "--allow-terminal (allow_terminal in a file) allows that model to do all that you can"
            " do; or leave them out of --tools",
        )
    is_default = job.runner == "chat" and job.model is None
    return replace(job, default_model=(job.default_model or route.model) if is_default else None)


def prepare_run(task: RunTask) -> Prepared:
    """Return the model, tools, skills and folder of a run; raise if it must not begin."""
    job, home = task.job, task.config.home
    route = choose_route(job, config=task.config, environment=task.environment)
    spent = DaySpending()
    if job.budget_usd_per_day is not None or task.config.jobs.budget_usd_per_day is not None:
        spent = read_spending(task.store, job, run_id=task.run.id, now=task.clock())
    allowance = check_run(job, route=route, config=task.config, spent=spent)
    if job.script is not None:
        find_script(home, job.script)
    folder = Path(job.workdir).expanduser() if job.workdir else None
    if folder is None:  # a job that names no folder gets a new one
        make_folder(folder := find_job_folder(home, job.name) / "work")
    if not folder.is_dir():
        raise RelightError(f"there is no folder {folder}", "name another with --workdir")
    _check_budgets(task, folder)
    skills: list[SkillDocument] = []
    if job.skills:
        skills = find_skills(job.skills, home=home, workdir=folder, environment=task.environment)
    return Prepared(route=route, allowance=allowance, skills=skills, folder=folder.resolve())


def _check_budgets(task: RunTask, folder: Path) -> None:
    """Raise if a budget that stops agents is used up."""
    if not task.store.has_rows("budget"):
        return
    from relight.reports.budgets import find_stop

    job = task.job
    stop = find_stop(
        task.store,
        source="relight" if job.runner == "chat" else None,
        project=str(folder.resolve()),
        job=job.name,
        now=task.clock(),
        environment=task.environment,
    )
    if stop:
        raise RefusedError(stop)


def choose_route(
    job: JobDefinition, *, config: Config, environment: Mapping[str, str] | None = None
) -> Route:
    """The model of a job: its own, else that of the first matching route, else the default.

    A command chooses its own model; the job's is given to it if its program takes one.
    """
    environment = os.environ if environment is None else environment
    if job.runner == "command":
        chooses = can_choose_model(job.command, use_shell=job.use_shell)
        return Route(model=job.model if chooses else None, provider=job.provider)
    matching = (one for one in config.jobs.routes if re.search(one.pattern, job.prompt))
    chosen, model = None, job.model
    if model is None:
        chosen = next(matching, None)
        default = config.jobs.model or environment.get("RELIGHT_MODEL")
        model = chosen.model if chosen else default
    if model is None:
        raise RelightError(
            f"the job {job.name} names no model, and there is no default",
            f"name one with --model, or write model in [jobs] of {config.home / 'config.toml'}",
        )
    return _find_route(job, model, chosen, config=config, environment=environment)


def _find_route(
    job: JobDefinition,
    model: str,
    chosen: JobRoute | None,
    *,
    config: Config,
    environment: Mapping[str, str],
) -> Route:
    from relight.work.agent.models import MOA, find_endpoint

    if model.startswith(MOA):
        from relight.work.moa.mixture import find_preset

        preset = find_preset(config, model.removeprefix(MOA))
        endpoints = [*preset.references, preset.aggregator]
        return Route(model=model, provider="moa", endpoints=endpoints)
    # a key and a provider belong to the address that they are named with
    place: JobDefinition | JobRoute | JobSettings = config.jobs
    if job.base_url is not None:
        place = job
    elif chosen and chosen.base_url:
        place = chosen
    endpoint = find_endpoint(
        model,
        base_url=place.base_url,
        key_variable=job.key_variable or place.key_variable,
        environment=environment,
    )
    provider = job.provider or (chosen and chosen.provider) or place.provider
    return Route(
        model=model,
        provider=provider or endpoint.seller,
        base_url=endpoint.base_url,
        key_variable=endpoint.key_variable,
        endpoints=[endpoint],
    )


def is_local(address: str) -> bool:
    """True if all addresses of a URL's host are this machine or its private network.

    >>> is_local("http://127.0.0.1:11434/v1"), is_local("http://192.168.1.7/v1")
    (True, True)
    >>> is_local("http://127.0.0.1@203.0.114.9/v1"), is_local("https://8.8.8.8")
    (False, False)
    """
    from relight.names import is_private

    try:
        host = urlsplit(address).hostname or ""
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except (OSError, ValueError):  # the host does not exist or is malformed
        return False
    return bool(found) and all(is_private(str(place[4][0])) for place in found)


def check_run(job: JobDefinition, *, route: Route, config: Config, spent: DaySpending) -> Allowance:
    """The tools and dollars of a run; raise RefusedError if it must not begin."""
    check_drift(job, route)
    left, warnings = count_left(job, config=config, spent=spent)
    check_context(job, route=route, config=config)
    if job.runner == "command":
        warnings += [*find_unused(job, route), *find_unpriced(job, route=route, config=config)]
        return Allowance(tools=[], cost_usd=left, warnings=warnings)
    tools, dropped = choose_job_tools(job, route)
    if dropped:
        warnings.append(
            f"without {' and '.join(dropped)}, since {route.model} is outside this machine and its"
            " network; --allow-terminal allows them"
        )
    return Allowance(tools=tools, cost_usd=left, warnings=warnings)


def find_unused(job: JobDefinition, route: Route) -> list[str]:
    """A warning for settings that never reach the job's command."""
    given = {
        "model": job.model is not None and route.model is None,
        "base_url": job.base_url is not None,
        "key_variable": job.key_variable is not None,
        "tools": job.tools is not None,
        "template": job.template != "none",
    }
    names = [name for name, is_unused in given.items() if is_unused]
    if not names:
        return []
    return [f"the command does not receive the job's {' and '.join(names)}, and uses its own"]


def find_unpriced(job: JobDefinition, *, route: Route, config: Config) -> list[str]:
    """A warning if no budget can end a run of the job's command, since its price is unknown."""
    limits = (job.budget_usd, job.budget_usd_per_day, config.jobs.budget_usd_per_day)
    if route.model is None or not any(limits):
        return []
    from relight.prices import find_price

    if find_price(route.model, route.provider, config=config):
        return []
    return [
        f"the price of {route.model} is not known: no budget can end a run;"
        f' [prices."{route.model}"] in {config.home / "config.toml"} sets one'
    ]


def check_drift(job: JobDefinition, route: Route) -> None:
    """Refuse a job that names no model if the default is not the one it was added with."""
    if job.runner != "chat" or job.model is not None or job.default_model is None:
        return
    if route.model != job.default_model:
        raise RefusedError(
            f"the default model was {job.default_model} when {job.name} was added"
            f" and is {route.model} now: it may cost more",
            f"give the job a model: relight job edit {job.name} --model {route.model}",
        )


def check_context(job: JobDefinition, *, route: Route, config: Config) -> None:
    """Refuse a model whose context window is known to be too small for a job."""
    if job.context_tokens is not None or config.jobs.context_tokens is not None:
        return
    named = [Endpoint(model=route.model)] if route.model else []
    for endpoint in route.endpoints or named:
        size = find_size(endpoint, is_known=bool(route.endpoints), provider=route.provider)
        if size is not None and size < MINIMUM_TOKENS:
            raise ModelContextError(
                f"{endpoint.model} takes {size:,} tokens, and a job needs at least"
                f" {MINIMUM_TOKENS:,}",
                "choose a larger model; if this number is wrong:"
                f" relight job edit {job.name} --context-tokens N,"
                f" or context_tokens in [jobs] of {config.home / 'config.toml'}",
            )


def find_size(endpoint: Endpoint, *, is_known: bool, provider: str | None) -> int | None:
    """A model's context window in tokens: from its endpoint if that is known, else from prices."""
    from relight.prices import context_window

    if is_known:
        from relight.models import background
        from relight.models.offers import find_context_window

        reported = find_context_window(
            endpoint.base_url, endpoint.model, key_variable=endpoint.key_variable
        )
        if (size := background.run_coroutine(reported)) is not None:
            return size
    return context_window(endpoint.model, endpoint.seller if is_known else provider)


def choose_job_tools(job: JobDefinition, route: Route) -> tuple[list[str], list[str]]:
    """The tools of a run, and those left out because its model is not local."""
    from relight.work.agent.tools import TOOLS, choose_tools

    wanted = [name for name in (TOOLS if job.tools is None else job.tools) if name not in NEVER]
    tools = list(choose_tools(wanted))
    if job.allow_terminal or route.is_local:
        return tools, []
    return (
        [name for name in tools if name not in POWERFUL],
        [name for name in tools if name in POWERFUL],
    )
