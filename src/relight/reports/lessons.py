"""Lessons of projects: what their sessions stumbled over again and again, and what worked.

Sessions are read from their tapes once, when lessons are asked for, and the result is stored: the
newest of each project, as far as the time allows. What is left is counted.
"""

import time
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from relight.judging.lessons import Taught, derive_lessons
from relight.judging.recoveries import TriedCall
from relight.judging.stumbles import STUMBLE_RULES, find_stumbles
from relight.store import Store, stumbles
from relight.store.queries import take_fields
from relight.store.queries.failures import read_session_names
from relight.store.queries.filters import Filter
from relight.store.sql import read_usd
from relight.store.stumbles import ProjectSessions, ReadingRow
from relight.times import write_time

READ_AT_ONCE = 20
Progress = Callable[[int, int], None]


class LessonEvidence(Struct, frozen=True):
    """A failed call that a lesson rests on."""

    session_id: str
    step: int


class Lesson(Struct, frozen=True, kw_only=True):
    """A cause that sessions of a project stumbled over, and what worked.

    `sessions` of `of_sessions` sessions failed by it, `seen` times in all; `cured_sessions` of them
    went on with the cure. `probability` is that of the next session; `is_sure` says that both are
    enough for agents. `burnt_usd` is the cost of the
    turns from each failure until it worked, null if no price is known.
    """

    id: str
    project: str
    machine: str | None
    cause: str
    cure: str
    seen: int
    sessions: int
    of_sessions: int
    cured_sessions: int
    probability: float
    is_sure: bool
    last_at: str | None
    burnt_usd: float | None
    text: str
    evidence: list[LessonEvidence]


class LessonList(Struct, frozen=True):
    """Lessons, those of a project together and the most useful first.

    `read_sessions` were read for them; `unread_sessions` are left for the next time.
    """

    lessons: list[Lesson]
    read_sessions: int
    unread_sessions: int


def find_lessons(store: Store, *, project: str | None = None) -> list[Lesson]:
    """Return what sessions of a project, or of all, stumbled over again and again, and what worked.

    A project is named as sessions name it: its folder, or a part of that. Sessions that have not
    been read for it yet are read first.
    """
    read_new(store, Filter(project=project))
    return list_lessons(store, Filter(project=project)).lessons


def find_sure_lessons(
    store: Store, project: str, *, before: int, seconds: float | None = None
) -> list[Taught]:
    """Return the lessons for agents in a folder of this machine, from sessions before a time.

    Sessions that were not read yet are read first, for so many seconds.
    """
    chosen = Filter(project=f'"{project}"')
    read_new(store, chosen, seconds=seconds, ended_before=before)
    return [
        lesson
        for one in stumbles.read_projects(store, chosen)
        if one.machine is None
        for lesson in derive_lessons(some for some in one.sessions if (some.at or 0) < before)
        if lesson.is_sure
    ]


def list_lessons(store: Store, chosen: Filter) -> LessonList:
    """Return the lessons of the sessions that were read before."""
    projects, stale = stumbles.read_state(store, chosen)
    derived = [(one, lesson) for one in projects for lesson in derive_lessons(one.sessions)]
    names = read_session_names(
        store, {session for _, one in derived for session, _ in one.evidence}
    )
    return LessonList(
        [_show(one, lesson, names) for one, lesson in derived],
        sum(len(one.sessions) for one in projects),
        stale,
    )


def read_new(
    store: Store,
    chosen: Filter,
    *,
    seconds: float | None = None,
    ended_before: int | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Read sessions that lessons need, for so many seconds; return how many are left.

    `ended_before`, in Unix milliseconds, leaves those for later that may still go on.
    """
    stale = stumbles.find_stale(store, chosen)
    if ended_before is not None:
        stale = [one for one in stale if one.read_to < ended_before]
    if not store.can_write:
        return len(stale)
    until = None if seconds is None else clock() + seconds
    done = 0
    while done < len(stale) and (until is None or clock() < until):
        some = stale[done : done + READ_AT_ONCE]
        rows = []
        for one in some:
            rows.append(
                ReadingRow(one.session_id, one.read_to, STUMBLE_RULES, _read(store, one.session_id))
            )
            if until is not None and clock() >= until:
                break
        stumbles.write_readings(store, rows)
        done += len(rows)
        if progress:
            progress(done, len(stale))
    return len(stale) - done


def _show(project: ProjectSessions, one: Taught, names: Mapping[int, str]) -> Lesson:
    return Lesson(
        id=one.id,
        project=project.project,
        machine=project.machine,
        cause=one.cause,
        cure=one.cure,
        seen=one.seen,
        sessions=one.hit,
        of_sessions=one.of_sessions,
        cured_sessions=one.cured,
        probability=round(one.probability, 3),
        is_sure=one.is_sure,
        last_at=write_time(one.last_at),
        burnt_usd=read_usd(one.burnt_nanos),
        text=one.text,
        evidence=[LessonEvidence(names[session], step) for session, step in one.evidence],
    )


def _read(store: Store, session_id: int) -> str | None:
    """The stumbles of a session as JSON; None if its records are gone or cannot be read."""
    # a session that begins asks for lessons, and mostly has nothing to read
    from relight.reports.trace import read_numbered

    try:
        numbered = read_numbered(store, session_id)
    except Exception:  # noqa: BLE001 - a damaged tape may raise anything, and costs itself alone
        return None
    if numbered.silence:
        return None
    costs = {turn.id: turn.cost_nanos for turn in numbered.turns}
    calls = []
    for step, item in enumerate(numbered.items, start=1):
        call = None if item.call is None else numbered.calls.get(item.call)
        if call is None or call.label is None:
            continue
        calls.append(
            TriedCall(
                **take_fields(call, TriedCall),
                step=step,
                arguments=item.arguments,
                result=item.result or "",
                turn=call.turn_id,
                cost_nanos=None if call.turn_id is None else costs.get(call.turn_id),
            )
        )
    return msgspec.json.encode(find_stumbles(calls)).decode()
