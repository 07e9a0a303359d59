"""Runs whose process ended too early: marked `unknown`, never repeated, and their sessions found.

A lost run is marked at once. Its sessions, their cost and the uses of its skills are collected
afterwards, since that reads the agents' files. As long as a run's notes lie in the home folder, the
collection is still to be done.
"""

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from relight.locks import hold, open_lock
from relight.store import Store
from relight.store import runs as run_table
from relight.store.misses import record_safely
from relight.work.jobs import notes
from relight.work.jobs.job import JobResult
from relight.work.jobs.leases import is_alive
from relight.work.jobs.notes import ProgramNote, RunNote
from relight.work.jobs.slots import finish
from relight.work.jobs.spending import add_figures
from relight.work.processes import find_marked, kill_all, run_variables

WAIT_SECONDS = 60.0
LOST = (
    "the process that ran it ended before the run did ({holder}); what it had done by then is"
    " not known, and it is not repeated"
)


def settle_lost(store: Store) -> None:
    """Finish runs whose process is gone, so that none is shown as running."""
    settle_dead(store, find_dead(store, now=int(time.time() * 1000)))
    collect_interrupted(store)


def find_dead(store: Store, *, now: int) -> list[str]:
    """The holders of open runs whose processes are gone."""
    return [
        holder
        for holder, lease_until in run_table.read_leases(store).items()
        if not is_alive(store.config.home, holder, lease_until=lease_until, now=now)
    ]


def settle_dead(store: Store, dead: Iterable[str]) -> int:
    """Return the claims of dead holders, and mark their running runs as `unknown`.

    The result is the number of lost runs. Processes of a lost run are killed. A returned slot is
    due again; its next claim decides whether it is too late.
    """
    lost = 0
    for holder in dead:
        run_table.return_claims(store, holder)
        for run in run_table.find_held_runs(store, holder, "running"):
            evidence = LOST.format(holder=holder)
            lost += _mark_lost(store, run.id, run.key, holder, evidence=evidence)
    return lost


def mark_lost(store: Store, run_id: int, holder: str, *, evidence: str) -> bool:
    """Mark a run as `unknown` if its process died; False if the run had not begun."""
    run = run_table.find_held_run(store, run_id, holder)
    if run is not None and run.status == "claimed":
        return False
    if run is not None and run.status == "running":
        _mark_lost(store, run_id, run.key, holder, evidence=evidence)
    return True


def _mark_lost(store: Store, run_id: int, key: str, holder: str, *, evidence: str) -> bool:
    kill_all(find_marked(run_variables(store.config.home, key)))
    result = make_interrupted_result(store, key, [evidence])
    return finish(store, run_id, result, holder=holder)


def make_interrupted_result(
    store: Store, key: str, evidence: list[str], *, left: Sequence[str] = ()
) -> JobResult:
    """The result of an interrupted run: `unknown`, with its sessions so far and their tokens.

    Relight's own sessions are found by their names; `left` are those of other agents. The sessions
    know the cost, or a lower bound of it: the run may have ended inside a model call.
    """
    sessions = [*run_table.find_sessions_named_after(store, key), *left]
    return JobResult(
        status="unknown",
        outcome="unknown",
        evidence=evidence,
        attempts=max(len(sessions), 1),
        session=sessions[-1] if sessions else None,
        earlier=sessions[:-1],
        usage=add_figures(store, sessions).usage,
    )


def find_uncollected(store: Store) -> set[int]:
    """Interrupted runs whose sessions have not been collected yet."""
    found = notes.find_run_notes(store.config.home)
    return {note.run.id for note in found if run_table.has_ended(store, note.run.id)}


def collect_interrupted(store: Store, *, run_id: int | None = None) -> None:
    """Collect the sessions of interrupted runs, or of one, and remove their notes.

    A collection that fails is counted as a miss and not repeated.
    """
    home = store.config.home
    if not find_uncollected(store):
        return
    # one process at a time, and once; where no file can be written, nothing is collected
    with suppress(OSError), open_lock(home / notes.FOLDER / "lock") as lock:
        hold(lock.fileno())
        uncollected = find_uncollected(store)
        for note in notes.find_run_notes(home):
            if note.run.id in uncollected and run_id in (None, note.run.id):
                record_safely(store, partial(_collect, note=note), wait_seconds=WAIT_SECONDS)
                notes.remove_notes(home, note.run.key)


def _collect(store: Store, *, note: RunNote) -> None:
    run = note.run
    interrupted = run_table.find_interrupted_run(store, run.id)
    if interrupted is None:
        return
    found = [
        _find_left(store, program, prompt, next_at=interrupted.next_started_at)
        for program, prompt in notes.read_programs(store.config.home, run.key)
    ]
    reasons = (why for _, why in found if why)
    evidence = [*json.loads(interrupted.outcome_evidence), *reasons]
    left = [session for session, _ in found if session]
    result = make_interrupted_result(store, run.key, evidence, left=left)
    result = replace(
        result,
        attempts=max(result.attempts, len(found)),
        finished_at=interrupted.finished_at,
        model=note.model,
        provider=note.provider,
    )
    # first the sessions: a skill's use is recorded in a session that belongs to this run
    finish(store, run.id, result, holder=interrupted.holder)
    from relight.work.jobs.skills import record_skills

    record_skills(store, note, result)


def _find_left(
    store: Store, program: ProgramNote, prompt: str, *, next_at: int | None
) -> tuple[str | None, str | None]:
    """The session that a program left, or the reason why it is unknown."""
    if program.is_over:
        return program.session, None
    # loaded late: reading other agents' files needs much code
    from relight.work.jobs.left_sessions import SLACK_MS, find_left_session

    ends = [program.until, round(time.time() * 1000)]
    if next_at is not None:
        # the next run has the same prompt
        ends.append(next_at - 2 * SLACK_MS)
    places = {**os.environ, **program.places}
    return find_left_session(store, program, prompt, ended_at=min(ends), environment=places)
