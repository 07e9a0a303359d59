"""Hermes' own scheduler: its jobs, and what really came of their runs."""

import json
from datetime import datetime
from pathlib import Path

import pytest

import build
import build_jobs
from relight.intake.rebuild import rebuild
from relight.reports.runs import read_jobs
from relight.reports.sessions import find_session, read_session
from relight.reports.totals import report
from relight.store import Store
from relight.store.queries.runs import read_runs
from relight.work.jobs.claimed_run import run_now
from relight.work.jobs.registry import add_job, describe_job

JOB = "aaaaaaaaaaaa"
LEDGER = """
    create table executions (id text primary key, job_id text, source text, status text,
        claimed_at text, started_at text, finished_at text, error text)
"""


def outcome_of(store: Store, name: str) -> tuple[str, list[str]]:
    found = read_session(store, find_session(store, name))
    return found.outcome, found.evidence


class Cron:
    """Hermes with one job, whose runs are written as Hermes writes them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.database = build.open_hermes(home)
        folder = home / ".hermes" / "cron"
        folder.mkdir()
        job = {"id": JOB, "name": "nightly", "skills": ["report"], "schedule_display": "every 5m"}
        (folder / "jobs.json").write_text(json.dumps({"jobs": [job | {"enabled": True}]}))
        self.ledger = build.connect_as_hermes(folder / "executions.db")
        self.ledger.execute(LEDGER)

    def run(self, number: int, status: str, error: str | None = None) -> str:
        """A row in the ledger; the session it would leave is the caller's to write."""
        start, end = build.stamp(number * 100), build.stamp(number * 100 + 50)
        build.insert(
            self.ledger, "executions", id=f"run{number}", job_id=JOB, source="builtin",
            status=status, claimed_at=start, started_at=start, finished_at=end, error=error,
        )  # fmt: skip
        return f"cron_{JOB}_20261115_0000{number:02}"

    def session(self, name: str, number: int, *messages: tuple[str, str]) -> None:
        begin = build.START / 1000 + number * 100 + 3
        build.insert(
            self.database, "sessions", id=name, source="cron", model="m", started_at=begin,
            end_reason="cron_complete",
        )  # fmt: skip
        for offset, (role, content) in enumerate(messages):
            build.insert(
                self.database, "messages", session_id=name, role=role, content=content,
                timestamp=begin + offset,
            )  # fmt: skip


@pytest.fixture
def cron(tmp_path: Path) -> Cron:
    return Cron(tmp_path)


def test_the_ledger_shows_what_hermes_own_sessions_hide(cron: Cron) -> None:
    ask, answer = ("user", "[IMPORTANT: You are a cron job] go"), ("assistant", "All fine.")
    script = "[IMPORTANT: cron]\n\n## Script Error\nIt failed.\n\n```\nexit 3\nboom\n```\n\ngo"
    cron.session(cron.run(1, "completed"), 1, ask, answer)
    cron.session(cron.run(2, "failed", "HTTP 500"), 2, ask)
    cron.session(cron.run(3, "completed"), 3, ("user", script), answer)
    cron.run(4, "failed", "context too small")
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        runs = read_runs(store, "nightly")
        assert [(run.outcome, run.session_id is None) for run in runs] == [
            ("failure", True),
            ("failure", False),
            ("failure", False),
            ("success", False),
        ]
        assert runs[1].evidence[0] == "the job's script failed: exit 3 boom"
        assert runs[0].evidence[0].endswith("context too small")
        assert runs[0].job == f"hermes:{JOB}"
        (job,) = read_jobs(store)
        assert (job.runs, job.failures, job.last_outcome) == (4, 3, "failure")
        (row,) = report(store, ("job",)).rows
        assert (row.job, row.sessions) == (f"hermes:{JOB}", 3)


