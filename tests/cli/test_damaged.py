"""A damaged database ends in words, never in a traceback, and `doctor` finds the damage."""

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import build
from relight.cli import main

COMMANDS = (["report"], ["report", "--by", "session"], ["doctor"], ["import"], ["rebuild"])
PAGE = 4096


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a database with two sessions."""
    home = tmp_path_factory.mktemp("sound")
    build.write_claude(home, build.claude_session())
    build.write_codex(home, [build.codex_meta(), build.codex_count(1, build.codex_usage(1000))])
    with build.open_home(home) as store:
        build.import_home(store, home)
        store.run("pragma wal_checkpoint(truncate)")
        return store.path.read_bytes()


def damage(sound: bytes) -> Iterator[tuple[str, bytes]]:
    """Files with flipped bits, lost pages, lost ends and damaged heads."""
    dice = random.Random(3)
    for number in range(8):
        data = bytearray(sound)
        for _ in range(400):
            data[dice.randrange(100, len(data))] ^= 1 << dice.randrange(8)
        yield f"flipped bits {number}", bytes(data)
    for number in range(6):
        data = bytearray(sound)
        start = dice.randrange(1, len(data) // PAGE) * PAGE
        data[start : start + PAGE] = dice.randbytes(PAGE)
        yield f"lost page {number}", bytes(data)
    for number in range(4):
        yield f"lost end {number}", sound[: dice.randrange(PAGE, len(sound) - PAGE)]
    for number in range(6):
        data = bytearray(sound)
        data[dice.randrange(100)] ^= 1 << dice.randrange(8)
        yield f"damaged head {number}", bytes(data)


def run(home: Path, arguments: list[str]) -> object:
    """The exit status of a command; any other exception would be shown as a traceback."""
    with pytest.raises(SystemExit) as ended:
        main(["--home", str(home), *arguments])
    return ended.value.code


def place(home: Path, data: bytes) -> None:
    for path in home.glob("relight.db*"):
        path.unlink()
    (home / "relight.db").write_bytes(data)


def test_no_damage_ends_in_a_traceback(
    tmp_path: Path, sound: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / "relight"
    home.mkdir()
    found = 0
    for name, data in damage(sound):
        for arguments in COMMANDS:
            place(home, data)
            status = run(home, arguments)
            assert status in (0, 1), (name, arguments)
            if arguments == ["doctor"] and not name.startswith("damaged head"):
                assert status == 1, name
                found += 1
    assert found == 18


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("update meta set value = 'UTB' where key = 'timezone'", "its time zone is unknown"),
        ("delete from meta where key = 'timezone'", "its time zone is unknown"),
        ("update meta set value = 'zz' where key = 'redaction_key'", "its redaction key"),
    ],
)
def test_a_damaged_setting_is_named(
    tmp_path: Path, sound: bytes, capsys: pytest.CaptureFixture[str], statement: str, reason: str
) -> None:
    build.write_claude(tmp_path, build.claude_session())
    home = tmp_path / "relight"
    home.mkdir()
    place(home, sound)
    with sqlite3.connect(home / "relight.db") as database:
        database.execute(statement)
    database.close()
    assert run(home, ["import", "--source", "claude-code", "--from", str(tmp_path)]) == 1
    assert reason in capsys.readouterr().err
    assert run(home, ["doctor"]) == 1
    printed = capsys.readouterr()
    assert reason in printed.out + printed.err


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_schema_with_bytes_that_are_no_text_ends_in_words(
    tmp_path: Path, sound: bytes, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    home = tmp_path / "relight"
    home.mkdir()
    damaged = sound.lower().find(b"create table meta")
    assert damaged > 0
    place(home, sound[:damaged] + b"cr\xe9ate" + sound[damaged + 6 :])
    assert run(home, arguments) == 1
    assert "its schema is malformed" in capsys.readouterr().err


def test_an_index_that_disagrees_with_its_table_is_found(tmp_path: Path, sound: bytes) -> None:
    home = tmp_path / "relight"
    home.mkdir()
    place(home, sound)
    with sqlite3.connect(home / "relight.db") as database:
        database.execute("pragma writable_schema = on")
        database.execute(
            "update sqlite_schema set sql = replace(sql, '(session_id)', '(origin_id)')"
            " where name = 'tape_part_by_session'"
        )
    database.close()
    assert run(home, ["doctor"]) == 1
