"""Few and good templates: no duplicates, and no more in a category than a person can review."""

from collections.abc import Sequence
from shlex import quote

from relight.chat.similarity import Vector, cosine, rarity, weigh_words
from relight.errors import RelightError
from relight.store import Store
from relight.store.template_words import read_calibration, read_rarities
from relight.store.templates import find_same_seed
from relight.warm import index, library, results
from relight.warm.gate import refuse_repetition
from relight.warm.library import Template

# similarity of task and of actions above which two templates are duplicates
DUPLICATE = 0.9
COMPARED = 20
# outcomes of the source sessions, the weakest first
_OUTCOMES = ("failure", "unknown", "success")


class DuplicateError(RelightError):
    """A live template has nearly the same task and actions as another one."""

    def __init__(self, name: str, alike: float) -> None:
        hint = f"retire that one first: relight template retire {quote(name)}"
        super().__init__(
            f"it is nearly the same as {name}: {alike:.0%} alike in task and actions", hint
        )
        self.name = name


def offer_force(objection: RelightError, command: str) -> RelightError:
    """Return an objection with the ways to overrule it."""
    hint = f"`relight template {command} --force`, in Python `force=True`, adds it anyway"
    ways = [str(objection.hint), hint]
    if isinstance(objection, DuplicateError) and command == "create":
        ways.insert(1, f"the name {objection.name} makes it a new version of that")
    return RelightError(objection.message, "; ".join(ways))


def find_objections(store: Store, template: Template) -> list[RelightError]:
    """Return the objections to a template beside the live ones; only a person may overrule them.

    Raise if a live template of the project has the same seed.
    """
    found = (find_duplicate(store, template), find_weakness(store, template))
    return [objection for objection in found if objection]


def refuse_duplicate(store: Store, template: Template) -> None:
    """Raise if a live template is nearly the same."""
    if duplicate := find_duplicate(store, template):
        raise duplicate


def find_duplicate(store: Store, template: Template) -> RelightError | None:
    """Return the objection that a live template has nearly the same task and actions, if any."""
    for other in _find_near(store, template):
        if other.content_hash == template.content_hash:
            raise refuse_repetition(other.name)
        if other.name == template.name:
            continue  # a new version may be like the old one
        if (alike := compare_templates(store, template, other)) >= DUPLICATE:
            return DuplicateError(other.name, alike)
    return None


def refuse_twin(store: Store, template: Template, waiting: Sequence[Template]) -> None:
    """Raise if a waiting candidate is nearly the same."""
    for other in waiting:
        if compare_templates(store, template, other) >= DUPLICATE:
            raise RelightError(f"it is nearly the same as the candidate {other.name}")


def compare_templates(store: Store, template: Template, other: Template) -> float:
    """Return the similarity of two templates in task and actions; 0 in different projects."""
    if other.project != template.project:
        return 0.0
    actions = cosine(template.actions, other.actions)
    if actions < DUPLICATE:  # the tasks' words, which are slow to read, could only lower it
        return actions
    return min(actions, compare_tasks(store, template.task, other))


def compare_tasks(store: Store, task: str, other: Template) -> float:
    """Return the similarity of a task's text with that of a template's task."""
    tasks = weigh_words(task), weigh_words(other.task)
    is_counted = other.id != 0 and other.state == "live"
    return min(cosine(*tasks), _compare_rare(store, *tasks, is_counted=is_counted))


def _compare_rare(store: Store, task: Vector, other: Vector, *, is_counted: bool) -> float:
    """Return the similarity of two tasks in the words that distinguish tasks here.

    A word that every task holds weighs nothing: instructions may make up nine tenths of all
    tasks. Numbers, by which runs of the same task differ, weigh nothing either. `is_counted`
    says that the other task is in the index; the first is not.
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
    """Return the templates of the same project that a template could duplicate."""
    index.heal(store)
    with store.reading() as database:
        own = set(index.find_holders(database, "project", template.project or ""))
        near = index.find_candidates(
            database, weigh_words(template.task), limit=COMPARED, among=own
        )
    return list(library.read_by_id(store, [*near, *find_same_seed(store, template)]).values())


def drop_candidates(store: Store, added: Template) -> None:
    """Delete the candidates that a new template makes redundant."""
    redundant = [
        one
        for one in library.read_candidates(store)
        if one.id != added.id
        and (
            one.source_session == added.source_session
            or (one.content_hash, one.project) == (added.content_hash, added.project)
        )
    ]
    library.delete_templates(store, redundant)


def find_neighbours(templates: Sequence[Template], template: Template) -> list[Template]:
    """Return those templates that share a template's project and category."""
    place = (template.project, template.category)
    return [one for one in templates if (one.project, one.category) == place]


def refuse_crowding(store: Store, template: Template, planned: Sequence[Template] = ()) -> None:
    """Raise if another template would have to retire, counting the planned ones."""
    most = store.config.templates.max_live_per_category
    there = len(library.read_siblings(store, template)) + len(find_neighbours(planned, template))
    if most and there >= most:
        raise RelightError(
            f"{template.category} has its {most} templates in use already: retire one first"
        )


def take_into_use(store: Store, template: Template) -> list[Template]:
    """Make a retired template or candidate live; return those that retired for it."""
    for objection in find_objections(store, template):
        raise objection
    return retire_weakest(store, library.restore_template(store, template.name))


def find_weakness(store: Store, template: Template) -> RelightError | None:
    """Return the objection that a template with a better outcome would have to retire, if any."""
    own = _OUTCOMES.index(template.outcome)
    for one in find_weakest(store, template):
        if _OUTCOMES.index(one.outcome) > own:
            most = store.config.templates.max_live_per_category
            return RelightError(
                f"{template.category} has its {most} templates in use, and it is the weakest:"
                f" its outcome is {template.outcome}, that of {one.name} is {one.outcome}",
                f"retire one first: relight template retire {quote(one.name)}",
            )
    return None


def find_weakest(store: Store, template: Template, *, now: int | None = None) -> list[Template]:
    """Return the templates that must retire for a new one, the weakest first.

    The new template itself is never among them. Those of other tasks of its session come last: one
    capture makes them all, and the next one would make again what this one retires.
    """
    if not (most := store.config.templates.max_live_per_category):
        return []
    others = [one for one in library.read_siblings(store, template) if one.name != template.name]
    if len(others) < most:
        return []
    weakest = sort_by_worth(store, others, now=now)
    weakest.sort(key=lambda one: (one.source_session or "") == template.source_session)
    return weakest[: len(others) + 1 - most]


def sort_by_worth(
    store: Store, templates: Sequence[Template], *, now: int | None = None
) -> list[Template]:
    """Return templates from the weakest to the best.

    The outcome of the source session decides first, then the results, then the score, then age.
    """
    posteriors = results.read_posteriors(store, templates, now=now)
    ranked = sorted(
        zip(templates, posteriors, strict=True),
        key=lambda pair: (
            _OUTCOMES.index(pair[0].outcome),
            round(pair[1].rate, 6),
            pair[0].score or 0.0,
            pair[0].created_at,
        ),
    )
    return [one for one, _ in ranked]


def retire_weakest(store: Store, added: Template, *, now: int | None = None) -> list[Template]:
    """Retire what exceeds the number of live templates in a category, and return it."""
    weakest = find_weakest(store, added, now=now)
    most = store.config.templates.max_live_per_category
    for one in weakest:
        why = f"the weakest of more than {most} in {added.category} when {added.name} came"
        library.retire_template(store, one.name, why=why, now=now)
    return weakest
