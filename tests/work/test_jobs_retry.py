"""One budget of attempts for a run: what an endpoint is asked, and how long it is left alone."""

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

import build
from build_runs import environment, make_job, write_agent, write_program
from relight.store import Store, open_store
from relight.store.queries.runs import RunReport, read_runs
from relight.times import read_time
from relight.work.jobs.claimed_run import run_now
from relight.work.jobs.job import JobDefinition, JobResult, JobRun
from relight.work.jobs.registry import add_job
from relight.work.jobs.run import execute_run
from relight.work.jobs.slots import claim_due
from scripted import Reply, Server, call
from terminal import run_relight

BODY = b'{"error": {"message": "scripted"}}'
MODEL = {"id": "m", "context_length": 131072}


def fail(status: int, **headers: str) -> Reply:
    return Reply(
        status=status, body=BODY, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def run_job(store: Store, job: JobDefinition, *, home: Path) -> tuple[JobResult, list[float]]:
    """Run a job now; the waits of its attempts are noted, and take no time."""
    add_job(store, job, now=round(time.time() * 1000), replace=True)
    waits: list[float] = []

    def do(store: Store, job: JobDefinition, run: JobRun, **given: Any) -> JobResult:
        own = environment(home)
        return execute_run(store, job, run, environment=own, sleep=waits.append, **given)

    return run_now(store, job.name, holder="test", execute=do)[1], waits


def run_chat_job(
    home: Path, server: Server, store: Store, **fields: Any
) -> tuple[JobResult, list[float]]:
    return run_job(store, make_job(model="m", base_url=server.base_url, **fields), home=home)


def only(store: Store) -> RunReport:
    (run,) = read_runs(store)
    return run


@pytest.mark.parametrize(
    ("reply", "kind", "requests", "waits"),
    [
        (fail(429, Retry_After="600"), "rate_limit", 3, [600, 600]),
        (fail(429, Retry_After="1"), "rate_limit", 3, [10, 20]),
        (fail(500), "server_error", 3, [10, 20]),
        (fail(401), "auth", 1, []),
    ],
)
def test_an_endpoint_gets_no_more_requests_than_a_run_has_attempts(
    tmp_path: Path,
    reply: Reply,
    kind: str,
    requests: int,
    waits: list[float],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with build.open_home(tmp_path) as store, Server(lambda _: reply, models=[MODEL]) as server:
        result, waited = run_chat_job(tmp_path, server, store)
        assert len(server.chats) == requests
        # a random part of up to half is added, so that many do not come back together
        assert len(waited) == len(waits)
        assert all(wait <= own <= 1.5 * wait for wait, own in zip(waits, waited, strict=True))
        assert (result.outcome, result.failure_kind) == ("failure", kind)
        notes = [line for line in result.evidence if "tried again after" in line]
        assert len(notes) == len(waits)
        # a person who waits sees why
        assert [line for line in caplog.messages if "tried again after" in line] == notes


def test_a_refused_connection_is_tried_as_often(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    with build.open_home(tmp_path) as store:
        job = make_job(model="m", base_url=address, context_tokens=131072, max_attempts=4)
        result, waited = run_job(store, job, home=tmp_path)
        assert (result.failure_kind, len(waited)) == ("connection", 3)
        assert waited == sorted(waited)


def test_a_wait_longer_than_the_run_ends_it_with_the_time(tmp_path: Path) -> None:
    reply = fail(429, Retry_After="600")
    with build.open_home(tmp_path) as store, Server(lambda _: reply, models=[MODEL]) as server:
        before = time.time() * 1000
        result, waited = run_chat_job(tmp_path, server, store, timeout_seconds=300.0)
        assert (len(server.chats), waited) == (1, [])
        assert result.retry_at is not None
        assert before + 599_000 < result.retry_at < time.time() * 1000 + 601_000
        assert "HTTP 429: scripted; try again at " in result.evidence[0]
        assert (only(store).failure_kind, read_time(only(store).retry_at)) == (
            "rate_limit",
            result.retry_at,
        )


def test_the_time_to_try_again_is_in_the_stores_zone(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    home.mkdir()
    build.write_settings(home, 'timezone = "Asia/Tokyo"\n')
    reply = fail(429, Retry_After="600")
    with open_store(home) as store, Server(lambda _: reply, models=[MODEL]) as server:
        result, _ = run_chat_job(tmp_path, server, store, timeout_seconds=300.0)
        assert result.evidence[0].endswith(" JST")


def test_an_answer_renews_the_attempts(tmp_path: Path) -> None:
    """A long run outlives many short outages; only failures in a row count."""
    turns = iter([False, True] * 5 + [False, True])

    def answer(request: dict[str, Any]) -> Reply:
        if not next(turns):
            return fail(500)
        done = sum(message["role"] == "tool" for message in request["messages"])
        if done >= 5:
            return Reply("Done.")
        return Reply(None, [call("read_file", f"call_{done}", path="notes.txt")])

    with build.open_home(tmp_path) as store, Server(answer, models=[MODEL]) as server:
        (tmp_path / "notes.txt").write_text("All is well.")
        own = {"max_attempts": 2, "workdir": str(tmp_path)}
        result, waited = run_chat_job(tmp_path, server, store, **own)
        assert (result.outcome, len(server.chats), len(waited)) == ("success", 12, 6)
        assert all(wait <= 15 for wait in waited)


def test_a_dead_adviser_is_asked_once_a_turn_when_its_attempts_are_used_up(tmp_path: Path) -> None:
    def act(request: dict[str, Any]) -> Reply:
        if any(message["role"] == "tool" for message in request["messages"]):
            return Reply("Done.")
        return Reply(None, [call("read_file", path="nothing")])

    (tmp_path / "relight").mkdir()
    with (
        Server(lambda _: fail(500), models=[MODEL]) as dead,
        Server(act, models=[MODEL]) as alive,
    ):
        preset = (
            f'references = [{{ model = "m", base_url = "{dead.base_url}" }}]\n'
            f'aggregator = {{ model = "m", base_url = "{alive.base_url}" }}\n'
        )
        text = f'timezone = "UTC"\n[moa.presets.review]\n{preset}'
        build.write_settings(tmp_path / "relight", text)
        with open_store(tmp_path / "relight") as store:
            result, waited = run_job(store, make_job(model="moa:review"), home=tmp_path)
        assert (result.outcome, len(alive.chats)) == ("success", 2)
        # three in the first turn, one in the second
        assert (len(dead.chats), len(waited)) == (4, 2)


def run_script_job(
    home: Path, store: Store, text: str, **fields: Any
) -> tuple[JobResult, list[float]]:
    program = write_program(
        home, "mine", f"#!/bin/sh\necho x >> {home}/asked\necho '{text}' >&2\nexit 1\n"
    )
    return run_job(store, make_job(runner="command", command=[str(program)], **fields), home=home)


def test_a_programs_words_say_how_long_to_wait(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        text = "HTTP 429: slow down, try again in 600 seconds"
        result, waited = run_script_job(tmp_path, store, text)
        assert (result.failure_kind, result.attempts, len(waited)) == ("rate_limit", 3, 2)
        assert min(waited) >= 600
        assert len((tmp_path / "asked").read_text().split()) == 3


def test_a_used_up_plan_is_not_tried_before_it_is_renewed(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(time.time() + 7200))
        text = f"usage limit reached, try again at {at} UTC"
        result, waited = run_script_job(tmp_path, store, text, schedule="every 1h")
        assert (result.failure_kind, result.attempts, waited) == ("usage_limit", 1, [])
        assert result.retry_at is not None
        assert result.retry_at > (time.time() + 7000) * 1000
        # the slot before that time is skipped, and the one after it is run
        hour = 3_600_000
        now = round(time.time() * 1000)
        assert claim_due(store, "test", now=now + hour + 1000, limit=9) == []
        skipped = read_runs(store)[0]
        assert skipped.status == "skipped"
        assert (skipped.note or "").startswith(
            "skipped: the last run ended with the request to try"
        )
        assert len(claim_due(store, "test", now=now + 3 * hour, limit=9)) == 1


def test_a_budget_that_an_attempt_used_up_is_not_spent_again(tmp_path: Path) -> None:
    job = make_job(
        runner="command",
        command=[str(write_agent(tmp_path)), "-p"],
        prompt="<speaking> <broken> Look.",
        budget_usd=0.001,
    )
    with build.open_home(tmp_path) as store:
        result, _ = run_job(store, job, home=tmp_path)
        assert (result.attempts, result.failure_kind) == (2, "budget")
        assert result.evidence[0] == "its budget of $0.0010 was used up by the attempts before"


def test_job_show_and_failures_say_whether_another_run_can_help(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    build.open_home(tmp_path).close()
    with Server(lambda _: fail(401), models=[MODEL]) as server, open_store(home) as store:
        job = make_job(name="denied", model="m", base_url=server.base_url, schedule="daily 07:00")
        run_job(store, job, home=tmp_path)
    reply = fail(429, Retry_After="90000")
    with Server(lambda _: reply, models=[MODEL]) as server, open_store(home) as store:
        job = make_job(name="limited", model="m", base_url=server.base_url, schedule="every 1h")
        run_job(store, job, home=tmp_path)

    def ask(*words: str) -> Any:
        done = run_relight(os.environ, "--home", str(home), *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = json.loads(ask("job", "show", "denied", "--json"))
    retry = shown["retry"]
    assert (retry["category"], retry["can_retry"]) == ("permanent", False)
    assert (retry["kind"], retry["next_run_at"]) == ("auth", shown["next_run_at"])
    assert "will fail too until the key or login is mended" in ask("job", "show", "denied")
    shown = json.loads(ask("job", "show", "limited", "--json"))
    limited = shown["retry"]
    assert limited["can_retry"]
    # no slot before that time runs, so none is named as the next
    assert limited["retry_at"] <= limited["next_run_at"] == shown["next_times"][0]
    jobs = {job["job"]: job for job in json.loads(ask("job", "list", "--json"))["jobs"]}
    assert jobs["limited"]["next_run_at"] == shown["next_run_at"] == limited["next_run_at"]
    assert "the last run failed: temporary: tried again at" in ask("job", "show", "limited")

    text = " ".join(ask("failures").split())
    assert "denied: permanent: the next run at" in text
    assert "limited: temporary: tried again at" in text
    newest = {one["job"]: one for one in json.loads(ask("failures", "--json"))["runs"]}
    assert [newest[name]["kind"] for name in ("denied", "limited")] == ["auth", "rate_limit"]
    assert [newest[name]["can_retry"] for name in ("denied", "limited")] == [False, True]
    assert newest["limited"]["retry_at"] == limited["retry_at"]
    assert newest["limited"]["next_run_at"] == limited["next_run_at"]
