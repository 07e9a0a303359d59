"""The word index of live templates: finds the templates nearest to a task among thousands.

A search has two steps. Templates that share the task's rarest words are ranked roughly, by the
weights stored when they were indexed. The first of them are then compared by all their words, with
today's rarities, so the result does not depend on when the index was built. A template that comes
or goes changes its own words only. The stored weights and the floor are recalculated when the
number of templates has changed by a quarter.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import cache
from math import sqrt
from typing import NamedTuple

from msgspec.structs import replace

from relight.chat.shorten import clean_text
from relight.chat.similarity import Vector, rarity, weigh, weigh_words
from relight.store import Store
from relight.store import template_words as words_table
from relight.store.sql import Connection
from relight.store.template_words import (
    FLOOR_DEFAULT,
    Calibration,
    RarityRow,
    WordRow,
    read_calibration,
    read_rarities,
)
from relight.store.templates import TemplateText, has_templates, read_live_ids, read_texts

# an index of another form, from an earlier version of Relight, is rebuilt
FORM = 2
DRIFT = 0.25
# words are looked up from the rarest on, until this many rows would be read
POSTINGS = 20_000
# at most this many candidates are compared without the rough step
FEW = 100
# one word in common ("fix", "list") proves nothing, unless the tasks hold little else
FLOOR_ONE_WORD = 0.4
FLOOR_SAMPLE = 100
FLOOR_SHARE = 0.2
# with fewer templates, their similarity to each other says nothing about the next task
FLOOR_LEAST = 20
FLOOR_LOW, FLOOR_HIGH = 0.08, 0.25
_DIGITS = 9  # of a similarity; the rest depends on the order of summation


class Near(NamedTuple):
    """A template, the cosine of its task with another, and the number of words they share."""

    template_id: int
    alike: float
    shared: int


def name_facet(kind: str, value: str = "") -> str:
    """Return the entry of the index for a property of a template; no word has a space in it.

    >>> name_facet("tool", "bash")
    'tool bash'
    """
    return clean_text(f"{kind} {value}")


def find_floor(calibration: Calibration, near: Near) -> float:
    """Return the similarity that a template needs to be given."""
    if near.shared > 1:
        return calibration.floor
    return max(calibration.floor, FLOOR_ONE_WORD)


def find_holders(database: Connection, kind: str, value: str) -> dict[int, float]:
    """Return the templates that have a facet, with its weight."""
    return words_table.sum_weights(database, [name_facet(kind, value)])


def find_lacking(database: Connection, tools: Collection[str]) -> dict[int, float]:
    """Return the templates that call any other tool than these, with the share of their tools."""
    known = words_table.read_facets(database, name_facet("tool"))
    return words_table.sum_weights(database, known - {name_facet("tool", one) for one in tools})


def find_alike(
    database: Connection,
    words: Vector,
    *,
    limit: int,
    among: Collection[int] | None = None,
    group: Callable[[int], Hashable] = lambda _: None,
) -> list[Near]:
    """Return the templates most like a task, nearest first, at most `limit` of each group."""
    calibration = read_calibration(database)
    known = read_rarities(database, words)
    if among is not None and len(among) <= FEW:
        ids = list(among)
    else:
        then = {word: one.value for word, one in known.items()}
        task = weigh(words, then, unseen=rarity(calibration.documents, 0))
        holding = {word: one.holding for word, one in known.items()}
        rough = _rank_roughly(database, task, holding)
        ids = _take_first(
            (found for found, _ in rough if among is None or found in among), limit, group
        )
    now = {word: rarity(calibration.live, one.holding) for word, one in known.items()}
    task = weigh(words, now, unseen=rarity(calibration.live, 0))
    near = _compare(database, task, ids, live=calibration.live)
    kept = set(_take_first((one.template_id for one in near), limit, group))
    return [one for one in near if one.template_id in kept]


def _take_first(ids: Iterable[int], limit: int, group: Callable[[int], Hashable]) -> list[int]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for one in ids:
        groups[group(one)].append(one)
    return [one for some in groups.values() for one in some[:limit]]


def _rank_roughly(
    database: Connection,
    task: Vector,
    holding: Mapping[str, int],
    *,
    limit: int | None = None,
) -> list[tuple[int, float]]:
    """Return the templates that share the rarest words of a weighed task, nearest first."""
    taken: Vector = {}
    rows = 0
    for word in sorted((one for one in task if one in holding), key=lambda w: (-task[w], w)):
        if not taken or rows + holding[word] <= POSTINGS:
            taken[word] = task[word]
            rows += holding[word]
    return words_table.rank_by_words(database, taken, limit=limit)


def _compare(database: Connection, task: Vector, ids: Iterable[int], *, live: int) -> list[Near]:
    """Return the cosine of each template with a weighed task, by all words and today's rarities."""
    worth = cache(lambda holding: rarity(live, holding))
    products: dict[int, float] = defaultdict(float)
    squares: dict[int, float] = defaultdict(float)
    shared: Counter[int] = Counter()
    for found, word, weight, holding in words_table.read_words_of(database, ids):
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


