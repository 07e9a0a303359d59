"""A mixture of agents: several advisers are asked at once, then one model acts on their advice."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from relight.chat.messages import read_calls, read_text, trim_text
from relight.config import Config
from relight.errors import RelightError
from relight.intake.recorder import SessionTracker
from relight.judging.failures import classify_error
from relight.model import Failure
from relight.models import endpoints
from relight.models.client import complete, open_stream
from relight.models.endpoints import (
    ChatRequest,
    EncodedRequest,
    Endpoint,
    ModelResponse,
    UpstreamError,
)
from relight.models.retrying import OnAttempt

CACHED_VIEWS = 64
ARGUMENT_CHARS = 2000
ADVISER = (
    "You are one of several advisers to an assistant that works with tools. You see its"
    " conversation so far; tool calls and their results are shown as text. You cannot call"
    " tools. Say what the assistant should do or answer next, and why: be brief and concrete, name"
    " risks and mistakes you see, and do not address the user."
)
ASK = "What should the assistant do or answer next?"
GUIDANCE = (
    "[Mixture of Agents: advice from other models, not from the user. Weigh it, trust your own"
    " judgement where it disagrees, and do not mention it.]"
)
NO_ADVICE = "No adviser answered this time: go by your own judgement."


class Preset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A preset: the advising models, the acting model, and the time limit for advice."""

    references: Annotated[list[Endpoint], Meta(min_length=1)]
    aggregator: Endpoint
    reference_timeout_seconds: endpoints.Seconds = 60.0
    name: str = "preset"

    @property
    def endpoints(self) -> list[Endpoint]:
        return [*self.references, self.aggregator]


class ModelCall(Struct, kw_only=True):
    """One model call: its request and its outcome, which is empty until the model is asked."""

    request: EncodedRequest
    role: str | None = None
    response: ModelResponse | None = None
    error: UpstreamError | None = None
    # from the beginning to the end of the call; if it stays so, the call was interrupted
    is_open: bool = False
    duration_ms: float = 0.0
    is_cached: bool = False
    # attempts that were given up and repeated, and are charged all the same
    abandoned: list[Failure] = []

    @property
    def endpoint(self) -> Endpoint:
        return self.request.endpoint

    @property
    def failure(self) -> Failure | None:
        if self.error:
            return self.error.failure
        return classify_error("Request interrupted by user") if self.is_open else None

    @property
    def was_sent(self) -> bool:
        return self.is_open or self.response is not None or self.error is not None

    @property
    def text(self) -> str | None:
        return None if self.response is None or self.failure else self.response.text

    def require_response(self) -> ModelResponse:
        """Return the response, or raise the call's failure."""
        if self.failure is not None:
            raise self.error or UpstreamError(self.failure)
        assert self.response is not None
        return self.response


class CallProgress(Struct, frozen=True):
    """A step of a call in a turn: it begins, waits for another attempt, or has ended."""

    step: Literal["begins", "waits", "ended"]
    call: ModelCall
    failure: Failure | None = None
    wait_seconds: float | None = None


class MoaTurn(Struct, kw_only=True):
    """One turn of a mixture: the advisers' calls and then the acting model's."""

    preset: str
    at: float
    references: list[ModelCall] = []
    aggregator: ModelCall | None = None

    @property
    def sent(self) -> list[ModelCall]:
        """The calls that were made in this turn, in order."""
        calls = [*self.references, *([self.aggregator] if self.aggregator else [])]
        return [one for one in calls if one.was_sent and not one.is_cached]


def find_preset(config: Config, preset: str | Mapping[str, Any]) -> Preset:
    """Return the preset of that name in the config, or the one given by its fields."""
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


async def send_call(call: ModelCall, *, on_attempt: OnAttempt | None = None) -> None:
    """Make the call and set its response or error; if interrupted, it stays open."""
    call.error, call.is_open, started = None, True, time.perf_counter()

    def note(number: int, failure: Failure | None, wait_seconds: float | None) -> None:
        if failure is not None and wait_seconds is not None and not failure.is_refusal:
            call.abandoned.append(failure)
        if on_attempt is not None:
            on_attempt(number, failure, wait_seconds)

    try:
        call.response = await complete(call.request, on_attempt=note)
        call.is_open = False
    except UpstreamError as error:
        call.error, call.response = error, error.partial
    finally:
        call.duration_ms = (time.perf_counter() - started) * 1000


