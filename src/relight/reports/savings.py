"""Savings by a cheaper model in each job and skill, and the runs it takes to know that it will do.

Models that were tried are compared on the same work, as `compare` does. Untried ones are known by
their price only: the tokens of the model in use at the other's price.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from relight.config import Config
from relight.model import BUCKETS, Usage
from relight.names import find_model_name
from relight.prices import find_price, price_usage
from relight.reports.comparison import pairing
from relight.reports.comparison.pairing import RECENT_DAYS, DealtRuns, Pairing, Reason, Work
from relight.reports.comparison.sentences import count_of
from relight.stats.canary import forecast
from relight.stats.odds import MARGIN, Tally
from relight.store import Store
from relight.store.canaries import count_trial_runs, read_canaries
from relight.store.jobs import read_set_models
from relight.store.queries import group_rows
from relight.store.queries.comparison import RunCell, read_job_cells, read_skill_cells
from relight.store.queries.filters import Filter
from relight.store.queries.sums import GroupSums
from relight.store.queries.totals import read_models, sum_jobs, sum_skills
from relight.text import dollars, plural

# untried models: those used in these days, so many for an item, if they are clearly cheaper
KNOWN_DAYS, MOST_UNTRIED, LARGEST_RATIO = 90, 3, 0.9
SHOWN_JOBS = 3

OBSTACLES: dict[Reason, str] = {
    "different jobs": "it ran other work",
    "opposite jobs": "as good in some jobs, worse in others",
    "unknown outcomes": "too many outcomes are unknown",
}
CandidateVerdict = Literal["good enough", "worse", "cannot tell yet", "not tried"]


class SavingCandidate(Struct, frozen=True, kw_only=True):
    """A cheaper model: what is known about it, its saving, and what it takes to know more.

    `runs_needed` of it show "good enough" if it is as good; 0 if that is known. They take
    `days_needed` and cost `cost_needed_usd`. None is unknown, or more than 20,000 runs.
    """

    model: str
    verdict: CandidateVerdict
    # why there is no verdict
    reason: Reason | None
    evidence: str
    saving_month_usd: float | None
    runs_needed: int | None
    days_needed: int | None
    cost_needed_usd: float | None


class SavingItem(Struct, frozen=True, kw_only=True):
    """A job or a skill, its model, and its cost in 30 days.

    The model is the one that is set if the job ran on it, else the one with most of the cost.
    """

    job: str | None
    skill: str | None
    name: str
    model: str | None
    runs: int
    month_usd: float | None
    unpriced_runs: int
    candidates: list[SavingCandidate]

    @property
    def title(self) -> str:
        """The name, marked if it is a skill's."""
        return self.name if self.skill is None else f"skill {self.name}"

    @property
    def saving_usd(self) -> float:
        """The largest saving that is not ruled out."""
        open_ones = [one for one in self.candidates if one.verdict != "worse"]
        return max((one.saving_month_usd or 0.0 for one in open_ones), default=0.0)


class SavingsReport(Struct, frozen=True):
    """Jobs and skills, the largest possible saving first; a skill's runs may be a job's as well."""

    items: list[SavingItem]


class _Question(Struct, frozen=True):
    """The margin and the moment that candidates are judged with, settings with prices, trials."""

    margin: float
    now: datetime
    config: Config
    dealt: DealtRuns
    # the models that are set in jobs, as `job canary` compares with them
    in_use: Mapping[str, str]


class _Use(Struct, frozen=True):
    """The tokens of an item on one model in the last days, and their worth at list price."""

    usage: Usage
    calls: int
    worth_usd: float


def read_savings(
    store: Store, *, models: Sequence[str] = (), margin: float = MARGIN, now: int | None = None
) -> SavingsReport:
    """Return every job and skill with its cost a month and the cheaper models for it.

    `models` are candidates beside those that this store has used.
    """
    at = round(time.time() * 1000) if now is None else now
    moment = datetime.fromtimestamp(at / 1000, UTC).astimezone(store.zone)
    since = round((moment - timedelta(days=RECENT_DAYS)).timestamp() * 1000)
    first_day = (moment - timedelta(days=RECENT_DAYS)).date().isoformat()
    in_use = {job: find_model_name(model) for job, model in read_set_models(store).items()}
    for row in read_canaries(store, is_open=True):
        if row.state == "promoted":
            in_use[row.job] = row.model
    question = _Question(margin, moment, store.config, count_trial_runs(store), in_use)
    first = (moment - timedelta(days=KNOWN_DAYS)).date().isoformat()
    known = read_models(store, since=first)
    found = []
    for kind, cells in (
        ("job", read_job_cells(store, None, since=since)),
        ("skill", read_skill_cells(store, None, since=since)),
    ):
        uses = _read_uses(store, kind, first_day)
        for name, own in group_rows(cells, attrgetter(kind)).items():
            if name is None:
                continue
            # those that the agents of these runs have used
            used = {cell.model for cell in own}
            others = [*models, *(m for some in known.values() if some & used for m in sorted(some))]
            item = _make_item(question, kind, name=name, cells=own)
            if item is not None:
                found.append(_add_untried(question, item, own, uses.get(name, {}), others))
    found.sort(key=lambda one: (-one.saving_usd, -(one.month_usd or 0.0), one.name))
    return SavingsReport(found)