def refresh_index(database: Connection, template_id: int) -> None:
    """Update the index after a template changed."""
    live = len(read_live_ids(database))
    known = read_calibration(database)
    if known.form != FORM or abs(live - known.documents) > DRIFT * known.documents:
        rebuild_index(database)
        return
    words_table.delete_words(database, template_id)
    for text in read_texts(database, template_id):
        words = weigh_words(text.task)
        unseen = rarity(known.documents, 0)
        words_table.count_template_words(database, words, unseen=unseen)
        then = {word: one.value for word, one in read_rarities(database, words).items()}
        words_table.insert_words(database, _list_rows(text, weigh(words, then, unseen=unseen)))
    words_table.write_calibration(database, replace(known, live=live))


def rebuild_index(database: Connection) -> None:
    """Index all live templates again, with today's rarities."""
    words_table.clear(database)
    texts = read_texts(database)
    vectors = {text.id: weigh_words(text.task) for text in texts}
    holding = Counter(word for words in vectors.values() for word in words)
    rarities = {word: rarity(len(vectors), count) for word, count in holding.items()}
    weighed = {found: weigh(words, rarities, unseen=1.0) for found, words in vectors.items()}
    words_table.insert_words(
        database, (row for text in texts for row in _list_rows(text, weighed[text.id]))
    )
    words_table.insert_rarities(
        database, [RarityRow(word, rarities[word], holding[word]) for word in sorted(holding)]
    )
    floor = _calibrate_floor(database, weighed, holding)
    words_table.write_calibration(database, Calibration(len(texts), floor, len(texts), FORM))


def heal(store: Store) -> None:
    """Rebuild the index if it is missing, as it is after a session was forgotten."""
    with store.reading() as database:
        is_whole = read_calibration(database).form == FORM
    if not is_whole and has_templates(store):
        with store.transaction() as database:
            rebuild_index(database)


def _list_rows(text: TemplateText, weighed: Vector) -> list[WordRow]:
    """Return the index rows of a template: its weighed words, and its facets."""
    entries = weighed | _find_facets(text)
    return [WordRow(word, text.id, weight) for word, weight in entries.items()]


def _find_facets(text: TemplateText) -> Vector:
    """Return the properties of a template beside its words; its tools share a weight of one."""
    facets = {name_facet("tool", tool): 1 / len(text.tools) for tool in text.tools}
    facets |= {name_facet("tag", tag): 1.0 for tag in text.tags}
    agent = (text.source_session or "").partition(":")[0]
    if not agent and text.provenance:  # an imported template's file names the agent
        agent = text.provenance.get("source") or ""
    facets |= {name_facet("category", text.category): 1.0, name_facet("agent", agent): 1.0}
    return facets | {name_facet("project", text.project or ""): 1.0}


def _calibrate_floor(
    database: Connection, vectors: Mapping[int, Vector], holding: Mapping[str, int]
) -> float:
    """Return the similarity that four templates of five find among the others."""
    if len(vectors) < FLOOR_LEAST:
        return FLOOR_DEFAULT
    step = max(1, len(vectors) // FLOOR_SAMPLE)
    best = []
    for found in sorted(vectors)[::step]:
        near = _rank_roughly(database, vectors[found], holding, limit=2)
        best.append(max((alike for other, alike in near if other != found), default=0.0))
    best.sort()
    return min(max(best[int(FLOOR_SHARE * len(best))], FLOOR_LOW), FLOOR_HIGH)
