"""A damaged tape costs one session, and is named."""

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest

import build
from relight.cli import main
from relight.errors import DamagedTapeError
from relight.intake.rebuild import rebuild
from relight.reports.doctor import examine
from relight.reports.tapes import check_tapes
from relight.reports.totals import report
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.store.write.tape import compress, decompress

SOUND = "22222222-aaaa-4aaa-8aaa-222222222222"


def test_no_flipped_bit_of_compressed_records_goes_unnoticed() -> None:
    dice, harmless = random.Random(1), 0
    text = build.as_lines(build.claude_session())
    records = compress(text)
    assert decompress(records) == text
    for place in range(len(records)):
        flipped = bytearray(records)
        flipped[place] ^= 1 << dice.randrange(8)
        with suppress(DamagedTapeError):
            assert decompress(bytes(flipped)) == text  # a bit of the frame that means nothing
            harmless += 1
    assert harmless < 4
    with pytest.raises(DamagedTapeError):
        decompress(records[:-1])


def import_two(home: Path, store: Store) -> None:
    """Two sessions, the first of them in two stretches."""
    path = build.write_claude(home, build.claude_session())
    other = json.dumps(build.claude_session()).replace(build.CLAUDE_SESSION, SOUND)
    renamed = other.replace("msg_", "msg_other_").replace("toolu_", "toolu_other_")
    build.write_claude(home, json.loads(renamed), name=SOUND)
    build.import_home(store, home)
    with path.open("ab") as file:
        file.write(build.as_lines([build.claude_answer("msg_4", at=9)]))
    build.import_home(store, home)


def damage(store: Store, column: str, *, position: str = "= 0") -> None:
    """Flip a bit in the middle of a stretch of the first session's tape."""
    where = (
        "origin_id in (select id from origin where path like ?)"
        f" and position {position} and length({column}) > 0"
    )
    named = (f"%{build.CLAUDE_SESSION}%",)
    ((part, found),) = store.query(f"select id, {column} from tape_part where {where}", named)
    flipped = bytearray(found)
    flipped[0 if column == "state" else len(flipped) // 2] ^= 4
    with store.transaction() as database:
        database.execute(f"update tape_part set {column} = ? where id = ?", (flipped, part))


@pytest.mark.parametrize(("column", "position"), [("records", "= 0"), ("state", "> 0")])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_rebuild_leaves_the_session_of_a_damaged_tape_as_it_is_and_derives_the_others(
    tmp_path: Path, column: str, position: str, workers: int
) -> None:
    with build.open_home(tmp_path) as store:
        import_two(tmp_path, store)
        turns = store.query("select session_id, id, output_tokens from turn order by id")
        figures = report(store, ("day",)).total
        damage(store, column, position=position)
        with store.transaction() as database:  # what only a rebuild can bring back
            database.execute(
                "delete from tool_call where session_id in (select id from session where key = ?)",
                (SOUND,),
            )
        rebuilt = rebuild(store, workers=workers)
        assert [one.session_id for one in rebuilt.damaged] == [
            f"claude-code:{build.CLAUDE_SESSION}"
        ]
        assert store.query("select session_id, id, output_tokens from turn order by id") == turns
        assert report(store, ("day",)).total == figures
        assert store.query("select count(*) from tool_call") == [(4,)]
        rebuild(store, again_redact=True)


def test_the_doctor_names_the_session_of_a_damaged_tape(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        import_two(tmp_path, store)
        assert examine(store, environment={}).ok
        assert check_tapes(store, sample=2).checked == 2
        damage(store, "records")
        found = examine(store, environment={}, depth="deep")
        assert not found.ok
        assert (found.tapes.parts, found.tapes.checked) == (3, 3)
        ((one),) = found.tapes.damaged
        assert (one.session_id, one.offset) == (f"claude-code:{build.CLAUDE_SESSION}", 0)
        assert one.reason == "its records do not match their checksum"
        assert any("the tapes of 1 session are damaged" in advice for advice in found.advice)


def test_the_command_line_says_what_is_damaged_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with build.open_home(tmp_path) as store:
        import_two(tmp_path, store)
        damage(store, "records")
        (session,) = store.query("select id from session where key = ?", (build.CLAUDE_SESSION,))
        with pytest.raises(DamagedTapeError, match=r"the tape of .* from byte 0 is damaged"):
            read_transcript(store, session[0])
    home = ["--home", str(tmp_path / "relight")]
    for arguments, status in ((["rebuild"], 0), (["doctor", "--deep"], 1)):
        with pytest.raises(SystemExit) as ended:
            main([*home, *arguments])
        assert ended.value.code == status
        printed = capsys.readouterr()
        assert build.CLAUDE_SESSION in printed.out + printed.err
        assert "Traceback" not in printed.err
