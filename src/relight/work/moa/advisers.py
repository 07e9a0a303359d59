"""The advisers of mixtures across sessions: cost, latency, how often they differed, their worth.

Cost and time come from the recorded calls, Hermes' included; how often an adviser differed comes
from traces. Worth comes from muted sessions alone: an adviser that differs is not yet worth
anything, and one that agrees may be.
"""

import time
from itertools import islice
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from relight.names import find_model_name
from relight.reports.comparison.sentences import count_of
from relight.stats.odds import Tally, Verdict, count_more_runs, find_interval, judge_job
from relight.store import Store
from relight.store.advisers import AdviserArm, AdviserSums, count_muted, sum_advised, sum_advisers
from relight.text import dollars, plural
from relight.work.moa.trace_report import DISAGREEING, compare_advice, find_traces

# the newest traces that are compared
MOST_TRACES = 1000
MONTH_MS = 30 * 86_400_000
WORTH = 0.05
USUAL_SHARE = 0.2
# before any outcome is known, four of five sessions are assumed to succeed
USUAL = Tally(16, 4)

AdviserVerdict = Literal["worth something", "worth less than 5 points", "not known yet"]
VERDICTS: dict[Verdict, AdviserVerdict] = {
    "worse": "worth something",
    "good enough": "worth less than 5 points",
    "cannot tell yet": "not known yet",
}


class AdviserReport(Struct, frozen=True, kw_only=True):
    """One adviser over all sessions.

    `differed` of `compared` answers shared few words with the other advisers'. `with_` and `muted_`
    count sessions that were dealt. `low` and `high` bound its worth in success, in points of a
    hundred; `more_sessions` show that it is worth less than 5 points if it is worth nothing.
    `break_even_sessions` is how many failed sessions it must save in a month to pay for itself.
    """

    adviser: str
    sessions: int
    calls: int
    failures: int
    cost_usd: float | None
    unpriced_turns: int
    month_usd: float | None
    mean_ms: float | None
    untimed_calls: int
    compared: int
    differed: int
    with_sessions: int
    with_successes: int
    with_failures: int
    muted_sessions: int
    muted_successes: int
    muted_failures: int
    verdict: AdviserVerdict
    low: float | None
    high: float | None
    more_sessions: int | None
    break_even_sessions: float | None
    sentence: str


class AdviserList(Struct, frozen=True):
    """The advisers, the costliest first, and the share of sessions that each is muted in."""

    advisers: list[AdviserReport]
    mute_share: float


class _Month(Struct, frozen=True):
    """Sessions of mixtures: the mean cost of one in the last 30 days, and outcomes of all."""

    mean_usd: float | None
    done: Tally
    share: float


def report_advisers(store: Store) -> AdviserList:
    """Return each adviser with its figures over all sessions."""
    since = round(time.time() * 1000) - MONTH_MS
    lately, ever = sum_advised(store, since=since), sum_advised(store, since=0)
    mean = None
    if lately.sessions and lately.nanos and not lately.unpriced:
        mean = lately.nanos / lately.sessions / 1e9
    share = store.config.moa.mute_share
    month = _Month(mean, Tally(ever.successes, ever.failures), share)
    arms: dict[str, dict[int, AdviserArm]] = {}
    for arm in count_muted(store):
        arms.setdefault(arm.adviser, {})[arm.is_muted] = arm
    differences = _count_differences(store)
    sums = {row.adviser: row for row in sum_advisers(store, since=since) if row.adviser}
    for name in arms:  # one that was muted in all sessions so far made no call
        sums.setdefault(name, AdviserSums(name, 0, 0, 0, None, 0, None, 0, None))
    found = [
        _make_report(row, month, arms.get(name, {}), differences.get(name, (0, 0)))
        for name, row in sums.items()
    ]
    return AdviserList(found, share)


