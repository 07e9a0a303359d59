"""Hermes' scheduled jobs: their sessions, the ledger of runs, and the reports they wrote."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.hermes import LOCAL, MINI, SELLERS, SONNET, HermesChat
from relight.cli.demo.story import draw_values, fill, fill_step, read_demo_table, read_skills
from relight.sources.hermes.tables import EXECUTIONS, insert_rows, make_database

# what each job runs on, one model a run in turn
MODELS = {
    "ticket-triage": (SONNET, MINI, SONNET, MINI, LOCAL),
    "daily-report": (SONNET, MINI, LOCAL),
    "price-watch": (MINI,),
    "backup-check": (LOCAL,),
}
# how likely a model is to try the wrong path first, and to say in the end that it could not do it
STUMBLES = {SONNET: 0.05, MINI: 0.2, LOCAL: 0.55}
GIVES_UP = {SONNET: 0.02, MINI: 0.0, LOCAL: 0.4}
FAILS_EVERY = 3
SERVER_ERROR = "RuntimeError: HTTP 500: Internal server error"
OUTPUTS_KEPT = 50

Row = dict[str, Any]


@dataclass
class Night:
    """Everything that scheduled runs wrote."""

    conversations: list[HermesChat] = field(default_factory=list)
    executions: list[Row] = field(default_factory=list)
    outputs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    jobs: list[Row] = field(default_factory=list)


def run_jobs(dice: Dice, *, now: datetime, days: int) -> Night:
    """Return all runs of all jobs in the last days."""
    night = Night()
    for job in read_demo_table("jobs.toml")["job"]:
        times = [at for at in find_times(job, now=now, days=days) if at < now]
        for number, at in enumerate(times):
            _run(night, dice.branch(job["name"]), job, at, age=(now - at).days, number=number)
        coming = next(at for at in find_times(job, now=now + timedelta(days=8), days=9) if at > now)
        night.jobs.append(_describe_job(job, night, now=now, next_at=coming, runs=len(times)))
    return night


def find_times(job: Mapping[str, Any], *, now: datetime, days: int) -> Iterator[datetime]:
    """Return when a job is due, from `days` before `now` on."""
    for age in range(days, -1, -1):
        day = now - timedelta(days=age)
        for time in job["minute"].split() if day.weekday() in job["weekdays"] else ():
            hour, minute = map(int, time.split(":"))
            yield day.replace(hour=hour, minute=minute, second=0, microsecond=0)


def _run(
    night: Night, dice: Dice, job: Mapping[str, Any], at: datetime, *, age: int, number: int
) -> None:
    models = MODELS[job["name"]]
    model = models[number % len(models)]
    clock = Clock(at)
    clock.wait(dice.uniform(1, 40))
    begun = clock.now
    clock.wait(dice.uniform(3, 6))
    session = f"cron_{job['id']}_{begun:%Y%m%d_%H%M%S}"
    talk = HermesChat(dice, clock, model=model, session=session)
    talk.row |= {"source": "cron", "title": f"{job['name']} · {begun:%b %d %H:%M}"}
    values = draw_values(dice)
    script_fails = "script_error" in job and age < 21
    prompt = _write_prompt(job, values, script_fails=script_fails, is_old=age > 17)
    talk.hear(prompt)
    error = SERVER_ERROR if job["name"] == "backup-check" and number % FAILS_EVERY == 2 else None
    answer = fill(job["error_answer" if script_fails else "answer"], values)
    if error:
        clock.wait(dice.uniform(8, 14))  # three attempts, with pauses
    else:
        steps = [fill_step(step, values) for step in job["step"]]
        if "mishap" in job and dice.is_lucky(STUMBLES[model]):
            steps.insert(0, fill_step(dice.choice(job["mishap"]), values))
        if "weak_answer" in job and dice.is_lucky(GIVES_UP[model]):
            steps, answer = steps[:1], fill(job["weak_answer"], values)
        talk.take_all([] if script_fails else steps, answer)
    talk.close("cron_complete")  # Hermes says so however it ended
    clock.wait(0.2)
    night.conversations.append(talk)
    night.executions.append(_describe_execution(dice, job, begun, clock.now, error=error))
    report = _write_report(job, prompt, clock.now, answer=answer, error=error)
    night.outputs.setdefault(job["id"], []).append((f"{clock.now:%Y-%m-%d_%H-%M-%S}.md", report))


def _write_prompt(
    job: Mapping[str, Any], values: Mapping[str, object], *, script_fails: bool, is_old: bool
) -> str:
    skill = read_skills(job["name"])[0 if is_old else -1]
    parts = [
        f'[IMPORTANT: The user has invoked the "{skill.name}" skill, so follow it.]',
        skill.document,
        "The user has provided the following instruction alongside the skill invocation:"
        " [IMPORTANT: You are running as a scheduled cron job.]",
    ]
    if script_fails:
        parts.append(f"## Script Error\n\n```\n{fill(job['script_error'], values)}\n```")
    elif job["script"]:
        parts.append(f"## Script Output\n\n```\n{fill(job['script_out'], values)}\n```")
    return "\n\n".join([*parts, job["prompt"]])


def _write_report(
    job: Mapping[str, Any], prompt: str, at: datetime, *, answer: str, error: str | None
) -> str:
    title = f"# Cron Job: {job['name']}{' (FAILED)' if error else ''}"
    head = f"**Job ID:** {job['id']}\n**Run Time:** {at:%Y-%m-%d %H:%M:%S}"
    end = f"## Error\n\n```\n{error}\n```" if error else f"## Response\n\n{answer}"
    schedule = f"**Schedule:** {job['expr']}"
    return f"{title}\n\n{head}\n{schedule}\n\n## Prompt\n\n{prompt}\n\n{end}\n"


def _describe_execution(
    dice: Dice, job: Mapping[str, Any], begun: datetime, ended: datetime, *, error: str | None
) -> Row:
    return {
        "id": dice.hex_id(32),
        "job_id": job["id"],
        "source": "builtin",
        "process_id": dice.hex_id(32),
        "pid": dice.randint(900, 60_000),
        "process_started_at": dice.randint(10_000, 99_000),
        "status": "failed" if error else "completed",
        "claimed_at": begun.isoformat(),
        "started_at": (begun + timedelta(milliseconds=24)).isoformat(),
        "finished_at": ended.isoformat(),
        "error": error,
    }


def _describe_job(
    job: Mapping[str, Any], night: Night, *, now: datetime, next_at: datetime, runs: int
) -> Row:
    last = [row for row in night.executions if row["job_id"] == job["id"]][-1]
    model = MODELS[job["name"]][(runs - 1) % len(MODELS[job["name"]])]
    return {
        "id": job["id"],
        "name": job["name"],
        "prompt": job["prompt"],
        "skills": [job["name"]],
        "skill": job["name"],
        "model": model,
        "provider": SELLERS[model][0],
        "base_url": None,
        "script": job["script"] or None,
        "no_agent": False,
        "context_from": None,
        "schedule": {"kind": "cron", "expr": job["expr"], "display": job["expr"]},
        "schedule_display": job["expr"],
        "repeat": {"times": None, "completed": runs},
        "enabled": True,
        "state": "scheduled",
        "paused_at": None,
        "created_at": (now - timedelta(days=60)).isoformat(),
        "next_run_at": next_at.isoformat(),
        "last_run_at": last["finished_at"],
        "last_status": "error" if last["error"] else "ok",
        "last_error": last["error"],
        "last_delivery_error": None,
        "deliver": "local",
        "enabled_toolsets": None,
        "workdir": None,
    }


def write_night(home: Path, night: Night, *, now: datetime) -> None:
    """Write the files below `cron`, and the skills that the jobs use."""
    cron = home / "cron"
    with make_database(cron / "executions.db", EXECUTIONS) as database:
        ledger = sorted(night.executions, key=lambda row: (row["claimed_at"], row["id"]))
        insert_rows(database, "executions", ledger)
    jobs = {"jobs": night.jobs, "updated_at": now.isoformat()}
    (cron / "jobs.json").write_bytes(json.dumps(jobs, indent=2).encode())
    for job_id, outputs in night.outputs.items():
        folder = cron / "output" / job_id
        folder.mkdir(parents=True)
        for name, text in outputs[-OUTPUTS_KEPT:]:
            (folder / name).write_bytes(text.encode())
    for job in night.jobs:
        folder = home / "skills" / job["name"]
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_bytes(read_skills(job["name"])[-1].document.encode())
