"""Templates made without a person's request, from recorded sessions that clear a high bar.

After an import they are candidates, which wait for a person: sessions hold text from anywhere, and
in studies only templates that people had chosen helped agents.
"""

import logging
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.judging.scoring import score_session
from relight.reports.labels import read_fitted_weights
from relight.store import Store
from relight.store.candidates import find_good_sessions
from relight.warm import library
from relight.warm.automatic import BAR
from relight.warm.capture import Wish, list_tasks, make_template
from relight.warm.curation import find_neighbours, refuse_crowding, refuse_duplicate, refuse_twin
from relight.warm.gate import find_failed_rules, make_figures
from relight.warm.library import Template
from relight.warm.material import Material, read_material

CHECKED = 200

logger = logging.getLogger("relight")


class Candidate(Struct, frozen=True):
    """A session that could become a template: the template, or why not."""

    session: str
    template: Template | None
    reason: str


class ProposedTemplate(Struct, frozen=True):
    """A candidate in figures: the template that was made of a session, or why none was."""

    session_id: str
    template: str | None
    category: str | None
    reason: str


class ProposedTemplates(Struct, frozen=True):
    """The sessions that `template auto` looked at, and whether it only looked."""

    dry_run: bool
    candidates: list[ProposedTemplate]


def show_candidate(one: Candidate) -> ProposedTemplate:
    made = one.template
    name, category = (made.name, made.category) if made else (None, None)
    return ProposedTemplate(one.session, name, category, one.reason)


def capture_candidates(
    store: Store, *, dry_run: bool = False, tags: Sequence[str] = (), limit: int = 20
) -> list[Candidate]:
    """Accept the waiting candidates, and make templates of the sessions that clear the bar.

    No live template retires for one: if a project's category is full, it is left out. With
    `dry_run` nothing is stored.
    """
    planned: list[Template] = []  # by a dry run
    waiting = library.read_candidates(store)[:limit]
    found = [_accept(store, one, planned, dry_run=dry_run) for one in waiting]
    for session_id, name in find_good_sessions(store, BAR, limit=CHECKED):
        if sum(one.template is not None for one in found) >= limit:
            break
        try:
            tasks = list_tasks(store, read_material(store, session_id))
        except RelightError as error:
            found.append(Candidate(name, None, error.message))
            continue
        for material in tasks:
            try:
                template = _make(store, material, tags)
                refuse_twin(store, template, planned)
                refuse_crowding(store, template, planned)
                if dry_run:
                    planned.append(template)
                else:
                    template = library.add_version(store, template, is_new=True)
                found.append(Candidate(name, template, "clears the bar"))
            except RelightError as error:
                found.append(Candidate(name, None, error.message))
    return found


def make_candidates(
    store: Store, sessions: Iterable[int], *, at: int, is_used: bool, limit: int
) -> list[Template]:
    """Make candidates of sessions that clear the bar, or templates in use if `is_used`."""
    made: list[Template] = []
    for session_id in sessions:
        try:
            tasks = list_tasks(store, read_material(store, session_id))
            offered = [_offer(store, one, at=at, is_used=is_used) for one in tasks]
            made += [one for one in offered if one is not None]
        except RelightError:
            continue  # `template auto` reports why
        except Exception as error:  # noqa: BLE001 - no error here may fail an import
            logger.warning("no candidate of session %s: %r", session_id, error)
        if len(made) >= limit:
            break
    return made


def _offer(store: Store, material: Material, *, at: int, is_used: bool) -> Template | None:
    """Add the template of a task, in use or as a candidate; None if it is refused."""
    try:
        template = _make(store, material, ())
        if is_used:
            refuse_crowding(store, template)
            return library.add_version(store, template, is_new=True)
        refuse_twin(store, template, library.read_candidates(store))
        return _propose(store, template, at)
    except RelightError:
        return None  # `template auto` reports why


def _propose(store: Store, template: Template, now: int) -> Template:
    """Add a candidate; the oldest of its category is deleted if too many wait.

    Those of the same import stay: it proposes the newest sessions first.
    """
    most = store.config.templates.max_live_per_category
    waiting = find_neighbours(library.read_candidates(store), template)
    waiting.sort(key=lambda one: one.proposed_at or 0)
    if most and sum(one.proposed_at == now for one in waiting) >= most:
        raise RelightError(f"{most} newer candidates of {template.category} wait")
    added = library.add_version(store, replace(template, proposed_at=now), is_new=True)
    if most and len(waiting) >= most:
        library.delete_templates(store, waiting[: len(waiting) + 1 - most])
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
        waiting = library.restore_template(store, waiting.name)
    return Candidate(session, waiting, "was a candidate")


def _make(store: Store, material: Material, tags: Sequence[str]) -> Template:
    score = score_session(
        material.messages, calls=material.calls, weights=read_fitted_weights(store)
    )
    figures = make_figures(score, material.outcome, material.evidence)
    if failed := find_failed_rules(figures, most=BAR.failure_rate):
        raise RelightError(failed[0])
    template = make_template(store, material, score, Wish(tags=[*tags, "auto"]))
    refuse_duplicate(store, template)
    return template
