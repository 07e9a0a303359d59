"""A piece that ends the process that reads it is set aside, and stops nothing else."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import build
from relight.errors import RelightError
from relight.intake import importing
from relight.intake.importing import Imported, import_all
from relight.intake.rebuild import rebuild
from relight.reports.doctor import examine
from relight.reports.totals import report
from relight.sources import SOURCES, find_added, find_reader
from relight.store import Store
from relight.store.write import set_aside

# CPU time in which every innocent piece is sealed, the loading of the rules included
SECONDS = 2.0
# readers that burn time where Python gets no signal, or end as if they had burnt it
READERS = """
import os, signal
from relight.sources import Source
from relight.sources.chat import ChatReader
from relight.sources.claude_code.reader import ClaudeCodeReader
from relight.sources.hermes.reader import HermesReader

def act(line):
    if b"BURN" in line:  # one call of the interpreter that never returns
        sum(range(10 ** 15))
    if b"LATE" in line and not os.path.exists(os.environ["CURED"]):
        os.kill(os.getpid(), signal.SIGPROF)
    if b"KILL" in line and not os.path.exists(os.environ["CURED"]):
        os.kill(os.getpid(), signal.SIGKILL)

class Bad(ClaudeCodeReader):
    def read_line(self, line):
        act(line)
        return super().read_line(line)

class BadChat(ChatReader):
    def read_line(self, line):
        act(line)
        return super().read_line(line)

class BadHermes(HermesReader):
    def read_line(self, line):
        act(line)
        return super().read_line(line)

