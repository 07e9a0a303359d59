"""Templates made by themselves: of recorded sessions that clear a high bar.

After an import they are candidates, which wait for a person: sessions hold text from anywhere, and
templates that people chose have helped agents where those that nobody looked at did not.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.intake.importing import import_all
from relight.judging.scoring import score_session
from relight.model import Imported
from relight.reports.weights import read_weights
from relight.store import Store
from relight.warm.capture import find_failed_rules, make_template
from relight.warm.curation import find_neighbours, refuse_crowding, refuse_duplicate, refuse_twin
from relight.warm.library import (
    Template,
    add_version,
    delete_rows,
    read_candidates,
    restore_template,
)
from relight.warm.material import read_material

FAILURE_RATE = 0.05
LEAST_CALLS, LEAST_MESSAGES = 5, 20
LOOKED_AT = 200
# of an import: how many are made and how long it may take, and when a session is over
PROPOSED = 20
PROPOSE_SECONDS = 0.5
QUIET_MS = 3_600_000
TAPE_BYTES = 2_000_000  # compressed; what is longer is left to `template auto`
# Known successes whose calls hardly ever failed, the newest first; made of before are left out.
_BAR = f"""
    from session
    where outcome = 'success' and root_id = session.id and is_frozen = 0
        and (select sum(tool_calls) >= {LEAST_CALLS}
                and sum(tool_failures) <= {FAILURE_RATE} * sum(tool_calls)
            from session_day where session_id = session.id)
        and (select sum(messages) from session_words where session_id = session.id)
            >= {LEAST_MESSAGES}
        and not exists (
            select 1 from template_version where source_session = source || ':' || key)
"""
_NEWEST = "order by started_at desc, session.id"
# a line of a chat file is a whole session, and one that was told how it went has ended
_IS_OVER = "(coalesce(ended_at, 0) <= ? or source = 'chat' or told_outcome is not null)"

logger = logging.getLogger("relight")


class Candidate(Struct, frozen=True):
    """A session that could become a template: the template, or why not."""

    session: str
    template: Template | None
    reason: str


def capture_candidates(
    store: Store, *, dry_run: bool = False, tags: Sequence[str] = (), limit: int = 20
) -> list[Candidate]:
    """Take the candidates that wait, and make templates of the sessions that clear the bar.

    None of those in use has to go for one: where a project's category is full, it is left out.
    With `dry_run` it is only told which they would be.
    """
    planned: list[Template] = []  # what a dry run would have made
    waiting = read_candidates(store)[:limit]
    found = [_take(store, one, planned, dry_run=dry_run) for one in waiting]
    names = f"select session.id, source || ':' || key {_BAR} {_NEWEST} limit {LOOKED_AT}"
    for session_id, name in store.query(names):
        if sum(one.template is not None for one in found) >= limit:
            break
        try:
            template = _make(store, session_id, tags)
            refuse_twin(store, template, planned)
            refuse_crowding(store, template, planned)
            if dry_run:
                planned.append(template)
            else:
                template = add_version(store, template, is_new=True)
            found.append(Candidate(name, template, "clears the bar"))
        except RelightError as error:
            found.append(Candidate(name, None, error.message))
    return found


def import_and_propose(store: Store, **options: Any) -> list[Imported]:
    """Import what is new and keep the best of it as candidates.

    `options` are those of `import_all`.
    """
    result = import_all(store, **options)
    if result.touched:
        propose_candidates(store, result.touched)
    return result.sources


def propose_candidates(
    store: Store,
    touched: Collection[int],
    *,
    now: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Template]:
    """Keep what an import brought and clears the bar as candidates, or as the settings say.

    It is bounded in number and time, since an import must not be slower for it; sessions that
    may still be going on are looked at again by a later one.
    """
    mode = store.config.templates.auto
    if mode == "off":
        return []
    at = int(time.time() * 1000) if now is None else now
    until = clock() + PROPOSE_SECONDS
    made: list[Template] = []
    for session_id in _find_quiet(store, touched, at):
        if len(made) >= PROPOSED or clock() > until:
            break
        try:
            template = _make(store, session_id, ())
            if mode == "use":
                refuse_crowding(store, template)
                made.append(add_version(store, template, is_new=True))
            else:
                refuse_twin(store, template, read_candidates(store))
                made.append(_propose(store, template, at))
        except RelightError:
            continue  # `template auto` tells why
        except Exception as error:  # noqa: BLE001 - what was imported stays, however strange
            logger.warning("no candidate of session %s: %r", session_id, error)
    return made


def _find_quiet(store: Store, touched: Collection[int], now: int) -> list[int]:
    """Those of these sessions, and of the ones put off, that clear the bar and are over."""
    with store.transaction() as database:
        database.executemany(
            "insert or ignore into candidate_due values (?)", [(one,) for one in touched]
        )
        rows = database.execute(
            f"select session.id, {_IS_OVER} {_BAR}"
            " and session.id in (select session_id from candidate_due)"
            " and (select sum(length(records)) from tape_part where session_id = session.id) <= ?"
            f" {_NEWEST}",
            (now - QUIET_MS, TAPE_BYTES),
        ).fetchall()
        database.execute("delete from candidate_due")
        database.executemany(
            "insert into candidate_due values (?)", [(one,) for one, is_over in rows if not is_over]
        )
    return [one for one, is_over in rows if is_over]


def _propose(store: Store, template: Template, now: int) -> Template:
    """Keep a candidate; the oldest of its kind goes where too many wait."""
    kept = add_version(store, replace(template, proposed_at=now), is_new=True)
    most = store.config.templates.max_live_per_category
    waiting = find_neighbours(read_candidates(store), kept)
    waiting.sort(key=lambda one: (one.proposed_at or 0, one.id))
    with store.transaction() as database:
        for one in waiting[: len(waiting) - most] if most else ():
            delete_rows(database, one.id)
    return kept


def _take(store: Store, waiting: Template, planned: list[Template], *, dry_run: bool) -> Candidate:
    session = waiting.source_session or waiting.name
    try:
        refuse_duplicate(store, waiting)
        refuse_crowding(store, waiting, planned)
    except RelightError as error:
        return Candidate(session, None, error.message)
    if dry_run:
        planned.append(waiting)
    else:
        waiting = restore_template(store, waiting.name)
    return Candidate(session, waiting, "was a candidate")


def _make(store: Store, session_id: int, tags: Sequence[str]) -> Template:
    material = read_material(store, session_id)
    score = score_session(material.messages, calls=material.calls, weights=read_weights(store))
    if failed := find_failed_rules(score, material):
        raise RelightError(failed[0])
    template = make_template(store, material, score, tags=[*tags, "auto"])
    refuse_duplicate(store, template)
    return template
