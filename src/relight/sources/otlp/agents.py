"""Telemetry of agents whose files are read as well: it fills what the files lack.

Model calls are reports, which `store/derive/reports.py` joins with the calls of the files. The
durations of tools are timings; a tool call that no file has is a call itself. None of them says
when the session ended and how: only its files do.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from relight.chat.usage import exclusive_usage
from relight.model import Session, Timing, ToolCall, Turn, Usage
from relight.prices import reported_cost
from relight.sources.events import Called, Event, Reported, Returned, Said, failed_turn
from relight.sources.otlp.lines import ReceivedEvent, decode_received
from relight.sources.otlp.names import read_number, read_table, read_tokens
from relight.sources.otlp.reader import OtlpReader
from relight.sources.reading import ReaderState, StatefulReader, first_line

MOST_MS = 86_400_000
# before the keys of reported tool calls: the agent's record has the same calls under their own
REPORTED = "report:"


class AgentState(ReaderState):
    """The start of the request whose response has not been read yet."""

    asked_at: int | None = None


class AgentReader(StatefulReader[AgentState]):
    """Reads the telemetry of one session."""

    state_type = AgentState

    arrange = staticmethod(OtlpReader.arrange)

    def read_line(self, line: bytes) -> Iterator[Event]:
        event = decode_received(line)
        if not isinstance(event, ReceivedEvent):
            raise ValueError("a program's record is in the file of an agent")
        self.owner = self.owner or event.session
        yield Session(key=event.session, version=event.version)
        match event.name:
            case "user_prompt" | "codex.user_prompt":
                yield from self._read_prompt(event)
            case "assistant_response":
                # the index has the conversation from the agent's files
                if self.is_conversation and (text := _find_text(event, "response")):
                    yield Said(event.session, "assistant", text, _find_text(event, "request_id"))
            case "api_request" | "claude_code.llm_request":
                yield Reported(_read_claude_call(event))
            case "api_error":
                yield Reported(_read_claude_failure(event))
            case "codex.api_request":
                yield from self._read_codex_request(event)
            case "codex.sse_event":
                yield from self._read_codex_call(event)
            case "tool_result" | "codex.tool_result":
                yield from self._read_tool(event)

    def _read_prompt(self, event: ReceivedEvent) -> Iterator[Event]:
        text = _find_text(event, "prompt")
        if text is None or text in read_table().hidden:
            return
        yield Session(key=event.session, title=first_line(text))
        if self.is_conversation:
            yield Said(event.session, "user", text, at=event.at)

    def _read_tool(self, event: ReceivedEvent) -> Iterator[Event]:
        call_id = _find_text(event, "tool_use_id") or _find_text(event, "call_id")
        tool = _find_text(event, "tool_name") or ""
        spent = _find_milliseconds(event, "duration_ms")
        if call_id is None or spent is None:
            return
        yield Timing(
            key=call_id,
            session=event.session,
            tool=tool,
            at=event.at,
            duration_ms=spent,
            call=call_id,
            report=f"{REPORTED}{call_id}",
        )
        success = event.attributes.get("success")
        is_error = str(success).lower() == "false" if success is not None else None
        text = _find_text(event, "output") or _find_text(event, "error")
        call = ToolCall(
            key=f"{REPORTED}{call_id}",
            session=event.session,
            tool=tool,
            at=max(event.at - spent, 0),
            finished_at=event.at,
            arguments=_find_text(event, "tool_input") or _find_text(event, "arguments"),
            result=text,
            is_error=is_error,
            duration_ms=spent,
        )
        if self.is_conversation:
            yield Called(msgspec.structs.replace(call, finished_at=None, result=None), call_id)
            yield Returned(event.session, call_id, event.at, text, is_error)
        else:
            yield call

    def _read_codex_request(self, event: ReceivedEvent) -> Iterator[Event]:
        """A request: its start, or its failure. The tokens come with the end of the response."""
        spent = _find_milliseconds(event, "duration_ms") or 0
        status = read_tokens(event.attributes.get("http.response.status_code"))
        error = _find_text(event, "error.message")
        if error is None and (status is None or status < 400):
            self.state.asked_at = max(event.at - spent, 0)
            return
        yield Reported(_fail(event, error or f"HTTP {status}", status, duration_ms=spent))

    def _read_codex_call(self, event: ReceivedEvent) -> Iterator[Event]:
        attributes = event.attributes
        asked_at, self.state.asked_at = self.state.asked_at, None
        spent = None if asked_at is None else event.at - asked_at
        spent = spent if spent is not None and 0 <= spent <= MOST_MS else None
        if (error := _find_text(event, "error.message")) is not None:
            yield Reported(_fail(event, error, None, duration_ms=spent))
            return
        usage = exclusive_usage(
            read_tokens(attributes.get("input_token_count")),
            read_tokens(attributes.get("cached_token_count")),
            read_tokens(attributes.get("output_token_count")),
            cache_write=read_tokens(attributes.get("cache_write_token_count")),
            reasoning=read_tokens(attributes.get("reasoning_token_count")),
        )
        yield Reported(
            Turn(
                key=f"{event.session}@{event.name_time(event.at)}",
                session=event.session,
                at=event.at if spent is None else event.at - spent,
                model=_find_text(event, "model"),
                usage=usage,
                duration_ms=spent,
                first_token_ms=_find_milliseconds(event, "ttft_ms"),
            )
        )


def _read_claude_call(event: ReceivedEvent) -> Turn:
    """A call in a log record or a span, which is named by its request in both."""
    attributes = event.attributes
    if attributes.get("success") in (False, "false"):
        return _read_claude_failure(event)
    request = _find_text(event, "request_id")
    model = _find_text(event, "model")
    spent = _find_milliseconds(event, "duration_ms")
    written = read_tokens(attributes.get("cache_creation_tokens"))
    usd = read_number(attributes.get("cost_usd"))
    is_log = event.name == "api_request"
    return Turn(
        key=request or f"{event.session}@{event.name_time(event.at)}",
        session=event.session,
        # a log record is written at the end of the call
        at=max(event.at - (spent or 0), 0) if is_log else event.at,
        model=model,
        provider="anthropic" if model and model.startswith("claude") else None,
        usage=Usage(
            input=read_tokens(attributes.get("input_tokens")),
            cache_read=read_tokens(attributes.get("cache_read_tokens")),
            cache_write=written,
            output=read_tokens(attributes.get("output_tokens")),
            cache_write_1h=read_tokens(attributes.get("cache_creation_1h_tokens")),
        ),
        cost=None if usd is None else reported_cost(usd),
        duration_ms=spent,
        first_token_ms=_find_milliseconds(event, "ttft_ms"),
        request=request,
    )


def _read_claude_failure(event: ReceivedEvent) -> Turn:
    status = read_tokens(event.attributes.get("status_code"))
    error = _find_text(event, "error") or _find_text(event, "error.type")
    spent = _find_milliseconds(event, "duration_ms")
    return _fail(event, error or "API error", status, duration_ms=spent)


def _fail(event: ReceivedEvent, text: str, status: int | None, *, duration_ms: int | None) -> Turn:
    """A refused or failed call, keyed by its time: one request may fail several times."""
    at = event.ended_at or event.at
    return failed_turn(
        f"{event.session}!{event.name_time(at)}",
        event.session,
        text,
        at=at,
        status=status,
        model=_find_text(event, "model"),
        duration_ms=duration_ms,
        request=_find_text(event, "request_id"),
    )


def _find_text(event: ReceivedEvent, name: str) -> str | None:
    value: Any = event.attributes.get(name)
    return value if isinstance(value, str) and value else None


def _find_milliseconds(event: ReceivedEvent, name: str) -> int | None:
    number = read_number(event.attributes.get(name))
    return round(number) if number is not None and 0 <= number <= MOST_MS else None
