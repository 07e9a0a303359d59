"""What the agent asks, one model or a mixture of them; each answer is recorded as it comes."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from relight import background
from relight.answers import Answer, UpstreamError
from relight.config import Config
from relight.endpoints import Endpoint, build_request
from relight.failures import classify_error
from relight.mixture import Called, Mixture, find_preset, record_call, record_turn
from relight.recording import SessionTracker
from relight.store import Store
from relight.streams import name_calls
from relight.tracing import Tracer
from relight.upstream import ask

MOA = "moa:"


class Model(Protocol):
    """`answer` gives what the model says, recorded, or raises what failed, recorded too."""

    name: str
    provider: str
    key_variables: tuple[str, ...]

    def answer(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]],
        rec: SessionTracker,
        seconds: float | None,
    ) -> "Told": ...


class Told(Struct, frozen=True):
    """An answer, and the id of the turn it was recorded as."""

    answer: Answer
    turn: str


class OneModel:
    """A single model at an endpoint."""

    def __init__(self, endpoint: Endpoint, *, stream: bool = True) -> None:
        self.endpoint = endpoint
        self.stream = stream
        self.name, self.provider = endpoint.model, endpoint.seller
        self.key_variables = tuple(filter(None, [endpoint.key_variable]))

    def answer(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]],
        rec: SessionTracker,
        seconds: float | None,
    ) -> Told:
        endpoint = limit_time(self.endpoint, seconds)
        request = build_request(endpoint, messages, tools=tools, stream=self.stream)
        called = Called(endpoint=endpoint, role="", messages=request.messages)
        try:
            called.answer = background.run(ask(request))
        except UpstreamError as error:
            called.failure, called.answer = error.failure, error.partial
            self._record(rec, called)
            raise
        except BaseException:
            called.failure = classify_error("Request interrupted by user")
            self._record(rec, called)
            raise
        called.duration_ms = called.answer.duration_ms
        called.answer.message = name_calls(called.answer.message)
        return Told(called.answer, self._record(rec, called))

    def _record(self, rec: SessionTracker, called: Called) -> str:
        return record_call(rec, called)


class MixedModel:
    """A mixture of models as one."""

    def __init__(self, mixture: Mixture, *, stream: bool = True) -> None:
        self.mixture = mixture
        self.stream = stream
        preset = mixture.preset
        self.name, self.provider = f"{MOA}{preset.name}", "moa"
        endpoints = [*preset.references, preset.aggregator]
        self.key_variables = tuple({one.key_variable for one in endpoints if one.key_variable})

    def answer(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]],
        rec: SessionTracker,
        seconds: float | None,
    ) -> Told:
        if seconds is not None:
            preset = self.mixture.preset
            self.mixture.preset = msgspec.structs.replace(
                preset,
                aggregator=limit_time(preset.aggregator, seconds),
                reference_timeout_seconds=min(preset.reference_timeout_seconds, seconds),
            )
        turn = background.run(self.mixture.turn(messages, tools=tools, stream=self.stream))
        if turn.aggregator.answer is not None:
            turn.aggregator.answer.message = name_calls(turn.aggregator.answer.message)
        turn_id = record_turn(rec, turn)
        return Told(turn.answer, turn_id)


def limit_time(endpoint: Endpoint, seconds: float | None) -> Endpoint:
    if seconds is None:
        return endpoint
    return msgspec.structs.replace(
        endpoint, timeout_seconds=max(min(endpoint.timeout_seconds, seconds), 0.01)
    )


def choose_model(
    name: str, *, config: Config, endpoint: Endpoint, session_id: str, store: Store | None = None
) -> Model:
    """The model of that name at the endpoint; `moa:<preset>` is a mixture."""
    if not name.startswith(MOA):
        return OneModel(endpoint)
    preset = find_preset(config, name.removeprefix(MOA))
    return MixedModel(Mixture(preset, Tracer(config, session_id, store)))
