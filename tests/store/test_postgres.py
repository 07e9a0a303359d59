"""A store on PostgreSQL gives the rows of one on SQLite, and changes its schema on command."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import psycopg
import pytest
from bench.team.readings import compare_readings
from bench.team.rows import KEY, copy_rows
from hypothesis import given, settings
from hypothesis import strategies as st

import build
import postgres
from relight.cli.demo import write_demo
from relight.cli.demo.own_records import record_facts
from relight.errors import RefusedValueError, StoreError, UnavailableError
from relight.intake.importing import import_all
from relight.intake.retention import prune, prune_daily
from relight.intake.take import REFUSED
from relight.reports.search import find_hits
from relight.store import SCHEMA, Store, open_store
from relight.store.keep.migrate import find_migrations
from relight.store.months import divide_tables, make_months
from relight.store.postgres import PostgresConnection
from relight.store.postgres_policies import protect
from relight.store.postgres_search import TOKENIZER, split_columns
from relight.store.queries.filters import Filter
from relight.store.sql import Connection
from relight.store.write.pushed import read_due
from terminal import run_relight

Twins = tuple[Store, Store]


@contextmanager
def open_twins(folder: Path) -> Iterator[Twins]:
    """Two empty stores that differ in their engine only, open until a test is done or failed."""
    homes = []
    for name, make in (("sqlite", build.make_file_store), ("postgres", postgres.make_store)):
        home = folder / name / "relight"
        home.mkdir(parents=True)
        make(home)
        with open_store(home) as store, store.transaction() as database:
            database.execute("update meta set value = ? where key = 'redaction_key'", (KEY,))
        homes.append(home)
    try:
        with open_store(homes[0]) as local, open_store(homes[1]) as server:
            yield local, server
    finally:
        postgres.free_below(folder)


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Twins]:
    with open_twins(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    """The sessions of `relight demo` in both stores, and facts with the clock's own times."""
    folder = tmp_path_factory.mktemp("demo")
    now = datetime(2026, 11, 15, 12, tzinfo=UTC)
    environment = write_demo(folder / "agents", now=now)
    with open_twins(folder) as twins:
        for store in twins:
            import_all(store, environment=environment, workers=1)
        local, server = map(build.dump, twins)
        for table in local:
            assert server[table] == local[table], table
        record_facts(twins[0], now=now)
        copy_rows(*twins)
        yield twins


def test_both_engines_have_the_same_tables_and_columns(demo: Twins) -> None:
    local, server = demo
    names = [
        name
        for (name,) in local.query("select name from sqlite_master where type in ('table', 'view')")
        if not name.startswith(("sqlite_", "search_words", "listing_words"))
    ]
    found = server.query(
        "select table_name, column_name from information_schema.columns"
        " where table_schema = 'public' and table_name not in"
        " (select cast(cast(inhrelid as regclass) as text) from pg_inherits)"
        " order by table_name, ordinal_position"
    )
    columns = {
        table: [column for _, column, *_ in local.query(f"pragma table_xinfo({table})")]
        for table in names
    }
    there: dict[str, list[str]] = {}
    for table, column in found:
        there.setdefault(table, []).append(column)
    assert there.pop("seen_session") == ["id"]
    assert there.pop("search_words") == ["entry", "tokens", "words", "path", "tool"]
    assert there == columns


def test_the_same_records_give_the_same_rows(demo: Twins) -> None:
    """The fixture has compared the rows of both imports; so must be the search index of all."""
    local, server = map(build.dump_search, demo)
    assert server == local


def test_every_report_page_and_address_of_the_api_reads_the_same(demo: Twins) -> None:
    count, differences = compare_readings(*demo, most=1)
    assert count > 500
    assert differences == []


def test_readings_that_differ_are_found(tmp_path: Path, twins: Twins) -> None:
    write_sessions(tmp_path)
    local, server = twins
    import_all(local, environment={"HOME": str(tmp_path)}, workers=1)
    _, differences = compare_readings(local, server, most=1, first_only=30)
    assert {one.what for one in differences} > {"report by model", "/api/overview?since=all"}


