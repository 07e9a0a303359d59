"""A fleet of jobs under canaries: how much of the possible saving is found, and wrong switches.

Of the jobs 40 % run once a day, 35 % 4 times, 25 % 24 times; the model in use succeeds at 90 to
99 %. 45 % of the candidates are equal, 10 % 2 points better, 15 % 2 worse, and 10 % each 5, 10 and
25 worse. A run of a candidate saves the same in every job, so a job's saving is its runs a day. The
canary is the product's own: share, steps, and the check of replayed tasks come from
`relight.stats.canary`. A replayed task runs on both models, whose outcomes have a correlation of .3
there. A job is looked at after every run that can show something: a success raises the odds for
"good enough" by 6 % at most.

Jobs with many runs a day have most of the saving, so more of them are drawn than there are, and
each counts for less: with 2,000 jobs in their own shares the figure was off by 2 points.
"""

import math
import random
from collections.abc import Iterator, Sequence

from msgspec import Struct

from bench.decisions import WRONG, Row, at_most, deal, judge_limit
from relight.stats.canary import FIRST_SHARE, can_count, choose_canary_step, find_share
from relight.stats.odds import (
    GOOD_ODDS,
    LEAST_FAILURES,
    MARGIN,
    NO_PAIRS,
    Pairs,
    Tally,
    add_tallies,
    weigh_job,
)

DAYS = (30, 60, 90, 180)
PACES = ((1, 0.4), (4, 0.35), (24, 0.25))
APART = ((0.0, 0.45), (0.02, 0.10), (-0.02, 0.15), (-0.05, 0.10), (-0.10, 0.10), (-0.25, 0.10))
# the model in use has run for so long before
BEFORE_DAYS, LEAST_BEFORE = 60, 60
REPLAYED = 60
# of the outcomes of two models at one task
LIKENESS = 0.3
# past tasks may be harder than runs by so much; the model in use has so many runs
HARDER, HARD_BEFORE = 0.08, 1000
NO_RUNS = Tally(0, 0)
# jobs that are drawn for each series, and their share by pace
JOBS = 6
# of the logarithm of the odds, by one run
LARGEST_STEP = 0.06


class FleetJob(Struct):
    """One job: its pace, how its models fare, and the day it was switched and went back."""

    pace: int
    rate: float
    apart: float
    promoted_on: int | None = None
    back_on: int | None = None
    extra_failures: float = 0.0

    @property
    def weight(self) -> float:
        """The share of such jobs in a fleet by their share of those drawn."""
        return 1 / math.sqrt(self.pace)

    @property
    def saving(self) -> float:
        return self.pace * self.weight

    def is_switched(self, day: int) -> bool:
        return self.promoted_on is not None and self.promoted_on <= day < (self.back_on or 10**9)


def run_fleets(series: int) -> Iterator[Row]:
    """Savings found and wrong switches, live alone and with replayed tasks."""
    for replayed, day, bound in ((0, 180, 0.8), (REPLAYED, 90, 0.8)):
        jobs = make_jobs(JOBS * series)
        for job, dice in zip(jobs, deal(f"fleet {replayed}", len(jobs)), strict=True):
            run_job(dice, job, replayed)
        how = f"{replayed} tasks replayed" if replayed else "live"
        possible = [one for one in jobs if one.apart > -MARGIN]
        whole = sum(one.saving for one in possible)
        for shown in DAYS:
            share = sum(one.saving for one in possible if one.is_switched(shown)) / whole
            what = f"fleet, {how}: savings found in {shown} days"
            if shown == day:
                yield (what, f"{share:.1%}", f"≥ {bound:.0%}", judge_limit(share >= bound))
            else:
                yield (what, f"{share:.1%}", "", "")
        wrong = [one for one in jobs if one.apart <= -MARGIN]
        switched = [one for one in wrong if one.promoted_on is not None]
        yield limit_share(f"fleet, {how}: wrong candidate switched", switched, wrong)
        near = [one for one in wrong if one.apart == -MARGIN]
        found = sum(one.promoted_on is not None for one in near)
        yield at_most(f"fleet, {how}: candidate a margin worse switched", found, len(near), WRONG)
        good = [one for one in jobs if one.apart >= 0]
        stopped = [one for one in good if one.back_on is not None]
        yield limit_share(f"fleet, {how}: equal or better one stopped", stopped, good)
        for apart, most in ((-0.25, 6.0), (-0.10, 10.0), (-0.05, 17.0)):
            own = [one for one in wrong if one.apart == apart]
            extra = sum(one.extra_failures * one.weight for one in own)
            mean = extra / sum(one.weight for one in own)
            what = f"fleet, {how}: {apart * 100:.0f} points, extra failures of a candidate"
            yield (what, f"{mean:.1f}", f"≤ {most:g}", judge_limit(mean <= most))


