"""The store's own jobs: add, find, pause, resume, remove. All jobs: list and describe."""

import shlex
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import Literal

import msgspec
from msgspec import Struct

from relight.errors import MissingError, RelightError
from relight.model import row_id
from relight.names import find_model_name
from relight.redact import redact_text
from relight.reports.retries import RetryAdvice, judge_run_retry
from relight.reports.runs import JobHistory, JobReport, read_jobs
from relight.store import Store
from relight.store import jobs as job_table
from relight.store.members import find_called
from relight.store.queries.runs import read_runs
from relight.store.sql import Connection
from relight.times import read_time, write_time
from relight.work.jobs.job import JobDefinition, JobFields, check_job
from relight.work.jobs.schedules import Schedule, find_next, read_schedule

SOURCE = "relight"
TIMES = 3
LAST_RUNS = 5
UNREADABLE = (msgspec.MsgspecError, RelightError, LookupError, OSError)
JobState = Literal["scheduled", "paused", "done", "removed"]


class JobDescription(JobHistory, frozen=True, kw_only=True):
    """A job with all its settings, its next times, its last runs, and whether a retry can help.

    The settings are those of `JobFields`. Of another scheduler's job most are unknown: None.
    """

    next_times: list[str]
    retry: RetryAdvice | None
    prompt: str | None
    command: list[str] | None = None
    use_shell: bool | None = None
    default_model: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    context_tokens: int | None = None
    template: str | None = None
    workdir: str | None = None
    tools: list[str] | None = None
    allow_terminal: bool | None = None
    pass_variables: list[str] | None = None
    timeout_seconds: float | None = None
    max_attempts: int | None = None
    deliver: str | None = None
    budget_usd: float | None = None
    budget_usd_per_day: float | None = None


class JobDescriptions(Struct, frozen=True):
    """Jobs with all their settings."""

    jobs: list[JobDescription]


class JobChange(Struct, frozen=True):
    """A job and its state after a change."""

    job: str
    state: JobState


def job_id(name: str) -> int:
    return row_id("job", SOURCE, name)


def schedule_of(job: JobDefinition, timezone: str) -> Schedule:
    """The schedule of a job; `timezone` is the store's, used if the job names none."""
    zone = job.timezone or timezone
    return read_schedule(job.schedule, timezone=zone, made_at=job.created_at or 0)


def add_job(store: Store, job: JobDefinition, *, now: int, replace: bool = False) -> None:
    """Store a job; raise if there is one of that name and `replace` is False."""
    add_jobs(store, [job], now=now, replace=replace)


def _check_machine(store: Store, place: str | None) -> None:
    kind, _, name = (place or "").partition(":")
    keys = find_called(store, name) if kind == "machine" else []
    if len(keys) > 1 and name not in keys:
        raise RelightError(
            f"{len(keys)} machines are named {name}",
            f"name one by its key: {', '.join(f'machine:{key}' for key in keys)}",
        )


def add_jobs(
    store: Store,
    jobs: Sequence[JobDefinition],
    *,
    now: int,
    replace: bool = False,
    paused: Collection[str] = (),
) -> None:
    """Store all of these jobs, or none if one of them is invalid; those in `paused` as paused.

    A replaced job keeps its history, its state and its time of creation.
    """
    with store.transaction() as database:
        for job in jobs:
            before = job_table.find_own_job(store, job_id(job.name))
            if before is not None and not replace:
                hint = "`relight job edit` changes it"
                raise RelightError(f"the job {job.name} already exists", hint)
            _check_machine(store, job.place)
            checked = check_job(
                msgspec.structs.replace(job, created_at=before.created_at if before else now)
            )
            shown = hide_job_secrets(checked, key=store.redaction_key)
            if shown.name != job.name:
                raise RelightError("the name of the job looks like a secret", "give it another")
            due = find_next(schedule_of(checked, store.timezone), now)
            if due is None:
                raise RelightError(
                    f"the schedule {job.schedule!r} of {job.name} is in the past",
                    "give it a time in the future",
                )
            if before is not None:
                _record_switch(store, database, decode_job(before.definition), checked, now=now)
            is_paused = job.name in paused or (before is not None and before.state == "paused")
            job_table.replace_job(
                database,
                make_row(
                    checked,
                    shown,
                    state="paused" if is_paused else "scheduled",
                    due=None if is_paused else due,
                ),
            )


