"""Traces of mixtures: what each model of a turn received, byte for byte, and what it answered.

A session has one file with one JSON line per turn. Traces are exact and therefore not redacted, so
only the user may read them.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from relight.config import Config
from relight.locks import append_whole, hold, make_folder, open_private
from relight.model import Cost, Turn, Usage
from relight.names import file_name
from relight.prices import find_price, price_usage
from relight.store import Store
from relight.store.derive.pricing import Pricing
from relight.store.misses import count_miss
from relight.times import write_time
from relight.work.moa.mixture import MoaTurn, ModelCall

# the figures of a response from the cache, which belong to the call that was made
CACHED: dict[str, Any] = {
    "usage": {},
    "cost_usd": 0.0,
    "cost_status": "cached",
    "cost_source": None,
    "duration_ms": None,
    "first_token_ms": None,
}

logger = logging.getLogger("relight")
_lock = threading.Lock()


class TracedFailure(Struct, frozen=True):
    kind: str
    reason: str


class TracedCall(Struct, frozen=True, kw_only=True):
    """One model call as it is traced; `settings` are the other fields of the request.

    A response from the cache cost nothing again and took no time: sums of a file count a call once.
    """

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
    duration_ms: int | None
    first_token_ms: float | None
    failure: TracedFailure | None
    cached: bool
    # of the acting model
    streamed: bool | UnsetType = UNSET
    output_location: str | UnsetType = UNSET


class TracedTurn(Struct, frozen=True, kw_only=True):
    """One line of a trace; `aggregator` is None if the acting model was not asked."""

    ts: str | None
    session_id: str
    preset: str
    references: list[TracedCall]
    aggregator: TracedCall | None


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
        acting, traced = turn.aggregator, None
        if acting and acting.was_sent:
            is_streamed = acting.request.is_stream
            location = "inline_from_stream" if is_streamed else "inline"
            traced = self._describe_call(acting)
            traced = replace(traced, streamed=is_streamed, output_location=location)
        return TracedTurn(
            ts=write_time(round(turn.at * 1000)),
            session_id=self.session_id,
            preset=turn.preset,
            references=[self._describe_call(one) for one in turn.references],
            aggregator=traced,
        )

    def _describe_call(self, call: ModelCall) -> TracedCall:
        response, endpoint, request = call.response, call.endpoint, call.request
        failure = call.failure
        # a call that was refused before any answer costs nothing
        usage = response.usage if response else failure.usage if failure else Usage()
        cost = self._find_cost(call, usage)
        traced = TracedCall(
            label=endpoint.label,
            model=endpoint.model,
            provider=endpoint.seller,
            temperature=request.settings.get("temperature"),
            input_messages=request.messages,
            settings=request.settings,
            output=response.text if response else None,
            tool_calls=response.message.get("tool_calls") if response else None,
            usage={f"{name}_tokens": one for name, one in asdict(usage).items()},
            cost_usd=None if cost.nanos is None else cost.nanos / 1e9,
            cost_status=cost.status,
            cost_source=cost.source,
            duration_ms=round(call.duration_ms),
            first_token_ms=response.first_token_ms if response else None,
            failure=TracedFailure(failure.kind, failure.reason) if failure else None,
            cached=call.is_cached,
        )
        return replace(traced, **CACHED) if call.is_cached else traced

    def _find_cost(self, call: ModelCall, usage: Usage) -> Cost:
        if call.response is not None and call.response.cost is not None:
            return call.response.cost
        model, provider, at = call.endpoint.model, call.endpoint.seller, int(time.time() * 1000)
        if self._pricing is not None:
            turn = Turn(key="", session="", model=model, provider=provider, at=at, usage=usage)
            return self._pricing.price(0, turn)
        prices = find_price(model, provider, config=self._config)
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
    make_folder(folder)
    line = msgspec.json.encode(record) + b"\n"
    with _lock:
        file = open_private(trace_path(folder, session_id), os.O_RDWR | os.O_APPEND)
        try:
            hold(file)
            size = os.lseek(file, 0, os.SEEK_END)
            if size:
                os.lseek(file, size - 1, os.SEEK_SET)
                line = line if os.read(file, 1) == b"\n" else b"\n" + line
            append_whole(file, line)
        finally:
            os.close(file)
