"""Mixtures of agents behind a client in the shape of OpenAI's, recorded and traced."""

import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias

from relight.chat.messages import find_max_tool_chars, read_calls, read_text, shorten_tool_results
from relight.config import find_home, read_config
from relight.errors import RelightError, check_number
from relight.intake.recorder import SessionTracker, make_session_name, record
from relight.models import background
from relight.models.endpoints import ChatRequest, encode_json
from relight.store import Store
from relight.work.moa import shapes
from relight.work.moa.mixture import Mixture, MoaTurn, find_preset, record_turn
from relight.work.moa.shapes import ChatCompletion, ChatCompletionChunk
from relight.work.moa.traces import open_tracer

Tools: TypeAlias = Sequence[Mapping[str, Any]] | None
MakeRequest: TypeAlias = Callable[[], ChatRequest]


class _NewMessages:
    """Finds the messages of a request that none of its session's conversations had before."""

    def __init__(self) -> None:
        # digests of every message: of its content, and of its content with all before it
        self._seen: set[bytes] = set()
        self._lock = threading.Lock()

    def find(self, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the messages that no conversation had at this place.

        A client may lead several conversations in turn, and shorten one on its way. So a message
        is identified by all that came before it. Before the last answer nothing can be new except
        what was left out until now, so there its content alone decides. A system prompt may change
        with every turn, and is identified by its content.
        """
        roles = [message.get("role") for message in messages]
        answered = max((n for n, role in enumerate(roles) if role == "assistant"), default=-1)
        new, so_far = [], b""
        with self._lock:
            for place, (message, role) in enumerate(zip(messages, roles, strict=True)):
                words = key = _digest(bytes(encode_json("message", message)))
                if role not in ("system", "developer"):
                    key = so_far = _digest(so_far + words)
                if key not in self._seen and (place > answered or words not in self._seen):
                    new.append(message)
                self._seen |= {key, words}
        return new


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


class _Client:
    """The common part of the synchronous and the asynchronous client.

    `recorder` records the client's session; it is None without a store.
    """

    def __init__(
        self,
        preset: str | Mapping[str, Any],
        store: Store | None = None,
        session_id: str | None = None,
    ) -> None:
        config = store.config if store is not None else read_config(find_home())
        self.session_id = session_id or make_session_name(time.time())
        self.max_tool_chars = find_max_tool_chars(config)
        self.preset = find_preset(config, preset)
        if config.moa.mute_share:
            from relight.work.moa.muting import mute_advisers

            self.preset = mute_advisers(store, self.preset, self.session_id)
        self.mixture = Mixture(self.preset)
        self.recorder: SessionTracker | None = None
        if store is not None:
            self.recorder = record(store, self.session_id, model=f"moa:{self.preset.name}")
        self._new_messages = _NewMessages()
        self._tracer = open_tracer(config, self.session_id, store)

    @property
    def chat(self) -> "Chat":
        return Chat(self)

    def _answer(self, make_request: MakeRequest, *, is_streamed: bool) -> Any:
        raise NotImplementedError

    def _make_request(
        self, messages: Iterable[Any], tools: Tools, options: Mapping[str, Any]
    ) -> ChatRequest:
        """Return the request in plain data, after recording its new messages.

        Long tool results are shortened in the request; the record has them in full.
        """
        plain, seconds, deadline = shapes.plain_messages(messages), options.get("timeout"), None
        if seconds is not None:
            deadline = time.monotonic() + check_number("timeout", seconds, least=0)
        request = ChatRequest(
            messages=shorten_tool_results(plain, max_chars=self.max_tool_chars),
            tools=tools,
            options=_choose_options(options),
            deadline=deadline,
        )
        if self.recorder is not None:
            self._record_messages(self.recorder, plain)
        return request

    def _record_messages(
        self, recorder: SessionTracker, messages: Sequence[Mapping[str, Any]]
    ) -> None:
        """Record the new messages; the model's own are recorded with its turns."""
        calls = {call.key: call for message in messages for call in read_calls(message)}
        for message in self._new_messages.find(messages):
            role, content = str(message.get("role")), message.get("content")
            if role == "tool":
                call = calls.get(str(message.get("tool_call_id")))
                recorder.tool_call(
                    call.tool if call else str(message.get("name") or ""),
                    call.arguments if call else None,
                    read_text(content),
                    call_id=call.key if call else None,
                )
            elif role != "assistant":
                recorder.message(role, content)

    async def _complete(self, request: ChatRequest) -> ChatCompletion:
        turn = self.mixture.begin()
        try:
            await self.mixture.take(turn, request)
        finally:
            self._record(turn)
        return shape_turn(turn)

    async def _stream(self, request: ChatRequest) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the acting model's chunks; one with only the usage comes if it was asked for."""
        options = request.options.get("stream_options")
        wants_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        turn = self.mixture.begin()
        try:
            async with aclosing(self.mixture.stream(turn, request)) as chunks:
                async for chunk in chunks:
                    if chunk.get("choices") or wants_usage or not chunk.get("usage"):
                        yield chunk
        finally:
            self._record(turn)

    def _record(self, turn: MoaTurn) -> None:
        if self._tracer is not None:
            self._tracer.write(turn)
        if self.recorder is not None:
            record_turn(self.recorder, turn)

    def _finish(self) -> None:
        if self.recorder is not None:
            self.recorder.finish()


class MoA(_Client):
    """A client with OpenAI's `client.chat.completions.create(messages=…, tools=…, stream=…)`.

    `preset` is a name in config.toml, or a dict of the same fields. With a store, every call of
    every model is recorded as a turn with its role.
    """

    def _answer(self, make_request: MakeRequest, *, is_streamed: bool) -> "ChatCompletion | Chunks":
        request = make_request()
        if is_streamed:
            return Chunks(self._stream(request))
        return background.run_coroutine(self._complete(request))

    def close(self) -> None:
        self._finish()

    def __enter__(self) -> "MoA":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncMoA(_Client):
    """`MoA` for asynchronous programs: `await client.chat.completions.create(…)`."""

    async def _answer(
        self, make_request: MakeRequest, *, is_streamed: bool
    ) -> "ChatCompletion | AsyncChunks":
        request = (
            make_request()
        )  # when it is awaited: only then it is recorded, and its time begins
        if is_streamed:
            return AsyncChunks(self._stream(request))
        return await background.run_async(self._complete(request))

    async def close(self) -> None:
        self._finish()

    async def __aenter__(self) -> "AsyncMoA":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Chat:
    """`client.chat` of OpenAI's client."""

    def __init__(self, client: _Client) -> None:
        self.completions = Completions(client)


class Completions:
    """`client.chat.completions` of OpenAI's client."""

    def __init__(self, client: _Client) -> None:
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
        """Return a ChatCompletion, or an iterator of chunks if streamed; `model` is ignored.

        An asynchronous client returns an awaitable of either.
        """
        make_request = partial(self._client._make_request, messages, tools, options)
        return self._client._answer(make_request, is_streamed=stream)


class Chunks:
    """The acting model's chunks; leaving early, or `close`, ends the call."""

    def __init__(self, chunks: AsyncIterator[dict[str, Any]]) -> None:
        self._chunks = background.iterate(chunks)

    def __iter__(self) -> Iterator[ChatCompletionChunk]:
        return self

    def __next__(self) -> ChatCompletionChunk:
        return shapes.shape_chunk(next(self._chunks))

    def close(self) -> None:
        self._chunks.close()

    def __enter__(self) -> "Chunks":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncChunks:
    """`Chunks` for asynchronous programs."""

    def __init__(self, chunks: AsyncIterator[dict[str, Any]]) -> None:
        self._chunks = background.iterate_async(chunks)

    def __aiter__(self) -> AsyncIterator[ChatCompletionChunk]:
        return self

    async def __anext__(self) -> ChatCompletionChunk:
        return shapes.shape_chunk(await anext(self._chunks))

    async def close(self) -> None:
        await self._chunks.aclose()

    async def __aenter__(self) -> "AsyncChunks":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _choose_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return further request fields, such as `tool_choice`; raise for connection settings."""
    for name in ("extra_headers", "extra_query"):
        if options.get(name):
            raise RelightError(f"{name} cannot be given", "keys and addresses are in the preset")
    own = {"timeout", "extra_headers", "extra_query", "extra_body"}
    fields = {name: value for name, value in options.items() if name not in own}
    return {**fields, **(options.get("extra_body") or {})}


def shape_turn(turn: MoaTurn) -> ChatCompletion:
    """Return a turn as the acting model's completion, with its advisers in `moa`."""
    assert turn.aggregator is not None
    response = turn.aggregator.require_response()
    choice = {"message": response.message, "finish_reason": response.finish_reason or "stop"}
    shaped = shapes.shape_completion(
        {
            "id": response.id,
            "created": response.created or int(turn.at),
            "model": response.model or turn.aggregator.endpoint.model,
            "choices": [choice],
            "usage": response.raw_usage,
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
