"""What the agent asks, one model or a mixture of them; each answer is recorded as it comes."""

from typing import Protocol

from msgspec import Struct

from relight.chat.streams import name_calls
from relight.config import Config
from relight.intake.recorder import SessionTracker
from relight.models import background
from relight.models.endpoints import Asked, Endpoint, build_request
from relight.models.responses import Answer
from relight.models.retrying import OnAttempt
from relight.store import Store
from relight.work.moa.mixture import (
    Called,
    Mixture,
    find_preset,
    note_answer,
    record_call,
    record_turn,
)
from relight.work.moa.tracing import Tracer

MOA = "moa:"


class Model(Protocol):
    """`answer` gives what the model says, recorded, or raises what failed, recorded too."""

    name: str
    provider: str
    key_variables: tuple[str, ...]

    def answer(
        self, asked: Asked, rec: SessionTracker, *, on_attempt: OnAttempt | None = None
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
        self, asked: Asked, rec: SessionTracker, *, on_attempt: OnAttempt | None = None
    ) -> Told:
        called = Called(request=build_request(self.endpoint, asked, stream=self.stream))
        try:
            background.run(note_answer(called, on_attempt=on_attempt))
        finally:  # after Ctrl-C too: it was asked, and may be charged
            _name_calls(called)
            turn = record_call(rec, called) if called.was_asked else ""
        return Told(called.find_answer(), turn)


class MixedModel:
    """A mixture of models as one."""

    def __init__(self, mixture: Mixture, trace: Tracer, *, stream: bool = True) -> None:
        self.mixture, self.trace = mixture, trace
        self.stream = stream
        preset = mixture.preset
        self.name, self.provider = f"{MOA}{preset.name}", "moa"
        self.key_variables = tuple({one.key_variable or "" for one in preset.endpoints} - {""})

    def answer(
        self, asked: Asked, rec: SessionTracker, *, on_attempt: OnAttempt | None = None
    ) -> Told:
        turn = self.mixture.begin()
        try:
            taken = self.mixture.take(turn, asked, stream=self.stream, on_attempt=on_attempt)
            background.run(taken)
        finally:
            self.trace(turn)
            if turn.aggregator is not None:
                _name_calls(turn.aggregator)
            name = record_turn(rec, turn)
        assert turn.aggregator is not None
        assert name is not None
        return Told(turn.aggregator.find_answer(), name)


def _name_calls(called: Called) -> None:
    if called.answer is not None:
        called.answer.message = name_calls(called.answer.message)


def choose_model(
    name: str, *, config: Config, endpoint: Endpoint, session_id: str, store: Store | None = None
) -> Model:
    """The model of that name at the endpoint; `moa:<preset>` is a mixture."""
    if not name.startswith(MOA):
        return OneModel(endpoint)
    preset = find_preset(config, name.removeprefix(MOA))
    return MixedModel(Mixture(preset), Tracer(config, session_id, store))
