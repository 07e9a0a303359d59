"""The output of agents' programs: the answer, the session, the error.

Each has its own format, and some report a failure nowhere else: Hermes exits 0 when the model
could not be reached. `data/recipes.toml` names the reader of each program.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from relight.model import Usage

Kind = TypeVar("Kind", bound=Struct)
_STATUS = re.compile(r"\bHTTP (\d{3})\b")


class Printout(Struct, frozen=True, kw_only=True):
    """A program's report of its work; a field that it does not report is None."""

    answer: str | None = None
    session: str | None = None
    error: str | None = None
    # of the HTTP response that was the error
    status: int | None = None
    # True if a limit of the agent ended it: another try would end the same way
    is_limited: bool = False
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    evidence: list[str] = []


class _HermesUsage(Struct):
    failed: bool | None = None
    completed: bool | None = None
    failure: Any = None
    session_id: str | None = None
    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    estimated_cost_usd: float | None = None
    cost_status: str | None = None


class _ClaudeUsage(Struct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None


class _ClaudeResult(Struct):
    type: str = ""
    subtype: str = ""
    is_error: bool = False
    result: str | None = None
    session_id: str | None = None
    api_error_status: int | None = None
    total_cost_usd: float | None = None
    usage: _ClaudeUsage | None = None
    modelUsage: dict[str, Any] | None = None


class _CodexItem(Struct):
    type: str = ""
    text: str | None = None


class _CodexError(Struct):
    message: str | None = None


class _CodexEvent(Struct):
    type: str = ""
    thread_id: str | None = None
    item: _CodexItem | None = None
    error: _CodexError | None = None


def read_hermes(output: str, usage_file: Path) -> Printout:
    """`hermes -z --usage-file`: the answer is printed, the file has the outcome."""
    answer = output.strip()
    try:
        found = _decode(usage_file.read_bytes(), _HermesUsage)
    except OSError:
        found = None
    if found is None:
        return Printout(answer=answer, evidence=["it left no usage file"])
    error = status = None
    if found.failed:
        error = str(found.failure or answer.partition("\n")[0] or "Hermes gives no reason")
        status = _STATUS.search(error)
    elif found.completed is False:
        error = "Hermes says that it was not completed"
    usage = Usage(
        input=found.input_tokens,
        cache_read=found.cache_read_tokens,
        cache_write=found.cache_write_tokens,
        output=found.output_tokens,
    )
    return Printout(
        answer=answer,
        session=found.session_id,
        error=error,
        status=int(status[1]) if status else None,
        is_limited=error is not None and not found.failed,
        model=found.model,
        provider=found.provider,
        usage=usage if usage != Usage() else None,
        # a cost of 0.0 is what Hermes writes when it knows no price
        cost_usd=found.estimated_cost_usd if found.cost_status != "unknown" else None,
        evidence=[f"the usage file says {'failed' if found.failed else 'completed'}"],
    )


def read_claude(output: str, _: Path) -> Printout:
    """`claude -p --output-format json`: one object at the end, also of a stream of them."""
    objects = reversed(_find_all(output, _ClaudeResult))
    found = next((one for one in objects if one.type == "result"), None)
    if found is None:
        return Printout(answer=output.strip())
    answer = (found.result or "").strip()
    error = None
    if found.is_error or found.subtype.startswith("error"):
        error = answer.partition("\n")[0] or found.subtype or "Claude Code gives no reason"
    usage = found.usage or _ClaudeUsage()
    return Printout(
        answer=answer,
        session=found.session_id,
        error=error,
        status=found.api_error_status if error else None,
        is_limited=found.subtype.startswith("error_max"),
        model=next(iter(found.modelUsage or ()), None),
        usage=Usage(
            input=usage.input_tokens,
            cache_read=usage.cache_read_input_tokens,
            cache_write=usage.cache_creation_input_tokens,
            output=usage.output_tokens,
        )
        if found.usage
        else None,
        cost_usd=found.total_cost_usd,
        evidence=[] if error else [f"Claude Code says {found.subtype or 'no error'}"],
    )


def read_codex(output: str, _: Path) -> Printout:
    """`codex exec --json`: events, one a line; errors it recovered from are among them."""
    events = _find_all(output, _CodexEvent)
    if not any(event.type == "thread.started" for event in events):
        return Printout(answer=output.strip())
    session = error = None
    answer = ""
    evidence: list[str] = []
    for event in events:
        match event.type:
            case "thread.started":
                session = event.thread_id
            case "item.completed" if event.item and event.item.type == "agent_message":
                answer = (event.item.text or "").strip()
            case "turn.completed":
                error, evidence = None, ["Codex says that the turn was completed"]
            case "turn.failed":
                message = event.error.message if event.error else None
                error, evidence = message or "Codex gives no reason", []
    return Printout(answer=answer, session=session, error=error, evidence=evidence)


def read_plain(output: str, _: Path) -> Printout:
    """The output of any other program is its answer."""
    return Printout(answer=output.strip())


READERS: dict[str, Callable[[str, Path], Printout]] = {
    "hermes": read_hermes,
    "claude": read_claude,
    "codex": read_codex,
    "plain": read_plain,
}


def _find_all(output: str, kind: type[Kind]) -> list[Kind]:
    """The JSON objects that a program printed: one, a list of them, or one a line."""
    text = output.strip()
    for shape in (kind, list[kind]):  # type: ignore[valid-type]
        whole = _decode(text.encode("utf-8", "replace"), shape)
        if whole is not None:
            return whole if isinstance(whole, list) else [whole]
    lines = (line.strip().encode("utf-8", "replace") for line in text.splitlines())
    found = (_decode(line, kind) for line in lines if line.startswith(b"{"))
    return [one for one in found if one is not None]


def _decode(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
