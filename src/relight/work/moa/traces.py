"""Traces of mixtures: what each model of a turn received, byte for byte, and what it answered.

A session has one file with one JSON line per turn. Traces are exact and therefore not redacted, so
only the user may read them. Hermes writes files of the same form: reading takes any JSON.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.config import Config
from relight.errors import MissingError
from relight.locks import hold
from relight.model import Cost, Turn, Usage
from relight.names import file_name
from relight.prices import find_price, price_usage
from relight.store import Store
from relight.store.derive.pricing import Pricing
from relight.store.misses import count_miss
from relight.times import write_time
from relight.work.moa.mixture import MoaTurn, ModelCall

# advisers that share fewer of their words are shown as disagreeing
DISAGREEING = 0.15

logger = logging.getLogger("relight")
_lock = threading.Lock()


class TracedFailure(Struct, frozen=True):
    kind: str
    reason: str


class TracedCall(Struct, frozen=True, kw_only=True):
    """One model call as it is traced; `settings` are the other fields of the request."""

    label: str
    model: str
    provider: str
    temperature: msgspec.Raw | None
    input_messages: msgspec.Raw
    settings: dict[str, msgspec.Raw]
    output: str | None
    tool_calls: Any
    usage: dict[str, int | None]
    cost_usd: float | None
    cost_status: str
    cost_source: str | None
    duration_ms: int
    first_token_ms: float | None
    failure: TracedFailure | None
    cached: bool


class TracedActingCall(TracedCall, frozen=True, kw_only=True):
    """The acting model's call as it is traced."""

    streamed: bool
    output_location: str


class TracedTurn(Struct, frozen=True, kw_only=True):
    """One line of a trace; `aggregator` is None if the acting model was not asked."""

    ts: str | None
    session_id: str
    preset: str
    references: list[TracedCall]
    aggregator: TracedActingCall | None


class TraceFile(Struct, frozen=True):
    """A file of traces: its turns, and how many lines could not be read."""

    path: Path
    turns: list[dict[str, Any]]
    skipped: int


class TraceSummary(Struct, frozen=True, kw_only=True):
    """A traced session with the sums of its turns."""

    session_id: Any
    file: str
    preset: Any
    turns: int
    last_at: Any
    cost_usd: float | None
    unpriced_calls: int
    skipped_lines: int


class TraceList(Struct, frozen=True):
    """Traced sessions, newest first."""

    traces: list[TraceSummary]


class TracedModel(Struct, kw_only=True):
    """A model in one role: its calls, failures, cost and time, and how often it disagreed."""

    label: str
    role: str
    calls: int = 0
    failures: int = 0
    cost_usd: float | None = None
    unpriced_calls: int = 0
    duration_ms: int = 0
    disagreed: int = 0


class TraceReport(Struct, frozen=True, kw_only=True):
    """The turns of a trace, each with how far its advisers agreed, and sums by model."""

    session_id: Any
    turns: list[dict[str, Any]]
    models: list[TracedModel]
    cost_usd: float | None
    unpriced_calls: int
    skipped_lines: int


