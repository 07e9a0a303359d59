"""The verdict on warm starts: which planned effects are shown, in sentences, and what is missing.

Under a plan for both figures the mean of their e-values decides. That is valid however the two
hang together. A figure is then shown if its own e-value is large enough, too.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Literal

from msgspec import Struct

from relight.errors import as_typed
from relight.stats import evalues
from relight.stats.evalues import FEWEST, Deal, Evidence
from relight.stats.rates import Estimate
from relight.text import plural, share
from relight.warm.plans import WarmPlan
from relight.work.experiments import metrics
from relight.work.experiments.metrics import FIRST_CALLS, ArmSession

WarmVerdict = Literal[
    "warm is better", "warm is worse", "warm stumbles less", "warm stumbles more", "cannot tell yet"
]
SUCCESS, EARLY, CAUSE = "success_rate", "first_30_failure_rate", "cause_failure_rate"
READERS = {
    SUCCESS: metrics.read_success,
    EARLY: metrics.read_early_failures,
    CAUSE: metrics.read_hit,
}
RECENT_DAYS = 28
LONG_DAYS = 90
# a date further off says no more than this
MOST_DAYS = 3650


class Measure(Struct, frozen=True, kw_only=True):
    """One metric in both arms, and the difference: warm less cold.

    A figure of the plan has an e-value, and its interval holds at every look. Others have the
    p-value and the interval of a single look.
    """

    cold: Estimate | None
    warm: Estimate | None
    difference: Estimate | None
    e_value: float | None = None
    p_value: float | None = None
    cold_sessions: int = 0
    warm_sessions: int = 0


class NeededSessions(Struct, frozen=True, kw_only=True):
    """The number of further sessions that show the planned effect, and the day they end on.

    `half_` is the same with one half held out from now on. None is unknown or never.
    """

    hold_out: float
    sessions_per_day: float
    sessions: int | None
    until: str | None
    half_sessions: int | None
    half_until: str | None


class Pace(Struct, frozen=True):
    """The rate at which sessions are dealt, and the share of them with a known figure."""

    hold_out: float
    sessions_per_day: float
    dealt: int


def group_deals(sessions: Sequence[ArmSession], name: str) -> list[Deal]:
    """Return the sums of a planned figure, sessions dealt with the same chances together."""
    read = READERS[name]
    groups: dict[float | None, tuple[list[float], list[float]]] = {}
    for one in sessions:
        if (value := read(one)) is not None:
            groups.setdefault(one.hold_out, ([], []))[one.arm == "warm"].append(value)
    return [(evalues.sum_values(cold), evalues.sum_values(warm)) for cold, warm in groups.values()]


def weigh_figure(deals: Sequence[Deal], name: str, plan: WarmPlan) -> Evidence | None:
    """Return the evidence for a difference in a planned figure."""
    weigh = evalues.weigh_means if name == EARLY else evalues.weigh_rates
    return weigh(deals, tau=find_effect(plan, name), error=plan.error)


def find_effect(plan: WarmPlan, name: str) -> float:
    """Return the planned effect on a figure."""
    return {SUCCESS: plan.effect, EARLY: plan.early_effect, CAUSE: plan.cause_effect}[name]


def list_figures(plan: WarmPlan) -> list[str]:
    """Return the names of the metrics that a plan compares."""
    return {"success": [SUCCESS], "early_failures": [EARLY], "both": [SUCCESS, EARLY]}[plan.measure]


def find_e_value(plan: WarmPlan, measures: Mapping[str, Measure]) -> float:
    """Return the mean of the planned figures' e-values; one without data proves nothing."""
    e_values = [measures[name].e_value for name in list_figures(plan)]
    return fmean(1.0 if one is None else one for one in e_values)


def judge(plan: WarmPlan, measures: Mapping[str, Measure]) -> WarmVerdict:
    """Return the verdict, which may be read after every session."""
    if find_e_value(plan, measures) < 1 / plan.error:
        return "cannot tell yet"
    shown = [name for name in list_figures(plan) if (measures[name].e_value or 0) >= 1 / plan.error]
    found = measures[shown[0]].difference
    is_more = found is not None and (found.value or 0) > 0
    if shown[0] == SUCCESS:
        return "warm is better" if is_more else "warm is worse"
    return "warm stumbles more" if is_more else "warm stumbles less"


def find_needed(
    plan: WarmPlan,
    verdict: WarmVerdict,
    sessions: Sequence[ArmSession],
    pace: Pace,
    find_day: Callable[[float], str | None],
) -> NeededSessions | None:
    """Return what is missing if the planned effects are true; None if nothing is.

    `find_day` gives the day after so many days.
    """
    figures = list_figures(plan)
    if verdict != "cannot tell yet":
        figures = [name for name in figures if name == SUCCESS and "stumbles" in verdict]
    if not figures or plan.ended_at is not None:
        return None
    outlooks = [look_ahead(group_deals(sessions, name), name, plan, pace) for name in figures]
    counts, days = [], []
    for hold_out in (pace.hold_out, 0.5):
        counts.append(evalues.count_more_sessions(outlooks, hold_out=hold_out, error=plan.error))
        after = count_days_left(counts[-1], pace.sessions_per_day)
        days.append(None if after is None else find_day(after))
    return NeededSessions(
        hold_out=pace.hold_out,
        sessions_per_day=pace.sessions_per_day,
        sessions=counts[0],
        until=days[0],
        half_sessions=counts[1],
        half_until=days[1],
    )


