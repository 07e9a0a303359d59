"""Claude Code itself with Relight's hook: lessons and seed reach the model once, in no count."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import build
import build_warm
from build_lessons import prepare_start
from clients import Claude
from relight.chat.blocks import LESSONS_TAG, TAG
from relight.model import row_id
from relight.reports.listing import list_sessions
from relight.reports.transcript import read_transcript
from relight.store.queries.listing import Listing
from relight.work.experiments.holdout import read_holdout
from relight.work.experiments.metrics import read_arm_sessions
from scripted import Reply, call
from scripted_agents import AgentServer, has_tool_results

TASK = "The rounding of invoice totals is wrong, please fix the rounding in invoices"


def answer(request: dict[str, Any]) -> Reply:
    names = {tool["name"] for tool in request.get("tools") or ()}
    if "Bash" in names and not has_tool_results(request):
        arguments = {"command": "echo looked", "description": "Look"}
        return Reply("Let me look.", [call("Bash", f"toolu_{uuid4().hex}", **arguments)])
    return Reply("The rounding is right now.")


def find_seeds(server: AgentServer, mark: str = f"<{TAG} ") -> list[int]:
    """How often the seed stands in each request of the conversation."""
    marks = [json.dumps(one["messages"]).count(mark) for one in server.asked]
    return [count for count, one in zip(marks, server.asked, strict=True) if one.get("tools")]


def find_lessons(server: AgentServer) -> list[int]:
    return find_seeds(server, f"<{LESSONS_TAG}>")


def test_the_first_prompt_gets_lessons_and_seed_and_no_count_holds_them(tmp_path: Path) -> None:
    prepare_start(tmp_path, "Fix the rounding in the invoices module")
    with AgentServer(answer) as server:
        claude = Claude(tmp_path, server.root_url)
        claude.relight("warm", "--install", "claude-code", "--yes")
        said = claude.ask(TASK)
        assert said["result"] == "The rounding is right now."
        assert find_seeds(server) == find_lessons(server) == [1, 1]
        first = json.dumps(server.asked[-1]["messages"])
        assert first.index("What worked: `python3`") < first.index(f"<{TAG} ")
        claude.ask("Is the rounding of invoices right as well?", "--resume", said["session_id"])
        # the first ones stay; a later prompt adds none
        assert set(find_seeds(server)) == set(find_lessons(server)) == {1}
        claude.relight("warm", "--install", "claude-code", "--remove", "--yes")
        asked = len(server.asked)
        claude.ask(TASK)
        later = [json.dumps(one["messages"]) for one in server.asked[asked:]]
        assert not any(f"<{TAG} " in one or f"<{LESSONS_TAG}>" in one for one in later)
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build.import_home(store, tmp_path, sources=["claude-code"])
        ((key, source, arm),) = store.query("select session_key, source, arm from provision")
        assert (key, source, arm) == (said["session_id"], "claude-code", "warm")
        ((title, calls),) = store.query(
            "select title, (select sum(tool_calls) from session_day where session_id = session.id)"
            " from session where key = ?",
            (key,),
        )
        messages = read_transcript(store, row_id("session", "claude-code", key)).messages
    assert (title, calls) == (TASK, 1)
    assert TAG not in json.dumps(messages)
    assert LESSONS_TAG not in json.dumps(messages)


def test_a_fork_gets_no_second_start_and_counts_for_its_parents_arm(tmp_path: Path) -> None:
    prepare_start(tmp_path, "Fix the rounding in the invoices module")
    with AgentServer(answer) as server:
        claude = Claude(tmp_path, server.root_url)
        claude.relight("warm", "--install", "claude-code", "--yes")
        parent = claude.ask(TASK)["session_id"]
        asked = len(server.asked)
        words = ("--resume", parent, "--fork-session")
        fork = claude.ask("Is the rounding of invoices right as well?", *words)["session_id"]
        later = [one for one in server.asked[asked:] if one.get("tools")]
    assert fork != parent
    # the fork has its parent's start, which it copied with the conversation
    for mark in (f"<{TAG} ", f"<{LESSONS_TAG}>"):
        assert [json.dumps(one["messages"]).count(mark) for one in later] == [1] * len(later)
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build.import_home(store, tmp_path, sources=["claude-code"])
        arms = dict(store.query("select session_key, arm from provision"))
        report = read_holdout(store)
        (unit,) = read_arm_sessions(store)
        listed = list_sessions(store, listing=Listing(arm="warm")).sessions
        ((tokens,),) = store.query(
            "select sum(output_tokens) from session_day join session on session.id = session_id"
            " where key in (?, ?)",
            (parent, fork),
        )
    assert arms == {parent: "warm", fork: "continued"}
    assert report.provisions == {"warm": 1, "cold": 0, "abstained": 0}
    assert report.sessions == {"warm": 1, "cold": 0}
    assert (unit.arm, unit.output_tokens) == ("warm", tokens)
    # as many as the figures count
    assert [one.session_id for one in listed] == [f"claude-code:{parent}"]


def test_a_broken_store_leaves_claude_code_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "relight").mkdir()
    with AgentServer(answer) as server:
        claude = Claude(tmp_path, server.root_url)
        claude.relight("warm", "--install", "claude-code", "--yes")
        (tmp_path / "relight" / "relight.db").write_bytes(b"this is no database" * 100)
        assert claude.ask(TASK)["result"] == "The rounding is right now."
        assert find_seeds(server) == [0, 0]
    assert (tmp_path / "relight" / "missed.log").read_text().count("\n") > 0


def answer_experiment(request: dict[str, Any]) -> Reply:
    """Writes what the check wants only if it was shown the example."""
    names = {tool["name"] for tool in request.get("tools") or ()}
    if "Bash" not in names or has_tool_results(request):
        return Reply("Done.")
    word = "right" if f"<{TAG} " in json.dumps(request["messages"]) else "wrong"
    arguments = {"command": f"echo {word} > out.txt", "description": "Write"}
    return Reply("Let me.", [call("Bash", f"toolu_{uuid4().hex}", **arguments)])


def test_an_experiment_with_claude_code_finds_its_sessions_and_keeps_the_arms_apart(
    tmp_path: Path,
) -> None:
    """The hook is in place: it must leave both arms as they were dealt."""
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, "Fix the rounding in the invoices module", name="fix-rounding")
    lines = [
        {"id": f"t{n}", "prompt": f"{TASK}, number {n}", "check": "grep -q right out.txt"}
        for n in range(2)
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with AgentServer(answer_experiment) as server:
        claude = Claude(tmp_path, server.root_url)
        claude.relight("warm", "--install", "claude-code", "--yes")
        command = f"{claude.program} -p --allowedTools Bash"
        words = ("--tasks", "tasks.jsonl", "--command", command, "--json")
        found = json.loads(claude.relight("experiment", "start", "e", *words))
    assert found["pairs"] == {"planned": 2, "done": 2, "skipped": 0}
    assert found["outcomes"]["warm"] == {"successes": 2, "failures": 0, "unknown": 0}
    assert found["outcomes"]["cold"] == {"successes": 0, "failures": 2, "unknown": 0}
    assert {one["session_id"].split(":")[0] for one in found["runs"]} == {"claude-code"}
    assert all(count is not None for count in found["tokens"].values())
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        joined = store.query(
            "select arm, outcome from provision join session on session.key = session_key"
            " order by arm"
        )
    assert joined == [("cold", "failure")] * 2 + [("warm", "success")] * 2
