"""Parts of the tape, outcomes, runs of jobs and uses of skills, as machines send them.

The server takes runs and uses here as well. At the level of figures they have no words: names of
jobs, skills and models, numbers and times.
"""

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, ValidationError, convert, defstruct, json
from msgspec.structs import asdict, replace

from relight.errors import DamagedTapeError
from relight.intake.wire import (
    Naming,
    SentOutcome,
    SentPart,
    SentRun,
    SentUse,
    cut_model,
    hide_place,
    keep_tool,
    make_figures,
)
from relight.model import WHOLE_TOKENS, Count, Moment, Nanos, row_id
from relight.redact import redact_text
from relight.store import Store
from relight.store.derive.machines import find_foreign
from relight.store.derive.skills.facts import FACTS, SkillFact
from relight.store.members import Machine
from relight.store.queries import take_fields
from relight.store.sql import Connection
from relight.store.team import DueOutcome, DuePart
from relight.store.team_facts import (
    DueRun,
    DueUse,
    PushedJobRow,
    PushedRunRow,
    RunFigures,
    read_earlier_attempts,
    write_runs,
    write_use,
)
from relight.store.write.pushed import BadPartError
from relight.store.write.tape import read_part

JUDGED = ("outcome", "points_to", "task_type", "category", "score")
# what a use says in a person's or a program's own words
WORDS = ("end_reason", "cost_source")
Amount = Annotated[float, Meta(ge=-1e12, le=1e12)]
NUMBERS: dict[str, Any] = {
    **dict.fromkeys(WHOLE_TOKENS, Count),
    **dict.fromkeys(("invoked_at", "completed_at"), Moment),
    **dict.fromkeys(("duration_seconds", "quality_score", "share"), Amount),
    "cost_nanos": Nanos,
    "success": Literal[0, 1],
}
UseFacts = defstruct("UseFacts", [(name, NUMBERS.get(name, str) | None, None) for name in FACTS])
EVIDENCE = ["as its own machine reports it"]


def make_part(
    store: Store, due: DuePart, naming: Naming, note: Callable[[str], None]
) -> SentPart | None:
    """Return a part as it is sent; None if it is gone or cannot be read, which is noted.

    Where names are hidden, it has figures instead of words.
    """
    part = read_part(store, due.id)
    if part is None:
        return None
    key = store.redaction_key
    common: dict[str, Any] = {
        "source": due.source,
        "session": naming.hide(due.session),
        "generation": due.generation,
        "position": due.position,
        "recorded_at": due.recorded_at,
        "raw_bytes": due.raw_bytes,
    }
    if not naming.hides:
        return SentPart(
            **common,
            path=due.path,
            part=due.part,
            modified_ns=due.modified_ns,
            state=part.state,
            records=part.records,
        )
    try:
        figures = make_figures(part, naming, key=key, timezone=store.timezone)
    except DamagedTapeError as error:
        note(error.message)
        return None
    except Exception as error:  # noqa: BLE001 - one part must not stop the others
        note(f"a part of {due.source} cannot be read: {type(error).__name__}")
        return None
    return SentPart(
        **common,
        path=hide_place(due.path, key),
        part=hide_place(due.part, key) if due.part else "",
        records=figures,
        is_figures=True,
    )


def make_outcome(due: DueOutcome, naming: Naming) -> SentOutcome:
    """Return a session's outcome as it is sent."""
    return SentOutcome(
        source=due.source,
        session=naming.hide(due.session),
        is_label=bool(due.is_label),
        **{name: getattr(due, name) for name in JUDGED},
    )


def make_run(store: Store, due: DueRun, naming: Naming) -> SentRun:
    """Return a run as it is sent; its error and evidence are words."""
    words: dict[str, Any] = {}
    figures = RunFigures(**take_fields(due, RunFigures))
    if naming.hides:
        figures = replace(figures, model=cut_model(figures.model))
    else:
        evidence = json.decode(due.outcome_evidence or "[]")
        words = {"error": due.error, "evidence": [str(one) for one in evidence]}
    return SentRun(
        source=due.source,
        key=naming.hide(due.key),
        job=naming.hide(due.job or ""),
        job_name=due.job if naming.hides and _is_prompt(due) else due.job_name or due.job,
        session=naming.hide_session(due.session) if due.session else None,
        earlier=[naming.hide_session(one) for one in read_earlier_attempts(store, due.id)],
        figures=figures,
        **words,
    )


