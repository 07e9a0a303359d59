"""The words of live templates, so that a task is compared with thousands in milliseconds.

Weights hold the rarities of the day they were made; when the number of templates has changed by a
tenth, or is small, all are made anew.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from relight.relevance import Vector, rarity, read_words, weigh
from relight.store import Store

KEY = "template_catalogue"
SMALL = 300
DRIFT = 0.1
# words are looked up from the rarest on, until so many rows would have to be read
POSTINGS = 20_000
# and so many of the nearest are then compared by all words
COMPARED = 100
FLOOR_SAMPLE = 100
FLOOR_SHARE = 0.2
# below so many templates their likeness to each other says nothing of the next task
FLOOR_LEAST = 20
FLOOR_DEFAULT, FLOOR_LOW, FLOOR_HIGH = 0.10, 0.08, 0.25
# one word in common ("fix", "list") is like everything, unless the tasks hold little else
FLOOR_ONE_WORD = 0.4
_LIVE = """
    select template.id, task from template join template_version on template_id = template.id
    where retired_at is null and proposed_at is null and version = (
        select max(version) from template_version as other where other.template_id = template.id)
"""


class Calibration(msgspec.Struct, frozen=True):
    """Of which templates the catalogue was made, and below what likeness none is given."""

    documents: int = 0
    floor: float = FLOOR_DEFAULT

    def find_floor(self, near: "Near") -> float:
        """The likeness that this template needs to be given."""
        return self.floor if near.shared > 1 else max(self.floor, FLOOR_ONE_WORD)


class Near(NamedTuple):
    """A template, the cosine of its task with another, and how many words they share."""

    template_id: int
    alike: float
    shared: int


def refresh(database: sqlite3.Connection, template_id: int) -> None:
    """Bring the catalogue to what the library holds after a template changed."""
    (live,) = database.execute(
        "select count(*) from template where retired_at is null and proposed_at is null"
    ).fetchone()
    known = read_calibration(database)
    if live <= SMALL or abs(live - known.documents) > DRIFT * known.documents:
        rebuild(database)
        return
    database.execute("delete from template_word where template_id = ?", (template_id,))
    for found, task in database.execute(f"{_LIVE} and template.id = ?", (template_id,)).fetchall():
        words = read_words(task)
        rarities = _read_rarities(database, words)
        values = {word: value for word, (value, _) in rarities.items()}
        weighed = weigh(words, values, unseen=rarity(known.documents, 0))
        _write_words(database, found, weighed)
        database.executemany(
            "insert or ignore into template_rarity values (?, ?, 1)",
            [(word, rarity(known.documents, 0)) for word in words if word not in rarities],
        )


def rebuild(database: sqlite3.Connection) -> None:
    """Weigh the words of all live templates anew."""
    database.execute("delete from template_word")
    database.execute("delete from template_rarity")
    vectors = {found: read_words(task) for found, task in database.execute(_LIVE)}
    holding = Counter(word for words in vectors.values() for word in words)
    rarities = {word: rarity(len(vectors), count) for word, count in holding.items()}
    weighed = {found: weigh(words, rarities, unseen=1.0) for found, words in vectors.items()}
    database.executemany(
        "insert into template_word values (?, ?, ?)",
        sorted((word, found, w) for found, one in weighed.items() for word, w in one.items()),
    )
    database.executemany(
        "insert into template_rarity values (?, ?, ?)",
        [(word, rarities[word], count) for word, count in sorted(holding.items())],
    )
    calibration = Calibration(len(vectors), _find_floor(database, weighed))
    database.execute(
        "insert or replace into meta values (?, ?)",
        (KEY, msgspec.json.encode(calibration).decode()),
    )


def heal(store: Store) -> None:
    """Make the catalogue anew if it is gone, as it is when a session was forgotten."""
    if not store.query("select 1 from meta where key = ?", (KEY,)) and store.query(
        "select 1 from template limit 1"
    ):
        with store.transaction() as database:
            rebuild(database)


def read_calibration(database: sqlite3.Connection) -> Calibration:
    row = database.execute("select value from meta where key = ?", (KEY,)).fetchone()
    return msgspec.json.decode(row[0], type=Calibration) if row else Calibration()


def find_alike(database: sqlite3.Connection, words: Vector, *, limit: int) -> list[Near]:
    """The templates most like a task of these words, nearest first."""
    calibration = read_calibration(database)
    rarities = _read_rarities(database, words)
    unseen = rarity(calibration.documents, 0)
    task = weigh(words, {word: found[0] for word, found in rarities.items()}, unseen=unseen)
    return _find_nearest(
        database, task, {word: found[1] for word, found in rarities.items()}, limit
    )


def _find_nearest(
    database: sqlite3.Connection, task: Vector, holding: dict[str, int], limit: int
) -> list[Near]:
    """The nearest by the task's telling words, then compared by all of them."""
    telling = sorted((word for word in task if word in holding), key=lambda w: (-task[w], w))
    taken: list[str] = []
    rows = 0
    for word in telling:
        if not taken or rows + holding[word] <= POSTINGS:
            taken.append(word)
            rows += holding[word]
    near = _select_near(database, {word: task[word] for word in taken}, limit)
    if len(taken) == len(telling):
        return near
    closest = [one.template_id for one in near[:COMPARED]]
    return [*_compare(database, task, closest), *near[COMPARED:]]