def test_a_name_means_our_own_job_before_one_of_another_scheduler(cron: Cron) -> None:
    cron.session(cron.run(1, "completed"), 1, ("user", "go"), ("assistant", "Fine."))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        (foreign,) = read_runs(store, "nightly")
        for name in ("nightly", "morning-nightly"):
            add_job(store, build_jobs.make_job(name), now=build.START)
            run_now(store, name, holder="host/1", execute=lambda *_, **__: build_jobs.DONE)
        assert describe_job(store, "nightly", now=build.START).job == "nightly"
        # neither what the other scheduler calls so, nor what only ends in it
        assert [run.job for run in read_runs(store, "nightly")] == ["nightly"]
        for name in (JOB, f"hermes:{JOB}"):
            assert read_runs(store, name) == [foreign]
            assert describe_job(store, name, now=build.START).job == f"hermes:{JOB}"


def test_a_run_is_joined_to_its_session_whichever_is_read_first(cron: Cron) -> None:
    name = cron.run(1, "failed", "HTTP 500")
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        assert read_runs(store)[0].session_id is None
        cron.session(name, 1, ("user", "[IMPORTANT: cron] go"))
        build.import_home(store, cron.home)
        (run,) = read_runs(store)
        assert run.session_id == f"hermes:{name}"
        assert outcome_of(store, name)[0] == "failure"


def test_a_scheduled_session_that_the_ledger_forgot_is_still_a_run(cron: Cron) -> None:
    cron.session(f"cron_{JOB}_20261101_000000", 1, ("user", "go"), ("assistant", "ok"))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        (run,) = read_runs(store)
        assert (run.status, run.outcome) == ("unknown", "unknown")


def test_a_status_that_changes_later_is_followed(cron: Cron) -> None:
    cron.session(cron.run(1, "running"), 1, ("user", "go"), ("assistant", "Fine."))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        assert read_runs(store)[0].outcome == "unknown"
        cron.ledger.execute("update executions set status = 'completed'")
        build.import_home(store, cron.home)
        assert read_runs(store)[0].outcome == "success"


def test_logs_and_dumps_show_the_errors_and_latencies_that_the_database_lacks(cron: Cron) -> None:
    name = build.hermes_session(cron.database)
    (cron.home / ".hermes" / "logs").mkdir()
    log = cron.home / ".hermes" / "logs" / "agent.log"
    log.write_text(
        "2026-11-15 00:00:01,100 INFO hermes_cli.plugins: nothing of interest\n"
        f"2026-11-15 00:00:02,200 INFO [{name}] agent.conversation_loop: API call #1:"
        " model=gpt-5.1 provider=openai in=700 out=34 total=734 latency=1.5s cache=200/700 (29%)\n"
        f"2026-11-15 00:00:05,300 WARNING [{name}] agent.conversation_loop: API call failed"
        " (attempt 1/2) error_type=InternalServerError thread=x provider=openai model=gpt-5.1"
        " summary=HTTP 503: Service Unavailable\n"
    )
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        assert store.query("select duration_ms from turn where calls = 2") == [(1500,)]
        assert store.query("select failure, model from turn where calls = 0") == [
            ("overloaded", "gpt-5.1")
        ]
        before = build.dump(store)
        log.rename(log.with_name("agent.log.1"))
        build.import_home(store, cron.home)
        rebuild(store)
        after = build.dump(store)
        assert {**after, "tape": None} == {**before, "tape": None}


def test_a_request_dump_is_why_a_session_failed(cron: Cron) -> None:
    name = "20261115_000000_dead01"
    cron.session(name, 1, ("user", "go"))
    folder = cron.home / ".hermes" / "sessions"
    folder.mkdir()
    error = {"type": "x", "message": "Incorrect API key provided", "status_code": 401}
    dump = {"timestamp": "2026-11-15T00:01:44", "session_id": name, "error": error}
    body = {"model": "m", "messages": ["the whole conversation again"] * 50}
    dump |= {"reason": "non_retryable_client_error", "request": {"body": body}}
    (folder / f"request_dump_{name}_1.json").write_text(json.dumps(dump))
    (folder / f"request_dump_{name}_2.json").write_text("{half a du")
    with build.open_home(cron.home) as store:
        hermes = build.import_home(store, cron.home)[2]
        assert hermes.unreadable == 1
        outcome, evidence = outcome_of(store, name)
        assert outcome == "failure"
        assert evidence[0] == "the last model call failed: auth (Incorrect API key provided)"


