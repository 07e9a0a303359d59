"""Evidence for a difference between two arms that holds however often it is looked at.

An e-value has a mean of at most 1 if there is no difference, and so has each later look at it. So
it reaches 20 in at most 5 of 100 comparisons without a difference, in all looks together. Twenty
looks at a plain test give 28 false alarms of 100. Every difference is `b` less `a`. The unit is
the session, never the single call: calls of one session fail together.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from relight.stats.rates import Counts, check_counts, check_positive, check_share, find_least

ERROR = 0.05
# A spread estimated from two sessions gave up to 16 % false alarms of a nominal 5 %, from ten 3 %.
FEWEST = 10
MOST_SESSIONS = 10_000_000
# larger e-values say nothing more
LARGEST = 1e6
# the least number of sessions in an arm that a verdict is about
FEWEST_DEALT = 5
# The bets: from one rate to another, and the stake. A cause that hits nearly all sessions, half of
# them or a fifth falls to two fifths or to one; a tenth of the stake is on a rise.
FALLS = tuple((rate, rate * left) for rate in (0.2, 0.5, 0.85) for left in (0.2, 0.4))
RISES = tuple((rate, (1 + rate) / 2) for rate in (0.1, 0.3, 0.6))
BETS = (
    *((0.9 / len(FALLS), *pair) for pair in FALLS),
    *((0.1 / len(RISES), *pair) for pair in RISES),
)


class ArmSums(Struct, frozen=True):
    """One arm: its sessions, and the sum and the squares of a figure between 0 and 1."""

    sessions: float
    total: float
    squares: float

    @property
    def mean(self) -> float:
        return self.total / self.sessions


class Evidence(Struct, frozen=True):
    """A difference with an interval and an e-value that hold at every look."""

    difference: float
    low: float
    high: float
    e_value: float


class Outlook(Struct, frozen=True):
    """The expected addition of later sessions to one figure, if the planned effect is true.

    `known` is the share of later sessions in which the figure is known.
    """

    spread: float
    information: float
    tau: float
    known: float


# arms `a` and `b` of sessions that were dealt with the same chances
Deal = tuple[ArmSums, ArmSums]


def sum_values(values: Sequence[float]) -> ArmSums:
    """Return the sums of some sessions' figures."""
    return ArmSums(len(values), math.fsum(values), math.fsum(value * value for value in values))


def weigh_rates(deals: Sequence[Deal], *, tau: float, error: float = ERROR) -> Evidence | None:
    """Return the evidence for a difference of success rates; None with too few sessions.

    Figures are 1 or 0. `tau` is the difference that was planned for: a wrong guess costs time, not
    validity. Sessions that were dealt with other chances are compared apart, and the differences
    averaged: if the rate changes with time, pooled arms would differ without an effect.

    >>> found = weigh_rates([(ArmSums(40, 31, 31), ArmSums(40, 36, 36))], tau=0.1)
    >>> round(found.difference, 3), round(found.low, 2), round(found.high, 2)
    (0.125, -0.16, 0.41)
    """
    shared = _choose_shared(deals)
    if shared is None:
        return None
    return make_evidence(
        _subtract(shared), find_spread_of_rates(deals) / find_information(deals), tau, error
    )


def weigh_means(deals: Sequence[Deal], *, tau: float, error: float = ERROR) -> Evidence | None:
    """Return the evidence for a difference of means; None with too few sessions or no spread.

    An arm's spread is never less than that of both together, since a few held-out sessions often
    agree by chance: with arms of 1 to 4 that alone gave 12 % false alarms.

    >>> cold, warm = sum_values([0.2, 0.1, 0.3, 0.2] * 10), sum_values([0.0, 0.1, 0.0, 0.1] * 10)
    >>> found = weigh_means([(cold, warm)], tau=0.03)
    >>> round(found.difference, 3), round(found.low, 3), round(found.high, 3)
    (-0.15, -0.196, -0.104)
    """
    shared = _choose_shared(deals)
    if shared is None:
        return None
    pooled = find_spread_of_means(deals)
    spreads = [max(_find_variance([deal[arm] for deal in shared]), pooled) for arm in (0, 1)]
    variance = math.fsum(
        _weight(a, b) ** 2 * (spreads[0] / a.sessions + spreads[1] / b.sessions) for a, b in shared
    )
    if not variance:
        return None
    return make_evidence(_subtract(shared), variance / find_information(deals) ** 2, tau, error)


