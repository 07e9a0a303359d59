"""A mixture of agents: advisers asked all at once, then the model that acts on their advice."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from relight.config import Config
from relight.errors import RelightError
from relight.intake.recorder import SessionTracker
from relight.judging.failures import classify_error
from relight.model import Failure
from relight.models.client import ask, open_stream
from relight.models.connections import read_key
from relight.models.endpoints import Asked, Endpoint, Request, Seconds, build_request, encode
from relight.models.responses import Answer, UpstreamError
from relight.models.retrying import OnAttempt
from relight.work.moa.advice import attach_guidance, make_guidance, make_view

CACHED_VIEWS = 64


class Preset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models advise, which one acts, and how long advice is waited for."""

    references: Annotated[list[Endpoint], Meta(min_length=1)]
    aggregator: Endpoint
    reference_timeout_seconds: Seconds = 60.0
    name: str = "preset"

    @property
    def endpoints(self) -> list[Endpoint]:
        return [*self.references, self.aggregator]


class Called(Struct, kw_only=True):
    """One model call: what was sent, and what came of it; nothing yet while it was not asked."""

    request: Request
    role: str | None = None
    answer: Answer | None = None
    error: UpstreamError | None = None
    duration_ms: float = 0.0
    is_cached: bool = False

    @property
    def endpoint(self) -> Endpoint:
        return self.request.endpoint

    @property
    def failure(self) -> Failure | None:
        return self.error.failure if self.error else None

    @property
    def was_asked(self) -> bool:
        return self.answer is not None or self.error is not None

    @property
    def text(self) -> str | None:
        return None if self.answer is None or self.error else self.answer.text

    def find_answer(self) -> Answer:
        """What the model said; its failure is raised."""
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer


class MoaTurn(Struct, kw_only=True):
    """One turn of a mixture: every adviser's call and, once it is its turn, the acting model's."""

    preset: str
    at: float
    references: list[Called] = []
    aggregator: Called | None = None

    @property
    def asked(self) -> list[Called]:
        """The calls that were made in this turn, in their order."""
        called = [*self.references, *([self.aggregator] if self.aggregator else [])]
        return [one for one in called if one.was_asked and not one.is_cached]


def find_preset(config: Config, preset: str | Mapping[str, Any]) -> Preset:
    """The preset of that name in the config, or the one given as the same fields."""
    if isinstance(preset, str):
        if preset not in config.moa.presets:
            known = ", ".join(config.moa.presets) or "none yet"
            raise RelightError(
                f"there is no preset {preset!r}",
                f"write [moa.presets.{preset}] in {config.home / 'config.toml'}; known: {known}",
            )
        fields: Mapping[str, Any] = {"name": preset} | dict(config.moa.presets[preset].items())
    else:
        fields = preset
    try:
        return msgspec.convert(dict(fields), Preset)
    except msgspec.ValidationError as error:
        raise RelightError(
            f"the preset {fields.get('name', 'given')!r} does not fit: {error}",
            "a preset has references, aggregator and reference_timeout_seconds",
        ) from error


async def note_answer(called: Called, *, on_attempt: OnAttempt | None = None) -> None:
    """Ask a model; what it says is noted in the call, a failure too.

    Whoever stops waiting finds it noted as interrupted.
    """
    started = _begin(called)
    try:
        called.answer = await ask(called.request, on_attempt=on_attempt)
        called.error = None
    except UpstreamError as error:
        called.error, called.answer = error, error.partial
    finally:
        called.duration_ms = (time.perf_counter() - started) * 1000


