"""The newer agents themselves, against a scripted model whose log is the truth, call by call.

They run with `./dev test --real tests/real/test_more_agents.py`, which installs them from npm.
"""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import build
from agent_programs import PROGRAMS, PROMPT, SUMS_ONLY, Program, Script, Started, sum_output
from relight.reports.listing import list_sessions
from relight.reports.sessions import find_session
from relight.reports.transcript import read_transcript
from relight.store import Store
from scripted import Reply, call

pytestmark = pytest.mark.programs


def read_tokens(store: Store) -> list[tuple[int, ...]]:
    return store.query(
        "select input_tokens, cache_read_tokens, output_tokens from turn where calls > 0"
        " order by at, output_tokens"
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=[one.name for one in PROGRAMS])
def test_tokens_equal_the_servers_log_and_verdicts_the_truth(
    tmp_path: Path, program: Program
) -> None:
    script = Script(program)
    with program.server(script) as server:
        Started(program, tmp_path, server)
    assert len(script.truth) == 5
    with build.open_home(tmp_path) as store:
        found = next(
            one for one in build.import_home(store, tmp_path) if one.source == program.name
        )
        assert (found.sessions_new, found.unreadable) == (1, 0)
        truth = [(fresh, cached, output) for fresh, cached, output, _ in script.truth]
        if program.name in SUMS_ONLY:
            truth = [tuple(map(sum, zip(*truth, strict=True)))]  # type: ignore[list-item]
        assert read_tokens(store) == truth
        labels = store.query("select label from tool_call order by at, id")
        assert sorted(label for (label,) in labels) == ["error", "error", "ok", "ok", "ok"]
        messages = read_transcript(store, find_session(store, "last")).messages
        assert PROMPT in messages[0]["content"]
        assert messages[-1]["content"] == "Done."
        (row,) = list_sessions(store).sessions
        assert row.project == os.path.realpath(tmp_path / "shop")
        assert row.resume is not None


@pytest.mark.parametrize("program", PROGRAMS, ids=[one.name for one in PROGRAMS])
def test_a_program_that_is_read_all_the_while_has_the_same_tokens(
    tmp_path: Path, program: Program
) -> None:
    is_over = threading.Event()

    def read() -> int:
        with build.open_home(tmp_path) as store:
            count = 0
            while not is_over.is_set():
                build.import_home(store, tmp_path)
                count += 1
            return count

    script = Script(program)
    with program.server(script) as server, ThreadPoolExecutor() as pool:
        reading = pool.submit(read)
        try:
            Started(program, tmp_path, server)
        finally:
            is_over.set()
        assert reading.result() > 10
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert sum_output(store) == sum(output for _, _, output, _ in script.truth)
        labels = store.query("select label from tool_call")
        assert sorted(label for (label,) in labels) == ["error", "error", "ok", "ok", "ok"]
        assert store.query("select reason from unreadable") == []


@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one.again or one.fork], ids=lambda program: program.name
)
def test_a_session_that_is_continued_and_forked_counts_each_call_once(
    tmp_path: Path, program: Program
) -> None:
    script = Script(program)
    with program.server(script) as server, build.open_home(tmp_path) as store:
        started = Started(program, tmp_path, server)
        build.import_home(store, tmp_path)
        (row,) = list_sessions(store).sessions
        session = row.session_id.partition(":")[2]
        if program.again:
            option = next(word for word in program.again if word.startswith("--"))
            started.run(program.again, session)
            build.import_home(store, tmp_path)
            assert sum_output(store) == sum(output for _, _, output, _ in script.truth)
            assert len(script.truth) >= 6  # Qwen Code also writes its memory
            assert len(list_sessions(store).sessions) == 1
            assert row.resume == f"cd {row.project} && {program.name} {option} {session}"
        if program.fork:
            started.run(program.fork, session)
            build.import_home(store, tmp_path)
            assert sum_output(store) == sum(output for _, _, output, _ in script.truth)
            kinds = store.query("select parent_kind from session where parent_kind is not null")
            assert kinds == [("fork",)]
            ((turns, calls),) = store.query("select sum(turns), sum(tool_calls) from session_day")
            assert (turns, calls) == (len(script.truth), 5)


class DelegatingScript(Script):
    """A task that is given to a sub-agent, whose answer is the second of three."""

    def __call__(self, body: dict[str, Any]) -> Reply:
        # a sub-agent of Gemini CLI answers with a call of a tool
        self.answers_by_call = '"complete_task"' in json.dumps(body.get("tools"))
        return super().__call__(body)

    def _calls(self, number: int) -> list[dict[str, Any]]:
        assert self.program.delegate is not None
        tool, given = self.program.delegate
        if self.answers_by_call:
            return [call("complete_task", "call_1", result={"response": "It is from 2019."})]
        return [call(tool, "call_0", **given)] if number == 0 else []


@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one.delegate], ids=lambda program: program.name
)
def test_a_sub_agent_of_the_program_is_a_part_of_its_parent(
    tmp_path: Path, program: Program
) -> None:
    script = DelegatingScript(program)
    with program.server(script) as server:
        Started(program, tmp_path, server)
    assert len(script.truth) == 3  # the task, the sub-agent's answer, the answer
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (row,) = list_sessions(store).sessions
        assert row.turns == 3
        assert sum_output(store) == sum(output for _, _, output, _ in script.truth)
        assert store.query("select parent_kind from session where parent_id is not null") == [
            ("subagent",)
        ]
