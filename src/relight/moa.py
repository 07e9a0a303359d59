"""Mixtures of agents behind a client in the shape of OpenAI's, recorded and traced."""

import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from relight import background
from relight.config import Config, find_home, read_config
from relight.conversations import read_calls, read_text
from relight.misses import count_miss
from relight.mixture import Called, Mixture, MoaTurn, find_preset, record_turn
from relight.model import Cost, Turn, Usage
from relight.prices import find_price, price_usage
from relight.recording import SessionTracker, name_session, record
from relight.shapes import ChatCompletion, ChatCompletionChunk, shape_chunk, shape_completion
from relight.store import Store
from relight.store.pricing import Pricing
from relight.times import write_time
from relight.traces import write_trace

logger = logging.getLogger("relight")


class Tracer:
    """Writes each turn of a session to its file; without `save_traces` it does nothing at all."""

    def __init__(self, config: Config, session_id: str, store: Store | None = None) -> None:
        self.folder: Path | None = config.trace_folder if config.save_traces else None
        self.session_id = session_id
        self._config, self._store = config, store
        self._pricing = Pricing(store) if store is not None and self.folder is not None else None

    def __call__(self, turn: MoaTurn) -> None:
        if self.folder is None:
            return
        try:
            write_trace(self.folder, self.session_id, self._describe(turn))
        except Exception as error:  # noqa: BLE001 - a failing trace never breaks a turn
            logger.warning("a trace was missed: %s", error)
            count_miss(self._store, self._config.home, f"a trace of {self.session_id}: {error}")

    def _describe(self, turn: MoaTurn) -> dict[str, Any]:
        acted = turn.aggregator
        place = "inline_from_stream" if acted.is_streamed else "inline"
        return {
            "ts": write_time(round(turn.at * 1000)),
            "session_id": self.session_id,
            "preset": turn.preset,
            "references": [self._describe_call(one) for one in turn.references],
            "aggregator": {
                **self._describe_call(acted),
                "streamed": acted.is_streamed,
                "output_location": place,
            },
        }

    def _describe_call(self, called: Called) -> dict[str, Any]:
        answer, endpoint = called.answer, called.endpoint
        usage = answer.usage if answer else Usage()
        cost = self._find_cost(called, usage)
        failure = called.failure
        told = {"kind": failure.kind, "reason": failure.reason} if failure else None
        return {
            "label": endpoint.label,
            "model": endpoint.model,
            "provider": endpoint.seller,
            "temperature": endpoint.temperature,
            "input_messages": called.messages,
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


class _Client:
    """What the plain and the asynchronous client share."""

    def __init__(
        self,
        preset: str | Mapping[str, Any],
        store: Store | None = None,
        session_id: str | None = None,
    ) -> None:
        config = store.config if store is not None else read_config(find_home())
        self.session_id = session_id or name_session(time.time())
        self.preset = find_preset(config, preset)
        self._journal = _Journal(store, self.session_id, self.preset.name)
        self._trace = Tracer(config, self.session_id, store)
        self.mixture = Mixture(self.preset, self._end_turn)

    @property
    def recorder(self) -> SessionTracker | None:
        """The record of this client's session, where it was given a store."""
        return self._journal.tracker

    def _end_turn(self, turn: MoaTurn) -> None:
        self._trace(turn)
        self._journal.record(turn)


class MoA(_Client):
    """`client.chat.completions.create(messages=…, tools=…, stream=…)`, as OpenAI's client has it.

    `preset` is a name in config.toml, or the same as a dict. With a store, every call of every
    model is a recorded turn with its role.
    """

    @property
    def chat(self) -> "_Chat":
        return _Chat(self)

    def close(self) -> None:
        self._journal.finish()

    def __enter__(self) -> "MoA":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncMoA(_Client):
    """The same for asynchronous programs: `await client.chat.completions.create(…)`."""

    @property
    def chat(self) -> "_AsyncChat":
        return _AsyncChat(self)

    async def close(self) -> None:
        self._journal.finish()

    async def __aenter__(self) -> "AsyncMoA":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Chat:
    def __init__(self, client: MoA) -> None:
        self.completions = Completions(client)


class _AsyncChat:
    def __init__(self, client: AsyncMoA) -> None:
        self.completions = AsyncCompletions(client)


class Completions:
    def __init__(self, client: MoA) -> None:
        self._client = client

    def create(
        self,
        *,
        messages: Sequence[Mapping[str, Any]],
        model: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        stream: bool = False,
        **options: Any,
    ) -> Any:
        """A ChatCompletion or, streamed, an iterator of chunks; `model` is there for its shape."""
        self._client._journal.see(messages)
        fields = _choose_options(options)
        if stream:
            chunks = self._client.mixture.stream(messages, tools=tools, options=fields)
            return Chunks(chunks)
        return shape_turn(
            background.run(self._client.mixture.turn(messages, tools=tools, options=fields))
        )


class AsyncCompletions:
    def __init__(self, client: AsyncMoA) -> None:
        self._client = client

    async def create(
        self,
        *,
        messages: Sequence[Mapping[str, Any]],
        model: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        stream: bool = False,
        **options: Any,
    ) -> Any:
        self._client._journal.see(messages)
        fields = _choose_options(options)
        if stream:
            chunks = self._client.mixture.stream(messages, tools=tools, options=fields)
            return AsyncChunks(chunks)
        turn = self._client.mixture.turn(messages, tools=tools, options=fields)
        return shape_turn(await background.run_async(turn))


class Chunks:
    """The acting model's chunks; leaving early, or `close`, ends its work."""

    def __init__(self, chunks: AsyncIterator[dict[str, Any]]) -> None:
        self._chunks = background.iterate(chunks)

    def __iter__(self) -> Iterator[ChatCompletionChunk]:
        return self

    def __next__(self) -> ChatCompletionChunk:
        return shape_chunk(next(self._chunks))

    def close(self) -> None:
        self._chunks.close()

    def __enter__(self) -> "Chunks":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncChunks:
    """The same for asynchronous programs."""

    def __init__(self, chunks: AsyncIterator[dict[str, Any]]) -> None:
        self._chunks = background.iterate_async(chunks)

    def __aiter__(self) -> AsyncIterator[ChatCompletionChunk]:
        return self

    async def __anext__(self) -> ChatCompletionChunk:
        return shape_chunk(await anext(self._chunks))

    async def close(self) -> None:
        await self._chunks.aclose()

    async def __aenter__(self) -> "AsyncChunks":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _choose_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Further fields of the request, as `tool_choice`; those of the client itself are not sent."""
    own = {"timeout", "extra_headers", "extra_query", "extra_body", "stream_options", "user"}
    return {
        **{k: v for k, v in options.items() if k not in own},
        **(options.get("extra_body") or {}),
    }


def shape_turn(turn: MoaTurn) -> ChatCompletion:
    """A turn as an answer of the acting model, with what is known of its advisers."""
    answer = turn.answer
    choice = {"message": answer.message, "finish_reason": answer.finish_reason or "stop"}
    shaped = shape_completion(
        {
            "id": answer.id,
            "created": answer.created or int(turn.at),
            "model": answer.model or turn.aggregator.endpoint.model,
            "choices": [choice],
            "usage": answer.raw_usage,
        }
    )
    shaped.moa = {
        "preset": turn.preset,
        "references": [
            {
                "label": one.endpoint.label,
                "output": one.text,
                "failure": one.failure.kind if one.failure else None,
                "duration_ms": round(one.duration_ms),
                "cached": one.is_cached,
            }
            for one in turn.references
        ],
    }
    return shaped


class _Journal:
    """Records a client's conversation: what is new in the messages it is given, and its turns."""

    def __init__(self, store: Store | None, session_id: str, preset: str) -> None:
        self.tracker: SessionTracker | None = None
        if store is not None:
            self.tracker = record(store, session_id, model=f"moa:{preset}")
        self._seen = 0
        self._lock = threading.Lock()

    def see(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Record what was said since the last time; a model's own words were told by its turn."""
        if self.tracker is None:
            return
        with self._lock:
            new = messages[self._seen :] if len(messages) > self._seen else ()
            self._seen = max(self._seen, len(messages))
        asked = {call.key: call for message in messages for call in read_calls(message)}
        for message in new:
            role, content = str(message.get("role")), message.get("content")
            if role == "tool":
                call = asked.get(str(message.get("tool_call_id")))
                tool = call.tool if call else str(message.get("name") or "")
                arguments = call.arguments if call else None
                name = call.key if call else None
                self.tracker.tool_call(tool, arguments, read_text(content), call_id=name)
            elif role != "assistant":
                self.tracker.message(role, content)

    def record(self, turn: MoaTurn) -> None:
        if self.tracker is not None:
            record_turn(self.tracker, turn)

    def finish(self) -> None:
        if self.tracker is not None:
            self.tracker.finish()