def _select_near(database: sqlite3.Connection, task: Vector, limit: int) -> list[Near]:
    if not task:
        return []
    values = [part for pair in task.items() for part in pair]
    rows = database.execute(
        f"with task (word, weight) as (values {', '.join(['(?, ?)'] * len(task))})"
        " select template_id, sum(task.weight * template_word.weight) as alike, count(*)"
        " from task cross join template_word on template_word.word = task.word"
        " group by template_id order by alike desc, template_id limit ?",
        (*values, limit),
    )
    return list(map(Near._make, rows))


def _compare(database: sqlite3.Connection, task: Vector, ids: list[int]) -> list[Near]:
    common: dict[int, list[float]] = {found: [] for found in ids}
    marks = ",".join("?" * len(ids))
    for found, word, weight in database.execute(
        f"select template_id, word, weight from template_word where template_id in ({marks})", ids
    ):
        if word in task:
            common[found].append(weight * task[word])
    compared = (Near(found, sum(parts), len(parts)) for found, parts in common.items())
    return sorted(compared, key=lambda one: (-one.alike, one.template_id))


def _find_floor(database: sqlite3.Connection, vectors: dict[int, Vector]) -> float:
    """The likeness that four templates of five find among the others: less is no likeness."""
    if len(vectors) < FLOOR_LEAST:
        return FLOOR_DEFAULT
    step = max(1, len(vectors) // FLOOR_SAMPLE)
    holding = dict(database.execute("select word, holding from template_rarity").fetchall())
    best = []
    for found in sorted(vectors)[::step]:
        near = _find_nearest(database, vectors[found], holding, 2)
        best.append(max((one.alike for one in near if one.template_id != found), default=0.0))
    best.sort()
    return min(max(best[int(FLOOR_SHARE * len(best))], FLOOR_LOW), FLOOR_HIGH)


def _read_rarities(
    database: sqlite3.Connection, words: Iterable[str]
) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    remaining = iter(words)
    while some := list(islice(remaining, 500)):
        rows = database.execute(
            "select word, rarity, holding from template_rarity"
            f" where word in ({','.join('?' * len(some))})",
            some,
        )
        found |= {word: (value, holding) for word, value, holding in rows}
    return found


def _write_words(database: sqlite3.Connection, template_id: int, words: Vector) -> None:
    database.executemany(
        "insert into template_word values (?, ?, ?)",
        [(word, template_id, weight) for word, weight in words.items()],
    )
