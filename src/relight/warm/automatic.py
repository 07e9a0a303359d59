"""Templates made without a person's request, from recorded sessions that clear a high bar.

After an import they are candidates, which wait for a person: sessions hold text from anywhere, and
in studies only templates that people had chosen helped agents.
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
from relight.reports.labels import read_weights
from relight.sources import list_sources
from relight.store import Store
from relight.store.candidates import SessionBar, find_good_sessions, take_due
from relight.warm.capture import find_failed_rules, make_template, read_material
from relight.warm.curation import find_neighbours, refuse_crowding, refuse_duplicate, refuse_twin
from relight.warm.library import (
    Template,
    add_version,
    delete_templates,
    read_candidates,
    restore_template,
)

BAR = SessionBar(least_calls=5, least_messages=20, failure_rate=0.05)
CHECKED = 200
# limits of the work after an import, and the time after which a quiet session is over
PROPOSED = 20
PROPOSE_SECONDS = 0.5
QUIET_MS = 3_600_000
TAPE_BYTES = 2_000_000  # compressed; longer sessions are left to `template auto`

logger = logging.getLogger("relight")


class Candidate(Struct, frozen=True):
    """A session that could become a template: the template, or why not."""

    session: str
    template: Template | None
    reason: str


def capture_candidates(
    store: Store, *, dry_run: bool = False, tags: Sequence[str] = (), limit: int = 20
) -> list[Candidate]:
    """Accept the waiting candidates, and make templates of the sessions that clear the bar.

    No live template retires for one: if a project's category is full, it is left out. With
    `dry_run` nothing is stored.
    """
    planned: list[Template] = []  # by a dry run
    waiting = read_candidates(store)[:limit]
    found = [_accept(store, one, planned, dry_run=dry_run) for one in waiting]
    for session in find_good_sessions(store, BAR, limit=CHECKED):
        if sum(one.template is not None for one in found) >= limit:
            break
        try:
            template = _make(store, session.id, tags)
            refuse_twin(store, template, planned)
            refuse_crowding(store, template, planned)
            if dry_run:
                planned.append(template)
            else:
                template = add_version(store, template, is_new=True)
            found.append(Candidate(session.name, template, "clears the bar"))
        except RelightError as error:
            found.append(Candidate(session.name, None, error.message))
    return found


def import_and_propose(store: Store, **options: Any) -> list[Imported]:
    """Import new records and propose the best sessions as candidates.

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
    """Add imported sessions that clear the bar as candidates, or as the settings say.

    Number and time are limited, so that imports stay fast. Sessions that may still go on are
    checked again after a later import.
    """
    mode = store.config.templates.auto
    if mode == "off":
        return []
    at = int(time.time() * 1000) if now is None else now
    until = clock() + PROPOSE_SECONDS
    made: list[Template] = []
    ready = take_due(
        store,
        touched,
        BAR,
        over_before=at - QUIET_MS,
        tape_bytes=TAPE_BYTES,
        complete=[one.name for one in list_sources().values() if one.is_complete],
    )
    for session_id in ready:
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
            continue  # `template auto` reports why
        except Exception as error:  # noqa: BLE001 - no error here may fail an import
            logger.warning("no candidate of session %s: %r", session_id, error)
    return made


def _propose(store: Store, template: Template, now: int) -> Template:
    """Add a candidate; the oldest of its category is deleted if too many wait."""
    added = add_version(store, replace(template, proposed_at=now), is_new=True)
    most = store.config.templates.max_live_per_category
    waiting = find_neighbours(read_candidates(store), added)
    waiting.sort(key=lambda one: (one.proposed_at or 0, one.id))
    if most and len(waiting) > most:
        delete_templates(store, waiting[: len(waiting) - most])
    return added


def _accept(
    store: Store, waiting: Template, planned: list[Template], *, dry_run: bool
) -> Candidate:
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
