"""The spending of a running program: only its own session counts, and only what can be priced."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import build
from build_runs import environment, make_job, run_job, write_agent, write_program
from relight.store import Store, open_store
from relight.store.queries.runs import read_runs
from relight.work.jobs.budget_watch import BudgetWatch
from relight.work.jobs.notes import ProgramNote
from relight.work.jobs.runners import AttemptResult, run_command
from terminal import run_relight

PROMPT = "Look after the house."
CALL_NANOS = 540_000_000


def write_rollout(
    home: Path,
    key: str,
    *,
    calls: int,
    prompt: str = PROMPT,
    parent: str | None = None,
    model: str = "gpt-5.1-codex",
) -> None:
    """Add calls of $0.54 each to a rollout, as Codex writes it; the file is begun if it is new."""
    path = home / ".codex" / "sessions" / "2026" / f"rollout-{key}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines: list[dict[str, Any]] = []
    if not path.exists():
        source = {"subagent": {"thread_spawn": {"parent_thread_id": parent}}} if parent else "exec"
        said = [{"type": "input_text", "text": prompt}]
        lines = [
            {"type": "session_meta", "payload": {"id": key, "cwd": "/", "source": source}},
            {"type": "turn_context", "payload": {"model": model}},
            {
                "type": "response_item",
                "payload": {"type": "message", "role": "user", "content": said},
            },
        ]
    before = path.read_bytes().count(b"token_usage_record") if path.exists() else 0
    used = {"input_tokens": 0, "output_tokens": 54_000}
    lines += [
        {"type": "token_usage_record", "payload": {"response_id": f"{key}-{n}", "usage": used}}
        for n in range(before, before + calls)
    ]
    with path.open("a") as file:
        file.writelines(json.dumps({"timestamp": now, **line}) + "\n" for line in lines)


def open_watch(store: Store, home: Path, *, budget_usd: float = 1.5) -> BudgetWatch:
    now = round(time.time() * 1000)
    program = ProgramNote(source="codex", key=None, started_at=now, until=now + 60_000, places={})
    return BudgetWatch(
        store, program, prompt=PROMPT, budget_usd=budget_usd, environment=environment(home)
    )


def look(watch: BudgetWatch, key: str | None = None) -> tuple[bool, int]:
    return watch.is_over(lambda: key), watch.spent_nanos


def test_each_look_reads_on_and_the_budget_ends_at_its_last_dollar(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        watch = open_watch(store, tmp_path, budget_usd=1.62)
        assert look(watch) == (False, 0)
        write_rollout(tmp_path, "own", calls=1)
        assert look(watch) == (False, CALL_NANOS)
        write_rollout(tmp_path, "own", calls=1)
        assert look(watch) == (False, 2 * CALL_NANOS)
        write_rollout(tmp_path, "own", calls=1)
        assert look(watch) == (True, 3 * CALL_NANOS)
        assert watch.describe_end(0) == "it was ended at its budget of $1.62"
        assert watch.find_gap() is None


def test_sub_agents_count(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        watch = open_watch(store, tmp_path)
        write_rollout(tmp_path, "own", calls=1)
        write_rollout(tmp_path, "child", calls=1, parent="own", prompt="Help.")
        write_rollout(tmp_path, "grandchild", calls=1, parent="child", prompt="Help.")
        assert look(watch) == (True, 3 * CALL_NANOS)
        assert watch.describe_end(3 * CALL_NANOS) == (
            "it was ended at $1.62, over its budget of $1.50"
        )


def test_other_sessions_of_the_same_agent_do_not_count(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        write_rollout(tmp_path, "earlier", calls=9)
        watch = open_watch(store, tmp_path)
        write_rollout(tmp_path, "earlier", calls=9)
        write_rollout(tmp_path, "of-a-person", calls=9, prompt="Something else.")
        assert look(watch) == (False, 0)
        write_rollout(tmp_path, "own", calls=1)
        assert look(watch) == (False, CALL_NANOS)
        # of two sessions with the same prompt, the one that the program named
        write_rollout(tmp_path, "twin", calls=9)
        assert look(watch, "own") == (False, CALL_NANOS)
        assert watch.find_gap() is None
        # an id that was reported once is remembered
        assert look(watch) == (False, CALL_NANOS)


def test_of_two_sessions_that_could_be_it_neither_is_watched(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        watch = open_watch(store, tmp_path)
        write_rollout(tmp_path, "own", calls=9)
        write_rollout(tmp_path, "twin", calls=9)
        assert look(watch) == (False, 0)
        assert look(watch) == (False, 0)
        assert watch.find_gap() == (
            "its budget of $1.50 could not be watched: its session was not found while it ran"
        )


def test_a_model_without_a_price_is_named(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        watch = open_watch(store, tmp_path)
        write_rollout(tmp_path, "own", calls=9, model="nameless")
        assert look(watch) == (False, 0)
        assert watch.find_gap() == (
            "its budget of $1.50 could not be watched: the price of nameless is not known"
        )


def test_what_a_plan_pays_for_counts_at_its_list_price(tmp_path: Path) -> None:
    (tmp_path / "relight").mkdir()
    plan = '[plans.codex]\nname = "pro"\n'
    build.write_settings(tmp_path / "relight", f'timezone = "UTC"\n{plan}')
    with open_store(tmp_path / "relight") as store:
        watch = open_watch(store, tmp_path)
        write_rollout(tmp_path, "own", calls=3)
        assert look(watch) == (True, 3 * CALL_NANOS)
        assert watch.describe_end(0) == "it was ended at $1.62, over its budget of $1.50"


def test_records_that_cannot_be_read_end_no_program(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        watch = open_watch(store, tmp_path)
        write_rollout(tmp_path, "own", calls=1)
        path = next((tmp_path / ".codex").rglob("*.jsonl"))
        with path.open("ab") as file:
            file.write(b'{"type": "token_usage_record", "payload": 7}\n\xff\xfe\n{"type": "tok')
        assert look(watch) == (False, CALL_NANOS)
        with path.open("ab") as file:
            file.write(b'en"}\n')
        write_rollout(tmp_path, "own", calls=1)
        assert look(watch) == (False, 2 * CALL_NANOS)


def run(store: Store, home: Path, prompt: str, *words: str, **options: Any) -> AttemptResult:
    given = {"seconds": 50.0, "folder": home, "environment": environment(home), **options}
    return run_command(store, prompt, command=words, scratch=home / "scratch", **given)


@pytest.mark.parametrize("has_recipe", [True, False])
def test_a_program_with_a_limit_of_its_own_is_watched_for_the_jobs(
    tmp_path: Path, has_recipe: bool
) -> None:
    """The person's `--max-budget-usd` stays; an agent inside a script gets no limit at all."""
    agent = str(write_agent(tmp_path))
    words = [agent, "-p", "--max-budget-usd", "9"]
    if not has_recipe:
        words = [str(write_program(tmp_path, "wrapped", f"#!/bin/sh\nexec {agent} -p\n"))]
    with build.open_home(tmp_path) as store:
        ran = run(store, tmp_path, "<speaking> <slow> Look.", *words, budget_usd=0.001)
        assert ran.ended_by == "it was ended at $0.0060, over its budget of $0.0010"
        assert ran.failure is not None
        assert ran.failure.kind == "budget"
        assert not ran.timed_out


