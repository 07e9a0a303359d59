"""The invented month: the same every time, and read by the real importers."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from zoneinfo import ZoneInfo

import pytest

from relight.cli.demo import PLANTED_SECRET, write_demo
from relight.cli.demo.own_records import record_facts, write_settings
from relight.intake.importing import Imported
from relight.reports.comparison.models import compare_models
from relight.reports.runs import read_jobs
from relight.reports.spirals import read_spirals
from relight.store import Store, open_store
from relight.store.queries.filters import Filter
from relight.store.queries.runs import read_runs
from relight.store.write.tape import read_tape
from relight.warm.automatic import import_and_propose
from relight.warm.library import read_templates, read_versions
from relight.work.experiments.metrics import read_arm_sessions
from relight.work.experiments.pairs import read_paired_report
from relight.work.experiments.register import find_experiment
from relight.work.moa.trace_report import find_traces
from terminal import run_relight

NOW = datetime(2026, 11, 18, 14, 3, 7, tzinfo=UTC)


class Demo:
    """A demo that was written and imported once, for all tests that only look."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder / "agents"
        self.environment = write_demo(self.folder, now=NOW)
        self.store = store
        self.imported = {one.source: one for one in self.import_again()}

    def import_again(self) -> list[Imported]:
        return import_and_propose(self.store, environment=self.environment)

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self.store.query(statement, values)

    def hermes(self, name: str, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / ".hermes" / name)) as database:
            return database.execute(statement).fetchall()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    with open_store(folder / "relight") as store:
        yield Demo(folder, store)


def read_files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_same_clock_and_seed_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_demo(tmp_path / name, now=NOW, seed=3)
    assert read_files(tmp_path / "one") == read_files(tmp_path / "two")


def test_another_seed_gives_another_month(tmp_path: Path) -> None:
    for seed in (3, 4):
        write_demo(tmp_path / str(seed), now=NOW, seed=seed)
    assert read_files(tmp_path / "3").keys() != read_files(tmp_path / "4").keys()


@pytest.mark.parametrize(
    "now",
    [
        datetime(2026, 11, 15, 0, 0, 1, tzinfo=UTC),  # a Sunday, at night
        datetime(2026, 3, 31, 23, 59, tzinfo=timezone(timedelta(hours=-8))),
        datetime(2026, 10, 26, 9, 30, tzinfo=ZoneInfo("Europe/Berlin")),  # clocks just changed
    ],
)
def test_it_is_a_believable_month_whenever_it_is_made(tmp_path: Path, now: datetime) -> None:
    environment = write_demo(tmp_path / "agents", now=now)
    assert sum(map(len, read_files(tmp_path / "agents").values())) < 8_000_000
    with open_store(tmp_path / "relight") as store:
        done = import_and_propose(store, environment=environment)
        ((last,),) = store.query("select max(ended_at) from session")
        ((backwards,),) = store.query("select count(*) from session where ended_at < started_at")
    assert 230 <= sum(one.sessions_new for one in done) <= 310
    assert sum(one.unreadable for one in done) == 1
    assert last <= now.timestamp() * 1000
    assert backwards == 0


def test_all_three_agents_are_found(demo: Demo) -> None:
    assert demo.imported["claude-code"].sessions_new > 40
    assert demo.imported["codex"].sessions_new > 10
    assert demo.imported["hermes"].sessions_new > 70
    projects = {project for (project,) in demo.query("select distinct project from session")}
    names = ("shop-api", "billing", "storefront", "infra", "docs")
    assert {f"/home/kim/src/{name}" for name in names} == projects - {None}


def test_a_repeated_import_finds_nothing_new(demo: Demo) -> None:
    assert sum(one.sessions_new + one.sessions_grown for one in demo.import_again()) == 0


def test_exactly_one_line_cannot_be_read(demo: Demo) -> None:
    assert demo.imported["claude-code"].unreadable == 1
    assert len(demo.query("select 1 from unreadable")) == 1


def test_the_session_that_is_going_on_waits_for_the_rest_of_its_line(demo: Demo) -> None:
    ((path,),) = demo.query(
        "select path from origin join file_mark on origin_id = id"
        " where path like '%.jsonl' and position < size"
    )
    last = Path(path).read_bytes().splitlines()[-1]
    with pytest.raises(json.JSONDecodeError):
        json.loads(last)


def test_the_planted_secret_is_in_the_files_but_not_on_the_tape(demo: Demo) -> None:
    secret = PLANTED_SECRET.encode()
    assert sum(secret in content for content in read_files(demo.folder).values()) == 1
    tape = b"".join(line for part in read_tape(demo.store) for line in part.lines())
    assert secret not in tape
    assert b"[redacted:github:" in tape


