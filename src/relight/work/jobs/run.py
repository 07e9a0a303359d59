"""One run of a job from start to end: prepare, prompt, attempt, judge, deliver.

A worker calls `execute_run` for a claimed run. `attempts.try_run` makes the attempts, each of which
is one call of a function in `runners`.
"""

import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.config import Config
from relight.errors import ModelContextError, RefusedError, RelightError
from relight.judging.failures import make_failure
from relight.judging.outcomes import is_silent
from relight.model import Failure, Outcome
from relight.models.retrying import RetryBudget
from relight.redact import redact_text
from relight.store import Store
from relight.store.misses import record_safely
from relight.text import dollars, hide_secrets
from relight.times import format_moment, write_time
from relight.work.jobs.attempts import Attempts, count_spent, judge_run, read_run_evidence, try_run
from relight.work.jobs.delivery import RunFacts, deliver, format_message, format_page, write_answer
from relight.work.jobs.job import Delivery, JobDefinition, JobResult, JobRun
from relight.work.jobs.notes import RunNote, find_run_folder, has_note, write_run_note
from relight.work.jobs.preparation import Prepared, Route, RunTask, prepare_run
from relight.work.jobs.prompt import build_prompt
from relight.work.jobs.runners import AttemptResult, format_limit, run_chat, run_command
from relight.work.jobs.scripts import ScriptResult, run_script
from relight.work.jobs.skills import record_skills
from relight.work.processes import run_variables
from relight.work.run_spec import RunSpec

logger = logging.getLogger("relight")
# nobody waits for a job: a first wait of this length outlasts most outages with few requests
LEAST_WAIT_SECONDS = 10.0


class WorkEnd(Struct, frozen=True, kw_only=True):
    """The end of a run's work, before its answer is written and delivered.

    Without `prepared` the run was refused or failed in its preparation.
    """

    status: Literal["completed", "failed", "refused"]
    judged: Outcome
    attempts: Attempts | None = None
    prepared: Prepared | None = None
    is_skipped: bool = False
    # the agent received its prompt
    has_begun: bool = False
    # why a run that was refused would be refused again
    refusal: Failure | None = None

    @property
    def last(self) -> AttemptResult:
        return self.attempts.last if self.attempts else AttemptResult(failure=self.refusal)

    @property
    def results(self) -> list[AttemptResult]:
        return self.attempts.results if self.attempts else []

    def make_result(self) -> JobResult:
        """The result as far as it is known without the record."""
        sessions = self.attempts.sessions if self.attempts else []
        return JobResult(
            status=self.status,
            outcome=self.judged.outcome,
            evidence=self.judged.evidence,
            attempts=len(self.results),
            session=sessions[-1] if sessions else None,
            earlier=sessions[:-1],
        )


def execute_run(
    store: Store,
    job: JobDefinition,
    run: JobRun,
    *,
    config: Config,
    clock: Callable[[], float] = time.time,
    environment: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] | None = None,
) -> JobResult:
    """Do the work of one run; a failure is a result, never an exception."""
    given = os.environ if environment is None else environment
    task = RunTask(
        store=store,
        job=job,
        run=run,
        config=config,
        clock=clock,
        environment={**given, **run_variables(config.home, run.key)},
        sleep=sleep,
    )
    end = _work(task)
    try:
        return _close(task, end)
    except Exception as error:  # noqa: BLE001 - the outcome is known, and must be returned
        logger.warning("the run %s could not be closed: %s", run.key, error)
        evidence = [*end.judged.evidence, f"it could not be closed: {error}"]
        return replace(end.make_result(), evidence=evidence)