def test_records_read_after_a_copy_are_numbered_after_those_copied(
    tmp_path: Path, twins: Twins
) -> None:
    write_sessions(tmp_path)
    local, server = twins
    import_all(local, environment={"HOME": str(tmp_path)}, workers=1)
    copy_rows(local, server)
    other = tmp_path / "other"
    build.write_claude(other, [build.claude_prompt("Look"), build.claude_answer("msg_8", at=2)])
    for store in (local, server):
        import_all(store, environment={"HOME": str(other)}, workers=1)
    numbers = [one.query("select id from tape_part order by id") for one in (local, server)]
    assert numbers == [[(1,), (2,), (3,), (4,)]] * 2


@pytest.mark.parametrize(
    "query",
    ["rounding", '"the tests"', "test*", "invoice -rounding", "path:src", "path:test*", "tool:bash",
     "Ünïcode", "a.b-c/d", "日本", "'; drop table --", "x" * 3000],
)  # fmt: skip
def test_a_search_finds_the_same_texts(demo: Twins, query: str) -> None:
    local, server = (repr(find_hits(one, query, Filter(), limit=100)) for one in demo)
    assert server == local


@settings(max_examples=4)
@given(data=st.data())
def test_pieces_in_any_order_give_the_same_rows_on_both_engines(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("pieces")
    files = {
        path.relative_to(source): path.read_bytes().splitlines(keepends=True)
        for source in (folder / "source",)
        for path in write_sessions(source)
    }
    steps = data.draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(files)), st.integers(1, 4)), min_size=3, max_size=8
        )
    )
    home = folder / "home"
    with open_twins(folder) as twins:
        for name, lines in [*steps, *((name, 1000) for name in files)]:
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.writelines(files[name][:lines])
            files[name] = files[name][lines:]
            for store in twins:
                import_all(store, environment={"HOME": str(home)}, workers=1)
        local, server = map(build.dump, twins)
        assert server == local
        assert compare_readings(*twins, most=1)[1] == []
    shutil.rmtree(folder)


def write_sessions(home: Path) -> list[Path]:
    parent = build.write_claude(home, build.claude_session())
    used = build.codex_usage(1000)
    lines = [build.codex_meta(), build.codex_line("turn_context", 1, model="gpt-5.2-codex"),
             build.codex_count(5, used, used)]  # fmt: skip
    agent = [build.claude_prompt("Look"), build.claude_answer("msg_9", at=2)]
    return [parent, build.write_agent(parent, agent), build.write_codex(home, lines)]


def test_only_migrate_changes_the_schema_of_a_server(tmp_path: Path) -> None:
    url = postgres.find_server().make_empty()
    (tmp_path / "config.toml").write_text(f'timezone = "UTC"\n[store]\nurl = "{url}"\n')
    with pytest.raises(StoreError, match="is empty") as empty:
        open_store(tmp_path)
    assert empty.value.hint == "run there: relight migrate"
    done = run_relight(os.environ, "--home", str(tmp_path), "migrate")
    assert done.stdout == f"made a new store with schema {SCHEMA}\n"
    again = run_relight(os.environ, "--home", str(tmp_path), "migrate")
    assert again.stdout == f"the database has schema {SCHEMA} already\n"
    first = min(find_migrations())
    with psycopg.connect(url, autocommit=True) as connection:
        for number, message in ((first, f"has schema {first}"), (SCHEMA + 1, "newer Relight")):
            connection.execute("update meta set value = %s where key = 'schema'", (str(number),))
            with pytest.raises(StoreError, match=message):
                open_store(tmp_path)


def test_without_its_client_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[store]\nurl = "postgresql://127.0.0.1/x"\n')
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from relight.store import open_store\n"
        "try: open_store(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__, error.hint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "RelightError install it with: pip install 'relight[postgres]'\n"


def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    url = "postgresql://anna:s3cr3t@127.0.0.1:1/relight"
    (tmp_path / "config.toml").write_text(f'[store]\nurl = "{url}"\n')
    with pytest.raises(UnavailableError, match="anna@127") as error:
        open_store(tmp_path)
    assert "s3cr3t" not in f"{error.value} {error.value.hint}"
    for words in (["report"], ["config"], ["config", "--json"]):
        done = run_relight(os.environ, "--home", str(tmp_path), *words)
        assert "s3cr3t" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def write_and_cut(database: Connection, url: str) -> None:
    """Write a row, end the connection as a server that restarts does, and write another."""
    database.execute("insert into meta (key, value) values ('half', '1')")
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'relight' and datname = current_database()"
        )
    database.execute("insert into meta (key, value) values ('other', '1')")


