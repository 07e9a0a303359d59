"""The brief of the night: failures of one cause together, what another run can do, the rest."""

import sys
import time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from build_runs import make_job, write_runs
from relight.errors import MissingError, RelightError
from relight.intake.recorder import record
from relight.reports.brief import find_last_evening, read_brief
from relight.store import Store, open_store
from relight.times import format_moment, write_time
from relight.work.jobs.claimed_run import find_failed_run
from relight.work.jobs.registry import add_job, remove_job
from terminal import Cli

NOW = 1_794_812_400_000  # Mon 16 Nov 2026 07:00 UTC
HOUR = 3_600_000
LIMIT = '["rate_limit: 429 Too Many Requests"]'


def test_last_evening_is_that_of_yesterday_in_any_zone() -> None:
    zone = ZoneInfo("Europe/Berlin")
    for hour in (0, 7, 23):
        found = find_last_evening(datetime(2026, 11, 16, hour, 30, tzinfo=zone))
        assert found == datetime(2026, 11, 15, 18, tzinfo=zone)
    # the evening before the clocks change is 18:00 too
    after = find_last_evening(datetime(2026, 10, 25, 7, tzinfo=zone))
    assert after.isoformat() == "2026-10-24T18:00:00+02:00"


def test_failures_of_one_cause_across_jobs_are_one_row(store: Store) -> None:
    for job, hours in (("inbox", 5), ("triage", 3)):
        write_runs(
            store, job, [False], first_at=NOW - hours * HOUR, every_ms=HOUR,
            outcome_evidence=LIMIT, status="failed", costs_usd=[0.25],
        )  # fmt: skip
    write_runs(store, "backup", [False], first_at=NOW - HOUR, every_ms=HOUR, status="failed",
               outcome_evidence='["exit code 1: no space left on device"]')  # fmt: skip
    write_runs(store, "fine", [True, None], first_at=NOW - 2 * HOUR, every_ms=HOUR)
    write_runs(store, "fine", [False], first_at=NOW - 20 * HOUR, every_ms=HOUR)  # before evening
    found = read_brief(store, now=NOW)
    assert (found.runs, found.successes, found.failures, found.unknown) == (5, 1, 3, 1)
    assert found.since == "2026-11-15T18:00:00.000Z"
    shared, other = found.causes
    assert (shared.runs, shared.jobs, shared.cost_usd) == (2, ["triage", "inbox"], 0.5)
    assert shared.can_retry is True
    assert (other.runs, other.jobs) == (1, ["backup"])
    assert other.evidence == ["exit code 1: no space left on device"]
    assert len(shared.run_ids) == 2
    assert [run.name for run in found.succeeded] == ["fine"]
    assert read_brief(store, now=NOW, since=NOW - 30 * HOUR).runs == 6


def test_a_failure_says_if_its_job_has_succeeded_since(store: Store) -> None:
    write_runs(store, "inbox", [False, True], first_at=NOW - 5 * HOUR, every_ms=HOUR,
               status="failed", outcome_evidence=LIMIT)  # fmt: skip
    (cause,) = read_brief(store, now=NOW).causes
    assert cause.retry == "inbox succeeded since, at Mon 2026-11-16 03:00 UTC"
    assert cause.run_ids == []
    # a job that still fails of the same cause has the next word
    write_runs(store, "triage", [False], first_at=NOW - 3 * HOUR, every_ms=HOUR,
               status="failed", outcome_evidence=LIMIT)  # fmt: skip
    (both,) = read_brief(store, now=NOW).causes
    assert both.jobs == ["triage", "inbox"]
    assert (both.retry or "").startswith("temporary: ")
    assert len(both.run_ids) == 1


