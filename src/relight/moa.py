"""Mixtures of agents behind a client in the shape of OpenAI's, recorded and traced."""

import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from relight import background
from relight.config import find_home, read_config
from relight.conversations import read_calls, read_text
from relight.mixture import Mixture, MoaTurn, find_preset, record_turn
from relight.recording import SessionTracker, name_session, record
from relight.shapes import ChatCompletion, ChatCompletionChunk, shape_chunk, shape_completion
from relight.store import Store
from relight.tracing import Tracer


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