def describe_need(one: SavingCandidate) -> str:
    """Return the runs, days and dollars that show whether a candidate is good enough."""
    if one.verdict in ("good enough", "worse"):
        return "known"
    if one.reason is not None and one.reason != "few runs":
        return OBSTACLES[one.reason]
    if one.runs_needed is None:
        return "over 20,000 runs"
    cost = "" if one.cost_needed_usd is None else f", {dollars(one.cost_needed_usd)}"
    return f"{plural(one.runs_needed, 'run')}{_describe_days(one.days_needed)}{cost}"


def _describe_days(days: int | None) -> str:
    if days is None:
        return ""
    return f", {plural(days, 'day')}" if days <= 2 * 365 else f", {days / 365:.0f} years"


def _read_uses(store: Store, kind: str, first_day: str) -> dict[str, dict[str | None, _Use]]:
    """Return the tokens of each job or skill by model since a day."""
    found: dict[str, dict[str | None, _Use]] = {}
    chosen = Filter(since=first_day)
    rows = sum_skills(store, chosen) if kind == "skill" else sum_jobs(store, chosen)
    for row in rows:
        name, model = row.keys[kind], row.keys["model"]
        if name is not None:
            found.setdefault(str(name), {})[None if model is None else str(model)] = _make_use(row)
    return found


def _make_use(row: GroupSums) -> _Use:
    sums = row.sums
    usage = Usage(**{name: getattr(sums, column) for name, column in BUCKETS.items()})
    worth = ((sums.cost_nanos or 0) + (sums.included_nanos or 0)) / 1e9
    return _Use(usage, sums.turns or 1, 0.0 if sums.unpriced_turns else worth)


def _make_item(
    question: _Question, kind: str, *, name: str, cells: Sequence[RunCell]
) -> SavingItem | None:
    """Return an item with the cheaper models that ran it; None if it rests."""
    work = pairing.split_models(cells)
    recent = {model: sum(one.recent for one in own.values()) for model, own in work.items()}
    costs = {one: _sum_month(own) or 0.0 for one, own in work.items()}
    model = question.in_use.get(name) if kind == "job" else None
    if not recent.get(model):
        model = max(recent, key=lambda one: (costs[one], recent[one], one or ""))
    if not recent[model]:
        return None
    tried = [
        _make_tried(question, model, own=work[model], other=other, theirs=theirs)
        for other, theirs in work.items()
        if other is not None and model is not None and other != model
    ]
    months = [month for own in work.values() if (month := _sum_month(own)) is not None]
    return SavingItem(
        job=name if kind == "job" else None,
        skill=name if kind == "skill" else None,
        name=(cells[0].name or name) if kind == "job" else name,
        model=model,
        runs=sum(recent.values()),
        month_usd=sum(months) if months else None,
        unpriced_runs=sum(one.recent for one in cells if not one.priced),
        candidates=_order([one for one in tried if one is not None]),
    )


def _add_untried(
    question: _Question,
    item: SavingItem,
    cells: Sequence[RunCell],
    uses: Mapping[str | None, _Use],
    others: Sequence[str],
) -> SavingItem:
    """Return an item with the models that did not run it and have the lowest prices."""
    work = pairing.split_models(cells)
    own, use = work[item.model], uses.get(item.model)
    if use is None or not use.worth_usd or not _sum_month(own):
        return item
    names = dict.fromkeys(name for name in map(find_model_name, others) if name not in work)
    pace = pairing.measure_pace(cells, now=round(question.now.timestamp() * 1000))
    priced = [_make_untried(question, name, own=own, use=use, pace=pace) for name in names]
    cheaper = _order([one for one in priced if one is not None])
    return replace(item, candidates=_order([*item.candidates, *cheaper[:MOST_UNTRIED]]))


