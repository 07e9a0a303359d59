"""Sort telemetry that was received: one record for each model call, each with its session.

Several instrumentations of one program report the same call, in one trace or in several. A call is
known by the id of its response; a call below another one is the same call. What was seen lately is
remembered, since a call and the span above it may arrive in different requests.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from relight.sources.otlp.lines import (
    AnyReceived,
    ReceivedCall,
    ReceivedEvent,
    ReceivedTalk,
    ReceivedTool,
)
from relight.sources.otlp.messages import (
    TelemetryMessage,
    find_messages,
    find_new,
    name_conversation,
    read_message,
)
from relight.sources.otlp.names import (
    find_text,
    find_usage,
    is_call,
    is_needed,
    is_tool,
    read_table,
)
from relight.sources.otlp.otlp_requests import OtlpRequest, WireRecord, WireScope
from relight.sources.otlp.records import (
    find_error,
    find_first_token,
    find_resource,
    find_response,
    find_top_call,
    keep_attributes,
    name_process,
    name_service,
    settle_times,
)
from relight.text import clean

# without messages or a name, the calls of a process are one session until it pauses so long
PAUSE_MS = 30 * 60_000
# shorter ids of responses are counters, which begin again, or numbers by chance, as of Ollama:
# they are joined with the time and the tokens
UNIQUE_ID = 20
REMEMBERED = 20_000
# a longer name of a session is cut
MOST_NAME = 500

T = TypeVar("T")
# the sessions whose keys begin so: key, start and end
FindSessions = Callable[[str], Iterable[tuple[str, int, int]]]


class SortedRecords(Struct):
    """The lines of a request by source, and how many records had something wrong."""

    lines: dict[str, list[AnyReceived]] = msgspec.field(default_factory=dict)
    skewed: int = 0
    shortened: int = 0

    def add(self, source: str, line: AnyReceived) -> None:
        self.lines.setdefault(source, []).append(line)


class SeenCall(Struct):
    """A model call in a request, with its records of several instrumentations."""

    key: str
    records: list[tuple[WireScope, WireRecord]]
    # the topmost span of the call
    top: WireRecord


class Recent(Generic[T]):
    """A mapping that forgets what was not used for longest."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._values: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def set(self, key: str, value: T) -> None:
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]


class KnownCall(Struct, frozen=True):
    key: str
    session: str


class Period(Struct, frozen=True):
    """The session of a process without names and messages, and the time that it covers."""

    session: str
    first_at: int
    last_at: int