@pytest.mark.parametrize(("seconds", "failed"), [(0, 1), (1, 1), (4, 2)])
def test_log_and_dump_of_one_failed_call_a_moment_apart_are_one_call(
    cron: Cron, seconds: int, failed: int
) -> None:
    name = build.hermes_session(cron.database)
    for folder in ("logs", "sessions"):
        (cron.home / ".hermes" / folder).mkdir()
    (cron.home / ".hermes" / "logs" / "agent.log").write_text(
        f"2026-11-15 00:00:05,900 WARNING [{name}] agent.conversation_loop: API call failed"
        " (attempt 1/2) error_type=InternalServerError summary=HTTP 503: Service Unavailable\n"
    )
    error = {"type": "x", "message": "Error code: 503", "status_code": 503}
    time = f"2026-11-15T00:00:0{5 + seconds}.950000"
    dump = {"timestamp": time, "session_id": name, "error": error}
    path = cron.home / ".hermes" / "sessions" / f"request_dump_{name}_1.json"
    path.write_text(json.dumps(dump))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        for _ in range(2):
            rows = store.query("select failure from turn where calls = 0")
            assert rows == [("overloaded",)] * failed
            rebuild(store)


def test_a_job_that_hermes_no_longer_has_is_named_by_its_runs(cron: Cron) -> None:
    name = cron.run(1, "completed")
    cron.session(name, 1, ("user", "go"), ("assistant", "Fine."))
    (cron.home / ".hermes" / "cron" / "jobs.json").write_text('{"jobs": []}')
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        for _ in range(2):
            (run,) = read_runs(store, f"hermes:{JOB}")
            assert (run.job, run.name) == (f"hermes:{JOB}", f"hermes:{JOB}")
            assert run.session_id == f"hermes:{name}"
            assert run.evidence == [
                "the scheduler's ledger says completed",
                "it ended with an answer",
            ]
            assert [job.job for job in read_jobs(store)] == [f"hermes:{JOB}"]
            rebuild(store)


def test_a_run_whose_job_nobody_knows_is_shown_without_a_name(cron: Cron) -> None:
    cron.run(1, "completed")
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        with store.transaction() as database:
            database.execute("delete from job")
        (run,) = read_runs(store)
    assert (run.job, run.name) == (None, "(a deleted job)")


def test_a_job_recorded_after_its_runs_gets_its_name(cron: Cron) -> None:
    cron.run(1, "completed")
    jobs = cron.home / ".hermes" / "cron" / "jobs.json"
    told = jobs.read_text()
    jobs.write_text("[]")
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        jobs.write_text(told)
        build.import_home(store, cron.home)
        assert [run.name for run in read_runs(store)] == ["nightly"]


def test_a_report_knows_the_runs_that_the_ledger_forgot(cron: Cron) -> None:
    name = f"cron_{JOB}_20261101_000000"
    cron.session(name, 1, ("user", "go"), ("assistant", "ok"))
    cron.database.execute(
        "update sessions set input_tokens = 2000, output_tokens = 30, api_call_count = 1"
    )
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        (row,) = report(store, ("job",)).rows
        assert (row.job, row.input_tokens) == (f"hermes:{JOB}", 2000)
        (run,) = read_runs(store)
        assert (run.input_tokens, run.output_tokens) == (2000, 30)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("❌ 2 of 40 sites are down: a, b", "success"),
        ("❌ The backup did not run: no space left", "failure"),
        ("I was unable to complete the report: no network.", "failure"),
    ],
)
def test_what_a_run_reports_on_is_no_failure_of_the_run(
    cron: Cron, answer: str, outcome: str
) -> None:
    cron.session(cron.run(1, "completed"), 1, ("user", "go"), ("assistant", answer))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        assert read_runs(store)[0].outcome == outcome