class Tracer:
    """Writes each turn of a session to its file."""

    def __init__(self, config: Config, session_id: str, store: Store | None = None) -> None:
        self.folder, self.session_id = config.trace_folder, session_id
        self._config, self._store = config, store
        self._pricing = Pricing(store) if store is not None else None

    def write(self, turn: MoaTurn) -> None:
        """Append a turn to the session's trace; a failure is logged and counted, never raised."""
        if not turn.sent:
            return
        try:
            write_trace(self.folder, self.session_id, self._describe(turn))
        except Exception as error:  # noqa: BLE001 - a failing trace never breaks a turn
            logger.warning("a trace was missed: %s", error)
            count_miss(self._store, self._config.home, f"a trace of {self.session_id}: {error}")

    def _describe(self, turn: MoaTurn) -> TracedTurn:
        acting = turn.aggregator
        return TracedTurn(
            ts=write_time(round(turn.at * 1000)),
            session_id=self.session_id,
            preset=turn.preset,
            references=[TracedCall(**self._describe_call(one)) for one in turn.references],
            aggregator=self._describe_acting(acting) if acting and acting.was_sent else None,
        )

    def _describe_acting(self, call: ModelCall) -> TracedActingCall:
        is_streamed = call.request.is_stream
        location = "inline_from_stream" if is_streamed else "inline"
        fields = self._describe_call(call)
        return TracedActingCall(**fields, streamed=is_streamed, output_location=location)

    def _describe_call(self, call: ModelCall) -> dict[str, Any]:
        response, endpoint, request = call.response, call.endpoint, call.request
        usage = response.usage if response else Usage()
        cost = self._find_cost(call, usage)
        failure = call.failure
        return {
            "label": endpoint.label,
            "model": endpoint.model,
            "provider": endpoint.seller,
            "temperature": request.settings.get("temperature"),
            "input_messages": request.messages,
            "settings": request.settings,
            "output": response.text if response else None,
            "tool_calls": response.message.get("tool_calls") if response else None,
            "usage": {f"{k}_tokens": v for k, v in msgspec.structs.asdict(usage).items()},
            "cost_usd": None if cost.nanos is None else cost.nanos / 1e9,
            "cost_status": cost.status,
            "cost_source": cost.source,
            "duration_ms": round(call.duration_ms),
            "first_token_ms": response.first_token_ms if response else None,
            "failure": TracedFailure(failure.kind, failure.reason) if failure else None,
            "cached": call.is_cached,
        }

    def _find_cost(self, call: ModelCall, usage: Usage) -> Cost:
        if call.response is not None and call.response.cost is not None:
            return call.response.cost
        model, provider, at = call.endpoint.model, call.endpoint.seller, int(time.time() * 1000)
        if self._pricing is not None:
            turn = Turn(key="", session="", model=model, provider=provider, at=at, usage=usage)
            return self._pricing.price(0, turn)
        prices = find_price(model, provider, config_prices=self._config.prices)
        return price_usage(usage, prices, at=at)


def open_tracer(config: Config, session_id: str, store: Store | None = None) -> Tracer | None:
    """Return a tracer of a session; None if traces are not saved."""
    return Tracer(config, session_id, store) if config.moa.save_traces else None


def trace_path(folder: Path, session_id: str) -> Path:
    """Return the file of a session's traces; an id cannot lead out of the folder."""
    return folder / file_name(session_id, ending=".jsonl")


