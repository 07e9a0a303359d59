"""Requests of OTLP over HTTP, in protobuf or JSON, parsed as far as they concern model calls.

Most spans of a program are about something else. Such a span is dropped unread, but for its id and
its parent's: a call may be below another one with such spans between them.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from relight.sources.otlp.names import find_agent, is_ignored, read_table
from relight.sources.otlp.protobuf import expect, read_any, read_pair, read_text, read_wire_fields

Signal: TypeAlias = Literal["traces", "logs", "metrics"]
Attributes: TypeAlias = dict[str, Any]
T = TypeVar("T")
# a record with more is shortened to these and reported
MOST_ATTRIBUTES = 2000
# an attribute of a list, such as llm.input_messages.7.message.role
LISTED = re.compile(rb"\.\d+\.")
MOST_NAME = 100
MOST_EVENTS = 100
MOST_PROBLEMS = 5


class WireRecord(Struct):
    """A span or a log record. Times are nanoseconds, 0 if there is none."""

    trace: str = ""
    span: str = ""
    parent: str = ""
    name: str = ""
    start: int = 0
    end: int = 0
    is_failed: bool = False
    status_text: str = ""
    attributes: Attributes = {}
    body: Any = None
    # the name, the time and the attributes of each event on a span
    events: list[tuple[str, int, Attributes]] = []
    lost_attributes: int = 0
    # milliseconds by the sender's clock, if the record is dated by its arrival
    sent: int | None = None


class WireScope(Struct):
    """The wanted records of one instrumentation in one process."""

    resource: Attributes
    name: str
    agent: str | None
    records: list[WireRecord] = msgspec.field(default_factory=list)


class OtlpRequest(Struct):
    """A request: its scopes, the parent of each span in it, and what could not be read."""

    scopes: list[WireScope] = msgspec.field(default_factory=list)
    parents: dict[str, str] = msgspec.field(default_factory=dict)
    received: int = 0
    rejected: int = 0
    problems: list[str] = msgspec.field(default_factory=list)

    def reject(self, error: Exception) -> None:
        """Count a record that cannot be read; the others of the request are taken."""
        self.rejected += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(str(error)[:200])


def read_protobuf(data: bytes, signal: Signal) -> OtlpRequest:
    """Parse a request in protobuf; raise ValueError if it is not one."""
    request = OtlpRequest()
    read = _read_span if signal == "traces" else _read_log
    for number, _, resource_part in read_wire_fields(data):
        if number != 1:
            continue
        resource: Attributes = {}
        scopes: list[bytes] = []
        for place, _, value in read_wire_fields(expect(resource_part, bytes)):
            if place == 1:
                resource = _read_attributes(expect(value, bytes), 1)
            elif place == 2:
                scopes.append(expect(value, bytes))
        for one in scopes:
            _read_scope(request, one, resource, read=read)
    return request


def _read_scope(
    request: OtlpRequest,
    data: bytes,
    resource: Attributes,
    *,
    read: Callable[[bytes], WireRecord],
) -> None:
    name, raw = "", []
    for number, _, value in read_wire_fields(data):
        if number == 1:
            for place, _, part in read_wire_fields(expect(value, bytes)):
                name = read_text(part) if place == 1 else name
        elif number == 2:
            raw.append(expect(value, bytes))
    take_scope(request, raw, WireScope(resource, name, None), read=read, ids=_read_ids)


def take_scope(
    request: OtlpRequest,
    raw: list[bytes],
    scope: WireScope,
    *,
    read: Callable[[bytes], WireRecord],
    ids: Callable[[bytes], tuple[str, str]],
) -> None:
    """Parse the wanted records of a scope; of the others only ids, or nothing at all."""
    request.received += len(raw)
    scope.agent = find_agent(scope.name)
    if not scope.agent and is_ignored(scope.name):
        return
    find_mark = _marks().search
    for data in raw:
        try:
            if scope.agent or find_mark(data):
                record = read(data)
                scope.records.append(record)
                span, parent = record.span, record.parent
            else:
                span, parent = ids(data)
        except (ValueError, msgspec.DecodeError, RecursionError, OverflowError) as error:
            request.reject(error)
            continue
        if span and parent:
            request.parents[span] = parent
    if scope.records:
        request.scopes.append(scope)


@cache
def _marks() -> re.Pattern[bytes]:
    return re.compile(b"|".join(re.escape(mark.encode()) for mark in read_table().marks))


def _read_ids(data: bytes) -> tuple[str, str]:
    """The ids of a span and of its parent, which stand at its beginning."""
    span = parent = ""
    for number, _, value in read_wire_fields(data):
        if number == 2:
            span = expect(value, bytes).hex()
        elif number == 4:
            parent = expect(value, bytes).hex()
        elif number > 4:
            break
    return span, parent


def _read_attributes(data: bytes, number: int) -> Attributes:
    return dict(
        read_pair(expect(value, bytes))
        for place, _, value in read_wire_fields(data)
        if place == number
    )


def _read_span(data: bytes) -> WireRecord:
    record = WireRecord()
    raw: list[bytes] = []
    for number, _, value in read_wire_fields(data):
        match number:
            case 1:
                record.trace = expect(value, bytes).hex()
            case 2:
                record.span = expect(value, bytes).hex()
            case 4:
                record.parent = expect(value, bytes).hex()
            case 5:
                record.name = read_text(value)
            case 7:
                record.start = expect(value, int)
            case 8:
                record.end = expect(value, int)
            case 9:
                raw.append(expect(value, bytes))
            case 11 if len(record.events) < MOST_EVENTS:
                record.events = [*record.events, _read_event(expect(value, bytes))]
            case 15:
                for place, _, part in read_wire_fields(expect(value, bytes)):
                    if place == 2:
                        record.status_text = read_text(part)
                    elif place == 3:
                        record.is_failed = part == 2
    _give_attributes(record, raw)
    return record


def _give_attributes(record: WireRecord, raw: list[bytes]) -> None:
    record.lost_attributes = max(len(raw) - MOST_ATTRIBUTES, 0)
    chosen = choose_pairs(raw, lambda one: one[:MOST_NAME])
    record.attributes = dict(map(read_pair, chosen))


def choose_pairs(pairs: list[T], name: Callable[[T], bytes]) -> list[T]:
    """The attributes that a record is shortened to: those of a call first, its messages second."""
    if len(pairs) <= MOST_ATTRIBUTES:
        return pairs
    find_mark = _marks().search

    def rank(pair: T) -> int:
        text = name(pair)
        return 2 if not find_mark(text) else 1 if LISTED.search(text) else 0

    return sorted(pairs, key=rank)[:MOST_ATTRIBUTES]


def _read_event(data: bytes) -> tuple[str, int, Attributes]:
    name, at = "", 0
    for number, _, value in read_wire_fields(data):
        if number == 1:
            at = expect(value, int)
        elif number == 2:
            name = read_text(value)
    return name, at, _read_attributes(data, 3)


def _read_log(data: bytes) -> WireRecord:
    record = WireRecord()
    raw: list[bytes] = []
    observed = 0
    for number, _, value in read_wire_fields(data):
        match number:
            case 1:
                record.start = expect(value, int)
            case 5:
                record.body = read_any(expect(value, bytes))
            case 6:
                raw.append(expect(value, bytes))
            case 9:
                record.trace = expect(value, bytes).hex()
            case 10:
                record.span = expect(value, bytes).hex()
            case 11:
                observed = expect(value, int)
            case 12:
                record.name = read_text(value)
    _give_attributes(record, raw)
    return finish_log(record, observed)


def finish_log(record: WireRecord, observed: int) -> WireRecord:
    """A log record is named by its event, and dated by the moment of it or of its arrival."""
    record.start = record.end = record.start or observed
    name = record.attributes.get("event.name")
    record.name = name if isinstance(name, str) and name else record.name
    return record
