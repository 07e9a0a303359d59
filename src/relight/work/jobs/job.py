"""A job's definition, a run of it and the run's result, and the checks of a definition."""

import math
import re
import shlex
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct, field

from relight.config import Config
from relight.errors import ParameterError, RelightError
from relight.model import Count, Moment, Nanos, OutcomeName, Usage
from relight.store import Store

RUNNERS = ("chat", "command")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_SECONDS = 7 * 86400.0
PLACE = re.compile(r"any|(machine|label):\w[\w.@/+ -]{0,62}", re.ASCII)


class JobFields(Struct, frozen=True, kw_only=True):
    """The settings of a job that a person chooses."""

    name: str
    schedule: str
    # the zone of its schedule; None is the store's
    timezone: str | None = None
    # where it runs: any, machine:NAME or label:NAME; None is this store's own schedulers
    place: str | None = None
    prompt: str = ""
    skills: list[str] = []
    runner: Literal["chat", "command"] = "chat"
    # the command runner's arguments; {prompt}, {prompt_file} and {workdir} are filled in
    command: list[str] = []
    # True: the command is one line for the shell
    use_shell: bool = False
    # None: the default model at run time; `default_model` is the default when the job was added
    model: str | None = None
    default_model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    # the model's context window as the person knows it; given, the window is not checked
    context_tokens: int | None = None
    # the template that runs start with: its name, auto or none
    template: str = "none"
    # a file in the home's `scripts` folder, run before the agent
    script: str | None = None
    workdir: str | None = None
    # None: all tools that jobs may use
    tools: list[str] | None = None
    # allow the terminal to a model outside this machine and its network
    allow_terminal: bool = False
    # variables that the chat runner's commands get although they are named like secrets
    pass_variables: list[str] = []
    timeout_seconds: float = 1800.0
    max_attempts: int = 3
    # file, command:ARGV or webhook:URL
    deliver: str = "file"
    budget_usd: float | None = None
    budget_usd_per_day: float | None = None