def test_a_program_that_takes_the_budget_is_left_to_it(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        ran = run(
            store,
            tmp_path,
            "<speaking> <slow> Look.",
            str(write_agent(tmp_path)),
            "-p",
            seconds=3.0,
            budget_usd=0.001,
        )
        assert ran.timed_out


def test_a_run_over_its_budget_says_so_and_is_not_repeated(tmp_path: Path) -> None:
    words = [str(write_agent(tmp_path)), "-p", "--max-budget-usd", "9"]
    job = make_job(
        runner="command", command=words, prompt="<speaking> <slow> Look.", budget_usd=0.001
    )
    with build.open_home(tmp_path) as store:
        result = run_job(store, job, home=tmp_path)
        assert (result.outcome, result.attempts, result.failure_kind) == ("failure", 1, "budget")
        assert result.evidence[0] == "it was ended at $0.0060, over its budget of $0.0010"
        (run,) = read_runs(store)
        assert (run.failure_kind, run.cost_usd) == ("budget", (result.cost_nanos or 0) / 1e9)
        assert run.cost_usd == pytest.approx(0.00595)


def test_a_budget_that_nothing_can_hold_is_reported_when_the_job_is_added(tmp_path: Path) -> None:
    given = ["--schedule", "hourly", "--prompt", "P", "--command", "codex exec"]
    limits = ["--budget-usd", "1.5"]

    def add(name: str, *words: str) -> str:
        added = ("--home", str(tmp_path), "job", "add", name, *given, *words)
        done = run_relight(os.environ, *added)
        assert done.returncode == 0, done.stderr
        return done.stderr

    told = "the price of nameless is not known: no budget can end a run"
    assert told in add("one", "--model", "nameless", *limits)
    assert told not in add("two", "--model", "nameless")
    assert "price" not in add("three", "--model", "gpt-5.1-codex", *limits)
