"""Mixtures of agents behind a client in the shape of OpenAI's, recorded and traced."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

from relight.checks import check_number
from relight.config import find_home, read_config
from relight.errors import RelightError
from relight.intake.recorder import SessionTracker, name_session
from relight.models import background
from relight.models.endpoints import Asked
from relight.store import Store
from relight.work.moa.journal import Journal
from relight.work.moa.mixture import Mixture, MoaTurn, find_preset
from relight.work.moa.shapes import (
    ChatCompletion,
    ChatCompletionChunk,
    plain_messages,
    shape_chunk,
    shape_completion,
)
from relight.work.moa.tracing import Tracer

Tools: TypeAlias = Sequence[Mapping[str, Any]] | None


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
        self.mixture = Mixture(self.preset)
        self._journal = Journal(store, self.session_id, self.preset.name)
        self._trace = Tracer(config, self.session_id, store)

    @property
    def recorder(self) -> SessionTracker | None:
        """The record of this client's session, where it was given a store."""
        return self._journal.tracker

    def _ask(
        self,
        messages: Iterable[Any],
        tools: Tools,
        options: Mapping[str, Any],
    ) -> Asked:
        """What was asked, in plain data of our own, and recorded."""
        plain = plain_messages(messages)
        asked = Asked(
            messages=plain,
            tools=tools,
            options=_choose_options(options),
            deadline=_find_deadline(options.get("timeout")),
        )
        self._journal.see(plain)
        return asked

    async def _answer(self, asked: Asked) -> ChatCompletion:
        turn = self.mixture.begin()
        try:
            await self.mixture.take(turn, asked)
        finally:
            self._end_turn(turn)
        return shape_turn(turn)

    async def _stream(self, asked: Asked) -> AsyncGenerator[dict[str, Any], None]:
        """The acting model's chunks; the one that only tells usage, where that was asked for."""
        options = asked.options.get("stream_options")
        wants_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        turn = self.mixture.begin()
        try:
            async with aclosing(self.mixture.stream(turn, asked)) as chunks:
                async for chunk in chunks:
                    if chunk.get("choices") or wants_usage or not chunk.get("usage"):
                        yield chunk
        finally:
            self._end_turn(turn)

    def _end_turn(self, turn: MoaTurn) -> None:
        self._trace(turn)
        self._journal.record(turn)


class MoA(_Client):
    """`client.chat.completions.create(messages=…, tools=…, stream=…)`, as OpenAI's client has it.

    `preset` is a name in config.toml, or the same as a dict. With a store, every call of every
    model is a recorded turn with its role.
    """

    @property
    def chat(self) -> "Chat":
        return Chat(self)

    def _give(
        self,
        messages: Iterable[Any],
        tools: Tools,
        options: Mapping[str, Any],
        *,
        is_streamed: bool,
    ) -> "ChatCompletion | Chunks":
        asked = self._ask(messages, tools, options)
        if is_streamed:
            return Chunks(self._stream(asked))
        return background.run(self._answer(asked))

    def close(self) -> None:
        self._journal.finish()

    def __enter__(self) -> "MoA":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncMoA(_Client):
    """The same for asynchronous programs: `await client.chat.completions.create(…)`."""

    @property
    def chat(self) -> "Chat":
        return Chat(self)

    async def _give(
        self,
        messages: Iterable[Any],
        tools: Tools,
        options: Mapping[str, Any],
        *,
        is_streamed: bool,
    ) -> "ChatCompletion | AsyncChunks":
        asked = self._ask(messages, tools, options)
        if is_streamed:
            return AsyncChunks(self._stream(asked))
        return await background.run_async(self._answer(asked))

    async def close(self) -> None:
        self._journal.finish()

    async def __aenter__(self) -> "AsyncMoA":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Chat:
    """What stands between a client and its completions in OpenAI's."""

    def __init__(self, client: "MoA | AsyncMoA") -> None:
        self.completions = Completions(client)


class Completions:
    def __init__(self, client: "MoA | AsyncMoA") -> None:
        self._client = client

    def create(
        self,
        *,
        messages: Iterable[Any],
        model: str | None = None,
        tools: Tools = None,
        stream: bool = False,
        **options: Any,
    ) -> Any:
        """A ChatCompletion or, streamed, an iterator of chunks; `model` is there for its shape.

        Of an asynchronous client either is to be awaited.
        """
        return self._client._give(messages, tools, options, is_streamed=stream)


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
    """Further fields of the request, as `tool_choice`; what only a connection has is refused."""
    for name in ("extra_headers", "extra_query"):
        if options.get(name):
            raise RelightError(f"{name} cannot be given", "keys and addresses are in the preset")
    own = {"timeout", "extra_headers", "extra_query", "extra_body"}
    fields = {name: value for name, value in options.items() if name not in own}
    return {**fields, **(options.get("extra_body") or {})}


def _find_deadline(seconds: object) -> float | None:
    if seconds is None:
        return None
    return time.monotonic() + check_number("timeout", seconds, least=0)


def shape_turn(turn: MoaTurn) -> ChatCompletion:
    """A turn as an answer of the acting model, with what is known of its advisers."""
    assert turn.aggregator is not None
    answer = turn.aggregator.find_answer()
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
