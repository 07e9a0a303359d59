"""Experiments that are run: each task once in both arms, whatever happens to the process."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import build
import build_warm
from relight.chat.blocks import TAG
from relight.errors import RelightError
from relight.intake.retention import forget
from relight.model import row_id
from relight.stats.rates import Estimate
from relight.store import Store
from relight.store.experiments import read_trial_runs
from relight.work.experiments.conduct import conduct, list_pairs
from relight.work.experiments.holdout import read_holdout
from relight.work.experiments.pairs import PairedReport, read_paired_report
from relight.work.experiments.plan import ExperimentPlan, TrialTask, read_tasks
from relight.work.experiments.register import (
    add_experiment,
    change_limits,
    find_experiment,
    read_stop,
    summarise_experiments,
)
from scripted import Reply, Server, call, has_results
from terminal import run_relight

LEARNT = "Fix the rounding in the invoices module"
MODEL = {"id": "m", "pricing": {"prompt": "0.00001", "completion": "0.00002"}}
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
CHECK = "grep -q right out.txt"


def answer(request: dict[str, Any]) -> Reply:
    """A model that does the task only if it was shown an example, or is the better one."""
    if has_results(request):
        return Reply("It is done.", usage=USAGE)
    said = json.dumps(request["messages"])
    word = "right" if TAG in said or request["model"] == "better" else "wrong"
    return Reply("Let me.", [call("write_file", path="out.txt", content=word)], usage=USAGE)


def take_time(seconds: float) -> Callable[[dict[str, Any]], Reply]:
    def slowly(request: dict[str, Any]) -> Reply:
        return replace(answer(request), delay_seconds=seconds)

    return slowly


def make_tasks(count: int, folder: Path, *, check: str | None = CHECK) -> list[TrialTask]:
    (folder / "work").mkdir(exist_ok=True)
    return [
        TrialTask(
            id=f"t{n}",
            prompt=f"The rounding of invoice totals number {n} is wrong, fix it",
            workdir=str(folder / "work"),
            check=check,
        )
        for n in range(count)
    ]


def make_plan(folder: Path, url: str, count: int = 6, **changes: Any) -> ExperimentPlan:
    known: dict[str, Any] = {
        "tasks": make_tasks(count, folder),
        "arms": ["cold", "warm"],
        "model": "m",
    }
    return ExperimentPlan(**(known | {"base_url": url} | changes))


def open_store(folder: Path) -> Store:
    store = build_warm.open_warm(folder)
    build_warm.capture(store, LEARNT, name="rounding")
    return store


def run(store: Store, plan: ExperimentPlan, name: str = "e") -> PairedReport:
    add_experiment(store, name, plan, now=1)
    return read_paired_report(store, conduct(store, name))


def test_every_task_is_run_in_both_arms_and_the_verdict_is_true(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Server(answer, models=[MODEL]) as server:
        found = run(store, make_plan(tmp_path, server.base_url))
        runs = read_trial_runs(store, 1)
        dealt = store.query(
            "select arm, count(*), count(distinct session_key), max(template_id)"
            " from provision where experiment_id = 1 group by arm"
        )
        outcomes = store.query("select outcome, count(*) from session group by outcome")
        natural = read_holdout(store)
    assert found.status == "done"
    assert found.pairs == {"planned": 6, "done": 6, "skipped": 0}
    assert found.outcomes["warm"] == {"successes": 6, "failures": 0, "unknown": 0}
    assert found.outcomes["cold"] == {"successes": 0, "failures": 6, "unknown": 0}
    assert found.verdict.startswith(
        "warm is better than cold: 6 of 6 runs succeeded against 0 of 6, +100.0 points"
    )
    assert Counter((one.task, one.arm) for one in runs) == Counter(
        (f"t{n}", arm) for n in range(6) for arm in ("cold", "warm")
    )
    # all is on record as any start is, and in no count of the sessions dealt by chance
    assert dealt == [("cold", 6, 6, 1), ("warm", 6, 6, 1)]
    assert dict(outcomes) == {"success": 6, "failure": 6}
    assert natural.sessions == {"cold": 0, "warm": 0}
    assert natural.provisions == {"warm": 0, "cold": 0, "abstained": 0}
    assert found.cost_usd["cold"] == pytest.approx(6 * 2 * (100 * 1e-5 + 20 * 2e-5))


def test_commands_get_the_variables_that_the_plan_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(request: dict[str, Any]) -> Reply:
        if has_results(request):
            return Reply("It is done.", usage=USAGE)
        command = "echo $SOME_TOKEN:$OTHER_TOKEN > out.txt"
        return Reply("Let me.", [call("terminal", command=command)], usage=USAGE)

    monkeypatch.setenv("SOME_TOKEN", "right")
    monkeypatch.setenv("OTHER_TOKEN", "wrong")
    tasks = make_tasks(1, tmp_path, check="grep -qx right: out.txt")
    changes: dict[str, Any] = {"tasks": tasks, "arms": ["m", "n"]}
    changes["pass_variables"] = ["SOME_TOKEN"]
    with open_store(tmp_path) as store, Server(show) as server:
        found = run(store, make_plan(tmp_path, server.base_url, **changes))
    assert {arm: one["successes"] for arm, one in found.outcomes.items()} == {"m": 1, "n": 1}


def test_no_arm_finds_what_the_other_did(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "seen.txt").write_text("as it was")
    task = TrialTask(
        id="a",
        prompt=LEARNT,
        workdir=str(tmp_path / "work"),
        setup="test ! -e out.txt && cp seen.txt copy.txt",
        check="test -e out.txt && grep -q 'as it was' copy.txt",
    )
    with open_store(tmp_path) as store, Server(answer) as server:
        found = run(store, make_plan(tmp_path, server.base_url, tasks=[task], arms=["m", "better"]))
    assert {arm: one["successes"] for arm, one in found.outcomes.items()} == {"m": 1, "better": 1}
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["seen.txt"]


def test_two_models_are_compared_by_name(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Server(answer) as server:
        found = run(store, make_plan(tmp_path, server.base_url, 7, arms=["m", "better"]))
        assert store.query("select count(*) from provision") == [(0,)]
    assert found.verdict.startswith(
        "better is better than m: 7 of 7 runs succeeded against 0 of 7, +100.0 points"
    )
    assert found.measures["success_rate"].p_value == 2 / 2**7
    assert {one.body["model"] for one in server.chats} == {"m", "better"}


def test_a_task_that_nothing_is_like_is_run_in_no_arm(tmp_path: Path) -> None:
    odd = TrialTask(id="odd", prompt="write a poem about the autumn sea")
    same = TrialTask(id="same", prompt=LEARNT)
    with open_store(tmp_path) as store, Server(answer) as server:
        tasks = [*make_tasks(1, tmp_path), odd, same]
        found = run(store, make_plan(tmp_path, server.base_url, tasks=tasks))
        asked = len(server.chats)
        (listed,) = summarise_experiments(store, now=0)
    assert found.pairs == {"planned": 3, "done": 1, "skipped": 2}
    assert (listed.runs_done, listed.runs_planned) == (2, 6)
    assert asked == 4  # the template was made of the third task itself: it would give it away
    assert "no template is like this task" in str(found.runs)


def test_a_task_that_a_template_was_made_of_is_left_out_and_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Server(answer) as server:
        tasks = [TrialTask(id="a", prompt=LEARNT), TrialTask(id="b", prompt="Write a poem")]
        found = run(store, make_plan(tmp_path, server.base_url, tasks=tasks))
    told = {one.task: one.evidence for one in found.runs}
    assert told["a"] == ["the only similar template was made from this very task"]
    assert told["b"] == ["no template is like this task"]


@pytest.mark.parametrize(("tasks", "word"), [(5, "not enough data"), (6, "warm is better")])
def test_too_few_tasks_for_a_verdict_are_not_enough(tmp_path: Path, tasks: int, word: str) -> None:
    with open_store(tmp_path) as store, Server(answer) as server:
        found = run(store, make_plan(tmp_path, server.base_url, tasks))
    assert found.verdict.startswith(word)


def test_without_a_check_only_failures_are_known(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Server(answer) as server:
        plan = make_plan(tmp_path, server.base_url, tasks=make_tasks(2, tmp_path, check=None))
        found = run(store, plan)
    assert found.outcomes["warm"] == {"successes": 0, "failures": 0, "unknown": 2}
    assert found.primary == "first_30_failure_rate"
    assert plan.judged_by == "early_failures"
    assert msgspec.structs.replace(plan, measure="success").judged_by == "success"


def test_a_budget_is_never_exceeded_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    cost = 2 * (100 * 1e-5 + 20 * 2e-5)
    with open_store(tmp_path) as store, Server(answer, models=[MODEL]) as server:
        budget = 5 * cost
        found = run(store, make_plan(tmp_path, server.base_url, budget_usd=budget))
        spent = sum(value or 0 for value in found.cost_usd.values())
        assert (found.status, found.pairs["done"]) == ("stopped", 2)  # no half of a pair
        assert spent <= budget
        assert "is left of the budget" in str(found.note)
        assert found.verdict == "not finished: 2 of 6 pairs have been run in both arms"
        early = found.measures["success_rate"]
        assert early.difference == Estimate(1.0, None, None)
        assert early.p_value is None  # the test is made once, at the planned end
        change_limits(store, "e", budget_usd=100.0, budget_tokens=None)
        again = read_paired_report(store, conduct(store, "e"))
    assert (again.status, again.pairs["done"]) == ("done", 6)
    assert len(server.chats) == 24


def test_tokens_can_be_the_budget_where_no_price_is_known(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Server(answer) as server:
        found = run(store, make_plan(tmp_path, server.base_url, budget_tokens=1000))
        assert (found.status, found.pairs["done"]) == ("stopped", 2)
        other = run(store, make_plan(tmp_path, server.base_url, budget_usd=5.0), "dollars")
    assert "cost of a run is unknown" in str(other.note)
    assert len(other.runs) == 1


def test_runs_of_one_task_count_as_one_witness(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Server(answer) as server:
        found = run(store, make_plan(tmp_path, server.base_url, 2, rounds=4))
    assert found.pairs["done"] == 8
    assert found.measures["success_rate"].p_value == 0.5  # two tasks, two signs each
    assert found.verdict.startswith(
        "not enough data: 8 of 8 runs succeeded against 0 of 8, +100.0 points"
    )


def test_which_arm_comes_first_is_dealt() -> None:
    plan = ExperimentPlan(
        tasks=[TrialTask(id=str(n), prompt="x") for n in range(200)], arms=["cold", "warm"]
    )
    first = Counter(pair.arms[0] for pair in list_pairs("e", plan))
    assert 70 < first["cold"] < 130
    assert list(list_pairs("e", plan)) == list(list_pairs("e", plan))


AGENT = """
import pathlib, sys
prompt = pathlib.Path(sys.argv[1]).read_text()
pathlib.Path("out.txt").write_text("right" if "<relight-example" in prompt else "wrong")
print("done by", sys.argv[2])
"""


def test_any_program_can_do_the_work(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    command = [sys.executable, str(tmp_path / "agent.py"), "{prompt_file}", "me"]
    with open_store(tmp_path) as store:
        plan = make_plan(tmp_path, "", runner="command", command=command, base_url=None)
        found = run(store, plan)
    assert found.outcomes["warm"]["successes"] == 6
    assert found.outcomes["cold"]["failures"] == 6
    assert found.cost_usd == {"cold": None, "warm": None}


class Cli:
    """The command in a separate process, which can be killed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        # what it leaves in the system's folder for such things is to be seen
        self.temporary = home / "tmp"
        self.temporary.mkdir()
        own = {"RELIGHT_HOME": home / "relight", "HOME": home, "TMPDIR": self.temporary}
        self.environment = {**os.environ, **{name: str(path) for name, path in own.items()}}

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "relight", "experiment", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        done = run_relight(self.environment, "experiment", *words)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr


