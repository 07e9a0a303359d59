"""One run of an experiment: prepared, done by a runner, checked, and written down."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.errors import RelightError
from relight.ids import row_id
from relight.intake.recorder import name_session
from relight.model import Outcome
from relight.reports.labels import label_session
from relight.store import Store
from relight.warm.library import Template
from relight.warm.provision import SWITCH, record_start, rename_session
from relight.work.agent.limits import Budget
from relight.work.experiments import register
from relight.work.experiments.limits import Spent, count_tokens
from relight.work.experiments.plan import WARM, Plan
from relight.work.experiments.register import Experiment
from relight.work.experiments.tasks import Task
from relight.work.experiments.workplace import make_workplace, open_scratch, run_line, tell_ending
from relight.work.jobs.retry import try_run
from relight.work.jobs.runners import AttemptResult, find_failures, run_chat, run_command
from relight.work.jobs.spending import add_figures
from relight.work.run_spec import RunSpec

Key = tuple[str, int, str]


class Start(Struct, frozen=True, kw_only=True):
    """What a run begins with; in the cold arm without the text, but with what it might have had."""

    template: Template | None = None
    similarity: float | None = None
    text: str | None = None
    tokens: int | None = None


def do_run(
    store: Store,
    experiment: Experiment,
    task: Task,
    key: Key,
    start: Start,
    *,
    spent: Spent,
    clock: Callable[[], float] = time.time,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Do the work of a run that is on record; gives what came of it."""
    plan = experiment.plan
    # the agent's own warm starts would begin the cold arm warm
    environment = {**(os.environ if environment is None else environment), SWITCH: "off"}
    began = time.monotonic()
    deadline = began + plan.run_seconds * plan.max_attempts
    try:
        with open_scratch() as scratch:
            folder = make_workplace(task, scratch, in_place=plan.in_place)
            if task.setup is not None:
                ended = run_line(task.setup, folder, environment)
                if ended.exit_code:
                    raise RelightError(f"its setup failed: {tell_ending(ended)}")
            tried = try_run(
                store,
                lambda seconds, cost: _attempt(
                    store,
                    experiment,
                    task,
                    key,
                    start,
                    folder,
                    scratch=scratch,
                    budget=_find_budget(plan, spent, cost, min(seconds, plan.run_seconds)),
                    environment=environment,
                ),
                max_attempts=plan.max_attempts,
                deadline=deadline,
            )
            outcome = _judge(store, task, tried.last, folder, environment)
    except RelightError as error:
        register.finish_run(
            store, experiment, key, status="skipped", evidence=[error.message], now=_now(clock)
        )
        return {"status": "skipped", "why": error.message}
    return _write(store, experiment, key, tried.last, outcome, tried.sessions, began, clock)


def _attempt(
    store: Store,
    experiment: Experiment,
    task: Task,
    key: Key,
    start: Start,
    folder: Path,
    *,
    scratch: Path,
    budget: Budget,
    environment: Mapping[str, str],
) -> AttemptResult:
    plan, arm = experiment.plan, key[2]
    prompt = f"{start.text}\n\n{task.prompt}" if start.text else task.prompt
    model = plan.find_model(arm)
    session_id = name_session(time.time())
    is_chat = plan.runner == "chat"
    register.note_attempt(store, experiment, key, f"relight:{session_id}" if is_chat else None)
    provision = None
    if plan.is_warm_start:
        provision = record_start(
            store,
            session_key=session_id,
            source="relight" if is_chat else None,
            arm=arm,
            template=start.template,
            similarity=start.similarity,
            reason=f"experiment {experiment.name}, task {task.id}",
            project=task.workdir,
            tokens=start.tokens if arm == WARM else None,
            experiment_id=experiment.id,
        )
    if is_chat:
        assert model is not None
        spec = RunSpec(
            model=model,
            base_url=plan.base_url,
            key_variable=plan.key_variable,
            tools=plan.tools,
            folder=folder,
            budget=budget,
            session_id=session_id,
        )
        return run_chat(store, prompt, spec)
    ran = run_command(
        store,
        prompt,
        command=plan.command,
        use_shell=plan.use_shell,
        model=model,
        folder=folder,
        seconds=budget.seconds or plan.run_seconds,
        budget_usd=budget.cost_usd,
        environment=environment,
        scratch=scratch / session_id,
    )
    if provision is not None and ran.session:
        rename_session(store, provision, ran.session)
    return ran


