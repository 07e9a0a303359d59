"""The two ways to let an agent work: our own loop, or any program that runs one.

Neither needs a job: whoever has a prompt can call them. What fails is told in what they give;
only what keeps this thread from going on, such as Ctrl-C, is raised.
"""

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.ids import row_id
from relight.intake.recorder import name_session
from relight.judging.failures import classify_error, read_kinds
from relight.model import Failure, Usage
from relight.prices import reported_cost
from relight.sources.printouts import READERS, Printout
from relight.store import Store
from relight.work.agent.loop import OnEvent
from relight.work.agent.session import run_prompt
from relight.work.jobs.joining import Left, find_left
from relight.work.jobs.notes import PROMPT, Program, choose_places, note_program
from relight.work.jobs.recipes import plan_command
from relight.work.processes import Ended, run_process
from relight.work.run_spec import RunSpec

BLINK_SECONDS = 0.2
LAST_FAILURE = """
    select failure, failure_text from turn
    where session_id = ? and failure is not null and role is not 'reference'
    order by at desc, place desc limit 1
"""


class Ran(Struct, frozen=True, kw_only=True):
    """What an agent's work left: an answer or what went wrong, and the session that tells of it.

    `ended_by` is why it failed, in words; `failure` says whether trying again can help, and is
    None where that is no question. `usage` and `cost_nanos` are what a program says of itself,
    for when no session tells it.
    """

    answer: str | None = None
    ended_by: str | None = None
    failure: Failure | None = None
    timed_out: bool = False
    session: str | None = None
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    cost_nanos: int | None = None
    evidence: list[str] = []


def run_chat(store: Store, prompt: str, spec: RunSpec, *, on_event: OnEvent | None = None) -> Ran:
    """Run Relight's own agent on a prompt, with one model or with `moa:<preset>`."""
    session_id = spec.session_id or name_session(time.time())
    session = f"relight:{session_id}"
    started = time.monotonic()
    try:
        result, _ = run_prompt(
            store, prompt, replace(spec, session_id=session_id), on_event=on_event
        )
    except RelightError as error:
        found = row_id("session", "relight", session_id)
        is_kept = bool(store.query("select 1 from session where id = ?", (found,)))
        return Ran(ended_by=_say(error), session=session if is_kept else None, model=spec.model)
    limit = spec.budget.seconds if spec.budget else None
    timed_out = bool(result.ended_by) and limit is not None and time.monotonic() - started >= limit
    return Ran(
        answer=result.answer,
        ended_by=_tell_limit(limit) if limit is not None and timed_out else result.ended_by,
        failure=_find_failure(store, session_id) if result.ended_by and not timed_out else None,
        timed_out=timed_out,
        session=session,
        model=spec.model,
        evidence=[] if result.ended_by else ["it ended with an answer"],
    )


def _find_failure(store: Store, session_id: str) -> Failure | None:
    """What the last model call of a session failed with, if that is what ended it."""
    rows = store.query(LAST_FAILURE, (row_id("session", "relight", session_id),))
    if not rows or rows[0][0] not in read_kinds():
        return None
    kind = read_kinds()[rows[0][0]]
    return Failure(
        kind=kind.name,
        category=kind.category,
        reason=rows[0][1] or kind.reason,
        should_retry=kind.max_retries > 0,
        max_retries=kind.max_retries,
        backoff_seconds=kind.backoff_seconds,
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
) -> Ran:
    """Let a program work on a prompt, and find the session that it left.

    Programs that have a recipe are given what they need to tell how it went; of any other its
    exit code counts, and what it printed is the answer. `scratch` is a folder for its files, which
    the caller removes: there stays noted by what the session is known, should this process not
    live to find it.
    """
    environment = dict(os.environ if environment is None else environment)
    # what the agent itself records goes where this is recorded
    environment["RELIGHT_HOME"] = str(store.config.home.resolve())
    place = Path(folder).expanduser().resolve()
    started_at = time.time()
    try:
        values = _list_values(prompt, model, folder=place, scratch=scratch)
        plan = plan_command(
            command, values, use_shell=use_shell, model=model, budget_usd=budget_usd
        )
        if not place.is_dir():
            raise RelightError(f"there is no folder {place}", "name another with --workdir")
        recipe = plan.recipe
        program = Program(
            source=recipe.source if recipe else None,
            key=values["session_id"] if plan.names_session else None,
            started_at=round(started_at * 1000),
            until=round((started_at + seconds) * 1000),
            places=choose_places(environment),
        )
        note_program(scratch, program)
        ended = run_process(
            plan.words, folder=place, seconds=seconds, environment=environment, told=plan.told
        )
    except RelightError as error:
        return Ran(ended_by=_say(error))
    except OSError as error:
        return Ran(ended_by=f"{command[0]} cannot be run: {error.strerror or error}")
    read = READERS[recipe.reads if recipe else "plain"]
    told = read(ended.output, Path(values["usage_file"]))
    left = Left(None)
    # no model answers in a blink: a program that is over by then and no agent we know was none
    if recipe is not None or ended.seconds >= BLINK_SECONDS:
        left = find_left(
            store,
            source=program.source,
            key=told.session or program.key,
            prompt=prompt,
            started_at=program.started_at,
            ended_at=round((started_at + ended.seconds) * 1000),
            environment=environment,
        )
    with suppress(OSError):  # it is looked for once more, if ever
        note_program(scratch, replace(program, is_over=True, session=left.session))
    ended_by, failure = _judge_ending(ended, told, seconds)
    return Ran(
        answer=told.answer,
        ended_by=ended_by,
        failure=failure,
        timed_out=ended.timed_out,
        session=left.session,
        model=told.model or model,
        provider=told.provider,
        usage=told.usage,
        cost_nanos=None if told.cost_usd is None else reported_cost(told.cost_usd).nanos,
        evidence=[*told.evidence, *([left.note] if left.note else [])],
    )


def _list_values(prompt: str, model: str | None, *, folder: Path, scratch: Path) -> dict[str, str]:
    """What the places in a command stand for; the prompt is in a file too."""
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    prompt_file = scratch / PROMPT
    prompt_file.write_text(prompt, encoding="utf-8", errors="replace")
    return {
        "prompt": prompt,
        "prompt_file": str(prompt_file),
        "workdir": str(folder),
        "usage_file": str(scratch / "usage.json"),
        "session_id": str(uuid.uuid4()),
        "model": model or "",
    }


def _judge_ending(
    ended: Ended, told: Printout, seconds: float
) -> tuple[str | None, Failure | None]:
    """Why a program failed, if it did: its time, its own word, then its exit code."""
    if ended.timed_out:
        return _tell_limit(seconds), None
    if told.error is not None:
        failure = classify_error(told.error, status=told.status)
        return f"the agent failed: {told.error}", None if told.is_limited else failure
    if ended.exit_code == 0:
        return None, None
    said = (ended.errors.strip() or ended.output.strip()).splitlines()
    if not said:
        return f"exit code {ended.exit_code}", None
    last = said[-1].strip()[:300]
    failure = classify_error(last)
    # what nobody knows is not tried again: a program's exit code may mean anything
    known = failure if failure.category != "unknown" else None
    return f"exit code {ended.exit_code}: {last}", known


def _tell_limit(seconds: float) -> str:
    return f"it was ended after {round(seconds, 1):g} seconds, which was its limit"


def _say(error: RelightError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
