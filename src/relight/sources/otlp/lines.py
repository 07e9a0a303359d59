"""The records of spool files: what was received, one a line, each with the session it belongs to.

A line keeps the attributes as they were sent, so that a better table of names reaches it by a
rebuild. The conversation is kept in one form, without what earlier requests had of it.
"""

from typing import Any

import msgspec
from msgspec import Struct

from relight.model import Moment
from relight.sources.otlp.messages import TelemetryMessage


class ReceivedLine(Struct, omit_defaults=True, kw_only=True, tag_field="otlp"):
    """The session and the time of a record, and the program that sent it.

    The tag stands first: by it `relight.sources.RECEIVED` knows such a line on a tape.
    """

    session: str
    at: Moment
    ended_at: Moment | None = None
    service: str | None = None
    version: str | None = None


class ReceivedCall(ReceivedLine, tag="call"):
    """A model call; several instrumentations may report it under one key."""

    key: str
    attributes: dict[str, Any] = {}
    is_failed: bool = False
    error: str = ""
    first_token_ms: int | None = None
    messages: list[TelemetryMessage] = []
    answer: TelemetryMessage | None = None


class ReceivedTool(ReceivedLine, tag="tool"):
    """The execution of a tool."""

    key: str
    attributes: dict[str, Any] = {}
    is_failed: bool = False
    error: str = ""


class ReceivedTalk(ReceivedLine, tag="talk"):
    """Messages of a call that came as log records, apart from its span."""

    span: str
    messages: list[TelemetryMessage] = []
    answer: TelemetryMessage | None = None


class ReceivedEvent(ReceivedLine, tag="event"):
    """A log record or a span of an agent whose files are read as well.

    `sent` is its time by the sender's clock, if it is dated by its arrival.
    """

    name: str
    attributes: dict[str, Any] = {}
    sent: int | None = None

    def name_time(self, at: int) -> int:
        """Return a time that names the record, the same however often it is sent."""
        return at if self.sent is None else self.sent + at - self.at


AnyReceived = ReceivedCall | ReceivedTool | ReceivedTalk | ReceivedEvent
decode_received = msgspec.json.Decoder(AnyReceived).decode


class ReceivedHead(Struct):
    """The beginning of a line: enough to sort it."""

    session: str
    at: int = 0


decode_head = msgspec.json.Decoder(ReceivedHead).decode
