"""Carrying an experiment out: every task in both arms, one run after another.

A run is on record before it begins, so that a process that is killed loses no more than the run it
was at, and none that is done is done again.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.store import Store
from relight.warm.choice import explain_nothing, rank_templates
from relight.warm.injection import count_text_tokens, fit_seed, render_template
from relight.warm.library import Template, find_template
from relight.work.experiments import register
from relight.work.experiments.limits import find_limit, read_spent
from relight.work.experiments.plan import WARM, Plan
from relight.work.experiments.register import Experiment, Run
from relight.work.experiments.runs import Start, do_run
from relight.work.experiments.tasks import Task
from relight.work.jobs.leases import Holder

LOOK_SECONDS = 0.5
LEASE_SECONDS = 600
BUDGET_TOKENS = 2000
# a template whose task is as like as this was made of the very task: it would give it away
SAME_TASK = 0.95
ONLY_ITSELF = "the template that is like this task was made of the very task"
NO_ROOM = "of the template nothing is left with these tools"

OnEvent = Callable[[str, Mapping[str, Any]], None]


class _Pair(Struct, frozen=True):
    task: Task
    round: int
    arms: list[str]


def conduct(
    store: Store,
    name: str,
    *,
    on_event: OnEvent | None = None,
    clock: Callable[[], float] = time.time,
    environment: Mapping[str, str] | None = None,
) -> Experiment:
    """Run what is left of an experiment, until it is done, is stopped, or its budget is used up."""
    tell = on_event or _ignore
    with Holder(store.config.home) as holder:
        experiment = register.claim(store, name, holder.name, now=_now(clock))
        try:
            with _watch_stop(store, experiment):
                status, note = _go_on(store, experiment, tell, clock, environment)
        except KeyboardInterrupt:
            is_asked = register.read_stop(store, experiment.id) == register.AT_ONCE
            note = "a person stopped it" if is_asked else "it was interrupted"
            _close(store, experiment, "stopped", note, clock)
            if not is_asked:
                raise
        except BaseException as error:
            _close(store, experiment, "stopped", f"{type(error).__name__}: {error}", clock)
            raise
        else:
            _close(store, experiment, status, note, clock)
    return register.find_experiment(store, name)


def _close(
    store: Store,
    experiment: Experiment,
    status: register.Status,
    note: str | None,
    clock: Callable[[], float],
) -> None:
    for run in register.read_runs(store, experiment.id):
        if run.status == "running":
            key = (run.task, run.round, run.arm)
            register.finish_run(store, experiment, key, status="interrupted", now=_now(clock))
    register.close(store, experiment, status, note=note, now=_now(clock))


def _go_on(
    store: Store,
    experiment: Experiment,
    tell: OnEvent,
    clock: Callable[[], float],
    environment: Mapping[str, str] | None,
) -> tuple[register.Status, str | None]:
    for pair in list_pairs(experiment.name, experiment.plan):
        settled = _read_settled(store, experiment, pair)
        left = [arm for arm in pair.arms if arm not in settled]
        if not left:
            continue
        start = _find_start(store, experiment.plan, pair.task, settled)
        for number, arm in enumerate(left):
            if register.read_stop(store, experiment.id):
                return "stopped", "a person stopped it"
            spent = read_spent(store, register.read_runs(store, experiment.id))
            if limit := find_limit(experiment.plan, spent, runs=len(left) - number):
                return "stopped", limit
            key = (pair.task.id, pair.round, arm)
            facts = {"task": pair.task.id, "round": pair.round, "arm": arm}
            if isinstance(start, str):
                _begin(store, experiment, key, Start(), clock)
                register.finish_run(
                    store, experiment, key, status="skipped", evidence=[start], now=_now(clock)
                )
                done: dict[str, Any] = {"status": "skipped", "why": start}
            else:
                _begin(store, experiment, key, start, clock)
                tell("begun", facts)
                done = do_run(
                    store,
                    experiment,
                    pair.task,
                    key,
                    start if arm == WARM else replace(start, text=None, tokens=None),
                    spent=spent,
                    clock=clock,
                    environment=environment,
                )
            tell("done", {**facts, **done})
            if done["status"] == "interrupted":
                return "stopped", str(done["why"])
    return "done", None


def _read_settled(store: Store, experiment: Experiment, pair: _Pair) -> dict[str, Run]:
    """The runs of a pair that need not be done again, by their arm."""
    return {
        run.arm: run
        for run in register.read_runs(store, experiment.id)
        if (run.task, run.round) == (pair.task.id, pair.round) and run.status in ("done", "skipped")
    }


def _begin(
    store: Store,
    experiment: Experiment,
    key: tuple[str, int, str],
    start: Start,
    clock: Callable[[], float],
) -> None:
    plan, template = experiment.plan, start.template
    lease_seconds = plan.run_seconds * plan.max_attempts + LEASE_SECONDS
    register.begin_run(
        store,
        experiment,
        key,
        template=template.name if template else None,
        similarity=start.similarity,
        lease_until=_now(clock) + round(lease_seconds * 1000),
        now=_now(clock),
    )


def list_pairs(name: str, plan: Plan) -> Iterator[_Pair]:
    """All tasks of all rounds; which arm comes first is dealt by a hash, so that none always is."""
    for number in range(1, plan.rounds + 1):
        for task in plan.tasks:
            words = f"{name} {task.id} {number}".encode("utf-8", "surrogatepass")
            is_turned = blake2b(words, digest_size=1).digest()[0] & 1
            arms = plan.arms[::-1] if is_turned else list(plan.arms)
            yield _Pair(task, number, arms)


def _find_start(store: Store, plan: Plan, task: Task, settled: Mapping[str, Run]) -> Start | str:
    """What the warm arm begins with, or why there is nothing and no arm need be run."""
    if not plan.is_warm_start:
        return Start()
    known = next((run.template for run in settled.values() if run.template), None)
    name = known or (None if plan.template == "auto" else plan.template)
    if name:
        return _make_start(plan, find_template(store, name), None)
    ranked = rank_templates(
        store, task.prompt, tools=plan.tools, project=task.workdir, agent=plan.find_agent()
    )
    alike = [one for one in ranked if one.is_above_floor]
    choice = next((one for one in alike if one.similarity < SAME_TASK), None)
    if choice is None:
        return ONLY_ITSELF if alike else explain_nothing(store, task.prompt, tools=plan.tools)
    return _make_start(plan, choice.template, choice.similarity)


def _make_start(plan: Plan, template: Template, similarity: float | None) -> Start | str:
    seed = fit_seed(template, budget=BUDGET_TOKENS, tools=plan.tools)
    if not seed:
        return NO_ROOM
    fitted = replace(template, seed=seed)
    return Start(
        template=template,
        similarity=similarity,
        text=render_template(fitted),
        tokens=count_text_tokens(fitted),
    )


@contextmanager
def _watch_stop(store: Store, experiment: Experiment) -> Iterator[None]:
    """Interrupt this thread when a person wants the experiment to end at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can be interrupted: it stops after the run
        return
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(LOOK_SECONDS):
            try:
                wanted = register.read_stop(store, experiment.id)
            except RelightError:
                continue
            if wanted == register.AT_ONCE and not is_over.is_set():
                os.kill(os.getpid(), signal.SIGINT)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def _now(clock: Callable[[], float]) -> int:
    return round(clock() * 1000)


def _ignore(kind: str, facts: Mapping[str, Any]) -> None:
    """No one looks at the progress."""
