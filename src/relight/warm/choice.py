"""The choice of a template for a new task, with its reasons; often no template is right."""

import random
from collections.abc import Mapping, Sequence

from msgspec import Struct

from relight.chat.shorten import clean_text
from relight.chat.similarity import name_words, weigh_words
from relight.errors import RelightError, describe, refuse
from relight.judging.kinds import CATEGORIES
from relight.store import Store
from relight.store.sql import Connection
from relight.store.template_words import read_calibration
from relight.store.templates import read_live_ids, read_words
from relight.warm import index, results
from relight.warm.index import find_floor, find_holders
from relight.warm.injection import read_tools
from relight.warm.library import Template, check_words, read_by_id
from relight.warm.likeness import FIELDS, WordComparison

LISTED = 50
# templates that are compared, those of the same project first
COMPARED = 200
# so many templates of a project show what its tasks take; one of them is always given
ENOUGH = 3
NEAR = 0.95  # of the best: within this share, results decide
NAMED = 3  # words in a reason
USUAL = "its steps are the most usual for such tasks here"
NOTHING = "no template is like this task"
# the share of a template's tools that the session must have
TOOLS_SHARE = 0.9
_ROUNDING = 1e-9


class Wanted(Struct, frozen=True):
    """The requirements of a session for a template.

    Category, tags and tools exclude templates; project and agent only rank them.
    """

    category: str | None = None
    tags: frozenset[str] = frozenset()
    # None if the session's tools are not known
    tools: frozenset[str] | None = None
    project: str | None = None
    # the name of a source; other agents name their tools differently
    agent: str | None = None

    def explain(self, template: Template) -> str | None:
        """Return why a template is excluded; None if it is not."""
        if self.category not in (None, template.category):
            return f"its category is {template.category}, not {self.category}"
        if missing := sorted(self.tags.difference(template.tags)):
            return f"it has no tag {', '.join(missing)}"
        lacking = sorted(set(template.tools) - (self.tools or set()))
        most = (1 - TOOLS_SHARE + _ROUNDING) * len(template.tools)
        if self.tools is not None and len(lacking) > most:
            return f"it calls {', '.join(lacking)}, which the session lacks"
        return None

    def find_allowed(self, database: Connection) -> set[int] | None:
        """Return the live templates that are not excluded; None if all are allowed."""
        sets = [set(find_holders(database, "tag", tag)) for tag in self.tags]
        if self.category is not None:
            sets.append(set(find_holders(database, "category", self.category)))
        if self.tools is not None:
            shares = index.find_lacking(database, self.tools)
            limit = 1 - TOOLS_SHARE + _ROUNDING
            if lacking := {one for one, share in shares.items() if share > limit}:
                sets.append(read_live_ids(database) - lacking)
        return set.intersection(*sets) if sets else None


def make_wanted(
    *,
    category: str | None = None,
    tags: Sequence[str] = (),
    tools: Sequence[object] | None = None,
    project: str | None = None,
    agent: str | None = None,
) -> Wanted:
    """Return the requirements of a session, validated."""
    if category is not None and category not in CATEGORIES:
        raise RelightError(f"there is no category {category!r}", f"use {', '.join(CATEGORIES)}")
    check_words(tags=tags)
    return Wanted(category, frozenset(tags), read_tools(tools), project, agent)


class Choice(Struct, frozen=True):
    """A template for a task, the similarity of the two, and the reasons for it."""

    template: Template
    similarity: float
    reasons: list[str]
    is_above_floor: bool = True


def choose_template(
    store: Store,
    task: str,
    *,
    category: str | None = None,
    tags: Sequence[str] = (),
    tools: Sequence[object] | None = None,
    project: str | None = None,
    agent: str | None = None,
    rng: random.Random | None = None,
) -> Choice | None:
    """Return the template to begin a task with; None if no template is like it.

    A template that proves harmful is retired instead of chosen.
    """
    wanted = make_wanted(category=category, tags=tags, tools=tools, project=project, agent=agent)
    return find_choice(store, check_task(task), wanted, rng=rng)


def rank_templates(
    store: Store,
    task: str,
    *,
    category: str | None = None,
    tags: Sequence[str] = (),
    tools: Sequence[object] | None = None,
    project: str | None = None,
    agent: str | None = None,
    rng: random.Random | None = None,
) -> list[Choice]:
    """Return the live templates that fit, best first.

    Templates of the same project come first, then those of the same `agent`, a source's name.
    Within a project those come first whose actions are nearest to what such tasks took there;
    elsewhere the similarity decides. Near-equals are ranked by their results (Thompson sampling;
    without `rng`, seeded by the task).
    """
    wanted = make_wanted(category=category, tags=tags, tools=tools, project=project, agent=agent)
    return rank(store, check_task(task), wanted, rng=rng)


def find_choice(
    store: Store, task: str, wanted: Wanted, *, rng: random.Random | None = None
) -> Choice | None:
    """Return the best template that is similar enough and not harmful, if any."""
    for choice in rank(store, task, wanted, rng=rng):
        if choice.is_above_floor and not results.retire_if_harmful(store, choice.template):
            return choice
    return None


