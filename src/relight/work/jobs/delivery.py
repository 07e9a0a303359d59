"""A run's answer: its file in the home folder, and its delivery to a program or a webhook.

A failed delivery is recorded beside the run's outcome and does not change it.
"""

import asyncio
import json
import os
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.locks import make_folder, open_private
from relight.names import file_name
from relight.work.jobs.job import Delivery
from relight.work.processes import run_process

FOLDER = "jobs"
WAIT_SECONDS = 60.0
RESPONSE_BYTES = 64 << 10


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
    count = 0

    def on_attempt(attempt: int, *_: object) -> None:
        nonlocal count
        count = attempt

    def send() -> None:
        if kind == "command":
            _run_program(target, text, folder, {**variables, **_name_facts(facts)})
        else:
            _post(target, msgspec.json.encode({"text": text, **facts}))

    variables = os.environ if environment is None else environment
    try:
        execute_with_retry(send, on_attempt=on_attempt, sleep=sleep)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - any error at all
        # the run is over, and its end must be written even if this process has to end
        reason = _find_reason(error)
        return Delivery(to=hide_secrets(to), status="failed", attempts=count, error=reason)
    return Delivery(to=hide_secrets(to), status="delivered", attempts=count)


def _name_facts(facts: Mapping[str, object]) -> dict[str, str]:
    """The facts of a run as environment variables; the answer is too long for one."""
    return {
        f"RELIGHT_{name.upper()}": str(value)
        for name, value in facts.items()
        if name != "answer" and isinstance(value, str | int | float)
    }


def _run_program(target: str, text: str, folder: Path, environment: Mapping[str, str]) -> None:
    words = shlex.split(target)
    ended = run_process(
        words,
        folder=folder,
        seconds=WAIT_SECONDS,
        environment=environment,
        standard_input=text,
        output_bytes=RESPONSE_BYTES,
    )
    if ended.timed_out:
        raise TimeoutExpired(words[0], WAIT_SECONDS)
    if ended.exit_code:
        raise CalledProcessError(
            ended.exit_code, words[0], output=ended.output, stderr=ended.errors
        )


def _post(url: str, body: bytes) -> None:
    from relight.models.background import find_client, run_coroutine
    from relight.models.endpoints import StatusError

    async def post() -> None:
        headers = {"Content-Type": "application/json"}
        async with asyncio.timeout(WAIT_SECONDS):
            sent = find_client().stream("POST", url, headers=headers, content=body)
            async with sent as response:
                received = b""
                async for piece in response.aiter_bytes():
                    received = (received + piece)[:RESPONSE_BYTES]
        if not 200 <= response.status_code < 300:
            raise StatusError(
                response.status_code, received.decode("utf-8", "replace"), dict(response.headers)
            )

    run_coroutine(post())


def _find_reason(error: BaseException) -> str:
    from relight.judging.failures import classify_error

    if isinstance(error, RelightError):
        return error.message
    if not isinstance(error, Exception):
        return "it was interrupted"
    return classify_error(error).reason


def hide_secrets(to: str) -> str:
    """A delivery's target without the path of a webhook, which usually holds a secret.

    >>> hide_secrets("webhook:https://hooks.example.com/T0/B0/s3cr3t")
    'webhook:https://hooks.example.com/…'
    """
    kind, _, target = to.partition(":")
    if kind != "webhook":
        return to
    scheme, _, rest = target.partition("://")
    host, slash, _ = rest.partition("/")
    return f"{kind}:{scheme}://{host.rpartition('@')[2]}{'/…' if slash else ''}"
