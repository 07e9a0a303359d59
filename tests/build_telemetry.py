"""Builders: OTLP requests in JSON, and captures of what real exporters sent."""

import zipfile
from pathlib import Path
from typing import Any

import msgspec

from build import START
from relight.intake.receiver import Format, Receiver
from relight.sources.otlp.otlp_requests import Signal

CAPTURES = Path(__file__).parent / "sources" / "telemetry.zip"
NOW = START + 5 * 86_400_000
CLAUDE_SCOPE = "com.anthropic.claude_code.events"
CODEX_SCOPE = "codex_otel.log_only"


def read_captures() -> dict[str, list[tuple[Signal, Format, bytes]]]:
    """The requests of each capture in the order they were sent."""
    found: dict[str, list[tuple[Signal, Format, bytes]]] = {}
    with zipfile.ZipFile(CAPTURES) as archive:
        for path in archive.namelist():
            name, _, file = path.partition("/")
            signal: Signal = (
                "traces" if "traces" in file else "logs" if "logs" in file else "metrics"
            )
            form: Format = "application/x-protobuf" if file.endswith(".pb") else "application/json"
            found.setdefault(name, []).append((signal, form, archive.read(path)))
    return found


def value(given: Any) -> dict[str, Any]:
    if isinstance(given, bool):
        return {"boolValue": given}
    if isinstance(given, int):
        return {"intValue": str(given)}
    if isinstance(given, float):
        return {"doubleValue": given}
    if isinstance(given, list):
        return {"arrayValue": {"values": [value(one) for one in given]}}
    return {"stringValue": given}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(one)} for name, one in attributes.items()]


def nanos(seconds: float) -> str:
    return str((START + round(seconds * 1000)) * 1_000_000)


def make_span(
    name: str, at: float, *, trace: str = "", parent: str = "", seconds: float = 1.0, **fields: Any
) -> dict[str, Any]:
    """A span; attributes are given with `__` in place of dots."""
    attributes = {key.replace("__", "."): one for key, one in fields.items()}
    return {
        "traceId": trace or f"trace-{name}",
        "spanId": name,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": nanos(at),
        "endTimeUnixNano": nanos(at + seconds),
        "attributes": pairs(attributes),
    }


def make_call(name: str, at: float, *, response: str = "", **fields: Any) -> dict[str, Any]:
    """The span of a model call with 100 tokens of prompt, 40 of them cached, and 10 of output."""
    known: dict[str, Any] = {
        "gen_ai__operation__name": "chat",
        "gen_ai__provider__name": "openai",
        "gen_ai__response__model": "gpt-5.1",
        "gen_ai__usage__input_tokens": 100,
        "gen_ai__usage__cache_read__input_tokens": 40,
        "gen_ai__usage__output_tokens": 10,
    }
    known |= {"gen_ai__response__id": response} if response else {}
    return make_span(name, at, **(known | fields))


def make_event(name: str, at: float, **fields: Any) -> dict[str, Any]:
    attributes = {"event.name": name}
    attributes |= {key.replace("__", "."): one for key, one in fields.items()}
    return {"timeUnixNano": nanos(at), "attributes": pairs(attributes)}


def encode(signal: Signal, *records: dict[str, Any], scope: str = "test", **resource: Any) -> bytes:
    """A request with these records of one scope; resource attributes have `__` for dots."""
    part = "Spans" if signal == "traces" else "Logs"
    held = "spans" if signal == "traces" else "logRecords"
    about = {key.replace("__", "."): one for key, one in resource.items()}
    scopes = [{"scope": {"name": scope}, held: records}]
    found = {"resource": {"attributes": pairs(about)}, f"scope{part}": scopes}
    return msgspec.json.encode({f"resource{part}": [found]})


def send(receiver: Receiver, signal: Signal, body: bytes, form: Format = "application/json") -> Any:
    """What the receiver responds, decoded if it is JSON."""
    response = receiver.take(body, signal, form, encoding="", now=NOW)
    return msgspec.json.decode(response) if form == "application/json" else response
