"""Builders for runs: a job and a run of it, and a program that leaves what Claude Code leaves."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.model import row_id
from relight.store import Store
from relight.store.jobs import find_own_job
from relight.store.sql import insert
from relight.work.jobs.claimed_run import run_now
from relight.work.jobs.job import JobDefinition, JobResult, JobRun
from relight.work.jobs.registry import add_job, job_id
from relight.work.jobs.run import execute_run

# A stand-in for Claude Code: the same options, transcript and result, without a model. What it
# does depends on marks in the prompt.
CLAUDE = f"""#!{sys.executable}
import json, os, sys, time, uuid
from datetime import datetime, timezone
from pathlib import Path
words = sys.argv[1:]
def option(name, other=None):
    return words[words.index(name) + 1] if name in words else other
prompt = sys.stdin.read()
def find(word):
    return f"<{{word}}>" in prompt
session = option("--session-id", str(uuid.uuid4()))
file = Path(os.environ["HOME"], ".claude", "projects", "-x", session + ".jsonl")
file.parent.mkdir(parents=True, exist_ok=True)
def write(kind, message, **fields):
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {{"type": kind, "sessionId": session, "uuid": str(uuid.uuid4()), "timestamp": now,
            "cwd": os.getcwd(), "version": "2.1.325", "isSidechain": False, "message": message}}
    with file.open("a") as opened:
        opened.write(json.dumps(line | fields) + "\\n")
    time.sleep(0.01)  # no two lines of an agent have the same time
usage = {{"input_tokens": 1000, "cache_read_input_tokens": 200, "output_tokens": 34}}
def speak(name, *blocks, stop="end_turn"):
    write("assistant", {{"id": name + session, "role": "assistant", "model": "claude-opus-4-6",
        "content": list(blocks), "stop_reason": stop,
        "usage": usage | {{"cache_creation_input_tokens": 0}}}}, requestId=name + session)
def ask(tool, **arguments):
    call = {{"type": "tool_use", "id": "toolu_1", "name": tool, "input": arguments}}
    speak("msg_0", call, stop="tool_use")
    done = {{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}}
    write("user", {{"role": "user", "content": [done]}})
def fail(status, why):
    said = {{"id": str(uuid.uuid4()), "role": "assistant", "model": "<synthetic>",
        "content": [{{"type": "text", "text": why}}]}}
    write("assistant", said, isApiErrorMessage=True, apiErrorStatus=status)
    print(json.dumps({{"type": "result", "subtype": "success", "is_error": True,
        "api_error_status": status, "result": why, "session_id": session, "total_cost_usd": 0}}))
    sys.exit(1)
count = file.parent / "count"
tries = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (tries + 1))
if not find("without a session"):
    write("user", {{"role": "user", "content": prompt}})
if find("speaking"):
    speak("msg_0", {{"type": "text", "text": "I begin."}}, stop="tool_use")
if find("slow"):
    (file.parent / "pid").write_text(str(os.getpid()))
    time.sleep(60)
if find("with a skill of its own"):
    ask("Skill", skill="review")
for number in range(5 if find("in a spiral") else 0):
    call = {{"type": "tool_use", "id": f"toolu_s{{number}}", "name": "Bash",
        "input": {{"command": "make deploy"}}}}
    speak(f"msg_s{{number}}", call, stop="tool_use")
    failed = {{"type": "tool_result", "tool_use_id": call["id"], "is_error": True,
        "content": "Exit code 2"}}
    write("user", {{"role": "user", "content": [failed]}})
if find("broken once"):
    ask("Read", file_path="x")
if find("broken") or (find("broken once") and not tries):
    fail(500, "API Error: 500 outage")
if find("denied"):
    fail(401, "API Error: 401 bad key")
answer = "[SILENT]" if find("silent") else "" if find("empty") else "All is in its place."
if find("failing"):
    answer = "[SCRIPT_FAILED]: the backup did not run"
if not find("without a session"):
    speak("msg_1", {{"type": "text", "text": answer}})
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": answer,
    "session_id": session, "total_cost_usd": 0.0059, "usage": usage,
    "modelUsage": {{"claude-opus-4-6": {{}}}}}}))
"""


def write_program(folder: Path, name: str, text: str) -> Path:
    path = folder / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def write_agent(home: Path) -> Path:
    """The stand-in, as the program `claude`."""
    return write_program(home, "claude", CLAUDE)


def environment(home: Path, **more: str) -> dict[str, str]:
    """A separate home for every agent."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), **more}


def make_job(**fields: Any) -> JobDefinition:
    given = {"name": "house", "schedule": "every 1h", "prompt": "Look after the house.", **fields}
    return JobDefinition(**given)


def make_run(job: JobDefinition, number: int = 1) -> JobRun:
    key = f"{job.name}@{number}"
    now = round(time.time() * 1000)
    return JobRun(
        id=row_id("run", "relight", key), key=key, job=job.name, scheduled_for=now, started_at=now
    )


def execute(store: Store, job: JobDefinition, *, home: Path, number: int = 1) -> JobResult:
    """Do the work of a run alone, without a scheduler, and without waiting between attempts."""
    return execute_run(
        store,
        job,
        make_run(job, number),
        config=store.config,
        environment=environment(home),
        sleep=lambda _: None,
    )


def run_job(store: Store, job: JobDefinition, *, home: Path) -> JobResult:
    """Keep a job, run it at once and write down what came of it, as `relight job run` does."""
    add_job(store, job, now=round(time.time() * 1000), replace=True)

    def do(store: Store, job: JobDefinition, run: JobRun, **given: Any) -> JobResult:
        return execute_run(
            store, job, run, environment=environment(home), sleep=lambda _: None, **given
        )

    return run_now(store, job.name, holder="test", execute=do)[1]


class EndedRun(Struct, frozen=True, kw_only=True):
    """The columns of a run that a series is made of."""

    id: int
    source: str = "relight"
    key: str
    job_id: int
    session_id: int | None = None
    status: str = "completed"
    started_at: int
    finished_at: int
    outcome: str
    outcome_evidence: str = "[]"
    attempts: int = 1
    model: str | None = "big"
    cost_nanos: int | None = None


def write_runs(
    store: Store,
    job: str,
    outcomes: Sequence[bool | None],
    *,
    first_at: int,
    every_ms: int,
    costs_usd: Sequence[float] | None = None,
    **fields: Any,
) -> None:
    """Ended runs of a job, which is added if it is new; True is a success, None unknown."""
    if find_own_job(store, job_id(job)) is None:
        add_job(store, make_job(name=job), now=first_at)
    rows = []
    for number, outcome in enumerate(outcomes):
        at = first_at + number * every_ms
        key = f"{job}@{at}"
        cost = None if costs_usd is None else round(costs_usd[number] * 1e9)
        word = {True: "success", False: "failure", None: "unknown"}[outcome]
        rows.append(
            EndedRun(
                **{
                    "id": row_id("run", "relight", key),
                    "key": key,
                    "job_id": job_id(job),
                    "started_at": at,
                    "finished_at": at + 60_000,
                    "outcome": word,
                    "cost_nanos": cost,
                    **fields,
                }
            )
        )
    with store.transaction() as database:
        insert(database, "run", rows)


def read_answer(store: Store, result: JobResult) -> dict[str, Any]:
    """The file of a run's answer: its facts, and below `answer` the answer."""
    assert result.answer_file is not None
    text = (store.config.home / result.answer_file).read_text()
    _, head, answer = text.split("---\n", 2)
    facts = dict(line.split(": ", 1) for line in head.splitlines())
    return {name: json.loads(value) for name, value in facts.items()} | {"answer": answer.strip()}
