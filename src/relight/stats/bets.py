"""Evidence for a rate that differs between arms which chance dealt with a known share.

Without an effect, a session's arm says nothing about its outcome, so the arm of each session is a
coin whose chances are known. A bet on it by the outcome, fair under these chances, multiplies to an
e-value: its mean is exactly 1 however often it is looked at, and also with few sessions. Nothing is
estimated. That makes it faster than a test of two unknown rates.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from relight.stats.evalues import ERROR, LARGEST, find_least
from relight.stats.rates import check_share

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

    return find_least(is_enough)