def write_trace(folder: Path, session_id: str, record: TracedTurn | Mapping[str, Any]) -> None:
    """Append a turn with one write under a lock, so that turns of several writers never mix.

    A line left unfinished by a crash is closed first, so that only that line is lost.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    line = msgspec.json.encode(record) + b"\n"
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    with _lock:
        file = os.open(trace_path(folder, session_id), flags, 0o600)
        try:
            hold(file)
            size = os.lseek(file, 0, os.SEEK_END)
            if size:
                os.lseek(file, size - 1, os.SEEK_SET)
                line = line if os.read(file, 1) == b"\n" else b"\n" + line
            written = os.write(file, line)
            while written < len(line):  # a nearly full disk, or more than 2 GB
                written += os.write(file, line[written:])
        finally:
            os.close(file)


def read_trace(path: Path) -> TraceFile:
    """Return the turns of a file; unreadable lines are skipped and counted."""
    turns, skipped = [], 0
    for line in path.read_bytes().split(b"\n"):
        if not line.strip():
            continue
        try:
            turn = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            skipped += 1
            continue
        if isinstance(turn, dict) and _has_calls(turn):
            turns.append(turn)
        else:
            skipped += 1
    return TraceFile(path, turns, skipped)


def _has_calls(turn: dict[str, Any]) -> bool:
    calls = turn.get("references")
    if not isinstance(calls, list):
        return False
    return all(isinstance(one, dict) for one in [*calls, turn.get("aggregator") or {}])


def find_traces(folder: Path) -> Iterator[TraceFile]:
    """Yield all traces, newest first."""
    try:
        paths = sorted(folder.glob("*.jsonl"), key=lambda one: (-one.stat().st_mtime, one.name))
    except OSError:
        return
    yield from map(read_trace, paths)


def find_trace(folder: Path, name: str) -> TraceFile:
    """Return the trace of a session, by its id or a unique prefix of it."""
    name = name.removeprefix("relight:")
    if (path := trace_path(folder, name)).exists():
        return read_trace(path)
    found = [
        trace
        for trace in find_traces(folder)
        if trace.turns and str(trace.turns[0].get("session_id")).startswith(name)
    ]
    hint = "`relight moa traces` lists them; [moa] save_traces = true saves them"
    if not found:
        raise MissingError(f"there is no trace of {name!r}", hint)
    if len(found) > 1:
        several = ", ".join(str(one.turns[0].get("session_id")) for one in found[:8])
        raise MissingError(f"{name!r} could be {several}", hint)
    return found[0]


def list_traces(folder: Path) -> list[TraceSummary]:
    """Return the traced sessions, newest first, each with the sums of its turns."""
    rows = []
    for trace in find_traces(folder):
        cost, unpriced = sum_call_costs(call for turn in trace.turns for call in all_calls(turn))
        last = trace.turns[-1] if trace.turns else {}
        rows.append(
            TraceSummary(
                session_id=last.get("session_id"),
                file=str(trace.path),
                preset=last.get("preset"),
                turns=len(trace.turns),
                last_at=last.get("ts"),
                cost_usd=cost,
                unpriced_calls=unpriced,
                skipped_lines=trace.skipped,
            )
        )
    return rows


def report_trace(trace: TraceFile, number: int | None = None) -> TraceReport:
    """Return the turns of a trace, or one counted from 1, with how far the advisers agreed."""
    turns = trace.turns if number is None else trace.turns[number - 1 : number]
    if number is not None and not turns:
        raise MissingError(f"there is no turn {number}", f"there are {len(trace.turns)}")
    agreements = [compare_advice(turn) for turn in turns]
    cost, unpriced = sum_call_costs(call for turn in turns for call in all_calls(turn))
    return TraceReport(
        session_id=turns[0].get("session_id") if turns else None,
        turns=[
            {**turn, "agreement": agreement}
            for turn, agreement in zip(turns, agreements, strict=True)
        ],
        models=sum_models(turns, agreements),
        cost_usd=cost,
        unpriced_calls=unpriced,
        skipped_lines=trace.skipped,
    )


def was_charged(call: Mapping[str, Any]) -> bool:
    """True if a call can have cost anything: not cached, and not failed without output."""
    usage = call.get("usage") or {}
    has_tokens = isinstance(usage, Mapping) and usage.get("output_tokens") is not None
    return not call.get("cached") and (has_tokens or not call.get("failure"))


def read_cost(call: Mapping[str, Any]) -> float | None:
    """Return the cost of a call, which Hermes writes as text; None if it is unknown."""
    try:
        return float(call["cost_usd"])
    except (KeyError, TypeError, ValueError):
        return None


def sum_call_costs(calls: Iterable[Mapping[str, Any]]) -> tuple[float | None, int]:
    """Return the sum of the known costs, None without any, and the number of unknown ones."""
    costs = [read_cost(call) for call in calls if was_charged(call)]
    known = [cost for cost in costs if cost is not None]
    return (sum(known) if known else None), len(costs) - len(known)


def compare_advice(turn: Mapping[str, Any]) -> list[float | None]:
    """Return the share of words, 0 to 1, that each adviser has in common with the others.

    A word counts once, however often it occurs; None if there is nothing to compare.
    """
    words = [
        set(re.findall(r"\w{3,}", str(one.get("output") or "").lower()))
        if not one.get("failure")
        else set()
        for one in turn["references"]
    ]
    agreed: list[float | None] = []
    for place, own in enumerate(words):
        others = [other for at, other in enumerate(words) if at != place and other]
        shares = [len(own & other) / len(own | other) for other in others if own]
        agreed.append(sum(shares) / len(shares) if shares else None)
    return agreed


def all_calls(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calls of a turn; the acting model's, if there is one, is last."""
    acted = turn.get("aggregator")
    return [*turn["references"], *([acted] if acted else [])]


def sum_models(
    turns: Sequence[Mapping[str, Any]], agreements: Sequence[Sequence[float | None]]
) -> list[TracedModel]:
    """Return the sums of each model in each of its roles."""
    found: dict[tuple[str, str], TracedModel] = {}
    for turn, agreement in zip(turns, agreements, strict=True):
        for call, agreed in zip_longest(all_calls(turn), agreement):
            role = "aggregator" if call is turn.get("aggregator") else "reference"
            label = str(call.get("label") or call.get("model") or "unknown")
            row = found.setdefault((role, label), TracedModel(label=label, role=role))
            row.calls += not call.get("cached")
            row.failures += bool(call.get("failure")) and not call.get("cached")
            cost = read_cost(call) if was_charged(call) else None
            row.cost_usd = (row.cost_usd or 0) + cost if cost is not None else row.cost_usd
            row.unpriced_calls += cost is None and was_charged(call)
            row.duration_ms += 0 if call.get("cached") else call.get("duration_ms") or 0
            row.disagreed += agreed is not None and agreed < DISAGREEING
    return list(found.values())
