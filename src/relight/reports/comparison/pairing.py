"""Two models compared on the work both did: verdict, interval, runs still needed, saving.

Counts of different jobs are never added up: the model that ran the hard job would look worse
(Simpson's paradox). A job is one kind of work; outside of jobs, a project is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from relight.stats import odds
from relight.stats.odds import Tally, Verdict
from relight.store.queries.comparison import RunCell

RECENT_DAYS = 30
WIDE_MARGIN = 0.10
# no verdict if more outcomes are unknown, or if their shares differ by more
MOST_UNKNOWN, MOST_APART = 0.20, 0.10
EXCEPTION_ODDS = 4.0
# runs count as dealt at random if at least so many of the model's runs in each job were
MOST_DEALT = 0.8
MOST_ODDS = 1e6  # larger ones are not worth printing
_DAY_MS = 86_400_000

Reason = Literal["few runs", "different jobs", "opposite jobs", "unknown outcomes"]
Place = tuple[str | None, str | None]
Work = Mapping[Place, RunCell]  # the runs of one model by job and project
# runs that were dealt in a trial, by job, model on trial and model in use
DealtRuns = Mapping[tuple[str | None, str | None, str | None], int]


class JobPair(Struct, frozen=True, kw_only=True):
    """The runs of two models in one job or, outside of jobs, in one project.

    Those of the more expensive model have the prefix `against_`. `verdict` is None unless both have
    known outcomes. `is_exception` is set if the cheaper model seems worse in this job.
    """

    job: str | None
    project: str | None
    name: str
    runs: int
    successes: int
    failures: int
    unknown: int
    against_runs: int
    against_successes: int
    against_failures: int
    against_unknown: int
    verdict: Verdict | None
    is_exception: bool


class Pairing(Struct, frozen=True, kw_only=True):
    """A model against a more expensive one. Counts and figures are of the jobs that both ran.

    `is_cheaper` is None if a cost is unknown. `reason` says why there is no verdict. `difference`
    is the model's success rate less the other's, the mean over jobs; `low` and `high` bound it
    however often one looks. `more_runs` of the model show "good enough" if it is as good as the
    other, `wide_runs` within 10 points; they take `more_days` at the recent pace. `share` of the
    runs are the model's. None is unknown, or more than 20,000 runs. `evidence` is "dealt" if the
    model's runs were dealt at random in a trial against the other, else "seen".
    """

    model: str | None
    against: str | None
    is_cheaper: bool | None
    verdict: Verdict
    is_settled: bool
    reason: Reason | None
    evidence: Literal["seen", "dealt"] = "seen"
    successes: int
    failures: int
    against_successes: int
    against_failures: int
    jobs: list[JobPair]
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    odds_good: float | None = None
    odds_worse: float | None = None
    share: float | None = None
    more_runs: int | None = None
    wide_runs: int | None = None
    more_days: int | None = None
    until: str | None = None
    saving_month_usd: float | None = None
    sentence: str = ""


def split_models(cells: Iterable[RunCell]) -> dict[str | None, dict[Place, RunCell]]:
    """Return the runs of each model by job and project."""
    work: dict[str | None, dict[Place, RunCell]] = {}
    for cell in cells:
        work.setdefault(cell.model, {})[cell.job, cell.project] = cell
    return work


def judge_pair(a: Work, b: Work, *, margin: float) -> Pairing:
    """Return the verdict on B against A alone: quick enough for a list of skills."""
    places = sorted({*a, *b}, key=lambda one: (one[0] is None, one[0] or "", one[1] or ""))
    jobs = [_pair_job(a.get(place), b.get(place), margin) for place in places]
    shared = list_shared(jobs)
    reason = _find_obstacle(jobs)
    verdict: Verdict = "cannot tell yet"
    if reason is None:
        verdict = odds.judge_jobs(_tally(shared), margin=margin)
        reason = "few runs" if verdict == "cannot tell yet" else None
    return Pairing(
        model=next(iter(b.values())).model,
        against=next(iter(a.values())).model,
        is_cheaper=_is_cheaper(a, b),
        verdict=verdict,
        is_settled=reason is None,
        reason=reason,
        successes=sum(job.successes for job in shared),
        failures=sum(job.failures for job in shared),
        against_successes=sum(job.against_successes for job in shared),
        against_failures=sum(job.against_failures for job in shared),
        jobs=jobs,
    )


def forecast_pair(a: Work, b: Work, *, margin: float, now: datetime) -> Pairing:
    """Return the verdict on B against A, with the runs still needed: for a list of many pairs."""
    pair = judge_pair(a, b, margin=margin)
    if pair.reason != "few runs":
        return pair
    return _add_forecast(pair, a, b, margin=margin, now=now, has_wide=False)


def estimate_pair(a: Work, b: Work, *, margin: float, now: datetime) -> Pairing:
    """Return the verdict on B against A, with interval, odds, runs still needed and saving."""
    pair = judge_pair(a, b, margin=margin)
    tallies = _tally(list_shared(pair.jobs))
    if not tallies or pair.reason == "different jobs":
        return pair
    if len(tallies) == 1:
        found = odds.weigh_job(*tallies[0], margin=margin)
    else:
        found = odds.weigh_jobs(tallies, margin=margin)
    low, high = odds.find_interval(tallies)
    pair = replace(
        pair,
        difference=odds.difference(tallies, 0.0)[0],
        low=low,
        high=high,
        odds_good=_show_odds(found.good),
        odds_worse=_show_odds(found.worse),
    )
    if pair.reason == "few runs":
        return _add_forecast(pair, a, b, margin=margin, now=now)
    if pair.verdict == "good enough":
        return replace(pair, saving_month_usd=_find_saving(pair, a, b))
    return pair


def list_shared(jobs: Sequence[JobPair]) -> list[JobPair]:
    """Return the jobs in which both models have known outcomes."""
    return [job for job in jobs if job.verdict is not None]


def mark_dealt(pair: Pairing, dealt: DealtRuns) -> Pairing:
    """Return a pair with the evidence "dealt" if a trial dealt the model's runs in each job."""
    shared = list_shared(pair.jobs)
    is_dealt = shared and all(
        dealt.get((job.job, pair.model, pair.against), 0) >= MOST_DEALT * job.runs for job in shared
    )
    return replace(pair, evidence="dealt") if is_dealt else pair


