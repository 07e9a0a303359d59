"""The two runners: Relight's own agent, and any program that runs another agent.

Neither needs a job. A failure is part of what they return; they raise only what must end this
thread, such as Ctrl-C.
"""

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.judging.failures import classify_error, make_failure
from relight.locks import make_folder, write_private
from relight.model import Failure, Usage, row_id
from relight.prices import reported_cost
from relight.sources.printouts import READERS, Printout
from relight.store import Store
from relight.store.runs import find_recorded_session
from relight.work.jobs.notes import PROMPT, ProgramNote, choose_places, write_program_note
from relight.work.jobs.recipes import CommandPlan, plan_command
from relight.work.jobs.spending import add_figures
from relight.work.processes import ProcessEnd, run_process
from relight.work.run_spec import RunSpec

BLINK_SECONDS = 0.2


class AttemptResult(Struct, frozen=True, kw_only=True):
    """The result of one attempt: an answer or an error, and the session that recorded it.

    `ended_by` is the reason of a failure in words. `failure` says whether a retry can help; None if
    it cannot. `usage` and `cost_nanos` are a program's own figures, used if it left no session.
    """

    answer: str | None = None
    ended_by: str | None = None
    failure: Failure | None = None
    timed_out: bool = False
    # the other side asked for no attempt before this
    retry_at: int | None = None
    session: str | None = None
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    cost_nanos: int | None = None
    evidence: list[str] = []

    @property
    def failure_kind(self) -> str | None:
        """The kind of the failure, a row of `data/failures.toml`, if it has one."""
        return "time_limit" if self.timed_out else self.failure.kind if self.failure else None


def find_retry_at(failure: Failure | None) -> int | None:
    """The time from which the other side allows another attempt, if it said so just now."""
    if failure is None or not failure.asked_seconds:
        return None
    return round((time.time() + failure.asked_seconds) * 1000)


def run_chat(store: Store, prompt: str, spec: RunSpec) -> AttemptResult:
    """Run Relight's own agent on a prompt, with one model or with `moa:<preset>`."""
    from relight.intake.recorder import make_session_name
    from relight.work.agent.session import run_prompt

    session_id = spec.session_id or make_session_name(time.time())
    session = f"relight:{session_id}"
    row = row_id("session", "relight", session_id)
    started = time.monotonic()
    try:
        result, _ = run_prompt(store, prompt, replace(spec, session_id=session_id))
    except RelightError as error:
        is_recorded = find_recorded_session(store, row) is not None
        return AttemptResult(
            ended_by=_format_error(error),
            session=session if is_recorded else None,
            model=spec.model,
        )
    limit = spec.budget.seconds if spec.budget else None
    timed_out = bool(result.ended_by) and limit is not None and time.monotonic() - started >= limit
    return AttemptResult(
        answer=result.answer,
        ended_by=format_limit(limit) if limit is not None and timed_out else result.ended_by,
        failure=result.failure,
        timed_out=timed_out,
        retry_at=find_retry_at(result.failure),
        session=session,
        model=spec.model,
    )


