"""A model on trial in the jobs that use a skill: each judged by itself, and the mean over them.

A job is switched by its own verdict, never by the mean: a bad job among good ones would be switched
too. Sessions outside of jobs are nobody's slots, so nothing is dealt there.
"""

import time

from msgspec import Struct

from relight.errors import MissingError
from relight.reports.canaries import (
    CanaryReport,
    describe_bounds,
    read_canary_evidence,
    show_canary,
)
from relight.reports.comparison.pairing import EXCEPTION_ODDS, RECENT_DAYS
from relight.reports.comparison.sentences import format_points
from relight.stats.odds import Tally, Verdict, find_interval, is_worse_by, judge_jobs
from relight.store import Store
from relight.store.canaries import CanaryRow, read_canaries
from relight.store.queries.comparison import read_skill_cells
from relight.text import join_words, plural

DAY_MS = 86_400_000


class SkillJobs(Struct, frozen=True, kw_only=True):
    """The full names of the jobs that used a skill in the last 30 days, and its uses outside."""

    jobs: list[str]
    uses: int
    outside: int


class SkillModelTrial(Struct, frozen=True, kw_only=True):
    """One model in several jobs: the verdict on the mean over them, which switches none of them."""

    model: str
    jobs: list[str]
    verdict: Verdict
    low: float | None
    high: float | None
    sentence: str


class SkillCanaries(Struct, frozen=True, kw_only=True):
    """The trials in the jobs of a skill, newest first, and each model over all of them."""

    skill: str
    uses: int
    outside: int
    canaries: list[CanaryReport]
    together: list[SkillModelTrial]


def find_skill_jobs(store: Store, skill: str, *, now: int | None = None) -> SkillJobs:
    """Return where a skill was used lately; raise if it never was."""
    at = round(time.time() * 1000) if now is None else now
    cells = read_skill_cells(store, skill, since=at - RECENT_DAYS * DAY_MS)
    if not cells:
        raise MissingError(f"no use of {skill} is recorded", "`relight skills stats` lists skills")
    return SkillJobs(
        jobs=sorted({cell.job for cell in cells if cell.job is not None and cell.recent}),
        uses=sum(cell.recent for cell in cells),
        outside=sum(cell.recent for cell in cells if cell.job is None),
    )


def read_skill_canaries(store: Store, skill: str, *, now: int | None = None) -> SkillCanaries:
    """Return the trials in the jobs that use a skill."""
    found = find_skill_jobs(store, skill, now=now)
    rows = [row for row in read_canaries(store) if row.job in found.jobs]
    models: dict[str, dict[str, CanaryRow]] = {}
    for row in rows:
        if row.state in ("running", "promoted"):
            models.setdefault(row.model, {}).setdefault(row.job, row)
    return SkillCanaries(
        skill=skill,
        uses=found.uses,
        outside=found.outside,
        canaries=[show_canary(store, row, now=now) for row in rows],
        together=[
            _judge_together(store, skill, list(own.values()))
            for own in models.values()
            if len(own) > 1
        ],
    )


def describe_outside(found: SkillJobs | SkillCanaries) -> str | None:
    """Return a sentence about the uses that no trial reaches; None if there are none."""
    if not found.outside:
        return None
    return (
        f"{found.outside:,} of {plural(found.uses, 'use')} in the last 30 days were outside of"
        " jobs: nothing is dealt there."
    )


def _judge_together(store: Store, skill: str, rows: list[CanaryRow]) -> SkillModelTrial:
    """Return the mean over the jobs, by runs that were dealt and those before the trial."""
    margin = max(row.margin for row in rows)
    tallies: dict[str, tuple[Tally, Tally]] = {}
    for row in rows:
        seen = read_canary_evidence(store, row)
        if seen.a.runs and seen.b.runs:
            tallies[row.job] = seen.a, seen.b
    verdict = judge_jobs(list(tallies.values()), margin=margin)
    low, high = find_interval(list(tallies.values())) if tallies else (None, None)
    odd = [job for job, own in tallies.items() if is_worse_by(*own, odds=EXCEPTION_ODDS)]
    but = f", except in {join_words(odd)}" if odd else ""
    words = {
        "good enough": f"is good enough on average, within {format_points(margin)}{but}",
        "worse": f"does worse on average{but}",
        "cannot tell yet": f"cannot be judged yet{but}",
    }
    return SkillModelTrial(
        model=rows[0].model,
        jobs=sorted(row.job for row in rows),
        verdict=verdict,
        low=low,
        high=high,
        sentence=(
            f"Over {plural(len(rows), 'job')} of {skill} {rows[0].model} {words[verdict]}"
            f" ({describe_bounds(low, high)}). Each job is switched by its own verdict."
        ),
    )
