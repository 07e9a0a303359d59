"""Take requests of OTLP over HTTP: parse, sort, and write to the spool, then acknowledge.

Nothing here knows HTTP: `Receiver.take` gets a body and returns a response. Its errors have the
status that shows an exporter whether to send the same again.
"""

import logging
import zlib
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.intake.receiving import SortedRecords, Sorter
from relight.intake.spool import Spool
from relight.sources.otlp.otlp_requests import OtlpRequest, Signal, read_protobuf
from relight.sources.otlp.protobuf import write_bytes, write_number, write_text
from relight.sources.otlp.reader import NAME
from relight.sources.otlp.wire_json import read_json
from relight.store import Store
from relight.store.misses import count_miss
from relight.store.queries.sessions import find_spans_of_time
from relight.text import plural

# a larger body, also after unpacking, is refused: exporters send some megabytes at most
MOST_BODY = 32 << 20
# a compressed body may be several, one after the other
MOST_PARTS = 16
# spool files that wait to be read: with more, exporters are asked to wait
MOST_SPOOLED = 1 << 30
JSON_TYPE = "application/json"
PROTOBUF_TYPE = "application/x-protobuf"
Format: TypeAlias = Literal["application/json", "application/x-protobuf"]
FORMATS: dict[str, Format] = {
    JSON_TYPE: "application/json",
    PROTOBUF_TYPE: "application/x-protobuf",
    "application/protobuf": "application/x-protobuf",
}
# the names of the count of rejected records in a response
REJECTED = {
    "traces": "rejectedSpans",
    "logs": "rejectedLogRecords",
    "metrics": "rejectedDataPoints",
}

logger = logging.getLogger("relight")


class RefusedRequestError(RelightError):
    """A request that is not taken; with `retry_seconds` an exporter may send it again later."""

    def __init__(self, status: int, message: str, *, retry_seconds: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_seconds = retry_seconds


class ReceivedCounts(Struct):
    """The counts of a receiver since it started."""

    requests: int = 0
    records: int = 0
    kept: int = 0
    rejected: int = 0
    shortened: int = 0
    skewed: int = 0
    refused: int = 0


class Receiver:
    """Takes requests for one home folder, one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._home: Path = store.config.home
        self._spool = Spool(store.config.telemetry, store.redaction_key)
        self._sorter = Sorter(lambda prefix: find_spans_of_time(store, NAME, prefix))
        self.counts = ReceivedCounts()

    def take(self, body: bytes, signal: Signal, form: Format, *, encoding: str, now: int) -> bytes:
        """Return the response to a request once it is stored; raise if it is refused."""
        data = unpack(body, encoding)
        self.counts.requests += 1
        if signal == "metrics":  # sums of what logs and spans have call by call
            return encode_response(signal, form)
        try:
            request = (read_json if form == JSON_TYPE else read_protobuf)(data, signal)
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            raise RefusedRequestError(
                400, f"the request cannot be read: {str(error)[:200]}"
            ) from error
        found = self._sorter.sort(request, is_log=signal == "logs", now=now)
        self._write(found)
        self._count(request, found)
        return encode_response(signal, form, request.rejected, _describe(request, found))

    def _write(self, found: SortedRecords) -> None:
        try:
            for source, lines in found.lines.items():
                self._spool.write(source, lines)
        except OSError as error:
            reason = f"the spool cannot be written: {error.strerror or error}"
            raise RefusedRequestError(503, reason, retry_seconds=30) from error

    def check_room(self) -> None:
        """Raise if so much waits to be read that exporters must wait."""
        if self._spool.count_bytes() > MOST_SPOOLED:
            raise RefusedRequestError(503, "too much waits to be read", retry_seconds=30)

    def _count(self, request: OtlpRequest, found: SortedRecords) -> None:
        counts = self.counts
        counts.records += request.received
        counts.kept += sum(map(len, found.lines.values()))
        counts.rejected += request.rejected
        counts.shortened += found.shortened
        counts.skewed += found.skewed
        if reason := _describe(request, found):
            logger.warning("%s", reason)
            self.count_lost(reason, number=request.rejected + found.shortened + found.skewed)

    def count_lost(self, reason: str, *, number: int = 1) -> None:
        """Count records for the doctor that were not taken as they were sent."""
        count_miss(self._store, self._home, reason, number=number)


def _describe(request: OtlpRequest, found: SortedRecords) -> str:
    """The reasons why records were not taken as they were sent; empty if all were."""
    reasons = [f"not readable: {problem}" for problem in request.problems]
    if found.shortened:
        what = plural(found.shortened, "record")
        reasons.append(f"too many attributes: {what} shortened")
    if found.skewed:
        what = plural(found.skewed, "record")
        reasons.append(f"impossible times: {what} dated by arrival")
    return "; ".join(reasons)


def unpack(body: bytes, encoding: str) -> bytes:
    """Return a decompressed body; raise if it cannot be decompressed or is too large."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise RefusedRequestError(
            415, f"content-encoding {encoding[:40]!r} is not supported: send gzip"
        )
    data, rest = b"", body
    for _ in range(MOST_PARTS):
        unpacker = zlib.decompressobj(wbits=47)  # the header says which of the two it is
        try:
            data += unpacker.decompress(rest, MOST_BODY + 1 - len(data))
        except zlib.error as error:
            raise RefusedRequestError(400, f"the body is not {encoding}: {error}") from error
        if len(data) > MOST_BODY:
            raise too_large()
        if not unpacker.eof:
            raise RefusedRequestError(400, f"the body ends before its {encoding} data does")
        rest = unpacker.unused_data
        if not rest:
            return data
    raise RefusedRequestError(400, f"the body has more than {MOST_PARTS} parts of {encoding}")


def too_large() -> RefusedRequestError:
    most = f"{MOST_BODY >> 20} MB"
    return RefusedRequestError(413, f"a body may have {most}, also unpacked: send smaller batches")


def encode_response(signal: Signal, form: Format, rejected: int = 0, message: str = "") -> bytes:
    """Return an export response; empty if everything was taken."""
    if form == JSON_TYPE:
        partial = {REJECTED[signal]: str(rejected), "errorMessage": message}
        return msgspec.json.encode({"partialSuccess": partial} if rejected or message else {})
    if not rejected and not message:
        return b""
    inner = (write_number(1, rejected) if rejected else b"") + write_text(2, message)
    return write_bytes(1, inner)


def encode_status(form: Format, message: str) -> bytes:
    """Return the body of an error: a `Status` with a message."""
    if form == JSON_TYPE:
        return msgspec.json.encode({"message": message})
    return write_text(2, message)
