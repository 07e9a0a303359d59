"""Budgets on the command line, and what stops when one is used up."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import build
from relight.reports.budgets import set_limit
from relight.store import open_store
from relight.warm.agents.claude_budget import answer_event
from relight.warm.agents.settings import AGENTS, BUDGETS, STATUS_LINES, apply_change, plan_change
from relight.work.notices import notify_budgets
from terminal import Cli

FIELDS = [
    "scope", "period", "limit_usd", "spent_usd", "unpriced_turns", "projected_usd",
    "projected_low_usd", "projected_high_usd", "state", "stops", "started_at", "ends_at",
]  # fmt: skip


def write_session(home: Path, at: float) -> None:
    """A session of one answer at a moment, in Unix seconds."""
    name, begin = f"s{at:.0f}", at - build.START / 1000
    lines = [
        build.claude_prompt("Fix the rounding", at=begin, sessionId=name),
        build.claude_answer(f"msg-{name}", at=begin, sessionId=name),
    ]
    build.write_claude(home, lines, name=name)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A home with one session of today that cost something."""
    write_session(tmp_path, time.time())
    return Cli(tmp_path)


def spent(cli: Cli) -> float:
    (found,) = cli.json("budget", "set", "999/day")["budgets"]
    cost: float = found["spent_usd"]
    assert cost > 0
    return cost


def test_budgets_are_set_listed_and_removed(cli: Cli) -> None:
    assert "there is no budget" in cli.run("budget").stdout
    cli.run("budget", "set", "5/day")
    cli.run("budget", "set", "20/week", "--project", "shop", "--stop")
    found = cli.json("budget")["budgets"]
    assert [list(one) for one in found] == [FIELDS] * 2
    assert [(one["scope"], one["period"], one["stops"]) for one in found] == [
        ("all", "day", False),
        ("project:shop", "week", True),
    ]
    shown = cli.run("budget").stdout
    assert "project:shop" in shown
    assert cli.run("budget", "remove", "week").returncode == 1
    assert cli.run("budget", "remove", "week", "--project", "shop").returncode == 0
    assert len(cli.json("budget")["budgets"]) == 1


