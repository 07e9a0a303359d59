"""Past tasks of a job, each repeated on a model on trial and on the model in use.

A task is the prompt that a past run got, with the output of its script. It is repeated by Relight's
own agent in a copy of the job's folder, with tools that reach nothing beyond it. Nothing is
delivered, and no run is added to the job's history. The outcome follows from the same rules as that
of a run.
"""

import re
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.chat.blocks import END_OF_RULES
from relight.chat.messages import read_calls, read_text
from relight.errors import RelightError, as_typed
from relight.names import find_model_name
from relight.reports.canaries import ReplayReport
from relight.reports.sessions import find_session
from relight.reports.transcript import read_transcript
from relight.stats.canary import can_count
from relight.stats.odds import Tally
from relight.store import Store
from relight.store.canaries import CanaryRow, count_span
from relight.store.queries.runs import RunReport, read_runs
from relight.text import plural
from relight.work.agent.limits import Budget
from relight.work.experiments.trial import copy_folder, open_scratch
from relight.work.jobs.attempts import count_spent, judge_run, read_run_evidence
from relight.work.jobs.delivery import find_job_folder
from relight.work.jobs.job import JobDefinition
from relight.work.jobs.preparation import choose_job_tools, choose_route
from relight.work.jobs.registry import find_job
from relight.work.jobs.runners import run_chat
from relight.work.run_spec import RunSpec

# they reach files of the folder, which is a copy, or only read
SAFE_TOOLS = frozenset(("read_file", "write_file", "patch", "search_files", "web_fetch"))
RUNTIME = re.compile(r"^RUNTIME: model=.*$", re.MULTILINE)
SHOWN_SKIPPED = 20


class PastTask(Struct, frozen=True):
    """A task that a past run was given."""

    run_id: str
    prompt: str


# by the outcomes of a task on the model on trial and on that in use; others are unknown, since one
# outcome alone says nothing about the difference
_FIELDS = {
    ("success", "success"): "both",
    ("success", "failure"): "only_candidate",
    ("failure", "success"): "only_in_use",
    ("failure", "failure"): "neither",
}


def replay_tasks(
    store: Store,
    canary: CanaryRow,
    *,
    number: int,
    report: Callable[[str], None] = lambda line: None,
) -> str:
    """Repeat up to so many past tasks; return what came of it as JSON for the canary's row."""
    job = find_job(store, canary.job)
    tasks, skipped = find_repeatable_tasks(store, job, canary.against, number=number)
    for line in skipped[:SHOWN_SKIPPED]:
        report(f"not repeated: {line}")
    if (more := len(skipped) - SHOWN_SKIPPED) > 0:
        shown = as_typed(f"relight job canary {job.name} --json")
        report(f"not repeated: {more:,} more, which `{shown}` names")
    change = msgspec.json.decode(canary.change, type=dict[str, str | None])
    trial = replace(job, **change)
    counts, spent = dict.fromkeys((*_FIELDS.values(), "unknown"), 0), list[int | None]()
    report(f"{plural(len(tasks), 'task')} of past runs, each in a copy of the job's folder")
    place = 0
    for place, task in enumerate(tasks, start=1):
        outcomes = _repeat(store, trial, task, spent), _repeat(store, job, task, spent)
        counts[_FIELDS.get(outcomes, "unknown")] += 1
        ours, theirs = (counts["both"] + counts[f"only_{one}"] for one in ("candidate", "in_use"))
        done = f"{ours} succeeded on {canary.model}, {theirs} on {canary.against}"
        report(f"{place} of {len(tasks)}: {done}")
        if canary.budget_nanos is not None and sum(filter(None, spent)) >= canary.budget_nanos:
            if left := len(tasks) - place:
                skipped.append(f"{plural(left, 'more task')}: the budget is used up")
            break
    found = ReplayReport(
        tasks=place,
        **counts,
        is_counted=False,
        cost_usd=None if None in spent else sum(filter(None, spent)) / 1e9,
        skipped=skipped,
    )
    runs = count_span(store, canary.job, canary.against)
    live = Tally(runs.successes, runs.known - runs.successes)
    found = replace(found, is_counted=can_count(found.pairs.a, live))
    return msgspec.json.encode(found).decode()


def find_repeatable_tasks(
    store: Store, job: JobDefinition, model: str | None, *, number: int
) -> tuple[list[PastTask], list[str]]:
    """Return the newest different tasks that can be repeated safely, and why others cannot."""
    if job.runner != "chat":
        return [], ["its program may do anything, so that none of its tasks is safe to repeat"]
    tasks: dict[str, PastTask] = {}
    skipped: list[str] = []
    aliases = store.config.models.aliases
    for run in read_runs(store, job.name):
        is_own = run.model is not None and find_model_name(run.model, aliases) == model
        if not is_own or run.outcome == "unknown" or run.status not in ("completed", "failed"):
            continue
        found = _read_task(store, run)
        if isinstance(found, str):
            skipped.append(f"{run.run_id}: {found}")
        elif (words := RUNTIME.sub("", found.prompt)) in tasks:
            skipped.append(f"{run.run_id}: the same task as {tasks[words].run_id}")
        else:
            tasks[words] = found
        if len(tasks) == number:
            break
    return list(tasks.values()), skipped


def _read_task(store: Store, run: RunReport) -> PastTask | str:
    """Return the task of a run, or why it cannot be repeated."""
    if run.session_id is None:
        return "it left no session"
    try:
        messages = read_transcript(store, find_session(store, run.session_id)).messages
    except RelightError as error:
        return error.message
    prompt = next((read_text(one["content"]) for one in messages if one["role"] == "user"), "")
    if END_OF_RULES not in prompt:
        return "its prompt is not that of a job"
    if "## Script Error" in prompt:
        return "its script had failed"
    if "[redacted:" in prompt:
        return "its prompt held a secret, which is not kept"
    used = {call.tool for message in messages for call in read_calls(message)}
    if unsafe := sorted(used - SAFE_TOOLS):
        return f"it used {' and '.join(unsafe)}, which may change anything"
    return PastTask(run.run_id, prompt)


def _repeat(store: Store, job: JobDefinition, task: PastTask, spent: list[int | None]) -> str:
    """Run a task on the model of a job in a copy of its folder; return the outcome."""
    route = choose_route(job, config=store.config)
    assert route.model is not None
    provider = " ".join((route.provider or "unknown").split())
    runtime = f"RUNTIME: model={route.model} provider={provider}"
    prompt = RUNTIME.sub(lambda _: runtime, task.prompt, count=1)
    own = find_job_folder(store.config.home, job.name) / "work"
    source = Path(job.workdir).expanduser() if job.workdir else own
    with open_scratch() as scratch:
        copied = source if source.is_dir() else None
        spec = RunSpec(
            model=route.model,
            task=job.prompt,
            base_url=route.base_url,
            key_variable=route.key_variable,
            template=job.template,
            tools=[one for one in choose_job_tools(job, route)[0] if one in SAFE_TOOLS],
            folder=copy_folder(copied, scratch, hint="leave out --replay"),
            has_lessons=False,
            budget=Budget(cost_usd=job.budget_usd, seconds=job.timeout_seconds),
            session_id=f"replay.{job.name}.{secrets.token_hex(6)}",
        )
        result = run_chat(store, prompt, spec)
    seen = read_run_evidence(store, result, task=job.prompt)
    spent.append(count_spent(store, [result]).cost_nanos)
    return judge_run(result, None, seen=seen).outcome