def judge_hard_tasks(series: int) -> Iterator[Row]:
    """Past tasks at which both models succeed less than in runs: is an equal model called worse?"""
    paired = counted = number = 0
    for place, dice in enumerate(deal("hard tasks", series)):
        rate = 0.9 + 0.09 * (place + 0.5) / series
        a = Tally(*_draw(dice, HARD_BEFORE, rate))
        pairs = draw_pairs(dice, REPLAYED, (rate - HARDER, rate - HARDER))
        if can_count(pairs.a, a):
            number += 1
            paired += choose_canary_step(a, NO_RUNS, pairs=pairs) == "stop"
            counted += choose_canary_step(a, pairs.b) == "stop"
    what = f"{REPLAYED} tasks {HARDER * 100:.0f} points harder, an equal model stopped at once"
    yield at_most(f"{what}: as pairs", paired, number, WRONG)
    yield (f"{what}: if they were counted as runs", f"{counted / number:.1%}", "", "")


def limit_share(what: str, found: Sequence[FleetJob], jobs: Sequence[FleetJob]) -> Row:
    share = sum(one.weight for one in found) / sum(one.weight for one in jobs)
    return (what, f"{share:.1%}", f"≤ {WRONG:.0%}", judge_limit(share <= WRONG))


def make_jobs(number: int) -> list[FleetJob]:
    """Return jobs of every pace with every candidate, at rates spread evenly."""
    found = []
    shares = {pace: often * math.sqrt(pace) for pace, often in PACES}
    for pace, often in shares.items():
        for apart, share in APART:
            count = max(round(number * often / sum(shares.values()) * share), 1)
            rates = [0.9 + 0.09 * (place + 0.5) / count for place in range(count)]
            found += [FleetJob(pace, rate, apart) for rate in rates]
    return found


def run_job(dice: random.Random, job: FleetJob, replayed: int) -> None:
    """Run one job for half a year: trial, promotion, and the watch after it."""
    pace, apart = job.pace, job.apart
    other = min(job.rate + apart, 1.0)
    a = _draw(dice, max(pace * BEFORE_DAYS, LEAST_BEFORE), job.rate)
    b = [0, 0]
    pairs = draw_pairs(dice, replayed, (job.rate, other))
    if not can_count(pairs.a, Tally(*a)):
        pairs = NO_PAIRS
    share, next_look = FIRST_SHARE, 0
    for number in range(1, DAYS[-1] * pace + 1):
        is_new = job.promoted_on is not None or dice.random() < share
        side, rate = (b, other) if is_new else (a, job.rate)
        has_failed = dice.random() >= rate
        side[has_failed] += 1
        # a failure of the model in use may raise the odds by more
        next_look = number if has_failed and not is_new else next_look
        job.extra_failures += -apart if is_new and apart < 0 else 0.0
        first, second = Tally(*a), Tally(*b)
        whole_a, whole_b = add_tallies(first, pairs.a), add_tallies(second, pairs.b)
        if not whole_b.runs:
            continue
        # looks that can show nothing are left out: they are the most
        is_behind = whole_a.rate - whole_b.rate >= MARGIN
        if is_behind and whole_b.failures < LEAST_FAILURES:
            continue
        if not is_behind and (job.promoted_on is not None or number < next_look):
            continue
        is_promoted = job.promoted_on is not None
        done = choose_canary_step(first, second, pairs=pairs, is_promoted=is_promoted)
        if done == "stop":
            job.back_on = number // pace
            return
        if done == "promote":
            job.promoted_on = number // pace
        share = find_share(first, second, pairs=pairs)
        far = math.log(GOOD_ODDS) - weigh_job(first, second, margin=MARGIN, pairs=pairs).good
        next_look = number + max(int(far / LARGEST_STEP), 1)


def draw_pairs(
    dice: random.Random, tasks: int, rates: tuple[float, float], likeness: float = LIKENESS
) -> Pairs:
    """Return how so many tasks end on both models."""
    p, q = rates
    spread = math.sqrt(p * (1 - p) * q * (1 - q))
    both = min(p * q + likeness * spread, p, q)
    ends = (both, p - both, q - both, 1 - p - q + both)
    drawn = dice.choices(range(4), [max(chance, 0.0) for chance in ends], k=tasks)
    return Pairs(*(drawn.count(end) for end in range(4)))


def _draw(dice: random.Random, runs: int, rate: float) -> list[int]:
    failed = sum(dice.random() >= rate for _ in range(runs))
    return [runs - failed, failed]
