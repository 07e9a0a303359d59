"""One run of an experiment: prepared, done by a runner, checked, and recorded.

Its folder is a fresh copy of the task's, so that no arm finds the other's work.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from relight.errors import RelightError
from relight.intake.recorder import make_session_name
from relight.locks import create_held, hold
from relight.model import Outcome, row_id
from relight.models.retrying import RetryBudget
from relight.reports.labels import label_session
from relight.store import Store, experiments
from relight.store.experiments import RunKey, RunRecord
from relight.store.provisions import Decision
from relight.warm.library import Template
from relight.warm.provision import SWITCH, make_decision_id, record_decision, rename_session
from relight.work.agent.limits import Budget
from relight.work.experiments.plan import WARM, ExperimentPlan, TrialTask
from relight.work.experiments.register import Experiment, ExperimentSpending, now_ms, sum_tokens
from relight.work.jobs.attempts import judge_run, read_run_evidence, try_run
from relight.work.jobs.runners import AttemptResult, run_chat, run_command
from relight.work.jobs.spending import add_figures
from relight.work.processes import ProcessEnd, run_process
from relight.work.run_spec import RunSpec


class TrialStart(Struct, frozen=True, kw_only=True):
    """The start of a run; the cold arm has the template it would have had, but no text."""

    template: Template | None = None
    similarity: float | None = None
    text: str | None = None
    tokens: int | None = None


class Trial(Struct, frozen=True):
    """A run to be done: its experiment, task, key and start."""

    experiment: Experiment
    task: TrialTask
    key: RunKey
    start: TrialStart


def execute_trial(
    store: Store, trial: Trial, *, spent: ExperimentSpending
) -> tuple[RunRecord, str | None]:
    """Do the work of a run; return its record, and why the next runs would be useless, if so."""
    plan, task = trial.experiment.plan, trial.task
    # the agent's own warm starts would make the cold arm warm
    environment = {**os.environ, SWITCH: "off"}
    began = time.monotonic()
    deadline = began + plan.run_seconds * plan.max_attempts
    try:
        with open_scratch() as scratch:
            own = Path(task.workdir) if task.workdir is not None else None
            folder = (
                Path(task.workdir or ".").resolve()
                if plan.in_place
                else copy_folder(own, scratch, hint="use --in-place to work in it")
            )
            if task.setup is not None:
                ended = run_line(task.setup, folder, environment)
                if ended.exit_code:
                    raise RelightError(f"its setup failed: {format_end(ended)}")
            tried = try_run(
                store,
                partial(_attempt, store, trial, folder, scratch, spent, environment),
                retries=RetryBudget(plan.max_attempts),
                deadline=deadline,
            )
            outcome = _judge(store, task, tried.last, folder, environment)
    except RelightError as error:
        return skip_run(error.message), None
    spent_ms = round((time.monotonic() - began) * 1000)
    return _make_record(store, trial, tried.last, outcome, tried.sessions, spent_ms)


def skip_run(reason: str) -> RunRecord:
    return RunRecord(status="skipped", evidence=[reason], finished_at=now_ms())


def _attempt(
    store: Store,
    trial: Trial,
    folder: Path,
    scratch: Path,
    spent: ExperimentSpending,
    environment: Mapping[str, str],
    seconds: float,
    spent_usd: float,
) -> AttemptResult:
    experiment, task, start, arm = trial.experiment, trial.task, trial.start, trial.key.arm
    plan = experiment.plan
    # what is left of the experiment's budget
    usd = None if plan.budget_usd is None else max(plan.budget_usd - spent.usd - spent_usd, 0.0)
    tokens = None if plan.budget_tokens is None else max(plan.budget_tokens - spent.tokens, 1)
    seconds = min(seconds, plan.run_seconds)
    prompt = f"{start.text}\n\n{task.prompt}" if start.text else task.prompt
    model = plan.find_model(arm)
    session_id = make_session_name(time.time())
    is_chat = plan.runner == "chat"
    experiments.add_attempt(store, trial.key, f"relight:{session_id}" if is_chat else None)
    provision = None
    if plan.is_warm_start:
        decision = Decision(
            id=make_decision_id(),
            session_key=session_id,
            source="relight" if is_chat else None,
            arm=arm,
            similarity=start.similarity,
            reason=f"experiment {experiment.name}, task {task.id}",
            created_at=now_ms(),
            project=task.workdir,
            tokens=start.tokens if arm == WARM else None,
            experiment_id=experiment.id,
        )
        provision = record_decision(store, decision, start.template)
    if is_chat:
        assert model is not None
        spec = RunSpec(
            model=model,
            base_url=plan.base_url,
            key_variable=plan.key_variable,
            tools=plan.tools,
            pass_variables=plan.pass_variables,
            folder=folder,
            has_lessons=False,
            budget=Budget(cost_usd=usd, tokens=tokens, seconds=seconds),
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
        seconds=seconds or plan.run_seconds,
        budget_usd=usd,
        environment=environment,
        scratch=scratch / session_id,
    )
    if provision is not None and ran.session:
        rename_session(store, provision, ran.session)
    return ran


def _judge(
    store: Store, task: TrialTask, ran: AttemptResult, folder: Path, environment: Mapping[str, str]
) -> Outcome:
    """Return whether the task was done: by its check, else by what the session shows."""
    shown = judge_run(ran, seen=read_run_evidence(store, ran, task=task.prompt))
    failures = shown.evidence if shown.outcome == "failure" else []
    if task.check is not None:
        try:
            ended = run_line(task.check, folder, environment)
        except RelightError as error:
            return Outcome("unknown", [f"its check: {error.message}", *failures])
        word = "failed" if ended.exit_code else "passed"
        evidence = [f"its check {word}: {format_end(ended)}", *failures]
        judged = Outcome("failure" if ended.exit_code else "success", evidence)
        if ran.session:
            found = row_id("session", *ran.session.split(":", 1))
            label_session(store, found, judged.outcome, why=evidence[0])
        return judged
    if failures:
        return shown
    return Outcome("unknown", [*shown.evidence, "no check says whether the task was done"])


def _make_record(
    store: Store,
    trial: Trial,
    ran: AttemptResult,
    outcome: Outcome,
    sessions: list[str],
    spent_ms: int,
) -> tuple[RunRecord, str | None]:
    key = trial.key
    before = next(
        run.sessions
        for run in experiments.read_trial_runs(store, key.experiment_id)
        if (run.task, run.round, run.arm) == (key.task, key.round, key.arm)
    )
    every = list(dict.fromkeys([*before, *sessions]))
    figures = add_figures(store, every)
    is_reported = not every and ran.cost_nanos is not None
    nanos = ran.cost_nanos if is_reported else figures.cost_nanos
    tokens = sum_tokens(figures.usage or ran.usage)
    why_stop = _find_stop(trial.experiment.plan, ran, tokens)
    record = RunRecord(
        status="interrupted" if why_stop else "done",
        finished_at=now_ms(),
        session=ran.session,
        sessions=every,
        outcome=outcome.outcome,
        evidence=outcome.evidence,
        cost_nanos=nanos,
        tokens=tokens,
        duration_ms=spent_ms,
    )
    return record, why_stop


def _find_stop(plan: ExperimentPlan, ran: AttemptResult, tokens: int | None) -> str | None:
    """Return why a run and the next ones are useless: no budget, or no model."""
    reason = ran.ended_by or ""
    if plan.budget_usd is not None and reason.startswith("the budget of $"):
        return reason
    if plan.budget_tokens is not None and reason.startswith("the budget of") and "tokens" in reason:
        return reason
    has_never_begun = bool(reason) and not tokens and not ran.timed_out and ran.usage is None
    return f"nothing could be run: {reason}" if has_never_begun else None


COMMAND_SECONDS = 1800.0
PREFIX, LOCK = "relight-experiment-", "held"
# exit codes of a shell for a command that may not be run, or does not exist
NOT_RUN = (126, 127)


@contextmanager
def open_scratch() -> Iterator[Path]:
    """Yield a temporary folder for a run.

    It is locked as long as this process lives, so that the folders of killed ones can be removed.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), (left / LOCK).open("rb+") as file:
            if hold(file.fileno(), waits=False):
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        made = Path(name)
        with os.fdopen(create_held(made / LOCK), "ab"):
            yield made


