"""An experiment of the invented developer: the same tasks, warm and cold."""

import json
from datetime import datetime
from typing import Any

from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.story import read_demo_table
from relight.intake.recorder import SessionTracker, record
from relight.model import OutcomeName
from relight.store import Store
from relight.store.experiments import (
    RunKey,
    RunRecord,
    add_attempt,
    begin_run,
    finish_run,
    release_experiment,
)
from relight.warm.choice import NOTHING, Choice, choose_template
from relight.warm.injection import count_tokens, render_template
from relight.warm.provision import record_start
from relight.work.experiments.budget import sum_tokens
from relight.work.experiments.conduct import list_pairs
from relight.work.experiments.plan import COLD, WARM, ExperimentPlan, TrialTask
from relight.work.experiments.register import Experiment, add_experiment
from relight.work.jobs.spending import add_figures

CHECK = "uv run pytest -q"


def run_trial(store: Store, *, at: datetime, seed: int = 11) -> None:
    """Add the experiment and its runs, as `relight experiment start` does."""
    table, clock = read_demo_table("trial.toml"), Clock(at)
    plan = ExperimentPlan(
        tasks=[TrialTask(id=one["id"], prompt=one["prompt"], check=CHECK) for one in table["task"]],
        arms=[COLD, WARM],
        model=table["plan"]["model"],
        budget_usd=table["plan"]["budget_usd"],
    )
    experiment = add_experiment(store, table["plan"]["name"], plan, now=clock.milliseconds)
    trial = _Trial(store, experiment, table["plan"], clock, Dice(seed))
    rows = {one["id"]: one for one in table["task"]}
    for pair in list_pairs(experiment.name, plan):
        choice = choose_template(store, pair.task.prompt)
        for arm in pair.arms:
            trial.run(pair.task, arm, choice, rows[pair.task.id][arm])
    release_experiment(store, experiment.id, status="done", note=None, now=clock.milliseconds)


class _Trial:
    """A running experiment."""

    def __init__(
        self, store: Store, experiment: Experiment, plan: dict[str, Any], clock: Clock, dice: Dice
    ) -> None:
        self.store, self.experiment, self.plan = store, experiment, plan
        self.clock, self.dice = clock, dice

    def run(self, task: TrialTask, arm: str, choice: Choice | None, went: dict[str, Any]) -> None:
        """Add one run, or none if no template is like the task."""
        store, experiment, key = (
            self.store,
            self.experiment,
            RunKey(self.experiment.id, task.id, 1, arm),
        )
        began = self.clock.milliseconds
        begin_run(
            store,
            key,
            template=choice.template.name if choice else None,
            similarity=choice.similarity if choice else None,
            lease_until=began,
            now=began,
        )
        if choice is None:
            record_end = RunRecord(status="skipped", evidence=[NOTHING], finished_at=began)
            finish_run(store, key, record_end)
            return
        session = f"{experiment.name}-{task.id}-{arm}"
        record_start(
            store,
            session_key=session,
            source="relight",
            arm=arm,
            template=choice.template,
            similarity=choice.similarity,
            reason=f"experiment {experiment.name}, task {task.id}",
            tokens=count_tokens(choice.template) if arm == WARM else None,
            experiment_id=experiment.id,
            now=began,
        )
        add_attempt(store, key, f"relight:{session}")
        example = f"{render_template(choice.template)}\n\n" if arm == WARM else ""
        outcome: OutcomeName = "success" if went["is_done"] else "failure"
        ended = "passed: exit code 0" if went["is_done"] else "failed: exit code 1"
        evidence = [f"its check {ended}"]
        with record(
            store,
            session,
            model=self.plan["model"],
            provider=self.plan["provider"],
            title=task.prompt,
            project=self.plan["project"],
            clock=lambda: self.clock.seconds,
        ) as rec:
            rec.message("user", example + task.prompt)
            self.work(rec, went, heard=2400 + len(example) // 4)
            rec.finish(outcome, why=evidence[0])
        figures = add_figures(store, [rec.name])
        finish_run(
            store,
            key,
            RunRecord(
                status="done",
                finished_at=self.clock.milliseconds,
                session=rec.name,
                outcome=outcome,
                evidence=evidence,
                cost_nanos=figures.cost_nanos,
                tokens=sum_tokens(figures.usage),
                duration_ms=self.clock.milliseconds - began,
            ),
        )

    def work(self, rec: SessionTracker, went: dict[str, Any], *, heard: int) -> None:
        """Record the calls of a run and its answer; at the last step the tests pass."""
        steps = self.plan["steps"]
        steps = steps[-went["steps"] :] if went["is_done"] else steps[:-1][: went["steps"]]
        for number, (command, output) in enumerate(steps):
            call_id, arguments = f"call_{number}", json.dumps({"command": command})
            function = {"name": "terminal", "arguments": arguments}
            asked = [{"id": call_id, "type": "function", "function": function}]
            self.speak(rec, {"content": None, "tool_calls": asked}, heard)
            self.clock.wait(self.dice.uniform(1, 20))
            code = int("failed" in output or "No such file" in output)
            result = {"output": output, "exit_code": code, "error": None}
            rec.tool_call("terminal", arguments, result, call_id=call_id, exit_code=code)
            heard += 500
        answer = "It is done, and all tests pass." if went["is_done"] else "One test still fails."
        self.speak(rec, {"content": answer}, heard)

    def speak(self, rec: SessionTracker, message: dict[str, Any], heard: int) -> None:
        self.clock.wait(self.dice.uniform(3, 9))
        rec.turn(
            input_tokens=self.dice.randint(200, 700),
            cache_read_tokens=heard,
            output_tokens=self.dice.randint(60, 260),
            message={"role": "assistant", **message},
        )
