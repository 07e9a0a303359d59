"""Codex and Hermes cannot be given a budget: they are watched, and ended when it is used up."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import build
from build_runs import environment
from clients import CODEX_SETTINGS, find_codex, find_hermes
from relight.work.jobs.runners import AttemptResult, run_command
from relight.work.jobs.spending import add_figures
from relight.work.processes import find_marked, run_variables
from scripted import Reply, Server, call
from scripted_agents import AgentServer

# a call costs $0.54 at the list price of gpt-5.1-codex, so the third is over the budget
USAGE = {"prompt_tokens": 0, "completion_tokens": 54_000, "total_tokens": 54_000}
CALL_NANOS = 540_000_000
BUDGET_USD = 1.5
# answers are slower than two looks: the third call is seen before the fourth is answered
ANSWER_SECONDS = 2.0
HERMES = """
model: {{provider: custom, base_url: "{url}", api_key: sk-scripted, default: scripted-model,
  context_length: 1310720}}
agent: {{api_max_retries: 1}}
security: {{allow_lazy_installs: false, tirith_enabled: false}}
"""
PRICED = {
    "id": "scripted-model",
    "context_length": 1310720,
    "pricing": {"prompt": "0.000001", "completion": "0.00001"},
}


def assert_ended_by_its_budget(ran: AttemptResult, figures: int) -> None:
    assert ran.ended_by == "it was ended at $1.62, over its budget of $1.50"
    assert ran.failure is not None
    assert (ran.failure.kind, ran.failure.should_retry) == ("budget", False)
    assert not ran.timed_out
    # three calls: one over the budget; what the call cost that was cut off is not known
    assert figures == 3 * CALL_NANOS


def assert_nothing_runs(marks: dict[str, str]) -> None:
    for _ in range(100):
        if not find_marked(marks):
            return
        time.sleep(0.05)
    raise AssertionError(f"left running: {find_marked(marks)}")


def test_a_looping_codex_is_ended_one_call_over_its_budget(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()

    def loop(_: dict[str, Any]) -> Reply:
        line = "setsid nohup sleep 300 >/dev/null 2>&1 & echo on"
        asked = call("exec_command", f"call_{time.monotonic_ns()}", cmd=line)
        return Reply(None, [asked], usage=USAGE, delay_seconds=ANSWER_SECONDS)

    with AgentServer(loop) as server, build.open_home(tmp_path) as store:
        (tmp_path / ".codex" / "config.toml").write_text(
            CODEX_SETTINGS.format(url=server.base_url, provider="openai-scripted")
        )
        marks = run_variables(store.config.home, "looping@1")
        ran = run_command(
            store,
            "Work for ever.",
            command=[str(find_codex()), "exec", "--skip-git-repo-check"],
            scratch=tmp_path / "scratch",
            folder=tmp_path,
            seconds=120.0,
            budget_usd=BUDGET_USD,
            environment=environment(tmp_path, SCRIPTED_KEY="sk-scripted", **marks),
        )
        assert_ended_by_its_budget(ran, add_figures(store, [ran.session or ""]).known_nanos)
        assert len(server.asked) <= 4
        assert_nothing_runs(marks)


@pytest.mark.parametrize("delegates", [False, True])
def test_a_looping_hermes_is_ended_one_call_over_its_budget(
    tmp_path: Path, delegates: bool
) -> None:
    (tmp_path / ".hermes").mkdir()

    def loop(request: dict[str, Any]) -> Reply:
        name = f"call_{time.monotonic_ns()}"
        said = json.dumps(request["messages"])
        if delegates and "Count the beans" not in said:
            return Reply(None, [call("delegate_task", name, goal="Count the beans.")], usage=USAGE)
        asked = call("terminal", name, command=f"echo {name}")
        return Reply(None, [asked], usage=USAGE, delay_seconds=ANSWER_SECONDS)

    with Server(loop, models=[PRICED]) as server, build.open_home(tmp_path) as store:
        (tmp_path / ".hermes" / "config.yaml").write_text(HERMES.format(url=server.base_url))
        marks = run_variables(store.config.home, "looping@1")
        ran = run_command(
            store,
            "Work for ever.",
            command=[str(find_hermes()), "-z", "{prompt}", "--yolo"],
            scratch=tmp_path / "scratch",
            folder=tmp_path,
            seconds=120.0,
            budget_usd=BUDGET_USD,
            environment=environment(
                tmp_path,
                HERMES_HOME=str(tmp_path / ".hermes"),
                HERMES_DISABLE_LAZY_INSTALLS="1",
                **marks,
            ),
        )
        assert_ended_by_its_budget(ran, add_figures(store, [ran.session or ""]).known_nanos)
        assert len(server.chats) <= 4
        assert_nothing_runs(marks)