def test_a_month_costs_what_a_developer_would_believe(demo: Demo) -> None:
    since = (NOW - timedelta(days=30)).date().isoformat()
    ((cost,),) = demo.query("select sum(cost_nanos) / 1e9 from session_day where day > ?", since)
    assert 50 < cost < 2000


def test_only_the_local_model_has_no_price(demo: Demo) -> None:
    # a call that was cut off has no known cost either, whatever its model
    rows = demo.query("select distinct model from turn where cost_nanos is null and calls > 0")
    assert rows == [("qwen3.6-27b",)]


def test_every_call_of_the_local_model_is_known_as_local(told: Store) -> None:
    # so that one setting makes all of them free
    rows = told.query("select distinct provider from turn where model = 'qwen3.6-27b'")
    assert rows == [("local",)]


def test_sub_agents_roll_up_to_the_session_that_asked(demo: Demo) -> None:
    children = demo.query("select source, parent_id, root_id from session where id <> root_id")
    assert {source for source, _, _ in children} == {"claude-code", "hermes"}
    assert all(parent == root for _, parent, root in children)
    own, whole = demo.query(
        "select sum(session_id = root_id), count(*) from session_day"
        " where root_id in (select root_id from session where id <> root_id)"
    )[0]
    assert whole > own > 0


def find_last_records(demo: Demo) -> dict[str, dict[str, Any]]:
    """The last record of every Claude Code session that was closed, by the session's key."""
    last = {}
    for path in (demo.folder / ".claude" / "projects").glob("*/*.jsonl"):
        content = path.read_bytes()
        if content.endswith(b"\n"):
            last[path.stem] = json.loads(content.splitlines()[-1])
    return {key: record for key, record in last.items() if record["type"] == "cost-state"}


def test_claude_codes_own_totals_agree_with_what_was_recorded(demo: Demo) -> None:
    """Sub-agents' turns and those that no line shows included."""
    forked = "select session_id from shared_turn union select session_id from turn where id in"
    forked += " (select turn_id from shared_turn)"
    rows = demo.query(
        "select root.key, turn.model, sum(output_tokens), sum(cache_read_tokens) from turn"
        " join session on session.id = session_id join session root on root.id = session.root_id"
        f" where failure is null and root.id not in ({forked}) group by root.key, turn.model"
    )
    known = {(key, model): (output, read) for key, model, output, read in rows}
    told = {
        (key, model): (used["outputTokens"], used["cacheReadInputTokens"])
        for key, record in find_last_records(demo).items()
        for model, used in record["modelUsage"].items()
        if (key, model) in known
    }
    assert len(told) > 15
    assert {place: known[place] for place in told} == told


def test_what_a_fork_copied_counts_once(demo: Demo) -> None:
    ((shared,),) = demo.query("select count(*) from shared_turn")
    assert shared > 3


def test_three_sessions_went_round_in_circles_two_of_them_far(demo: Demo) -> None:
    found = read_spirals(demo.store, Filter())
    assert sorted(one.count for one in found if one.kind == "identical") == [3, 7, 12]


def test_there_is_something_of_every_verdict(demo: Demo) -> None:
    rows = dict(demo.query("select label, count(*) from tool_call group by label"))
    assert rows["ok"] > 5 * rows["error"] > 0
    kinds = {kind for (kind,) in demo.query("select distinct kind from tool_call")}
    assert {"tests_failed", "no_match", "file_not_found", "timeout", "command_not_found"} <= kinds


def test_an_overloaded_api_is_a_failed_turn(demo: Demo) -> None:
    rows = demo.query("select failure from turn where failure is not null")
    assert rows == [("overloaded",)]


def test_hermes_calls_a_run_complete_that_its_ledger_calls_failed(demo: Demo) -> None:
    failed = demo.hermes(
        "cron/executions.db", "select job_id, error from executions where status = 'failed'"
    )
    dead = demo.hermes(
        "state.db",
        "select substr(id, 6, 12), end_reason, message_count from sessions"
        " where api_call_count = 0",
    )
    assert len(failed) == len(dead) > 2
    assert {job for job, _ in failed} == {job for job, _, _ in dead}
    assert {row[1:] for row in dead} == {("cron_complete", 1)}
    assert all(error.startswith("RuntimeError: HTTP 500") for _, error in failed)


def test_a_skill_runs_on_three_models_and_a_script_fails_unnoticed(demo: Demo) -> None:
    models = demo.hermes(
        "state.db",
        "select model, count(*) from sessions where title like 'daily-report%' group by model",
    )
    assert len(models) == 3
    assert min(count for _, count in models) > 8
    prompts = demo.hermes(
        "state.db", "select content from messages where content like '%## Script Error%'"
    )
    assert len(prompts) > 10
    assert all(
        text.startswith('[IMPORTANT: The user has invoked the "price-watch" skill,')
        for (text,) in prompts
    )


