"""Sending a text to a program of the user's or to a webhook, within a time limit."""

import asyncio
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from subprocess import CalledProcessError, TimeoutExpired

from relight.errors import RelightError
from relight.text import hide_secrets
from relight.work.processes import run_process

RESPONSE_BYTES = 64 << 10


def run_program(
    command: str,
    text: str,
    *,
    folder: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a program without a shell, with the text on its standard input; raise if it fails."""
    words = shlex.split(command)
    if words[0].startswith("~"):
        words[0] = str(Path(words[0]).expanduser())
    ended = run_process(
        words,
        folder=folder,
        seconds=seconds,
        environment=os.environ if environment is None else environment,
        standard_input=text,
        output_bytes=RESPONSE_BYTES,
    )
    if ended.timed_out:
        raise TimeoutExpired(words[0], seconds)
    if ended.exit_code:
        raise CalledProcessError(
            ended.exit_code, words[0], output=ended.output, stderr=ended.errors
        )


def post_json(url: str, body: bytes, *, seconds: float) -> None:
    """Post JSON; raise unless the status is one of success. No redirect is followed."""
    from relight.models.background import find_client, run_coroutine
    from relight.models.endpoints import StatusError

    async def post() -> None:
        headers = {"Content-Type": "application/json"}
        async with asyncio.timeout(seconds):
            sent = find_client().stream(
                "POST", url, headers=headers, content=body, follow_redirects=False
            )
            async with sent as response:
                received = b""
                async for piece in response.aiter_bytes():
                    received = (received + piece)[:RESPONSE_BYTES]
        if not 200 <= response.status_code < 300:
            raise StatusError(
                response.status_code, received.decode("utf-8", "replace"), dict(response.headers)
            )

    run_coroutine(post())


def find_reason(error: BaseException, to: str) -> str:
    """Return why a text could not be sent to this target, without the target's secrets."""
    from relight.judging.failures import classify_error

    if isinstance(error, RelightError):
        reason = error.message
    elif isinstance(error, CalledProcessError):
        reason = f"{error.cmd} ended with exit code {error.returncode}"
    elif isinstance(error, Exception):
        reason = classify_error(error).reason
    else:
        reason = "it was interrupted"
    kind, _, target = to.partition(":")
    if kind == "webhook":
        place = target.partition("://")[2].partition("/")[2]
        reason = reason.replace(target, hide_secrets(to).partition(":")[2])
        reason = reason.replace(place, "…") if place else reason
    return reason