async def note_stream(called: Called) -> AsyncGenerator[dict[str, Any], None]:
    """The same for an answer that is passed on as it comes; its failure is raised too."""
    started = _begin(called)
    stream = None
    try:
        stream = await open_stream(called.request)
        async with aclosing(stream.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
        called.error = None
    except UpstreamError as error:
        called.error, called.answer = error, error.partial
        raise
    finally:
        if stream is not None and called.answer is None:
            called.answer = stream.answer
        called.duration_ms = (time.perf_counter() - started) * 1000


def _begin(called: Called) -> float:
    called.error = UpstreamError(classify_error("Request interrupted by user"))
    return time.perf_counter()


class Mixture:
    """Takes the turns of one preset; what became of each call is in the turn, however it ends."""

    def __init__(self, preset: Preset) -> None:
        self.preset = preset
        self._advice: OrderedDict[bytes, list[Called]] = OrderedDict()

    def begin(self) -> MoaTurn:
        return MoaTurn(preset=self.preset.name, at=time.time())

    async def take(
        self,
        turn: MoaTurn,
        asked: Asked,
        *,
        stream: bool = False,
        on_attempt: OnAttempt | None = None,
    ) -> None:
        """Take the turn as a whole; `on_attempt` hears of the acting model's tries."""
        acting = await self._prepare(turn, asked, stream=stream)
        await note_answer(acting, on_attempt=on_attempt)

    async def stream(self, turn: MoaTurn, asked: Asked) -> AsyncGenerator[dict[str, Any], None]:
        """The acting model's chunks as they come; whoever leaves early closes the connection."""
        acting = await self._prepare(turn, asked, stream=True)
        async with aclosing(note_stream(acting)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _prepare(self, turn: MoaTurn, asked: Asked, *, stream: bool) -> Called:
        """The acting model's call, with the advice in it."""
        # what cannot be sent, and which key is missing, is told before anyone is asked
        build_request(self.preset.aggregator, asked, stream=stream)
        for one in self.preset.references:
            read_key(one.key_variable)
        await self._advise(turn, asked)
        advice = [(one.endpoint.label, one.text) for one in turn.references]
        told = attach_guidance(asked.messages, make_guidance(self.preset.name, advice))
        request = build_request(
            self.preset.aggregator, msgspec.structs.replace(asked, messages=told), stream=stream
        )
        turn.aggregator = Called(request=request, role="aggregator")
        return turn.aggregator

    async def _advise(self, turn: MoaTurn, asked: Asked) -> None:
        """Advice on this view of the conversation; on the same view again, the same advice."""
        limit = self._limit_advice(asked.deadline)
        question = Asked(messages=make_view(asked.messages), deadline=limit)
        view = encode("messages", question.messages)
        labels = "\0".join([self.preset.name, *(one.label for one in self.preset.references)])
        key = hashlib.sha256(labels.encode() + bytes(view)).digest()
        if kept := self._advice.get(key):
            self._advice.move_to_end(key)
            turn.references = [msgspec.structs.replace(one, is_cached=True) for one in kept]
            return
        turn.references = [
            Called(request=build_request(one, question, messages=view), role="reference")
            for one in self.preset.references
        ]
        await asyncio.gather(*map(note_answer, turn.references))
        if any(one.error is None for one in turn.references):
            self._advice[key] = turn.references
            if len(self._advice) > CACHED_VIEWS:
                self._advice.popitem(last=False)

    def _limit_advice(self, deadline: float | None) -> float:
        """When advice must be there: half of the time that is left is the acting model's."""
        now, seconds = time.monotonic(), self.preset.reference_timeout_seconds
        return now + (seconds if deadline is None else min(seconds, max(deadline - now, 0) / 2))


def record_turn(rec: SessionTracker, turn: MoaTurn) -> str | None:
    """Record each call of a turn as a turn with its role; gives the last, the acting model's."""
    ids = [record_call(rec, one) for one in turn.asked]
    return ids[-1] if ids else None


def record_call(rec: SessionTracker, called: Called) -> str:
    answer = called.answer
    return rec.turn(
        model=called.endpoint.model,
        provider=called.endpoint.seller,
        role=called.role,
        usage=answer.usage if answer else None,
        cost=answer.cost if answer else None,
        message=answer.message if answer else None,
        duration_ms=called.duration_ms,
        first_token_ms=answer.first_token_ms if answer else None,
        failure=called.failure,
    )
