"""The receiver's HTTP side: what it acknowledges, and what it refuses with which status."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import build
from build_telemetry import encode, make_call, read_captures
from relight.intake import receiver
from relight.store import open_store
from relight.web import otlp

ADDRESS = "http://127.0.0.1:4318"
JSON = {"content-type": "application/json"}
PROTOBUF = {"content-type": "application/x-protobuf"}
BOMB = gzip.compress(bytes(2000))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    build.open_home(tmp_path).close()
    return tmp_path / "relight"


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    with TestClient(otlp.create_receiver(home), base_url=ADDRESS) as client:
        yield client


def read_spool(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((home / "telemetry").rglob("*.jsonl")))


def test_a_request_is_on_disk_when_it_is_acknowledged_in_its_own_format(
    client: TestClient, home: Path
) -> None:
    (_, _, body), *_ = read_captures()["traceloop-anthropic-0.62.4"]
    packed = {**PROTOBUF, "content-encoding": "gzip"}
    response = client.post("/v1/traces", content=gzip.compress(body), headers=packed)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "application/x-protobuf"
    assert read_spool(home).count(b'{"otlp":"call"') == 6
    response = client.post("/v1/logs", content=encode("logs"), headers=JSON)
    assert (response.status_code, response.json()) == (200, {})
    response = client.post("/v1/metrics", content=b"\x0a\x00", headers=PROTOBUF)
    assert (response.status_code, response.content) == (200, b"")


def test_a_span_that_cannot_be_read_is_rejected_and_the_others_are_taken(
    client: TestClient, home: Path
) -> None:
    # a resource with one scope: a span whose name is cut off, and one that is whole
    bad = b"\x12\x06\x2a\x20gen_ai."[:8]
    good = b"\x12\x0b\x12\x09gen_ai.xx"
    scope = b"\x12" + bytes([len(bad + good)]) + bad + good
    body = b"\x0a" + bytes([len(scope)]) + scope
    response = client.post("/v1/traces", content=body, headers=PROTOBUF)
    assert response.status_code == 200
    assert response.content[2:4] == b"\x08\x01"  # one rejected span
    assert b"not readable" in response.content


@pytest.mark.parametrize(
    ("status", "headers", "content"),
    [
        (415, {"content-type": "text/plain"}, b"{}"),
        (415, {**JSON, "content-encoding": "br"}, b"{}"),
        (400, {**JSON, "content-encoding": "gzip"}, b"{}"),
        (400, {**JSON, "content-encoding": "gzip"}, gzip.compress(b"{}")[:-9]),
        (400, JSON, b'{"resourceSpans": 3}'),
        (400, JSON, b'{"resourceSpans": ' + b"[" * 100_000),
        (400, PROTOBUF, b"\x0a\xff"),
        (413, {**JSON, "content-length": str(50 << 20)}, b"{}"),
        (413, {**JSON, "content-encoding": "gzip"}, BOMB),
        (403, {**JSON, "host": "evil.example"}, b"{}"),
        (403, {**JSON, "origin": "https://evil.example"}, b"{}"),
    ],
)
def test_a_request_that_cannot_be_taken_is_refused_for_good(
    client: TestClient,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    headers: dict[str, str],
    content: bytes,
) -> None:
    if content is BOMB:
        monkeypatch.setattr(receiver, "MOST_BODY", 1000)
    response = client.post("/v1/traces", content=content, headers=headers)
    assert response.status_code == status, response.content
    assert "retry-after" not in response.headers
    assert read_spool(home) == b""


def test_refused_requests_are_counted_for_the_doctor(home: Path) -> None:
    with TestClient(otlp.create_receiver(home), base_url=ADDRESS) as client:
        client.post("/v1/traces", content=b"", headers={"content-type": "text/plain"})
    with open_store(home) as store:
        assert store.query("select value from meta where key = 'missed'") == [("1",)]


def test_exporters_are_asked_to_send_again_while_too_much_waits(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = encode("traces", make_call("a", 0))
    monkeypatch.setattr(otlp, "MOST_WAITING", 0)
    response = client.post("/v1/traces", content=body, headers=JSON)
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    monkeypatch.setattr(otlp, "MOST_WAITING", 1)
    monkeypatch.setattr(receiver, "MOST_SPOOLED", -1)
    response = client.post("/v1/traces", content=body, headers=JSON)
    assert (response.status_code, response.headers["retry-after"]) == (503, "30")


def test_a_disk_that_cannot_be_written_is_no_loss(client: TestClient, home: Path) -> None:
    (home / "telemetry").write_text("in the way")
    body = encode("traces", make_call("a", 0))
    assert client.post("/v1/traces", content=body, headers=JSON).status_code == 503
    (home / "telemetry").unlink()
    assert client.post("/v1/traces", content=body, headers=JSON).status_code == 200
    assert b'{"otlp":"call"' in read_spool(home)
