"""An answer on its way to the person: to a program's standard input, or to a webhook.

That it does not arrive is told apart from how the run went.
"""

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired
from typing import Any

import msgspec

from relight.errors import RelightError
from relight.judging.failures import classify_error
from relight.models import background
from relight.models.background import find_client
from relight.models.responses import StatusError
from relight.models.retrying import execute_with_retry
from relight.work.jobs.job import Delivery
from relight.work.processes import run_process

WAIT_SECONDS = 60.0
ANSWER_BYTES = 64 << 10


def deliver(
    to: str,
    text: str,
    *,
    facts: Mapping[str, Any],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Delivery:
    """Send a run's text to where the job says, tried again where that can help.

    `facts` tell of the run: a webhook gets them beside the text, a program in its environment.
    """
    kind, _, target = to.partition(":")
    count = 0

    def on_attempt(attempt: int, *_: object) -> None:
        nonlocal count
        count = attempt

    def send() -> None:
        if kind == "command":
            _run_program(target, text, folder, {**variables, **_name_facts(facts)})
        else:
            background.run_coroutine(_post(target, msgspec.json.encode({"text": text, **facts})))

    variables = os.environ if environment is None else environment
    try:
        execute_with_retry(send, on_attempt=on_attempt, sleep=sleep)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is
        # the run is over, and must still be written down where this process is told to end
        return Delivery(to=name_place(to), status="failed", attempts=count, error=_say(error))
    return Delivery(to=name_place(to), status="delivered", attempts=count)


def _name_facts(facts: Mapping[str, Any]) -> dict[str, str]:
    """What is known of a run as variables; the answer is told, and too long for one."""
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
        told=text,
        output_bytes=ANSWER_BYTES,
    )
    if ended.timed_out:
        raise TimeoutExpired(words[0], WAIT_SECONDS)
    if ended.exit_code:
        raise CalledProcessError(
            ended.exit_code, words[0], output=ended.output, stderr=ended.errors
        )


async def _post(url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with asyncio.timeout(WAIT_SECONDS):
        sent = find_client().stream("POST", url, headers=headers, content=body)
        async with sent as response:
            said = b""
            async for piece in response.aiter_bytes():
                said = (said + piece)[:ANSWER_BYTES]
    if not 200 <= response.status_code < 300:
        raise StatusError(
            response.status_code, said.decode("utf-8", "replace"), dict(response.headers)
        )


def _say(error: BaseException) -> str:
    if isinstance(error, RelightError):
        return error.message
    if not isinstance(error, Exception):
        return "it was interrupted"
    return classify_error(error).reason


def name_place(to: str) -> str:
    """Where it went, without what only the person should know: webhooks have secrets in them.

    >>> name_place("webhook:https://hooks.example.com/T0/B0/s3cr3t")
    'webhook:https://hooks.example.com/…'
    """
    kind, _, target = to.partition(":")
    if kind != "webhook":
        return to
    scheme, _, rest = target.partition("://")
    host, slash, _ = rest.partition("/")
    return f"{kind}:{scheme}://{host.rpartition('@')[2]}{'/…' if slash else ''}"