def test_calls_beside_the_conversation_are_recorded(demo: Demo) -> None:
    ((count,),) = demo.query("select count(*) from turn where role = 'title_generation'")
    assert count > 3


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The demo with what the invented developer did with Relight itself."""
    folder = tmp_path_factory.mktemp("told")
    write_settings(folder / "relight")
    environment = write_demo(folder / "agents", now=NOW)
    with open_store(folder / "relight") as store:
        import_and_propose(store, environment=environment)
        record_facts(store, now=NOW)
        yield store


def test_a_cheaper_model_does_well_and_a_few_more_runs_would_show_it(told: Store) -> None:
    found = compare_models(told, "ticket-triage", now=NOW)
    assert len(found.models) == 3
    assert found.verdict.startswith(
        "Cannot tell yet whether gpt-5.1-codex-mini is good enough for ticket-triage: 43 of 43"
    )
    assert found.pairs[0].more_days is not None
    assert found.pairs[0].more_days < 90


def test_templates_were_made_used_held_out_and_retired(told: Store) -> None:
    states = {one.state for one in read_templates(told)}
    assert states == {"live", "retired"}
    assert max(len(read_versions(told, one.name)) for one in read_templates(told)) == 2
    arms = [one.arm for one in read_arm_sessions(told)]
    assert min(arms.count("warm"), arms.count("cold")) >= 5


def test_who_began_warm_failed_less_often(told: Store) -> None:
    sums = {"warm": [0, 0], "cold": [0, 0]}
    for one in read_arm_sessions(told):
        sums[one.arm][0] += one.failures
        sums[one.arm][1] += one.calls
    rates = {arm: failures / calls for arm, (failures, calls) in sums.items()}
    assert rates["warm"] < rates["cold"]


def test_an_experiment_has_a_result_that_its_runs_bear_out(told: Store) -> None:
    found = read_paired_report(told, find_experiment(told, "warm-or-cold"))
    assert found.pairs == {"planned": 9, "done": 8, "skipped": 1}
    assert found.verdict.startswith("no difference found between warm and cold: ")
    assert found.measures["calls_per_run"].pairs == 8
    assert all(one.session_id for one in found.runs if one.status == "done")
    assert found.cost_usd["warm"] is not None


def test_a_job_of_our_own_ran_every_morning(told: Store) -> None:
    (job,) = [job for job in read_jobs(told) if job.job == "release-watch"]
    runs = read_runs(told, "release-watch")
    assert len(runs) == 19
    assert {run.outcome for run in runs} == {"success", "failure"}
    assert all(Path(run.answer_file or "").is_file() and run.session_id for run in runs)
    assert (job.next_run_at or "") > NOW.isoformat()
    # its scheduler began them, at its time
    assert all(run.scheduled_for and run.note is None for run in runs)


def test_no_folder_of_this_machine_is_in_the_demo(told: Store) -> None:
    projects = {project for (project,) in told.query("select distinct project from session")}
    assert str(Path.cwd()) not in projects


def test_a_mixture_was_asked_and_traced(told: Store) -> None:
    (trace,) = find_traces(told)
    assert [len(turn["references"]) for turn in trace.turns] == [3, 3]
    rows = told.query("select role, count(*) from turn where role like '%r%' group by role")
    roles = dict(rows)
    assert roles["reference"] == 6
    assert roles["aggregator"] == 2


def test_the_commands_that_the_demo_names_lead_to_its_own_store(tmp_path: Path) -> None:
    folder, own = tmp_path / "my demo", tmp_path / "own"
    command = f"{sys.executable} -m relight"
    homes = {"HOME": str(tmp_path), "RELIGHT_HOME": str(own)}
    environment = {**os.environ, **homes, "RELIGHT_COMMAND": command}
    shown = run_relight(environment, "demo", "--keep", str(folder)).stdout
    lines = re.findall(rf"{re.escape(command)} --home '{folder}/relight' [^`\n]+", shown)
    assert len(lines) == shown.count(command) >= 4
    for line in lines:
        ending = " --port 0" if line.endswith(" serve") else ""
        with subprocess.Popen(
            ["sh", "-c", f"exec {line}{ending}"],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            if ending:
                assert child.stdout.readline().startswith("http://127")
                child.terminate()
            else:
                assert len(child.stdout.read()) > 100
                assert child.wait() == 0, line
    assert not own.exists()
    # in this shell, for every command
    assert f"export RELIGHT_HOME='{folder}/relight'" in shown


def test_the_demo_opens_its_dashboard(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "relight", "demo", "--keep", str(tmp_path / "d"), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            address = next(line.strip() for line in child.stdout if line.startswith("http://127"))
            with urlopen(address) as page:
                assert b"Cost by day and model" in page.read()
        finally:
            child.terminate()
