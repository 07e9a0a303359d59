"""Facts about single spans and log records: times, ids of responses, errors, the process."""

import re
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from relight.sources.otlp.names import find_text, is_dropped, read_table
from relight.sources.otlp.otlp_requests import WireRecord, WireScope
from relight.times import LATEST_MS

# a record from later than this is dated by its arrival: the sender's clock is wrong
SKEW_MS = 10 * 60_000
EARLIEST_MS = 1_420_070_400_000  # 2015, before there was any telemetry
MOST_DURATION_MS = 7 * 86_400_000
MOST_TEXT = 20_000
MOST_ANCESTORS = 64


def settle_times(record: WireRecord, now: int) -> bool:
    """Turn nanoseconds into milliseconds; True if the record is dated by its arrival instead."""
    start, end = record.start // 1_000_000, record.end // 1_000_000
    spent = max(end - start, 0)
    is_wrong = not EARLIEST_MS <= start <= min(now + SKEW_MS, LATEST_MS - 1)
    spent = spent if spent <= MOST_DURATION_MS else 0
    record.sent = start if is_wrong and start else None
    record.start = now - spent if is_wrong else start
    record.end = record.start + spent
    return is_wrong


def find_top_call(
    record: WireRecord, by_span: dict[str, WireRecord], parents: dict[str, str]
) -> WireRecord:
    """Return the topmost call above a span, or the span itself."""
    top, span = record, record.parent
    for _ in range(MOST_ANCESTORS):
        if not span:
            break
        top = by_span.get(span, top)
        span = parents.get(span, "")
    return top


class OutputId(Struct):
    """The id of a response, if the whole response is the output of a span."""

    id: str = ""


_decode_id = msgspec.json.Decoder(OutputId).decode


def find_response(record: WireRecord) -> str | None:
    """Return the id of a response: an attribute, or inside the output as JSON."""
    if found := find_text(record.attributes, "response"):
        return found
    output = find_text(record.attributes, "output_value")
    if output is None:
        return None
    try:
        if output.startswith("{") and (own := _decode_id(output.encode()).id):
            return own
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass  # any other output
    # frameworks wrap the response of the API in their own
    for pattern in _find_patterns():
        if wrapped := pattern.search(output):
            return wrapped[1]
    return None


@cache
def _find_patterns() -> tuple[re.Pattern[str], ...]:
    starts = (re.escape(one) for one in read_table().response_ids)
    return tuple(re.compile(rf'"id": ?"({one}[\w-]{{8,80}})"') for one in starts)


def find_error(record: WireRecord) -> str:
    """Return the words about a failure: the span's, its exception's, or the type of the error."""
    if not record.is_failed and find_text(record.attributes, "error") is None:
        return ""
    raised = [attributes for name, _, attributes in record.events if name == "exception"]
    texts = [record.status_text, *(find_text(one, "error_text") for one in raised)]
    texts += [find_text(record.attributes, "error_text"), find_text(record.attributes, "error")]
    return next((text for text in texts if text), "the call failed")[:2000]


def find_first_token(record: WireRecord) -> int | None:
    """Return the milliseconds to the first part of a streamed response, if its event says so."""
    times = [at for name, at, _ in record.events if name.endswith(".chunk") and at]
    spent = min(times) // 1_000_000 - record.start if times else -1
    return spent if 0 <= spent <= MOST_DURATION_MS else None


def keep_attributes(attributes: dict[str, Any], *, has_values: bool = False) -> dict[str, Any]:
    """Return the attributes that are stored; a long text is cut."""
    return {
        name: value[:MOST_TEXT] if isinstance(value, str) else value
        for name, value in attributes.items()
        if (has_values and name.endswith(".value")) or not is_dropped(name)
    }


def find_resource(attributes: dict[str, Any], name: str) -> str | None:
    value = attributes.get(name)
    return value if isinstance(value, str) and value else None


def name_service(scope: WireScope) -> str:
    return find_resource(scope.resource, "service.name") or ""


def name_process(scope: WireScope) -> str:
    """Return a name of the process: its id, else its host and number, and its service."""
    names = ("service.instance.id", "host.name", "process.pid")
    parts = [str(scope.resource.get(name) or "") for name in names]
    text = "\0".join([name_service(scope), *(parts[:1] if parts[0] else parts)])
    return blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
