"""A job of Relight's own, and an invented fortnight of its runs."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.story import read_demo_table
from relight.config import Config
from relight.intake.recorder import record
from relight.store import Store
from relight.store.jobs import find_next_due
from relight.work.jobs.claimed_run import complete_run
from relight.work.jobs.delivery import format_page, write_answer
from relight.work.jobs.job import Delivery, JobDefinition, JobResult, JobRun
from relight.work.jobs.registry import add_job
from relight.work.jobs.slots import begin, claim_due

DAYS = 18
HOLDER = "demo"
COMMAND = "relight-demo-releases --since yesterday"


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
        asked = {"name": "terminal", "arguments": json.dumps({"command": COMMAND})}
        call = {"id": "call_1", "type": "function", "function": asked}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        rec.turn(input_tokens=heard, output_tokens=120, message=message, duration_ms=2900)
        clock.wait(30 if is_failed else dice.uniform(1, 4))
        exit_code = work.get("exit", 0)
        result = {"output": out, "exit_code": exit_code, "error": out if exit_code else None}
        rec.tool_call("terminal", asked["arguments"], result, call_id="call_1", exit_code=exit_code)
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