def _record_switch(
    store: Store, database: Connection, before: JobDefinition, after: JobDefinition, *, now: int
) -> None:
    """Write into the job's history that a person gave it another model."""
    models = [job.model or job.default_model for job in (before, after)]
    if models[0] != models[1]:
        import getpass

        from relight.store.canaries import SwitchRow, add_switch

        aliases = store.config.models.aliases
        old, new = (find_model_name(model, aliases) if model else None for model in models)
        add_switch(
            database,
            SwitchRow(after.name, now, old, new, made_by=getpass.getuser(), reason="edited"),
        )


def make_row(
    job: JobDefinition, shown: JobDefinition, *, state: JobState, due: int | None
) -> job_table.JobRow:
    """The row of a job: only the definition, which runs use, has the secrets in it."""
    return job_table.JobRow(
        id=job_id(job.name),
        source=SOURCE,
        key=job.name,
        name=job.name,
        schedule=job.schedule,
        prompt=shown.prompt,
        skills=msgspec.json.encode(shown.skills).decode(),
        model=shown.model,
        provider=shown.provider,
        script=shown.script,
        state=state,
        created_at=job.created_at,
        next_run_at=due,
        definition=msgspec.json.encode(job).decode(),
        place=job.place,
    )


def hide_job_secrets(job: JobDefinition, *, key: bytes) -> JobDefinition:
    """Return the job as reports show it: secrets in its texts are replaced as on a tape."""
    changes: dict[str, str | list[str]] = {}
    for name, value in msgspec.structs.asdict(job).items():
        if isinstance(value, str):
            changes[name] = redact_text(value, key=key)
        elif isinstance(value, list):
            changes[name] = _hide_in_words(value, key=key)
    return msgspec.structs.replace(job, **changes)


def _hide_in_words(words: Sequence[str], *, key: bytes) -> list[str]:
    """Return the words of a command without secrets, also those that an option before names."""
    clean = [redact_text(word, key=key) for word in words]
    line = shlex.join(clean)
    with suppress(ValueError):
        joined = shlex.split(redact_text(line, key=key))
        return joined if len(joined) == len(clean) else clean
    return clean


def find_job(store: Store, name: str) -> JobDefinition:
    """Return the job of that name; raise if it is unknown or another scheduler's."""
    return decode_job(_find_row(store, name).definition)


def find_state(store: Store, name: str) -> tuple[JobState, int | None]:
    """The state of a job, and when it is due next."""
    row = _find_row(store, name)
    return row.state, row.next_run_at  # type: ignore[return-value]


def _find_row(store: Store, name: str) -> job_table.OwnJob:
    if found := job_table.find_own_job(store, job_id(name)):
        return found
    if foreign := job_table.find_foreign_name(store, name):
        from relight.sources.job_editors import find_edit_command

        hint = "Relight shows its runs (`relight job history`); change it in its own scheduler"
        if edit := find_edit_command(foreign):
            hint += f": {edit}"
        raise RelightError(f"the job {foreign} belongs to another scheduler", hint)
    raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")


def decode_job(definition: str) -> JobDefinition:
    return msgspec.json.decode(definition, type=JobDefinition)


def read_own_jobs(store: Store) -> list[JobDefinition]:
    """All own jobs, by name."""
    return [decode_job(row.definition) for row in job_table.read_own_definitions(store)]


def find_paused(store: Store) -> set[str]:
    """The names of the own jobs that are paused."""
    return {row.key for row in job_table.read_own_definitions(store) if row.state == "paused"}


def is_past(store: Store, job: JobDefinition, *, now: int) -> bool:
    """True if a job has no slot in the future."""
    return find_next(schedule_of(job, store.timezone), now) is None