def weigh_posteriors(a: Counts, b: Counts, *, tau: float, error: float) -> Evidence:
    """Return the evidence for a difference of success rates; any number of runs will do.

    Each rate is its Beta(1, 1) posterior, so that a few runs with the same outcome do not count as
    certainty.

    >>> found = weigh_posteriors((12, 0), (0, 12), tau=0.3, error=0.05)
    >>> round(found.difference, 3), round(found.low, 3), round(found.high, 3)
    (-0.857, -1.143, -0.571)
    """
    means, variance = [], 0.0
    for name, counts in (("a", a), ("b", b)):
        shape_a, shape_b = (1 + count for count in check_counts(name, counts))
        runs = shape_a + shape_b
        means.append(shape_a / runs)
        variance += shape_a * shape_b / (runs * runs * (runs + 1))
    return make_evidence(means[1] - means[0], variance, tau, error)


def make_evidence(difference: float, variance: float, tau: float, error: float) -> Evidence:
    """Return the mixture of likelihood ratios over effects of about the size `tau`.

    The interval holds all differences whose e-value is below 1 / `error`.
    """
    check_positive(tau=tau)
    check_share(error=error)
    ratio = tau * tau / variance
    log_e = _find_log_e(difference**2 / variance, ratio)
    half = math.sqrt(variance * (1 + 1 / ratio) * (math.log1p(ratio) - 2 * math.log(error)))
    return Evidence(
        difference=difference,
        low=difference - half,
        high=difference + half,
        e_value=math.exp(min(log_e, math.log(LARGEST))),
    )


def find_information(deals: Sequence[Deal]) -> float:
    """Return the weight of the sessions: the variance of the difference is the spread by this."""
    return math.fsum(_weight(a, b) for a, b in deals if a.sessions and b.sessions)


def find_spread_of_rates(deals: Sequence[Deal]) -> float:
    """Return the variance of one outcome; a success and a failure are added to the known ones."""
    sessions = math.fsum(a.sessions + b.sessions for a, b in deals)
    rate = (math.fsum(a.total + b.total for a, b in deals) + 1) / (sessions + 2)
    return rate * (1 - rate)


def find_spread_of_means(deals: Sequence[Deal]) -> float:
    """Return the variance of a session's figure within the arms."""
    return _find_variance([arm for deal in deals for arm in deal if arm.sessions])


def count_more_sessions(
    outlooks: Sequence[Outlook], *, hold_out: float, error: float = ERROR
) -> int | None:
    """Return how many more sessions show the planned effects if they are true.

    They bring the mean of the expected e-values to 1 / `error`. None if nothing is held out, if no
    figure is ever known, or if ten million would not be enough.

    >>> count_more_sessions([Outlook(0.24, 0.0, 0.1, 1.0)], hold_out=0.5)
    885
    >>> count_more_sessions([Outlook(0.24, 0.0, 0.1, 1.0)], hold_out=0.2)
    1383
    """
    shared = hold_out * (1 - hold_out)

    def is_enough(more: int) -> bool:
        e_values = []
        for one in outlooks:
            information = one.information + more * one.known * shared
            ratio = one.tau**2 * information / one.spread if one.spread else 0.0
            e_values.append(math.exp(min(_find_log_e(ratio, ratio), math.log(LARGEST))))
        return sum(e_values) / len(e_values) >= 1 / error

    return find_least(is_enough, least=1, most=MOST_SESSIONS) if outlooks else None


def _find_log_e(distance: float, ratio: float) -> float:
    """`distance` is the squared difference by its variance, `ratio` the squared effect by it."""
    return (distance * ratio / (1 + ratio) - math.log1p(ratio)) / 2


