"""Failed runs and sessions are failures: counted once, with their cause and what they cost."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

import build
import build_runs
from relight.errors import MissingError
from relight.reports.failed_work import FailedTotals, describe_failed, read_failed_work
from relight.reports.failures import read_failures
from relight.reports.filters import read_filter
from relight.reports.sessions import find_session
from relight.reports.totals import report
from relight.store import Store, open_store
from relight.store.labels import write_label
from relight.store.queries.failed_work import read_newest_failed
from relight.store.queries.filters import Filter
from relight.work.jobs.job import JobResult
from terminal import Cli

JOB = "4d9a61c07b3e"
LEDGER = """
    create table executions (id text primary key, job_id text, source text, status text,
        claimed_at text, started_at text, finished_at text, error text);
"""


def write_hermes_runs(home: Path, errors: list[str | None]) -> sqlite3.Connection:
    """A Hermes home whose ledger has one run a day of one job, without sessions."""
    database = build.open_hermes(home)
    folder = home / ".hermes" / "cron"
    folder.mkdir(parents=True)
    job = {"id": JOB, "name": "triage", "prompt": "Sort.", "model": "gpt-5.1", "skills": []}
    (folder / "jobs.json").write_text(json.dumps({"jobs": [job]}))
    ledger = build.connect_as_hermes(folder / "executions.db")
    ledger.executescript(LEDGER)
    for number, error in enumerate(errors):
        begin, end = (build.stamp(number * 86_400 + later) for later in (0, 9))
        build.insert(
            ledger, "executions", id=f"run{number}", job_id=JOB, source="builtin",
            status="failed" if error else "completed", claimed_at=begin, started_at=begin,
            finished_at=end, error=error,
        )  # fmt: skip
    return database


def test_runs_that_a_scheduler_says_failed_are_failures(tmp_path: Path, store: Store) -> None:
    write_hermes_runs(tmp_path, ["HTTP 500: no", "HTTP 500: no", None, "no space left on device"])
    build.import_home(store, tmp_path)
    found = read_failures(store, Filter())
    assert not found.is_empty
    assert [(one.kind, one.cause, one.runs) for one in found.causes] == [
        ("server_error", "HTTP 500: no", 2),
        ("disk_full", "no space left on device", 1),
    ]
    total = found.failed
    assert (total.runs, total.sessions, total.unrecorded_runs) == (3, 0, 3)
    assert total.cost_usd is None, "nothing of theirs is recorded"
    assert [(one.name, one.runs) for one in total.jobs] == [("triage", 3)]
    one = replace(total, runs=1, jobs=[])
    assert describe_failed(one) == "1 run failed and has no known cost"
    assert describe_failed(total) == ("1 job failed: triage (3 runs); 3 runs have no known cost")
    newest = found.runs[0]
    assert (newest.what, newest.job, newest.session_id) == ("run", f"hermes:{JOB}", None)
    assert newest.evidence[0] == "the scheduler's ledger says failed: no space left on device"


@pytest.mark.parametrize(
    ("cost", "unpriced", "words"),
    [
        (None, 2, "2 sessions failed and have no known cost"),
        (0.0, 0, "2 sessions failed and cost $0.00"),
        (0.0, 1, "2 sessions failed and cost $0.00, not counting 1 model call without a price"),
        (0.5, 2, "2 sessions failed and cost ≥$0.50"),
    ],
)
def test_a_known_cost_of_nothing_is_not_an_unknown_one(
    cost: float | None, unpriced: int, words: str
) -> None:
    total = FailedTotals(
        runs=0, sessions=2, cost_usd=cost, unpriced_turns=unpriced, unrecorded_runs=0, jobs=[]
    )
    assert describe_failed(total) == words


def test_days_and_jobs_narrow_failed_runs(tmp_path: Path, store: Store) -> None:
    write_hermes_runs(tmp_path, ["HTTP 500: no", "HTTP 500: no", None, "no space left on device"])
    build.import_home(store, tmp_path)

    def count(**asked: Any) -> int:
        return read_failed_work(store, read_filter(store, **{"since": "all", **asked})).failed.runs

    assert count() == 3
    assert count(since="2026-11-16") == 2
    assert count(until="2026-11-15") == 1
    assert count(until="9999-12-31") == 3
    assert count(since="2026-11-16", until="2026-11-17") == 1
    assert count(job="triage") == count(job=f"hermes:{JOB}") == 3
    assert count(source="codex") == 0
    assert count(model="gpt") == 3
    assert count(project="shop") == 0
    with pytest.raises(MissingError, match="there is no job 'else'"):
        count(job="else")


def test_a_session_that_failed_is_a_failure_with_its_cost(tmp_path: Path, store: Store) -> None:
    records = build.claude_session()
    build.write_claude(tmp_path, [*records, build.claude_prompt("And now?", at=9)])
    build.import_home(store, tmp_path)
    (one,) = read_failed_work(store, Filter()).runs
    assert (one.what, one.kind, one.job) == ("session", "no_answer", None)
    assert one.session_id == f"claude-code:{build.CLAUDE_SESSION}"
    assert one.cost_usd == pytest.approx(report(store).total.cost_usd)


def test_the_newest_failed_sessions_are_the_first_of_all_and_those_without_a_time_the_last(
    tmp_path: Path, store: Store
) -> None:
    write_hermes_runs(tmp_path, ["timeout", None, "HTTP 500"])
    build.import_home(store, tmp_path)
    with store.transaction() as database:
        for number in range(12):
            at = None if number % 4 == 0 else 1_763_200_000_000 + number // 2 * 1000
            database.execute(
                "insert into session (id, source, key, root_id, started_at, outcome,"
                " outcome_evidence) values (?, 'chat', ?, ?, ?, 'failure', '[]')",
                (number + 1, f"s{number}", number + 1, at),
            )
            database.execute(
                "insert into session_day (session_id, root_id, day, source, turns, partial_turns,"
                " unpriced_turns, cost_nanos, included_nanos, tool_calls, tool_failures, wall_ms)"
                " values (?, ?, '2025-11-15', 'chat', 1, 0, 0, 5, 0, 0, 0, 0)",
                (number + 1, number + 1),
            )
    for chosen in (Filter(), Filter(since="2025-11-15"), Filter(source="chat")):
        everything = read_newest_failed(store, chosen, limit=100)
        assert len(everything) > 10
        for limit in range(1, 16):
            assert read_newest_failed(store, chosen, limit=limit) == everything[:limit]


def run_house(store: Store, home: Path, prompt: str) -> JobResult:
    words = [str(build_runs.write_agent(home)), "-p"]
    job = build_runs.make_job(runner="command", command=words, prompt=prompt)
    return build_runs.run_job(store, job, home=home)


def test_a_failed_run_and_its_session_count_once(tmp_path: Path, store: Store) -> None:
    result = run_house(store, tmp_path, "<failing>")
    (one,) = read_failed_work(store, Filter()).runs
    assert (one.what, one.job, one.session_id) == ("run", "house", result.session)
    assert one.cost_usd is not None
    assert one.cost_usd == pytest.approx(report(store).total.cost_usd)
    assert read_failed_work(store, read_filter(store, job="house")).runs == [one]


def test_the_cost_of_a_run_without_a_session_is_a_dash(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    write_hermes_runs(cli.home, ["HTTP 500: no"])
    with open_store(cli.home / "relight") as store:
        build.import_home(store, cli.home)
    shown = cli.run("failures", "--since", "all").stdout
    assert "1 run left no session: its cost is not recorded" in shown
    assert "no price" not in shown


def test_a_run_that_was_refused_cost_nothing_and_its_cost_is_known(
    tmp_path: Path, store: Store
) -> None:
    job = build_runs.make_job(
        runner="command", command=["hermes"], model="gpt-4", provider="openai"
    )
    assert build_runs.run_job(store, job, home=tmp_path).outcome == "failure"
    failed = read_failed_work(store, Filter()).failed
    assert (failed.runs, failed.cost_usd, failed.unrecorded_runs) == (1, 0.0, 0)


def test_a_failed_attempt_of_a_run_that_succeeded_is_a_failed_session_of_its_job(
    tmp_path: Path, store: Store
) -> None:
    result = run_house(store, tmp_path, "<broken once>")
    assert (result.outcome, len(result.earlier)) == ("success", 1)
    write_label(store, find_session(store, result.earlier[0]), "failure", None, build.START)
    (one,) = read_failed_work(store, Filter()).runs
    assert (one.what, one.job, one.session_id) == ("session", "house", result.earlier[0])
    (row,) = [row for row in report(store, ("session",)).rows if row.session == one.session_id]
    assert one.cost_usd == pytest.approx(row.cost_usd)


def test_a_label_makes_a_failure_and_takes_one_back(tmp_path: Path, store: Store) -> None:
    build.write_claude(tmp_path, build.claude_session())
    build.import_home(store, tmp_path)
    assert read_failed_work(store, Filter()).runs == []
    ((session_id,),) = store.query("select id from session")
    write_label(store, session_id, "failure", "the totals are wrong", build.START)
    (one,) = read_failed_work(store, Filter()).runs
    assert (one.kind, one.cause) == ("labelled", "a person said failure: the totals are wrong")
    write_label(store, session_id, "success", None, build.START)
    assert read_failed_work(store, Filter()).runs == []


def test_the_sums_are_those_of_the_causes(tmp_path: Path, store: Store) -> None:
    write_hermes_runs(tmp_path, ["HTTP 500: no", "no space left on device"])
    build.write_claude(tmp_path, [build.claude_prompt("Hello?")])
    build.import_home(store, tmp_path)
    found = read_failed_work(store, Filter())
    for name in ("runs", "sessions", "unpriced_turns", "unrecorded_runs"):
        assert asdict(found.failed)[name] == sum(asdict(one)[name] for one in found.causes), name