def run_command(
    store: Store,
    prompt: str,
    *,
    command: Sequence[str],
    scratch: Path,
    use_shell: bool = False,
    model: str | None = None,
    folder: str | Path = ".",
    seconds: float = 1800.0,
    budget_usd: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> AttemptResult:
    """Run a program on a prompt, and find the session that it left.

    A program with a recipe gets the options that make it report its result. For any other the exit
    code counts, and its output is the answer. `scratch` is a folder for its files, which the caller
    removes. A note there lets a later process find the session if this one is killed.
    """
    # the agent's own records go to this store
    home = {"RELIGHT_HOME": str(store.config.home.resolve())}
    environment = {**(os.environ if environment is None else environment), **home}
    place = Path(folder).expanduser().resolve()
    started_at = time.time()
    try:
        values = _list_values(prompt, model, folder=place, scratch=scratch)
        plan = plan_command(
            command, values, use_shell=use_shell, model=model, budget_usd=budget_usd
        )
        if not place.is_dir():
            raise RelightError(f"there is no folder {place}", "name another with --workdir")
        program = ProgramNote(
            source=plan.recipe.source if plan.recipe else None,
            key=values["session_id"] if plan.names_session else None,
            started_at=round(started_at * 1000),
            until=round((started_at + seconds) * 1000),
            places=choose_places(environment),
        )
        write_program_note(scratch, program)
        usage_file = Path(values["usage_file"])
        watch = None
        if budget_usd is not None and not plan.limits_cost:
            # loaded late: reading other agents' files needs much code
            from relight.work.jobs.budget_watch import BudgetWatch

            watch = BudgetWatch(
                store, program, prompt=prompt, budget_usd=budget_usd, environment=environment
            )

        def is_over(read_output: Callable[[], str]) -> bool:
            return watch is not None and watch.is_over(
                lambda: _read_output(plan, read_output(), usage_file).session
            )

        ended = run_process(
            plan.words,
            folder=place,
            seconds=seconds,
            environment=environment,
            standard_input=plan.standard_input,
            watch=is_over if watch else None,
        )
    except RelightError as error:
        return AttemptResult(ended_by=_format_error(error))
    except OSError as error:
        return AttemptResult(ended_by=f"{command[0]} cannot be run: {error.strerror or error}")
    printed = _read_output(plan, ended.output, usage_file)
    session, note = _find_session(store, program, ended, printed, prompt, environment)
    with suppress(OSError):  # at worst it is searched for once more
        write_program_note(scratch, replace(program, is_over=True, session=session))
    ended_by, failure = _judge_end(ended, printed, seconds)
    notes = [note, watch.find_gap() if watch else None]
    if watch and ended.is_stopped:
        cost = add_figures(store, [session]).known_nanos if session else 0
        ended_by, failure = watch.describe_end(cost), make_failure("budget")
    return AttemptResult(
        answer=printed.answer,
        ended_by=ended_by,
        failure=failure,
        timed_out=ended.timed_out,
        retry_at=find_retry_at(failure),
        session=session,
        model=printed.model or model,
        provider=printed.provider,
        usage=printed.usage,
        cost_nanos=None if printed.cost_usd is None else reported_cost(printed.cost_usd).nanos,
        evidence=[*printed.evidence, *filter(None, notes)],
    )


def _list_values(prompt: str, model: str | None, *, folder: Path, scratch: Path) -> dict[str, str]:
    """The values of the places in a command; the prompt is also written to a file."""
    make_folder(scratch)
    prompt_file = scratch / PROMPT
    write_private(prompt_file, prompt.encode(errors="replace"))
    return {
        "prompt": prompt,
        "prompt_file": str(prompt_file),
        "workdir": str(folder),
        "usage_file": str(scratch / "usage.json"),
        "session_id": str(uuid.uuid4()),
        "model": model or "",
    }


def _read_output(plan: CommandPlan, output: str, usage_file: Path) -> Printout:
    return READERS[plan.recipe.reads if plan.recipe else "plain"](output, usage_file)


def _find_session(
    store: Store,
    program: ProgramNote,
    ended: ProcessEnd,
    printed: Printout,
    prompt: str,
    environment: Mapping[str, str],
) -> tuple[str | None, str | None]:
    """The session that a program left, and a note about the search."""
    if program.source is None and ended.seconds < BLINK_SECONDS:
        return None, None  # no model answers that fast, so the program was no agent
    # loaded late: reading other agents' files needs much code
    from relight.work.jobs.left_sessions import find_left_session

    named = replace(program, key=printed.session or program.key)
    ended_at = program.started_at + round(ended.seconds * 1000)
    return find_left_session(store, named, prompt, ended_at=ended_at, environment=environment)


def _judge_end(
    ended: ProcessEnd, printed: Printout, seconds: float
) -> tuple[str | None, Failure | None]:
    """The reason of a failure, if any: the time limit, the program's report, then its exit code."""
    if ended.timed_out:
        return format_limit(seconds), None
    if printed.error is not None:
        failure = classify_error(printed.error, status=printed.status)
        return f"the agent failed: {printed.error}", None if printed.is_limited else failure
    if ended.exit_code == 0:
        return None, None
    lines = (ended.errors.strip() or ended.output.strip()).splitlines()
    if not lines:
        return f"exit code {ended.exit_code}", None
    last = lines[-1].strip()[:300]
    failure = classify_error(last)
    # an unknown failure is not retried: a program's exit code may mean anything
    known = failure if failure.category != "unknown" else None
    return f"exit code {ended.exit_code}: {last}", known


def format_limit(seconds: float) -> str:
    """Return the sentence on a run that used up its time."""
    return f"it was ended after {round(seconds, 1):g} seconds, which was its limit"


def _format_error(error: RelightError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
