"""The models an agent can use: one at an endpoint, or a mixture; every response is recorded."""

import os
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from relight.chat.answers import name_calls
from relight.config import Config
from relight.errors import RelightError
from relight.intake.recorder import SessionTracker
from relight.models import background
from relight.models.endpoints import OPENAI, ChatRequest, Endpoint, ModelResponse, build_request
from relight.models.retrying import OnAttempt
from relight.store import Store
from relight.work.moa import mixture as moa
from relight.work.moa.mixture import Mixture, ModelCall
from relight.work.moa.traces import Tracer, open_tracer

MOA = "moa:"


class RecordedResponse(Struct, frozen=True):
    """A response, and the id of the turn it was recorded as."""

    response: ModelResponse
    turn: str


class OneModel:
    """A single model at an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.name, self.provider = endpoint.model, endpoint.seller
        self.key_variables = tuple(filter(None, [endpoint.key_variable]))

    def respond(
        self, chat: ChatRequest, rec: SessionTracker, *, on_attempt: OnAttempt | None = None
    ) -> RecordedResponse:
        call = ModelCall(request=build_request(self.endpoint, chat, stream=True))
        try:
            background.run_coroutine(moa.send_call(call, on_attempt=on_attempt))
        finally:  # also after Ctrl-C: the request was sent, and may be charged
            _name_calls(call)
            turn = moa.record_call(rec, call) if call.was_sent else ""
        return RecordedResponse(call.require_response(), turn)


class MixedModel:
    """A mixture of models as one."""

    def __init__(self, mixture: Mixture, tracer: Tracer | None = None) -> None:
        self.mixture, self.tracer = mixture, tracer
        preset = mixture.preset
        self.name, self.provider = f"{MOA}{preset.name}", "moa"
        self.key_variables = tuple({one.key_variable or "" for one in preset.endpoints} - {""})

    def respond(
        self, chat: ChatRequest, rec: SessionTracker, *, on_attempt: OnAttempt | None = None
    ) -> RecordedResponse:
        turn = self.mixture.begin()
        try:
            taken = self.mixture.take(turn, chat, stream=True, on_attempt=on_attempt)
            background.run_coroutine(taken)
        finally:
            if self.tracer is not None:
                self.tracer.write(turn)
            if turn.aggregator is not None:
                _name_calls(turn.aggregator)
            name = moa.record_turn(rec, turn)
        assert turn.aggregator is not None
        assert name is not None
        return RecordedResponse(turn.aggregator.require_response(), name)


# `respond` returns a response or raises UpstreamError; both are recorded
Model: TypeAlias = OneModel | MixedModel


def _name_calls(call: ModelCall) -> None:
    if call.response is not None:
        call.response.message = name_calls(call.response.message)


def find_endpoint(
    model: str,
    *,
    base_url: str | None = None,
    key_variable: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Endpoint:
    """Return the endpoint of a model.

    Without an address, OpenAI's environment variables are used. A given address gets a key only if
    `key_variable` names it.
    """
    environment = os.environ if environment is None else environment
    if base_url is None:
        base_url = environment.get("OPENAI_BASE_URL") or OPENAI
        if key_variable is None and environment.get("OPENAI_API_KEY"):
            key_variable = "OPENAI_API_KEY"
    if not base_url.startswith(("http://", "https://")):
        raise RelightError(f"{base_url!r} is not an address", "it begins with http:// or https://")
    return Endpoint(model=model, base_url=base_url, key_variable=key_variable)


def choose_model(
    name: str, *, config: Config, endpoint: Endpoint, session_id: str, store: Store | None = None
) -> Model:
    """Return the model at the endpoint, or a mixture for `moa:PRESET`."""
    if not name.startswith(MOA):
        return OneModel(endpoint)
    preset = moa.find_preset(config, name.removeprefix(MOA))
    if config.moa.mute_share:
        from relight.work.moa.muting import mute_advisers

        preset = mute_advisers(store, preset, session_id)
    return MixedModel(Mixture(preset), open_tracer(config, session_id, store))