def test_check_exits_4_if_one_is_over_and_0_if_all_is_well(cli: Cli) -> None:
    cost = spent(cli)
    assert cli.run("budget", "--check").returncode == 0
    cli.run("budget", "set", f"{cost / 2:.9f}/day")
    done = cli.run("budget", "--check", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["budgets"][0]["state"] == "over"
    assert cli.run("budget").returncode == 0


def test_check_exits_3_if_one_is_projected_over(cli: Cli) -> None:
    midnight = time.time() // 86_400 * 86_400
    for day in range(1, 5):
        # whatever the time is now, there is more to come
        write_session(cli.home, midnight - day * 86_400 + 86_395)
    cost = spent(cli)
    cli.run("budget", "remove", "day")
    cli.run("budget", "set", f"{cost * 1.5:.9f}/day", "--source", "claude-code")
    (found,) = cli.json("budget")["budgets"]
    assert found["projected_usd"] == pytest.approx(2 * cost, abs=1e-6)
    assert found["state"] == "projected_over"
    assert cli.run("budget", "--check").returncode == 3


def test_a_narrow_window_shows_the_state_of_each_budget(cli: Cli, tmp_path: Path) -> None:
    long = tmp_path / "a-project-with-a-long-name"
    long.mkdir()
    cli.run("budget", "set", "5/month", "--stop", "--project", str(long))
    cli.environment["COLUMNS"] = "60"
    shown = cli.run("budget").stdout
    assert "ok, stops" in shown
    assert "month" in shown


def test_a_project_in_which_no_session_ran_is_refused_unless_it_is_a_folder(
    cli: Cli, tmp_path: Path
) -> None:
    done = cli.run("budget", "set", "5/day", "--project", "nosuchproject")
    assert done.returncode == 1
    assert "no session ran in a project 'nosuchproject'" in done.stderr
    assert cli.json("budget")["budgets"] == []
    (tmp_path / "new").mkdir()
    assert cli.run("budget", "set", "5/day", "--project", str(tmp_path / "new")).returncode == 0
    # a budget whose project is gone can be removed
    (tmp_path / "new").rmdir()
    done = cli.run("budget", "remove", "day", "--project", str(tmp_path / "new"))
    assert done.returncode == 0


@pytest.mark.parametrize(
    "words",
    [["set"], ["set", "5"], ["set", "five/day"], ["remove"], ["--stop"], ["--remove"], ["sell"]],
)
def test_what_is_not_understood_is_refused(cli: Cli, words: list[str]) -> None:
    done = cli.run("budget", *words)
    assert done.returncode in (1, 2)
    assert done.stderr


def test_the_hook_blocks_a_prompt_and_stops_at_a_tool_call(cli: Cli) -> None:
    cost = spent(cli)
    home = cli.home / "relight"
    prompt = {"hook_event_name": "UserPromptSubmit", "cwd": "/home/dev/shop", "prompt": "x"}
    tool = {"hook_event_name": "PreToolUse", "cwd": "/home/dev/shop", "tool_name": "Bash"}
    assert ask_hook(cli, prompt) is None
    cli.run("budget", "set", f"{cost / 2:.9f}/day", "--stop")
    blocked, stopped = ask_hook(cli, prompt), ask_hook(cli, tool)
    assert blocked["decision"] == "block"
    assert "is used up" in blocked["reason"]
    assert stopped["continue"] is False
    assert "RELIGHT_BUDGET=off" in stopped["stopReason"]
    cli.environment["RELIGHT_BUDGET"] = "off"
    assert ask_hook(cli, prompt) is None
    assert answer_event(b"\xff garbage", home=home) is None


def ask_hook(cli: Cli, event: dict[str, Any]) -> Any:
    done = cli.run("budget", "--hook", "claude-code", given=json.dumps(event))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def test_a_hook_that_cannot_answer_lets_the_agent_go_on(cli: Cli) -> None:
    (cli.home / "relight" / "relight.db").write_bytes(b"noise" * 1000)
    done = cli.run("budget", "--hook", "claude-code", given='{"hook_event_name": "PreToolUse"}')
    assert (done.returncode, done.stdout) == (0, "")


def test_the_parts_of_relight_are_removed_in_any_order_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    before = '{\n    "model": "opus"\n}'
    tables = (AGENTS, BUDGETS, STATUS_LINES)
    environment = {"HOME": str(tmp_path)}
    keep = tmp_path / "relight"

    def change(number: int, *, remove: bool) -> None:
        given: Any = {"environment": environment, "home": keep, "agents": tables[number]}
        apply_change(plan_change("claude-code", remove=remove, **given))

    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)):
        path.write_text(before)
        for number in (0, 1, 2):
            change(number, remove=False)
        settings = json.loads(path.read_text())
        assert set(settings["hooks"]) == {"SessionStart", "UserPromptSubmit", "PreToolUse"}
        assert len(settings["hooks"]["UserPromptSubmit"]) == 2
        for number in order:
            change(number, remove=True)
        assert path.read_text() == before, order


def test_a_job_in_the_scope_is_refused(cli: Cli) -> None:
    cost = spent(cli)
    cli.run("job", "add", "chore", "--schedule", "daily 07:00", "--command", "echo done")
    assert cli.run("job", "run", "chore").returncode == 0
    cli.run("budget", "set", f"{cost / 2:.9f}/day", "--stop")
    assert cli.run("job", "run", "chore").returncode == 1
    (run, _) = cli.json("job", "history", "chore")["runs"]
    assert run["status"] == "refused"
    assert "is used up" in run["evidence"][0]


def test_a_budget_is_notified_once_in_its_period(cli: Cli) -> None:
    cost = spent(cli)
    home = cli.home / "relight"
    settings = home / "config.toml"
    settings.write_text(settings.read_text() + '[notify]\nfile = "told.jsonl"\n')
    with open_store(home) as store:
        notify_budgets(store)
        set_limit(store, "all", f"{cost / 2:.9f}/day", stops=False)
        for _ in range(2):
            notify_budgets(store, now=time.time())
    (line,) = [json.loads(one) for one in (home / "told.jsonl").read_text().splitlines()]
    assert (line["kind"], line["scope"], line["state"]) == ("budget", "all", "over")
    assert line["text"].startswith("The budget of $0.00")
    assert (home / "told.jsonl").stat().st_mode & 0o077 == 0