def _pair_job(a: RunCell | None, b: RunCell | None, margin: float) -> JobPair:
    one = b or a
    assert one is not None
    verdict, is_exception = None, False
    if a is not None and b is not None and a.known and b.known:
        dear, cheap = (Tally(cell.successes, cell.known - cell.successes) for cell in (a, b))
        verdict = odds.judge_job(dear, cheap, margin=margin)
        is_exception = odds.is_worse_by(dear, cheap, odds=EXCEPTION_ODDS)
    return JobPair(
        job=one.job,
        project=one.project,
        name=name_place(one),
        runs=b.runs if b else 0,
        successes=b.successes if b else 0,
        failures=b.known - b.successes if b else 0,
        unknown=b.runs - b.known if b else 0,
        against_runs=a.runs if a else 0,
        against_successes=a.successes if a else 0,
        against_failures=a.known - a.successes if a else 0,
        against_unknown=a.runs - a.known if a else 0,
        verdict=verdict,
        is_exception=is_exception,
    )


def name_place(cell: RunCell) -> str:
    """Return the name of a job, else of the project's folder."""
    if cell.job is not None:
        return cell.name or cell.job
    if cell.project is not None:
        return cell.project.rstrip("/").rpartition("/")[2] or cell.project
    return "outside of jobs and projects"


def _tally(jobs: Sequence[JobPair]) -> list[tuple[Tally, Tally]]:
    return [
        (
            Tally(job.against_successes, job.against_failures),
            Tally(job.successes, job.failures),
        )
        for job in jobs
    ]