class JobDefinition(
    JobFields, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A job as it is stored and exported."""

    created_at: int | None = None


class JobRun(Struct, frozen=True, kw_only=True):
    """One run of a job. A run without a slot was started by a person."""

    id: int
    key: str
    job: str
    scheduled_for: int | None
    started_at: int


class Delivery(Struct, frozen=True, kw_only=True):
    """The delivery of an answer. A failed one does not make the run a failure."""

    to: str
    status: Literal["delivered", "failed", "suppressed"]
    attempts: int = 1
    error: str | None = None


class JobResult(Struct, frozen=True, kw_only=True):
    """The result of a run: outcome, evidence with the deciding piece first, sessions, cost.

    `session` is `source:key` of the last attempt's session, `earlier` those of the attempts before.
    `cost_nanos` and `usage` include all attempts and sub-agents. If both are None, the figures of
    the session count.
    """

    status: Literal["completed", "failed", "refused", "unknown"]
    outcome: OutcomeName
    evidence: list[str]
    attempts: Count = 1
    session: str | None = None
    earlier: list[str] = []
    # end of the work, before delivery; None if unknown
    finished_at: Moment | None = None
    model: str | None = None
    provider: str | None = None
    cost_nanos: Nanos | None = None
    usage: Usage | None = None
    answer: str | None = None
    # path of the answer's file, relative to the home folder
    answer_file: str | None = None
    delivery: Delivery | None = None
    # such as a budget that is nearly spent
    warnings: list[str] = field(default_factory=list)
    # a kind of `data/failures.toml`; None if the run did not fail, or for a reason without a kind
    failure_kind: str | None = None
    # the other side asked for no attempt before this
    retry_at: Moment | None = None


class Execute(Protocol):
    """The function that does the work of one run: `run.execute_run`, or one of a test."""

    def __call__(
        self,
        store: Store,
        job: JobDefinition,
        run: JobRun,
        *,
        config: Config,
        clock: Callable[[], float],
    ) -> JobResult: ...


def check_job(job: JobDefinition) -> JobDefinition:
    """Return the job as given; raise ParameterError with the field's name if it cannot run."""
    _need(NAME.fullmatch(job.name), "name", job.name, "letters, digits, - and _, at most 64")
    _check_times(job)
    _check_work(job)
    is_place = job.place is None or PLACE.fullmatch(job.place)
    _need(is_place, "place", job.place, "any, machine:NAME or label:NAME")
    _check_model(job)
    _check_limits(job)
    return job


def read_job(fields: object) -> JobDefinition:
    """Return a checked job from a table of its fields, such as one of an exported file."""
    try:
        return check_job(msgspec.convert(fields, JobDefinition))
    except msgspec.ValidationError as error:
        hint = f"a job has {', '.join(JobDefinition.__struct_fields__)}"
        raise RelightError(f"not a valid job: {error}", hint) from error


def _check_times(job: JobDefinition) -> None:
    from relight.work.jobs.schedules import read_schedule

    if job.timezone is not None:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(job.timezone)
        except (ValueError, OSError, LookupError):
            _need(False, "timezone", job.timezone, "a name such as Europe/Berlin or UTC")
    read_schedule(job.schedule, timezone=job.timezone or "UTC", made_at=job.created_at or 0)


def _check_work(job: JobDefinition) -> None:
    _need(job.runner in RUNNERS, "runner", job.runner, " or ".join(RUNNERS))
    if job.runner == "command":
        hint = "a program and its arguments, with {prompt} for the prompt"
        _need(job.command and job.command[0].strip(), "command", job.command, hint)
        wants_prompt = any("{prompt" in word for word in job.command)
        _need(job.prompt.strip() or not wants_prompt, "prompt", job.prompt, "the task")
        _need(len(job.command) == 1 or not job.use_shell, "command", job.command, "one line")
    else:
        _need(not job.command, "command", job.command, "for jobs with the runner command only")
        _need(job.prompt.strip(), "prompt", job.prompt, "say what the agent has to do")
    if job.script is not None:
        is_inside = job.script.strip() and not job.script.startswith(("/", "~", "\\"))
        is_inside = is_inside and ".." not in re.split(r"[/\\]", job.script)
        _need(is_inside, "script", job.script, "a file in the home's scripts folder, by its name")
    _need(job.workdir is None or job.workdir.strip(), "workdir", job.workdir, "a folder")
    _need(all(map(str.strip, job.skills)), "skills", job.skills, "names of skills")
    kind, _, target = job.deliver.partition(":")
    is_known = job.deliver == "file" or (kind in ("command", "webhook") and target.strip())
    _need(is_known, "deliver", job.deliver, "file, command:ARGV or webhook:URL")
    is_address = kind != "webhook" or target.startswith(("http://", "https://"))
    _need(is_address, "deliver", job.deliver, "an address that begins with http:// or https://")
    _need(kind != "command" or _can_split(target), "deliver", job.deliver, "check its quotes")


def _check_model(job: JobDefinition) -> None:
    if job.base_url is not None:
        is_address = job.base_url.startswith(("http://", "https://"))
        _need(is_address, "base_url", job.base_url, "it begins with http:// or https://")
    if job.key_variable is not None and not VARIABLE.fullmatch(job.key_variable):
        # the value may be the key itself, so it is not shown
        raise ParameterError(
            "key_variable must be the name of an environment variable",
            "name the variable that holds the key, such as OPENAI_API_KEY",
            names=["key_variable"],
        )


def _check_limits(job: JobDefinition) -> None:
    hint = "seconds above 0, at most a week"
    is_possible = 0 < job.timeout_seconds <= LONGEST_SECONDS
    _need(is_possible, "timeout_seconds", job.timeout_seconds, hint)
    _need(1 <= job.max_attempts <= 20, "max_attempts", job.max_attempts, "from 1 to 20")
    for name in ("budget_usd", "budget_usd_per_day", "context_tokens"):
        value = getattr(job, name)
        is_possible = value is None or 0 < value < math.inf
        _need(is_possible, name, value, "a number above 0")


def _can_split(command: str) -> bool:
    try:
        return bool(shlex.split(command))
    except ValueError:
        return False


def _need(is_good: object, name: str, value: Any, hint: str) -> None:
    if not is_good:
        raise ParameterError(f"the job's {name} cannot be {value!r}", hint, names=[name])
