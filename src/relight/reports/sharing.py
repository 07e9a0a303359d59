"""A session for other people: its texts redacted once more before they leave the machine."""

from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.redact import redact
from relight.reports.sessions import SessionHead
from relight.reports.trace import Step, Trace

S = TypeVar("S", bound=Struct)


class SharedSession(Struct, frozen=True):
    """A session's facts and steps, fit to be shared."""

    head: SessionHead
    trace: Trace


def redact_session(head: SessionHead, trace: Trace, *, key: bytes) -> SharedSession:
    """Return a session in which today's rules find no secret.

    The tape was redacted when it was recorded, perhaps by older rules. Here all its texts are one
    piece: a secret that one step shows is removed from every other.
    """
    records: list[Struct] = [head, *trace.steps]
    lines = redact(b"\n".join(map(msgspec.json.encode, records)), key=key).split(b"\n")
    first, *others = lines
    steps = [msgspec.json.decode(line, type=Step) for line in others]
    return SharedSession(msgspec.json.decode(first, type=SessionHead), replace(trace, steps=steps))
