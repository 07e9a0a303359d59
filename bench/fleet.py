"""A fleet of jobs under canaries: how much of the possible saving is found, and wrong switches.

Of the jobs 40 % run once a day, 35 % 4 times, 25 % 24 times; the model in use succeeds at 90 to
99 %. 45 % of the candidates are equal, 10 % 2 points better, 15 % 2 worse, and 10 % each 5, 10 and
25 worse. A run of a candidate saves the same in every job, so a job's saving is its runs a day. The
canary is the product's own: share, steps, and the check of replayed tasks come from
`relight.stats.canary`. The jobs are those of many fleets of 30, in exact shares. A job is looked at
after every run that can show something: a success raises the odds for "good enough" by 6 % at most.
"""

import math
import random
from collections.abc import Iterator

from msgspec import Struct

from bench.decisions import Row, at_most, deal, judge_limit
from relight.stats.canary import FIRST_SHARE, can_count, choose_canary_step, find_share
from relight.stats.odds import GOOD_ODDS, LEAST_FAILURES, MARGIN, Tally, weigh_job

DAYS = (30, 60, 90, 180)
PACES = ((1, 0.4), (4, 0.35), (24, 0.25))
APART = ((0.0, 0.45), (0.02, 0.10), (-0.02, 0.15), (-0.05, 0.10), (-0.10, 0.10), (-0.25, 0.10))
# the model in use has run for so long before
BEFORE_DAYS, LEAST_BEFORE = 60, 60
REPLAYED, CHECKED = 60, 30
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

    def is_switched(self, day: int) -> bool:
        return self.promoted_on is not None and self.promoted_on <= day < (self.back_on or 10**9)


def run_fleets(series: int) -> Iterator[Row]:
    """Savings found and wrong switches, live alone and with replayed tasks."""
    for replayed, day, bound in ((0, 180, 0.8), (REPLAYED, 90, 0.8)):
        jobs = make_jobs(2 * series)
        for job, dice in zip(jobs, deal(f"fleet {replayed}", len(jobs)), strict=True):
            run_job(dice, job, replayed)
        how = f"{replayed} tasks replayed" if replayed else "live"
        possible = [one for one in jobs if one.apart > -MARGIN]
        whole = sum(one.pace for one in possible)
        for shown in DAYS:
            share = sum(one.pace for one in possible if one.is_switched(shown)) / whole
            what = f"fleet, {how}: savings found in {shown} days"
            if shown == day:
                yield (what, f"{share:.1%}", f"≥ {bound:.0%}", judge_limit(share >= bound))
            else:
                yield (what, f"{share:.1%}", "", "")
        wrong = [one for one in jobs if one.apart <= -MARGIN]
        switched = sum(one.promoted_on is not None for one in wrong)
        yield at_most(f"fleet, {how}: wrong candidate switched", switched, len(wrong), 0.05)
        good = [one for one in jobs if one.apart >= 0]
        lost = sum(one.back_on is not None for one in good)
        yield at_most(f"fleet, {how}: equal or better one stopped", lost, len(good), 0.05)
        for apart, most in ((-0.25, 6.0), (-0.10, 10.0), (-0.05, 17.0)):
            extra = [one.extra_failures for one in wrong if one.apart == apart]
            mean = sum(extra) / max(len(extra), 1)
            what = f"fleet, {how}: {apart * 100:.0f} points, extra failures of a candidate"
            yield (what, f"{mean:.1f}", f"≤ {most:g}", judge_limit(mean <= most))


def make_jobs(number: int) -> list[FleetJob]:
    """Return jobs of every pace with every candidate, in their shares, at rates spread evenly."""
    found = []
    for pace, often in PACES:
        for apart, share in APART:
            count = max(round(number * often * share), 1)
            rates = [0.9 + 0.09 * (place + 0.5) / count for place in range(count)]
            found += [FleetJob(pace, rate, apart) for rate in rates]
    return found


def run_job(dice: random.Random, job: FleetJob, replayed: int) -> None:
    """Run one job for half a year: trial, promotion, and the watch after it."""
    pace, apart = job.pace, job.apart
    other = min(job.rate + apart, 1.0)
    a = _draw(dice, max(pace * BEFORE_DAYS, LEAST_BEFORE), job.rate)
    b = [0, 0]
    if replayed and can_count(Tally(*_draw(dice, CHECKED, job.rate)), Tally(*a)):
        b = _draw(dice, replayed, other)
    share, next_look = FIRST_SHARE, 0
    for number in range(1, DAYS[-1] * pace + 1):
        is_new = job.promoted_on is not None or dice.random() < share
        side, rate = (b, other) if is_new else (a, job.rate)
        has_failed = dice.random() >= rate
        side[has_failed] += 1
        # a failure of the model in use may raise the odds by more
        next_look = number if has_failed and not is_new else next_look
        job.extra_failures += -apart if is_new and apart < 0 else 0.0
        if not b[0] + b[1]:
            continue
        # looks that can show nothing are left out: they are the most
        is_behind = a[0] * (b[0] + b[1]) - b[0] * (a[0] + a[1]) >= MARGIN * sum(a) * sum(b)
        if is_behind and b[1] < LEAST_FAILURES:
            continue
        if not is_behind and (job.promoted_on is not None or number < next_look):
            continue
        first, second = Tally(*a), Tally(*b)
        done = choose_canary_step(first, second, is_promoted=job.promoted_on is not None)
        if done == "stop":
            job.back_on = number // pace
            return
        if done == "promote":
            job.promoted_on = number // pace
        share = find_share(first, second)
        far = math.log(GOOD_ODDS) - weigh_job(first, second, margin=MARGIN).good
        next_look = number + max(int(far / LARGEST_STEP), 1)


def _draw(dice: random.Random, runs: int, rate: float) -> list[int]:
    failed = sum(dice.random() >= rate for _ in range(runs))
    return [runs - failed, failed]