def test_failing_tests_count_for_a_run_as_for_a_session(cron: Cron) -> None:
    name = cron.run(1, "completed")
    call = {"id": "c1", "function": {"name": "terminal", "arguments": '{"command": "pytest"}'}}
    said = {"output": "1 failed, 2 passed in 0.2s", "exit_code": 1, "error": None}
    cron.session(name, 1, ("user", "run the tests, report"))
    for at, values in enumerate(
        (
            {"role": "assistant", "tool_calls": json.dumps([call])},
            {"role": "tool", "tool_call_id": "c1", "content": json.dumps(said)},
            {"role": "assistant", "content": "One test is red."},
        )
    ):
        when = build.START / 1000 + 110 + at
        build.insert(cron.database, "messages", session_id=name, timestamp=when, **values)
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        (run,) = read_runs(store)
        assert run.outcome == "failure"
        assert "the last test run failed" in run.evidence


def local(seconds: int) -> datetime:
    """The moment so long after the start, as Hermes writes it: in local time."""
    return datetime.fromtimestamp(build.START / 1000 + seconds)  # noqa: DTZ006


TURN_ENDED = (
    "Turn ended: reason=interrupted_during_api_call model=m api_calls=1/90 budget=1/90"
    " tool_turns=0 last_msg_role=user response_len=66"
)
ANSWERED = "API call #1: model=m provider=custom in=1200 out=34 total=1234 latency=1.6s"


@pytest.mark.parametrize("log_first", [True, False])
@pytest.mark.parametrize("text", [TURN_ENDED, ANSWERED])
def test_a_run_that_timed_out_before_its_session_had_a_row_is_one_run(
    cron: Cron, log_first: bool, text: str
) -> None:
    """Only the log has the session's name, which holds the time; only the job has its skill."""
    name = f"cron_{JOB}_{local(102):%Y%m%d_%H%M%S}"
    line = f"{local(190):%Y-%m-%d %H:%M:%S},100 INFO [{name}] agent.conversation_loop: {text}\n"
    error = "TimeoutError: Cron job 'nightly' idle for 10s"
    log = cron.home / ".hermes" / "logs" / "agent.log"
    log.parent.mkdir()
    with build.open_home(cron.home) as store:
        if log_first:
            log.write_text(line)
            build.import_home(store, cron.home)
        cron.run(1, "failed", error)
        log.write_text(line)
        for _ in range(2):
            build.import_home(store, cron.home)
            (run,) = read_runs(store)
            assert (run.session_id, run.outcome) == (f"hermes:{name}", "failure")
            assert (run.cost_usd, run.unpriced_turns) == (None, 1)
            (job,) = read_jobs(store)
            assert (job.runs, job.failures) == (1, 1)
            used = "skill_name, entry, success, job_id, cost_usd"
            assert store.query(f"select {used} from skill_invocations") == [
                ("report", "cron", 0, f"hermes:{JOB}", None)
            ]
            rebuild(store)


def test_a_run_that_timed_out_in_a_call_costs_at_least_what_is_known(cron: Cron) -> None:
    cron.session(cron.run(1, "failed", "TimeoutError: idle for 10s"), 1, ("user", "go"))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        (run,) = read_runs(store)
        assert (run.cost_usd, run.unpriced_turns) == (None, 1)


@pytest.mark.parametrize("ledger_first", [True, False])
def test_a_run_whose_call_was_refused_costs_nothing(cron: Cron, ledger_first: bool) -> None:
    name = f"cron_{JOB}_20261115_000001"
    with build.open_home(cron.home) as store:
        if ledger_first:
            cron.run(1, "failed", "RuntimeError: HTTP 500: Internal server error")
            build.import_home(store, cron.home)
        cron.session(name, 1, ("user", "go"))
        build.import_home(store, cron.home)
        if not ledger_first:
            assert read_runs(store)[0].unpriced_turns == 1
            cron.run(1, "failed", "RuntimeError: HTTP 500: Internal server error")
            build.import_home(store, cron.home)
        (run,) = read_runs(store)
        assert (run.cost_usd, run.unpriced_turns) == (0, 0)
