"""Tables of jobs and runs for the terminal."""

import shlex
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click
from msgspec.structs import asdict

from relight.cli import screen
from relight.reports.runs import JobReport, JobResults
from relight.store.queries.runs import RunReport
from relight.times import format_moment, read_time

if TYPE_CHECKING:
    from relight.work.jobs.registry import JobDescription

# fields of a job that are printed before the others, or shown by its runs
HEADING = {"name", "job", "state", "timezone", "prompt", "schedule_words"}
HEADING |= {"runs", "successes", "failures", "unknown", "trouble", "retry", "is_overdue"}
# a status that says more than the outcome unknown
UNDONE = ("claimed", "running", "skipped", "refused")


def print_jobs(jobs: Sequence[JobReport], zone: str) -> None:
    """Print a line for each job, with its state if it has no next time."""
    words = [job.schedule_words or job.schedule or "" for job in jobs]
    failures = [screen.count(job.failures) for job in jobs]
    last = [_format_shortly(job.last_run_at, zone) for job in jobs]
    outcomes, colour = [job.last_outcome or "" for job in jobs], screen.colour_state
    screen.print_columns(
        screen.Words("job", [job.name for job in jobs]),
        screen.Words("schedule", words, lines=3),
        screen.Words(
            "next", [_format_next(job, zone) for job in jobs], is_name=True, colour=colour
        ),
        screen.Column("runs", [screen.count(job.runs) for job in jobs]),
        screen.Column("failed", failures, colour=screen.colour_failures),
        screen.Words("last", last, is_name=True),
        screen.Words("outcome", outcomes, is_name=True, colour=colour),
    )
    for job in jobs:
        _print_overdue(job, zone)
        if job.trouble:
            screen.print_text(f"{job.name} needs attention: {job.trouble}", style="yellow")


def _print_overdue(job: JobResults, zone: str) -> None:
    if job.is_overdue:
        at = _format_shortly(job.next_run_at, zone)
        screen.print_text(
            f"{job.name} is overdue: its scheduler has not begun that of {at}", style="yellow"
        )


def print_job(job: "JobDescription", zone: str) -> None:
    """Print the settings of a job, its prompt and its last runs."""
    where = f" ({job.timezone})" if job.timezone else ""
    when = job.schedule_words or job.schedule or "no schedule is known"
    state = f", {job.state}" if job.state else ""
    click.echo(screen.clean(f"{job.name}: {when}{where}{state}"))
    if job.next_times:
        print_times(job, zone)
    _print_overdue(job, zone)
    for field, value in asdict(job).items():
        is_shown = field in HEADING or field.startswith(("next", "last"))
        if not is_shown and value not in (None, [], False, "none"):
            name, shown = _format_field(field, value, zone)
            click.echo(f"{name}: {screen.clean(shown)}")
    if job.prompt:
        click.echo(f"\n{screen.clean_lines(job.prompt)}\n")
    if job.runs:
        print_runs(job.runs, zone)
    else:
        click.echo("it has no runs yet")
    if job.trouble:
        click.echo(": ".join([job.trouble, *([job.retry.words] if job.retry else [])]))


def print_times(job: "JobDescription", zone: str) -> None:
    """Print the next times of a job, in `zone` if it has no time zone itself."""
    moments = [moment for one in job.next_times if (moment := read_time(one))]
    click.echo(f"next: {', '.join(format_moment(one, job.timezone or zone) for one in moments)}")


def _format_field(field: str, value: Any, zone: str) -> tuple[str, str]:
    """Return the name and value of a setting as people read them, with its unit in the value.

    >>> _format_field("budget_usd_per_day", 2.5, "UTC")
    ('budget per day', '$2.50')
    >>> _format_field("timeout_seconds", 1800, "UTC")
    ('timeout', '30m 00s')
    """
    name = field.replace("_usd", "").removesuffix("_seconds").removesuffix("_at").replace("_", " ")
    if isinstance(value, list):
        return name, (shlex.join if field == "command" else ", ".join)(value)
    if "_usd" in field:
        return name, screen.dollars(value)
    if field.endswith("_seconds"):
        return name, screen.seconds(value)
    return name, format_time(value, zone) if field.endswith("_at") else str(value)


def print_runs(runs: Sequence[RunReport], zone: str) -> None:
    """Print each run with the deciding piece of evidence, and its job if there are several.

    Where machines of a team ran some, each run has its machine.
    """
    machines = screen.Words("machine", [run.machine or "here" for run in runs])
    names = screen.Words("job", [run.name for run in runs])
    started = [_format_shortly(run.started_at or run.scheduled_for, zone) for run in runs]
    outcomes = [run.status if run.status in UNDONE else run.outcome for run in runs]
    evidence = [run.evidence[0] if run.evidence else run.note or "" for run in runs]
    screen.print_columns(
        screen.Words("started", started, is_name=True),
        *([names] if len({run.name for run in runs}) > 1 else []),
        *([machines] if any(run.machine for run in runs) else []),
        screen.Words("outcome", outcomes, is_name=True, colour=screen.colour_state),
        screen.Column("took", [screen.seconds(run.duration_seconds) for run in runs]),
        screen.Column("cost", [_format_cost(run) for run in runs]),
        screen.Words("evidence", evidence, lines=3),
    )


def _format_cost(run: RunReport) -> str:
    is_unknown = not run.session_id and run.cost_usd is None
    return "–" if is_unknown else screen.format_cost(run)


def _format_next(job: JobReport, zone: str) -> str:
    """The next time of a job, else its state; a time that has passed is not its next."""
    if job.is_overdue:
        return "overdue"
    return _format_shortly(job.next_run_at, zone) or job.state or ""


def _format_shortly(moment: str | None, zone: str) -> str:
    """A time without the current year."""
    return format_time(moment, zone).removeprefix(time.strftime("%Y-"))


def format_time(moment: str | None, zone: str) -> str:
    """A JSON time as local time in a time zone.

    >>> format_time("2026-11-15T03:12:00.218Z", "Europe/Berlin")
    '2026-11-15 04:12'
    """
    if moment is None:
        return ""
    return datetime.fromisoformat(moment).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")