def copy_folder(source: Path | None, scratch: Path, *, hint: str) -> Path:
    """Return a copy of a folder with all that has content, or without a source a new folder.

    Raise with the hint if it cannot be copied.
    """
    folder = scratch / "copy" / (source.name if source else "work")
    if source is None:
        folder.mkdir(parents=True)
        return folder
    try:
        shutil.copytree(source, folder, symlinks=True, ignore=_ignore_special)
    except (OSError, shutil.Error) as error:
        raise RelightError(f"{source} cannot be copied: {error}", hint) from error
    return folder


def _ignore_special(folder: str, names: list[str]) -> set[str]:
    """Sockets, pipes and devices, which have no content to copy."""
    return {
        name
        for name in names
        if not (path := Path(folder, name)).is_symlink()
        and not path.is_dir()
        and not path.is_file()
    }


def run_line(line: str | list[str], folder: Path, environment: Mapping[str, str]) -> ProcessEnd:
    """Run a task's setup or check in the folder: a shell line, or a list of words.

    Raise if it could not be run to its end.
    """
    words = ["/bin/sh", "-c", line] if isinstance(line, str) else line
    try:
        ended = run_process(
            words,
            folder=folder,
            seconds=COMMAND_SECONDS,
            environment=environment,
        )
    except OSError as error:
        raise RelightError(f"{words[0]} cannot be run: {error.strerror or error}") from error
    if ended.timed_out:
        raise RelightError(f"it took longer than {COMMAND_SECONDS:.0f} seconds")
    if isinstance(line, str) and ended.exit_code in NOT_RUN:
        raise RelightError(f"it cannot be run: {format_end(ended)}")
    return ended


def format_end(ended: ProcessEnd) -> str:
    """Return the exit code of a command, with its last line of output."""
    lines = (ended.errors.strip() or ended.output.strip()).splitlines()
    last = f": {lines[-1].strip()[:300]}" if lines else ""
    return f"exit code {ended.exit_code}{last}"