def test_a_connection_that_was_cut_is_made_again_and_nothing_half_written(twins: Twins) -> None:
    _, store = twins
    url = postgres.find_url(store.config.home)
    with pytest.raises(UnavailableError), store.transaction() as database:
        write_and_cut(database, url)
    assert store.query("select 1 from meta where key = 'half'") == []


def test_a_value_that_no_row_can_have_is_not_taken_for_a_server_that_is_away(
    twins: Twins,
) -> None:
    _, store = twins
    columns = "call_id, path, lines_added, lines_removed"
    for row in ((1, Random(1).randbytes(4000).hex(), 0, 0), (2**70, "a.py", 0, 0)):
        with pytest.raises(RefusedValueError), store.transaction() as database:
            database.execute(f"insert into file_edit ({columns}) values (?, ?, ?, ?)", row)
    assert RefusedValueError in REFUSED, "so the deriver goes on with the other parts"


def test_one_writer_waits_for_the_other_and_gives_up_in_time(twins: Twins) -> None:
    _, first = twins
    with open_store(first.config.home) as second, first.transaction():
        with pytest.raises(UnavailableError) as error, second.waiting(0.1), second.transaction():
            raise AssertionError("two write at once")
        assert error.value.hint == (
            "another Relight has been writing for long: try again when it is done"
        )


def test_the_tape_is_written_while_the_index_is_and_all_others_wait(twins: Twins) -> None:
    _, first = twins
    home = first.config.home
    with open_store(home) as second, open_store(home) as third:
        with first.transaction(only="index"), second.transaction(only="tape") as database:
            database.execute("insert into meta (key, value) values ('pushed', '1')")
            for only in (None, "index", "tape"):
                with (
                    pytest.raises(UnavailableError),
                    third.waiting(0.05),
                    third.transaction(only),
                ):
                    raise AssertionError("two write the same at once")
        assert third.query("select value from meta where key = 'pushed'") == [("1",)]


def test_several_derivers_share_the_queue_and_a_killed_one_leaves_its_parts(
    tmp_path: Path, twins: Twins
) -> None:
    _, first = twins
    for number in range(4):
        key = f"{number:08}-aaaa-4aaa-8aaa-111111111111"
        lines = [{**line, "sessionId": key} for line in build.claude_session()]
        build.write_claude(tmp_path / "home", lines, name=key)
    build.import_home(first, tmp_path / "home")
    with first.transaction() as database:
        database.execute("insert into derive_due select id, 1 from tape_part")
    home = first.config.home
    with open_store(home) as second, open_store(home) as third:
        mine, others = ([part.id for part in read_due(one, 2)] for one in (first, second))
        assert len({*mine, *others}) == 4
        assert read_due(third, 2) == []
        second.close()  # as when it is killed; the server notices soon
        until = time.monotonic() + 60
        while not (taken := read_due(third, 2)) and time.monotonic() < until:
            time.sleep(0.01)
        assert [part.id for part in taken] == others
        third.release_claims()
        first.release_claims()
        assert [part.id for part in read_due(third, 2)] == mine


