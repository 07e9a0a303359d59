"""A run's answer: its file in the home folder, and its delivery to a program or a webhook.

A failed delivery is recorded beside the run's outcome and does not change it.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.locks import make_folder, open_private
from relight.names import file_name
from relight.text import hide_secrets
from relight.work.jobs.job import Delivery
from relight.work.sending import find_reason, post_json, run_program

FOLDER = "jobs"
WAIT_SECONDS = 60.0


class RunFacts(Struct, frozen=True, kw_only=True):
    """The facts about a run that are delivered with its answer."""

    job: str
    run_id: str
    outcome: str
    evidence: list[str]
    scheduled_for: str | None
    started_at: str | None
    finished_at: str | None
    model: str | None
    session_id: str | None
    cost_usd: float | None


def find_job_folder(home: Path, job: str) -> Path:
    """The folder of a job's answers, and of its work if it names no other folder."""
    return home / FOLDER / file_name(job)


def write_answer(home: Path, job: str, text: str, *, at: float) -> str:
    """Write an answer to a new file that only its owner can read; return its path in the home."""
    folder = find_job_folder(home, job)
    make_folder(folder)
    moment = f"{time.strftime('%Y-%m-%d-%H-%M-%S', time.gmtime(at))}-{round(at * 1000) % 1000:03}"
    number = 1
    while True:
        name = file_name(moment if number == 1 else f"{moment}-{number}", ending=".md")
        try:
            file = open_private(folder / name, os.O_WRONLY | os.O_EXCL)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(file, "w", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
        return (folder / name).relative_to(home).as_posix()


def format_page(facts: Mapping[str, object], answer: str | None) -> str:
    """The text of an answer's file: the facts of the run, then the answer unchanged."""
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in facts.items()]
    return "\n".join(["---", *lines, "---", "", answer or "", ""])


def format_message(facts: RunFacts, answer: str | None) -> str:
    """The text to deliver: the answer, preceded by the reasons if the run failed."""
    if facts.outcome == "success":
        return answer or ""
    reasons = [f"- {reason}" for reason in facts.evidence]
    head = "\n".join([f"The job {facts.job} failed:", *reasons])
    return f"{head}\n\n{answer}" if answer else head


def deliver(
    to: str,
    text: str,
    *,
    facts: Mapping[str, object],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Delivery:
    """Send a run's text to a program's standard input or to a webhook, with retries.

    A webhook gets the `facts` beside the text, a program in its environment.
    """
    from relight.models.retrying import execute_with_retry

    kind, _, target = to.partition(":")
    tries: list[int] = []

    def send() -> None:
        if kind == "command":
            environment = {**variables, **named}
            run_program(target, text, folder=folder, seconds=WAIT_SECONDS, environment=environment)
        else:
            body = msgspec.json.encode({"text": text, **facts})
            post_json(target, body, seconds=WAIT_SECONDS)

    variables = os.environ if environment is None else environment
    # the answer is too long for a variable
    named = {
        f"RELIGHT_{name.upper()}": str(value)
        for name, value in facts.items()
        if name != "answer" and isinstance(value, str | int | float)
    }
    try:
        execute_with_retry(send, on_attempt=lambda number, *_: tries.append(number), sleep=sleep)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - any error at all
        # the run is over, and its end must be written even if this process has to end
        reason = find_reason(error, to)
        return Delivery(to=hide_secrets(to), status="failed", attempts=len(tries), error=reason)
    return Delivery(to=hide_secrets(to), status="delivered", attempts=len(tries))
