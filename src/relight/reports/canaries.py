"""Models on trial in jobs: their runs against those of the model in use, and what switches saved.

Runs were dealt at random, so that a difference is the model's. The verdict is kept from the look
that showed it; the counts go on.
"""

import shlex
import time
from typing import Literal

import msgspec
from msgspec import Struct

from relight.errors import as_typed
from relight.reports.comparison.pairing import MOST_APART, MOST_UNKNOWN, RECENT_DAYS
from relight.reports.comparison.sentences import count_of, format_points
from relight.stats.canary import CHECKED_TASKS
from relight.stats.odds import NO_PAIRS, Pairs, Tally, count_more_runs, find_interval
from relight.store import Store
from relight.store import canaries as queries
from relight.store.canaries import CanaryArm, CanaryRow, SpanCount
from relight.store.queries import take_fields
from relight.store.queries.comparison import read_job_cells
from relight.store.sql import read_usd
from relight.text import dollars, plural
from relight.times import write_time

DAY_MS = 86_400_000
CanaryState = Literal["running", "promoted", "stopped", "rolled_back", "replaced"]
Question = Literal["promote", "back"]


class ReplayReport(Struct, frozen=True, kw_only=True):
    """Past tasks that were repeated on the model on trial and on the one in use.

    Tasks are counted by which model succeeded; those with an unknown outcome apart. They count if
    the model in use succeeds at them as often as in its runs. `skipped` names the tasks that could
    not be repeated safely, with the reason.
    """

    tasks: int
    both: int = 0
    only_candidate: int = 0
    only_in_use: int = 0
    neither: int = 0
    unknown: int
    is_counted: bool
    cost_usd: float | None
    skipped: list[str] = []

    @property
    def pairs(self) -> Pairs:
        """The tasks; the model in use is A, the one on trial B."""
        return Pairs(self.both, self.only_in_use, self.only_candidate, self.neither)


class SwitchReport(Struct, frozen=True, kw_only=True):
    """A change of a job's model, by whom, why, and what it saved until the next one.

    `saved_usd` and `more_failures` are against the earlier model's mean before; negative savings
    are costs. None is unknown.
    """

    at: str | None
    from_model: str | None
    to_model: str | None
    made_by: str
    reason: str
    runs: int
    failures: int
    saved_usd: float | None
    more_failures: float | None


class CanaryReport(Struct, frozen=True, kw_only=True):
    """A model on trial in a job. Counts with the prefix `against_` are of the model in use.

    `asks` is the answer that it waits for. `low` and `high` bound the difference of success.
    `runs_needed` of it show "good enough" if it is as good; None if that is settled, or never.
    """

    id: int
    job: str
    name: str
    model: str
    against: str | None
    state: CanaryState
    verdict: str | None
    asks: Question | None
    margin: float
    share: float
    is_auto: bool
    budget_usd: float | None
    started_at: str | None
    promoted_at: str | None
    ended_at: str | None
    reason: str | None
    successes: int
    failures: int
    unknown: int
    against_successes: int
    against_failures: int
    against_unknown: int
    low: float | None
    high: float | None
    runs_needed: int | None
    cost_usd: float | None
    saving_month_usd: float | None
    replay: ReplayReport | None
    sentence: str


class CanaryList(Struct, frozen=True):
    """Models on trial, newest first, and the changes of a job's model, oldest first."""

    canaries: list[CanaryReport]
    switches: list[SwitchReport]


class CanaryEvidence(Struct, frozen=True):
    """The evidence about a canary: runs, replayed tasks that count, and the arms they are from."""

    a: Tally
    b: Tally
    pairs: Pairs
    control: CanaryArm
    candidate: CanaryArm
    replay: ReplayReport | None

    @property
    def has_unknown(self) -> bool:
        """True if too many outcomes are unknown for "good enough"."""
        shares = [1 - one.known / one.runs for one in (self.control, self.candidate) if one.runs]
        return max(shares, default=0.0) > MOST_UNKNOWN or (
            len(shares) > 1 and abs(shares[0] - shares[1]) > MOST_APART
        )

    @property
    def is_cheaper(self) -> bool | None:
        """True if a run of the model on trial costs less; None if a cost is unknown."""
        if not self.control.priced or not self.candidate.priced:
            return None
        return _mean(self.candidate) < _mean(self.control)

    @property
    def spent_nanos(self) -> int:
        """The known cost of the trial: its runs and the replayed tasks."""
        replayed = self.replay.cost_usd if self.replay is not None else None
        return self.candidate.nanos + round((replayed or 0.0) * 1e9)


