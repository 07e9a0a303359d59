"""One recorded session of the agent, as `relight run`, jobs and experiments start it."""

import time
from collections.abc import Sequence

from msgspec import Struct

from relight.errors import RelightError
from relight.intake.recorder import make_session_name, record
from relight.model import TokenCounts
from relight.models.endpoints import Endpoint, read_key
from relight.sources.reading import first_line
from relight.store import Store
from relight.warm.injection import render_template
from relight.warm.library import find_template
from relight.warm.provision import is_switched_off, provision_lessons, provision_session
from relight.work.agent.context import choose_environment, find_workdir
from relight.work.agent.loop import AgentResult, OnEvent, run_agent
from relight.work.agent.models import MOA, choose_model, find_endpoint
from relight.work.agent.tools import choose_tools
from relight.work.kernel import hide_memory
from relight.work.run_spec import RunSpec


class SessionStart(Struct, frozen=True):
    """The start of a session: the template's name, the arm, and the text before the task."""

    template: str | None = None
    arm: str | None = None
    text: str | None = None


class RunUsage(TokenCounts, frozen=True, kw_only=True):
    """The tokens of a run, by kind and in all."""

    total_tokens: int | None


class RunSummary(Struct, frozen=True, kw_only=True):
    """The result of a run, its template and its figures."""

    session_id: str
    outcome: str
    evidence: list[str]
    answer: str | None
    ended_by: str | None
    hint: str | None
    model: str
    template: str | None
    arm: str | None
    turns: int | None
    tool_calls: int | None
    tool_failures: int | None
    usage: RunUsage
    cost_usd: float | None
    unpriced_turns: int | None
    duration_seconds: float | None


def summarise_run(result: AgentResult, start: SessionStart, *, model: str) -> RunSummary:
    """Return a run as JSON has it."""
    figures = result.figures
    same = ("turns", "tool_calls", "tool_failures", "cost_usd", "unpriced_turns")
    return RunSummary(
        session_id=result.session_id,
        outcome=result.outcome,
        evidence=result.evidence,
        answer=result.answer,
        ended_by=result.ended_by,
        hint=result.hint,
        model=model,
        template=start.template,
        arm=start.arm,
        usage=RunUsage(**{name: figures[name] for name in RunUsage.__struct_fields__}),
        duration_seconds=figures["wall_seconds"],
        **{name: figures[name] for name in same},
    )


def run_prompt(
    store: Store, prompt: str, spec: RunSpec, *, on_event: OnEvent | None = None
) -> tuple[AgentResult, SessionStart]:
    """Run the agent on a prompt, recorded in the store; return its result and its start."""
    session_id = spec.session_id or make_session_name(time.time())
    name, endpoint = spec.model, Endpoint(model=spec.model)
    if not name.startswith(MOA):
        endpoint = find_endpoint(name, base_url=spec.base_url, key_variable=spec.key_variable)
    model = choose_model(
        name, config=store.config, endpoint=endpoint, session_id=session_id, store=store
    )
    # errors in the settings are raised before anything is recorded
    if not prompt.strip():
        raise RelightError("there is no task", "describe what the agent should do")
    for variable in model.key_variables:
        read_key(variable)
    hide_memory()  # the keys are here, and commands of this user are about to run
    choose_environment(secret_variables=model.key_variables, pass_variables=spec.pass_variables)
    choose_tools(spec.tools)
    project = str(find_workdir(spec.folder))
    # a job's prompt begins with its skills and rules: what was asked for is the task
    task = prompt if spec.task is None else spec.task
    start = find_start(
        store,
        task,
        spec.template,
        session_id=session_id,
        tools=spec.tools,
        project=project,
        has_lessons=spec.has_lessons,
    )
    rec = record(
        store,
        session_id,
        model=model.name,
        provider=model.provider,
        project=project,
        title=first_line(task),
    )
    result = run_agent(prompt, spec, model=model, rec=rec, seed=start.text, on_event=on_event)
    return result, start


def find_start(
    store: Store,
    task: str,
    template: str,
    *,
    session_id: str,
    tools: Sequence[str] | None = None,
    project: str | None = None,
    has_lessons: bool = True,
) -> SessionStart:
    """Return what to put before a task: the project's lessons, and a named or similar template."""
    if template != "auto":
        found = None if template == "none" else find_template(store, template)
        reason = (
            f"the run names the template {found.name}" if found else "the run wants no template"
        )
        lessons = None
        if has_lessons and not is_switched_off():
            lessons = provision_lessons(
                store, session_id=session_id, project=project, source="relight", reason=reason
            )
        parts = [one for one in (lessons, render_template(found) if found else None) if one]
        name, arm = (found.name, "warm") if found else (None, None)
        return SessionStart(name, arm, "\n\n".join(parts) or None)
    given = provision_session(
        store, task, session_id=session_id, source="relight", tools=tools, project=project
    )
    name = given.template.name if given.template else None
    return SessionStart(name, given.arm, given.text)
