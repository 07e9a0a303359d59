"""The end of a run: one deadline for all of it, budgets, spirals, and callers that leave it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import build
from build import holding
from relight.config import Config
from relight.errors import RelightError
from relight.intake.recorder import record
from relight.models.endpoints import Endpoint
from relight.reports.budgets import set_limit
from relight.reports.sessions import find_session, read_session
from relight.store import Store
from relight.work.agent.context import ToolContext, ToolResult, make_context
from relight.work.agent.limits import Budget, SpiralGuard
from relight.work.agent.loop import AgentResult, OnEvent, run_agent
from relight.work.agent.models import MixedModel, Model, OneModel
from relight.work.agent.tools import TOOLS, Tool, execute_call
from relight.work.moa.mixture import Mixture, find_preset
from relight.work.moa.traces import open_tracer
from relight.work.run_spec import RunSpec
from scripted import Reply, Server, call


def run(
    store: Store, model: Model, folder: Path, *, on_event: OnEvent | None = None, **options: Any
) -> AgentResult:
    rec = record(store, "run", model=model.name, project=str(folder))
    spec = RunSpec(model=model.name, folder=folder, **options)
    return run_agent("Do the task", spec, model=model, rec=rec, on_event=on_event)


def one_model(server: Server, **settings: Any) -> OneModel:
    return OneModel(Endpoint(model="gpt-5.1", base_url=server.base_url, **settings))


def mixed_model(server: Server, config: Config, **settings: Any) -> MixedModel:
    url = server.base_url
    preset = {
        "name": "review",
        "references": [{"model": "adviser", "base_url": url}],
        "aggregator": {"model": "actor", "base_url": url},
        **settings,
    }
    return MixedModel(Mixture(find_preset(config, preset)), open_tracer(config, "run"))


def busy(_: dict[str, Any]) -> Reply:
    return Reply(status=503, body=b'{"error": {"message": "busy"}}')


def asks_to_wait(_: dict[str, Any]) -> Reply:
    return Reply(status=429, body=b"{}", headers={"Retry-After": "60"})


def says_nothing(_: dict[str, Any]) -> Reply:
    return Reply("so far", never_ends=True)


def is_slow(_: dict[str, Any]) -> Reply:
    return Reply("late", delay_seconds=60)


@pytest.mark.parametrize("script", [busy, asks_to_wait, says_nothing, is_slow])
@pytest.mark.parametrize("kind", ["one", "mixed"])
def test_a_runs_time_counts_retries_waits_and_silence_and_is_reported(
    tmp_path: Path, script: Any, kind: str
) -> None:
    with build.open_home(tmp_path) as store, Server(script) as server:
        model = one_model(server) if kind == "one" else mixed_model(server, store.config)
        started = time.monotonic()
        result = run(store, model, tmp_path, budget=Budget(seconds=2.0))
        took = time.monotonic() - started
        found = read_session(store, find_session(store, "relight:run"))
    assert took < 30
    assert result.outcome == "failure"
    assert (result.ended_by or "").startswith(
        "the budget of 2 seconds is used up, during a model call"
    )
    assert found.turns[-1].failure
    assert found.title == "Do the task"


def test_a_wait_for_the_model_is_reported_while_it_lasts(tmp_path: Path) -> None:
    told: list[tuple[str, Any]] = []
    with build.open_home(tmp_path) as store, Server([Reply("x", breaks_after=1), Reply("k")]) as s:
        run(store, one_model(s), tmp_path, on_event=lambda *event: told.append(event))
    kinds = [kind for kind, _ in told]
    assert kinds == ["wait", "answer"]
    assert told[0][1]["seconds"] > 0


@pytest.mark.parametrize(
    ("reason", "words"), [("length", "cut off"), ("content_filter", "withheld")]
)
def test_an_answer_that_is_not_whole_is_given_and_is_a_failure(
    tmp_path: Path, reason: str, words: str
) -> None:
    with (
        build.open_home(tmp_path) as store,
        Server([Reply("Half of", finish_reason=reason)]) as server,
    ):
        result = run(store, one_model(server), tmp_path)
    assert (result.answer, result.outcome) == ("Half of", "failure")
    assert words in (result.ended_by or "")


def test_a_failed_run_says_what_to_do(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store, Server([Reply(status=401, body=b"{}")]) as server:
        assert "check the key" in (run(store, one_model(server), tmp_path).hint or "")


def test_advisers_leave_the_acting_model_half_of_the_time(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply("x", delay_seconds=8) if body["model"] == "adviser" else Reply("Acted.")

    with build.open_home(tmp_path) as store, Server(script) as server:
        model = mixed_model(server, store.config)
        result = run(store, model, tmp_path, budget=Budget(seconds=4))
    assert (result.answer, result.ended_by) == ("Acted.", None)


def test_tools_end_with_the_run(tmp_path: Path) -> None:
    asked = call("terminal", command="sleep 60", timeout_seconds=60)
    with build.open_home(tmp_path) as store, Server([Reply(None, [asked])]) as server:
        started = time.monotonic()
        result = run(store, one_model(server), tmp_path, budget=Budget(seconds=3))
        assert time.monotonic() - started < 30
    assert result.ended_by == "the budget of 3 seconds is used up"
    assert result.figures["tool_failures"] == 1


@pytest.mark.parametrize(
    "budget",
    [
        {"seconds": float("nan")},
        {"seconds": -1},
        {"seconds": float("inf")},
        {"cost_usd": float("nan")},
        {"tokens": 0},
        {"turns": 0},
    ],
)
def test_a_budget_that_limits_nothing_is_refused(budget: dict[str, Any]) -> None:
    with pytest.raises(RelightError, match=next(iter(budget))):
        Budget(**budget)


def refusals(server: Server) -> list[str]:
    told = server.chats[-1].body["messages"]
    return [one["content"] for one in told if one["role"] == "tool" and "refused" in one["content"]]


BAD = "echo x >> count; exit 7"


def test_the_third_equal_failing_call_is_refused_and_the_fifth_ends_the_run(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply(None, [call("terminal", command=BAD)])

    with build.open_home(tmp_path) as store, Server(script) as server:
        result = run(store, one_model(server), tmp_path)
        refused = refusals(server)
    assert (tmp_path / "count").read_text() == "x\nx\n"
    assert len(refused) == 2
    assert "has failed 2 times" in refused[0]
    assert result.outcome == "failure"
    assert "same failing call" in (result.ended_by or "")
    assert result.turns == 5


def test_other_calls_that_go_well_do_not_save_a_spiral(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        number = len(body["messages"])
        text = json.dumps({"command": BAD}, separators=(",", ":" + " " * (number % 3)))
        same = {"id": "a", "type": "function", "function": {"name": "terminal", "arguments": text}}
        return Reply(None, [same, call("terminal", "b", command=f"echo {number}")])

    with build.open_home(tmp_path) as store, Server(script) as server:
        result = run(store, one_model(server), tmp_path)
    assert (tmp_path / "count").read_text() == "x\nx\n"
    assert "was made 5 times" in (result.ended_by or "")
    assert result.turns == 5


@pytest.mark.parametrize("tool", ["terminal", "read_file"])
def test_equal_calls_of_one_answer_are_counted_one_by_one(tmp_path: Path, tool: str) -> None:
    arguments = {"command": BAD} if tool == "terminal" else {"path": "gone"}
    calls = [call(tool, f"c{number}", **arguments) for number in range(6)]
    with build.open_home(tmp_path) as store, Server([Reply(None, calls)]) as server:
        result = run(store, one_model(server), tmp_path)
        found = read_session(store, find_session(store, "relight:run"))
    if tool == "terminal":
        assert (tmp_path / "count").read_text() == "x\nx\n"
    assert "was made 5 times" in (result.ended_by or "")
    assert result.turns == 1
    assert len(found.tool_calls) == 6


def test_different_calls_of_one_answer_run_side_by_side(tmp_path: Path) -> None:
    wait = "until [ -e 0 -a -e 1 -a -e 2 -a -e 3 ]; do sleep 0.05; done"  # for one another
    calls = [call("terminal", f"c{n}", command=f"touch {n}; {wait}") for n in range(4)]
    with build.open_home(tmp_path) as store, Server([Reply(None, calls), Reply("k")]) as server:
        result = run(store, one_model(server), tmp_path, budget=Budget(seconds=60))
    assert (result.answer, result.ended_by) == ("k", None)


@pytest.mark.parametrize(
    "changes",
    [
        [call("write_file", f"w{n}", path="made.txt", content=str(n)) for n in range(4)],
        [call("terminal", f"w{n}", command=f"echo {n} > made.txt") for n in range(4)],
    ],
)
def test_a_failing_call_may_be_made_again_after_a_change(
    tmp_path: Path, changes: Sequence[dict[str, Any]]
) -> None:
    failing = call("terminal", command="test -f made.txt && cat made.txt && exit 3")
    replies = [
        Reply(None, [one]) for pair in zip([failing] * 4, changes, strict=True) for one in pair
    ]
    with build.open_home(tmp_path) as store, Server([*replies, Reply("Gave up.")]) as server:
        result = run(store, one_model(server), tmp_path)
        assert refusals(server) == []
    assert result.ended_by is None


def test_the_same_change_again_is_none() -> None:
    guard = SpiralGuard()
    for _ in range(4):
        refused = guard.refuse("terminal", '{"command": "false"}')
        if not refused:
            guard.see("terminal", '{"command": "false"}', has_failed=True)
        guard.see("write_file", '{"path": "a", "content": "b"}', has_failed=False)
    assert refused
    guard.see("terminal", '{"command": "false"}', has_failed=False)
    assert guard.refuse("terminal", '{"command": "false"}') is None


def test_a_run_ends_with_its_answer_while_another_holds_the_database(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store, Server([Reply("Done.")]) as server:
        with holding(store):
            result = run(store, one_model(server), tmp_path)
        assert (result.answer, result.outcome) == ("Done.", "unknown")
        record(store, "next")
        found = read_session(store, find_session(store, "relight:run"))
    assert found.figures.turns == 1


def test_a_budget_holds_while_another_holds_the_database(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply(None, [call("read_file", path=f"{len(body['messages'])}.txt")])

    with build.open_home(tmp_path) as store, Server(script) as server, holding(store):
        result = run(store, one_model(server), tmp_path, budget=Budget(turns=9, tokens=300))
    assert (result.turns, result.ended_by) == (3, "the budget of 300 tokens is used up")


def test_an_answer_is_given_though_the_database_cannot_be_read_any_more(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store, Server([Reply("Done.")]) as server:
        result = run(store, one_model(server), tmp_path, on_event=lambda *_: store.close())
    assert (result.answer, result.outcome) == ("Done.", "unknown")
    assert (result.figures["turns"], result.figures["cost_usd"]) == (None, None)


def test_a_budget_that_no_one_can_count_ends_the_run(tmp_path: Path) -> None:
    replies = [Reply(None, [call("read_file", path="gone.txt")]), Reply("Done.")]
    with build.open_home(tmp_path) as store, Server(replies) as server:
        options: dict[str, Any] = {
            "budget": Budget(tokens=10_000),
            "on_event": lambda *_: store.close(),
        }
        result = run(store, one_model(server), tmp_path, **options)
    assert "is unknown" in (result.ended_by or "")
    assert result.outcome == "failure"


class _Explosion(Exception):
    pass


def test_whatever_a_tool_raises_is_reported_to_the_model(tmp_path: Path) -> None:
    def explode(arguments: Any, place: ToolContext) -> ToolResult:
        raise _Explosion("half \ud800 a character")

    tools = {"explode": Tool("explode", TOOLS["terminal"].arguments, explode)}
    place = make_context(tmp_path)
    result = execute_call(tools, "explode", '{"command": "x"}', context=place)
    assert json.loads(result.text)["error"].startswith("_Explosion: half ? a")
    assert result.is_error


PROGRAM = """
import sys
from pathlib import Path
import relight
from relight.work.agent.session import run_prompt
from relight.work.run_spec import RunSpec
spec = RunSpec(model="m", base_url=sys.argv[2], folder=sys.argv[3], session_id="run")
with relight.open_store(sys.argv[1]) as store:
    run_prompt(store, "Go", spec)