async def send_streamed(call: ModelCall) -> AsyncGenerator[dict[str, Any], None]:
    """Make the call, yield its chunks, and set its response or error; errors are also raised."""
    call.error, call.is_open, started = None, True, time.perf_counter()
    stream = None
    try:
        stream = await open_stream(call.request)
        async with aclosing(stream.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
        call.is_open = False
    except UpstreamError as error:
        call.error, call.response = error, error.partial
        raise
    finally:
        if stream is not None and call.response is None:
            call.response = stream.response
        call.duration_ms = (time.perf_counter() - started) * 1000


class Mixture:
    """Takes the turns of one preset; each turn holds the outcomes of its calls, however it ends."""

    def __init__(self, preset: Preset) -> None:
        self.preset = preset
        # called in the background thread
        self.on_progress: Callable[[CallProgress], object] | None = None
        self._advice: OrderedDict[bytes, list[ModelCall]] = OrderedDict()

    def begin(self) -> MoaTurn:
        return MoaTurn(preset=self.preset.name, at=time.time())

    async def take(
        self,
        turn: MoaTurn,
        chat: ChatRequest,
        *,
        stream: bool = False,
        on_attempt: OnAttempt | None = None,
    ) -> None:
        """Take the whole turn; `on_attempt` is called for the acting model's attempts."""
        acting = await self._prepare(turn, chat, stream=stream)
        await self._send(acting, on_attempt=on_attempt)

    async def _send(self, call: ModelCall, *, on_attempt: OnAttempt | None = None) -> None:
        """Make a call, and report its progress."""
        report = self.on_progress
        if report is None:
            await send_call(call, on_attempt=on_attempt)
            return

        def note(number: int, failure: Failure | None, wait_seconds: float | None) -> None:
            if wait_seconds is not None:
                report(CallProgress("waits", call, failure, wait_seconds))
            if on_attempt is not None:
                on_attempt(number, failure, wait_seconds)

        report(CallProgress("begins", call))
        await send_call(call, on_attempt=note)
        report(CallProgress("ended", call, call.failure))

    async def stream(
        self, turn: MoaTurn, chat: ChatRequest
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the acting model's chunks; leaving early closes the connection."""
        acting = await self._prepare(turn, chat, stream=True)
        async with aclosing(send_streamed(acting)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _prepare(self, turn: MoaTurn, chat: ChatRequest, *, stream: bool) -> ModelCall:
        """Return the acting model's call, with the advice in it."""
        # a request that cannot be sent, or a missing key, is reported before any call
        endpoints.build_request(self.preset.aggregator, chat, stream=stream)
        for one in self.preset.references:
            endpoints.read_key(one.key_variable)
        await self._advise(turn, chat)
        if advice := [(one.endpoint.label, one.text) for one in turn.references]:
            block = make_guidance(self.preset.name, advice)
            chat = msgspec.structs.replace(chat, messages=attach_guidance(chat.messages, block))
        # without an adviser, since all are muted, the acting model gets the conversation as it is
        request = endpoints.build_request(self.preset.aggregator, chat, stream=stream)
        turn.aggregator = ModelCall(request=request, role="aggregator")
        return turn.aggregator

    async def _advise(self, turn: MoaTurn, chat: ChatRequest) -> None:
        """Set the turn's advice; the same view of the conversation is answered from a cache."""
        if not self.preset.references:
            return
        deadline = self._limit_advice(chat.deadline)
        question = ChatRequest(
            messages=make_view(chat.messages), deadline=deadline, retries=chat.retries
        )
        view = endpoints.encode_json("messages", question.messages)
        labels = "\0".join([self.preset.name, *(one.label for one in self.preset.references)])
        key = hashlib.sha256(labels.encode() + bytes(view)).digest()
        if cached := self._advice.get(key):
            self._advice.move_to_end(key)
            turn.references = [msgspec.structs.replace(one, is_cached=True) for one in cached]
            return
        turn.references = [
            ModelCall(
                request=endpoints.build_request(one, question, messages=view), role="reference"
            )
            for one in self.preset.references
        ]
        await asyncio.gather(*map(self._send, turn.references))
        if any(one.failure is None for one in turn.references):
            self._advice[key] = turn.references
            if len(self._advice) > CACHED_VIEWS:
                self._advice.popitem(last=False)

    def _limit_advice(self, deadline: float | None) -> float:
        """Return the deadline for advice, which leaves half of the time to the acting model."""
        now, seconds = time.monotonic(), self.preset.reference_timeout_seconds
        return now + (seconds if deadline is None else min(seconds, max(deadline - now, 0) / 2))


def make_view(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return an adviser's view: plain text, no system prompt, a user message last.

    >>> [one["role"] for one in make_view([{"role": "user", "content": "Go"}])]
    ['system', 'user']
    """
    view: list[dict[str, Any]] = [{"role": "system", "content": ADVISER}]
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer"):
            continue
        text = _format_message(message)
        speaker = "assistant" if role == "assistant" else "user"
        if not text:
            continue
        if view[-1]["role"] == speaker:
            view[-1] = {"role": speaker, "content": f"{view[-1]['content']}\n\n{text}"}
        else:
            view.append({"role": speaker, "content": text})
    if view[-1]["role"] != "user":
        view.append({"role": "user", "content": ASK})
    return view


def _format_message(message: Mapping[str, Any]) -> str:
    text = read_text(message.get("content"))
    if message.get("role") == "tool":
        return f"[tool result: {text}]"
    calls = [
        f"[called tool: {call.tool}({trim_text(read_text(call.arguments), ARGUMENT_CHARS)})]"
        for call in read_calls(message)
    ]
    return "\n".join([text, *calls] if text else calls)


def make_guidance(preset: str, answers: Sequence[tuple[str, str | None]]) -> str:
    """Return the block of advice from labels and texts; the text of a failed call is None."""
    lines = [GUIDANCE, f"Preset: {preset}"]
    if not any(text is not None for _, text in answers):
        lines.append(NO_ADVICE)
    for number, (label, text) in enumerate(answers, start=1):
        said = "(no answer)" if text is None else text
        lines.append(f"\nAdviser {number} — {label}:\n{said}")
    return "\n".join(lines)


def attach_guidance(messages: Sequence[Mapping[str, Any]], block: str) -> list[Mapping[str, Any]]:
    """Return the conversation with the block at its end; the given messages are not changed.

    At the end, so that everything before it is unchanged and read from the cache. In the last user
    message if there is one, since some models reject two user messages in a row.
    """
    *before, last = [*messages] or [{"role": "user", "content": ""}]
    if last.get("role") != "user":
        return [*before, last, {"role": "user", "content": block}]
    content = last.get("content")
    if isinstance(content, list):
        return [*before, {**last, "content": [*content, {"type": "text", "text": block}]}]
    joined = f"{content}\n\n{block}" if content else block
    return [*before, {**last, "content": joined}]


def record_turn(rec: SessionTracker, turn: MoaTurn) -> str | None:
    """Record each call of a turn with its role; return the id of the acting model's."""
    ids = [record_call(rec, one) for one in turn.sent]
    return ids[-1] if ids else None


def record_call(rec: SessionTracker, call: ModelCall) -> str:
    """Record one model call as a turn; return its id.

    Attempts that broke off before it are failed calls of unknown cost.
    """
    response = call.response
    for failure in call.abandoned:
        rec.turn(
            model=call.endpoint.model,
            provider=call.endpoint.seller,
            role=call.role,
            failure=failure,
        )
    return rec.turn(
        model=call.endpoint.model,
        provider=call.endpoint.seller,
        role=call.role,
        usage=response.usage if response else None,
        cost=response.cost if response else None,
        message=response.message if response else None,
        duration_ms=call.duration_ms,
        first_token_ms=response.first_token_ms if response else None,
        failure=call.failure,
    )
