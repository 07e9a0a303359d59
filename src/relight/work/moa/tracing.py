"""Writes what each model of a mixture received and said, where the user wants it kept."""

import logging
import time
from pathlib import Path
from typing import Any

import msgspec

from relight.config import Config
from relight.model import Cost, Turn, Usage
from relight.prices import find_price, price_usage
from relight.store import Store
from relight.store.derive.pricing import Pricing
from relight.store.misses import count_miss
from relight.times import write_time
from relight.work.moa.mixture import Called, MoaTurn
from relight.work.moa.traces import write_trace

logger = logging.getLogger("relight")


class Tracer:
    """Writes each turn of a session to its file; without `save_traces` it does nothing at all."""

    def __init__(self, config: Config, session_id: str, store: Store | None = None) -> None:
        self.folder: Path | None = config.trace_folder if config.moa.save_traces else None
        self.session_id = session_id
        self._config, self._store = config, store
        self._pricing = Pricing(store) if store is not None and self.folder is not None else None

    def __call__(self, turn: MoaTurn) -> None:
        if self.folder is None or not turn.asked:
            return
        try:
            write_trace(self.folder, self.session_id, self._describe(turn))
        except Exception as error:  # noqa: BLE001 - a failing trace never breaks a turn
            logger.warning("a trace was missed: %s", error)
            count_miss(self._store, self._config.home, f"a trace of {self.session_id}: {error}")

    def _describe(self, turn: MoaTurn) -> dict[str, Any]:
        acted = turn.aggregator
        return {
            "ts": write_time(round(turn.at * 1000)),
            "session_id": self.session_id,
            "preset": turn.preset,
            "references": [self._describe_call(one) for one in turn.references],
            # None where the turn was left before the acting model was asked
            "aggregator": self._describe_acting(acted) if acted and acted.was_asked else None,
        }

    def _describe_acting(self, called: Called) -> dict[str, Any]:
        is_streamed = called.request.is_stream
        return {
            **self._describe_call(called),
            "streamed": is_streamed,
            "output_location": "inline_from_stream" if is_streamed else "inline",
        }

    def _describe_call(self, called: Called) -> dict[str, Any]:
        answer, endpoint, request = called.answer, called.endpoint, called.request
        usage = answer.usage if answer else Usage()
        cost = self._find_cost(called, usage)
        failure = called.failure
        told = {"kind": failure.kind, "reason": failure.reason} if failure else None
        return {
            "label": endpoint.label,
            "model": endpoint.model,
            "provider": endpoint.seller,
            "temperature": request.settings.get("temperature"),
            "input_messages": request.messages,
            # all else that the request said
            "settings": request.settings,
            "output": answer.text if answer else None,
            "tool_calls": (answer.message.get("tool_calls") if answer else None),
            "usage": {f"{k}_tokens": v for k, v in msgspec.structs.asdict(usage).items()},
            "cost_usd": None if cost.nanos is None else cost.nanos / 1e9,
            "cost_status": cost.status,
            "cost_source": cost.source,
            "duration_ms": round(called.duration_ms),
            "first_token_ms": answer.first_token_ms if answer else None,
            "failure": told,
            "cached": called.is_cached,
        }

    def _find_cost(self, called: Called, usage: Usage) -> Cost:
        if called.answer is not None and called.answer.cost is not None:
            return called.answer.cost
        model, provider, at = called.endpoint.model, called.endpoint.seller, int(time.time() * 1000)
        if self._pricing is not None:
            turn = Turn(key="", session="", model=model, provider=provider, at=at, usage=usage)
            return self._pricing.price(0, turn)
        prices = find_price(model, provider, config_prices=self._config.prices)
        return price_usage(usage, prices, at=at)
