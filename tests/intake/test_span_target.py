"""Sessions as spans: what a collector is sent, and what comes back from a receiver."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import build
import build_agents as agents
from build_telemetry import NOW
from relight.errors import RelightError
from relight.intake import span_target
from relight.intake.importing import import_all
from relight.intake.receiver import Receiver
from relight.intake.recorder import record
from relight.intake.span_target import SpanSummary, export_spans
from relight.model import TOKENS, Cost
from relight.reports.totals import report
from relight.sources.otlp.encoding import SentSpan, encode_request, encode_resource, encode_span
from relight.sources.otlp.names import name_fact
from relight.sources.otlp.otlp_requests import WireRecord, read_protobuf
from relight.sources.otlp.protobuf import write_bytes, write_number, write_text
from relight.store import Store, open_store
from relight.store.queries.filters import Filter

SECRET = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
KEY = "Bearer abcdefgh12345678"
Reply = tuple[int, dict[str, str], bytes]
OK: Reply = (200, {}, b"")


class Collector:
    """A collector on loopback that keeps what it is sent; its replies can be scripted."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.seen.append((self.path, dict(self.headers)))
                status, headers, content = collector.replies.pop(0) if collector.replies else OK
                if status == 200:
                    collector.bodies.append(body)
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> list[WireRecord]:
        found = [read_protobuf(gzip.decompress(one), "traces") for one in self.bodies]
        return [span for one in found for scope in one.scopes for span in scope.records]


