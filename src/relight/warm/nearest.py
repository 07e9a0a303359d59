"""The templates nearest to a task, found by its words in milliseconds among thousands.

Two steps: those that share the task's telling words are ranked roughly, by weights of the day the
catalogue was made; the first of them are then compared by all words, each as rare as it is now.
So what is found does not depend on when the catalogue was made.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from functools import cache
from itertools import islice
from math import sqrt
from typing import Any, NamedTuple

import msgspec

from relight.chat.shorten import clean_text
from relight.chat.similarity import Vector, rarity, weigh

KEY = "template_catalogue"
# words are looked up from the rarest on, until so many rows would have to be read
POSTINGS = 20_000
# so few need no first step
FEW = 100
FLOOR_DEFAULT = 0.10
# one word in common ("fix", "list") is like everything, unless the tasks hold little else
FLOOR_ONE_WORD = 0.4
_DIGITS = 9  # of a likeness: what differs beyond came of the order in which parts were added


class Calibration(msgspec.Struct, frozen=True):
    """Of how many templates the catalogue was made, how many there are, and below what likeness
    none is given."""

    documents: int = 0
    floor: float = FLOOR_DEFAULT
    live: int = 0
    form: int = 0

    def find_floor(self, near: "Near") -> float:
        """The likeness that this template needs to be given."""
        return self.floor if near.shared > 1 else max(self.floor, FLOOR_ONE_WORD)


class Near(NamedTuple):
    """A template, the cosine of its task with another, and how many words they share."""

    template_id: int
    alike: float
    shared: int


class Rarity(NamedTuple):
    """What a word was worth when the catalogue was made, and how many templates hold it now."""

    value: float
    holding: int


def name_facet(kind: str, value: str = "") -> str:
    """What the catalogue knows a template by beside its words; no word has a space in it.

    >>> name_facet("tool", "bash")
    'tool bash'
    """
    return clean_text(f"{kind} {value}")


def read_calibration(database: sqlite3.Connection) -> Calibration:
    row = database.execute("select value from meta where key = ?", (KEY,)).fetchone()
    return msgspec.json.decode(row[0], type=Calibration) if row else Calibration()


def read_facets(database: sqlite3.Connection, kind: str) -> set[str]:
    """The facets of a kind that any template has."""
    least = name_facet(kind)
    rows = database.execute(
        "select distinct word from template_word where word > ? and word < ?",
        (least, least.replace(" ", "!")),  # the character after the space
    )
    return {facet for (facet,) in rows}


def find_holders(database: sqlite3.Connection, facets: Iterable[str]) -> dict[int, float]:
    """The templates that have any of these facets, with the sum of their weights."""
    held: dict[int, float] = {}
    for some, marks in _divide(set(facets)):
        rows = database.execute(
            "select template_id, sum(weight) from template_word"
            f" where word in ({marks}) group by template_id",
            some,
        )
        more = dict(rows.fetchall())
        held = more | {one: weight + more.get(one, 0.0) for one, weight in held.items()}
    return held


def read_rarities(database: sqlite3.Connection, words: Iterable[str]) -> dict[str, Rarity]:
    found: dict[str, Rarity] = {}
    for some, marks in _divide(words):
        rows = database.execute(
            f"select word, rarity, holding from template_rarity where word in ({marks})", some
        )
        found |= {word: Rarity(value, holding) for word, value, holding in rows}
    return found


def find_alike(
    database: sqlite3.Connection,
    words: Vector,
    *,
    limit: int,
    among: Collection[int] | None = None,
    group: Callable[[int], Hashable] = lambda _: None,
) -> list[Near]:
    """The templates most like a task of these words, nearest first, so many of each group."""
    calibration = read_calibration(database)
    known = read_rarities(database, words)
    if among is not None and len(among) <= FEW:
        ids = list(among)
    else:
        then = {word: one.value for word, one in known.items()}
        task = weigh(words, then, unseen=rarity(calibration.documents, 0))
        holding = {word: one.holding for word, one in known.items()}
        rough = [found for found, _ in rank_roughly(database, task, holding)]
        if among is not None:
            rough = [found for found in rough if found in among]
        ids = _take_first(rough, limit, group)
    now = {word: rarity(calibration.live, one.holding) for word, one in known.items()}
    task = weigh(words, now, unseen=rarity(calibration.live, 0))
    near = _compare(database, task, ids, live=calibration.live)
    first = set(_take_first([one.template_id for one in near], limit, group))
    return [one for one in near if one.template_id in first]


def _take_first(ids: Iterable[int], limit: int, group: Callable[[int], Hashable]) -> list[int]:
    """So many of each group, in their order."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for one in ids:
        groups[group(one)].append(one)
    return [one for some in groups.values() for one in some[:limit]]


def rank_roughly(
    database: sqlite3.Connection, task: Vector, holding: dict[str, int], *, limit: int = -1
) -> list[tuple[int, float]]:
    """The templates that share the telling words of a weighed task, with their likeness in these.

    The nearest come first.
    """
    taken: Vector = {}
    rows = 0
    for word in sorted((one for one in task if one in holding), key=lambda w: (-task[w], w)):
        if not taken or rows + holding[word] <= POSTINGS:
            taken[word] = task[word]
            rows += holding[word]
    if not taken:
        return []
    values = [part for pair in taken.items() for part in pair]
    found = database.execute(
        f"with task (word, weight) as (values {', '.join(['(?, ?)'] * len(taken))})"
        " select template_id, sum(task.weight * template_word.weight) as alike"
        " from task cross join template_word on template_word.word = task.word"
        " group by template_id order by alike desc, template_id limit ?",
        (*values, limit),
    )
    return found.fetchall()


def _compare(
    database: sqlite3.Connection, task: Vector, ids: Iterable[int], *, live: int
) -> list[Near]:
    """These templates by all their words: how like a task they are that is weighed as of now."""
    worth = cache(lambda holding: rarity(live, holding))
    products: dict[int, float] = defaultdict(float)
    squares: dict[int, float] = defaultdict(float)
    shared: Counter[int] = Counter()
    for some, marks in _divide(ids):
        rows = database.execute(
            "select template_id, word, weight / rarity, holding from template_word"
            f" join template_rarity using (word) where template_id in ({marks})",
            some,
        )
        for found, word, weight, holding in rows:
            weight *= worth(holding)
            squares[found] += weight * weight
            if word in task:
                products[found] += weight * task[word]
                shared[found] += 1
    compared = (
        Near(found, round(product / sqrt(squares[found]), _DIGITS), shared[found])
        for found, product in products.items()
    )
    return sorted(compared, key=lambda one: (-one.alike, one.template_id))


def _divide(items: Iterable[Any]) -> Iterator[tuple[list[Any], str]]:
    """As many at a time as a statement takes, with the marks that stand for them."""
    remaining = iter(items)
    while some := list(islice(remaining, 500)):
        yield some, ",".join("?" * len(some))
