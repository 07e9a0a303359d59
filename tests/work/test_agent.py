"""The loop and its tools: what they do, what they refuse, and what is on record afterwards."""

import ctypes
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import build
from relight.errors import RelightError
from relight.intake.rebuild import rebuild
from relight.intake.recorder import record
from relight.models.endpoints import Endpoint
from relight.reports.sessions import find_session, read_session
from relight.store import Store
from relight.store.write.tape import read_tape
from relight.work.agent.context import make_context
from relight.work.agent.file_tools import READ_BYTES
from relight.work.agent.limits import Budget
from relight.work.agent.loop import AgentResult, run_agent
from relight.work.agent.models import OneModel
from relight.work.agent.tools import TOOLS, execute_call
from relight.work.run_spec import RunSpec
from scripted import Reply, Server, call


def do(folder: Path, tool: str, arguments: Any = None, /, **fields: Any) -> dict[str, Any]:
    given = arguments if arguments is not None else json.dumps(fields)
    result = execute_call(TOOLS, tool, given, context=make_context(folder, timeout_seconds=20))
    told: dict[str, Any] = json.loads(result.text)
    return told


def run(
    store: Store, server: Server, folder: Path, *, attempts: int = 1, **options: Any
) -> AgentResult:
    endpoint = Endpoint(model="gpt-5.1", base_url=server.base_url, attempts=attempts)
    rec = record(store, "run", model="gpt-5.1", project=str(folder))
    spec = RunSpec(model="gpt-5.1", folder=folder, **options)
    return run_agent("Do the task", spec, model=OneModel(endpoint), rec=rec)


def test_files_are_read_written_patched_and_searched(tmp_path: Path) -> None:
    assert do(tmp_path, "write_file", path="a/b.txt", content="one\ntwö\nthree\n")["success"]
    assert do(tmp_path, "read_file", path="a/b.txt", first_line=2, lines=1)["content"] == "twö\n"
    assert do(tmp_path, "patch", path="a/b.txt", old="twö", new="2")["replaced"] == 1
    assert "not in" in do(tmp_path, "patch", path="a/b.txt", old="twö", new="2")["error"]
    assert "2 times" in do(tmp_path, "patch", path="a/b.txt", old="e\n", new="")["error"]
    found = do(tmp_path, "search_files", pattern="^th", glob="*.txt")["matches"]
    assert found == [{"path": "a/b.txt", "line": 3, "text": "three"}]
    assert do(tmp_path, "search_files", pattern="b", kind="name")["total_count"] == 1


def test_file_tools_cannot_leave_their_folder_by_any_path_or_link(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("secret words")
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "secret.txt")
    (inside / "loop").symlink_to(inside / "loop")
    for path in ("../outside/secret.txt", str(outside / "secret.txt"), "link/secret.txt", "file"):
        assert "outside" in do(inside, "read_file", path=path)["error"]
        assert "outside" in do(inside, "write_file", path=path, content="x")["error"]
        assert "outside" in do(inside, "patch", path=path, old="s", new="x")["error"]
    assert "error" in do(inside, "read_file", path="loop")
    assert "error" in do(inside, "write_file", path="link/new.txt", content="x")
    assert "error" in do(inside, "read_file", path="a\0b")
    assert do(inside, "search_files", pattern="secret words")["matches"] == []
    assert (outside / "secret.txt").read_text() == "secret words"
    assert [one.name for one in outside.iterdir()] == ["secret.txt"]


