"""The words of live templates, kept so that a task is compared with thousands in milliseconds.

A template that comes or goes changes its own words alone. What the catalogue was made with, the
weights by which it is searched and the floor, is made anew when the number of templates has
changed by a quarter.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from relight.chat.similarity import Vector, rarity, read_words, weigh
from relight.store import Store
from relight.warm.nearest import (
    FLOOR_DEFAULT,
    KEY,
    Calibration,
    name_facet,
    rank_roughly,
    read_calibration,
    read_rarities,
)

# a catalogue of another form, by an earlier version of Relight, is made anew
FORM = 2
DRIFT = 0.25
FLOOR_SAMPLE = 100
FLOOR_SHARE = 0.2
# below so many templates their likeness to each other says nothing of the next task
FLOOR_LEAST = 20
FLOOR_LOW, FLOOR_HIGH = 0.08, 0.25
_COLUMNS = ("id", "task", "project", "category", "tags", "tools", "source_session", "provenance")
_LIVE = f"""
    select template.{", ".join(_COLUMNS)}
    from template join template_version on template_id = template.id
    where retired_at is null and proposed_at is null and version = (
        select max(version) from template_version as other where other.template_id = template.id)
"""

Row = Mapping[str, Any]


def refresh(database: sqlite3.Connection, template_id: int) -> None:
    """Bring the catalogue to what the library holds after a template changed."""
    (live,) = database.execute(
        "select count(*) from template where retired_at is null and proposed_at is null"
    ).fetchone()
    known = read_calibration(database)
    if known.form != FORM or abs(live - known.documents) > DRIFT * known.documents:
        rebuild(database)
        return
    _take_out(database, template_id)
    for row in _read_live(database, template_id):
        words = read_words(row["task"])
        unseen = rarity(known.documents, 0)
        database.executemany(
            "insert into template_rarity values (?, ?, 1)"
            " on conflict (word) do update set holding = holding + 1",
            [(word, unseen) for word in words],
        )
        then = {word: one.value for word, one in read_rarities(database, words).items()}
        _write_rows(database, [(template_id, weigh(words, then, unseen=unseen), row)])
    _write_calibration(database, msgspec.structs.replace(known, live=live))


def rebuild(database: sqlite3.Connection) -> None:
    """Weigh the words of all live templates anew."""
    database.execute("delete from template_word")
    database.execute("delete from template_rarity")
    rows = {row["id"]: row for row in _read_live(database)}
    vectors = {found: read_words(row["task"]) for found, row in rows.items()}
    holding = Counter(word for words in vectors.values() for word in words)
    rarities = {word: rarity(len(vectors), count) for word, count in holding.items()}
    weighed = {found: weigh(words, rarities, unseen=1.0) for found, words in vectors.items()}
    _write_rows(database, [(found, weighed[found], row) for found, row in rows.items()])
    database.executemany(
        "insert into template_rarity values (?, ?, ?)",
        [(word, rarities[word], count) for word, count in sorted(holding.items())],
    )
    floor = _find_floor(database, weighed, holding)
    _write_calibration(database, Calibration(len(rows), floor, len(rows), FORM))


def heal(store: Store) -> None:
    """Make the catalogue anew if it is gone, as it is when a session was forgotten."""
    with store.reading() as database:
        is_whole = read_calibration(database).form == FORM
    if not is_whole and store.query("select 1 from template limit 1"):
        with store.transaction() as database:
            rebuild(database)


def _read_live(database: sqlite3.Connection, template_id: int | None = None) -> list[Row]:
    is_one = "" if template_id is None else " and template.id = ?"
    values = () if template_id is None else (template_id,)
    rows = database.execute(_LIVE + is_one, values).fetchall()
    return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]


def _take_out(database: sqlite3.Connection, template_id: int) -> None:
    """Forget the words of a template, and those that no other has."""
    held = database.execute(
        "select word from template_word where template_id = ?", (template_id,)
    ).fetchall()
    database.executemany("update template_rarity set holding = holding - 1 where word = ?", held)
    database.executemany("delete from template_rarity where word = ? and holding <= 0", held)
    database.execute("delete from template_word where template_id = ?", (template_id,))


def _find_facets(row: Row) -> Vector:
    """What a template is known by beside its words; its tools share a weight of one."""
    tools = msgspec.json.decode(row["tools"])
    facets = {name_facet("tool", tool): 1 / len(tools) for tool in tools}
    facets |= {name_facet("tag", tag): 1.0 for tag in msgspec.json.decode(row["tags"])}
    agent = (row["source_session"] or "").partition(":")[0]
    if not agent and row["provenance"]:  # of one that came from elsewhere, as its file says
        agent = msgspec.json.decode(row["provenance"]).get("source") or ""
    for kind, value in (("category", row["category"]), ("agent", agent)):
        facets[name_facet(kind, value)] = 1.0
    return facets | {name_facet("project", row["project"] or ""): 1.0}


def _write_rows(database: sqlite3.Connection, templates: Iterable[tuple[int, Vector, Row]]) -> None:
    database.executemany(
        "insert into template_word values (?, ?, ?)",
        sorted(
            (word, found, weight)
            for found, weighed, row in templates
            for word, weight in (weighed | _find_facets(row)).items()
        ),
    )


def _write_calibration(database: sqlite3.Connection, calibration: Calibration) -> None:
    database.execute(
        "insert or replace into meta values (?, ?)",
        (KEY, msgspec.json.encode(calibration).decode()),
    )


def _find_floor(
    database: sqlite3.Connection, vectors: Mapping[int, Vector], holding: dict[str, int]
) -> float:
    """The likeness that four templates of five find among the others: less is no likeness."""
    if len(vectors) < FLOOR_LEAST:
        return FLOOR_DEFAULT
    step = max(1, len(vectors) // FLOOR_SAMPLE)
    best = []
    for found in sorted(vectors)[::step]:
        near = rank_roughly(database, vectors[found], holding, limit=2)
        best.append(max((alike for other, alike in near if other != found), default=0.0))
    best.sort()
    return min(max(best[int(FLOOR_SHARE * len(best))], FLOOR_LOW), FLOOR_HIGH)