def read_canary_list(store: Store, job: str | None = None, *, now: int | None = None) -> CanaryList:
    """Return the canaries of a job, or of all; the switches are those of the one job."""
    found = [show_canary(store, row, now=now) for row in queries.read_canaries(store, job)]
    return CanaryList(found, list_switches(store, job) if job else [])


def list_asking(store: Store) -> list[CanaryReport]:
    """Return the canaries that wait for a person's answer."""
    rows = [row for row in queries.read_canaries(store, is_open=True) if find_question(row)]
    return [show_canary(store, row) for row in rows]


def find_question(row: CanaryRow) -> Question | None:
    """Return the answer that a canary waits for."""
    if row.is_auto or row.verdict is None:
        return None
    if row.state == "running" and row.verdict == "good enough":
        return "promote"
    return "back" if row.state == "promoted" and row.verdict == "worse" else None


def read_canary_evidence(store: Store, row: CanaryRow) -> CanaryEvidence:
    """Return the runs that a canary is judged by."""
    control, candidate = queries.count_arms(store, row)
    replay = msgspec.json.decode(row.replay, type=ReplayReport) if row.replay else None
    pairs = replay.pairs if replay is not None and replay.is_counted else NO_PAIRS
    return CanaryEvidence(_tally(control), _tally(candidate), pairs, control, candidate, replay)


def show_canary(store: Store, row: CanaryRow, *, now: int | None = None) -> CanaryReport:
    """Return a canary with its counts, its interval and its sentence."""
    seen = read_canary_evidence(store, row)
    low = high = None
    if seen.a.runs and seen.b.runs + seen.pairs.b.runs:
        low, high = find_interval([(seen.a, seen.b)], pairs=seen.pairs)
    control, candidate = seen.control, seen.candidate
    report = CanaryReport(
        **take_fields(
            row, CanaryReport, but=("is_auto", "started_at", "promoted_at", "ended_at", "replay")
        ),
        name=queries.find_job_title(store, row.job),
        asks=find_question(row),
        is_auto=bool(row.is_auto),
        budget_usd=read_usd(row.budget_nanos),
        started_at=write_time(row.started_at),
        promoted_at=write_time(row.promoted_at),
        ended_at=write_time(row.ended_at),
        successes=candidate.successes,
        failures=candidate.known - candidate.successes,
        unknown=candidate.runs - candidate.known,
        against_successes=control.successes,
        against_failures=control.known - control.successes,
        against_unknown=control.runs - control.known,
        low=low,
        high=high,
        runs_needed=_count_needed(row, seen),
        cost_usd=candidate.nanos / 1e9 if candidate.priced else None,
        saving_month_usd=_find_saving(store, row, seen, now=now),
        replay=seen.replay,
        sentence="",
    )
    return msgspec.structs.replace(report, sentence=describe_canary(report))


def _count_needed(row: CanaryRow, seen: CanaryEvidence) -> int | None:
    if row.state != "running" or row.verdict is not None:
        return None
    return count_more_runs(seen.a, seen.b, margin=row.margin, share=row.share, pairs=seen.pairs)


def describe_canary(one: CanaryReport) -> str:
    """Return what is known about a model on trial, and what happens next."""
    ours = count_of(one.successes, one.failures)
    theirs = count_of(one.against_successes, one.against_failures)
    against = one.against or "the model in use"
    bounds = f" ({describe_bounds(one.low, one.high)})" if one.low is not None else ""
    counts = f"{ours} succeeded, {against} {theirs}{bounds}"
    saving = one.saving_month_usd
    saves = f" It saves {dollars(saving)} a month." if saving and saving > 0 else ""
    command = as_typed("relight job canary ") + shlex.quote(one.job)
    if one.state == "running" and one.verdict == "good enough":
        ask = f" `{command} --promote` switches the job." if one.asks else ""
        return (
            f"{one.model} is good enough for {one.name}, within {format_points(one.margin)}:"
            f" {counts}. Its runs were dealt at random.{saves}{ask}"
        )
    if one.state == "running":
        return (
            f"{one.model} is on trial in {one.name} with {one.share:.0%} of the runs: {counts}."
            f"{_describe_replay(one.replay)}{_describe_wait(one)}"
        )
    if one.state == "promoted" and one.verdict == "worse":
        ask = f" `{command} --back` goes back to {against}." if one.asks else ""
        return f"{one.model} does worse at {one.name} since the switch: {counts}.{ask}"
    if one.state == "promoted":
        return f"{one.name} runs on {one.model}: {counts}.{saves} It is watched."
    return f"{one.model} is not on trial in {one.name} any more: {one.reason}; {counts}."