def test_a_device_is_neither_read_nor_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in do(tmp_path, "read_file", path="pipe")["error"]
    assert "not a regular file" in do(tmp_path, "write_file", path="pipe", content="x")["error"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_new_file_has_the_users_mask_and_no_other_loses_it_meanwhile(tmp_path: Path) -> None:
    """The mask belongs to the whole process: what another thread makes must not be open to all."""
    before = os.umask(0o027)
    try:
        writer = threading.Thread(
            target=lambda: [
                do(tmp_path, "write_file", path=f"{n}", content="x") for n in range(500)
            ]
        )
        writer.start()
        modes = set()
        while writer.is_alive():
            (own := tmp_path / "own").touch()
            modes.add(own.stat().st_mode & 0o777)
            own.unlink()
        assert modes == {0o640}
        assert (tmp_path / "0").stat().st_mode & 0o777 == 0o640
        (tmp_path / "0").chmod(0o700)
        do(tmp_path, "write_file", path="0", content="y")
        assert (tmp_path / "0").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
    assert not list(tmp_path.glob(".relight-*"))


def test_lines_are_counted_as_editors_do(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("one\f\u2028still\r\n\ntwo".encode())
    told = do(tmp_path, "read_file", path="a.txt", first_line=3)
    assert (told["content"], told["total_lines"]) == ("two", 3)
    found = do(tmp_path, "search_files", pattern="still$|^$|two")["matches"]
    assert [one["line"] for one in found] == [1, 2, 3]


def test_commands_give_their_output_and_exit_code(tmp_path: Path) -> None:
    told = do(tmp_path, "terminal", command="echo out; echo err >&2; exit 3")
    assert (told["output"], told["exit_code"], told["timed_out"]) == ("out\nerr\n", 3, False)
    assert do(tmp_path, "execute_code", code="print(6 * 7)")["output"] == "42\n"


def test_a_command_is_ended_with_its_children_when_its_time_is_over(tmp_path: Path) -> None:
    started = time.monotonic()
    told = do(tmp_path, "terminal", command="sleep 60 & sleep 60", timeout_seconds=0.3)
    assert (told["timed_out"], told["exit_code"]) == (True, 124)
    left = do(tmp_path, "terminal", command="echo done; sleep 60 &")
    assert (left["output"], left["exit_code"]) == ("done\n", 0)
    assert time.monotonic() - started < 30


def test_a_flood_of_output_is_cut_in_its_middle(tmp_path: Path) -> None:
    told = do(tmp_path, "execute_code", code="print('a' * 5_000_000 + 'end')")
    assert told["truncated"]
    assert len(told["output"]) < 210_000
    assert told["output"].endswith("end\n")


def test_a_pattern_that_takes_forever_is_ended(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 40 + "!")
    place = make_context(tmp_path, timeout_seconds=0.5)
    result = execute_call(TOOLS, "search_files", '{"pattern": "(a+)+$"}', context=place)
    assert "timed out" in result.text


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("terminal", "{not json", "not valid JSON"),
        ("terminal", "[1]", "do not fit"),
        ("terminal", '{"command": ' + "[" * 100_000, "not valid JSON"),
        ("terminal", '{"command": 5}', "do not fit"),
        ("terminal", "{}", "do not fit"),
        ("unheard_of", "{}", "there is no tool"),
        ("read_file", '{"path": "gone.txt"}', "File not found"),
        ("search_files", '{"pattern": "("}', "not a regular expression"),
        ("web_fetch", '{"url": "file:///etc/passwd"}', "not an http"),
        ("web_fetch", '{"url": "http://127.0.0.1:9/"}', "not a public address"),
        ("terminal", '{"command": "ls", "timeout_seconds": "nan"}', "the time limit must be"),
        ("terminal", '{"command": "ls", "timeout_seconds": -1}', "the time limit must be"),
        ("execute_code", '{"code": "1", "timeout_seconds": "inf"}', "the time limit must be"),
    ],
)
def test_what_is_wrong_with_a_call_is_reported_to_the_model(
    tmp_path: Path, tool: str, arguments: str, words: str
) -> None:
    assert words in do(tmp_path, tool, arguments)["error"]


def test_a_file_too_large_to_patch_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(3 << 30)
    patched = do(tmp_path, "patch", '{"path": "large", "old": "a", "new": "b"}')
    assert "too large to patch" in patched["error"]
    (tmp_path / "small").write_text("a" * 100_000)
    arguments = {"path": "small", "old": "a", "new": "b" * 1000, "replace_all": True}
    assert "too large to patch" in do(tmp_path, "patch", json.dumps(arguments))["error"]
    assert (tmp_path / "small").read_text() == "a" * 100_000


