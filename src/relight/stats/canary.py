"""The rules of a canary: its share of the runs, when it ends, and how long it is likely to take.

B is the model on trial, A the one in use. The odds of `stats.odds` hold at every look, so a canary
may be judged after every run.
"""

import math
from typing import Literal

from msgspec import Struct

from relight.stats.odds import (
    MARGIN,
    NO_PAIRS,
    Pairs,
    Tally,
    Verdict,
    count_more_runs,
    judge_job,
    weigh_job,
)

FIRST_SHARE, LATER_SHARE = 0.2, 0.5
# B gets the larger share after so many known runs, if the odds for "worse" are below this
CLEAN_RUNS, CLEAN_ODDS = 20, 3.0
MOST_DAYS = 180
# replayed tasks count if so many succeed on A as its runs do
CHECKED_TASKS, CHECKED_APART = 30, 0.10
# how alike two models fare at the same task: .22 between models, .37 for one model twice, at
# customer service tasks (tau-bench)
TASK_LIKENESS = 0.3

Step = Literal["stop", "promote", "go on"]


class Forecast(Struct, frozen=True):
    """Runs of B, slots of the job and days until "good enough" if B is as good as A.

    None is more than 20,000 runs. `rate` is the rate of success that it assumes.
    """

    runs: int | None
    slots: int | None
    days: int | None
    rate: float


def find_share(
    a: Tally,
    b: Tally,
    *,
    first: float = FIRST_SHARE,
    margin: float = MARGIN,
    pairs: Pairs = NO_PAIRS,
) -> float:
    """Return B's share of the next runs: larger once it has done well for a while.

    >>> find_share(Tally(100, 0), Tally(19, 0)), find_share(Tally(100, 0), Tally(20, 0))
    (0.2, 0.5)
    """
    if b.runs + pairs.b.runs < CLEAN_RUNS or not a.runs:
        return first
    is_clean = weigh_job(a, b, margin=margin, pairs=pairs).worse < math.log(CLEAN_ODDS)
    return max(first, LATER_SHARE) if is_clean else first


def choose_canary_step(
    a: Tally,
    b: Tally,
    *,
    margin: float = MARGIN,
    pairs: Pairs = NO_PAIRS,
    is_promoted: bool = False,
) -> Step:
    """Return what a canary does next; a promoted one can only be stopped, which is a roll-back.

    >>> [choose_canary_step(Tally(100, 0), one) for one in (Tally(0, 3), Tally(70, 0))]
    ['stop', 'promote']
    """
    verdict: Verdict = judge_job(a, b, margin=margin, pairs=pairs)
    if verdict == "worse":
        return "stop"
    return "promote" if verdict == "good enough" and not is_promoted else "go on"


def forecast(
    a: Tally,
    *,
    slots_a_day: float,
    first: float = FIRST_SHARE,
    margin: float = MARGIN,
    known: float = 1.0,
    replayed: int = 0,
) -> Forecast:
    """Return how long a canary is likely to take; `known` is the share of runs with an outcome.

    Before it begins, so many tasks are replayed.
    """
    later = max(first, LATER_SHARE)
    rate = (a.successes + 1) / (a.runs + 1.05)
    pairs = expect_pairs(replayed, rate) if replayed >= CHECKED_TASKS else NO_PAIRS
    runs = count_more_runs(a, Tally(0, 0), margin=margin, share=later, pairs=pairs)
    if runs is None or known <= 0:
        return Forecast(None, None, None, rate)
    early = min(runs, max(CLEAN_RUNS - pairs.b.runs, 0.0))
    slots = math.ceil((early / first + (runs - early) / later) / known)
    return Forecast(runs, slots, math.ceil(slots / slots_a_day) if slots_a_day else None, rate)


def expect_pairs(tasks: int, rate: float) -> Pairs:
    """Return how so many tasks are likely to end if both models succeed at this rate."""
    both = rate * rate + TASK_LIKENESS * rate * (1 - rate)
    one = tasks * (rate - both)
    return Pairs(tasks * both, one, one, tasks * (1 - 2 * rate + both))


def can_count(checked: Tally, a: Tally) -> bool:
    """True if tasks replayed on A succeed as its runs do, so that they show what runs would."""
    if checked.runs < CHECKED_TASKS or not a.runs:
        return False
    return abs(checked.rate - a.rate) <= CHECKED_APART
