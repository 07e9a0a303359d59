"""The end of a run: its figures, its answer kept and delivered, the uses of its skills told."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from relight.model import Outcome
from relight.redact import redact_text
from relight.times import write_time
from relight.work.jobs.delivery import deliver, name_place
from relight.work.jobs.job import Delivery, RunResult
from relight.work.jobs.keeping import keep_answer, keep_skills
from relight.work.jobs.notes import Note
from relight.work.jobs.outcome import is_silent
from relight.work.jobs.preparing import Prepared, Task
from relight.work.jobs.retry import Tried, count_spent
from relight.work.jobs.routing import Route
from relight.work.jobs.runners import Ran

Status = Literal["completed", "failed", "refused"]


class Done(Struct, frozen=True, kw_only=True):
    """What a run came to, before it is kept and delivered; without `prepared` it never began."""

    status: Status
    judged: Outcome
    tried: Tried | None = None
    prepared: Prepared | None = None
    is_skipped: bool = False
    # the agent was given its prompt, whatever became of it
    has_begun: bool = False

    @property
    def ran(self) -> Ran:
        return self.tried.ran if self.tried else Ran()

    @property
    def sessions(self) -> list[str]:
        return self.tried.sessions if self.tried else []


def close_run(task: Task, done: Done) -> RunResult:
    """Keep what came of a run, and tell the person; what fails here does not change it."""
    result = sum_up(task, done)
    facts, warnings = list_facts(task, result), find_warnings(task, done, result)
    answer_file = None
    try:
        # an agent that was not woken has nothing to say
        if not done.is_skipped:
            page, at = write_page(facts, result.answer), task.run.started_at / 1000
            answer_file = keep_answer(task.config.home, task.job.name, page, at=at)
    except OSError as error:
        warnings.append(f"the answer could not be kept: {error}")
    if done.has_begun and done.prepared is not None:
        keep_skills(task.store, make_note(task, done.prepared), result)
    delivery = send_result(task, done, facts, result.answer, is_kept=answer_file is not None)
    return replace(result, answer_file=answer_file, delivery=delivery, warnings=warnings)


def make_note(task: Task, prepared: Prepared) -> Note:
    """What is noted of a run when its agent begins."""
    return Note(
        run=task.run,
        model=prepared.route.model,
        provider=prepared.route.provider,
        skills=[(skill.name, skill.version) for skill in prepared.skills],
    )


def sum_up(task: Task, done: Done) -> RunResult:
    """What a run came to and cost, with secrets taken out."""
    key = task.store.redaction_key
    route = done.prepared.route if done.prepared else Route()
    attempts = done.tried.attempts if done.tried else []
    spent = count_spent(task.store, attempts)
    return RunResult(
        status=done.status,
        outcome=done.judged.outcome,
        evidence=[redact_text(text, key=key) for text in done.judged.evidence],
        attempts=len(attempts),
        session=done.sessions[-1] if done.sessions else None,
        earlier=done.sessions[:-1],
        finished_at=round(task.clock() * 1000),
        model=done.ran.model or route.model,
        provider=done.ran.provider or route.provider,
        # whoever was not asked cost nothing
        cost_nanos=spent.cost_nanos if done.has_begun else 0,
        usage=spent.usage,
        answer=redact_text(done.ran.answer, key=key) if done.ran.answer else None,
    )


def send_result(
    task: Task, done: Done, facts: Mapping[str, Any], answer: str | None, *, is_kept: bool
) -> Delivery:
    """Deliver what a run has to say, if it has anything; a failure is delivered as one."""
    to = task.job.deliver
    if done.is_skipped or (done.status == "completed" and is_silent(answer)):
        return Delivery(to=name_place(to), status="suppressed", attempts=0)
    if to == "file":
        why = None if is_kept else "the answer could not be kept"
        return Delivery(to=to, status="delivered" if is_kept else "failed", error=why)
    return deliver(
        to,
        write_message(facts, answer),
        facts={**facts, "answer": answer},
        folder=done.prepared.folder if done.prepared else task.config.home,
        environment=task.environment,
        sleep=task.sleep,
    )


def list_facts(task: Task, result: RunResult) -> dict[str, Any]:
    """What is known of a run, for those it is told to."""
    return {
        "job": task.job.name,
        "run_id": task.run.key,
        "outcome": result.outcome,
        "evidence": result.evidence,
        "scheduled_for": write_time(task.run.scheduled_for),
        "started_at": write_time(task.run.started_at),
        "finished_at": write_time(result.finished_at),
        "model": result.model,
        "session_id": result.session,
        "cost_usd": None if result.cost_nanos is None else result.cost_nanos / 1e9,
    }


def find_warnings(task: Task, done: Done, result: RunResult) -> list[str]:
    """What did not stop the run but should be seen."""
    if done.prepared is None:
        return []
    allowance = done.prepared.allowance
    warnings = list(allowance.warnings)
    cost, limit = result.cost_nanos, task.job.budget_usd
    if done.tried is not None and allowance.cost_usd is not None and cost is None:
        warnings.append("what it cost is not known: no budget could hold it")
    if limit is not None and (cost or 0) / 1e9 > limit:
        spent = (cost or 0) / 1e9
        warnings.append(f"it cost ${spent:.4f}, more than its budget of ${limit:g}")
    return warnings


def write_page(facts: Mapping[str, Any], answer: str | None) -> str:
    """The file of a run's answer: what is known of the run, then the answer as it was."""
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in facts.items()]
    return "\n".join(["---", *lines, "---", "", answer or "", ""])


def write_message(facts: Mapping[str, Any], answer: str | None) -> str:
    """What is delivered: the answer, and of a run that failed first of all that it did."""
    if facts["outcome"] == "success":
        return answer or ""
    reasons = [f"- {reason}" for reason in facts["evidence"]]
    head = "\n".join([f"The job {facts['job']} failed:", *reasons])
    return f"{head}\n\n{answer}" if answer else head