def test_a_file_of_nuls_does_not_become_a_result_of_six_times_its_size(tmp_path: Path) -> None:
    (tmp_path / "nuls").write_bytes(b"a" * 5000 + b"\0" * 1_900_000)
    read = do(tmp_path, "read_file", '{"path": "nuls"}')
    assert read["truncated"]
    assert len(json.dumps(read)) <= READ_BYTES + 1000


def test_keys_are_not_seen_by_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOME_KEY", "GH_TOKEN", "client_secret", "DB_PASS", "SMTP_PASSWORD", "MODEL"):
        monkeypatch.setenv(name, f"value of {name}")

    def show(**given: Any) -> set[str]:
        place = make_context(tmp_path, **given)
        shown = execute_call(TOOLS, "terminal", '{"command": "env"}', context=place).text
        return set(re.findall(r"value of (\w+)", shown))

    assert show() == {"MODEL"}
    assert show(secret_variables=("MODEL",)) == set()
    assert show(pass_variables=("GH_TOKEN", "DB_PASS")) == {"GH_TOKEN", "DB_PASS", "MODEL"}
    with pytest.raises(RelightError, match="own model"):
        show(secret_variables=("SOME_KEY",), pass_variables=("SOME_KEY",))
    with pytest.raises(RelightError, match="ABSENT_KEY is not set"):
        show(pass_variables=("ABSENT_KEY",))


PEEKING = """
import sys
from relight.store import open_store
from relight.work.agent.session import run_prompt
from relight.work.run_spec import RunSpec

with open_store(sys.argv[1]) as store:
    run_prompt(store, "Look", RunSpec(
        model="m", base_url=sys.argv[2], key_variable="PEEK_KEY", folder=sys.argv[1]
    ))
"""