SOURCE = Source(name="bad", title="Bad", reader="bad_source:Bad", homes=(".bad",))
"""


@pytest.fixture(autouse=True)
def cured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the source `bad`; the file named here cures its readers."""
    packages = tmp_path / "packages"
    metadata = packages / "bad_source-1.0.dist-info"
    metadata.mkdir(parents=True)
    (packages / "bad_source.py").write_text(READERS)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bad_source\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[relight.sources]\nbad = bad_source:SOURCE\n")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("CURED", str(tmp_path / "cured"))
    for name, reader in (("chat", "BadChat"), ("hermes", "BadHermes")):
        row = replace(SOURCES[name], reader=f"bad_source:{reader}")
        monkeypatch.setitem(SOURCES, name, row)
    find_added.cache_clear()
    yield tmp_path / "cured"
    find_added.cache_clear()
    find_reader.cache_clear()
    sys.modules.pop("bad_source", None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with build.open_home(tmp_path) as store:
        yield store


def write_session(home: Path, name: str, text: str = "") -> Path:
    """Write a session of one answer; its words make the reader act."""
    path = home / ".bad" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    prompt = build.claude_prompt(text, sessionId=name)
    path.write_bytes(build.as_lines([prompt, build.claude_answer(f"msg_{name}", sessionId=name)]))
    return path


def take(store: Store, home: Path, **options: object) -> Imported:
    (found,) = import_all(
        store,
        sources=["bad"],
        environment={"HOME": str(home)},
        **options,  # type: ignore[arg-type]
    ).sources
    return found


def list_aside(store: Store) -> list[tuple[str, int, int]]:
    return [(Path(one.file).name, one.offset, one.tries) for one in examine(store).set_aside.pieces]


@pytest.mark.parametrize(("workers", "can_fork"), [(1, True), (2, True), (2, False)])
def test_a_piece_that_burns_time_in_c_is_set_aside_and_the_others_are_read(
    tmp_path: Path, store: Store, workers: int, can_fork: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("POOL_BYTES", "FORKED_POOL_BYTES"):
        monkeypatch.setattr(importing, limit, 0)
    if not can_fork:
        monkeypatch.setattr("relight.intake.workers.can_fork_here", lambda: False)
    for name, text in (("a", ""), ("b", "BURN"), ("c", "")):
        write_session(tmp_path, name, text)
    found = take(store, tmp_path, workers=workers, piece_seconds=SECONDS)
    assert (found.sessions_new, found.set_aside, found.unreadable) == (2, 1, 0)
    assert report(store).total.turns == 2
    (piece,) = examine(store).set_aside.pieces
    assert piece.reason == "it takes more than 2 s of CPU time"
    assert store.query("select count(*) from tape_part") == [(2,)]


def test_it_is_tried_once_more_and_again_after_an_upgrade(
    tmp_path: Path, store: Store, cured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_session(tmp_path, "b", "LATE")
    assert [take(store, tmp_path).set_aside for _ in range(4)] == [1, 1, 0, 0]
    assert list_aside(store) == [("b.jsonl", 0, 2)]
    with path.open("ab") as file:
        file.write(build.as_lines([build.claude_answer("msg_2", sessionId="b")]))
    assert take(store, tmp_path).files == 0
    monkeypatch.setattr(set_aside, "__version__", "99")
    assert [take(store, tmp_path).set_aside for _ in range(3)] == [1, 0, 0]
    monkeypatch.setattr(set_aside, "__version__", "100")
    cured.touch()
    assert take(store, tmp_path).sessions_new == 1
    assert report(store).total.turns == 2
    assert list_aside(store) == []


def test_what_was_read_before_stays_and_a_rewritten_file_is_tried(
    tmp_path: Path, store: Store
) -> None:
    path = write_session(tmp_path, "b")
    take(store, tmp_path)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(build.as_lines([build.claude_prompt("LATE", sessionId="b")]))
    assert [take(store, tmp_path).set_aside for _ in range(3)] == [1, 1, 0]
    assert list_aside(store) == [("b.jsonl", len(whole), 2)]
    path.write_bytes(whole)
    assert take(store, tmp_path).set_aside == 0
    assert list_aside(store) == []
    assert report(store).total.turns == 1


def test_a_piece_that_kills_its_workers_is_set_aside_too(tmp_path: Path, store: Store) -> None:
    write_session(tmp_path, "a")
    write_session(tmp_path, "b", "KILL")
    found = take(store, tmp_path)
    assert (found.sessions_new, found.set_aside) == (1, 1)
    (piece,) = examine(store).set_aside.pieces
    assert piece.reason == "each worker process that reads it was ended by SIGKILL"


def test_a_machine_that_kills_every_worker_sets_nothing_aside_for_long(
    tmp_path: Path, store: Store, cured: Path
) -> None:
    for number in range(6):
        write_session(tmp_path, f"s{number}", "KILL")
    with pytest.raises(RelightError, match="ended by SIGKILL"):
        take(store, tmp_path)
    cured.touch()
    assert take(store, tmp_path).sessions_new == 6
    assert list_aside(store) == []


def test_a_bad_line_of_a_chat_file_stops_no_other_line(
    tmp_path: Path, store: Store, cured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chats.jsonl"
    lines = [
        json.dumps({"id": name, "messages": [{"role": "user", "content": text}]}) + "\n"
        for name, text in (("a", "x"), ("b", "LATE"), ("c", "y"))
    ]
    path.write_text("".join(lines))

    def take_chat() -> Imported:
        (found,) = import_all(store, sources=["chat"], folder=path).sources
        return found

    first = take_chat()
    assert (first.sessions_new, first.set_aside) == (2, 1)
    assert [take_chat().set_aside for _ in range(2)] == [1, 0]
    assert list_aside(store) == [("chats.jsonl", len(lines[0]), 2)]
    with path.open("a") as file:
        file.write(lines[0].replace('"a"', '"d"'))
    later = take_chat()
    assert (later.sessions_new, later.set_aside) == (1, 0)
    monkeypatch.setattr(set_aside, "__version__", "99")
    cured.touch()
    assert take_chat().sessions_new == 1
    assert list_aside(store) == []
    assert take_chat().files == 0


def test_a_bad_session_of_a_database_stops_no_other_session(
    tmp_path: Path, store: Store, cured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = build.open_hermes(tmp_path)
    build.hermes_session(database, "20261115_000000_aaaaaa")
    bad = build.hermes_session(database, "20261115_000001_bbbbbb")
    database.execute("update messages set content = 'LATE' where session_id = ?", (bad,))
    database.commit()

    def take_hermes() -> Imported:
        home = {"HOME": str(tmp_path)}
        (found,) = import_all(store, sources=["hermes"], environment=home).sources
        return found

    first = take_hermes()
    assert (first.sessions_new, first.set_aside) == (1, 1)
    assert [take_hermes().set_aside for _ in range(2)] == [1, 0]
    build.hermes_session(database, "20261115_000002_cccccc")
    database.commit()
    later = take_hermes()
    assert (later.sessions_new, later.set_aside) == (1, 0)
    monkeypatch.setattr(set_aside, "__version__", "99")
    cured.touch()
    assert take_hermes().sessions_new == 1
    assert list_aside(store) == []


def test_the_command_and_the_page_name_what_is_set_aside(tmp_path: Path, store: Store) -> None:
    import serving
    from terminal import run_relight

    path = write_session(tmp_path, "b", "LATE")
    take(store, tmp_path)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    home = str(store.config.home)
    told = run_relight(environment, "--home", home, "doctor").stdout
    reason = "it takes more than 60 s of CPU time"
    assert f"set aside: {path} from byte 0: {reason} (tried once)" in told
    with serving.make_client(store.config.home) as client:
        page = client.get("/").text
        assert f"{path}</bdi>" in page
        assert f"set aside, not recorded: {reason}</bdi>" in page
        (piece,) = client.get("/api/doctor").json()["set_aside"]["pieces"]
    assert (piece["file"], piece["tries"]) == (str(path), 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_rebuild_leaves_a_session_that_burns_time_as_it_is(
    tmp_path: Path, store: Store, cured: Path, workers: int
) -> None:
    cured.touch()
    for name, text in (("a", ""), ("b", "LATE"), ("c", "")):
        write_session(tmp_path, name, text)
    take(store, tmp_path)
    before = build.dump(store)
    cured.unlink()
    rebuilt = rebuild(store, workers=workers)
    assert [(one.session_id, one.reason) for one in rebuilt.damaged] == [
        ("bad:b", "it takes more than 60 s of CPU time")
    ]
    after = build.dump(store)
    # a search shows and deletes entries by the texts of the tape, which are out of reach
    del before["search"], after["search"]
    assert after == before
