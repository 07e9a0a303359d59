"""What a run left that was cut short: its sessions, what they cost, and the uses of its skills.

Such a run is marked at once, and told of here afterwards, since its agent's files must be read
for that. As long as its notes lie in the home that is still to be done, by whoever comes next.
"""

import json
import os
import time
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from relight.locks import hold
from relight.store import Store
from relight.store.misses import record_safely
from relight.work.jobs.keeping import keep_skills
from relight.work.jobs.lost_runs import find_untold, tell_cut_short
from relight.work.jobs.notes import FOLDER, Note, Program, find_notes, read_programs, remove_note
from relight.work.jobs.results import finish

WAIT_SECONDS = 60.0
LOST = """
    select holder, outcome_evidence, finished_at,
        (select min(started_at) from run as later
            where later.job_id = run.job_id and later.started_at > run.started_at)
    from run where id = ? and status = 'unknown'
"""


def follow_up(store: Store, *, run_id: int | None = None) -> None:
    """Tell what runs left that were cut short, or one of them, and put their notes away.

    What cannot be told is counted as a miss, and not tried again.
    """
    home = store.config.home
    if not find_untold(store):
        return
    # where no file can be written they stay as they are; else one at a time, and once
    with suppress(OSError), (home / FOLDER / "lock").open("a") as lock:
        hold(lock.fileno())
        untold = find_untold(store)
        for note in find_notes(home):
            if note.run.id in untold and run_id in (None, note.run.id):
                record_safely(store, partial(_tell_lost, note=note), wait_seconds=WAIT_SECONDS)
                remove_note(home, note.run.key)


def _tell_lost(store: Store, *, note: Note) -> None:
    run = note.run
    for holder, told, finished_at, next_at in store.query(LOST, (run.id,)):
        found = [
            _find_left(store, program, prompt, next_at=next_at)
            for program, prompt in read_programs(store.config.home, run.key)
        ]
        evidence = [*json.loads(told), *(why for _, why in found if why)]
        left = [session for session, _ in found if session]
        result = tell_cut_short(store, run.key, evidence, left=left)
        result = replace(
            result,
            attempts=max(result.attempts, len(found)),
            finished_at=finished_at,
            model=note.model,
            provider=note.provider,
        )
        # keeping skills first would tell of sessions that are nobody's yet
        finish(store, run.id, result, holder=holder)
        keep_skills(store, note, result)


def _find_left(
    store: Store, program: Program, prompt: str, *, next_at: int | None
) -> tuple[str | None, str | None]:
    """The session that a program left, or why none is known."""
    if program.is_over:
        return program.session, None
    # what reads agents' files is loaded only where there is one to be read
    from relight.work.jobs.joining import SLACK_MS, find_left

    ends = [program.until, round(time.time() * 1000)]
    if next_at is not None:
        # the next run is given the same prompt
        ends.append(next_at - 2 * SLACK_MS)
    left = find_left(
        store,
        source=program.source,
        key=program.key,
        prompt=prompt,
        started_at=program.started_at,
        ended_at=min(ends),
        environment={**os.environ, **program.places},
    )
    return left.session, left.note