def describe_bounds(low: float | None, high: float | None) -> str:
    """Return an interval of differences in words.

    >>> describe_bounds(-0.04, 0.02)
    'between 4 points worse and 2 better'
    """

    def side(value: float) -> str:
        return f"{abs(value) * 100:.0f} {'worse' if value < 0 else 'better'}"

    if low is None or high is None:
        return "no bound is known"
    if low < 0 <= high:
        return f"between {abs(low) * 100:.0f} points worse and {high * 100:.0f} better"
    return f"between {side(low)} and {side(high)}, in points"


def _describe_replay(replay: ReplayReport | None) -> str:
    if replay is None:
        return ""
    ours, theirs = replay.pairs.b, replay.pairs.a
    done = f"{ours.successes:.0f} of {plural(round(ours.runs), 'replayed task')} succeeded"
    if replay.is_counted:
        only = f"{replay.only_candidate} only on it, {replay.only_in_use} only on the other"
        return f" {done}, {theirs.successes:.0f} on the model in use ({only}); they count as pairs."
    return (
        f" {done}; they do not count, since {theirs.successes:.0f} succeeded on the model in use,"
        f" where {CHECKED_TASKS} must succeed as often as its runs do."
    )


def _describe_wait(one: CanaryReport) -> str:
    """Return what a trial waits for."""
    runs = one.successes + one.failures + one.unknown
    if one.unknown > MOST_UNKNOWN * runs:
        hint = as_typed("`relight label` sets them")
        return f" {one.unknown} of its {plural(runs, 'run')} have no known outcome: {hint}."
    if one.runs_needed is None:
        return ""
    return f" If it is as good, about {plural(one.runs_needed, 'more run')} of it show that."


def list_switches(store: Store, job: str) -> list[SwitchReport]:
    """Return the changes of a job's model, oldest first, each with what it saved or cost."""
    rows = queries.read_switches(store, job)
    found = []
    for place, row in enumerate(rows, start=1):
        end = rows[place].at if place < len(rows) else None
        before = queries.count_span(store, job, row.from_model, until=row.at)
        after = queries.count_span(store, job, row.to_model, since=row.at, until=end)
        if not after.runs:  # runs may name the model in another way than the job does
            after = queries.count_span(store, job, None, since=row.at, until=end, is_any=True)
        found.append(
            SwitchReport(
                **take_fields(row, SwitchReport, but=["at"]),
                at=write_time(row.at),
                runs=after.runs,
                failures=after.known - after.successes,
                saved_usd=_compare_costs(before, after),
                more_failures=_compare_failures(before, after),
            )
        )
    return found


def describe_switch(one: SwitchReport) -> str:
    """Return what a switch did, in words."""
    parts = [plural(one.runs, "run")]
    if one.saved_usd is not None:
        word = "saved" if one.saved_usd >= 0 else "cost"
        parts.append(f"{word} {dollars(abs(one.saved_usd))}")
    if one.more_failures is not None:
        word = "more" if one.more_failures >= 0 else "fewer"
        parts.append(f"{abs(one.more_failures):.1f} failures {word} than before")
    return ", ".join(parts)


def _compare_costs(before: SpanCount, after: SpanCount) -> float | None:
    if not before.priced or not after.priced:
        return None
    return after.priced * (_mean(before) - _mean(after)) / 1e9


def _compare_failures(before: SpanCount, after: SpanCount) -> float | None:
    if not before.known or not after.known:
        return None
    usual = 1 - before.successes / before.known
    return (after.known - after.successes) - usual * after.known


def _find_saving(
    store: Store, row: CanaryRow, seen: CanaryEvidence, *, now: int | None
) -> float | None:
    """Return what the runs of the last 30 days cost more on the model in use than on the other."""
    if seen.is_cheaper is None:
        return None
    at = round(time.time() * 1000) if now is None else now
    cells = read_job_cells(store, row.job, since=at - RECENT_DAYS * DAY_MS)
    recent = sum(cell.recent for cell in cells)
    return recent * (_mean(seen.control) - _mean(seen.candidate)) / 1e9


def _mean(one: CanaryArm | SpanCount) -> float:
    return one.nanos / one.priced


def _tally(one: CanaryArm) -> Tally:
    return Tally(one.successes, one.known - one.successes)
