"""Send sessions as spans to any collector of OpenTelemetry, with OTLP over HTTP.

Requests are in protobuf, which every collector takes and which is half of what JSON is; Phoenix
takes nothing else. What was sent twice has the same ids, so a run that failed is run again.
"""

import gzip
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from relight.errors import RelightError
from relight.intake.http_line import (
    LOOPBACK,
    UNREACHABLE,
    Answer,
    HttpLine,
    name_reason,
    read_wait,
    split_address,
)
from relight.reports.export import list_families
from relight.reports.export_spans import describe_program, make_spans, read_record
from relight.sources.otlp.encoding import encode_request, encode_resource, encode_span
from relight.sources.otlp.protobuf import expect, read_text, read_wire_fields
from relight.store import Store
from relight.store.queries.export import count_roots
from relight.store.queries.filters import Filter
from relight.text import make_line

SCOPE = "relight"
PATH = "/v1/traces"
HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
RESOURCE, SERVICE = "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"
CONTENT = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
# a request has at most so many spans and, before it is compressed, so many bytes
MOST_SPANS, MOST_BYTES = 512, 2 << 20
# responses after which the same request may be sent again, and how often it is
BUSY = (429, 502, 503, 504)
MOST_TRIES, FIRST_WAIT, LONGEST_WAIT = 6, 1, 120
MOST_PROBLEMS = 5
# of a header a shorter word, such as "Bearer", is no secret
SHORTEST_SECRET = 6
HINT = "a repeated export adds nothing twice: run it again"
# an encoded resource and an encoded span of it
Encoded = tuple[bytes, bytes]


class SpanSummary(Struct, kw_only=True):
    """The counts of what was sent; of a dry run, of what would be."""

    format: Literal["otlp"] = "otlp"
    target: str
    is_dry_run: bool = False
    sessions: int = 0
    turns: int = 0
    tool_calls: int = 0
    spans: int = 0
    requests: int = 0
    bytes: int = 0
    rejected_spans: int = 0
    problems: list[str] = []
    # without any time, which a span needs
    undated_sessions: int = 0