def _choose_shared(deals: Sequence[Deal]) -> list[Deal] | None:
    """Return the deals with sessions in both arms; None with fewer than ten in an arm."""
    shared = [(a, b) for a, b in deals if a.sessions and b.sessions]
    fewest = min(sum(deal[arm].sessions for deal in shared) for arm in (0, 1))
    return shared if fewest >= FEWEST else None


def _weight(a: ArmSums, b: ArmSums) -> float:
    return a.sessions * b.sessions / (a.sessions + b.sessions)


def _subtract(shared: Sequence[Deal]) -> float:
    apart = math.fsum(_weight(a, b) * (b.mean - a.mean) for a, b in shared)
    return apart / find_information(shared)


def _find_variance(parts: Sequence[ArmSums]) -> float:
    """Return the variance around the mean of each part."""
    squares = math.fsum(one.squares for one in parts)
    rest = squares - math.fsum(one.total * one.mean for one in parts)
    freedom = math.fsum(one.sessions - 1 for one in parts)
    if freedom <= 0 or rest <= 1e-12 * squares:  # rounding leaves a rest of equal figures
        return 0.0
    return rest / freedom


class DealtCounts(Struct, frozen=True):
    """Sessions that were dealt to arm `b` with one chance: hits and all of them, by arm."""

    chance: float
    a_hits: float
    a_sessions: float
    b_hits: float
    b_sessions: float


def weigh_bets(dealt: Sequence[DealtCounts]) -> float:
    """Return the e-value of a difference between the rates of two arms.

    >>> round(weigh_bets([DealtCounts(0.5, 7, 8, 1, 8)]))
    49
    >>> weigh_bets([DealtCounts(0.5, 4, 8, 4, 8)]) < 1
    True
    """
    for one in dealt:
        check_share(chance=one.chance)
    logs = [
        math.log(stake) + math.fsum(_win(one, before, after) for one in dealt)
        for stake, before, after in BETS
    ]
    most = max(logs)
    log_e = most + math.log(math.fsum(math.exp(one - most) for one in logs))
    return math.exp(min(log_e, math.log(LARGEST)))


def _win(dealt: DealtCounts, before: float, after: float) -> float:
    """The logarithm of what a bet has won, of an effect from one rate to another."""
    chance = dealt.chance
    hit = chance * after + (1 - chance) * before
    b_if_hit, b_if_not = chance * after / hit, chance * (1 - after) / (1 - hit)
    return (
        dealt.b_hits * math.log(b_if_hit / chance)
        + dealt.a_hits * math.log((1 - b_if_hit) / (1 - chance))
        + (dealt.b_sessions - dealt.b_hits) * math.log(b_if_not / chance)
        + (dealt.a_sessions - dealt.a_hits) * math.log((1 - b_if_not) / (1 - chance))
    )


def count_more_dealt(
    dealt: Sequence[DealtCounts], *, fall: float, hold_out: float, error: float = ERROR
) -> int | None:
    """Return how many more sessions show a fall of the rate in arm `b`, if it is true.

    The rate of arm `a` is the one seen so far. None if nothing is held out or no rate is known.

    >>> seen = DealtCounts(0.5, 4, 5, 1, 5)
    >>> count_more_dealt([seen], fall=0.6, hold_out=0.5)
    10
    """
    sessions = math.fsum(one.a_sessions for one in dealt)
    if not sessions or not 0 < hold_out < 1:
        return None
    rate = (math.fsum(one.a_hits for one in dealt) + 0.5) / (sessions + 1)
    after = max(rate - fall, 0.05 * rate)

    def is_enough(more: int) -> bool:
        a, b = more * hold_out, more * (1 - hold_out)
        later = DealtCounts(1 - hold_out, a * rate, a, b * after, b)
        return weigh_bets([*dealt, later]) >= 1 / error

    return find_least(is_enough, least=1, most=MOST_SESSIONS)
