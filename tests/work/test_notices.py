"""Notifications of failed runs: once each, of any scheduler, whatever becomes of them."""

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import build
import build_jobs
import build_runs
import build_skills
from hooks import Hook
from relight.config import read_config
from relight.errors import RelightError
from relight.intake.retention import forget
from relight.model import OutcomeName
from relight.reports.alarms import read_alarms
from relight.reports.doctor import examine
from relight.store import Store, open_store
from relight.store.notices import count_notices
from relight.store.queries.runs import read_runs
from relight.work.jobs.claimed_run import run_now
from relight.work.jobs.job import JobDefinition, JobResult, JobRun
from relight.work.jobs.registry import add_job
from relight.work.notices import (
    MOST_SENT,
    OLDEST_MS,
    WAITS_MS,
    import_and_notify,
    notify,
    notify_failed_runs,
    notify_news,
)
from terminal import Cli

HOUR_MS = 3_600_000
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TAKE = """
import json, os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
if (place / "hold").exists():
    (place / "pid").write_text(str(os.getpid()))
    time.sleep(60)
with (place / "got").open("a") as file:
    file.write(json.dumps(json.load(sys.stdin)) + "\\n")
"""


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()


def set_notify(home: Path, **target: str) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in target.items()]
    text = "\n".join(['timezone = "UTC"', "[notify]", *lines])
    build.write_settings(home / "relight", text)


def open_notified(home: Path, **target: str) -> Store:
    build.open_home(home).close()
    set_notify(home, **target)
    return open_store(home / "relight")


def fail(
    store: Store, name: str, *, evidence: str = "exit code 7", outcome: OutcomeName = "failure"
) -> JobResult:
    """Run a job at once that ends like this, and notify as `relight job run` does."""

    def execute(store: Store, job: JobDefinition, run: JobRun, **given: Any) -> JobResult:
        is_failure = outcome == "failure"
        status: Literal["failed", "completed"] = "failed" if is_failure else "completed"
        return JobResult(status=status, outcome=outcome, evidence=[evidence])

    now = round(time.time() * 1000)
    add_job(store, build_jobs.make_job(name), now=now, replace=True)
    return run_now(store, name, holder="test", execute=execute)[1]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def now_ms() -> int:
    return round(time.time() * 1000)


def write_taker(home: Path) -> str:
    script = home / "take it.py"
    script.write_text(TAKE)
    return shlex.join([sys.executable, str(script), str(home)])


