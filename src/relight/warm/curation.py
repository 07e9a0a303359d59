"""Few and good: no template twice, and no more of a kind than a person could look after."""

from collections.abc import Sequence

from relight.chat.similarity import Vector, cosine, rarity, read_words
from relight.errors import RelightError
from relight.store import Store
from relight.warm import catalogue, results
from relight.warm.library import (
    Template,
    delete_rows,
    read_by_id,
    read_candidates,
    read_neighbours,
    restore_template,
    retire_template,
)
from relight.warm.nearest import (
    find_alike,
    find_holders,
    name_facet,
    read_calibration,
    read_rarities,
)

# of task and of actions: what is as alike as this in both is the same template again
DUPLICATE = 0.9
COMPARED = 20
# what is known of how the sessions ended, the weakest first
_OUTCOMES = ("failure", "unknown", "success")


def find_objections(store: Store, template: Template) -> list[RelightError]:
    """What speaks against a template beside those in use; only a person may overrule it.

    The very same seed in the same project is refused at once.
    """
    found = (find_duplicate(store, template), find_weakness(store, template))
    return [objection for objection in found if objection]


def refuse_duplicate(store: Store, template: Template) -> None:
    if duplicate := find_duplicate(store, template):
        raise duplicate


def find_duplicate(store: Store, template: Template) -> RelightError | None:
    """The objection to what is in use already: a task and actions all but the same."""
    for other in _find_near(store, template):
        if other.content_hash == template.content_hash:
            raise RelightError(f"{other.name} holds the same already")
        if other.name == template.name:
            continue  # a new version may be like the old one
        if (alike := compare(store, template, other)) >= DUPLICATE:
            return RelightError(
                f"it is nearly the same as {other.name}: {alike:.0%} alike in task and actions",
                f"--name {other.name} makes it a new version of that, --force keeps both",
            )
    return None


def refuse_twin(store: Store, template: Template, waiting: Sequence[Template]) -> None:
    """Refuse what waits to be taken already."""
    for other in waiting:
        if compare(store, template, other) >= DUPLICATE:
            raise RelightError(f"it is nearly the same as the candidate {other.name}")


def compare(store: Store, template: Template, other: Template) -> float:
    """How alike two templates are in task and actions; of different projects, not at all."""
    if other.project != template.project:
        return 0.0
    actions = cosine(template.actions, other.actions)
    if actions < DUPLICATE:  # the words of the tasks, which are dear to read, could only lower it
        return actions
    tasks = read_words(template.task), read_words(other.task)
    is_counted = other.id != 0 and other.state == "live"
    return min(actions, cosine(*tasks), _compare_telling(store, *tasks, is_counted=is_counted))


def _compare_telling(store: Store, task: Vector, other: Vector, *, is_counted: bool) -> float:
    """How alike two tasks are in what tells tasks apart here.

    A word that every task holds weighs nothing: instructions may make up nine tenths of all of
    them. Nor do numbers, by which runs of the same task differ. `is_counted` says that the other
    one is in the catalogue; the first is not yet.
    """
    words = [word for word in {**task, **other} if not any(map(str.isdigit, word))]
    with store.reading() as database:
        known = read_rarities(database, words)
        documents = read_calibration(database).live + 1 + (not is_counted)
    vectors: tuple[Vector, Vector] = {}, {}
    for word in words:
        holding = known[word].holding if word in known else 0
        holding += (word in task) + (not is_counted and word in other)
        if (worth := rarity(documents, holding) - 1) > 0:
            for vector, text in zip(vectors, (task, other), strict=True):
                if word in text:
                    vector[word] = text[word] * worth
    return cosine(*vectors) if any(vectors) else 1.0


def _find_near(store: Store, template: Template) -> Sequence[Template]:
    """The templates of its project that a template could be the same as."""
    catalogue.heal(store)
    with store.reading() as database:
        own = set(find_holders(database, [name_facet("project", template.project or "")]))
        near = find_alike(database, read_words(template.task), limit=COMPARED, among=own)
    same = store.query(
        "select template.id from template join template_version on template_id = template.id"
        " where retired_at is null and proposed_at is null and content_hash = ? and project is ?",
        (template.content_hash, template.project),
    )
    ids = [*(one.template_id for one in near), *(found for (found,) in same)]
    return list(read_by_id(store, ids).values())


def drop_candidates(store: Store, kept: Template) -> None:
    """Let go of the candidates that a template kept now makes needless."""
    gone = [
        one
        for one in read_candidates(store)
        if one.id != kept.id
        and (
            one.source_session == kept.source_session
            or (one.content_hash, one.project) == (kept.content_hash, kept.project)
        )
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
    most = store.config.templates.max_live_per_category
    there = len(read_neighbours(store, template)) + len(find_neighbours(planned, template))
    if most and there >= most:
        raise RelightError(
            f"{template.category} has its {most} templates in use already: retire one first"
        )


def take_into_use(store: Store, template: Template) -> list[Template]:
    """Put a template into use that is retired or waits; given are those that had to make room."""
    for objection in find_objections(store, template):
        raise objection
    return retire_weakest(store, restore_template(store, template.name))


def find_weakness(store: Store, template: Template) -> RelightError | None:
    """The objection to a template for which one would have to go that has more to show."""
    own = _OUTCOMES.index(template.outcome)
    for one in find_weakest(store, template):
        if _OUTCOMES.index(one.outcome) > own:
            most = store.config.templates.max_live_per_category
            return RelightError(
                f"{template.category} has its {most} templates in use, and it is the weakest:"
                f" its outcome is {template.outcome}, that of {one.name} is {one.outcome}",
                f"retire one first: relight template retire {one.name}",
            )
    return None


def find_weakest(store: Store, template: Template, *, now: int | None = None) -> list[Template]:
    """Those that have to go for a template, the weakest first.

    What their sessions came to goes before what each achieved since, which all begin with alike;
    a score says the least. Among its equals a newcomer is never the weakest: it is of today.
    """
    if not (most := store.config.templates.max_live_per_category):
        return []
    others = [one for one in read_neighbours(store, template) if one.name != template.name]
    if len(others) < most:
        return []
    achieved = results.read_posteriors(store, others, now=now)
    ranked = sorted(
        zip(others, achieved, strict=True),
        key=lambda pair: (
            _OUTCOMES.index(pair[0].outcome),
            round(pair[1].a / (pair[1].a + pair[1].b), 6),
            pair[0].score or 0.0,
            pair[0].created_at,
        ),
    )
    return [one for one, _ in ranked[: len(others) + 1 - most]]


def retire_weakest(store: Store, added: Template, *, now: int | None = None) -> list[Template]:
    """Keep to the number of live templates that a project's category may have."""
    gone = find_weakest(store, added, now=now)
    most = store.config.templates.max_live_per_category
    for one in gone:
        why = f"the weakest of more than {most} in {added.category} when {added.name} came"
        retire_template(store, one.name, why=why, now=now)
    return gone
