"""The command `skills canary`."""

import time
from typing import TYPE_CHECKING

import click

from relight.cli.job_canary import show_plan, start_plan, trial_options
from relight.cli.options import (
    Answer,
    confirm,
    current_store,
    reading_command,
    wants_json,
    yes_option,
)
from relight.errors import RelightError, as_typed
from relight.store import Store

if TYPE_CHECKING:
    from relight.reports.skill_canaries import SkillCanaries, SkillJobs
    from relight.work.jobs.canary_plan import CanaryOrder, CanaryPlan


@reading_command("canary", example="relight skills canary triage --model gpt-5-mini")
@click.argument("skill")
@trial_options
@yes_option
def canary(skill: str, order: "CanaryOrder | None") -> Answer:
    """Try a cheaper model in the jobs that use a skill.

    Each job has its own trial, and is stopped, switched or rolled back by itself: `relight job
    canary JOB`. Without --model the command shows them, and the verdict on the mean over the jobs.
    Sessions outside of jobs are not dealt.
    """
    from relight.reports.skill_canaries import find_skill_jobs, read_skill_canaries

    with current_store() as store:
        if order is not None:
            _begin(store, find_skill_jobs(store, skill), skill, order)
        found = read_skill_canaries(store, skill)
    yield found
    _print(found)


def _begin(store: "Store", where: "SkillJobs", skill: str, order: "CanaryOrder") -> None:
    """Begin a trial in each job where it can; raise if it can in none."""
    from relight.cli import screen
    from relight.reports.skill_canaries import describe_outside
    from relight.text import join_words
    from relight.work.jobs.canary_plan import plan_canary

    plans: list[CanaryPlan] = []
    hint = None
    for job in where.jobs:
        try:
            plan = plan_canary(store, job, order, now=round(time.time() * 1000))
        except RelightError as error:
            hint = error.hint
            click.echo(screen.clean(f"not in {job}: {error.message}"), err=True)
        else:
            plans.append(plan)
            click.echo(screen.clean(f"in {job}:"), err=True)
            show_plan(plan)
    if outside := describe_outside(where):
        click.echo(outside, err=True)
    if not plans:
        what = "it ran in no job lately" if not where.jobs else "in none of its jobs"
        raise RelightError(f"{order.model} cannot be tried for {skill}: {what}", hint)
    if not wants_json():
        confirm(f"Try {order.model} in {join_words([one.row.job for one in plans])}?")
    for plan in plans:
        start_plan(store, plan, order)


def _print(found: "SkillCanaries") -> None:
    from relight.cli import screen
    from relight.reports.skill_canaries import describe_outside

    for one in found.canaries:
        screen.print_text(one.sentence, style="bold" if one.ended_at is None else "dim")
    for trial in found.together:
        screen.print_text(trial.sentence)
    if not found.canaries:
        hint = f"relight skills canary {found.skill} --model CHEAPER"
        click.echo(as_typed(f"no model was tried in the jobs of {found.skill}: {hint}"))
    if outside := describe_outside(found):
        screen.print_text(outside, style="dim")