def _work(task: RunTask) -> WorkEnd:
    """Prepare the run, run the job's script, attempt the work, and judge it."""
    prepared, deadline = None, time.monotonic() + task.job.timeout_seconds
    try:
        prepared = prepare_run(task)
        script = None
        if task.job.script is not None:
            script = run_script(
                task.config.home,
                task.job.script,
                folder=prepared.folder,
                seconds=deadline - time.monotonic(),
                environment=task.environment,
            )
        is_skipped = script is not None and not script.failure and not script.wakes_agent
        attempts = None
        # the checks or the script may have used all the time
        if not is_skipped and time.monotonic() < deadline:
            attempts = _attempt(task, prepared, script, deadline=deadline)
    except RefusedError as error:
        return _give_up(task, prepared, error, status="refused")
    except RelightError as error:
        return _give_up(task, prepared, error)
    except Exception as error:  # any other error fails the run as well
        logger.exception("the run %s broke", task.run.key)
        return _give_up(task, prepared, RelightError(f"{type(error).__name__}: {error}"))
    last = attempts.last if attempts else None
    seen = read_run_evidence(task.store, last, task=task.job.prompt)
    judged = judge_run(last, script, seen=seen)
    notes = list(attempts.notes) if attempts else []
    if attempts and attempts.retry_at and judged.outcome == "failure":
        # rounded up to the minute, so that it is never too early
        at = format_moment(-(-attempts.retry_at // 60_000) * 60_000, task.store.timezone)
        # without the day of the week, so that equal causes have equal words
        judged.evidence[0] += f"; try again at {at.partition(' ')[2]}"
    return WorkEnd(
        status="completed" if judged.outcome == "success" else "failed",
        judged=Outcome(judged.outcome, [*judged.evidence, *notes]),
        attempts=attempts,
        prepared=prepared,
        is_skipped=is_skipped,
        has_begun=attempts is not None,
    )


def _give_up(
    task: RunTask,
    prepared: Prepared | None,
    error: RelightError,
    *,
    status: Literal["failed", "refused"] = "failed",
) -> WorkEnd:
    hint = [error.hint] if error.hint else []
    return WorkEnd(
        status=status,
        judged=Outcome("failure", [error.message, *hint]),
        prepared=prepared,
        has_begun=has_note(task.config.home, task.run.key),
        refusal=make_failure("small_context") if isinstance(error, ModelContextError) else None,
    )


def _attempt(
    task: RunTask, prepared: Prepared, script: ScriptResult | None, *, deadline: float
) -> Attempts:
    """Build the prompt, note that the agent begins, and run it with retries."""
    prompt = build_prompt(
        task.job.prompt,
        skills=prepared.skills,
        script=script,
        model=prepared.route.model,
        provider=prepared.route.provider,
    )
    note = _make_note(task, prepared)
    record_safely(task.store, lambda store: write_run_note(store.config.home, note))
    retries = RetryBudget(
        task.job.max_attempts, least_wait_seconds=LEAST_WAIT_SECONDS, sleep=task.sleep
    )
    attempts = try_run(
        task.store,
        partial(_run_agent, task, prepared, prompt, retries),
        retries=retries,
        deadline=deadline,
    )
    *earlier, last = attempts.results
    if not last.timed_out:
        return attempts
    # an attempt gets the rest of the run's limit, but a person knows the whole limit
    last = replace(last, ended_by=format_limit(task.job.timeout_seconds))
    return replace(attempts, results=[*earlier, last])


def _make_note(task: RunTask, prepared: Prepared) -> RunNote:
    return RunNote(
        run=task.run,
        model=prepared.route.model,
        provider=prepared.route.provider,
        skills=[(skill.name, skill.version) for skill in prepared.skills],
    )


def _run_agent(
    task: RunTask,
    prepared: Prepared,
    prompt: str,
    retries: RetryBudget,
    seconds: float,
    spent_usd: float,
) -> AttemptResult:
    """Run the job's runner once, with the time and money that are left."""
    job, route, limit = task.job, prepared.route, prepared.allowance.cost_usd
    left = None if limit is None else limit - spent_usd
    if left is not None and left <= 0:
        words = f"its budget of {dollars(limit)} was used up by the attempts before"
        return AttemptResult(ended_by=words, failure=make_failure("budget"), model=route.model)
    if job.runner == "command":
        return run_command(
            task.store,
            prompt,
            command=job.command,
            use_shell=job.use_shell,
            model=route.model,
            folder=prepared.folder,
            seconds=seconds,
            budget_usd=left,
            environment=task.environment,
            scratch=find_run_folder(task.config.home, task.run.key) / secrets.token_hex(4),
        )
    from relight.work.agent.limits import Budget

    assert route.model is not None
    spec = RunSpec(
        model=route.model,
        task=job.prompt,
        base_url=route.base_url,
        key_variable=route.key_variable,
        template=job.template,
        tools=prepared.allowance.tools,
        pass_variables=job.pass_variables,
        folder=prepared.folder,
        budget=Budget(cost_usd=left, seconds=seconds),
        # the session of an interrupted run is found by this name
        session_id=f"{task.run.key}-{secrets.token_hex(2)}",
        retries=retries,
    )
    return run_chat(task.store, prompt, spec)


def _close(task: RunTask, end: WorkEnd) -> JobResult:
    """Write the answer's file, record the skills' uses, and deliver; errors change no outcome."""
    result = _sum_up(task, end)
    facts, warnings = _list_facts(task, result), _find_warnings(task, end, result)
    answer_file = None
    try:
        # an agent that was not woken has no answer
        if not end.is_skipped:
            page, at = format_page(asdict(facts), result.answer), task.run.started_at / 1000
            answer_file = write_answer(task.config.home, task.job.name, page, at=at)
    except OSError as error:
        warnings.append(f"the answer could not be kept: {error}")
    if end.prepared is not None and end.prepared.skills and end.has_begun:
        record_skills(task.store, _make_note(task, end.prepared), result)
    delivery = _send(task, end, facts, result.answer, is_written=answer_file is not None)
    return replace(result, answer_file=answer_file, delivery=delivery, warnings=warnings)


def _sum_up(task: RunTask, end: WorkEnd) -> JobResult:
    """Outcome and cost of a run, without secrets."""
    key = task.store.redaction_key
    route = end.prepared.route if end.prepared else Route()
    spent = count_spent(task.store, end.results)
    return replace(
        end.make_result(),
        evidence=[redact_text(text, key=key) for text in end.judged.evidence],
        finished_at=round(task.clock() * 1000),
        model=end.last.model or route.model,
        provider=end.last.provider or route.provider,
        # an agent that never began costs nothing
        cost_nanos=spent.cost_nanos if end.has_begun else 0,
        usage=spent.usage,
        answer=redact_text(end.last.answer, key=key) if end.last.answer else None,
        failure_kind=end.last.failure_kind if end.judged.outcome == "failure" else None,
        retry_at=end.attempts.retry_at if end.attempts and end.status == "failed" else None,
    )


def _list_facts(task: RunTask, result: JobResult) -> RunFacts:
    return RunFacts(
        job=task.job.name,
        run_id=task.run.key,
        outcome=result.outcome,
        evidence=result.evidence,
        scheduled_for=write_time(task.run.scheduled_for),
        started_at=write_time(task.run.started_at),
        finished_at=write_time(result.finished_at),
        model=result.model,
        session_id=result.session,
        cost_usd=None if result.cost_nanos is None else result.cost_nanos / 1e9,
    )


def _find_warnings(task: RunTask, end: WorkEnd, result: JobResult) -> list[str]:
    if end.prepared is None:
        return []
    allowance = end.prepared.allowance
    warnings = list(allowance.warnings)
    limit, results = task.job.budget_usd, end.results
    spent = (result.cost_nanos or count_spent(task.store, results).known_nanos) / 1e9
    # a call that was cut off has no known cost either, but the rest was watched
    if results and allowance.cost_usd is not None and result.cost_nanos is None and not spent:
        warnings.append("what it cost is not known: no budget could hold it")
    if limit is not None and spent > limit:
        warnings.append(f"it cost ${spent:.4f}, more than its budget of ${limit:g}")
    return warnings


def _send(
    task: RunTask, end: WorkEnd, facts: RunFacts, answer: str | None, *, is_written: bool
) -> Delivery:
    """Deliver the answer, or the reasons of a failure; suppressed if there is nothing to report."""
    to = task.job.deliver
    if end.is_skipped or (end.status == "completed" and is_silent(answer)):
        return Delivery(to=hide_secrets(to), status="suppressed", attempts=0)
    if to == "file":
        why = None if is_written else "the answer could not be kept"
        return Delivery(to=to, status="delivered" if is_written else "failed", error=why)
    return deliver(
        to,
        format_message(facts, answer),
        facts={**asdict(facts), "answer": answer},
        folder=end.prepared.folder if end.prepared else task.config.home,
        environment=task.environment,
        sleep=task.sleep or time.sleep,
    )