def _order(candidates: Sequence[SavingCandidate]) -> list[SavingCandidate]:
    return sorted(
        candidates, key=lambda one: (one.verdict == "worse", -(one.saving_month_usd or 0.0))
    )


def _sum_month(own: Work) -> float | None:
    """Return what the runs of the last 30 days cost, from the mean of all known costs."""
    known = [one for one in own.values() if one.priced]
    if not known:
        return None
    return sum(one.recent * one.nanos / one.priced for one in known) / 1e9


def _find_ratio(a: Work, b: Work) -> float | None:
    """Return the cost of a run of B as a part of A's, on the work that both did."""
    shared = [place for place in a if place in b and a[place].priced and b[place].priced]
    dear = sum(a[place].runs * a[place].nanos / a[place].priced for place in shared)
    if not dear:
        return None
    return sum(a[place].runs * b[place].nanos / b[place].priced for place in shared) / dear


def _make_tried(
    question: _Question, model: str | None, *, own: Work, other: str, theirs: Work
) -> SavingCandidate | None:
    """Return a model that ran the same work; None if it is not cheaper there."""
    ratio, month = _find_ratio(own, theirs), _sum_month(own)
    if ratio is None or ratio >= 1 or month is None:
        return None
    pair = pairing.forecast_pair(own, theirs, margin=question.margin, now=question.now)
    pair = pairing.mark_dealt(pair, question.dealt)
    runs = 0 if pair.verdict == "good enough" else pair.more_runs
    mean = _find_mean(theirs)
    return SavingCandidate(
        model=other,
        verdict=pair.verdict,
        reason=pair.reason,
        evidence=_describe_tried(pair, model),
        saving_month_usd=month * (1 - ratio),
        runs_needed=runs,
        days_needed=0 if runs == 0 else pair.more_days,
        cost_needed_usd=None if runs is None or mean is None else runs * mean,
    )


def _describe_tried(pair: Pairing, model: str | None) -> str:
    if not pairing.list_shared(pair.jobs):
        return f"no outcome is known on the same work as {model}"
    how = {"dealt": "dealt at random in a trial", "seen": "seen, not dealt at random"}
    return f"{_count_by_job(pair, model)}; {how[pair.evidence]}"


def _count_by_job(pair: Pairing, model: str | None) -> str:
    """Return the counts of both models, job by job if there are several."""
    shared = pairing.list_shared(pair.jobs)
    counts = [
        f"{count_of(job.successes, job.failures)} succeeded{{}}, {model}"
        f" {count_of(job.against_successes, job.against_failures)}"
        for job in shared
    ]
    if len(shared) == 1:
        return counts[0].format("")
    listed = [text.format(f" in {job.name}") for text, job in zip(counts, shared, strict=True)]
    more = [f"{len(listed) - SHOWN_JOBS} more jobs"] if len(listed) > SHOWN_JOBS else []
    return "; ".join([*listed[:SHOWN_JOBS], *more])


def _find_mean(own: Work) -> float | None:
    priced = sum(one.priced for one in own.values())
    return sum(one.nanos for one in own.values()) / priced / 1e9 if priced else None


def _make_untried(
    question: _Question, other: str, *, own: Work, use: _Use, pace: float
) -> SavingCandidate | None:
    """Return a model that is known by its price only; None if it is not clearly cheaper.

    A trial deals the runs of all models: `pace` is how many they are a day.
    """
    prices = find_price(other, config=question.config)
    at = round(question.now.timestamp() * 1000)
    cost = price_usage(use.usage, prices, at=at, calls=use.calls) if prices else None
    if cost is None or cost.nanos is None or cost.nanos / 1e9 > LARGEST_RATIO * use.worth_usd:
        return None
    ratio = cost.nanos / 1e9 / use.worth_usd
    month, recent = _sum_month(own) or 0.0, sum(one.recent for one in own.values())
    successes = sum(one.successes for one in own.values())
    known = sum(one.known for one in own.values())
    runs = days = None
    if known:
        before, ended = Tally(successes, known - successes), sum(one.runs for one in own.values())
        found = forecast(before, slots_a_day=pace, margin=question.margin, known=known / ended)
        runs, days = found.runs, found.days
    return SavingCandidate(
        model=other,
        verdict="not tried",
        reason="few runs" if known else "unknown outcomes",
        evidence=f"the tokens of {plural(recent, 'run')} at its price",
        saving_month_usd=month * (1 - ratio),
        runs_needed=runs,
        days_needed=days,
        cost_needed_usd=None if runs is None else runs * month / recent * ratio,
    )
