"""An experiment of the invented developer, warm and cold, and a fortnight of a job's runs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.story import make_call, read_demo_table
from relight.config import Config
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
from relight.store.jobs import find_next_due
from relight.store.provisions import Decision
from relight.warm.choice import NOTHING, Choice, choose_template
from relight.warm.injection import count_tokens, render_template
from relight.warm.provision import make_decision_id, record_decision
from relight.work.experiments.conduct import list_pairs
from relight.work.experiments.plan import COLD, WARM, ExperimentPlan, TrialTask
from relight.work.experiments.register import Experiment, add_experiment, sum_tokens
from relight.work.jobs.claimed_run import complete_run
from relight.work.jobs.delivery import format_page, write_answer
from relight.work.jobs.job import Delivery, JobDefinition, JobResult, JobRun
from relight.work.jobs.registry import add_job
from relight.work.jobs.slots import begin, claim_due
from relight.work.jobs.spending import add_figures

DAYS = 18
HOLDER = "demo"
COMMAND = "relight-demo-releases --since yesterday"
CHECK = "uv run pytest -q"


def run_chores(store: Store, *, now: datetime, seed: int = 7) -> None:
    """Add the job, and let it run every morning as its scheduler would have."""
    table, dice = read_demo_table("chores.toml"), Dice(seed)
    job = JobDefinition(**table["job"])
    first = (now - timedelta(days=DAYS)).replace(hour=6, minute=0)
    add_job(store, job, now=round(first.timestamp() * 1000))
    for work in cycle(table["run"]):
        due = find_next_due(store)
        if due is None or due > (now - timedelta(minutes=5)).timestamp() * 1000:
            return
        _run_once(store, work, Clock(datetime.fromtimestamp(due / 1000, UTC)), dice)


def _run_once(store: Store, work: dict[str, Any], clock: Clock, dice: Dice) -> None:
    """The run that is due, a few seconds late as a scheduler is."""

    def execute(
        store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
    ) -> JobResult:
        return _work(store, job, run, work, moments, dice)

    moments = clock
    clock.wait(dice.randint(0, 20))
    for run_id in claim_due(store, HOLDER, now=clock.milliseconds, limit=1):
        if begun := begin(store, run_id, HOLDER, now=clock.milliseconds):
            job, run = begun
            complete_run(
                store, job, run, holder=HOLDER, execute=execute, clock=lambda: moments.seconds
            )


def _work(
    store: Store, job: JobDefinition, run: JobRun, work: dict[str, Any], clock: Clock, dice: Dice
) -> JobResult:
    """Record the agent's work in one run, and return its result."""
    is_failed = "evidence" in work
    out = work.get("out", "12 releases of 9 packages, none of them a major one")
    heard = dice.randint(2600, 3900)
    with record(
        store,
        f"{job.name}-{clock.now:%Y%m%d}",
        model=job.model,
        provider=job.provider,
        project=str(store.config.home / "jobs" / job.name),
        title=f"{job.name} · {clock.now:%b %d}",
        clock=lambda: clock.seconds,
    ) as rec:
        rec.message("user", job.prompt)
        clock.wait(dice.uniform(2, 6))
        call = make_call("call_1", "terminal", COMMAND)
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        rec.turn(input_tokens=heard, output_tokens=120, message=message, duration_ms=2900)
        clock.wait(30 if is_failed else dice.uniform(1, 4))
        exit_code = work.get("exit", 0)
        result = {"output": out, "exit_code": exit_code, "error": out if exit_code else None}
        arguments = call["function"]["arguments"]
        rec.tool_call("terminal", arguments, result, call_id="call_1", exit_code=exit_code)
        clock.wait(dice.uniform(3, 9))
        said = {"role": "assistant", "content": work["answer"]}
        tokens = len(work["answer"]) // 3 + dice.randint(200, 900)
        rec.turn(
            input_tokens=700,
            cache_read_tokens=heard,
            output_tokens=tokens,
            message=said,
            duration_ms=4200,
        )
        rec.finish("failure" if is_failed else "success")
    facts = {"job": job.name, "run_id": run.key}
    page = format_page(facts, work["answer"])
    is_silent = work["answer"] == "[SILENT]"
    return JobResult(
        status="failed" if is_failed else "completed",
        outcome="failure" if is_failed else "success",
        evidence=work.get("evidence", ["it ended with an answer, and nothing speaks against it"]),
        session=rec.name,
        model=job.model,
        provider=job.provider,
        answer=work["answer"],
        answer_file=write_answer(store.config.home, job.name, page, at=run.started_at / 1000),
        delivery=Delivery(
            to="file",
            status="suppressed" if is_silent else "delivered",
            attempts=0 if is_silent else 1,
        ),
    )


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
        store, experiment = self.store, self.experiment
        key = RunKey(experiment.id, task.id, 1, arm)
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
        decision = Decision(
            id=make_decision_id(),
            session_key=session,
            source="relight",
            arm=arm,
            similarity=choice.similarity,
            reason=f"experiment {experiment.name}, task {task.id}",
            tokens=count_tokens(choice.template) if arm == WARM else None,
            experiment_id=experiment.id,
            created_at=began,
        )
        record_decision(store, decision, choice.template)
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
            call_id = f"call_{number}"
            call = make_call(call_id, "terminal", command)
            arguments = call["function"]["arguments"]
            self.speak(rec, {"content": None, "tool_calls": [call]}, heard)
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