def drop_rights_to_trace() -> None:
    """Root with these may look into every process; without them, it is a user as any other."""
    for right in (19, 21, 38):  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON
        ctypes.CDLL(None).prctl(24, right, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows another process")
def test_a_command_cannot_read_the_key_of_the_run_from_its_parent(tmp_path: Path) -> None:
    look = "tr '\\0' '\\n' < /proc/$PPID/environ; echo looked"
    replies = [Reply(None, [call("terminal", command=look)]), Reply("Done.")]
    with Server(replies) as server:
        subprocess.run(
            [sys.executable, "-c", PEEKING, str(tmp_path), server.base_url],
            env={**os.environ, "PEEK_KEY": "k3y-of-the-run"},
            preexec_fn=drop_rights_to_trace,
            check=True,
            timeout=120,
        )
        seen = json.dumps(server.chats[-1].body)
    assert "looked" in seen
    assert "k3y-of-the-run" not in seen


def test_a_task_of_thirty_turns_with_three_calls_each_is_done_and_on_record(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        turns = sum(one["role"] == "assistant" for one in body["messages"])
        if turns == 30:
            return Reply("All done.")
        calls = [
            call("write_file", f"a{turns}", path=f"{turns}.txt", content=str(turns)),
            call("read_file", f"b{turns}", path=f"{turns - 1}.txt"),
            call("search_files", f"c{turns}", pattern="nothing", glob="0.txt"),
        ]
        return Reply(None, calls)

    work = tmp_path / "work"
    work.mkdir()
    with build.open_home(tmp_path) as store, Server(script) as server:
        result = run(store, server, work)
        assert (result.answer, result.ended_by) == ("All done.", None)
        figures = result.figures
        assert (figures["turns"], figures["tool_calls"], figures["tool_failures"]) == (31, 90, 1)
        last = server.chats[-1].body["messages"]
        results = [one["tool_call_id"] for one in last if one["role"] == "tool"]
        assert results[:6] == ["a0", "b0", "c0", "a1", "b1", "c1"]
        before = build.dump(store)
        rebuild(store, workers=1)
        assert build.dump(store) == before


def test_long_results_are_short_in_the_request_and_whole_on_record(tmp_path: Path) -> None:
    code = "print('x' * 30_000)"
    replies = [Reply(None, [call("execute_code", code=code)]), Reply("Long.")]
    with build.open_home(tmp_path) as store, Server(replies) as server:
        run(store, server, tmp_path, max_tool_chars=1000)
        sent = server.chats[-1].body["messages"][-1]["content"]
        taped = b"".join(line for part in read_tape(store) for line in part.lines())
    assert len(sent) < 1100
    assert "chars total]" in sent
    assert b"x" * 30_000 in taped


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(turns=2), "2 turns"),
        (Budget(tokens=200), "200 tokens"),
        (Budget(cost_usd=0.0005), r"\$0.0005"),
        (Budget(seconds=0.3), "0.3 seconds"),
    ],
)
def test_a_budget_that_is_used_up_ends_the_run_as_a_failure(
    tmp_path: Path, budget: Budget, words: str
) -> None:
    def script(body: dict[str, Any]) -> Reply:
        number = len(body["messages"])
        return Reply(None, [call("terminal", command=f"sleep 0.1; echo {number}")])

    with build.open_home(tmp_path) as store, Server(script) as server:
        result = run(store, server, tmp_path, budget=budget)
    assert result.outcome == "failure"
    assert re.search(words, result.ended_by or "")
    assert result.turns <= 4


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=401, body=b'{"error": {"message": "wrong key"}}'), "auth"),
        (Reply(body=b"<html>hello</html>"), "malformed_response"),
        (Reply("half of the ans", breaks_after=2), None),
    ],
)
def test_a_model_that_fails_ends_the_run_and_the_record_is_kept(
    tmp_path: Path, reply: Reply, kind: str | None
) -> None:
    with build.open_home(tmp_path) as store, Server([reply]) as server:
        result = run(store, server, tmp_path)
        found = read_session(store, find_session(store, "relight:run"))
    assert result.outcome == "failure"
    assert result.answer is None
    assert found.title == "Do the task"
    assert kind in (None, found.turns[0].failure)


def test_calls_with_equal_ids_each_get_their_own_result(tmp_path: Path) -> None:
    twins = [call("terminal", "same", command="echo 1"), call("terminal", "same", command="echo 2")]
    nameless = {**call("terminal", command="echo 3"), "id": ""}
    with (
        build.open_home(tmp_path) as store,
        Server([Reply(None, [*twins, nameless]), Reply("k")]) as s,
    ):
        result = run(store, s, tmp_path)
        told = [one for one in s.chats[-1].body["messages"] if one["role"] == "tool"]
        assert result.figures["tool_calls"] == 3
    assert [one["tool_call_id"] for one in told] == ["same", "same-2", "call-3"]
    assert [json.loads(one["content"])["output"] for one in told] == ["1\n", "2\n", "3\n"]


def test_bad_arguments_from_the_model_do_not_end_the_run(tmp_path: Path) -> None:
    bad = {"id": "c", "type": "function", "function": {"name": "terminal", "arguments": "{oops"}}
    with (
        build.open_home(tmp_path) as store,
        Server([Reply(None, [bad]), Reply("Sorry.")]) as server,
    ):
        result = run(store, server, tmp_path)
        assert "not valid JSON" in server.chats[-1].body["messages"][-1]["content"]
    assert (result.answer, result.figures["tool_failures"]) == ("Sorry.", 1)


def test_a_tool_or_folder_that_is_not_there_is_reported_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    with build.open_home(tmp_path) as store, Server([]) as server:
        with pytest.raises(RelightError, match="no tool 'fly'"):
            run(store, server, tmp_path, tools=["fly"])
        with pytest.raises(RelightError, match="no folder"):
            run(store, server, tmp_path / "gone")
