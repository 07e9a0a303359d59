"""Spool files of telemetry: `telemetry/<source>/<name>.jsonl` in Relight's home.

The files of programs hold lines of many sessions in the order of their arrival. Each line can be
read alone, so batches may come twice and in any order. Calls and their results have the ids that
the model gave them, within their session.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from relight.model import Cost, Ending, Mark, Origin, Piece, Session, Timing, ToolCall, Turn, Usage
from relight.prices import reported_cost
from relight.sources.events import Called, Event, Returned, Said, failed_turn
from relight.sources.files import read_pieces
from relight.sources.otlp.lines import (
    ReceivedCall,
    ReceivedEvent,
    ReceivedTalk,
    ReceivedTool,
    decode_head,
    decode_received,
)
from relight.sources.otlp.messages import AskedTool, TelemetryMessage
from relight.sources.otlp.names import (
    find_text,
    find_usage,
    find_value,
    is_bound,
    read_number,
    read_tokens,
)
from relight.sources.reading import BAD_LINE, Reader, first_line, last_words

NAME = "otlp"
UsageStatus = Literal["final", "partial", "reconciled"]


class OtlpReader(Reader):
    """Reads what programs sent, which needs no state between lines."""

    has_fetch = True

    def __init__(self, origin: Origin, state: bytes = b"") -> None:
        super().__init__(origin)
        self._asked: set[str] = set()
        # the requests and answers that were read: a span and a log record may both have them
        self._seen: set[str | tuple[str, bytes]] = set()
        self._answered: set[str] = set()

    def save(self) -> bytes:
        return b""  # each line stands for itself

    @staticmethod
    def fetch(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
        """The new lines of each session as a piece, since each has its own tape.

        The mark moves on behind the last of them: lines that were recorded before a crash are
        recorded again, which changes nothing.
        """
        for piece in read_pieces(origin, marks.get(""), source=NAME):
            at = piece.before.offset
            starts: dict[str, int] = {}
            lines: dict[str, list[bytes]] = {}
            for line in piece.raw.splitlines(keepends=True):
                session = _find_session(line)
                starts.setdefault(session, at)
                lines.setdefault(session, []).append(line)
                at += len(line)
            for session, found in lines.items():
                yield Piece(
                    source=NAME,
                    raw=b"".join(found),
                    before=piece.before,
                    after=piece.before,
                    start=starts[session],
                )
            # behind the lines, or it would clear what was noted of the first one
            yield msgspec.structs.replace(piece, raw=b"", start=piece.after.offset)

    @staticmethod
    def arrange(lines: Iterable[bytes]) -> Iterable[bytes]:
        """The lines in the order of their time, each once: a batch may have come twice."""
        timed = []
        for line in dict.fromkeys(lines):
            try:
                timed.append((decode_head(line).at, line))
            except BAD_LINE:
                continue  # counted when it was recorded
        return [line for _, line in sorted(timed, key=lambda one: one[0])]

    def read_line(self, line: bytes) -> Iterator[Event]:
        received = decode_received(line)
        self.owner = self.owner or received.session
        match received:
            case ReceivedCall():
                yield from self._read_call(received)
            case ReceivedTool():
                yield from _read_tool(received)
            case ReceivedTalk():
                yield from self._read_talk(received, received.messages, received.answer, turn=None)
            case ReceivedEvent():
                raise ValueError("an agent's record is in the file of programs")

    def _read_call(self, call: ReceivedCall) -> Iterator[Event]:
        turn = _make_turn(call)
        ended_at = call.ended_at or call.at
        yield Session(
            key=call.session,
            project=find_text(call.attributes, "project") or call.service,
            version=call.version,
            exported_from=find_text(call.attributes, "exported_from"),
            model=turn.model,
            started_at=call.at,
            ended_at=ended_at,
        )
        if turn.failure is not None:
            yield from self._read_talk(call, call.messages, None, turn=None)
            yield turn
            yield Session(key=call.session, ended_at=ended_at, ending="api_error")
            return
        yield turn
        yield from self._read_talk(call, call.messages, call.answer, turn=call.key)

    def _read_talk(
        self,
        line: ReceivedCall | ReceivedTalk,
        messages: list[TelemetryMessage],
        answer: TelemetryMessage | None,
        *,
        turn: str | None,
    ) -> Iterator[Event]:
        """The new messages of a request, and its answer."""
        session, at = line.session, line.at
        name = line.key if isinstance(line, ReceivedCall) else line.span
        messages = self._choose_new(line, messages)
        if name in self._answered:
            answer = None
        elif answer is not None:
            self._answered.add(name)
        # a call that succeeded answers its request, also if its exporter sends no answer
        is_answered = turn is not None
        calls: dict[str, AskedTool] = {}
        for message in messages:
            if message.is_answer:  # an earlier one, which its own request reports
                calls |= {call.id: call for call in message.calls}
                continue
            for result in message.results:
                yield from self._read_result(
                    session, at, calls.get(result.id), result.id, result.text
                )
            if message.results and not is_answered:
                yield Session(key=session, started_at=at, ended_at=at, ending="result")
            if message.text and message.role == "user":
                yield Said(session, "user", message.text, at=at)
                yield Session(
                    key=session,
                    title=first_line(message.text),
                    started_at=at,
                    ended_at=at,
                    ending=None if is_answered else "prompt",
                    prompted_at=at,
                )
        if answer is not None:
            yield from self._read_answer(line, answer, turn)

    def _choose_new(
        self, line: ReceivedCall | ReceivedTalk, messages: list[TelemetryMessage]
    ) -> list[TelemetryMessage]:
        """The messages of a request that no line before had; log records have some in each line."""
        if isinstance(line, ReceivedCall):
            found = [] if line.key in self._seen else messages
            if messages:
                self._seen.add(line.key)
            return found
        names = [(line.span, msgspec.json.encode(message)) for message in messages]
        found = [
            message
            for message, name in zip(messages, names, strict=True)
            if message.is_answer or name not in self._seen
        ]
        self._seen.update(names)
        return found

    def _read_result(
        self, session: str, at: int, asked: AskedTool | None, call_id: str, text: str
    ) -> Iterator[Event]:
        key = _name_call(session, call_id)
        yield Returned(session, key, at, text, id=call_id)
        if asked is not None and key not in self._asked:
            # the answer with the call is in an earlier stretch
            yield ToolCall(
                key=key,
                session=session,
                tool=asked.name,
                at=at,
                finished_at=at,
                arguments=asked.arguments or None,
                result=text,
            )

    def _read_answer(
        self, line: ReceivedCall | ReceivedTalk, answer: TelemetryMessage, turn: str | None
    ) -> Iterator[Event]:
        session = line.session
        at = line.ended_at or line.at
        name = turn or getattr(line, "span", None)
        yield Said(session, "assistant", answer.text or None, name, at=at)
        for asked in answer.calls:
            key = _name_call(session, asked.id)
            self._asked.add(key)
            call = ToolCall(
                key=key,
                session=session,
                turn=turn,
                tool=asked.name,
                at=at,
                arguments=asked.arguments or None,
            )
            yield Called(call, asked.id, name)
        ending: Ending = "call" if answer.calls else "answer" if answer.text.strip() else "empty"
        yield Session(
            key=session,
            started_at=at,
            ended_at=at,
            ending=ending,
            answer=None if answer.calls else last_words(answer.text),
        )


def _find_session(line: bytes) -> str:
    """The session of a line; a line that cannot be read is a session without a name."""
    try:
        return decode_head(line).session
    except BAD_LINE:
        return ""


def _name_call(session: str, call_id: str) -> str:
    """The key of a call: servers number the calls of each conversation from the start."""
    return f"{session}:{call_id}"


def _make_turn(call: ReceivedCall) -> Turn:
    attributes = call.attributes
    model = find_text(attributes, "model")
    provider = find_text(attributes, "provider")
    # a span without a length was not measured
    spent = None if call.ended_at is None else call.ended_at - call.at or None
    usage = find_usage(attributes)
    if call.is_failed:
        status = read_tokens(find_value(attributes, "status"))
        turn = failed_turn(
            call.key,
            call.session,
            call.error,
            at=call.at,
            status=status,
            model=model,
            provider=provider,
        )
        # a call that broke off may have used tokens
        known = usage if usage != Usage() else turn.usage
        cost = _find_cost(call)
        return msgspec.structs.replace(turn, usage=known, cost=cost, duration_ms=spent)
    return Turn(
        key=call.key,
        session=call.session,
        at=call.at,
        model=model,
        provider=provider,
        role=find_text(attributes, "role"),
        calls=read_tokens(find_value(attributes, "calls")) or 1,
        usage=usage,
        usage_status=_find_status(call, is_bound(usage, model, provider)),
        cost=_find_cost(call),
        duration_ms=spent,
        first_token_ms=_find_first_token(call),
    )


def _find_status(call: ReceivedCall, is_bound: bool) -> UsageStatus:
    """Return the status of the tokens; another Relight that exported them knows it better."""
    match find_text(call.attributes, "usage_status"):
        case "final":
            return "final"
        case "reconciled":
            return "reconciled"
    return "partial" if is_bound else "final"


def _find_cost(call: ReceivedCall) -> Cost | None:
    included = read_number(find_value(call.attributes, "included_usd"))
    usd = read_number(find_value(call.attributes, "cost_usd"))
    if included is not None:
        return msgspec.structs.replace(reported_cost(included), status="included")
    is_estimated = find_text(call.attributes, "cost_status") == "estimated"
    status: Literal["reported", "estimated"] = "estimated" if is_estimated else "reported"
    return None if usd is None else reported_cost(usd, status=status)


def _find_first_token(call: ReceivedCall) -> int | None:
    seconds = read_number(find_value(call.attributes, "first_token_seconds"))
    if seconds is not None and 0 <= seconds < 86_400:
        return round(seconds * 1000)
    return call.first_token_ms


def _read_tool(tool: ReceivedTool) -> Iterator[Event]:
    """A tool's execution: its duration; without a record of the request also the call itself."""
    session, ended_at = tool.session, tool.ended_at or tool.at
    name = find_text(tool.attributes, "tool") or ""
    call_id = find_text(tool.attributes, "tool_call")
    given = find_text(tool.attributes, "tool_input")
    yield Session(
        key=session,
        project=find_text(tool.attributes, "project") or tool.service,
        started_at=tool.at,
        ended_at=ended_at,
        exported_from=find_text(tool.attributes, "exported_from"),
    )
    if call_id is None and given is not None:
        # exporters that send the words send them in messages too, which have the call
        spent = ended_at - tool.at
        yield Timing(key=tool.key, session=session, tool=name, at=ended_at, duration_ms=spent)
        return
    key = tool.key if call_id is None else _name_call(session, call_id)
    result = find_text(tool.attributes, "tool_output") or (tool.error if tool.is_failed else None)
    yield ToolCall(
        key=key,
        session=session,
        tool=name,
        at=tool.at,
        finished_at=ended_at,
        arguments=given,
        result=result,
        is_error=True if tool.is_failed else None,
        duration_ms=ended_at - tool.at or None,
    )
