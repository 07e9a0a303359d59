"""Requests of OTLP over HTTP in JSON: ids are hexadecimal, numbers of 64 bits numbers or text.

A null stands for a field that is not there.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from relight.sources.otlp.otlp_requests import (
    MOST_ATTRIBUTES,
    MOST_EVENTS,
    MOST_NAME,
    Attributes,
    OtlpRequest,
    Signal,
    WireRecord,
    WireScope,
    choose_pairs,
    finish_log,
    take_scope,
)


class JsonValue(Struct):
    stringValue: str | None = None
    boolValue: bool | None = None
    intValue: int | str | None = None
    doubleValue: float | str | None = None
    arrayValue: "JsonList | None" = None
    kvlistValue: "JsonMap | None" = None
    bytesValue: str | None = None

    def read(self) -> Any:
        if self.stringValue is not None:
            return self.stringValue
        if self.intValue is not None:
            return int(self.intValue)
        if self.arrayValue is not None:
            return [one.read() for one in self.arrayValue.values or ()]
        if self.kvlistValue is not None:
            return _read_pairs(self.kvlistValue.values)
        if self.doubleValue is not None:
            return float(self.doubleValue)
        return self.boolValue if self.boolValue is not None else self.bytesValue


class JsonPair(Struct):
    key: str = ""
    value: JsonValue | None = None


class JsonList(Struct):
    values: list[JsonValue] | None = None


class JsonMap(Struct):
    values: list[JsonPair] | None = None


class JsonStatus(Struct):
    code: int | str | None = 0
    message: str | None = ""


class JsonEvent(Struct):
    timeUnixNano: int | str | None = 0
    name: str | None = ""
    attributes: list[JsonPair] | None = None


class JsonRecord(Struct):
    """A span or a log record: their fields have different names."""

    traceId: str | None = ""
    spanId: str | None = ""
    parentSpanId: str | None = ""
    name: str | None = ""
    eventName: str | None = ""
    startTimeUnixNano: int | str | None = 0
    endTimeUnixNano: int | str | None = 0
    timeUnixNano: int | str | None = 0
    observedTimeUnixNano: int | str | None = 0
    status: JsonStatus | None = None
    attributes: list[JsonPair] | None = None
    events: list[JsonEvent] | None = None
    body: JsonValue | None = None


class JsonIds(Struct):
    spanId: str | None = ""
    parentSpanId: str | None = ""


class JsonScopeName(Struct):
    name: str | None = ""


class JsonScope(Struct):
    scope: JsonScopeName | None = None
    spans: list[Raw] | None = None
    logRecords: list[Raw] | None = None


class JsonAttributes(Struct):
    attributes: list[JsonPair] | None = None


class JsonResource(Struct):
    resource: JsonAttributes | None = None
    scopeSpans: list[JsonScope] | None = None
    scopeLogs: list[JsonScope] | None = None


class JsonRequest(Struct):
    resourceSpans: list[JsonResource] | None = None
    resourceLogs: list[JsonResource] | None = None


_decode_request = msgspec.json.Decoder(JsonRequest).decode
_decode_record = msgspec.json.Decoder(JsonRecord).decode
_decode_ids = msgspec.json.Decoder(JsonIds).decode


def read_json(data: bytes, signal: Signal) -> OtlpRequest:
    """Parse a request in JSON; raise msgspec.DecodeError or ValueError if it is not one."""
    request = OtlpRequest()
    decoded = _decode_request(data)
    is_traces = signal == "traces"
    for one in (decoded.resourceSpans if is_traces else decoded.resourceLogs) or ():
        resource = _read_pairs(one.resource.attributes if one.resource else None)
        for scope in (one.scopeSpans if is_traces else one.scopeLogs) or ():
            records = (scope.spans if is_traces else scope.logRecords) or ()
            raw = [bytes(record) for record in records]
            name = (scope.scope.name or "") if scope.scope else ""
            read = _read_json_span if is_traces else _read_json_log
            take_scope(request, raw, WireScope(resource, name, None), read=read, ids=_read_json_ids)
    return request


def _read_pairs(pairs: list[JsonPair] | None) -> Attributes:
    return {one.key: one.value.read() if one.value else None for one in pairs or ()}


def _read_json_ids(data: bytes) -> tuple[str, str]:
    found = _decode_ids(data)
    return (found.spanId or "").lower(), (found.parentSpanId or "").lower()


def _read_json_record(found: JsonRecord) -> WireRecord:
    pairs = found.attributes or []
    return WireRecord(
        trace=(found.traceId or "").lower(),
        span=(found.spanId or "").lower(),
        parent=(found.parentSpanId or "").lower(),
        attributes=_read_pairs(choose_pairs(pairs, lambda one: one.key[:MOST_NAME].encode())),
        lost_attributes=max(len(pairs) - MOST_ATTRIBUTES, 0),
    )


def _read_json_span(data: bytes) -> WireRecord:
    found = _decode_record(data)
    record = _read_json_record(found)
    record.name = found.name or ""
    record.start, record.end = int(found.startTimeUnixNano or 0), int(found.endTimeUnixNano or 0)
    if found.status is not None:
        record.is_failed = found.status.code in (2, "2", "STATUS_CODE_ERROR")
        record.status_text = found.status.message or ""
    record.events = [
        (one.name or "", int(one.timeUnixNano or 0), _read_pairs(one.attributes))
        for one in (found.events or [])[:MOST_EVENTS]
    ]
    return record


def _read_json_log(data: bytes) -> WireRecord:
    found = _decode_record(data)
    record = _read_json_record(found)
    record.name, record.start = found.eventName or "", int(found.timeUnixNano or 0)
    record.body = found.body.read() if found.body else None
    return finish_log(record, int(found.observedTimeUnixNano or 0))
