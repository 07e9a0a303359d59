"""One run of a job from beginning to end: prepared, prompted, tried, judged and closed."""

import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping

from relight.config import Config
from relight.errors import RefusedError, RelightError
from relight.model import Outcome
from relight.store import Store
from relight.store.misses import record_safely
from relight.work.agent.limits import Budget
from relight.work.jobs.closing import Done, Status, close_run, make_note
from relight.work.jobs.job import Job, Run, RunResult, name_run
from relight.work.jobs.notes import find_folder, is_noted, note_run
from relight.work.jobs.outcome import judge_run
from relight.work.jobs.preparing import Prepared, Task, prepare_run
from relight.work.jobs.prompt import build_prompt
from relight.work.jobs.retry import try_run
from relight.work.jobs.runners import Ran, run_chat, run_command
from relight.work.jobs.scripts import ScriptResult, run_script
from relight.work.run_spec import RunSpec

logger = logging.getLogger("relight")


def execute_run(
    store: Store,
    job: Job,
    run: Run,
    *,
    config: Config,
    clock: Callable[[], float] = time.time,
    environment: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> RunResult:
    """Do the work of one run; that it fails is its result, and never an exception."""
    task = Task(
        store=store,
        job=job,
        run=run,
        config=config,
        clock=clock,
        environment={
            **(os.environ if environment is None else environment),
            **name_run(config.home, run.key),
        },
        sleep=sleep,
    )
    done = _do(task)
    try:
        return close_run(task, done)
    except Exception as error:  # noqa: BLE001 - what the run came to is known, and must be told
        logger.warning("the run %s could not be closed: %s", run.key, error)
        return RunResult(
            status=done.status,
            outcome=done.judged.outcome,
            evidence=[*done.judged.evidence, f"it could not be closed: {error}"],
            attempts=len(done.tried.attempts) if done.tried else 0,
            session=done.sessions[-1] if done.sessions else None,
            earlier=done.sessions[:-1],
        )


def _do(task: Task) -> Done:
    prepared, deadline = None, time.monotonic() + task.job.timeout_seconds
    try:
        prepared = prepare_run(task)
        return _work(task, prepared, deadline=deadline)
    except RefusedError as error:
        return _give_up(task, prepared, error, status="refused")
    except RelightError as error:
        return _give_up(task, prepared, error)
    except Exception as error:  # whatever broke a run, it must be told as one that failed
        logger.exception("the run %s broke", task.run.key)
        return _give_up(task, prepared, RelightError(f"{type(error).__name__}: {error}"))


def _give_up(
    task: Task, prepared: Prepared | None, error: RelightError, *, status: Status = "failed"
) -> Done:
    hint = [error.hint] if error.hint else []
    return Done(
        status=status,
        judged=Outcome("failure", [error.message, *hint]),
        prepared=prepared,
        has_begun=is_noted(task.config.home, task.run.key),
    )


def _work(task: Task, prepared: Prepared, *, deadline: float) -> Done:
    job = task.job
    script: ScriptResult | None = None
    if job.script is not None:
        script = run_script(
            task.config.home,
            job.script,
            folder=prepared.folder,
            seconds=deadline - time.monotonic(),
            environment=task.environment,
        )
    is_skipped = script is not None and not script.failure and not script.wakes_agent
    tried = None
    # the checks or the script may have taken all the time
    if not is_skipped and time.monotonic() < deadline:
        prompt = build_prompt(
            job.prompt,
            skills=prepared.skills,
            script=script,
            model=prepared.route.model,
            provider=prepared.route.provider,
        )
        note = make_note(task, prepared)
        record_safely(task.store, lambda store: note_run(store.config.home, note))
        tried = try_run(
            task.store,
            lambda seconds, spent: attempt_run(task, prepared, prompt, seconds, spent),
            max_attempts=job.max_attempts,
            deadline=deadline,
            sleep=task.sleep,
        )
    judged = judge_run(tried.ran if tried else None, script)
    return Done(
        status="completed" if judged.outcome == "success" else "failed",
        judged=Outcome(judged.outcome, [*judged.evidence, *(tried.notes if tried else ())]),
        tried=tried,
        prepared=prepared,
        is_skipped=is_skipped,
        has_begun=tried is not None,
    )


def attempt_run(
    task: Task, prepared: Prepared, prompt: str, seconds: float, spent_usd: float
) -> Ran:
    """Let the job's runner work on the prompt once, with what is left of time and money."""
    job, route, limit = task.job, prepared.route, prepared.allowance.cost_usd
    left = None if limit is None else max(limit - spent_usd, 0.0)
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
            scratch=find_folder(task.config.home, task.run.key) / secrets.token_hex(4),
        )
    assert route.model is not None
    spec = RunSpec(
        model=route.model,
        task=job.prompt,
        base_url=route.base_url,
        key_variable=route.key_variable,
        template=job.template,
        tools=prepared.allowance.tools,
        folder=prepared.folder,
        budget=Budget(cost_usd=left, seconds=seconds),
        # if the run is cut short, its session is found by this name
        session_id=f"{task.run.key}-{secrets.token_hex(2)}",
    )
    return run_chat(task.store, prompt, spec)
