import json
from pathlib import Path
from typing import Any

import pytest

import build
import build_jobs
from relight.failing import count_days, read_failures
from relight.filters import Filter
from relight.jobs.registry import add_job
from relight.jobs.running import run_now
from relight.labels import label_session
from relight.ledger import find_foreign, read_jobs, read_runs
from relight.outcomes import Seen, judge_outcome
from relight.rebuilding import rebuild
from relight.reports import report
from relight.sessions import find_session, read_session
from relight.store import Store

JOB = "aaaaaaaaaaaa"
LEDGER = """
    create table executions (id text primary key, job_id text, source text, status text,
        claimed_at text, started_at text, finished_at text, error text)
"""


def outcome_of(store: Store, name: str) -> tuple[str, list[str]]:
    found = read_session(store, find_session(store, name))
    return found["outcome"], found["evidence"]


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (Seen(ending="answer"), "unknown"),
        (Seen(ending="prompt"), "failure"),
        (Seen(ending="interrupted"), "unknown"),
        (Seen(ending="result"), "unknown"),
        (Seen(ending="api_error", api_failure="overloaded"), "failure"),
        (Seen(ending="answer", api_failure="overloaded"), "unknown"),
        (Seen(ending="answer", last_tests="passed"), "success"),
        (Seen(ending="answer", last_tests="failed"), "failure"),
        (Seen(ending="call", last_tests="passed"), "unknown"),
        (Seen(ending="answer", last_call_label="error"), "unknown"),
        (Seen(told="failure", ending="answer", last_tests="passed"), "failure"),
        (Seen(is_run=True, ledger_status="completed", ending="answer", answer="Fine."), "success"),
        (Seen(is_run=True, ledger_status="completed", script_error="exit 3"), "failure"),
        (Seen(is_run=True, ledger_status="failed", ledger_error="HTTP 500"), "failure"),
        (Seen(is_run=True, ledger_status="running", ending="prompt"), "unknown"),
        (Seen(ending="empty"), "unknown"),
        (Seen(is_run=True, ledger_status="completed", ending="empty", answer="x"), "failure"),
        (Seen(is_run=True, ledger_status="completed", ending="answer", answer=""), "failure"),
        (
            Seen(is_run=True, ledger_status="completed", answer="[SCRIPT_FAILED]: no disk"),
            "failure",
        ),
        (Seen(is_run=True, ledger_status="completed", answer="[SILENT]"), "success"),
        (Seen(label="success", ledger_status="failed", ending="prompt"), "success"),
        (Seen(label="unknown", ledger_status="failed"), "unknown"),
    ],
)
def test_the_strongest_evidence_decides(seen: Seen, outcome: str) -> None:
    assert judge_outcome(seen).outcome == outcome


def test_all_evidence_is_kept_the_deciding_one_first() -> None:
    seen = Seen(is_run=True, script_error="exit 3", ledger_status="completed", ending="answer")
    judged = judge_outcome(seen)
    assert judged.evidence[0] == "the job's script failed: exit 3"
    assert "the scheduler's ledger says completed" in judged.evidence


def test_a_persons_word_wins_and_survives_a_rebuild(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert outcome_of(store, "1111")[0] == "success"  # its tests passed last
        label_session(store, find_session(store, "1111"), "failure", why="wrong invoice")
        assert outcome_of(store, "1111")[0] == "failure"
        rebuild(store)
        outcome, evidence = outcome_of(store, "1111")
        assert (outcome, evidence[0]) == ("failure", "a person said failure: wrong invoice")


def test_tests_behind_a_pipe_are_read_though_the_exit_code_is_fine(tmp_path: Path) -> None:
    lines = [
        build.claude_prompt("go"),
        build.claude_answer("m1", build.tool_use("t1", command="pytest | tail -3"), at=1),
        build.claude_result("t1", "FAILED a.py::b\n1 failed, 2 passed in 0.3s", at=2),
        build.claude_answer("m2", at=3),
    ]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert outcome_of(store, "1111") == (
            "failure",
            ["the last test run failed", "it ended with an answer"],
        )


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (build.claude_prompt("and then?", at=9), "failure"),
        (build.claude_prompt("[Request interrupted by user]", at=9), "unknown"),
        (build.claude_prompt("<command-name>/clear</command-name>", at=9), "success"),
    ],
)
def test_how_a_claude_code_session_ended_tells(
    tmp_path: Path, last: dict[str, Any], outcome: str
) -> None:
    build.write_claude(tmp_path, [*build.claude_session(), last])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert outcome_of(store, "1111")[0] == outcome


def test_an_aborted_codex_turn_is_an_interruption(tmp_path: Path) -> None:
    lines = [
        build.codex_meta(),
        build.codex_line("turn_context", 1, model="gpt-5.2-codex"),
        build.codex_line("event_msg", 2, type="turn_aborted", reason="interrupted"),
    ]
    build.write_codex(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert outcome_of(store, build.CODEX_SESSION) == ("unknown", ["it was interrupted"])


def test_a_chat_file_may_say_the_outcome(tmp_path: Path) -> None:
    from relight.importing import import_all

    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"id": "a", "messages": [], "outcome": "failure"}) + "\n")
    with build.open_home(tmp_path) as store:
        import_all(store, sources=["chat"], folder=path)
        assert outcome_of(store, "chat:a") == ("failure", ["the source says failure"])


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


