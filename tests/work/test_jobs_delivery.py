"""Delivery: to a file, a program or a webhook, tried again, and told apart from the run."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooks import Hook
from relight.work.jobs.delivery import deliver
from relight.work.jobs.job import Delivery

FACTS = {"job": "house", "outcome": "success", "evidence": ["it ended"], "cost_usd": 0.25}


@pytest.fixture
def hooks() -> Iterator[list[Hook]]:
    made: list[Hook] = []
    yield made
    for hook in made:
        hook.close()


def send(to: str, folder: Path, text: str = "All is well.") -> tuple[Delivery, list[float]]:
    waits: list[float] = []
    done = deliver(to, text, facts=FACTS, folder=folder, sleep=waits.append)
    return done, waits


def test_a_program_reads_it_from_its_standard_input(tmp_path: Path) -> None:
    script = tmp_path / "take it.py"
    script.write_text(
        "import os, sys\n"
        "open('got', 'w').write(sys.argv[1] + os.environ['RELIGHT_JOB'] + sys.stdin.read())"
    )
    to = f"command:{sys.executable} '{script}' one,"
    done, _ = send(to, tmp_path)
    assert done.status == "delivered"
    assert (tmp_path / "got").read_text() == "one,houseAll is well."
    long = "x" * 300_000 + "\0"
    facts = {**FACTS, "answer": long}
    assert deliver(to, long, facts=facts, folder=tmp_path).status == "delivered"
    assert (tmp_path / "got").read_text() == f"one,house{long}"


def test_a_program_that_fails_is_reported_with_its_exit_code(tmp_path: Path) -> None:
    done, waits = send("command:sh -c 'echo nobody home >&2; exit 7'", tmp_path)
    assert (done.status, done.attempts, waits) == ("failed", 1, [])
    assert done.error == "sh ended with exit code 7"
    gone, _ = send("command:/no/such/program", tmp_path)
    assert gone.status == "failed"


def test_a_webhook_gets_the_text_and_what_is_known_of_the_run(
    tmp_path: Path, hooks: list[Hook]
) -> None:
    hooks.append(hook := Hook())
    done, _ = send(hook.to, tmp_path)
    assert hook.got == [{"text": "All is well.", **FACTS}]
    assert (done.status, done.attempts) == ("delivered", 1)
    assert done.to == f"{hook.to.removesuffix('/secret/path')}/…"


def test_a_webhook_that_is_busy_is_tried_again(tmp_path: Path, hooks: list[Hook]) -> None:
    hooks.append(hook := Hook(503, 503))
    done, waits = send(hook.to, tmp_path)
    assert (done.status, done.attempts, len(hook.got)) == ("delivered", 3, 3)
    assert len(waits) == 2
    assert waits[1] > waits[0] > 0


def test_a_webhook_that_refuses_is_not_tried_again(tmp_path: Path, hooks: list[Hook]) -> None:
    hooks.append(hook := Hook(404))
    done, waits = send(hook.to, tmp_path)
    assert (done.status, done.attempts, waits) == ("failed", 1, [])
    assert "404" in (done.error or "")


def test_a_webhook_that_stays_away_is_given_up_in_the_end(tmp_path: Path) -> None:
    done, waits = send("webhook:http://127.0.0.1:9/x", tmp_path)
    assert done.status == "failed"
    assert done.attempts == len(waits) + 1 > 1
    assert done.error
