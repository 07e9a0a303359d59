"""The word index of live templates: which templates hold a word, and how many do.

`template_word` holds a weight for each word of a template and for each of its facets, such as
`tool bash`. `template_rarity` holds how rare each word was when it was indexed, and how many
templates hold it now.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from relight.store.sql import META, Connection, divide, find_first, insert, list_values, set_meta

KEY = "template_catalogue"
# while there are too few templates to measure it: in libraries of 3 to 19 templates of coding tasks
# 19 of 20 tasks of another kind stayed below it, and four of five of the same project above it
FLOOR_DEFAULT = 0.06


class Calibration(Struct, frozen=True):
    """The state of the index: templates when it was built, least similarity, templates now."""

    documents: int = 0
    floor: float = FLOOR_DEFAULT
    live: int = 0
    form: int = 0


class Rarity(NamedTuple):
    """A word's rarity when it was indexed, and the number of templates that hold it now."""

    value: float
    holding: int


class WordRow(Struct, frozen=True, order=True):
    """A row of `template_word`."""

    word: str
    template_id: int
    weight: float


class RarityRow(Struct, frozen=True):
    """A row of `template_rarity`."""

    word: str
    rarity: float
    holding: int


def read_calibration(database: Connection) -> Calibration:
    """Return the state of the index; the default if there is no index."""
    found = find_first(database, META, (KEY,))
    return msgspec.json.decode(found, type=Calibration) if found else Calibration()


def write_calibration(database: Connection, calibration: Calibration) -> None:
    """Record the state of the index."""
    set_meta(database, KEY, msgspec.json.encode(calibration).decode())


def read_facets(database: Connection, prefix: str) -> set[str]:
    """Return the facets of any template that begin with this prefix, which ends in a space."""
    after = prefix.replace(" ", "!")  # the character after the space
    statement = "select distinct word from template_word where word > ? and word < ?"
    return set(list_values(database, statement, (prefix, after)))


def sum_weights(database: Connection, facets: Iterable[str]) -> dict[int, float]:
    """Return the templates that have any of these facets, with the sum of the facets' weights."""
    held: dict[int, float] = {}
    for some, marks in divide(set(facets)):
        rows = database.execute(
            "select template_id, sum(weight) from template_word"
            f" where word in ({marks}) group by template_id",
            some,
        )
        for found, weight in rows:
            held[found] = held.get(found, 0.0) + weight
    return held


def read_rarities(database: Connection, words: Iterable[str]) -> dict[str, Rarity]:
    """Return the rarity of each of these words that a live template holds."""
    found: dict[str, Rarity] = {}
    for some, marks in divide(words):
        statement = f"select word, rarity, holding from template_rarity where word in ({marks})"
        rows = database.execute(statement, some)
        found |= {word: Rarity(value, holding) for word, value, holding in rows}
    return found


def rank_by_words(database: Connection, task: Mapping[str, float]) -> list[int]:
    """Return the templates that share words with a weighed task, those that share most first."""
    if not task:
        return []
    return list_values(
        database,
        f"with task (word, weight) as (values {', '.join(['(?, ?)'] * len(task))})"
        " select template_id from task join template_word on template_word.word = task.word"
        " group by template_id"
        " order by sum(task.weight * template_word.weight) desc, template_id",
        [part for pair in task.items() for part in pair],
    )


def insert_words(database: Connection, rows: Iterable[WordRow]) -> None:
    """Insert words and facets of templates."""
    insert(database, "template_word", sorted(rows))


def count_template_words(database: Connection, words: Iterable[str], *, unseen: float) -> None:
    """Count one more template for each word; a new word gets the rarity `unseen`."""
    insert(
        database,
        "template_rarity",
        [RarityRow(word, unseen, 1) for word in words],
        on_conflict="on conflict (word) do update set holding = template_rarity.holding + 1",
    )


def insert_rarities(database: Connection, rows: Iterable[RarityRow]) -> None:
    """Insert the rarities of words into an empty index."""
    insert(database, "template_rarity", list(rows))


def delete_words(database: Connection, template_id: int) -> None:
    """Delete the words of a template, and the rarities of words that no other template holds."""
    held = database.execute(
        "select word from template_word where template_id = ?", (template_id,)
    ).fetchall()
    database.executemany("update template_rarity set holding = holding - 1 where word = ?", held)
    database.executemany("delete from template_rarity where word = ? and holding <= 0", held)
    database.execute("delete from template_word where template_id = ?", (template_id,))


def clear(database: Connection) -> None:
    """Delete all words and rarities."""
    database.execute("delete from template_word")
    database.execute("delete from template_rarity")