def _find_obstacle(jobs: Sequence[JobPair]) -> Reason | None:
    """Return why the runs allow no verdict, however many there are."""
    common = [job for job in jobs if job.runs and job.against_runs]
    if 2 * sum(job.runs for job in common) < sum(job.runs for job in jobs):
        return "different jobs"
    unknown = sum(job.unknown for job in common) / sum(job.runs for job in common)
    other = sum(job.against_unknown for job in common) / sum(job.against_runs for job in common)
    if max(unknown, other) > MOST_UNKNOWN or abs(unknown - other) > MOST_APART:
        return "unknown outcomes"
    shared = list_shared(jobs)
    known = [job.successes + job.failures for job in jobs]
    if not shared or 2 * sum(job.successes + job.failures for job in shared) < sum(known):
        return "different jobs"
    if {"good enough", "worse"} <= {job.verdict for job in shared}:
        return "opposite jobs"
    return None


def _is_cheaper(a: Work, b: Work) -> bool | None:
    """True if a run of B costs less, job by job: the mean over other jobs would say nothing."""
    apart = 0.0
    places = [place for place in a if place in b and a[place].priced and b[place].priced]
    for place in places:
        weight = a[place].priced * b[place].priced / (a[place].priced + b[place].priced)
        apart += weight * (_mean_nanos(b[place]) - _mean_nanos(a[place]))
    return apart < -0.5 if places else None


def _mean_nanos(cell: RunCell) -> float:
    return cell.nanos / cell.priced


def _show_odds(log: float) -> float:
    return min(math.exp(min(log, 700.0)), MOST_ODDS)


def _add_forecast(
    pair: Pairing, a: Work, b: Work, *, margin: float, now: datetime, has_wide: bool = True
) -> Pairing:
    """Add how many more runs of B show "good enough", with A beside it in its present share."""
    shared = list_shared(pair.jobs)
    tallies = tuple(_tally(shared))
    cells = [(a[job.job, job.project], b[job.job, job.project]) for job in shared]
    ours, theirs = sum(two.recent for _, two in cells), sum(one.recent for one, _ in cells)
    if not ours:  # B has no recent runs: take its share of all runs
        ours, theirs = sum(two.runs for _, two in cells), sum(one.runs for one, _ in cells)
    share = ours / (ours + theirs)
    more = odds.count_more_runs_of_jobs(tallies, margin=margin, share=share)
    wide = None
    if has_wide and margin < WIDE_MARGIN:
        wide = odds.count_more_runs_of_jobs(tallies, margin=WIDE_MARGIN, share=share)
    began = [two.recent_at for _, two in cells if two.recent_at is not None]
    days = None
    if more is not None and began:
        watched = min(max((now.timestamp() * 1000 - min(began)) / _DAY_MS, 1.0), RECENT_DAYS)
        days = math.ceil(more * watched / ours)
    return replace(
        pair,
        share=share,
        more_runs=more,
        wide_runs=wide,
        more_days=days,
        until=None if days is None else _add_days(now, days),
    )


def measure_pace(cells: Iterable[RunCell], *, now: int) -> float:
    """Return how many runs a day there were of late, on all models together."""
    own = [one for one in cells if one.recent]
    began = [one.recent_at for one in own if one.recent_at is not None]
    days = max((now - min(began)) / _DAY_MS, 1.0) if began else 1.0
    return sum(one.recent for one in own) / days


def _add_days(now: datetime, days: int) -> str | None:
    try:
        return (now + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return None


def _find_saving(pair: Pairing, a: Work, b: Work) -> float | None:
    """Return what A's runs of the last 30 days would have cost less on B, without exceptions."""
    nanos = 0.0
    for job in list_shared(pair.jobs):
        dear, cheap = a[job.job, job.project], b[job.job, job.project]
        if job.is_exception or not dear.recent:
            continue
        if not dear.priced or not cheap.priced:
            return None
        nanos += dear.recent * (_mean_nanos(dear) - _mean_nanos(cheap))
    return nanos / 1e9 or None
