import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.trees import generate_tree, grow_tree
from hypothesis import given, settings
from hypothesis import strategies as st

import build
from build_forks import copy, talk
from relight.errors import RelightError
from relight.intake import importing
from relight.intake.importing import import_all
from relight.model import Piece
from relight.names import find_model_name
from relight.reports.totals import report
from relight.secret_shapes import Shapes, read_secret_table
from relight.sources import files, find_source

CLAUDE = build.as_lines(build.claude_session())


def test_a_repeated_import_changes_nothing(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        before = build.dump(store)
        assert not any(one.files for one in build.import_home(store, tmp_path))
        assert build.dump(store) == before


def test_the_first_import_keeps_the_compiled_scan_for_secrets_also_if_it_finds_nothing(
    tmp_path: Path,
) -> None:
    pytest.importorskip("hyperscan")
    code = (
        "import os, sys; from relight.store import open_store;"
        " from relight.intake.importing import import_all;"
        " print(len(import_all(open_store(sys.argv[1]), environment=os.environ).touched))"
    )
    build.write_claude(tmp_path / "some", build.claude_session())
    for folder, sessions in (("none", "0"), ("some", "1")):
        home = tmp_path / folder
        words = [sys.executable, "-c", code, str(home / "store")]
        environment = {**os.environ, "HOME": str(home)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        assert (done.stdout.strip(), done.stderr) == (sessions, "")
        shapes = Shapes(read_secret_table().rule)
        assert shapes.load_scan(home / "store" / "secrets.scan")


def test_an_import_that_gives_freed_memory_back_finds_the_same_sessions(tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.modules.update(dict.fromkeys(sys.argv[3:]));"
        " from relight.intake import importing; from relight.store import open_store;"
        " importing.LARGE_BYTES = int(sys.argv[2]);"
        " store = open_store(sys.argv[1]);"
        " print(sorted(importing.import_all(store, environment=os.environ, workers=2).touched))"
    )
    generate_tree(tmp_path, claude_mb=3, codex_mb=1)
    found = []
    large = str(importing.LARGE_BYTES)
    for number, options in enumerate((["0"], [large], ["0", "_ctypes"])):
        words = [sys.executable, "-c", code, str(tmp_path / str(number)), *options]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        found.append((done.stdout, done.stderr))
    assert found[0] == found[1] == found[2]
    assert len(found[0][0]) > len("[]\n")


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, len(CLAUDE)), min_size=1, max_size=3))
def test_a_file_cut_at_any_byte_and_resumed_gives_the_same_record(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    dumps = []
    for steps in ([len(CLAUDE)], [*sorted(cuts), len(CLAUDE)]):
        home = tmp_path_factory.mktemp("cut")
        path = build.write_claude(home, [])
        with build.open_home(home) as store:
            for end in steps:
                path.write_bytes(CLAUDE[:end])
                build.import_home(store, home)
            dumps.append(build.dump(store))
    assert dumps[0] == dumps[1]


def test_a_truncated_last_line_waits_for_its_rest(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[0].unreadable == 0
        assert report(store, ("day",)).total.turns == 2
        path.write_bytes(whole)
        build.import_home(store, tmp_path)
        assert report(store, ("day",)).total.turns == 3


def test_an_unreadable_line_is_reported_with_its_place_and_the_rest_is_read(tmp_path: Path) -> None:
    first, *rest = build.claude_session()
    bad = '{"type": "assistant", "message": '
    path = build.write_claude(tmp_path, [first, bad, *rest])
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[0].unreadable == 1
        assert report(store, ("day",)).total.turns == 3
        ((offset, reason),) = store.query("select position, reason from unreadable")
        assert path.read_bytes()[offset:].startswith(bad.encode())
        assert reason


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n \n",
        b"\x00" * 200 + b"\n",
        b"\x89PNG\r\n\x1a\n\xff\xfe",
        b'{"a": "\xff"}\n',
        b"[]\n",
    ],
    ids=["empty", "blank", "NUL", "binary", "invalid UTF-8", "not an object"],
)
def test_a_strange_file_harms_nothing(tmp_path: Path, content: bytes) -> None:
    build.write_claude(tmp_path, build.claude_session())
    build.write_claude(tmp_path, [], name="strange").write_bytes(content)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert report(store, ("day",)).total.turns == 3


