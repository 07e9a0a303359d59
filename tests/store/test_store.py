import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import build
from relight.errors import RelightError, StoreError
from relight.reports.totals import report
from relight.store import SCHEMA, open_store
from relight.store.keep.migrate import find_migrations, migrate, split_statements
from relight.store.write.record import Recorder
from relight.store.write.tape import read_tape


@pytest.mark.sqlite("it writes the version of the file")
def test_a_negative_schema_is_reported_as_damage(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.run("pragma user_version = -5")
    with pytest.raises(RelightError, match="is damaged: its schema cannot be -5") as raised:
        open_store(tmp_path)
    assert "relight backup" in str(raised.value.hint)


@pytest.mark.sqlite("test_postgres has its own")
def test_a_database_from_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        path = store.path
    with sqlite3.connect(path) as raw:
        raw.execute("pragma user_version = 99")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(RelightError, match="newer Relight"):
        open_store(path.parent)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_reported_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "relight.db").write_bytes(b"not a database at all, but long enough" * 200)
    with pytest.raises(RelightError) as caught:
        open_store(tmp_path)
    assert "backup" in str(caught.value.hint)


@pytest.mark.skipif(sys.platform != "linux", reason="only there are open files listed")
def test_a_file_that_is_no_database_is_not_kept_open(tmp_path: Path) -> None:
    path = tmp_path / "relight.db"
    path.write_bytes(b"not a database at all, but long enough" * 200)
    with pytest.raises(RelightError) as caught:
        open_store(tmp_path)
    found = [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert path not in found
    assert issubclass(caught.type, StoreError)


@pytest.mark.sqlite("it makes commits fail by its own means")
def test_what_could_not_be_committed_is_undone_and_the_next_is_written(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        store.run("pragma foreign_keys = on")
        with store.transaction() as database:
            database.execute("create table whole (id integer primary key)")
            database.execute(
                "create table part (of integer references whole deferrable initially deferred)"
            )
        with pytest.raises(RelightError, match="FOREIGN KEY"), store.transaction() as database:
            database.execute("insert into part values (7)")
        with store.transaction() as database:
            database.execute("insert into whole values (1)")
        assert store.query("select (select count(*) from part), count(*) from whole") == [(0, 1)]


@pytest.mark.parametrize("version", [1, 16])
def test_a_database_from_before_the_first_schema_is_refused_untouched(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "relight.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("create table session (id integer)")
        raw.execute("pragma journal_mode = wal")
        raw.execute(f"pragma user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(RelightError, match="early Relight") as caught:
        open_store(tmp_path)
    assert "move it aside and import again" in str(caught.value.hint)
    assert path.read_bytes() == before


def test_migrations_are_numbered_without_gaps_from_the_schema_on() -> None:
    numbers = list(find_migrations())
    assert numbers == list(range(17, SCHEMA + 1))


@pytest.mark.sqlite("a server is migrated by command")
def test_a_later_migration_is_run_on_a_store_that_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.open_home(tmp_path).close()
    later = max(find_migrations()) + 1
    script = tmp_path / f"{later:04}_later.sql"
    script.write_text("alter table session add column mood text;\n")
    monkeypatch.setattr(
        "relight.store.keep.migrate.find_migrations", lambda: find_migrations() | {later: script}
    )
    monkeypatch.setattr("relight.store.SCHEMA", later)
    with build.open_home(tmp_path) as store:
        assert store.query("select mood from session") == []
        assert store.query("pragma user_version") == [(later,)]
        assert len(store.query("select value from meta where key = 'redaction_key'")) == 1


def test_the_whole_schema_is_what_the_migrations_lead_to() -> None:
    found = []
    for by_steps in (True, False):
        database = sqlite3.connect(":memory:", isolation_level=None)
        migrate(database, timezone="UTC", by_steps=by_steps)
        schema = database.execute("select type, name, tbl_name, sql from sqlite_master").fetchall()
        settings = database.execute("select * from search_words_config").fetchall()
        found.append(
            (sorted(schema, key=str), sorted(settings), *database.execute("pragma user_version"))
        )
        database.close()
    assert found[0] == found[1]


def test_statements_are_split_where_they_end() -> None:
    script = "-- a; b\ncreate table a (x);\n\ncreate table b (\n  y\n);\n"
    assert len(split_statements(script)) == 2


def test_many_processes_may_found_the_same_store_at_once(tmp_path: Path) -> None:
    code = f"from relight.store import open_store; open_store({str(tmp_path)!r}).close()"
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(6)]
    assert [child.wait() for child in children] == [0] * 6


def test_a_store_that_someone_else_is_founding_is_waited_for(tmp_path: Path) -> None:
    # what a process holds for an instant while it makes the new file one with a log
    path = tmp_path / "relight.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("begin immediate")
        threading.Timer(0.2, other.execute, ["rollback"]).start()
        with open_store(tmp_path) as store:
            assert store.query("pragma journal_mode") == [("wal",)]


def test_threads_may_share_a_store(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        totals: list[object] = []
        threads = [
            threading.Thread(target=lambda: totals.append(report(store, ("day",)).total))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert totals == [totals[0]] * 8


def test_a_failed_transaction_leaves_everything_as_it_was(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:

        def write_and_fail() -> None:
            with store.transaction() as database:
                database.execute("insert into meta values ('a', 'b')")
                raise ValueError("in the middle")

        with pytest.raises(ValueError, match="middle"):
            write_and_fail()
        assert store.query("select * from meta where key = 'a'") == []


@pytest.mark.sqlite("it limits the pages of the file")
def test_a_full_disk_is_reported_and_what_was_recorded_stays(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        before = build.dump(store)
        (pages,) = store.query("pragma page_count")[0]
        store.run(f"pragma max_page_count = {pages}")
        big = [build.claude_answer(f"msg_b{n}", at=100 + n) for n in range(2000)]
        with path.open("ab") as file:
            file.write(build.as_lines(big))
        with pytest.raises(RelightError) as caught:
            build.import_home(store, tmp_path)
        assert "free some space" in str(caught.value.hint)
        assert build.dump(store) == before
        store.run("pragma max_page_count = 1000000")
        build.import_home(store, tmp_path)
        assert report(store, ("day",)).total.turns == 2003


@pytest.mark.sqlite("it looks into the file")
def test_a_secret_never_reaches_the_store(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "Ab1" * 31 + "AA"
    lines = build.claude_session()
    lines.insert(1, build.claude_prompt(f"my key is {secret}", at=0.5))
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        store.run("pragma wal_checkpoint(truncate)")
        assert secret.encode() not in store.path.read_bytes()
        tape = b"".join(b"\n".join(part.lines()) for part in read_tape(store))
        assert secret.encode() not in tape
        assert b"[redacted:" in tape


def test_a_piece_that_someone_else_recorded_meanwhile_is_left_out(tmp_path: Path) -> None:
    from relight.intake.importing import find_work
    from relight.intake.sealing import SealTask, seal_task

    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        work = list(find_work(store, "claude-code", None, {"HOME": str(tmp_path)}))
        sealed = seal_task(SealTask(work, store.redaction_key, "UTC")).sealed
        assert Recorder(store).record(sealed)[0] == sealed
        assert Recorder(store).record(sealed)[0] == []


def test_prices_looked_up_once_are_kept_in_the_store(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    build.open_home(tmp_path).close()
    code = (
        "import sys; from relight.intake.importing import import_all;"
        "from relight.store import open_store; home, agents = sys.argv[1:];"
        "import_all(open_store(home), environment=dict(HOME=agents));"
        "from relight.prices import read_lists; print(read_lists.cache_info().currsize)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "relight"), str(tmp_path)]
    outputs = []
    for number in range(2):
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        outputs.append(run.stdout.strip())
        with path.open("ab") as file:
            file.write(build.as_lines([build.claude_answer(f"msg_n{number}", at=50 + number)]))
    assert outputs == ["1", "0"]


def test_the_users_own_price_comes_before_the_lists(tmp_path: Path) -> None:
    usage = build.claude_usage(cache_creation=None)
    build.write_claude(tmp_path, [build.claude_answer("msg_1", usage=usage)])
    home = tmp_path / "relight"
    home.mkdir()
    build.write_settings(
        home,
        '[prices."claude-opus-4-6"]\ninput_usd_per_mtok = 1\noutput_usd_per_mtok = 100\n'
        "cache_read_usd_per_mtok = 0\ncache_write_usd_per_mtok = 0\n",
    )
    with open_store(home) as store:
        build.import_home(store, tmp_path)
        ((nanos, source),) = store.query("select cost_nanos, cost_source from turn")
        assert (nanos, source) == (10 * 1_000 + 50 * 100_000, "config")


@pytest.mark.sqlite("it locks the file")
def test_an_interrupt_while_others_write_leaves_no_transaction_open(tmp_path: Path) -> None:
    is_writing, is_waiting = threading.Event(), threading.Event()

    def disturb(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            is_writing.set()
            is_waiting.wait()
            time.sleep(0.2)
            # heard when the one that waits for us has got its turn
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            other.execute("rollback")

    def wait_for_the_other() -> None:
        is_waiting.set()
        with store.transaction():
            pass

    with build.open_home(tmp_path) as store:
        thread = threading.Thread(target=disturb, args=(store.path,))
        thread.start()
        is_writing.wait()
        with pytest.raises(KeyboardInterrupt):
            wait_for_the_other()
        thread.join()
        with store.transaction() as database:
            database.execute("insert into meta values ('after', 'it')")
        assert store.query("select value from meta where key = 'after'") == [("it",)]