def _make_report(
    row: AdviserSums, month: _Month, arms: dict[int, AdviserArm], differences: tuple[int, int]
) -> AdviserReport:
    name = row.adviser or ""
    with_it = arms.get(0) or AdviserArm(name, 0, 0, 0, 0)
    muted = arms.get(1) or AdviserArm(name, 1, 0, 0, 0)
    a, b = Tally(with_it.successes, with_it.failures), Tally(muted.successes, muted.failures)
    low = high = None
    if a.runs and b.runs:
        # without it success changes by so much: its worth is the opposite
        ends = find_interval([(a, b)])
        low, high = -ends[1], -ends[0]
    cost = None if row.recent_nanos is None else row.recent_nanos / 1e9
    report = AdviserReport(
        adviser=name,
        sessions=row.sessions,
        calls=row.calls,
        failures=row.failures,
        cost_usd=None if row.nanos is None else row.nanos / 1e9,
        unpriced_turns=row.unpriced,
        month_usd=cost,
        mean_ms=row.total_ms / row.timed if row.timed and row.total_ms is not None else None,
        untimed_calls=row.calls - row.timed,
        compared=differences[0],
        differed=differences[1],
        with_successes=with_it.successes,
        with_failures=with_it.failures,
        muted_sessions=muted.sessions,
        with_sessions=with_it.sessions,
        muted_successes=muted.successes,
        muted_failures=muted.failures,
        verdict=VERDICTS[judge_job(a, b, margin=WORTH)],
        low=low,
        high=high,
        more_sessions=_count_sessions(a, b, month),
        break_even_sessions=cost / month.mean_usd if cost and month.mean_usd else None,
        sentence="",
    )
    return replace(report, sentence=describe_adviser(report, month.share))


def _count_sessions(a: Tally, b: Tally, month: _Month) -> int | None:
    """Return how many more sessions show that an adviser is worth less than 5 points."""
    share = month.share or USUAL_SHARE
    if not a.runs and not b.runs:
        # the sessions so far were not dealt: only their rate counts, and few of them not much
        rate = (month.done.successes + USUAL.successes) / (month.done.runs + USUAL.runs)
        a = Tally(rate * USUAL.runs, (1 - rate) * USUAL.runs)
    runs = count_more_runs(a, b, margin=WORTH, share=share)
    return None if runs is None else round(runs / share)


def describe_adviser(one: AdviserReport, share: float) -> str:
    """Return what is known about an adviser's worth, and what it takes to know more."""
    cost = "has no price" if one.month_usd is None else f"costs {dollars(one.month_usd)} a month"
    parts = [f"{one.adviser} {cost}."]
    if one.muted_sessions:
        dealt = one.muted_sessions + one.with_sessions
        muted = count_of(one.muted_successes, one.muted_failures)
        with_it = count_of(one.with_successes, one.with_failures)
        bound = ""
        if one.low is not None and one.high is not None:
            bound = f" (worth at most {max(one.high, 0) * 100:.0f} points of success)"
        parts.append(
            f"Muted in {one.muted_sessions:,} of {dealt:,} sessions: {muted} succeeded, {with_it}"
            f" with it{bound}."
        )
    if one.break_even_sessions is not None:
        saved = one.break_even_sessions
        parts.append(f"It pays if it saves {saved:.1f} failed sessions a month.")
    if one.verdict == "worth something":
        parts.append("It is worth something: without it fewer sessions succeed.")
    elif one.verdict == "worth less than 5 points":
        parts.append("It is worth less than 5 points.")
    else:
        parts.append(_describe_need(one, share))
    return " ".join(parts)


def _describe_need(one: AdviserReport, share: float) -> str:
    if one.more_sessions is None:
        return "Its worth cannot be shown in 20,000 muted sessions."
    sessions = plural(one.more_sessions, "more session" if share else "session")
    how = "" if share else f" with [moa] mute_share = {USUAL_SHARE:g}"
    return (
        f"If it is worth nothing, about {sessions}{how} show that it is worth less than 5 points."
    )


def _count_differences(store: Store) -> dict[str, tuple[int, int]]:
    """Return for each adviser how many of its answers were compared, and how many differed."""
    found: dict[str, tuple[int, int]] = {}
    aliases = store.config.models.aliases
    for trace in islice(find_traces(store), MOST_TRACES):
        for turn in trace.turns:
            for call, agreed in zip(turn["references"], compare_advice(turn), strict=True):
                if agreed is None or call.get("cached"):
                    continue
                name = find_model_name(str(call.get("model") or ""), aliases)
                compared, differed = found.get(name, (0, 0))
                found[name] = compared + 1, differed + (agreed < DISAGREEING)
    return found