def _is_prompt(due: DueRun) -> bool:
    """True if a job is named by the beginning of its prompt, as some agents do it."""
    return bool(due.prompt and due.job_name and due.prompt.startswith(due.job_name))


def make_use(due: DueUse, values: dict[str, Any], naming: Naming) -> SentUse:
    """Return a recorded use of a skill as it is sent."""
    if naming.hides:
        values = {name: value for name, value in values.items() if name not in WORDS}
        if "model" in values:
            values["model"] = cut_model(values["model"])
        if "job_id" in values:
            values["job_id"] = naming.hide(values["job_id"])
    session = naming.hide_session(due.session)
    skill = keep_tool(due.skill) if naming.hides else due.skill
    return SentUse(session=session, skill=skill, entry=due.entry, values=values)


def take_runs(
    store: Store, database: Connection, machine: Machine, runs: Sequence[SentRun]
) -> None:
    """Write the runs that a machine sent, with names that no other machine has.

    The session of another person is no run of theirs.
    """
    naming, key = Naming(machine.key), store.redaction_key
    named = [name for one in runs for name in (one.session, *one.earlier) if name]
    sessions = {name: _find_session(naming, name) for name in named}
    foreign = find_foreign(database, sessions.values(), machine.person_id)
    own = {name: found for name, found in sessions.items() if found not in foreign}
    jobs: dict[int, PushedJobRow] = {}
    rows, attempts = [], []
    for one in runs:
        job = f"{one.job}@{machine.key}"
        run = f"{one.key}@{machine.key}"
        job_id, run_id = row_id("job", one.source, job), row_id("run", one.source, run)
        jobs[job_id] = PushedJobRow(
            id=job_id,
            source=one.source,
            key=job,
            name=f"{redact_text(one.job_name or one.job, key=key)}@{machine.key}",
            machine_id=machine.id,
        )
        evidence = [redact_text(text, key=key) for text in one.evidence] or EVIDENCE
        rows.append(
            PushedRunRow(
                id=run_id,
                source=one.source,
                key=run,
                job_id=job_id,
                session_id=own.get(one.session or ""),
                error=None if one.error is None else redact_text(one.error, key=key),
                outcome_evidence=json.encode(evidence).decode(),
                machine_id=machine.id,
                **asdict(one.figures),
            )
        )
        attempts += [(own[name], run_id) for name in one.earlier if name in own]
    write_runs(database, list(jobs.values()), rows, attempts)


def take_uses(database: Connection, machine: Machine, sent: Sequence[SentUse]) -> None:
    """Write the recorded uses of skills that a machine sent, but of no other person's session."""
    naming, now = Naming(machine.key), int(time.time() * 1000)
    sessions = [_find_session(naming, one.session) for one in sent]
    foreign = find_foreign(database, sessions, machine.person_id)
    for session_id, one in zip(sessions, sent, strict=True):
        if session_id in foreign:
            continue
        source, colon, key = one.session.partition(":")
        name = f"{source}:{naming.name_session(source, key)}" if colon else None
        values = {key: value for key, value in one.values.items() if key in FACTS}
        try:
            convert(values, UseFacts)
        except ValidationError as error:
            raise BadPartError(f"a use of {one.skill[:100]!r} cannot be read: {error}") from error
        if "job_id" in values:
            values["job_id"] = f"{values['job_id']}@{machine.key}"
        fact = SkillFact(
            session_id=name or f"{one.session}@{machine.key}",
            skill_name=one.skill,
            entry=one.entry,
            values=values,
        )
        write_use(database, fact, machine.id, now=now)


def _find_session(naming: Naming, name: str) -> int:
    source, _, key = name.partition(":")
    return naming.find_session(source, key)