def test_a_failed_run_is_one_line_in_a_file_of_the_owner_alone(tmp_path: Path) -> None:
    with open_notified(tmp_path, file="told/failed.jsonl") as store:
        fail(store, "good", outcome="success")
        fail(store, "bad", evidence=f"the token {SECRET} was refused\x1b[2J")
        notify_failed_runs(store)
        (line,) = read_lines(path := tmp_path / "relight" / "told" / "failed.jsonl")
        (run,) = [run for run in read_runs(store) if run.name == "bad"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (line["kind"], line["key"], line["job"]) == ("run_failed", run.run_id, "bad")
    assert line["outcome"] == "failure"
    assert line["text"].startswith("The job bad failed: the token [redacted:")
    assert SECRET not in json.dumps(line)
    assert "\x1b" not in line["text"]


def test_the_users_own_home_may_be_written_as_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_notified(tmp_path, file="~/failed.jsonl") as store:
        fail(store, "bad")
    assert len(read_lines(tmp_path / "failed.jsonl")) == 1


def test_a_program_gets_the_json_on_its_standard_input_and_no_shell_reads_it(
    tmp_path: Path,
) -> None:
    hostile = "$(touch /tmp/x) `id` \"; rm -rf ~; ' \u202e \n end"
    with open_notified(tmp_path, command=write_taker(tmp_path)) as store:
        fail(store, "bad", evidence=hostile)
    (line,) = read_lines(tmp_path / "got")
    assert line["evidence"] == [hostile.replace("\u202e", "\ufffd")]


def test_a_webhook_gets_the_json_and_is_followed_nowhere_else(tmp_path: Path, hook: Hook) -> None:
    away = Hook(302, leads_to=hook.url)
    try:
        with open_notified(tmp_path, webhook=away.url) as store:
            fail(store, "bad")
            assert [one["job"] for one in away.got] == ["bad"]
            assert hook.got == []
            assert count_notices(store).failed == 1
    finally:
        away.close()


def test_what_fails_is_tried_again_a_few_times_and_shown_by_doctor_without_its_secret(
    tmp_path: Path,
) -> None:
    hook = Hook(*[500] * 9)
    with open_notified(tmp_path, webhook=hook.url) as store:
        result = fail(store, "bad")
        assert result.outcome == "failure"
        for wait in (0, *WAITS_MS, *WAITS_MS):
            notify_failed_runs(store, now=now_ms() + wait + sum(WAITS_MS))
        assert len(hook.got) == 1 + len(WAITS_MS)
        hook.close()
        assert count_notices(store).waiting == 0
        found = examine(store, environment={}, depth="quick")
        assert found.notify.failed == 1
        (advice,) = [one for one in found.advice if "notification" in one]
        assert "500" in advice
        assert "secret" not in advice
        # what is sent after it makes the failure history
        set_notify(tmp_path, file="failed.jsonl")
    with open_store(tmp_path / "relight") as store:
        fail(store, "worse")
        assert not [one for one in examine(store, depth="quick").advice if "notification" in one]


def test_the_rest_waits_if_the_first_cannot_be_sent(tmp_path: Path) -> None:
    hook = Hook(503)
    with build.open_home(tmp_path) as store:
        fail(store, "first")
        fail(store, "second")
    try:
        with open_notified(tmp_path, webhook=hook.url) as store:
            for _ in range(2):
                notify_failed_runs(store)
            assert [one["job"] for one in hook.got] == ["first", "second"]
            notify_failed_runs(store, now=now_ms() + WAITS_MS[0])
            assert [one["job"] for one in hook.got] == ["first", "second", "first"]
    finally:
        hook.close()


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relight.work.notices.SEND_SECONDS", 0.2)
    with open_notified(tmp_path, command="sleep 60") as store:
        assert fail(store, "bad").outcome == "failure"
        assert "sleep" in (count_notices(store).error or "")


def test_failed_runs_of_hermes_are_notified_when_they_are_imported(tmp_path: Path) -> None:
    build.open_hermes(tmp_path)
    build_skills.write_ledger(tmp_path, "failed", "the backup did not run")
    ended = build.START + 60_000
    given: dict[str, Any] = {"environment": {"HOME": str(tmp_path)}, "workers": 1}
    with open_notified(tmp_path, file="failed.jsonl") as store:
        build.import_home(store, tmp_path)
        path = tmp_path / "relight" / "failed.jsonl"
        notify_failed_runs(store, now=ended + 1000)
        (line,) = read_lines(path)
        assert line["job"] == f"hermes:{build_skills.JOB}"
        assert "the backup did not run" in line["text"]
        import_and_notify(store, **given)
        notify_failed_runs(store, now=ended + 2000)
        assert len(read_lines(path)) == 1


def test_a_first_import_of_old_history_notifies_of_nothing(tmp_path: Path) -> None:
    build.open_hermes(tmp_path)
    build_skills.write_ledger(tmp_path, "failed", "the backup did not run")
    ended = build.START + 60_000
    with open_notified(tmp_path, file="failed.jsonl") as store:
        build.import_home(store, tmp_path)
        notify_failed_runs(store, now=ended + 7 * HOUR_MS)
        assert count_notices(store).sent == 0
        notify_failed_runs(store, now=ended + 1000)
        assert count_notices(store).sent == 0


def test_what_failed_since_the_setting_was_made_is_notified_days_later(tmp_path: Path) -> None:
    build.open_hermes(tmp_path)
    ended = build.START + 60_000
    with open_notified(tmp_path, file="failed.jsonl") as store:
        notify_failed_runs(store, now=ended - HOUR_MS)
        build_skills.write_ledger(tmp_path, "failed", "the backup did not run")
        build.import_home(store, tmp_path)
        notify_failed_runs(store, now=ended + OLDEST_MS + HOUR_MS)
        assert count_notices(store).sent == 0
        notify_failed_runs(store, now=ended + 3 * 24 * HOUR_MS)
        assert count_notices(store).sent == 1


def test_a_session_that_the_ledger_lost_is_notified_once_also_if_the_ledger_has_it_later(
    tmp_path: Path,
) -> None:
    hermes = build.open_hermes(tmp_path)
    build_skills.write_ledger(tmp_path, "completed")
    (tmp_path / ".hermes" / "cron" / "executions.db").unlink()
    answer = {"role": "assistant", "content": "There is no disk", "finish_reason": "stop"}
    prompt = {"role": "user", "content": "Back it up"}
    build_skills.write_hermes(hermes, build_skills.RUN, prompt, answer)
    with open_notified(tmp_path, file="failed.jsonl") as store:
        build.import_home(store, tmp_path)
        with store.transaction() as database:  # as evidence of its own would have it
            database.execute("update session set outcome = 'failure'")
        notify_failed_runs(store, now=build.START + 10_000)
        assert count_notices(store).sent == 0, "it may still go on"
        notify_failed_runs(store, now=build.START + HOUR_MS)
        (line,) = read_lines(tmp_path / "relight" / "failed.jsonl")
        assert line["key"] == f"hermes:{build_skills.RUN}"
        build_skills.write_ledger(tmp_path, "failed", "no disk")
        build.import_home(store, tmp_path)
        assert [run.run_id for run in read_runs(store)] == ["hermes:r1"]
        notify_failed_runs(store, now=build.START + HOUR_MS)
        assert count_notices(store).sent == 1


def test_a_run_whose_worker_was_killed_is_notified(tmp_path: Path) -> None:
    with open_notified(tmp_path, file="failed.jsonl") as store:
        build_jobs.add_due(store, 1, prompt="die")
        scheduler = build_jobs.start_scheduler(tmp_path / "relight", "die", once=True)
        assert scheduler.wait(60) == 0
        notify_failed_runs(store)
        (line,) = read_lines(tmp_path / "relight" / "failed.jsonl")
        assert (line["job"], line["outcome"]) == ("job-0", "unknown")
        assert line["text"].startswith("The job job-0 was cut off: the process that ran it")


def test_a_scheduler_notifies_of_its_own_runs(tmp_path: Path) -> None:
    with open_notified(tmp_path, file="failed.jsonl") as store:
        build_jobs.add_due(store, 2, runner="command", command=["false"], model=None)
    build_jobs.start_scheduler(tmp_path / "relight", "work", once=True).wait(60)
    lines = read_lines(tmp_path / "relight" / "failed.jsonl")
    assert sorted(line["job"] for line in lines) == ["job-0", "job-1"]


def test_two_processes_send_each_notification_once(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    with open_store(tmp_path / "relight") as store:
        for number in range(6):
            fail(store, f"bad-{number}")
    set_notify(tmp_path, command=write_taker(tmp_path))
    command = [sys.executable, "-m", "relight", "import"]
    both = [subprocess.Popen(command, env=cli.environment) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    lines = read_lines(tmp_path / "got")
    assert sorted(line["job"] for line in lines) == [f"bad-{number}" for number in range(6)]


def test_what_a_killed_process_was_sending_is_sent_by_another_later(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    with open_store(tmp_path / "relight") as store:
        fail(store, "bad")
    set_notify(tmp_path, command=write_taker(tmp_path))
    (tmp_path / "hold").touch()
    child = subprocess.Popen([sys.executable, "-m", "relight", "import"], env=cli.environment)
    build.wait_for((pid := tmp_path / "pid").exists)
    build.wait_for(pid.read_text)
    child.kill()
    child.wait()
    os.kill(int(pid.read_text()), signal.SIGKILL)
    (tmp_path / "hold").unlink()
    with open_store(tmp_path / "relight") as store:
        notify_failed_runs(store)
        assert read_lines(tmp_path / "got") == [], "its time is not over"
        notify_failed_runs(store, now=now_ms() + WAITS_MS[0])
        notify_failed_runs(store, now=now_ms() + 2 * WAITS_MS[0])
    assert [line["job"] for line in read_lines(tmp_path / "got")] == ["bad"]


def test_one_pass_sends_a_bounded_number(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        for number in range(MOST_SENT + 3):
            fail(store, f"bad-{number}")
    with open_notified(tmp_path, file="failed.jsonl") as store:
        notify_failed_runs(store)
        assert count_notices(store).sent == MOST_SENT
        notify_failed_runs(store)
        assert count_notices(store).sent == MOST_SENT + 3


def test_a_label_of_a_person_is_no_news(tmp_path: Path) -> None:
    with open_notified(tmp_path, file="failed.jsonl") as store:
        build.open_hermes(tmp_path)
        build_skills.write_ledger(tmp_path, "failed", "no")
        build.import_home(store, tmp_path)
        with store.transaction() as database:
            database.execute("update run set session_id = 5")
            database.execute(
                "insert into label (session_id, outcome, labelled_at) values (5, 'success', 0)"
            )
        notify_failed_runs(store, now=build.START + 61_000)
        assert count_notices(store).sent == 0


def test_another_cause_is_notified_once_by_its_key(tmp_path: Path) -> None:
    with open_notified(tmp_path, file="failed.jsonl") as store:
        for period in ("2026-11-15", "2026-11-15", "2026-11-16"):
            notify(store, "budget", f"all day {period}", "Over budget.", {"spent_usd": 2.5})
    lines = read_lines(tmp_path / "relight" / "failed.jsonl")
    assert [line["key"] for line in lines] == ["all day 2026-11-15", "all day 2026-11-16"]
    assert lines[0]["spent_usd"] == 2.5


def test_without_the_setting_nothing_is_remembered(store: Store) -> None:
    fail(store, "bad")
    notify(store, "budget", "all", "Over budget.")
    assert not store.has_rows("notice")


def test_forgetting_a_session_leaves_no_words_of_it_in_what_waits(tmp_path: Path) -> None:
    hook = Hook(500)
    try:
        with open_notified(tmp_path, webhook=hook.url) as store:
            build.write_claude(tmp_path, build.claude_session())
            build.import_home(store, tmp_path)
            ((session,),) = store.query("select id from session")
            fail(store, "bad", evidence="he said xylophone")
            with store.transaction() as database:
                database.execute("update run set session_id = ?", (session,))
            forget(store, session)
            notify_failed_runs(store)
            assert hook.got[-1]["evidence"] == ["its session was forgotten"]
            rows = store.query("select * from notice")
            assert "xylophone" not in str(rows)
    finally:
        hook.close()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('file = "a"\nwebhook = "https://h/t0k3n"', "only one of"),
        ('webhook = "ftp://h/t0k3n"', "must begin with https://"),
        ('command = "say \'t0k3n"', "No closing quotation"),
        ('url = "https://h/t0k3n"', "unknown setting: notify.url"),
        ("webhook = 7", "notify.webhook is not valid"),
    ],
)
def test_a_setting_that_is_not_valid_is_refused_without_showing_it(
    tmp_path: Path, lines: str, problem: str
) -> None:
    build.write_settings(tmp_path, f"[notify]\n{lines}\n")
    with pytest.raises(RelightError, match=problem) as raised:
        read_config(tmp_path)
    assert "t0k3n" not in f"{raised.value.message} {raised.value.hint}"


def test_a_trial_is_sent_and_its_failure_is_an_error_without_the_secret(
    tmp_path: Path, hook: Hook
) -> None:
    cli = Cli(tmp_path)
    done = cli.run("notify", "--test")
    assert (done.returncode, "no [notify] is set" in done.stderr) == (1, True)
    set_notify(tmp_path, webhook=hook.url)
    done = cli.run("notify", "--test")
    assert done.returncode == 0, done.stderr
    assert [one["kind"] for one in hook.got] == ["test"]
    assert "/…" in done.stdout
    assert cli.json("notify") == {
        "sent": 0, "waiting": 0, "failed": 0, "error": None, "to": hook.to[:-11] + "…",
    }  # fmt: skip
    assert "secret" not in json.dumps(cli.json("config"))
    set_notify(tmp_path, webhook="http://127.0.0.1:9/secret/path")
    done = cli.run("notify", "--test")
    assert done.returncode == 1
    assert "secret" not in done.stdout + done.stderr


def test_reading_commands_notify_of_what_they_take_in(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    set_notify(tmp_path, file="failed.jsonl")
    build.open_hermes(tmp_path)
    build_skills.write_ledger(tmp_path, "failed", "no disk")
    with build.connect_as_hermes(tmp_path / ".hermes" / "cron" / "executions.db") as ledger:
        just_now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ledger.execute("update executions set finished_at = ?", (just_now,))
    assert cli.run("report").returncode == 0
    assert len(read_lines(tmp_path / "relight" / "failed.jsonl")) == 1


def test_an_alarm_is_notified_once_and_not_if_it_is_of_old_history(tmp_path: Path) -> None:
    day_ms = 24 * HOUR_MS
    outcomes = [True] * 45 + [False] * 6
    with open_notified(tmp_path, file="told.jsonl") as store:
        now = now_ms()
        for job, last_at in (("new", now), ("old", now - 30 * day_ms)):
            first = last_at - (len(outcomes) - 1) * day_ms
            build_runs.write_runs(store, job, outcomes, first_at=first, every_ms=day_ms)
        notify_news(store)
        notify_news(store)
        open_alarms = read_alarms(store, is_open=True).alarms
    told = [
        one for one in read_lines(tmp_path / "relight" / "told.jsonl") if one["kind"] == "alarm"
    ]
    assert len(open_alarms) == 2
    assert [one["scope"] for one in told] == ["job:new"]
    assert told[0]["key"] == str(told[0]["id"])
    assert told[0]["text"].startswith("Since about ")
    assert "new fails more: " in told[0]["text"]
