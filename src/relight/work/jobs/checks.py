"""What is looked at before a run may spend anything, and what it may use then."""

from msgspec import Struct

from relight.config import Config
from relight.errors import ModelContextError, RefusedError
from relight.models import background
from relight.models.endpoints import Endpoint
from relight.models.offers import find_context_window
from relight.prices import context_window
from relight.work.agent.tools import TOOLS, choose_tools
from relight.work.jobs.job import Job
from relight.work.jobs.routing import Route
from relight.work.jobs.spending import Spent, count_left

MINIMUM_TOKENS = 64_000
# nobody is there to answer a question, and the answer is delivered for it
NEVER = frozenset(("ask_user", "clarify", "cronjob", "messaging", "send_message"))
# what can do all that the person can: not for a model that is elsewhere
POWERFUL = frozenset(("execute_code", "terminal"))


class Allowance(Struct, frozen=True, kw_only=True):
    """What a run may use: its tools, and how much it may cost; None is no limit."""

    tools: list[str]
    cost_usd: float | None
    warnings: list[str]


def check_run(job: Job, *, route: Route, config: Config, spent: Spent) -> Allowance:
    """What a run may use, or a refusal: no model, another model, too small a one, no money."""
    check_drift(job, route)
    left, warnings = count_left(job, config=config, spent=spent)
    check_context(job, route=route, config=config)
    if job.runner == "command":
        return Allowance(tools=[], cost_usd=left, warnings=[*warnings, *find_unused(job, route)])
    tools, dropped = choose_job_tools(job, route)
    if dropped:
        warnings.append(
            f"without {' and '.join(dropped)}, since {route.model} is not asked on this machine"
            " or network; the job can say that it may have them"
        )
    return Allowance(tools=tools, cost_usd=left, warnings=warnings)


def find_unused(job: Job, route: Route) -> list[str]:
    """What a job says that the program it runs never hears of."""
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
    return [f"the command is not told the job's {' and '.join(names)}: it chooses itself"]


def check_drift(job: Job, route: Route) -> None:
    """Refuse a job without a model of its own once the default is not what it was made with."""
    if job.runner != "chat" or job.model is not None or job.default_model is None:
        return
    if route.model != job.default_model:
        raise RefusedError(
            f"the default model was {job.default_model} when {job.name} was made,"
            f" and is {route.model} now: nobody agreed to what that costs",
            f"give the job a model of its own: relight job edit {job.name} --model {route.model}",
        )


def check_context(job: Job, *, route: Route, config: Config) -> None:
    """Refuse a model whose window is known to be too small for a job's work."""
    if job.context_tokens is not None or config.jobs.context_tokens is not None:
        return
    unasked = [Endpoint(model=route.model)] if route.model else []
    for endpoint in route.endpoints or unasked:
        size = find_size(endpoint, is_asked=bool(route.endpoints), provider=route.provider)
        if size is not None and size < MINIMUM_TOKENS:
            raise ModelContextError(
                f"{endpoint.model} takes {size:,} tokens, and a job needs at least"
                f" {MINIMUM_TOKENS:,}",
                "take a larger model; if you know better, say how many it takes with"
                f" context_tokens in the job or in [jobs] of {config.home / 'config.toml'}",
            )


def find_size(endpoint: Endpoint, *, is_asked: bool, provider: str | None) -> int | None:
    """How many tokens a model takes: as its endpoint says, else as the price lists do."""
    if is_asked:
        asked = find_context_window(
            endpoint.base_url, endpoint.model, key_variable=endpoint.key_variable
        )
        if (size := background.run_coroutine(asked)) is not None:
            return size
    seller = endpoint.seller if is_asked else provider
    return context_window(endpoint.model, seller)


def choose_job_tools(job: Job, route: Route) -> tuple[list[str], list[str]]:
    """The tools that a run gets, and those that it would have had closer by."""
    wanted = [name for name in (TOOLS if job.tools is None else job.tools) if name not in NEVER]
    tools = list(choose_tools(wanted))
    if job.allow_terminal or route.is_local:
        return tools, []
    return (
        [name for name in tools if name not in POWERFUL],
        [name for name in tools if name in POWERFUL],
    )