class Sorter:
    """Gives each record its session and its key; one for all requests of a receiver."""

    def __init__(self, find_sessions: FindSessions = lambda prefix: ()) -> None:
        self._find_sessions = find_sessions
        # calls by the id of their span, of the span above them, and by their key
        self._spans: Recent[KnownCall] = Recent()
        self._above: Recent[KnownCall] = Recent()
        self._sessions: Recent[str] = Recent()
        # the calls whose messages are on their way to a tape
        self._told: Recent[bool] = Recent()
        self._periods: Recent[Period] = Recent()

    def sort(self, request: OtlpRequest, *, is_log: bool, now: int) -> SortedRecords:
        """Return the lines of a request in the order of their time."""
        found = SortedRecords()
        calls: list[tuple[WireScope, WireRecord]] = []
        talks: dict[str, list[tuple[WireScope, WireRecord]]] = {}
        for scope in request.scopes:
            for record in scope.records:
                found.shortened += record.lost_attributes > 0
                found.skewed += settle_times(record, now)
                # log records have no status
                record.is_failed |= is_log and find_text(record.attributes, "error") is not None
                if scope.agent:
                    self._add_event(found, scope, record)
                elif is_call(record.attributes, record.name, is_log=is_log):
                    calls.append((scope, record))
                elif is_log and record.name in read_table().message_events:
                    talks.setdefault(record.span, []).append((scope, record))
                elif not is_log and is_tool(record.attributes):
                    self._add_tool(found, scope, record)
        for call in self._group(calls, request.parents):
            self._add_call(found, call)
        for span, records in talks.items():
            self._add_talk(found, span, records)
        for lines in found.lines.values():
            lines.sort(key=lambda line: line.at)
        return found

    def _add_event(self, found: SortedRecords, scope: WireScope, record: WireRecord) -> None:
        session = find_text(record.attributes, "session")
        source = scope.agent or ""
        if session is None or not is_needed(source, record.name, record.attributes):
            return
        line = ReceivedEvent(
            session=session,
            at=record.start,
            ended_at=record.end if record.end != record.start else None,
            version=find_resource(scope.resource, "service.version"),
            name=record.name,
            attributes=keep_attributes(record.attributes),
            sent=record.sent,
        )
        found.add(source, line)

    def _group(
        self, calls: list[tuple[WireScope, WireRecord]], parents: dict[str, str]
    ) -> Iterator[SeenCall]:
        """Yield each call once, with all its records."""
        by_span = {record.span: record for _, record in calls if record.span}
        below: dict[str, list[tuple[WireScope, WireRecord]]] = {}
        tops: dict[str, WireRecord] = {}
        for number, (scope, record) in enumerate(calls):
            top = find_top_call(record, by_span, parents)
            name = top.span or f"#{number}"
            tops[name] = top
            below.setdefault(name, []).append((scope, record))
        grouped: dict[str, SeenCall] = {}
        for name, records in below.items():
            key = self._find_key(tops[name], records)
            if key in grouped:
                grouped[key].records += records
                if tops[name].parent and not grouped[key].top.parent:
                    grouped[key].top = tops[name]
            else:
                grouped[key] = SeenCall(key, records, tops[name])
        yield from grouped.values()

    def _find_key(self, top: WireRecord, records: list[tuple[WireScope, WireRecord]]) -> str:
        known = self._spans.get(top.parent) if top.parent else None
        known = known or (self._above.get(top.span) if top.span else None)
        known = known or (self._spans.get(top.span) if top.span else None)
        if known:
            return known.key
        # the topmost span first: of several calls below it, it reports the last one
        ordered = [top, *(record for _, record in reversed(records) if record is not top)]
        for record in ordered:
            if response := find_response(record):
                is_unique = len(response) >= UNIQUE_ID
                return response if is_unique else _name_reused(response, record)
        return f"{top.trace}:{top.span}" if top.span else f"{top.trace}@{top.start}"

    def _add_call(self, found: SortedRecords, call: SeenCall) -> None:
        exchanges = [find_messages(record.attributes) for _, record in call.records]
        session = self._find_call_session(call, exchanges)
        known = KnownCall(call.key, session)
        self._sessions.set(call.key, session)
        is_answered = any(not record.is_failed for _, record in call.records)
        for (scope, record), (asked, answered) in zip(call.records, exchanges, strict=True):
            if record.span:
                self._spans.set(record.span, known)
            if record.parent:
                self._above.set(record.parent, known)
            if record.is_failed and is_answered:
                continue  # an attempt below a call that succeeded
            if self._told.get(call.key):
                asked, answered = [], []
            elif asked or answered:
                self._told.set(call.key, True)
            line = ReceivedCall(
                session=session,
                key=call.key,
                at=record.start,
                ended_at=record.end if record.end > record.start else None,
                service=find_resource(scope.resource, "service.name"),
                version=find_resource(scope.resource, "service.version"),
                attributes=keep_attributes(record.attributes),
                is_failed=record.is_failed,
                error=find_error(record),
                first_token_ms=find_first_token(record),
                messages=find_new(asked),
                answer=answered[0] if answered else None,
            )
            found.add("otlp", line)

    def _find_call_session(
        self,
        call: SeenCall,
        exchanges: list[tuple[list[TelemetryMessage], list[TelemetryMessage]]],
    ) -> str:
        """Return a call's session: as it is named, else its trace, else its conversation."""
        for scope, record in call.records:
            if named := _name_session(scope, record):
                return named
        if known := self._sessions.get(call.key):
            return known
        if call.top.parent and call.top.trace:
            return call.top.trace
        scope = call.records[0][0]
        for asked, answered in exchanges:
            if name := name_conversation(name_service(scope), asked, answered):
                return name
        if any(asked for asked, _ in exchanges) and call.top.trace:
            return call.top.trace  # a first request that failed
        return self._find_period(scope, call.top.start)

    def _find_period(self, scope: WireScope, at: int) -> str:
        """Return the session of a process at a time: until a pause, all its calls are one."""
        prefix = f"{name_process(scope)}-"
        known = self._periods.get(prefix)
        if known is None or not _covers(known, at):
            periods = (Period(*one) for one in self._find_sessions(prefix))
            known = next((one for one in periods if _covers(one, at)), None)
        if known is None:
            began = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at / 1000))
            known = Period(f"{prefix}{began}", at, at)
        known = Period(known.session, min(known.first_at, at), max(known.last_at, at))
        self._periods.set(prefix, known)
        return known.session

    def _find_session(self, scope: WireScope, record: WireRecord) -> str:
        if named := _name_session(scope, record):
            return named
        known = self._spans.get(record.span) if record.span else None
        if known:
            return known.session
        if record.parent and record.trace:
            return record.trace
        return self._find_period(scope, record.start)

    def _add_tool(self, found: SortedRecords, scope: WireScope, record: WireRecord) -> None:
        line = ReceivedTool(
            session=self._find_session(scope, record),
            key=f"{record.trace}:{record.span}",
            at=record.start,
            ended_at=record.end,
            service=find_resource(scope.resource, "service.name"),
            attributes=keep_attributes(record.attributes, has_values=True),
            is_failed=record.is_failed,
            error=find_error(record),
        )
        found.add("otlp", line)

    def _add_talk(
        self, found: SortedRecords, span: str, records: list[tuple[WireScope, WireRecord]]
    ) -> None:
        """Add the messages of one call, which are log records beside its span."""
        asked: list[TelemetryMessage] = []
        answer: TelemetryMessage | None = None
        for _, record in sorted(records, key=lambda one: one[1].start):
            role = read_table().message_events[record.name]
            body = record.body if isinstance(record.body, dict) else {}
            if role == "answer":
                message = body.get("message")
                answer = read_message(message if isinstance(message, dict) else body, "assistant")
            else:
                asked.append(read_message(body, role))
        if answer is not None and self._told.get(span):
            return
        scope, first = records[0]
        if answer is not None:
            self._told.set(span, True)
        line = ReceivedTalk(
            session=self._find_session(scope, first),
            span=span,
            at=first.start,
            service=find_resource(scope.resource, "service.name"),
            messages=find_new(asked),
            answer=answer,
        )
        found.add("otlp", line)


def _name_session(scope: WireScope, record: WireRecord) -> str | None:
    """The session that a program names: on one line and short enough for the address of a page."""
    named = find_text(record.attributes, "session") or find_text(scope.resource, "session")
    if named is None or len(named) <= MOST_NAME:
        return named and clean(named)
    digest = blake2b(named.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return f"{clean(named[:MOST_NAME])}…{digest}"


def _name_reused(response: str, record: WireRecord) -> str:
    """The key of a call whose server uses ids again; two calls of a minute differ in tokens."""
    usage = find_usage(record.attributes)
    prompt = sum(one or 0 for one in (usage.input, usage.cache_read, usage.cache_write))
    return f"{response}@{record.start // 60_000}:{prompt}:{usage.output or 0}"


def _covers(period: Period, at: int) -> bool:
    return period.first_at - PAUSE_MS <= at <= period.last_at + PAUSE_MS