def split_by_sqlite(text: str) -> list[str]:
    """The words of a text as SQLite's own index has them."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.execute(f"create virtual table texts using fts5 (text, tokenize = '{TOKENIZER}')")
        memory.execute("create virtual table places using fts5vocab (texts, 'instance')")
        memory.execute("insert into texts values (?)", (text,))
        return [word for (word,) in memory.execute("select term from places order by offset")]


@given(
    st.text(
        st.characters(exclude_categories=["Cs"]) | st.sampled_from("aZ09 _-'.é\u0301ßİ漢\u200d")
    )
)
def test_texts_are_cut_into_the_words_that_sqlite_finds(text: str) -> None:
    assert split_columns([(text, None, text)]) == [
        [split_by_sqlite(text), [], split_by_sqlite(text)]
    ]


MONTHS = "select cast(cast(inhrelid as regclass) as text) from pg_inherits order by 1"


def read_months(store: Store, table: str) -> list[str]:
    """Names of the months that a table has a part for, without those of indexes."""
    start = f"{table}_2"
    return [name for (name,) in store.query(MONTHS) if re.fullmatch(rf"{start}\d+_\d\d", name)]


def read_disk(store: Store) -> int:
    """Bytes on the disk of the divided tables and all that belongs to them."""
    ((size,),) = store.query(
        "select sum(pg_total_relation_size(inhrelid)) from pg_inherits"
        " join pg_class on pg_class.oid = inhrelid where relkind = 'r'"
    )
    return int(size)


def write_month(home: Path, month: int) -> None:
    """A session with a long text that cannot be compressed, in a month of 2024."""
    key = f"{month:08}-aaaa-4aaa-8aaa-111111111111"
    noise = " ".join(Random(month * 9999 + part).randbytes(30).hex() for part in range(4000))
    told = {"sessionId": key, "timestamp": f"2024-{month:02}-05T10:00:00.000Z"}
    ended = {**told, "timestamp": f"2024-{month:02}-05T10:05:00.000Z"}
    call = build.tool_use(f"toolu_{month}", command="true")
    lines = [
        {**build.claude_prompt(noise), **told},
        {**build.claude_answer(f"msg_{month}_1", call, stop="tool_use"), **told},
        {**build.claude_result(f"toolu_{month}", "done"), **told},
        {**build.claude_answer(f"msg_{month}_2"), **ended},
    ]
    build.write_claude(home, lines, name=key)


def test_a_dropped_month_gives_the_disk_back_and_leaves_the_rows_of_sqlite(
    tmp_path: Path, twins: Twins
) -> None:
    for month in (1, 2, 3):
        write_month(tmp_path / "home", month)
    march = datetime(2024, 3, 1, tzinfo=UTC)
    for store in twins:
        import_all(store, environment={"HOME": str(tmp_path / "home")}, workers=1)
        with store.transaction() as database:  # as if each had been read in its own month
            database.execute(
                "update tape_part set recorded_at = (select started_at from session"
                " where session.id = session_id)"
            )
    server = twins[1]
    with server.transaction() as database:
        assert isinstance(database, PostgresConnection)
        rows = database.execute("select recorded_at from tape_part").fetchall()
        make_months(database, "tape_part", [at for (at,) in rows])
    for table in ("turn", "tool_call", "tape_part"):
        assert read_months(server, table)[:3] == [f"{table}_2024_0{month}" for month in (1, 2, 3)]
    before = read_disk(server)
    now = round(march.timestamp() * 1000)
    for store in twins:
        prune(store, now=now, tape_days=1, index_days=40, dry_run=False)
    assert before - read_disk(server) > 200_000, "two tapes of 120 KB, compressed"
    assert read_months(server, "turn")[:2] == ["turn_2024_02", "turn_2024_03"]
    assert read_months(server, "tape_part")[0] == "tape_part_2024_03"
    local, remote = map(build.dump, twins)
    assert remote == local
    # a late part of a dropped month is taken all the same
    write_month(tmp_path / "late", 1)
    for store in twins:
        import_all(store, environment={"HOME": str(tmp_path / "late")}, workers=1)
    local, remote = map(build.dump, twins)
    assert remote == local


def test_a_database_from_before_there_were_months_is_divided_with_its_rows(
    tmp_path: Path, twins: Twins
) -> None:
    write_month(tmp_path / "home", 2)
    for store in twins:
        import_all(store, environment={"HOME": str(tmp_path / "home")}, workers=1)
    server = twins[1]
    postgres.discard(server.config.home)
    with server.transaction() as database:
        assert isinstance(database, PostgresConnection)
        for name in ("turn", "tool_call", "tape_part"):
            database.execute(f"create table whole as select * from {name}")
            database.execute(f"drop table {name} cascade")
            database.execute(f"alter table whole rename to {name}")
        database.months.clear()
        divide_tables(database)
        protect(database)
    assert read_months(server, "turn") == ["turn_2024_02"]
    local, remote = map(build.dump, twins)
    assert remote == local


def test_a_server_prunes_once_a_day_as_its_settings_say(tmp_path: Path) -> None:
    write_month(tmp_path / "home", 2)
    store = build.open_home(tmp_path)
    import_all(store, environment={"HOME": str(tmp_path / "home")}, workers=1)
    now = round(datetime(2024, 6, 1, tzinfo=UTC).timestamp() * 1000)
    assert prune_daily(store, now=now) is None, "nothing is set"
    with (store.config.home / "config.toml").open("a") as file:
        file.write("store.retention_tape_days = 30\n")
    store.close()
    with open_store(store.config.home) as store:
        done = prune_daily(store, now=now)
        assert done is not None
        assert (done.tapes, done.sessions) == (1, 0)
        assert prune_daily(store, now=now + 3_600_000) is None
        assert prune_daily(store, now=now + 86_400_001) is not None
