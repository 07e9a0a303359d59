"""Which template a new task should begin with, and why; often the right answer is none."""

import random
from collections.abc import Iterable, Sequence
from itertools import combinations

from msgspec import Struct

from relight.errors import RelightError
from relight.excerpts import clean_text
from relight.relevance import cosine, read_words
from relight.store import Store
from relight.taxonomy import CATEGORIES
from relight.templates import catalogue, record
from relight.templates.library import Template, check_words, read_by_id

CANDIDATES = 400
COMPARED = 12
LISTED = 50
# the share of a template's tools that the session must have
TOOLS_SHARE = 0.9
CONSENSUS_WORTH = 0.5
NEAR = 0.95  # of the best: what comes this close is decided by what each achieved


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
    tools: Sequence[str] | None = None,
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
        if not record.retire_if_harmful(store, choice.template):
            return choice
    return None


def rank_templates(
    store: Store,
    task: str,
    *,
    category: str | None = None,
    tags: Sequence[str] = (),
    tools: Sequence[str] | None = None,
    project: str | None = None,
    agent: str | None = None,
    rng: random.Random | None = None,
) -> list[Choice]:
    """Live templates that fit, best first: by likeness of the task, the same project before others.

    Then come those of the same `agent`, a source's name: another's call their tools otherwise.
    The first few are ranked again by how much they agree on what to do, and near-equals by what
    they achieved (Thompson sampling; without `rng`, dice thrown by the task's own words).
    """
    task = clean_text(task)
    words = read_words(task)
    gate = _make_gate(category, tags, tools)
    catalogue.heal(store)
    with store.reading() as database:
        near = catalogue.find_alike(database, words, limit=CANDIDATES)
        calibration = catalogue.read_calibration(database)
    ids = [one.template_id for one in near]
    found = read_by_id(store, ids[:LISTED]) if ids else {}
    if len(ids) > LISTED and not all(gate.lets_in(one) for one in found.values()):
        found = read_by_id(store, ids)
    fitting = [
        (template, one)
        for one in near
        if (template := found.get(one.template_id)) and gate.lets_in(template)
    ]
    ranked = [
        _Ranked(
            template,
            one.alike,
            calibration.find_floor(one),
            template.project == project is not None,
            _find_agent(template) == agent is not None,
        )
        for template, one in fitting[:LISTED]
    ]
    ranked.sort(key=_standing, reverse=True)
    _add_consensus(ranked[:COMPARED])
    ranked.sort(key=_standing, reverse=True)
    _settle_ties(store, ranked, rng or random.Random(task))
    ranked.sort(key=_standing, reverse=True)
    return [one.tell(project, agent) for one in ranked]


def _find_agent(template: Template) -> str | None:
    """The agent whose session a template was made of; of an imported one, as its file says."""
    if template.source_session:
        return template.source_session.partition(":")[0]
    told: str | None = (template.provenance or {}).get("source")
    return told


def _make_gate(category: str | None, tags: Sequence[str], tools: Sequence[str] | None) -> "_Gate":
    if category is not None and category not in CATEGORIES:
        raise RelightError(f"there is no category {category!r}", f"use {', '.join(CATEGORIES)}")
    check_words(tags=tags, tools=tools or ())
    return _Gate(category, frozenset(tags), None if tools is None else frozenset(tools))


class _Gate(Struct, frozen=True):
    category: str | None
    tags: frozenset[str]
    tools: frozenset[str] | None

    def lets_in(self, template: Template) -> bool:
        if self.category is not None and template.category != self.category:
            return False
        if not self.tags <= set(template.tags):
            return False
        if self.tools is None or not template.tools:
            return True
        present = sum(tool in self.tools for tool in template.tools)
        return present >= TOOLS_SHARE * len(template.tools)


class _Ranked(Struct):
    template: Template
    similarity: float
    floor: float
    is_same_project: bool
    is_same_agent: bool
    consensus: float = 0.0
    draw: float = 0.0
    achieved: str | None = None

    @property
    def is_above_floor(self) -> bool:
        return self.similarity >= self.floor

    @property
    def worth(self) -> float:
        return self.similarity * (1 + CONSENSUS_WORTH * self.consensus)

    @property
    def kinship(self) -> tuple[bool, bool]:
        """What goes before any likeness, once there is enough of it."""
        return self.is_same_project, self.is_same_agent

    def tell(self, project: str | None, agent: str | None) -> Choice:
        reasons = [f"its task is {self.similarity:.0%} like this one"]
        if not self.is_above_floor:
            reasons.append(f"that is below the floor of {self.floor:.0%}: none is given")
        if project is not None:
            same = "the same" if self.is_same_project else "another"
            reasons.append(f"it is of {same} project")
        if agent is not None and self.is_same_agent:
            reasons.append("it is of the same agent")
        if self.consensus:
            reasons.append(f"{self.consensus:.0%} agreement with others like it on what to do")
        if self.achieved:
            reasons.append(self.achieved)
        return Choice(self.template, self.similarity, reasons, self.is_above_floor)


def _standing(one: _Ranked) -> tuple[bool, tuple[bool, bool], float, float, str]:
    kinship = one.kinship if one.is_above_floor else (False, False)
    return one.is_above_floor, kinship, one.draw, one.worth, one.template.name


def _add_consensus(ranked: Sequence[_Ranked]) -> None:
    """Give each how alike its actions are, on average, to those of the others."""
    sums = [0.0] * len(ranked)
    for a, b in combinations(range(len(ranked)), 2):
        alike = cosine(ranked[a].template.actions, ranked[b].template.actions)
        sums[a] += alike
        sums[b] += alike
    for one, total in zip(ranked, sums, strict=True):
        one.consensus = total / (len(ranked) - 1) if len(ranked) > 1 else 0.0


def _settle_ties(store: Store, ranked: Sequence[_Ranked], rng: random.Random) -> None:
    """Among those nearly as good as the first, draw a success rate from what each achieved."""
    if not ranked or not ranked[0].is_above_floor:
        return
    first = ranked[0]
    close = [
        one
        for one in ranked
        if one.worth >= NEAR * first.worth and one.is_above_floor and one.kinship == first.kinship
    ]
    if len(close) < 2:
        return
    for one, posterior in zip(close, _read_posteriors(store, close), strict=True):
        one.draw = rng.betavariate(posterior.a, posterior.b)
        one.achieved = posterior.tell()


def _read_posteriors(store: Store, close: Iterable[_Ranked]) -> list[record.Posterior]:
    return record.read_posteriors(store, [one.template for one in close])
