"""Which template a new task should begin with, and why; often the right answer is none."""

import random
from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct

from relight.chat.shorten import clean_text
from relight.chat.similarity import cosine, read_words
from relight.checks import describe, refuse
from relight.store import Store
from relight.warm import catalogue, results
from relight.warm.gate import make_gate
from relight.warm.library import Template, read_by_id
from relight.warm.nearest import Near, find_alike, find_holders, name_facet, read_calibration

COMPARED = 12
LISTED = 50
NEAR = 0.95  # of the nearest: what comes this close is decided by what each achieved
# what full agreement adds to a likeness: no more than what counts as nearly the same
CONSENSUS_WORTH = 1 - NEAR
NOTHING = "no template is like this task"


class Choice(Struct, frozen=True):
    """A template for a task: how like it the task is, and what spoke for it."""

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
    """The template to begin a task with; None where nothing is like it.

    One that was shown to do harm is retired on the way.
    """
    for choice in rank_templates(
        store,
        task,
        category=category,
        tags=tags,
        tools=tools,
        project=project,
        agent=agent,
        rng=rng,
    ):
        if not choice.is_above_floor:
            continue
        if not results.retire_if_harmful(store, choice.template):
            return choice
    return None


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
    """Live templates that fit, best first: by likeness of the task, the same project before others.

    Then come those of the same `agent`, a source's name: another's call their tools otherwise.
    Near-equals are ranked by what they achieved (Thompson sampling; without `rng`, dice thrown by
    the task's own words), and before anything is known of that by how much they agree with the
    others on what to do. Neither makes up for a task that is clearly less like this one.
    """
    task = check_task(task)
    gate = make_gate(category=category, tags=tags, tools=tools)
    catalogue.heal(store)
    with store.reading() as database:
        kin = [
            find_holders(database, [name_facet(kind, value)] if value is not None else [])
            for kind, value in (("project", project), ("agent", agent))
        ]
        near = find_alike(
            database,
            read_words(task),
            limit=LISTED // (1 + (project is not None) + (agent is not None)),
            among=gate.find_allowed(database),
            group=lambda one: (one in kin[0], one in kin[1]),
        )
        calibration = read_calibration(database)
    places = [
        _Place(one, calibration.find_floor(one), *(one.template_id in some for some in kin))
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
    return [one.tell(project, agent) for one in ranked]


def check_task(task: object) -> str:
    """The text of a task, whatever it says, without what no request can carry."""
    if not isinstance(task, str):
        raise refuse("task", f"must be a text, not {describe(task)}")
    return clean_text(task)


def explain_nothing(
    store: Store,
    task: str,
    *,
    category: str | None = None,
    tags: Sequence[str] = (),
    tools: Sequence[object] | None = None,
) -> str:
    """Why no template is given for a task: none is like it, or what keeps the nearest out."""
    gate = make_gate(category=category, tags=tags, tools=tools)
    nearest = next((one for one in rank_templates(store, task) if one.is_above_floor), None)
    why = gate.explain(nearest.template) if nearest else None
    return f"{nearest.template.name} is like this task, but {why}" if nearest and why else NOTHING


class _Place(Struct, frozen=True):
    """Where a template stands by its likeness to the task, and by where it comes from."""

    near: Near
    floor: float
    is_same_project: bool
    is_same_agent: bool

    @property
    def is_above_floor(self) -> bool:
        return self.near.alike >= self.floor

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """What goes before any likeness, once there is enough of it."""
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

    def tell(self, project: str | None, agent: str | None) -> Choice:
        similarity, place = self.place.near.alike, self.place
        reasons = [f"its task is {similarity:.0%} like this one"]
        if not place.is_above_floor:
            reasons.append(f"that is below the floor of {place.floor:.0%}: none is given")
        if project is not None:
            same = "the same" if place.is_same_project else "another"
            reasons.append(f"it is of {same} project")
        if agent is not None and place.is_same_agent:
            reasons.append("it is of the same agent")
        if self.consensus:
            reasons.append(f"{self.consensus:.0%} agreement with others like it on what to do")
        if self.achieved:
            reasons.append(self.achieved)
        return Choice(self.template, similarity, reasons, place.is_above_floor)


def _add_consensus(ranked: Sequence[_Ranked]) -> None:
    """Give each how alike its actions are, on average, to those of the others.

    How often a word stands in them is left out: who does a thing over and over does not agree
    the more with those who do it once.
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
    """Among those nearly as like the task as the first, draw a success rate from each's record.

    Where none has a record the draws would only shuffle them.
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
        one.achieved = posterior.tell()