"""


@pytest.mark.parametrize("where", ["tool", "model"])
def test_ctrl_c_ends_a_run_at_once_and_the_record_says_so(tmp_path: Path, where: str) -> None:
    asked = call("terminal", command="echo $$ > pid; sleep 60")
    reply = Reply(None, [asked]) if where == "tool" else Reply("so far", never_ends=True)
    with build.open_home(tmp_path) as store, Server([reply]) as server:
        words = [str(store.config.home), server.base_url, str(tmp_path)]
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words], stderr=subprocess.PIPE, cwd=tmp_path
        )
        build.wait_for(
            lambda: (tmp_path / "pid").exists() if where == "tool" else bool(server.chats)
        )
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=50)
        found = read_session(store, find_session(store, "relight:run"))
    assert b"KeyboardInterrupt" in told
    assert "points to failure: it was interrupted" in found.evidence
    if where == "tool":
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
    else:
        assert found.turns[0].failure == "interrupted"


def test_a_budget_of_the_user_stops_the_run_before_its_next_turn(
    store: Store, tmp_path: Path
) -> None:
    """The first turn uses the budget up: the second is not asked for."""
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 1000, "total_tokens": 1_001_000}
    reply = Reply("Look.", [call("read_file", path="a.txt")], usage=usage)
    set_limit(store, f"project:{tmp_path.name}", "1/day", stops=True)
    with Server(lambda _: reply) as server:
        result = run(store, one_model(server), tmp_path)
        assert len([one for one in server.requests if one.method == "POST"]) == 1
    assert result.outcome == "failure"
    assert f"for the project {tmp_path.name} is used up: $1.26 spent" in (result.ended_by or "")
    assert result.failure is not None
    assert result.failure.kind == "budget"
    with Server(lambda _: Reply("Done.")) as server:
        assert run(store, one_model(server), tmp_path / "..").ended_by is None