def test_invalid_utf_8_in_a_line_that_matters_is_counted_unreadable(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    path.write_bytes(path.read_bytes().replace(b"invoice", b"inv\xffice"))
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[0].unreadable == 1


def test_a_folder_named_like_a_file_and_a_loop_of_links_are_passed_by(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    (path.parent / "x.jsonl").mkdir()
    (path.parent / "loop").symlink_to(path.parent)
    (path.parent / "self.jsonl").symlink_to(path.parent / "self.jsonl")
    with build.open_home(tmp_path) as store:
        (claude, *_) = build.import_home(store, tmp_path)
        assert (claude.files, claude.unreadable) == (1, 0)


def test_a_linked_folder_is_read_once(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    path = build.write_claude(elsewhere, build.claude_session())
    projects = tmp_path / ".claude" / "projects"
    projects.mkdir(parents=True)
    (projects / "one").symlink_to(path.parent)
    (projects / "two").symlink_to(path.parent)
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[0].files == 1


def test_a_folder_that_may_not_be_looked_into_is_reported_and_the_rest_is_read(
    tmp_path: Path,
) -> None:
    from relight.intake.importing import Work
    from relight.intake.sealing import Intake
    from relight.intake.workers import Workers
    from relight.model import Origin

    path = build.write_claude(tmp_path, build.claude_session())
    shut = Work("claude-code", Origin(str(tmp_path / "shut"), trouble="Permission denied"), None)
    found = files.look_at(path)
    assert found is not None
    with build.open_home(tmp_path) as store:
        with Workers(1, "relight.intake.sealing:answer_task", message_seconds=60) as pool:
            (claude,) = Intake(store, pool).take([shut, Work("claude-code", found, None)])
        assert (claude.unreadable, claude.sessions_new) == (1, 1)
        assert store.query("select reason from unreadable") == [("Permission denied",)]


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_folder_that_cannot_be_looked_into_is_reported(name: str) -> None:
    impossible = "/" + "x" * 300
    environment = {"CODEX_HOME": impossible, "CLAUDE_CONFIG_DIR": impossible}
    found = list(find_source(name).find(environment, None))
    assert found
    assert all(origin.trouble for origin in found)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_reported_and_tried_again(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session()).chmod(0)
    with build.open_home(tmp_path) as store:
        assert build.import_home(store, tmp_path)[0].unreadable == 1
        assert build.import_home(store, tmp_path)[0].unreadable == 1


def test_a_file_that_vanishes_before_it_is_read_is_reported(tmp_path: Path) -> None:
    from relight.intake.importing import Work
    from relight.intake.sealing import SealTask, seal_task
    from relight.model import Origin

    gone = Work("claude-code", Origin(str(tmp_path / "gone.jsonl"), 10, 1, 1), None)
    answer = seal_task(SealTask([gone], b"key", "UTC"))
    assert answer.sealed[0].unreadable[0].reason == "No such file or directory"


def test_a_line_over_the_limit_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    long = json.dumps(build.claude_prompt("x" * (1 << 15)))
    near = json.dumps(build.claude_prompt("y" * (1 << 13), at=8))
    path = build.write_claude(tmp_path, [long, near, *build.claude_session()])
    origin = files.look_at(path)
    assert origin is not None
    pieces: list[Piece] = []
    has_more = True
    while has_more:
        mark = pieces[-1].after if pieces else None
        piece, has_more = files.read_piece(
            "claude-code", origin, mark, chunk_bytes=1 << 12, limit_bytes=1 << 14
        )
        pieces.append(piece)
    (told,) = [one for piece in pieces for one in piece.unreadable]
    assert (told.offset, "longer than 16,384" in told.reason) == (0, True)
    assert b"".join(piece.raw for piece in pieces) == path.read_bytes()[len(long) + 1 :]


def test_a_rewritten_file_is_read_again_and_the_old_tape_stays(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        path.write_bytes(build.as_lines([build.claude_answer("msg_new", at=99)]))
        build.import_home(store, tmp_path)
        assert report(store, ("day",)).total.turns == 4
        assert store.query("select count(*) from tape_part") == [(2,)]


def test_a_clock_that_jumps_back_loses_nothing(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        with path.open("ab") as file:
            file.write(build.as_lines([build.claude_answer("msg_4", at=-3600)]))
        os.utime(path, (1, 1))
        build.import_home(store, tmp_path)
        assert report(store, ("day",)).total.turns == 4


def test_days_are_in_the_stores_zone(tmp_path: Path) -> None:
    late = build.claude_answer("msg_1", at=23.5 * 3600)
    build.write_claude(tmp_path, [late])
    home = tmp_path / "relight"
    home.mkdir()
    (home / "config.toml").write_text('timezone = "Asia/Kolkata"\n')
    from relight.store import open_store

    with open_store(home) as store:
        build.import_home(store, tmp_path)
        assert report(store, ("day",)).rows[0].day == "2026-11-16"


def test_workers_and_one_process_leave_the_same_store(tmp_path: Path) -> None:
    from relight.intake import importing

    tree = make_tree(tmp_path, megabytes=16)
    dumps = []
    for workers in (1, 2):
        with build.open_home(tmp_path / str(workers)) as store:
            importing.import_all(store, environment={"HOME": str(tree)}, workers=workers)
            dumps.append(build.dump(store))
    # the tape is redacted with a key of each store: no secret is in this tree
    assert dumps[0] == dumps[1]


def make_tree(folder: Path, *, megabytes: float, seed: int = 1) -> Path:
    tree = folder / "tree"
    generate_tree(tree, claude_mb=megabytes * 0.7, codex_mb=megabytes * 0.3, seed=seed)
    return tree


def expected(tree: Path) -> dict[tuple[str, str], dict[str, int]]:
    """What the generator says was used, by day and model, in the report's words."""
    truth = json.loads((tree / "truth.json").read_text())
    rows: dict[tuple[str, str], dict[str, int]] = {}
    for kind in ("claude", "codex"):
        for day, models in truth[kind]["days"].items():
            for model, used in models.items():
                row = {"turns": used["requests"], "output_tokens": used["output"]}
                if kind == "claude":
                    row["input_tokens"] = used["input"]
                    row["cache_read_tokens"] = used["cache_read"]
                    row["cache_write_1h_tokens"] = used["cache_write_1h"]
                    row["cache_write_tokens"] = used["cache_write_1h"] + used["cache_write_5m"]
                else:
                    row["cache_read_tokens"] = used["cached_input"]
                    row["cache_write_tokens"] = used["cache_write"]
                    row["reasoning_tokens"] = used["reasoning"]
                    cached = used["cached_input"] + used["cache_write"]
                    row["input_tokens"] = used["input_total"] - cached
                known = rows.setdefault((day, find_model_name(model)), dict.fromkeys(row, 0))
                for name, number in row.items():
                    known[name] += number
    return rows


def assert_exact(store: object, tree: Path) -> None:
    found = report(store, ("day", "model"))  # type: ignore[arg-type]
    wanted = expected(tree)
    rows = {(row.day, row.model): row for row in found.rows}
    assert rows.keys() == wanted.keys()
    for place, figures in wanted.items():
        assert {name: getattr(rows[place], name) for name in figures} == figures, place


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_generated_tree_is_reported_to_the_token(tmp_path: Path, seed: int) -> None:
    tree = make_tree(tmp_path, megabytes=4, seed=seed)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tree)
        assert_exact(store, tree)
        grow_tree(tree, turns=3)
        build.import_home(store, tree)
        assert_exact(store, tree)
        build.import_home(store, tree)
        assert_exact(store, tree)


def start_import(
    home: Path, tree: Path, *, stderr: int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "HOME": str(tree), "RELIGHT_HOME": str(home / "relight")}
    command = [sys.executable, "-m", "relight", "import", "--json"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=stderr)


def test_an_import_killed_at_any_moment_and_run_again_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    tree = make_tree(tmp_path, megabytes=16)
    build.open_home(tmp_path).close()
    for wait in (0.3, 0.45, 0.6, 0.8):
        child = start_import(tmp_path, tree)
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert start_import(tmp_path, tree).wait() == 0
    with build.open_home(tmp_path) as store:
        assert_exact(store, tree)


def test_eight_processes_at_once_leave_the_store_of_one(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, megabytes=4)
    dumps = []
    for number in (1, 8):
        home = tmp_path / str(number)
        build.open_home(home).close()
        children = [start_import(home, tree) for _ in range(number)]
        assert [child.wait() for child in children] == [0] * number
        with build.open_home(home) as store:
            dumps.append(build.dump(store))
    assert dumps[0] == dumps[1]


def test_a_worker_that_dies_is_reported_and_what_was_recorded_stays(tmp_path: Path) -> None:
    from relight.intake.workers import Workers

    with (
        Workers(1, "os:_exit", message_seconds=60) as pool,
        pytest.raises(RelightError, match="ended with code"),
    ):
        list(pool.responses([b"a message"]))


def test_a_worker_killed_for_memory_is_no_problem_of_the_disk() -> None:
    from relight.intake.workers import explain_end

    error = explain_end(-signal.SIGKILL)
    assert "was ended by SIGKILL" in error.message
    assert "short of memory" in (error.hint or "")


@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_that_is_killed_costs_its_own_message_alone(count: int) -> None:
    from relight.intake.workers import Lost, Workers

    killed = b"__import__('os').kill(__import__('os').getpid(), 9)"
    messages = [b"b'one'", killed, b"b'two'", b"b'three'", killed, b"b'four'"]
    with Workers(count, "builtins:eval", message_seconds=60) as pool:
        found = list(pool.responses(messages))
    lost = [one for one in found if isinstance(one, Lost)]
    assert lost == [Lost(killed, 9)] * 2
    assert {one for one in found if not isinstance(one, Lost)} == {
        b"one",
        b"two",
        b"three",
        b"four",
    }


def test_an_import_that_must_wait_says_so(tmp_path: Path) -> None:
    from relight.intake.importing import hold_import

    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        with hold_import(store):
            child = start_import(tmp_path, tmp_path, stderr=subprocess.PIPE)
            assert child.stderr is not None
            assert (
                child.stderr.readline()
                == b"another import is running; waiting for it \xe2\x80\xa6\n"
            )
        assert child.wait() == 0
        child.stderr.close()
        assert report(store).total.turns == 3


def test_a_single_file_may_be_named(tmp_path: Path) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        (claude,) = import_all(store, sources=["claude-code"], folder=path).sources
        assert claude.sessions_new == 1


def test_import_reads_only_the_sources_asked_for(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        found = import_all(store, sources=["codex"], environment={"HOME": str(tmp_path)}).sources
        assert [(one.source, one.files) for one in found] == [("codex", 0)]


LARGE_ANSWER = """
import os, signal, sys
from relight.intake.workers import ForkedChild, write_message
child = ForkedChild(lambda message: b"x" * 1_000_000, 60.0, ())
write_message(child.stdin, b"a message")
if sys.argv[1] == "busy":
    child.stdout.read(1)  # it has begun to answer, and waits for room
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["waiting", "busy"])
def test_a_worker_ends_when_its_import_is_killed(moment: str) -> None:
    words = [sys.executable, "-c", LARGE_ANSWER, moment]
    # the pipe of its errors is closed when the last process that holds it has ended
    done = subprocess.run(words, stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL


def test_the_measures_of_workers_are_those_of_the_rows(tmp_path: Path) -> None:
    """Also where a fork, a second file or a later import adds to what a worker saw."""
    from relight.store.derive import scores

    lines = talk("one", "a", 0)
    build.write_claude(tmp_path, lines, name="one")
    build.write_claude(tmp_path, copy(lines, "two", talk("two", "b", 50), None), name="two")
    build.write_claude(tmp_path, talk("three", "c", 100), name="three")
    build.write_claude(tmp_path, talk("three", "d", 200), name="three-again")
    seen = "select id, task_type, category, score from session order by id"
    with build.open_home(tmp_path) as store:
        for grown in ([], talk("four", "f", 400)):
            build.write_claude(tmp_path, [*talk("four", "e", 300), *grown], name="four")
            build.import_home(store, tmp_path)
            before = store.query(seen)
            with store.transaction() as database:
                scores.refresh(database, [found for found, *_ in before])
            assert store.query(seen) == before
            assert all(task_type for _, task_type, *_ in before)
