"""A job, a run of it, and what came of the run; and what a job must be to be taken."""

import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct, field

from relight.config import Config
from relight.errors import ParameterError, RelightError
from relight.model import OutcomeName, Usage
from relight.store import Store
from relight.work.processes import MARKS

RUNNERS = ("chat", "command")
RunStatus = Literal["claimed", "running", "completed", "failed", "refused", "skipped", "unknown"]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_SECONDS = 7 * 86400.0


class Job(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A scheduled piece of agent work, as a person wrote it down."""

    name: str
    schedule: str
    # the zone that its times are in; else the store's
    timezone: str | None = None
    prompt: str = ""
    skills: list[str] = []
    runner: Literal["chat", "command"] = "chat"
    # the command runner's argument list: {prompt}, {prompt_file} and {workdir} are filled in
    command: list[str] = []
    # the command is one line for the shell, because a person asked for that
    use_shell: bool = False
    # None: whatever is the default when it runs; `default_model` is what that was when it was made
    model: str | None = None
    default_model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    # the model's context window where a person knows better: no check then
    context_tokens: int | None = None
    # a template's name, auto or none: what the run starts warm with
    template: str = "none"
    # a file in the home's `scripts` folder, run before the agent
    script: str | None = None
    workdir: str | None = None
    # None: all that jobs may have
    tools: list[str] | None = None
    # the terminal also where the model is not on this machine or network
    allow_terminal: bool = False
    timeout_seconds: float = 1800.0
    max_attempts: int = 3
    # file, command:ARGV or webhook:URL
    deliver: str = "file"
    budget_usd: float | None = None
    budget_usd_per_day: float | None = None
    created_at: int | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One run of a job, claimed for its slot; without a slot a person asked for it now."""

    id: int
    key: str
    job: str
    scheduled_for: int | None
    started_at: int


class Delivery(Struct, frozen=True, kw_only=True):
    """Where an answer went. That it did not arrive is not the run's failure, and is told apart."""

    to: str
    status: Literal["delivered", "failed", "suppressed"]
    attempts: int = 1
    error: str | None = None


class RunResult(Struct, frozen=True, kw_only=True):
    """What came of a run: its evidence with the deciding piece first, and what it left.

    `session` is `source:key` of the session that its last attempt left, `earlier` are those of the
    attempts before. `cost_nanos` and `usage` are over all attempts and sub-agents; with neither and
    a session, the session's figures serve.
    """

    status: Literal["completed", "failed", "refused", "unknown"]
    outcome: OutcomeName
    evidence: list[str]
    attempts: int = 1
    session: str | None = None
    earlier: list[str] = []
    # when its work was over, whatever was done about it afterwards; None where nobody knows
    finished_at: int | None = None
    model: str | None = None
    provider: str | None = None
    cost_nanos: int | None = None
    usage: Usage | None = None
    answer: str | None = None
    # where the answer is kept, below the home folder
    answer_file: str | None = None
    delivery: Delivery | None = None
    # what did not stop the run but should be seen, such as a budget nearly spent
    warnings: list[str] = field(default_factory=list)


def name_run(home: Path, key: str) -> dict[str, str]:
    """What every process that a run starts is given, so that it is known again wherever it goes."""
    return dict(zip(MARKS, (str(home.resolve()), key), strict=True))


class Execute(Protocol):
    """Whatever does the work of one run: `execution.execute_run`, or a test's own."""

    def __call__(
        self, store: Store, job: Job, run: Run, *, config: Config, clock: Callable[[], float]
    ) -> RunResult: ...


def check_job(job: Job) -> Job:
    """The job as given, if it is one that can run; else an error that names the field."""
    _need(NAME.fullmatch(job.name), "name", job.name, "letters, digits, - and _, at most 64")
    _check_times(job)
    _check_work(job)
    _check_model(job)
    _check_limits(job)
    return job


def read_job(fields: object) -> Job:
    """A job from a table of its fields, as in an exported file."""
    try:
        return check_job(msgspec.convert(fields, Job))
    except msgspec.ValidationError as error:
        hint = f"a job has {', '.join(Job.__struct_fields__)}"
        raise RelightError(f"this is no job: {error}", hint) from error


def _check_times(job: Job) -> None:
    from relight.work.jobs.schedules import read_schedule

    if job.timezone is not None:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(job.timezone)
        except (ValueError, OSError, LookupError):
            _need(False, "timezone", job.timezone, "a name such as Europe/Berlin or UTC")
    read_schedule(job.schedule, timezone=job.timezone or "UTC", made_at=job.created_at or 0)


def _check_work(job: Job) -> None:
    _need(job.runner in RUNNERS, "runner", job.runner, " or ".join(RUNNERS))
    if job.runner == "command":
        hint = "what to run, such as: hermes -z {prompt}"
        _need(job.command and job.command[0].strip(), "command", job.command, hint)
        wants_prompt = any("{prompt" in word for word in job.command)
        _need(job.prompt.strip() or not wants_prompt, "prompt", job.prompt, "what it is to do")
        _need(len(job.command) == 1 or not job.use_shell, "command", job.command, "one line")
    else:
        _need(not job.command, "command", job.command, "for jobs with the runner command only")
        _need(job.prompt.strip(), "prompt", job.prompt, "what the agent is to do")
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
    _need(kind != "command" or _can_split(target), "deliver", job.deliver, "mind its quotes")


def _check_model(job: Job) -> None:
    if job.base_url is not None:
        is_address = job.base_url.startswith(("http://", "https://"))
        _need(is_address, "base_url", job.base_url, "it begins with http:// or https://")
    if job.key_variable is not None and not VARIABLE.fullmatch(job.key_variable):
        # what was given may be the key itself: it is not shown again
        raise ParameterError(
            "the job's key_variable is not the name of a variable",
            "name the environment variable that holds the key, such as OPENAI_API_KEY",
            names=["key_variable"],
        )


def _check_limits(job: Job) -> None:
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