def look_ahead(deals: Sequence[Deal], name: str, plan: WarmPlan, pace: Pace) -> evalues.Outlook:
    spread = (evalues.find_spread_of_means if name == EARLY else evalues.find_spread_of_rates)(
        deals
    )
    known = sum(a.sessions + b.sessions for a, b in deals)
    return evalues.Outlook(
        spread=spread,
        information=evalues.find_information(deals),
        tau=find_effect(plan, name),
        known=known / pace.dealt if pace.dealt and spread else 0.0,
    )


def count_days_left(sessions: int | None, sessions_per_day: float) -> float | None:
    """Return the days until so many sessions are dealt; None if that is unknown or too far off."""
    if sessions is None or not sessions_per_day:
        return None
    days = sessions / sessions_per_day
    return days if days <= MOST_DAYS else None


def describe_verdict(
    plan: WarmPlan,
    verdict: WarmVerdict,
    measures: Mapping[str, Measure],
    needed: NeededSessions | None,
) -> list[str]:
    """Return the verdict in sentences: counts and intervals first, then what is still needed."""
    texts = {name: _describe_figure(name, measures[name]) for name in list_figures(plan)}
    success, early = texts.get(SUCCESS), texts.get(EARLY)
    if "stumbles" in verdict:
        word, end = ("less", "more") if verdict == "warm stumbles less" else ("more", "fewer")
        known = f"not known: {success}" if success else "not part of this plan"
        lines = [
            f"Warm sessions stumble {word}: {early}.",
            f"Whether {end} of them succeed is {known}.",
        ]
    else:
        first, *rest = filter(None, (success, early))
        lines = [f"{verdict}: {first}.", *(f"{one}." for one in rest)]
        lines = [line[:1].upper() + line[1:] for line in lines]
    if plan.ended_at is not None:
        hint = as_typed("`relight experiment report` shows the present one")
        lines.append(f"This comparison ended on {plan.ended_at[:10]}; {hint}.")
    elif needed is not None:
        lines += _describe_needed(plan, verdict, needed)
    return lines


def describe_warm_plan(plan: WarmPlan) -> str:
    """Return a plan in words."""
    parts = []
    if plan.has_success:
        parts.append(f"{describe_points(plan.effect)} points more success")
    if plan.has_early_failures:
        fall = describe_points(plan.early_effect)
        parts.append(f"{fall} points fewer failures in the first {FIRST_CALLS} calls")
    return f"{' or '.join(parts)}, at most {plan.error * 100:g} wrong verdicts in 100"


def _describe_figure(name: str, measure: Measure) -> str:
    if not measure.cold_sessions and not measure.warm_sessions:
        return "no outcome is known" if name == SUCCESS else "no call of a session is judged"
    warm, cold = (one.value if one else None for one in (measure.warm, measure.cold))
    dealt = (
        plural(measure.warm_sessions, "warm session"),
        plural(measure.cold_sessions, "cold session"),
    )
    if name == SUCCESS:
        successes = (warm or 0) * measure.warm_sessions, (cold or 0) * measure.cold_sessions
        text = (
            f"{successes[0]:.0f} of {dealt[0]} succeeded against {successes[1]:.0f} of {dealt[1]}"
        )
    else:
        text = f"{share(warm)} of the first {FIRST_CALLS} calls failed in {dealt[0]}"
        text += f" against {share(cold)} in {dealt[1]}"
    found = measure.difference
    if found is None or found.low is None or found.high is None:
        return f"{text}; a comparison begins with {FEWEST} sessions in each arm"
    less = "fewer" if name == SUCCESS else "less"
    return f"{text} ({describe_interval(found.low, found.high, less)})"


def describe_interval(low: float, high: float, less: str) -> str:
    ends = [describe_points(end) for end in (low, high)]
    if low >= 0:
        return f"between {ends[0]} and {ends[1]} points more"
    if high <= 0:
        return f"between {ends[1]} and {ends[0]} points {less}"
    return f"between {ends[0]} points {less} and {ends[1]} more"


def describe_points(value: float) -> str:
    points = min(abs(value), 1.0) * 100
    return f"{points:.0f}" if points >= 1 else f"{points:.1f}"


def _describe_needed(plan: WarmPlan, verdict: WarmVerdict, needed: NeededSessions) -> list[str]:
    if not needed.hold_out:
        return [
            "Nothing is held out, so there is nothing to compare with:"
            " set `hold_out` in [templates] of config.toml to 0.2 or more."
        ]
    if needed.sessions is None:
        return ["How many sessions are needed is not known before some figures are."]
    gain = f"gains the planned {describe_points(plan.effect)} points"
    fall = f"{describe_points(plan.early_effect)} points fewer early failures"
    if plan.measure == "both" and verdict == "cannot tell yet":
        gain += f" and has {fall}"
    elif plan.measure == "early_failures":
        gain = f"has the planned {fall}"
    text = f"If warm {gain}, about {needed.sessions:,} more sessions show it"
    text += _describe_date(needed.until, needed.sessions_per_day)
    lines = [f"{text}."]
    if needed.hold_out != 0.5 and needed.half_sessions is not None:
        half = f"With one half held out (`hold_out = 0.5`): about {needed.half_sessions:,}"
        half += _describe_date(needed.half_until, needed.sessions_per_day)
        lines.append(f"{half}.")
    days = count_days_left(needed.sessions, needed.sessions_per_day)
    if days is None or days > LONG_DAYS:
        hint = as_typed("`relight experiment start`")
        lines.append(f"A list of tasks run in both arms is faster: {hint}.")
    return lines


def _describe_date(until: str | None, sessions_per_day: float) -> str:
    if not sessions_per_day:
        return f"; none was dealt in the last {RECENT_DAYS} days"
    if until is None:
        return f", more than {MOST_DAYS // 365} years at {sessions_per_day:.2g} a day"
    return f", until {until} at {sessions_per_day:.2g} a day"