def describe_job(store: Store, name: str, *, now: int) -> JobDescription:
    """Return one of our jobs by its name, or another scheduler's by its name or id.

    Secrets in its settings are hidden.
    """
    jobs = list_jobs(store)
    named = [job for job in jobs if job.job == name] or [
        job for job in jobs if job.runner is None and name in (job.name, job.job.partition(":")[2])
    ]
    if not named:
        raise MissingError(f"there is no job {name!r}", "`relight job list` shows them")
    job = named[0]
    runs = read_runs(store, job.job, limit=LAST_RUNS)
    retry = None
    if last := next((run for run in runs if run.status != "skipped"), None):
        due, zone = job.next_run_at, store.timezone
        retry = judge_run_retry(last, next_run_at=due, timezone=zone, now=now)
    facts = msgspec.structs.asdict(job) | {
        "runs": runs,
        "prompt": job_table.find_prompt(store, job.job),
    }
    if job.runner is not None:
        shown = hide_job_secrets(find_job(store, job.job), key=store.redaction_key)
        # the settings that the report of any job lacks
        lacking = [name for name in JobFields.__struct_fields__ if name not in facts]
        facts |= {name: getattr(shown, name) for name in lacking}
    return JobDescription(**facts, next_times=_find_times(store, job, now=now), retry=retry)


def _find_times(store: Store, job: JobReport, *, now: int) -> list[str]:
    """Return the next times of a job; another scheduler names only the first."""
    due = read_time(job.next_run_at)
    if due is None:
        return []
    times = [due] if due > now else []
    if job.runner is not None:
        schedule = schedule_of(find_job(store, job.job), store.timezone)
        times += islice(schedule.slots(max(due, now)), TIMES - len(times))
    return [shown for slot in times if (shown := write_time(slot))]


def list_jobs(store: Store) -> list[JobReport]:
    """Every job with its runs; the next run of ours is the first that may begin."""
    allowed, jobs = find_allowed_slots(store), []
    for job in read_jobs(store):
        words = None
        with suppress(RelightError):  # another scheduler's may not be known
            zone = job.timezone or store.timezone
            words = read_schedule(job.schedule or "", timezone=zone, made_at=0).words
        worded = msgspec.structs.replace(job, schedule_words=words)
        if job.job in allowed:
            due = write_time(allowed[job.job])
            worded = msgspec.structs.replace(worded, next_run_at=due, is_overdue=False)
        jobs.append(worded)
    return jobs


def find_allowed_slots(store: Store) -> dict[str, int | None]:
    """The first slot that may run, of jobs whose last run ended with a request to wait longer.

    The scheduler skips their slots before that.
    """
    allowed = {}
    for job in job_table.find_waiting_jobs(store, now=0):
        if job.retry_at is not None and job.retry_at > job.next_run_at:
            with suppress(*UNREADABLE):
                schedule = schedule_of(decode_job(job.definition), store.timezone)
                allowed[job.key] = find_next(schedule, job.retry_at - 1)
    return allowed


def pause_job(store: Store, name: str) -> None:
    """Begin no more runs of a job until it is resumed; one that is running continues."""
    _set_state(store, name, "paused", None)


def resume_job(store: Store, name: str, *, now: int) -> int:
    """Schedule a paused job from its next slot on; return that slot."""
    due = find_next(schedule_of(find_job(store, name), store.timezone), now)
    if due is None:
        raise RelightError(
            f"the job {name} is never due again", "`relight job edit` gives it another schedule"
        )
    _set_state(store, name, "scheduled", due)
    return due


def plan_again(store: Store, *, now: int) -> list[str]:
    """Give each job that goes by the store's time zone its next slot there; return their names."""
    names = []
    for row in job_table.read_own_definitions(store):
        if row.state == "scheduled" and decode_job(row.definition).timezone is None:
            with suppress(RelightError):  # one that is never due again stays as it is
                resume_job(store, row.key, now=now)
                names.append(row.key)
    return names


def remove_job(store: Store, name: str) -> None:
    """Remove a job; its runs stay in the history."""
    _set_state(store, name, "removed", None)


def _set_state(store: Store, name: str, state: JobState, due: int | None) -> None:
    found = _find_row(store, name)
    with store.transaction() as database:
        job_table.set_job_state(database, found.id, state, due)
