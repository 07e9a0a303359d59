"""A run of the agent as a person or a job asks for it: which model, which start, which tools."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from relight.chat.shorten import MAX_TOOL_CHARS
from relight.errors import RelightError
from relight.intake.recorder import name_session, record
from relight.models.connections import read_key
from relight.models.endpoints import OPENAI, Endpoint
from relight.store import Store
from relight.warm.injection import render_template
from relight.warm.library import find_template
from relight.warm.provision import provision_session
from relight.work.agent.guard import Budget
from relight.work.agent.loop import OnEvent, RunResult, run_agent
from relight.work.agent.models import MOA, Model, choose_model
from relight.work.agent.results import find_folder
from relight.work.agent.tools import choose_tools


class Start(Struct, frozen=True):
    """What a run began with: a template by its name, the arm, and the text put before the task."""

    template: str | None = None
    arm: str | None = None
    text: str | None = None


def find_endpoint(
    model: str,
    *,
    base_url: str | None = None,
    key_variable: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Endpoint:
    """Where a model is asked, and with which key.

    OpenAI's own variables serve where no address is given; to an address that is, no key goes
    that was not named for it.
    """
    environment = os.environ if environment is None else environment
    if base_url is None:
        base_url = environment.get("OPENAI_BASE_URL") or OPENAI
        if key_variable is None and environment.get("OPENAI_API_KEY"):
            key_variable = "OPENAI_API_KEY"
    if not base_url.startswith(("http://", "https://")):
        raise RelightError(f"{base_url!r} is not an address", "it begins with http:// or https://")
    return Endpoint(model=model, base_url=base_url, key_variable=key_variable)


def run_prompt(
    store: Store,
    prompt: str,
    *,
    model: str,
    task: str | None = None,
    base_url: str | None = None,
    key_variable: str | None = None,
    template: str = "none",
    tools: Sequence[str] | None = None,
    folder: str | Path = ".",
    budget: Budget | None = None,
    max_tool_chars: int = MAX_TOOL_CHARS,
    tool_seconds: float = 120.0,
    session_id: str | None = None,
    allow_private_fetch: bool = False,
    on_event: OnEvent | None = None,
) -> tuple[RunResult, Start]:
    """Run the agent on a prompt, recorded in the store; gives what came of it and its start.

    `task` is what a person wrote, without what was put around it: a template is chosen by that.
    """
    session_id = session_id or name_session(time.time())
    chosen = _choose_model(
        store, model, base_url=base_url, key_variable=key_variable, session_id=session_id
    )
    # what cannot be run is told before anything is recorded
    if not prompt.strip():
        raise RelightError("there is no task", "say what is to be done")
    for variable in chosen.key_variables:
        read_key(variable)
    choose_tools(tools)
    project = str(find_folder(folder))
    start = find_start(
        store,
        prompt if task is None else task,
        template,
        session_id=session_id,
        tools=tools,
        project=project,
    )
    rec = record(store, session_id, model=chosen.name, provider=chosen.provider, project=project)
    result = run_agent(
        prompt,
        model=chosen,
        rec=rec,
        tools=tools,
        folder=folder,
        seed=start.text,
        budget=budget,
        max_tool_chars=max_tool_chars,
        tool_seconds=tool_seconds,
        allow_private_fetch=allow_private_fetch,
        on_event=on_event,
    )
    return result, start


def _choose_model(
    store: Store,
    name: str,
    *,
    base_url: str | None,
    key_variable: str | None,
    session_id: str,
) -> Model:
    endpoint = Endpoint(model=name)
    if not name.startswith(MOA):
        endpoint = find_endpoint(name, base_url=base_url, key_variable=key_variable)
    return choose_model(
        name, config=store.config, endpoint=endpoint, session_id=session_id, store=store
    )


def find_start(
    store: Store,
    task: str,
    template: str,
    *,
    session_id: str,
    tools: Sequence[str] | None = None,
    project: str | None = None,
) -> Start:
    """What to put before a task: nothing, a template by name, or what is found to be like it."""
    if template == "none":
        return Start()
    if template != "auto":
        found = find_template(store, template)
        return Start(found.name, "warm", render_template(found))
    given = provision_session(
        store, task, session_id=session_id, source="relight", tools=tools, project=project
    )
    name = given.template.name if given.template else None
    return Start(name, given.arm, given.text if given.arm == "warm" else None)
