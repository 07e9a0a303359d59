"""While another process locks the database, events are stored beside it, and no program waits."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import asdict

import build
from build import holding
from relight.intake.live import WAIT_SECONDS, find_backlogs
from relight.intake.recorder import record
from relight.store.misses import count_missed
from relight.store.write.tape import read_tape

SCRIPT = """
import sys
import relight
with relight.open_store(sys.argv[1]) as store:
    rec = relight.record(store, "killed", model="m")
    print("opened", flush=True)
    sys.stdin.readline()
    for number in range(100_000):
        rec.turn(input_tokens=number, output_tokens=1)
        print(f"turn {number}", flush=True)
"""


def test_a_program_stands_still_once_and_shortly_while_another_writes(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        with holding(store):
            started = time.monotonic()
            rec.turn(input_tokens=1, output_tokens=1)
            first = time.monotonic() - started
            for _ in range(50):
                rec.turn(input_tokens=1, output_tokens=1)
            others = time.monotonic() - started - first
            assert rec.stats().unwritten == 51
        assert first < WAIT_SECONDS + 1
        assert others < 1
        rec.turn(input_tokens=1, output_tokens=1)
        assert (rec.stats().turns, rec.stats().unwritten) == (52, 0)
        assert find_backlogs(store) == []
        assert count_missed(store) == 0


def test_figures_count_what_is_not_written_yet(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="gpt-5.1", provider="openai")
        rec.turn(input_tokens=1000, output_tokens=10)
        with holding(store):
            rec.turn(input_tokens=1000, output_tokens=10)
            rec.turn(model="nobody-knows", input_tokens=5, output_tokens=1)
            waiting = asdict(rec.stats())
        rec.turn(failure="HTTP 500: oh")
        written = asdict(rec.stats())
    assert waiting.pop("unwritten") == 2
    names = [name for name in waiting if name.endswith(("turns", "tokens", "usd"))]
    assert {name: waiting[name] for name in names} == {
        **{name: written[name] for name in names},
        "failed_turns": 0,
    }
    assert (written["turns"], written["unpriced_turns"], written["failed_turns"]) == (3, 1, 1)


def test_what_can_be_kept_nowhere_is_counted_one_by_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        in_the_way = store.config.backlog / f"{rec._tape.name}.jsonl"
        (in_the_way / "folder").mkdir(parents=True)
        with holding(store):
            for _ in range(3):
                rec.turn(input_tokens=1, output_tokens=1)
            rec._tape.close()
        assert count_missed(store) == 3
        assert [*in_the_way.parent.iterdir()] == [in_the_way]
        assert len(caplog.messages) == 2


def test_thousands_of_events_are_written_in_their_order_when_the_database_is_free(
    tmp_path: Path,
) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        with holding(store):
            for number in range(2500):
                rec.turn(input_tokens=number, output_tokens=1)
        rec.turn(input_tokens=2500, output_tokens=1)
        assert store.query("select count(*), sum(input_tokens) from turn") == [(2501, 3_126_250)]
        rec.finish()
        lines = [line for part in read_tape(store) for line in part.lines()]
    told = [int(line.partition(b'"input":')[2].partition(b",")[0]) for line in lines[1:-1]]
    assert told == list(range(2501))


def test_what_a_killed_program_could_not_write_is_written_by_the_next_recorder(
    tmp_path: Path,
) -> None:
    with build.open_home(tmp_path) as store:
        child = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(store.config.home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"opened\n"
        with holding(store):
            child.stdin.write(b"\n")
            child.stdin.flush()
            told = [child.stdout.readline() for _ in range(20)]
            os.kill(child.pid, signal.SIGKILL)
            told += child.stdout.readlines()
            child.wait()
        child.stdin.close()
        child.stdout.close()
        assert store.query("select count(*) from turn") == [(0,)]
        record(store, "next")
        tokens = [row[0] for row in store.query("select input_tokens from turn order by 1")]
        assert find_backlogs(store) == []
        record(store, "another")
        assert store.query("select count(*) from turn") == [(len(tokens),)]
    whole = [line for line in told if line.endswith(b"\n")]
    assert tokens == list(range(len(tokens)))
    assert len(tokens) >= len(whole) >= 20


def test_an_import_takes_up_what_was_left_too(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        with holding(store):
            rec.turn(input_tokens=1, output_tokens=1)
            rec._tape.close()  # as if the program had ended here
        build.import_home(store, tmp_path)
        assert store.query("select count(*) from turn") == [(1,)]
        rec.turn(input_tokens=1, output_tokens=1)
        assert (rec.stats().turns, rec.stats().unwritten) == (2, 0)
        assert count_missed(store) == 0


def test_the_file_of_a_recorder_at_work_is_left_to_it(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        with holding(store):
            rec.turn(input_tokens=1, output_tokens=1)
        record(store, "next")
        assert len(find_backlogs(store)) == 1
        rec.turn(input_tokens=1, output_tokens=1)
        assert rec.stats().turns == 2


def test_secrets_are_taken_out_before_anything_is_kept_beside(tmp_path: Path) -> None:
    secret = "sk-proj-" + "a1B2" * 12
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        with holding(store):
            rec.message("user", f"my key is {secret}")
            (path,) = find_backlogs(store)
            kept = path.read_bytes()
            assert path.stat().st_mode & 0o077 == 0
        rec.turn(input_tokens=1, output_tokens=1)
        taped = b"".join(line for part in read_tape(store) for line in part.lines())
    assert b"my key is" in kept
    assert secret.encode() not in kept + taped


def test_torn_and_strange_files_are_passed_over(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        rec = record(store, "mine", model="m")
        with holding(store):
            rec.turn(input_tokens=1, output_tokens=1)
            rec.turn(input_tokens=1, output_tokens=1)
            rec._tape.close()
        (path,) = find_backlogs(store)
        path.write_bytes(path.read_bytes()[:-5])
        (store.config.backlog / "strange.jsonl").write_bytes(b"\xff\n{}\n")
        record(store, "next")
        assert store.query("select count(*) from turn") == [(1,)]
        assert find_backlogs(store) == []