def test_the_first_of_the_next_runs_is_named_for_jobs_of_one_cause(store: Store) -> None:
    soon = round(time.time() * 1000) + HOUR
    for number, job in enumerate(("late", "early")):
        write_runs(store, job, [False], first_at=NOW - (2 + number) * HOUR, every_ms=HOUR,
                   status="failed", outcome_evidence=LIMIT)  # fmt: skip
    with store.transaction() as database:
        database.execute("update job set next_run_at = ? where name = 'early'", (soon,))
        database.execute("update job set next_run_at = ? where name = 'late'", (soon + HOUR,))
    (cause,) = read_brief(store, now=NOW).causes
    assert cause.jobs == ["late", "early"]
    assert cause.retry == f"temporary: tried again at {format_moment(soon, 'UTC')}"
    assert cause.next_run_at == write_time(soon)


def test_sessions_beside_runs_are_counted_with_their_cost(store: Store) -> None:
    with record(store, "mine", model="claude-haiku-4-5") as rec:
        rec.turn(input_tokens=10, output_tokens=1)
        rec.finish("failure")
    found = read_brief(store)
    assert (found.sessions.sessions, found.sessions.failures, found.runs) == (1, 1, 0)
    assert found.sessions.cost_usd
    assert found.cost_usd is None
    (cause,) = found.causes
    assert (cause.sessions, cause.session_ids, cause.run_ids) == (1, ["relight:mine"], [])


def test_nothing_recorded_is_an_empty_brief(store: Store) -> None:
    found = read_brief(store)
    assert (found.runs, found.causes, found.alarms, found.sessions.cost_usd) == (0, [], [], 0.0)


def test_a_run_is_repeated_only_if_there_is_a_reason(store: Store) -> None:
    write_runs(store, "inbox", [True, False, True, False], first_at=NOW, every_ms=HOUR)
    good, old, _, last = [f"inbox@{NOW + number * HOUR}" for number in range(4)]
    with pytest.raises(MissingError, match="there is no run 'nothing'"):
        find_failed_run(store, "nothing")
    with pytest.raises(RelightError, match="succeeded"):
        find_failed_run(store, good)
    with pytest.raises(RelightError, match="has succeeded since, as inbox@"):
        find_failed_run(store, old)
    assert find_failed_run(store, old, anyway=True).job == "inbox"
    assert find_failed_run(store, last).run_id == last
    with store.transaction() as database:
        database.execute("update run set retry_at = ? where key = ?", (NOW + 99 * HOUR, last))
    with pytest.raises(RelightError, match="asked to wait until Fri 2026-11-20 10:00"):
        find_failed_run(store, last, now=NOW)
    remove_job(store, "inbox")
    with pytest.raises(MissingError, match="there is no job 'inbox'"):
        find_failed_run(store, last, anyway=True)


def test_the_brief_leads_to_a_retry_that_is_in_the_history(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    script, mended = tmp_path / "work.py", tmp_path / "mended"
    script.write_text(
        "import pathlib, sys\n"
        f"sys.exit(0 if pathlib.Path({str(mended)!r}).exists() and not print('done') else 'broken')"
    )
    command = [sys.executable, str(script)]
    with open_store(tmp_path / "relight") as store:
        job = make_job(name="flaky", runner="command", command=command, max_attempts=1)
        add_job(store, job, now=round(time.time() * 1000))
    assert cli.run("job", "run", "flaky").returncode == 1
    shown = cli.run("brief").stdout
    assert "1 run of flaky failed" in shown
    (cause,) = cli.json("brief")["causes"]
    (run_id,) = cause["run_ids"]
    assert f"relight job retry {run_id}" in shown
    assert cli.run("job", "retry", run_id).returncode == 1
    mended.touch()
    again = cli.json("job", "retry", run_id)
    assert (again["outcome"], again["note"]) == ("success", f"retry of {run_id}")
    refused = cli.run("job", "retry", run_id)
    assert refused.returncode == 1
    assert "has succeeded since" in refused.stderr


def test_a_session_without_outcome_is_counted_as_unknown(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    with open_store(tmp_path / "relight") as store, record(store, model="gpt-5.1") as recorder:
        recorder.turn(input_tokens=9, output_tokens=9)
        recorder.finish(outcome="unknown")
    assert "1 session beside them: 0 succeeded, 0 failed, 1 unknown, " in cli.run("brief").stdout