@pytest.fixture(scope="module")
def running() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def collector(running: Collector) -> Collector:
    running.replies, running.seen, running.bodies = [], [], []
    return running


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with sessions of every kind of source, and one with a secret that a plan paid for."""
    home = tmp_path_factory.mktemp("home")
    agents.write_all(home)
    with build.open_home(home) as store:
        build.import_home(store, home)
        clock = iter(range(10**6))
        with record(
            store,
            "planted",
            project="/home/anna/hidden/shop",
            title="a planted title",
            clock=lambda: build.START / 1000 + next(clock),
        ) as session:
            session.message("user", "the planted prompt")
            cost = Cost(250_000_000, "included", "plan")
            call = {"id": "c1", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}
            said = {"role": "assistant", "content": "a planted answer", "tool_calls": [call]}
            session.turn(
                model="gpt-5.1",
                input_tokens=60,
                cache_read_tokens=40,
                output_tokens=10,
                cost=cost,
                message=said,
                duration_ms=1500,
                first_token_ms=250,
            )
            session.tool_call(
                "Bash", {"command": "ls"}, f"planted {SECRET}", call_id="c1", is_error=True
            )
            session.turn(model="gpt-5.1", failure="429 Too Many Requests: planted rate limit")
    return home


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with open_store(home / "relight") as store:
        yield store


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with build.open_home(tmp_path / "other") as store:
        yield store


def send(store: Store, collector: Collector, **options: Any) -> SpanSummary:
    options.setdefault("environment", {})
    return export_spans(store, collector.url, **options)


def take(store: Store, bodies: list[bytes]) -> None:
    """What our own receiver makes of these requests."""
    receiver = Receiver(store)
    for body in bodies:
        form: Any = "application/x-protobuf"
        assert receiver.take(body, "traces", form, encoding="gzip", now=NOW) == b""
    import_all(store, environment={"HOME": "/nonexistent"}, workers=1)


def read_figures(store: Store, key: str) -> dict[Any, tuple[Any, ...]]:
    names = (
        *TOKENS,
        "turns",
        "cost_usd",
        "included_usd",
        "unpriced_turns",
        "partial_turns",
        "tool_calls",
        "tool_failures",
        "failed_turns",
    )
    return {
        getattr(row, key): tuple(getattr(row, name) or 0 for name in names)
        for row in report(store, (key,)).rows
    }


@pytest.mark.parametrize("has_content", [False, True])
def test_what_our_own_receiver_gets_has_the_same_tokens_calls_and_cost(
    store: Store, other: Store, collector: Collector, has_content: bool
) -> None:
    done = send(store, collector, has_content=has_content)
    assert done.spans == len(collector.spans()) == done.sessions + done.turns + done.tool_calls
    take(other, [*collector.bodies, *reversed(collector.bodies)])
    for key in ("day", "model"):
        assert read_figures(other, key) == read_figures(store, key)


def test_a_span_has_the_names_and_sums_of_the_conventions(
    store: Store, collector: Collector
) -> None:
    send(store, collector, chosen=Filter(source="relight"))
    above, call, failed, tool = collector.spans()
    assert (above.name, above.parent) == ("invoke_agent relight", "")
    assert {one.parent for one in (call, failed, tool)} == {above.span}
    assert {one.trace for one in collector.spans()} == {above.trace}
    assert call.name == "chat gpt-5.1"
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "relight:planted",
        "gen_ai.request.model": "gpt-5.1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cost": 0.0,
        "relight.cost.included": 0.25,
        "gen_ai.response.time_to_first_chunk": 0.25,
    }
    assert expected.items() <= call.attributes.items()
    assert call.end - call.start == 1_500_000_000
    assert (failed.is_failed, failed.attributes["error.type"]) == (True, "rate_limit")
    assert tool.name == "execute_tool Bash"
    assert (tool.is_failed, tool.attributes["relight.verdict"]) == (True, "error")


def test_words_are_sent_only_if_asked_for_and_never_secrets(
    store: Store, collector: Collector
) -> None:
    chosen = Filter(source="relight")
    send(store, collector, chosen=chosen)
    bare = gzip.decompress(collector.bodies.pop())
    for words in (b"planted p", b"planted a", b"planted t", b"planted r", b"hidden"):
        assert words not in bare
    send(store, collector, chosen=chosen, has_content=True)
    whole = gzip.decompress(collector.bodies.pop())
    for words in (b"the planted prompt", b"a planted answer", b"a planted title", b"rate limit"):
        assert words in whole
    assert SECRET.encode() not in whole


def test_a_repeated_export_is_the_same_and_a_store_leaves_its_own_sessions_out(
    store: Store, collector: Collector, tmp_path: Path
) -> None:
    send(store, collector)
    first = list(collector.bodies)
    send(store, collector)
    assert collector.bodies == first * 2
    before = store.query("select count(*) from turn")
    take(store, first)
    assert store.query("select count(*) from turn") == before


def test_a_busy_collector_is_asked_again_and_a_large_request_is_halved(
    store: Store, collector: Collector
) -> None:
    collector.replies = [(503, {"Retry-After": "0"}, b""), (429, {"Retry-After": "0"}, b"")]
    collector.replies += [(413, {}, b""), OK, (413, {}, b"")]
    done = send(store, collector)
    assert done.spans == len(collector.spans())
    assert (done.requests, len(collector.seen)) == (3, 7)


def test_rejected_spans_are_counted_with_the_reason(store: Store, collector: Collector) -> None:
    partial = write_number(1, 2) + write_text(2, "too old")
    collector.replies = [(200, {}, write_bytes(1, partial))]
    done = send(store, collector)
    assert (done.rejected_spans, done.problems) == (2, ["too old"])


def test_a_reason_that_repeats_a_header_is_reported_without_it(
    store: Store, collector: Collector
) -> None:
    collector.replies = [(200, {}, write_bytes(1, write_text(2, f"the key {KEY[7:]} is old")))]
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization={KEY}"}
    assert send(store, collector, environment=environment).problems == ["the key [header] is old"]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ((401, {}, b"no key"), "OTEL_EXPORTER_OTLP_HEADERS"),
        ((404, {"Content-Type": "text/html"}, f"{KEY}".encode()), "before /v1/traces"),
        ((200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"), "web page"),
        ((500, {}, f"not {KEY}, and not {KEY[7:]}".encode()), "not [header], and not [header]"),
        ((307, {"Location": f"https://else.example/{KEY[7:]}"}, b""), "else.example/[header]"),
        ((415, {}, b""), "protobuf"),
        ((413, {}, b""), "413"),
        ((308, {"Location": "https://else.example/"}, b""), "https://else.example/"),
        ((503, {"Retry-After": "4000"}, b""), "4000 s"),
    ],
)
def test_a_refusal_is_explained_and_names_no_header(
    store: Store, collector: Collector, reply: Reply, words: str
) -> None:
    collector.replies = [reply] * 99
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization={KEY.replace(' ', '%20')}"}
    with pytest.raises(RelightError) as caught:
        send(store, collector, environment=environment)
    text = f"{caught.value.message} {caught.value.hint}"
    assert words in text
    assert KEY.split()[1] not in text
    path, headers = collector.seen[0]
    assert (path, headers["authorization"]) == ("/v1/traces", KEY)


def test_a_collector_that_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(RelightError, match="cannot be reached") as caught:
        export_spans(store, "http://127.0.0.1:9/", environment={})
    assert "6006" in str(caught.value.hint)


@pytest.mark.parametrize(
    "target", ["spans.jsonl", "ftp://a", "http://", "http://a:b@c", "http://[", "http://a:x"]
)
def test_a_target_that_is_no_address_is_refused(store: Store, target: str) -> None:
    with pytest.raises(RelightError) as caught:
        export_spans(store, target, environment={})
    assert caught.value.hint


def test_a_dry_run_counts_and_sends_nothing(store: Store, collector: Collector) -> None:
    planned = send(store, collector, is_dry_run=True)
    assert collector.seen == []
    done = send(store, collector)
    assert (planned.spans, planned.bytes) == (done.spans, done.bytes)


def test_the_environment_names_the_service_and_adds_attributes(
    store: Store, collector: Collector
) -> None:
    environment = {
        "OTEL_SERVICE_NAME": "mine",
        "OTEL_RESOURCE_ATTRIBUTES": "openinference.project.name=agents%20of%20mine",
    }
    send(store, collector, environment=environment, chosen=Filter(source="relight"))
    (scope,) = read_protobuf(gzip.decompress(collector.bodies[0]), "traces").scopes
    assert scope.resource["service.name"] == "mine"
    assert scope.resource["openinference.project.name"] == "agents of mine"
    for wrong in ("authorization", "a b=c", "a=b\nc", "=x"):
        with pytest.raises(RelightError):
            span_target.read_headers({"OTEL_EXPORTER_OTLP_HEADERS": wrong})


@given(
    some.dictionaries(
        some.text(min_size=1),
        some.text() | some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.floats(),
    ),
    some.text(),
    some.integers(0, 2**64 - 1),
    some.booleans(),
)
def test_what_was_written_is_read_as_it_was(
    attributes: dict[str, Any], name: str, start: int, is_failed: bool
) -> None:
    about = {name_fact("session"): "s", **attributes}
    span = SentSpan(
        trace="0a" * 16,
        span="0b" * 8,
        parent="0c" * 8,
        name=name,
        start=start,
        end=start,
        attributes=about,
        is_failed=is_failed,
        status_text="why" if is_failed else "",
    )
    body = encode_request(
        [(encode_resource({"service.name": "x"}), encode_span(span))], scope="relight", version="1"
    )
    ((read,),) = (scope.records for scope in read_protobuf(body, "traces").scopes)
    for field in ("trace", "span", "parent", "name", "start", "end", "is_failed", "status_text"):
        assert getattr(read, field) == getattr(span, field)
    assert repr(read.attributes) == repr(about)  # nan is not equal to itself
