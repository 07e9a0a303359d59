"""Few and good: no template twice, and no more of a kind than a person could look after."""

from collections.abc import Sequence

from relight.errors import RelightError
from relight.relevance import Vector, cosine, read_words
from relight.store import Store
from relight.templates import catalogue, record
from relight.templates.library import (
    Template,
    delete_rows,
    read_by_id,
    read_candidates,
    read_templates,
    restore_template,
    retire_template,
)

# of task and of actions: what is as alike as this in both is the same template again
DUPLICATE = 0.9
COMPARED = 20


def refuse_duplicate(store: Store, template: Template) -> None:
    """Refuse what is live already: the same seed, or a task and actions all but the same."""
    task = read_words(template.task)
    for other in _find_near(store, template, task):
        if other.content_hash == template.content_hash:
            raise RelightError(f"{other.name} holds the same already")
        if other.name == template.name:
            continue  # a new version may be like the old one
        if (alike := compare(template, other, task)) >= DUPLICATE:
            raise RelightError(
                f"it is nearly the same as {other.name}: {alike:.0%} alike in task and actions",
                f"give it that name to make it a new version: --name {other.name}",
            )


def refuse_twin(template: Template, waiting: Sequence[Template]) -> None:
    """Refuse what waits to be taken already."""
    task = read_words(template.task)
    for other in waiting:
        if compare(template, other, task) >= DUPLICATE:
            raise RelightError(f"it is nearly the same as the candidate {other.name}")


def compare(template: Template, other: Template, task: Vector) -> float:
    """How alike two templates are in task and actions; of different projects, not at all."""
    if other.project != template.project:
        return 0.0
    return min(cosine(task, read_words(other.task)), cosine(template.actions, other.actions))


def _find_near(store: Store, template: Template, task: Vector) -> Sequence[Template]:
    catalogue.heal(store)
    with store.reading() as database:
        near = catalogue.find_alike(database, task, limit=COMPARED)
    same = store.query(
        "select template.id from template join template_version on template_id = template.id"
        " where retired_at is null and proposed_at is null and content_hash = ?",
        (template.content_hash,),
    )
    ids = [*(one.template_id for one in near), *(found for (found,) in same)]
    return list(read_by_id(store, ids).values()) if ids else []


def drop_candidates(store: Store, kept: Template) -> None:
    """Let go of the candidates that a template kept now makes needless."""
    gone = [
        one
        for one in read_candidates(store)
        if one.id != kept.id
        and (one.content_hash == kept.content_hash or one.source_session == kept.source_session)
    ]
    with store.transaction() as database:
        for one in gone:
            delete_rows(database, one.id)


def find_neighbours(templates: Sequence[Template], template: Template) -> list[Template]:
    """Those of a template's project and category."""
    place = (template.project, template.category)
    return [one for one in templates if (one.project, one.category) == place]


def refuse_crowding(store: Store, template: Template, planned: Sequence[Template] = ()) -> None:
    """Refuse a template for which another would have to go, beside those only planned yet."""
    most = store.config.max_live_per_category
    there = [*read_templates(store, with_retired=False), *planned]
    if most and len(find_neighbours(there, template)) >= most:
        raise RelightError(
            f"{template.category} has its {most} templates in use already: retire one first"
        )


def take_into_use(store: Store, template: Template) -> list[Template]:
    """Put a template into use that is retired or waits; given are those that had to make room."""
    refuse_duplicate(store, template)
    return retire_weakest(store, restore_template(store, template.name))


def retire_weakest(store: Store, added: Template, *, now: int | None = None) -> list[Template]:
    """Keep to the number of live templates that a project's category may have."""
    most = store.config.max_live_per_category
    live = find_neighbours(read_templates(store, with_retired=False), added)
    others = [one for one in live if one.id != added.id]
    if not most or len(others) < most:
        return []
    achieved = record.read_posteriors(store, others, now=now)
    ranked = sorted(
        zip(others, achieved, strict=True),
        key=lambda pair: (
            round(pair[1].a / (pair[1].a + pair[1].b), 6),
            pair[0].score or 0.0,
            pair[0].created_at,
        ),
    )
    gone = [one for one, _ in ranked[: len(others) + 1 - most]]
    for one in gone:
        why = f"the weakest of more than {most} in {added.category} when {added.name} came"
        retire_template(store, one.name, why=why, now=now)
    return gone