def rank(
    store: Store, task: str, wanted: Wanted, *, rng: random.Random | None = None
) -> list[Choice]:
    """Return the live templates that fit, best first, as `rank_templates` does."""
    index.heal(store)
    with store.reading() as database:
        allowed = wanted.find_allowed(database)
        allowed = read_live_ids(database) if allowed is None else allowed
        own, kin = (
            allowed & find_holders(database, kind, value).keys() if value is not None else set()
            for kind, value in (("project", wanted.project), ("agent", wanted.agent))
        )
        words = weigh_words(task)
        rare = index.drop_common(database, words)
        ids = index.find_candidates(database, words, limit=COMPARED, among=own)
        ids += index.find_candidates(
            database,
            words,
            limit=max(LISTED, COMPARED - len(ids)),
            among=allowed - own,
            group=lambda one: one in kin,
        )
        comparison = WordComparison(read_words(database, ids))
        calibration = read_calibration(database)
    likeness = comparison.compare(rare)
    alike = likeness.similarity
    usual = comparison.expect_actions({one: alike[one] for one in alike if one in own})
    if len(usual) < ENOUGH:
        usual = {}
    places = [
        _Ranked(
            id=one,
            similarity=value,
            floor=0.0 if one in usual else find_floor(calibration, likeness, one),
            is_same_project=one in own,
            is_same_agent=one in kin,
            value=usual.get(one, value),
        )
        for one, value in alike.items()
        if value or one in usual
    ]
    places.sort(key=lambda one: (one.standing, -one.id), reverse=True)
    found = read_by_id(store, [one.id for one in places[:LISTED]])
    ranked = [one for one in places if one.id in found]
    _settle_ties(store, ranked, found, rng or random.Random(task))
    ranked.sort(key=lambda one: (one.standing, found[one.id].name), reverse=True)
    for one in ranked[:1]:  # its actions put it before a nearer text
        one.is_usual = any(alike[other] > one.similarity for other in usual)
    names = name_words(task)
    return [
        one.explain(found[one.id], wanted, likeness.find_shared(one.id), names) for one in ranked
    ]


def check_task(task: object) -> str:
    """Return the text of a task without characters that no request can carry."""
    if not isinstance(task, str):
        raise refuse("task", f"must be a text, not {describe(task)}")
    return clean_text(task)


def explain_absence(store: Store, task: str, wanted: Wanted) -> str:
    """Return why no template is given for a task: none is like it, or the nearest is excluded."""
    if wanted.category is None and not wanted.tags and wanted.tools is None:
        return NOTHING
    nearest = next(iter(rank(store, task, Wanted())), None)
    if nearest is None or not nearest.is_above_floor:
        return NOTHING
    why = wanted.explain(nearest.template)
    return f"{nearest.template.name} is like this task, but {why}" if why else NOTHING


class _Ranked(Struct, kw_only=True):
    """A template's place by its likeness to a task, its actions and where it comes from."""

    id: int
    similarity: float
    floor: float
    is_same_project: bool
    is_same_agent: bool
    # the nearness of its actions in the same project, else the similarity
    value: float
    # among near-equals, a draw by their results
    draw: float = 0.0
    achieved: str | None = None
    is_usual: bool = False

    @property
    def is_above_floor(self) -> bool:
        return self.similarity >= self.floor

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """Return what precedes the value, once the similarity is above the floor."""
        is_above = self.is_above_floor
        return is_above, is_above and self.is_same_project, is_above and self.is_same_agent

    @property
    def standing(self) -> tuple[tuple[bool, bool, bool], float, float, float]:
        return self.rank, self.draw, self.value, self.similarity

    def explain(
        self,
        template: Template,
        wanted: Wanted,
        shared: Sequence[tuple[str, str]],
        names: Mapping[str, str],
    ) -> Choice:
        parts = [f"{names.get(word, word)} ({FIELDS[field]})" for word, field in shared[:NAMED]]
        by = f" by {', '.join(parts)}" if parts else ""
        reasons = [f"it is {self.similarity:.0%} like this one{by}"]
        if not self.is_above_floor:
            reasons.append(f"that is below the floor of {self.floor:.0%}: none is given")
        if wanted.project is not None:
            same = "the same" if self.is_same_project else "another"
            reasons.append(f"it is of {same} project")
        if wanted.agent is not None and self.is_same_agent:
            reasons.append("it is of the same agent")
        if self.is_usual:
            reasons.append(USUAL)
        if self.achieved:
            reasons.append(self.achieved)
        return Choice(template, self.similarity, reasons, self.is_above_floor)


def _settle_ties(
    store: Store, ranked: Sequence[_Ranked], found: Mapping[int, Template], rng: random.Random
) -> None:
    """Draw a success rate for each template nearly as good as the first.

    Without any known results the draws would only shuffle them.
    """
    close = [
        one
        for one in ranked
        if one.is_above_floor and one.rank == ranked[0].rank and one.value >= NEAR * ranked[0].value
    ]
    if len(close) < 2:
        return
    posteriors = results.read_posteriors(store, [found[one.id] for one in close])
    if not any(posterior.known for posterior in posteriors):
        return
    for one, posterior in zip(close, posteriors, strict=True):
        one.draw = rng.betavariate(posterior.a, posterior.b)
        one.achieved = posterior.describe()
