"""The same records on SQLite and on PostgreSQL: every row, and every reading of them."""

import shutil
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

from bench.campaign.score import Score
from bench.campaign.stores import compare, dump, make_home, read_words
from bench.team.engines import Engine
from bench.team.readings import compare_readings
from bench.trees import generate_tree
from relight.cli.demo import write_demo
from relight.cli.demo.own_records import record_facts
from relight.intake.importing import import_all
from relight.store import Store, open_store
from relight.store.postgres_search import write_entries
from relight.store.sql import PART_SHIFT, list_marks

# the same in both stores, so that what is redacted reads alike
KEY = "5e" * 32
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def compare_engines(
    score: Score, folder: Path, engine: Engine, *, megabytes: float, most: int
) -> None:
    """Import the demo, with its facts, and a tree of this size into both; compare all."""
    homes = make_home(folder / "sqlite" / "relight"), folder / "postgres" / "relight"
    engine.make_home(homes[1])
    environment = write_demo(folder / "agents", now=NOW)
    tree = folder / "tree"
    generate_tree(tree, claude_mb=megabytes * 0.7, codex_mb=megabytes * 0.3)
    for home in homes:
        with open_store(home) as store, store.transaction() as database:
            database.execute("update meta set value = ? where key = 'redaction_key'", (KEY,))
    with open_store(homes[0]) as local, open_store(homes[1]) as server:
        for store in (local, server):
            import_all(store, environment=environment, workers=1)
        compare(score, dump(local), dump(server), what="the demo")
        # facts have the clock's own times, so they are recorded once
        record_facts(local, now=NOW)
        copy_rows(local, server)
        for store in (local, server):
            import_all(store, environment={"HOME": str(tree)}, workers=1)
        compare(score, read_index(local), read_index(server), what="the tree")
        count, differences = compare_readings(local, server, most=most)
        score.counts["tried"] += count
        for one in differences:
            score.add("differ", f"{one.what}\n  SQLite: {one.local}\n  server: {one.server}")
    score.notes.append(f"{count:,} readings of {megabytes:g} MB and the demo")
    engine.drop_home(homes[1])


def read_index(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of the index, and of each text in the search index a checksum."""
    return {**dump(store, has_search=False), "search": digest_search(store)}


def digest_search(store: Store) -> list[tuple[object, ...]]:
    """Return session, kind and a checksum of the words for every text in the search index."""
    sessions = dict(store.query("select place, session_id from search_part"))
    sums: dict[int, int] = defaultdict(int)
    for word, entry, column, place in read_words(store):
        sums[entry] += crc32(f"{column} {place} {word}".encode())
    return sorted((sessions[one >> PART_SHIFT], one & 3, total) for one, total in sums.items())


def copy_rows(source: Store, target: Store) -> None:
    """Give a store on PostgreSQL the rows of one on SQLite, and its other files."""
    names = source.query(
        "select name from sqlite_master where type = 'table' and sql like '%strict%'"
    )
    texts: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for word, entry, column, _ in sorted(read_words(source), key=lambda one: one[3]):
        texts[entry][column].append(word)
    with target.transaction() as database:
        # no trigger fires: what they wrote is copied too
        database.execute("set local session_replication_role = replica")
        for (name,) in names:
            info = source.query(f"pragma table_xinfo({name})")
            columns = ", ".join(column for _, column, *_, hidden in info if not hidden)
            marks = list_marks(columns.split(","))
            rows = source.query(f"select {columns} from {name}")
            test = "where key <> 'schema'" if name == "meta" else ""
            database.execute(f"delete from {name} {test}")
            database.executemany(f"insert into {name} ({columns}) values ({marks})", rows)
        database.execute("delete from search_words")
        entries = [
            (entry, " ".join(some["words"]), " ".join(some["path"]), " ".join(some["tool"]))
            for entry, some in texts.items()
        ]
        write_entries(database, entries)
        # of a table that is divided by months, the whole has the numbers
        numbered = database.execute(
            "select table_name, column_name, numbers from information_schema.columns,"
            " pg_get_serial_sequence(table_name, column_name) as numbers"
            " where table_schema = 'public' and numbers is not null"
        )
        for table, column, numbers in numbered.fetchall():
            # ids that are hashes may be negative, and no number follows them
            database.execute(
                f"select setval('{numbers}', max({column})) from {table} having max({column}) > 0"
            )
    left = shutil.ignore_patterns("relight.db*", "config.toml")
    shutil.copytree(source.config.home, target.config.home, ignore=left, dirs_exist_ok=True)