def export_spans(
    store: Store,
    target: str,
    chosen: Filter | None = None,
    *,
    has_content: bool = False,
    is_dry_run: bool = False,
    environment: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SpanSummary:
    """Send sessions to a collector as spans; raise if it refuses them or cannot be reached.

    Prompts, answers, arguments and results are sent only with `has_content`.
    """
    variables = os.environ if environment is None else environment
    sender = SpanSender(check_target(target), read_headers(variables), is_dry_run=is_dry_run)
    resource = read_resource(variables)
    wanted = chosen or Filter()
    total = count_roots(store, wanted) if progress else 0
    try:
        for number, family in enumerate(list_families(store, wanted), start=1):
            root = ""
            for session_id in family:
                session = read_record(store, session_id, has_content=has_content)
                root = root or session.session_id
                about = encode_resource(describe_program(session) | resource)
                made = [
                    (about, encode_span(span))
                    for span in make_spans(session, root, has_content=has_content)
                ]
                sender.add(made)
                sender.done.sessions += bool(made)
                sender.done.undated_sessions += not made
                sender.done.turns += len(session.turns) if made else 0
                sender.done.tool_calls += len(session.calls) if made else 0
            if progress is not None:
                progress(number, max(total, number))
        sender.flush()
    finally:
        sender.close()
    return sender.done


class SpanSender:
    """Gathers spans into requests, and sends each until it is acknowledged."""

    def __init__(self, url: str, headers: Mapping[str, str], *, is_dry_run: bool) -> None:
        self.done = SpanSummary(target=url, is_dry_run=is_dry_run)
        self._line = HttpLine(url)
        self._url = url
        self._headers = {**headers, **CONTENT}
        self._secrets = _list_secrets(headers)
        self._waiting: list[Encoded] = []
        self._bytes = 0

    def close(self) -> None:
        self._line.close()

    def add(self, spans: Sequence[Encoded]) -> None:
        """Take spans, and send what makes a whole request."""
        for one in spans:
            size = len(one[1])
            is_full = len(self._waiting) >= MOST_SPANS or self._bytes + size > MOST_BYTES
            if self._waiting and is_full:
                self.flush()
            self._waiting.append(one)
            self._bytes += size

    def flush(self) -> None:
        """Send what waits."""
        spans, self._waiting, self._bytes = self._waiting, [], 0
        if spans:
            self._send(spans)

    def _send(self, spans: list[Encoded]) -> None:
        from relight import __version__

        body = gzip.compress(encode_request(spans, scope=SCOPE, version=__version__), mtime=0)
        if not self.done.is_dry_run:
            answer = self._exchange(body)
            if answer.status == 413 and len(spans) > 1:
                half = len(spans) // 2
                self._send(spans[:half])
                self._send(spans[half:])
                return
            if not 200 <= answer.status < 300 or _is_page(answer):
                raise self._explain(answer)
            self._note(answer.body)
        self.done.requests += 1
        self.done.spans += len(spans)
        self.done.bytes += len(body)

    def _exchange(self, body: bytes) -> Answer:
        """Return the response that is final: neither a busy server nor a broken connection."""
        for wait in (*(FIRST_WAIT << number for number in range(MOST_TRIES - 1)), None):
            try:
                answer = self._line.exchange("POST", "", body, self._headers)
            except ConnectionRefusedError as error:
                raise self._unreachable(error) from error
            except UNREACHABLE as error:
                self._line.close()
                if wait is None or not self.done.requests:
                    raise self._unreachable(error) from error
            else:
                if answer.status not in BUSY or wait is None:
                    return answer
                wait = read_wait(answer, wait)
                if wait > LONGEST_WAIT:
                    return answer
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _unreachable(self, error: BaseException) -> RelightError:
        return RelightError(
            f"{self._url} cannot be reached: {name_reason(error)}{self._count_sent()}",
            "is the collector running there? Phoenix listens on port 6006, most others on 4318;"
            f" {HINT}",
        )

    def _explain(self, answer: Answer) -> RelightError:
        """Return the error of a refused request."""
        match answer.status:
            case status if status < 300:
                hint = f"that is a web page: is it a collector of OTLP, and at that path? {HINT}"
            case 401 | 403:
                hint = f"put its key into {HEADERS[0]}, such as authorization=Bearer%20KEY"
            case 404 | 405:
                hint = f"give the address before {PATH}; is it a collector of OTLP over HTTP?"
            case 415:
                hint = "the collector takes no protobuf, which OTLP over HTTP asks of it"
            case 301 | 302 | 303 | 307 | 308:
                place = self._hide(answer.headers.get("location", ""))[:200]
                hint = f"it leads to {place}: give that address"
            case status if status in BUSY:
                hint = f"it is busy or asks to wait: {read_wait(answer, 60)} s; {HINT}"
            case _:
                hint = HINT
        said = make_line(self._hide(_read_words(answer)))
        return RelightError(
            f"{self._url} answered {answer.status}{f': {said}' if said else ''}"
            f"{self._count_sent()}",
            hint,
        )

    def _hide(self, text: str) -> str:
        """A collector's words without the headers that it was sent, which it may repeat."""
        for secret in self._secrets:
            text = text.replace(secret, "[header]")
        return text

    def _count_sent(self) -> str:
        return f", after {self.done.spans:,} spans were sent" if self.done.spans else ""

    def _note(self, body: bytes) -> None:
        """Count the spans that a collector rejected, of a request that it took."""
        rejected, message = read_partial_success(body)
        message = self._hide(message)[:300]
        self.done.rejected_spans += rejected
        if message and message not in self.done.problems:
            self.done.problems = [*self.done.problems, message][:MOST_PROBLEMS]


def read_partial_success(body: bytes) -> tuple[int, str]:
    """Return how many spans were rejected and why; zero for a response that cannot be read."""
    rejected, message = 0, ""
    try:
        for number, _, value in read_wire_fields(body):
            if number == 1:
                for place, _, part in read_wire_fields(expect(value, bytes)):
                    if place == 1:
                        rejected = expect(part, int)
                    elif place == 2:
                        message = read_text(part)
    except ValueError:
        return 0, ""
    return rejected, message


def _read_words(answer: Answer) -> str:
    """The reason in a refusal: the message of a `Status`, or plain text; of a page nothing."""
    if _is_page(answer):
        return ""
    try:
        found = [
            read_text(value) for number, _, value in read_wire_fields(answer.body) if number == 2
        ]
    except ValueError:
        found = []
    return found[0] if found else answer.body.decode("utf-8", "replace")


def _is_page(answer: Answer) -> bool:
    """True for a page of a web site, which answers 200 to anything that it does not know."""
    return "html" in answer.headers.get("content-type", "").lower()


def _list_secrets(headers: Mapping[str, str]) -> list[str]:
    """The values of headers and the words in them, the longest first."""
    found = {part for value in headers.values() for part in (value, *value.split())}
    return sorted((one for one in found if len(one) > SHORTEST_SECRET), key=len, reverse=True)


def check_target(target: str) -> str:
    """Return the whole address that spans are sent to; raise if the target is not an address.

    >>> check_target("http://127.0.0.1:6006/")
    'http://127.0.0.1:6006/v1/traces'
    """
    hint = "such as http://127.0.0.1:6006 for Phoenix, or https://collector.example.org:4318"
    place = f"put it into {HEADERS[0]}"
    address, _ = split_address(target, "an address of a collector", hint=hint, place=place)
    return f"{address.removesuffix(PATH)}{PATH}"


def is_open(target: str) -> bool:
    """True if what is sent there can be read on the way."""
    parts = urlsplit(target)
    return parts.scheme == "http" and parts.hostname not in LOOPBACK


def read_headers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that exporters of OpenTelemetry take from the environment.

    >>> read_headers({"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc, x-team = a "})
    {'authorization': 'Bearer abc', 'x-team': 'a'}
    """
    found: dict[str, str] = {}
    for variable in HEADERS:
        for name, value in _read_pairs(environment, variable):
            # the value is a secret: it is in no message
            if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
                raise RelightError(f"{variable} has a header with a bad name", "write name=value")
            if not value.isprintable() or not value.isascii():
                raise RelightError(f"{variable} has a bad value of {name}", "encode it with %")
            found[name.lower()] = value
    return found


def read_resource(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of all spans' programs that the environment adds."""
    found = dict(_read_pairs(environment, RESOURCE))
    service = environment.get(SERVICE, "")
    return found | ({"service.name": service} if service else {})


def _read_pairs(environment: Mapping[str, str], variable: str) -> Iterator[tuple[str, str]]:
    for pair in environment.get(variable, "").split(","):
        name, sign, value = pair.partition("=")
        if not pair.strip():
            continue
        if not sign or not name.strip():
            raise RelightError(f"{variable} is not a list of name=value", "separate them by commas")
        yield name.strip(), unquote(value.strip())
