"""Success rates as text: counts always, and a share only if enough is known."""

from typing import TYPE_CHECKING

from relight.stats.rates import ClusterSums, Interval, cluster_interval, wilson

if TYPE_CHECKING:
    from relight.store.queries.tool_sums import CallSpread

MINIMUM_KNOWN = 5
MINIMUM_SHARE = 0.3


def find_rate(successes: int, known: int, total: int | None = None) -> float | None:
    """Return the share of successes; None if too few outcomes are known, or too small a part.

    >>> find_rate(24, 30), find_rate(0, 1), find_rate(9, 10, 100)
    (0.8, None, None)
    """
    whole = known if total is None else total
    if known < MINIMUM_KNOWN or known < MINIMUM_SHARE * whole:
        return None
    return successes / known


def show_rate(successes: int, known: int, total: int | None = None) -> str | None:
    """Return the share of successes with its 95 % interval; None if too little is known.

    >>> show_rate(24, 30)
    '80.0% (63–90%)'
    """
    rate = find_rate(successes, known, total)
    return None if rate is None else f"{rate:.1%} ({show_interval(wilson(successes, known))})"


def show_failure_interval(calls: "CallSpread") -> str:
    """Return the 95 % interval of the share of failed calls, which sessions differ in."""
    sums = ClusterSums(
        groups=calls.sessions,
        trials=calls.calls,
        events=calls.failed,
        trials_squared=calls.calls_squared,
        events_squared=calls.failed_squared,
        trials_times_events=calls.calls_times_failed,
    )
    return show_interval(cluster_interval(sums))


def show_interval(interval: Interval | None) -> str:
    """Return an interval of shares; small ones with a decimal.

    >>> show_interval(Interval(0.631, 0.904)), show_interval(Interval(0.0042, 0.031))
    ('63–90%', '0.4–3.1%')
    """
    if interval is None:
        return "–"
    digits = 1 if interval.high < 0.1 else 0
    return f"{interval.low * 100:.{digits}f}–{interval.high * 100:.{digits}f}%"


def count_known(successes: int, known: int) -> str:
    """Return successes among known outcomes, as the number that people read first.

    >>> count_known(24, 30), count_known(0, 0)
    ('24 of 30', '–')
    """
    return f"{successes:,} of {known:,}" if known else "–"


def show_coverage(successes: int, known: int, total: int) -> str:
    """Return how many outcomes are known, then how many of them are successes.

    >>> show_coverage(33, 41, 83)
    '41 of 83 outcomes known: 33 succeeded'
    """
    return f"{known:,} of {total:,} outcomes known: {successes:,} succeeded"
