"""Carries out an experiment: every task in both arms, one run after another.

A run is recorded before it begins. A process that is killed loses only its current run, and a
finished run is never repeated.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from hashlib import blake2b

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.store import Store, experiments
from relight.store.experiments import RunKey, RunRecord, TrialRun
from relight.warm.choice import explain_absence, make_wanted, rank_templates
from relight.warm.curation import compare_tasks
from relight.warm.injection import BUDGET, count_tokens, fit_seed, render_template
from relight.warm.library import Template, find_template
from relight.work.experiments import register
from relight.work.experiments.plan import WARM, ExperimentPlan, TrialTask
from relight.work.experiments.register import Experiment, find_exceeded, now_ms, sum_spending
from relight.work.experiments.trial import Trial, TrialStart, execute_trial, skip_run
from relight.work.jobs.leases import Holder, repeat_meanwhile

LOOK_SECONDS = 0.5
LEASE_SECONDS = 600
# a template whose task is this similar was made from the same task, and would give it away
SAME_TASK = 0.95
ONLY_ITSELF = "the only similar template was made from this very task"
NO_ROOM = "nothing is left of the template with these tools"


class TrialEvent(Struct, frozen=True):
    """A run that begins or, with its record, has ended."""

    task: str
    arm: str
    record: RunRecord | None = None


OnEvent = Callable[[TrialEvent], None]


class TaskPair(Struct, frozen=True):
    """A task in one round, with its arms in the order to run them."""

    task: TrialTask
    round: int
    arms: list[str]


def conduct(store: Store, name: str, *, on_event: OnEvent | None = None) -> Experiment:
    """Run the rest of an experiment, until it is done, stopped, or its budget is used up."""
    with Holder(store.config.home) as holder:
        experiment = register.claim(store, name, holder.name, now=now_ms())
        try:
            with _watch_stop(store, experiment):
                status, note = _run_rest(store, experiment, on_event or (lambda _: None))
        except KeyboardInterrupt:
            is_asked = register.read_stop(store, experiment.id) == register.AT_ONCE
            note = "a person stopped it" if is_asked else "it was interrupted"
            _release(store, experiment, "stopped", note)
            if not is_asked:
                raise
        except BaseException as error:  # raised again: its runs are released first
            _release(store, experiment, "stopped", f"{type(error).__name__}: {error}")
            raise
        else:
            _release(store, experiment, status, note)
    return register.find_experiment(store, name)


def _release(
    store: Store, experiment: Experiment, status: register.Status, note: str | None
) -> None:
    for run in experiments.read_trial_runs(store, experiment.id):
        if run.status == "running":
            key = RunKey(experiment.id, run.task, run.round, run.arm)
            record = RunRecord(status="interrupted", finished_at=now_ms())
            experiments.finish_run(store, key, record)
    experiments.release_experiment(store, experiment.id, status=status, note=note, now=now_ms())


def _run_rest(
    store: Store, experiment: Experiment, on_event: OnEvent
) -> tuple[register.Status, str | None]:
    plan = experiment.plan
    for pair in list_pairs(experiment.name, plan):
        # the runs of the pair that need not be done again, by their arm
        settled = {
            run.arm: run
            for run in experiments.read_trial_runs(store, experiment.id)
            if (run.task, run.round) == (pair.task.id, pair.round) and run.is_settled
        }
        left = [arm for arm in pair.arms if arm not in settled]
        if not left:
            continue
        start = _find_start(store, plan, pair.task, settled)
        for number, arm in enumerate(left):
            if register.read_stop(store, experiment.id):
                return "stopped", "a person stopped it"
            spent = sum_spending(store, experiments.read_trial_runs(store, experiment.id))
            if limit := find_exceeded(plan, spent, runs=len(left) - number):
                return "stopped", limit
            key = RunKey(experiment.id, pair.task.id, pair.round, arm)
            begun = TrialStart() if isinstance(start, str) else start
            lease_seconds = plan.run_seconds * plan.max_attempts + LEASE_SECONDS
            experiments.begin_run(
                store,
                key,
                template=begun.template.name if begun.template else None,
                similarity=begun.similarity,
                lease_until=now_ms() + round(lease_seconds * 1000),
                now=now_ms(),
            )
            if isinstance(start, str):
                record, stop = skip_run(start), None
            else:
                on_event(TrialEvent(pair.task.id, arm))
                own = start if arm == WARM else replace(start, text=None, tokens=None)
                trial = Trial(experiment, pair.task, key, own)
                record, stop = execute_trial(store, trial, spent=spent)
            experiments.finish_run(store, key, record)
            on_event(TrialEvent(pair.task.id, arm, record))
            if stop:
                return "stopped", stop
    return "done", None


def list_pairs(name: str, plan: ExperimentPlan) -> Iterator[TaskPair]:
    """Yield all tasks of all rounds; a hash decides which arm runs first."""
    for number in range(1, plan.rounds + 1):
        for task in plan.tasks:
            words = f"{name} {task.id} {number}".encode("utf-8", "surrogatepass")
            is_turned = blake2b(words, digest_size=1).digest()[0] & 1
            arms = plan.arms[::-1] if is_turned else list(plan.arms)
            yield TaskPair(task, number, arms)


def _find_start(
    store: Store, plan: ExperimentPlan, task: TrialTask, settled: Mapping[str, TrialRun]
) -> TrialStart | str:
    """Return what the warm arm starts with, or why neither arm is run."""
    if not plan.is_warm_start:
        return TrialStart()
    known = next((run.template for run in settled.values() if run.template), None)
    name = known or (None if plan.template == "auto" else plan.template)
    if name:
        return _make_start(plan, find_template(store, name), None)
    ranked = rank_templates(
        store, task.prompt, tools=plan.tools, project=task.workdir, agent=plan.find_agent()
    )
    alike = [one for one in ranked if one.is_above_floor]
    choice = next(
        (one for one in alike if compare_tasks(store, task.prompt, one.template) < SAME_TASK),
        None,
    )
    if choice is None:
        if alike:
            return ONLY_ITSELF
        return explain_absence(store, task.prompt, make_wanted(tools=plan.tools))
    return _make_start(plan, choice.template, choice.similarity)


def _make_start(
    plan: ExperimentPlan, template: Template, similarity: float | None
) -> TrialStart | str:
    seed = fit_seed(template, budget=BUDGET, tools=plan.tools)
    if not seed:
        return NO_ROOM
    fitted = replace(template, seed=seed)
    return TrialStart(
        template=template,
        similarity=similarity,
        text=render_template(fitted),
        tokens=count_tokens(fitted),
    )


def _interrupt() -> None:
    """Interrupt the main thread, as Ctrl-C does."""
    if os.name == "nt":  # a signal to a process would end it there
        import _thread

        _thread.interrupt_main()
    else:
        os.kill(os.getpid(), signal.SIGINT)


def _watch_stop(store: Store, experiment: Experiment) -> AbstractContextManager[None]:
    """Interrupt this thread when a person asks for a stop at once."""
    if threading.current_thread() is not threading.main_thread():
        return nullcontext()  # only the main thread can be interrupted; here it stops after the run
    asked = False

    def look(is_over: threading.Event) -> None:
        nonlocal asked
        with suppress(RelightError):
            is_now = register.read_stop(store, experiment.id) == register.AT_ONCE
            if is_now and not asked and not is_over.is_set():
                asked = True
                _interrupt()

    return repeat_meanwhile(look, seconds=LOOK_SECONDS)
