"""Writes requests of OTLP over HTTP in protobuf, which `otlp_requests` parses."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from relight.sources.otlp.otlp_requests import WireRecord
from relight.sources.otlp.protobuf import (
    write_bytes,
    write_fixed,
    write_number,
    write_pair,
    write_text,
)

INTERNAL, CLIENT = 1, 3
FAILED = 2
AttributeValue = str | bool | int | float


class SentSpan(WireRecord):
    """A span to send, and where it ran: in this process, or as a request to another."""

    kind: int = INTERNAL


def encode_span(span: SentSpan) -> bytes:
    """Return a `Span` message; its times are nanoseconds."""
    parts = [write_bytes(1, bytes.fromhex(span.trace)), write_bytes(2, bytes.fromhex(span.span))]
    if span.parent:
        parts.append(write_bytes(4, bytes.fromhex(span.parent)))
    parts += [
        write_text(5, span.name),
        write_number(6, span.kind),
        write_fixed(7, span.start),
        write_fixed(8, span.end),
    ]
    parts += [write_bytes(9, write_pair(*one)) for one in span.attributes.items()]
    if span.is_failed:
        parts.append(write_bytes(15, write_text(2, span.status_text) + write_number(3, FAILED)))
    return b"".join(parts)


def encode_resource(attributes: Mapping[str, AttributeValue]) -> bytes:
    """Return a `Resource` message: the program that spans are from."""
    return b"".join(write_bytes(1, write_pair(*one)) for one in attributes.items())


def encode_request(spans: Iterable[tuple[bytes, bytes]], *, scope: str, version: str) -> bytes:
    """Return a request with encoded spans, each with its encoded resource before it."""
    about = write_bytes(1, write_text(1, scope) + write_text(2, version))
    found = []
    for resource, group in groupby(spans, key=lambda one: one[0]):
        held = about + b"".join(write_bytes(2, span) for _, span in group)
        found.append(write_bytes(1, write_bytes(1, resource) + write_bytes(2, held)))
    return b"".join(found)
