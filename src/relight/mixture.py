"""A mixture of agents: advisers asked all at once, then the model that acts on their advice."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Struct

from relight.advice import attach_guidance, make_guidance, make_view
from relight.answers import Answer, UpstreamError
from relight.config import Config
from relight.endpoints import Endpoint, Request, build_request, encode
from relight.errors import RelightError
from relight.failures import classify_error
from relight.model import Failure
from relight.recording import SessionTracker
from relight.upstream import AnswerStream, ask, open_stream

CACHED_VIEWS = 64

Messages = Sequence[Mapping[str, Any]]


class Preset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models advise, which one acts, and how long advice is waited for."""

    references: list[Endpoint]
    aggregator: Endpoint
    reference_timeout_seconds: float = 60.0
    name: str = "preset"


class Called(Struct, kw_only=True):
    """One model call of a mixture: what was sent, and what came of it."""

    endpoint: Endpoint
    role: str
    messages: msgspec.Raw
    answer: Answer | None = None
    failure: Failure | None = None
    duration_ms: float = 0.0
    is_cached: bool = False
    is_streamed: bool = False

    @property
    def text(self) -> str | None:
        return None if self.answer is None or self.failure else self.answer.text


class MoaTurn(Struct, kw_only=True):
    """One turn of a mixture: every adviser's call and the acting model's."""

    preset: str
    at: float
    references: list[Called]
    aggregator: Called

    @property
    def answer(self) -> Answer:
        """What the acting model said; its failure is raised."""
        acted = self.aggregator
        if acted.failure is not None or acted.answer is None:
            failure = acted.failure or classify_error("the model gave no answer")
            raise UpstreamError(failure, partial=acted.answer)
        return acted.answer


OnTurn = Callable[[MoaTurn], None]


def find_preset(config: Config, preset: str | Mapping[str, Any]) -> Preset:
    """The preset of that name in the config, or the one given as the same fields."""
    if isinstance(preset, str):
        if preset not in config.presets:
            known = ", ".join(config.presets) or "none yet"
            raise RelightError(
                f"there is no preset {preset!r}",
                f"write [moa.presets.{preset}] in {config.home / 'config.toml'}; known: {known}",
            )
        fields: Mapping[str, Any] = {"name": preset, **config.presets[preset]}
    else:
        fields = preset
    try:
        return msgspec.convert(dict(fields), Preset)
    except msgspec.ValidationError as error:
        raise RelightError(
            f"the preset {fields.get('name', 'given')!r} does not fit: {error}",
            "a preset has references, aggregator and reference_timeout_seconds",
        ) from error


class Mixture:
    """Runs turns of one preset; `on_turn` is told of each when it is over, however it ended."""

    def __init__(self, preset: Preset, on_turn: OnTurn | None = None) -> None:
        self.preset = preset
        self.on_turn = on_turn
        self._advice: OrderedDict[bytes, list[Called]] = OrderedDict()

    async def turn(
        self,
        messages: Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        stream: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> MoaTurn:
        """A whole turn; what became of the acting model's call is in it, be it a failure."""
        turn, request = await self._prepare(messages, tools, stream=stream, options=options)
        started = time.perf_counter()
        try:
            turn.aggregator.answer = await ask(request)
        except UpstreamError as error:
            turn.aggregator.failure, turn.aggregator.answer = error.failure, error.partial
        except asyncio.CancelledError as error:
            turn.aggregator.failure = classify_error(error)
            raise
        finally:
            turn.aggregator.duration_ms = (time.perf_counter() - started) * 1000
            self._tell(turn)
        return turn

    async def stream(
        self,
        messages: Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The acting model's chunks as they come; whoever leaves early closes the connection."""
        turn, request = await self._prepare(messages, tools, stream=True, options=options)
        acted, started = turn.aggregator, time.perf_counter()
        stream: AnswerStream | None = None
        try:
            stream = await open_stream(request)
            async with aclosing(stream.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
            acted.answer = stream.answer
        except UpstreamError as error:
            acted.failure, acted.answer = error.failure, error.partial
            raise
        except (asyncio.CancelledError, GeneratorExit):
            acted.failure = classify_error("Request interrupted by user")
            acted.answer = stream.answer if stream else None
            raise
        finally:
            acted.duration_ms = (time.perf_counter() - started) * 1000
            self._tell(turn)

    async def _prepare(
        self,
        messages: Messages,
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        stream: bool,
        options: Mapping[str, Any] | None,
    ) -> tuple[MoaTurn, Request]:
        references = await self._advise(messages)
        block = make_guidance(
            self.preset.name, [(one.endpoint.label, one.text) for one in references]
        )
        told = attach_guidance(messages, block)
        endpoint = self.preset.aggregator
        request = build_request(endpoint, told, tools=tools, stream=stream, options=options)
        acted = Called(
            endpoint=endpoint, role="aggregator", messages=request.messages, is_streamed=stream
        )
        turn = MoaTurn(
            preset=self.preset.name, at=time.time(), references=references, aggregator=acted
        )
        return turn, request

    async def _advise(self, messages: Messages) -> list[Called]:
        """Advice on this view of the conversation; on the same view again, the same advice."""
        view = msgspec.Raw(encode(make_view(messages)))
        labels = "\0".join([self.preset.name, *(one.label for one in self.preset.references)])
        key = hashlib.sha256(labels.encode() + bytes(view)).digest()
        if kept := self._advice.get(key):
            self._advice.move_to_end(key)
            return [msgspec.structs.replace(one, is_cached=True) for one in kept]
        found = await asyncio.gather(
            *(self._ask_adviser(one, view) for one in self.preset.references)
        )
        if any(one.failure is None for one in found):
            self._advice[key] = found
            if len(self._advice) > CACHED_VIEWS:
                self._advice.popitem(last=False)
        return found

    async def _ask_adviser(self, endpoint: Endpoint, view: msgspec.Raw) -> Called:
        called = Called(endpoint=endpoint, role="reference", messages=view)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self.preset.reference_timeout_seconds):
                called.answer = await ask(build_request(endpoint, view))
        except (UpstreamError, TimeoutError, RelightError) as error:
            known = getattr(error, "failure", None)
            called.failure = known if isinstance(known, Failure) else classify_error(error)
            called.answer = getattr(error, "partial", None)
        called.duration_ms = (time.perf_counter() - started) * 1000
        return called

    def _tell(self, turn: MoaTurn) -> None:
        if self.on_turn is not None:
            self.on_turn(turn)


def record_turn(rec: SessionTracker, turn: MoaTurn) -> str:
    """Record each call of a turn as a turn with its role; gives the acting model's."""
    for one in turn.references:
        if not one.is_cached:
            record_call(rec, one)
    return record_call(rec, turn.aggregator)


def record_call(rec: SessionTracker, called: Called) -> str:
    answer = called.answer
    return rec.turn(
        model=called.endpoint.model,
        provider=called.endpoint.seller,
        role=called.role or None,
        usage=answer.usage if answer else None,
        cost=answer.cost if answer else None,
        message=answer.message if answer else None,
        duration_ms=called.duration_ms,
        first_token_ms=answer.first_token_ms if answer else None,
        failure=called.failure,
    )