def test_the_ledger_tells_what_hermes_own_sessions_hide(cron: Cron) -> None:
    ask, answer = ("user", "[IMPORTANT: You are a cron job] go"), ("assistant", "All fine.")
    script = "[IMPORTANT: cron]\n\n## Script Error\nIt failed.\n\n```\nexit 3\nboom\n```\n\ngo"
    cron.session(cron.run(1, "completed"), 1, ask, answer)
    cron.session(cron.run(2, "failed", "HTTP 500"), 2, ask)
    cron.session(cron.run(3, "completed"), 3, ("user", script), answer)
    cron.run(4, "failed", "context too small")
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        runs = read_runs(store, "nightly")
        assert [(run["outcome"], run["session_id"] is None) for run in runs] == [
            ("failure", True),
            ("failure", False),
            ("failure", False),
            ("success", False),
        ]
        assert runs[1]["evidence"][0] == "the job's script failed: exit 3 boom"
        assert runs[0]["evidence"][0].endswith("context too small")
        assert runs[0]["job"] == f"hermes:{JOB}"
        (job,) = read_jobs(store)
        assert (job["runs"], job["failures"], job["last_outcome"]) == (4, 3, "failure")
        (row,) = report(store, ("job",)).rows
        assert (row["job"], row["sessions"]) == (f"hermes:{JOB}", 3)


def test_a_name_means_our_own_job_before_one_of_another_scheduler(cron: Cron) -> None:
    cron.session(cron.run(1, "completed"), 1, ("user", "go"), ("assistant", "Fine."))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        (foreign,) = read_runs(store, "nightly")
        for name in ("nightly", "morning-nightly"):
            add_job(store, build_jobs.make_job(name), now=build.START)
            run_now(store, name, holder="host/1", execute=lambda *_, **__: build_jobs.DONE)
        assert find_foreign(store, "nightly") is None
        # neither what the other scheduler calls so, nor what only ends in it
        assert [run["job"] for run in read_runs(store, "nightly")] == ["nightly"]
        for name in (JOB, f"hermes:{JOB}"):
            assert read_runs(store, name) == [foreign]
            assert (find_foreign(store, name) or {})["job"] == f"hermes:{JOB}"


def test_a_run_is_joined_to_its_session_whoever_is_read_first(cron: Cron) -> None:
    name = cron.run(1, "failed", "HTTP 500")
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        assert read_runs(store)[0]["session_id"] is None
        cron.session(name, 1, ("user", "[IMPORTANT: cron] go"))
        build.import_home(store, cron.home)
        (run,) = read_runs(store)
        assert run["session_id"] == f"hermes:{name}"
        assert outcome_of(store, name)[0] == "failure"


def test_a_scheduled_session_that_the_ledger_forgot_is_still_a_run(cron: Cron) -> None:
    cron.session(f"cron_{JOB}_20261101_000000", 1, ("user", "go"), ("assistant", "ok"))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        (run,) = read_runs(store)
        assert (run["status"], run["outcome"]) == ("unknown", "unknown")


def test_a_status_that_changes_later_is_followed(cron: Cron) -> None:
    cron.session(cron.run(1, "running"), 1, ("user", "go"), ("assistant", "Fine."))
    with build.open_home(cron.home) as store:
        build.import_home(store, cron.home)
        assert read_runs(store)[0]["outcome"] == "unknown"
        cron.ledger.execute("update executions set status = 'completed'")
        build.import_home(store, cron.home)
        assert read_runs(store)[0]["outcome"] == "success"


def test_logs_and_dumps_tell_the_errors_and_latencies_that_the_database_lacks(cron: Cron) -> None:
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


def test_failures_are_counted_by_kind_and_tool_with_an_example(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (failure,) = read_failures(store, Filter())["failures"]
        assert (failure["kind"], failure["tool"], failure["count"]) == ("file_not_found", "Read", 1)
        assert failure["example"] == "File does not exist."
        assert [found[1:] for found in count_days(store, Filter())] == [("file_not_found", 1)]


def test_a_spiral_is_found_with_what_it_burnt(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [build.claude_prompt("go")]
    for number in range(4):
        call = build.tool_use(f"t{number}", command="make deploy")
        lines.append(build.claude_answer(f"m{number}", call, at=number * 2 + 1))
        text = "Exit code 2\nmake: *** No rule to make target 'deploy'."
        lines.append(build.claude_result(f"t{number}", text, at=number * 2 + 2, is_error=True))
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (spiral,) = read_failures(store, Filter())["spirals"]
        assert (spiral["tool"], spiral["kind"], spiral["count"]) == ("Bash", "identical", 4)
        assert spiral["tokens"] == 4 * (10 + 4000 + 300 + 50)
        assert spiral["cost_usd"] == pytest.approx(report(store).total["cost_usd"])
        assert read_session(store, find_session(store, "1111"))["spirals"][0]["count"] == 4
