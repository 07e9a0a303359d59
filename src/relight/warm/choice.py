"""The choice of a template for a new task, with its reasons; often no template is right."""

import random
from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct

from relight.chat.shorten import clean_text
from relight.chat.similarity import cosine, weigh_words
from relight.checks import describe, refuse
from relight.errors import RelightError
from relight.judging.kinds import CATEGORIES
from relight.store import Store
from relight.store.sql import Connection
from relight.store.template_words import read_calibration
from relight.store.templates import read_live_ids
from relight.warm import index, results
from relight.warm.index import Near, find_floor, find_holders
from relight.warm.injection import read_tools
from relight.warm.library import Template, check_words, read_by_id

COMPARED = 12
LISTED = 50
NEAR = 0.95  # of the nearest: within this share, results decide
# what full agreement adds to a similarity: no more than the share that counts as near
CONSENSUS_WORTH = 1 - NEAR
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
    Within these groups the similarity of the task decides. Near-equals are ranked by their
    results (Thompson sampling; without `rng`, seeded by the task), and without results by how
    much they agree with the others on what to do.
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
    wishes = {"project": wanted.project, "agent": wanted.agent}
    with store.reading() as database:
        kin = [
            find_holders(database, kind, value) if value is not None else {}
            for kind, value in wishes.items()
        ]
        near = index.find_alike(
            database,
            weigh_words(task),
            limit=LISTED // (1 + sum(value is not None for value in wishes.values())),
            among=wanted.find_allowed(database),
            group=lambda one: (one in kin[0], one in kin[1]),
        )
        calibration = read_calibration(database)
    places = [
        _Place(one, find_floor(calibration, one), *(one.template_id in some for some in kin))
        for one in near
    ]
    places.sort(key=lambda one: one.standing, reverse=True)
    found = read_by_id(store, [one.near.template_id for one in places])
    ranked = [
        _Ranked(found[one.near.template_id], one) for one in places if one.near.template_id in found
    ]
    _add_consensus(ranked[:COMPARED])
    _settle_ties(store, ranked, rng or random.Random(task))
    ranked.sort(key=lambda one: one.standing, reverse=True)
    return [one.explain(wanted) for one in ranked]


def check_task(task: object) -> str:
    """Return the text of a task without characters that no request can carry."""
    if not isinstance(task, str):
        raise refuse("task", f"must be a text, not {describe(task)}")
    return clean_text(task)


def explain_absence(store: Store, task: str, wanted: Wanted) -> str:
    """Return why no template is given for a task: none is like it, or the nearest is excluded."""
    if wanted.category is None and not wanted.tags and wanted.tools is None:
        return NOTHING
    with store.reading() as database:
        near = index.find_alike(database, weigh_words(task), limit=LISTED)
        calibration = read_calibration(database)
    nearest = next((one for one in near if one.alike >= find_floor(calibration, one)), None)
    if nearest is None:
        return NOTHING
    template = read_by_id(store, [nearest.template_id])[nearest.template_id]
    why = wanted.explain(template)
    return f"{template.name} is like this task, but {why}" if why else NOTHING


class _Place(Struct, frozen=True):
    """A template's place by the similarity of its task and by where it comes from."""

    near: Near
    floor: float
    is_same_project: bool
    is_same_agent: bool

    @property
    def is_above_floor(self) -> bool:
        return self.near.alike >= self.floor

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """Return what precedes the similarity, once that is above the floor."""
        is_above = self.is_above_floor
        return is_above, is_above and self.is_same_project, is_above and self.is_same_agent

    @property
    def standing(self) -> tuple[tuple[bool, bool, bool], float]:
        return self.rank, self.near.alike


class _Ranked(Struct):
    template: Template
    place: _Place
    consensus: float = 0.0
    draw: float = 0.0
    achieved: str | None = None

    @property
    def standing(self) -> tuple[tuple[bool, bool, bool], float, float, str]:
        worth = self.place.near.alike * (1 + CONSENSUS_WORTH * self.consensus)
        return self.place.rank, self.draw, worth, self.template.name

    def explain(self, wanted: Wanted) -> Choice:
        similarity, place = self.place.near.alike, self.place
        reasons = [f"its task is {similarity:.0%} like this one"]
        if not place.is_above_floor:
            reasons.append(f"that is below the floor of {place.floor:.0%}: none is given")
        if wanted.project is not None:
            same = "the same" if place.is_same_project else "another"
            reasons.append(f"it is of {same} project")
        if wanted.agent is not None and place.is_same_agent:
            reasons.append("it is of the same agent")
        if self.consensus:
            reasons.append(f"{self.consensus:.0%} agreement with others like it on what to do")
        if self.achieved:
            reasons.append(self.achieved)
        return Choice(self.template, similarity, reasons, place.is_above_floor)


def _add_consensus(ranked: Sequence[_Ranked]) -> None:
    """Set the mean similarity of each template's actions to those of the others.

    Every word counts once: doing a thing repeatedly is no more agreement than doing it once.
    """
    done = [dict.fromkeys(one.template.actions, 1.0) for one in ranked]
    sums = [0.0] * len(ranked)
    for a, b in combinations(range(len(ranked)), 2):
        alike = cosine(done[a], done[b])
        sums[a] += alike
        sums[b] += alike
    for one, total in zip(ranked, sums, strict=True):
        one.consensus = total / (len(ranked) - 1) if len(ranked) > 1 else 0.0


def _settle_ties(store: Store, ranked: Sequence[_Ranked], rng: random.Random) -> None:
    """Draw a success rate for each template nearly as similar as the first.

    Without any known results the draws would only shuffle them.
    """
    places = [one.place for one in ranked]
    close = [
        one
        for one in ranked
        if one.place.is_above_floor
        and one.place.rank == places[0].rank
        and one.place.near.alike >= NEAR * places[0].near.alike
    ]
    if len(close) < 2:
        return
    posteriors = results.read_posteriors(store, [one.template for one in close])
    if not any(posterior.known for posterior in posteriors):
        return
    for one, posterior in zip(close, posteriors, strict=True):
        one.draw = rng.betavariate(posterior.a, posterior.b)
        one.achieved = posterior.describe()
