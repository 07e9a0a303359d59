"""Jobs and their runs as people read them."""

import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from relight.cli import screen

# what is said of a job before its other fields, or told by its runs
SAID = {"name", "job", "state", "timezone", "prompt", "schedule_words"}
SAID |= {"runs", "successes", "failures"}
# says more of a run than that its outcome is unknown
UNDONE = ("claimed", "running", "skipped", "refused")


def print_jobs(jobs: Sequence[Mapping[str, Any]], zone: str) -> None:
    """A line for each job; its state in place of the next time where there is none."""
    columns = [screen.Column(heading, is_number=False) for heading in ("job", "schedule", "next")]
    columns += [screen.Column("runs"), screen.Column("failed")]
    columns += [screen.Column("last", is_number=False), screen.Column("outcome", is_number=False)]
    rows = [
        [
            job["name"],
            job["schedule"] or "",
            _tell_shortly(job["next_run_at"], zone) or job["state"] or "",
            screen.count(job["runs"]),
            screen.count(job["failures"]),
            _tell_shortly(job["last_run_at"], zone),
            job["last_outcome"] or "",
        ]
        for job in jobs
    ]
    screen.print_table(columns, rows)
    for job in jobs:
        if job["trouble"]:
            screen.print_text(f"{job['name']} needs attention: {job['trouble']}")


def print_job(told: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], zone: str) -> None:
    """All that is set of a job, its prompt, and its last runs."""
    when = told.get("schedule_words") or told["schedule"]
    where = f" ({told['timezone']})" if told["timezone"] else ""
    click.echo(screen.clean(f"{told['name']}: {when}{where}, {told['state']}"))
    if told.get("next_times_told"):
        click.echo(f"next: {', '.join(told['next_times_told'])}")
    for field, value in told.items():
        is_said = field in SAID or field.startswith(("next", "last"))
        if not is_said and value not in (None, [], False, "none"):
            join = shlex.join if field == "command" else ", ".join
            shown = join(value) if isinstance(value, list) else str(value)
            click.echo(f"{field.replace('_', ' ')}: {screen.clean(shown)}")
    if told.get("prompt"):
        click.echo(f"\n{screen.clean_lines(told['prompt'])}\n")
    if runs:
        print_runs(runs, zone)
    else:
        click.echo("it has not run yet")


def print_runs(runs: Sequence[Mapping[str, Any]], zone: str) -> None:
    """A line for each run, with the piece of evidence that decided."""
    columns = [screen.Column("started"), screen.Column("job", is_number=False)]
    columns += [screen.Column("outcome", is_number=False)]
    columns += [screen.Column("took"), screen.Column("cost")]
    columns += [screen.Column("evidence", is_number=False)]
    rows = [
        [
            tell_time(run["started_at"] or run["scheduled_for"], zone),
            run["name"],
            run["status"] if run["status"] in UNDONE else run["outcome"],
            screen.seconds(run["duration_seconds"]),
            screen.dollars(run["cost_usd"], unpriced=run["unpriced_turns"] or 0)
            if run["session_id"] or run["cost_usd"]
            else "–",
            run["evidence"][0] if run["evidence"] else run["note"] or "",
        ]
        for run in runs
    ]
    screen.print_table(columns, rows)


def _tell_shortly(moment: str | None, zone: str) -> str:
    """Without the year, where it is this one."""
    return tell_time(moment, zone).removeprefix(time.strftime("%Y-"))


def tell_time(moment: str | None, zone: str) -> str:
    """A time of the JSON as the clocks of a time zone show it.

    >>> tell_time("2026-11-15T03:12:00.218Z", "Europe/Berlin")
    '2026-11-15 04:12'
    """
    if moment is None:
        return ""
    return datetime.fromisoformat(moment).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")