def write_tasks(folder: Path, count: int) -> Path:
    path = folder / "tasks.jsonl"
    lines = [
        {"id": one.id, "prompt": one.prompt, "workdir": "work", "check": CHECK}
        for one in make_tasks(count, folder)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_a_killed_experiment_goes_on_and_does_nothing_twice(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    cli, tasks = Cli(tmp_path), write_tasks(tmp_path, 5)
    with Server(take_time(0.1), models=[MODEL]) as server:
        words = ["--tasks", str(tasks), "--model", "m", "--base-url", server.base_url]
        child = cli.begin("start", "e", *words)
        build.wait_for(lambda: len(server.chats) >= 7)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        (listed,) = json.loads(cli.run("list", "--json"))["experiments"]
        assert listed["status"] == "stopped"
        done = listed["runs_done"]
        assert 1 <= done < 10
        assert list(cli.temporary.glob("relight-experiment-*"))
        before = len(server.chats)
        found = json.loads(cli.run("start", "e", "--json"))
        after = len(server.chats)
    assert (found["status"], found["pairs"]["done"]) == ("done", 5)
    assert after - before == 2 * (10 - done)
    assert found["outcomes"]["warm"]["successes"] == 5
    with build_warm.open_warm(tmp_path) as store:
        runs = read_trial_runs(store, 1)
        again = [one for one in runs if len(one.sessions) > 1]
        keys = {key for (key,) in store.query("select 'relight:' || key from session")}
    assert len(runs) == 10
    assert len(again) <= 1  # the one it was killed at keeps what it had cost
    assert {name for one in runs for name in one.sessions} == keys
    # nor is anything left of the folder it worked in
    assert not list(cli.temporary.glob("relight-*"))


@pytest.mark.parametrize("at_once", [False, True])
def test_an_experiment_is_stopped_by_another_process(tmp_path: Path, at_once: bool) -> None:
    open_store(tmp_path).close()
    cli, tasks = Cli(tmp_path), write_tasks(tmp_path, 5)
    goes_on = threading.Event()

    def wait(request: dict[str, Any]) -> Reply:
        """The second run ends when it may, and else never: nothing hangs on who is faster."""
        if len(server.chats) > 2:
            goes_on.wait(60)
        return answer(request)

    with Server(wait) as server, build_warm.open_warm(tmp_path) as store:
        words = ["--tasks", str(tasks), "--model", "m", "--base-url", server.base_url]
        child = cli.begin("start", "e", *words)
        build.wait_for(lambda: len(server.chats) > 2)
        assert "is being run already" in cli.run("start", "e", code=1)
        stopping = cli.begin("stop", "e", *(["--now"] if at_once else []), "--json")
        build.wait_for(lambda: read_stop(store, 1))
        if not at_once:
            goes_on.set()
        told = json.loads(stopping.communicate(timeout=60)[0])
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
        goes_on.set()
    assert told["was_running"]
    assert (told["status"], told["note"]) == ("stopped", "a person stopped it")
    with build_warm.open_warm(tmp_path) as store:
        statuses = Counter(one.status for one in read_trial_runs(store, 1))
        assert find_experiment(store, "e").holder is None
    assert statuses["running"] == 0
    assert statuses["interrupted"] == int(at_once)
    assert "relight experiment start e" in errors
    assert "is not running" in cli.run("stop", "e")


def test_an_experiment_goes_on_only_as_it_began(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    cli, tasks = Cli(tmp_path), write_tasks(tmp_path, 1)
    assert "there is no experiment 'e'" in cli.run("start", "e", code=1)
    assert "which model?" in cli.run("start", "e", "--tasks", str(tasks), code=1)
    with Server(answer) as server:
        words = ["--tasks", str(tasks), "--model", "m", "--base-url", server.base_url]
        cli.run("start", "e", *words)
        assert "there is an experiment 'e' already" in cli.run("start", "e", *words, code=1)
        assert "--model needs --tasks" in cli.run("start", "e", "--model", "x", code=2)
        assert "Not enough data" in cli.run("report", "e")
    assert "there is no experiment 'x'" in cli.run("report", "x", code=1)
    assert "there is no experiment 'x'" in cli.run("stop", "x", code=1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "# mine\nFix this\n\nFix that\n"),
        ("a.jsonl", '{"prompt": "Fix this"}\n"Fix that"\n'),
        ("a.json", '["Fix this", {"prompt": "Fix that"}]'),
        ("a.toml", '[[task]]\nprompt = "Fix this"\n[[task]]\nprompt = "Fix that"\n'),
    ],
)
def test_tasks_are_read_from_lines_and_tables(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    tasks = read_tasks(tmp_path / name)
    assert [(one.id, one.prompt) for one in tasks] == [("1", "Fix this"), ("2", "Fix that")]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "\n# nothing\n", "has no tasks"),
        ("a.jsonl", '{"prompt": "x", "evil": 1}', "unknown field"),
        ("a.jsonl", "{not json", "not a task list"),
        ("a.jsonl", '{"prompt": " "}', "has no prompt"),
        ("a.jsonl", '{"prompt": "x", "id": "1"}\n{"prompt": "y", "id": "1"}', "have the id"),
        ("a.jsonl", '{"prompt": "x", "workdir": "gone"}', "no such folder"),
        ("a.jsonl", '{"prompt": "x", "id": "a\\u001b[2J"}', "cannot be a task id"),
        ("a.toml", 'prompt = "x"', "[[task]]"),
        ("a.json", "5", "not a task list"),
        ("a.json", "{}", "not a task list"),
        ("a.jsonl", "[" * 100_000, "not a task list"),
    ],
)
def test_a_file_that_is_no_list_of_tasks_is_reported(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(RelightError) as error:
        read_tasks(tmp_path / name)
    assert words in error.value.message


def test_a_setup_that_fails_leaves_the_task_out(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Server(answer) as server:
        tasks = [TrialTask(id="a", prompt="the rounding of invoices is wrong", setup="exit 3")]
        found = run(store, make_plan(tmp_path, server.base_url, tasks=tasks))
        assert len(server.chats) == 0
    assert found.pairs == {"planned": 1, "done": 0, "skipped": 1}
    assert "its setup failed: exit code 3" in str(found.runs)


@pytest.mark.parametrize("check", [["/no/such/program"], "no-such-program --all"])
def test_a_check_that_cannot_be_run_leaves_the_run_done_and_its_outcome_unknown(
    tmp_path: Path, check: str | list[str]
) -> None:
    task = TrialTask(id="a", prompt="the rounding of invoices is wrong", check=check)
    with open_store(tmp_path) as store, Server(answer, models=[MODEL]) as server:
        found = run(store, make_plan(tmp_path, server.base_url, tasks=[task]))
        labels = store.query("select outcome from session where told_outcome is not null")
    assert found.pairs["done"] == 1
    assert found.outcomes["warm"]["unknown"] == 1
    assert labels == []
    assert "cannot be run" in str(found.runs)
    assert found.cost_usd["warm"] is not None


@pytest.mark.parametrize("kind", ["refused", "gone", "command"])
def test_where_nothing_can_be_run_it_stops_at_once(tmp_path: Path, kind: str) -> None:
    with open_store(tmp_path) as store:
        with Server(
            lambda _: Reply(status=401, body=b'{"error": {"message": "bad key"}}')
        ) as server:
            plan = make_plan(tmp_path, server.base_url)
            if kind == "refused":
                found = run(store, plan)
        if kind == "gone":  # no server listens there any more
            found = run(store, msgspec.structs.replace(plan, max_attempts=1))
        elif kind == "command":
            plan = make_plan(tmp_path, "", runner="command", command=["/no/such/agent"])
            found = run(store, plan)
    assert found.status == "stopped"
    assert str(found.note).startswith("nothing could be run: ")
    assert [one.status for one in found.runs] == ["interrupted"]


def test_a_person_at_the_keyboard_ends_it_and_can_go_on(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    cli, tasks = Cli(tmp_path), write_tasks(tmp_path, 3)
    with Server(take_time(0.3)) as server:
        words = ["--tasks", str(tasks), "--model", "m", "--base-url", server.base_url]
        child = cli.begin("start", "e", *words)
        build.wait_for(lambda: len(server.chats) >= 3)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=120)
        assert child.returncode == 130
        (listed,) = json.loads(cli.run("list", "--json"))["experiments"]
        assert (listed["status"], listed["note"]) == ("stopped", "it was interrupted")
        assert json.loads(cli.run("start", "e", "--json"))["status"] == "done"
        assert "deleted e" in cli.run("delete", "e", "--yes")
        assert json.loads(cli.run("list", "--json"))["experiments"] == []


def test_a_forgotten_session_is_gone_from_its_experiment(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, Server(answer) as server:
        run(store, make_plan(tmp_path, server.base_url, 1))
        name = next(str(one.session) for one in read_trial_runs(store, 1))
        forget(store, row_id("session", *name.split(":", 1)))
        left = [one for one in read_trial_runs(store, 1) if one.session is None]
        assert [one.evidence for one in left] == [[]]
        assert read_paired_report(store, find_experiment(store, "e")).pairs["done"] == 1