def _find_budget(plan: Plan, spent: Spent, cost_usd: float, seconds: float) -> Budget:
    """What is left for a run of all that the experiment may spend."""
    usd = None if plan.budget_usd is None else max(plan.budget_usd - spent.usd - cost_usd, 0.0)
    tokens = None if plan.budget_tokens is None else max(plan.budget_tokens - spent.tokens, 1)
    return Budget(cost_usd=usd, tokens=tokens, seconds=seconds)


def _judge(
    store: Store, task: Task, ran: AttemptResult, folder: Path, environment: Mapping[str, str]
) -> Outcome:
    """Whether the task was done: its check says so, or else what the session shows."""
    if task.check is not None:
        try:
            ended = run_line(task.check, folder, environment)
        except RelightError as error:
            return Outcome("unknown", [f"its check: {error.message}", *find_failures(ran)])
        word = "failed" if ended.exit_code else "passed"
        evidence = [f"its check {word}: {tell_ending(ended)}", *find_failures(ran)]
        judged = Outcome("failure" if ended.exit_code else "success", evidence)
        if ran.session:
            found = row_id("session", *ran.session.split(":", 1))
            label_session(store, found, judged.outcome, why=evidence[0])
        return judged
    if failures := find_failures(ran):
        return Outcome("failure", failures)
    return Outcome("unknown", [*ran.evidence, "no check says whether the task was done"])


def _write(
    store: Store,
    experiment: Experiment,
    key: Key,
    ran: AttemptResult,
    outcome: Outcome,
    sessions: list[str],
    began: float,
    clock: Callable[[], float],
) -> dict[str, Any]:
    before = next(
        run.sessions
        for run in register.read_runs(store, experiment.id)
        if (run.task, run.round, run.arm) == key
    )
    every = list(dict.fromkeys([*before, *sessions]))
    figures = add_figures(store, every)
    has_told = not every and ran.cost_nanos is not None
    nanos = ran.cost_nanos if has_told else figures.cost_nanos
    tokens = count_tokens(figures.usage or ran.usage)
    why_stop = _find_stop(experiment.plan, ran, tokens)
    status: register.RunStatus = "interrupted" if why_stop else "done"
    spent_ms = round((time.monotonic() - began) * 1000)
    register.finish_run(
        store,
        experiment,
        key,
        status=status,
        session=ran.session,
        sessions=every,
        outcome=outcome.outcome,
        evidence=outcome.evidence,
        cost_nanos=nanos,
        tokens=tokens,
        duration_ms=spent_ms,
        now=_now(clock),
    )
    return {
        "status": status,
        "why": why_stop,
        "outcome": outcome.outcome,
        "evidence": outcome.evidence,
        "session": ran.session,
        "cost_usd": None if nanos is None else nanos / 1e9,
        "tokens": tokens,
        "duration_seconds": spent_ms / 1000,
    }


def _find_stop(plan: Plan, ran: AttemptResult, tokens: int | None) -> str | None:
    """Why a run tells nothing, and the next would not either: no money, or no model."""
    said = ran.ended_by or ""
    if plan.budget_usd is not None and said.startswith("the budget of $"):
        return said
    if plan.budget_tokens is not None and said.startswith("the budget of") and "tokens" in said:
        return said
    is_stillborn = bool(said) and not tokens and not ran.timed_out and ran.usage is None
    return f"nothing could be run: {said}" if is_stillborn else None


def _now(clock: Callable[[], float]) -> int:
    return round(clock() * 1000)
