"""Decisions under looking: how often verdicts are wrong, and how soon they come.

Series of runs and sessions are drawn from known rates and judged by the product's own functions,
again and again as they grow. A cell is the share of series with a verdict at any look. Its limit is
what 99 of 100 simulations of this size stay within if the promised bound is the truth: 7.4 % of 500
series for a bound of 5 %. A look that cannot give the verdict asked for is skipped: "worse" needs a
difference of the margin, and "good enough" a difference below it. With that and a look at every
fifth run, 500 series a cell take about eight minutes of one core; `--series N` draws more or fewer,
and `--only alarms` (or `verdicts`, `arms`, `fleet`, `advisers`) chooses a part. Seeds are fixed,
one for each series.
"""

import argparse
import math
import random
from collections.abc import Iterator, Sequence
from statistics import median

from bench.measure import print_rows
from relight.stats.evalues import ArmSums, Deal
from relight.stats.odds import MARGIN, Tally, Verdict, count_more_runs, judge_job, judge_jobs
from relight.stats.rates import Estimate
from relight.warm.plans import WarmPlan
from relight.work.experiments.metrics import FIRST_CALLS
from relight.work.experiments.warm_verdict import EARLY, SUCCESS, Measure, judge, weigh_figure

SERIES = 500
STEP = 5
RUNS = 300
# a canary gives B a fifth of the runs; a plain comparison has 120 runs of A and only B goes on
DESIGNS = {"canary": (200, 4), "120 + B": (120, 0)}
WRONG = 0.05
NULL_ERROR = 0.03
NULL_SESSIONS = 3000
# sessions have 13 judged calls at the median, at most 30 of which count; they fail together
CALLS = 2.5, 0.8
LIKENESS = 0.05
# a rate of A in a job, a rate of B, and the shares of A's and B's runs in that job
JobRates = tuple[float, float, float, float]

Row = tuple[str, str, str, str]


def main(words: list[str]) -> int:
    """Print the table; 1 if a cell is beyond its limit."""
    parser = argparse.ArgumentParser(prog="bench decisions")
    parser.add_argument("--series", type=int, default=SERIES, help="series in each cell")
    parser.add_argument(
        "--only",
        choices=("verdicts", "arms", "alarms", "fleet", "advisers"),
        help="one part of them",
    )
    given = parser.parse_known_args(words)[0]
    series, only = given.series, given.only
    rows: list[Row] = [(f"of {series} series", "share", "limit", "")]
    from bench.alarms import watch_costs, watch_success
    from bench.fleet import judge_hard_tasks, run_fleets

    parts = {
        "verdicts": (compare_job, recognise_equal, recognise_worse, compare_jobs, forecast),
        "arms": (compare_arms,),
        "alarms": (watch_success, watch_costs),
        "fleet": (judge_hard_tasks, run_fleets),
        "advisers": (mute_adviser,),
    }
    for part in parts[only] if only else [one for some in parts.values() for one in some]:
        for row in part(series):
            rows.append(row)
            print(".", end="", flush=True)
    print()
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def compare_job(series: int) -> Iterator[Row]:
    """One job: wrong "good enough" of a model a margin worse, wrong "worse" of an equal one."""
    for name, (before, beside) in DESIGNS.items():
        for rate in (0.6, 0.8, 0.95, 0.99):
            for verdict, behind in (("good enough", MARGIN), ("worse", 0.0)):
                looks = [
                    find_verdict(dice, rate, rate - behind, before, beside, verdict)
                    for dice in deal(f"{name} {rate} {verdict}", series)
                ]
                truth = "a margin worse" if behind else "equal"
                for runs in (150, 300):
                    wrong = sum(look is not None and look <= runs for look in looks)
                    what = f"{name}, {rate}, {truth}: wrong '{verdict}' in {runs} runs"
                    yield at_most(what, wrong, series, WRONG)


def find_verdict(
    dice: random.Random,
    rate: float,
    other: float,
    before: int,
    beside: int,
    wanted: str,
    most: int = RUNS,
) -> int | None:
    """Return the run of B after which a verdict is given for the first time."""
    a = [before - (failed := count(dice, before, 1 - rate)), failed]
    b = [0, 0]
    for runs in range(STEP, most + 1, STEP):
        b[1] += (failed := count(dice, STEP, 1 - other))
        b[0] += STEP - failed
        a[1] += (failed := count(dice, STEP * beside, 1 - rate))
        a[0] += STEP * beside - failed
        first, second = Tally(*a), Tally(*b)
        is_behind = first.rate - second.rate >= MARGIN
        if is_behind == (wanted == "worse") and judge_job(first, second) == wanted:
            return runs
    return None


def recognise_equal(series: int) -> Iterator[Row]:
    """An equal model under a canary: "good enough" within 300 of its runs."""
    before, beside = DESIGNS["canary"]
    for rate, share in ((0.98, 0.94), (0.95, 0.78)):
        looks = [
            find_verdict(dice, rate, rate, before, beside, "good enough")
            for dice in deal(f"equal {rate}", series)
        ]
        found = sum(look is not None for look in looks)
        yield at_least(f"canary, {rate}, equal: 'good enough' in 300 runs", found, series, share)


def recognise_worse(series: int) -> Iterator[Row]:
    """A worse model under a canary: "worse" within 300 of its runs."""
    before, beside = DESIGNS["canary"]
    for rate, behind, share in ((0.8, 0.1, 0.88), (0.95, 0.1, 0.99), (0.9, 0.25, 0.99)):
        looks = [
            find_verdict(dice, rate, rate - behind, before, beside, "worse")
            for dice in deal(f"worse {rate} {behind}", series)
        ]
        found = sum(look is not None for look in looks)
        what = f"canary, {rate}, {behind * 100:.0f} points worse: 'worse' in 300 runs"
        yield at_least(what, found, series, share)


def mute_adviser(series: int) -> Iterator[Row]:
    """An adviser muted in a fifth of the sessions, of which four in five succeed with it."""
    cells: Sequence[tuple[str, float, Verdict, int, float | None]] = (
        ("worth 10 points: 'worth something'", 0.1, "worse", 1000, 0.5),
        ("worth nothing: 'less than 5 points'", 0.0, "good enough", 2600, 0.5),
        ("worth nothing: wrong 'worth something'", 0.0, "worse", 3000, None),
        ("worth 5 points: wrong 'less than 5 points'", 0.05, "good enough", 3000, None),
    )
    for what, worth, verdict, sessions, half in cells:
        looks = [
            find_verdict(dice, 0.8, 0.8 - worth, 0, 4, verdict, most=sessions // 5)
            for dice in deal(f"mute {what}", series)
        ]
        found = sum(look is not None for look in looks)
        named = f"adviser {what} in {sessions:,} sessions"
        yield (
            at_most(named, found, series, WRONG)
            if half is None
            else at_least(named, found, series, half)
        )


def forecast(_: int) -> Iterator[Row]:
    """The runs of B that are still needed from 200 runs of A on, if B is as good.

    Expected are the figures of 800 fixed nodes; 48 are too few for so many runs (decision 19).
    """
    expected = {0.99: 103, 0.98: 134, 0.95: 220, 0.9: 353, 0.8: 573, 0.6: 814}
    for rate, runs in expected.items():
        found = count_more_runs(Tally(200 * rate, 200 * (1 - rate)), Tally(0, 0)) or 0
        is_near = abs(found - runs) <= 0.02 * runs
        yield (f"runs needed at {rate} success", str(found), f"= {runs}", judge_limit(is_near))


def compare_jobs(series: int) -> Iterator[Row]:
    """Several jobs, mixed in other shares by A and B, or with other differences."""
    easy, hard = 0.98, 0.6
    simpson = [(easy, easy, 5 / 6, 1 / 6), (hard, hard, 1 / 6, 5 / 6)]
    turned = [(easy, easy - MARGIN, 1 / 6, 5 / 6), (hard, hard - MARGIN, 5 / 6, 1 / 6)]
    mixed = [(0.99, 0.99, 0.5, 0.5), (0.7, 0.6, 0.5, 0.5)]
    opposed = [(0.85, 0.9, 0.5, 0.5), (0.85, 0.7, 0.5, 0.5)]
    cells: Sequence[tuple[str, list[JobRates], Verdict]] = (
        ("Simpson: B mostly in the hard job, equal in both", simpson, "worse"),
        ("the reverse: B mostly in the easy job, 5 worse in both", turned, "good enough"),
        ("a job equal, a job 10 worse", mixed, "good enough"),
        ("a job 5 better, a job 15 worse", opposed, "good enough"),
    )
    for what, jobs, verdict in cells:
        wrong = sum(meets(dice, jobs, verdict) for dice in deal(what, series))
        yield at_most(f"{what}: wrong '{verdict}' in 300 runs", wrong, series, WRONG)


def meets(dice: random.Random, jobs: Sequence[JobRates], verdict: Verdict) -> bool:
    """True if the verdict is given at any look."""
    before, beside = DESIGNS["canary"]
    cells = [[0, 0, 0, 0] for _ in jobs]

    def run(number: int, arm: int) -> None:
        shares = [job[2 + arm] for job in jobs]
        for place in dice.choices(range(len(jobs)), shares, k=number):
            cells[place][2 * arm + (dice.random() >= jobs[place][arm])] += 1

    run(before, 0)
    for _ in range(0, RUNS, STEP):
        run(STEP * beside, 0)
        run(STEP, 1)
        if judge_jobs([(Tally(*one[:2]), Tally(*one[2:])) for one in cells]) == verdict:
            return True
    return False


def compare_arms(series: int) -> Iterator[Row]:
    """Warm against cold under the default plan: no effect, and the effect planned for."""
    for warm, success, early in ((0.5, 0.6, 0.09), (0.8, 0.6, 0.09), (0.8, 0.9, 0.09)):
        looks = [
            find_effect(dice, warm, (success, success), (early, early))
            for dice in deal(f"null {warm} {success}", series)
        ]
        wrong = sum(look is not None for look in looks)
        what = f"no effect, success {success}, {warm:.0%} warm: wrong verdict in 3,000 sessions"
        yield at_most(what, wrong, series, NULL_ERROR)
    looks = [find_effect(dice, 0.5, (0.6, 0.7), (0.09, 0.057)) for dice in deal("effect", series)]
    found = sum(look is not None and look <= 590 for look in looks)
    middle = median(math.inf if look is None else look for look in looks)
    what = f"success .6 to .7, early failures .09 to .057 (half by {middle:.0f}): seen in 590"
    yield at_least(what, found, series, 0.8)


def find_effect(
    dice: random.Random, warm: float, success: Sequence[float], early: Sequence[float]
) -> int | None:
    """Return the session after which a verdict is given for the first time."""
    plan = WarmPlan()
    sums = {name: [[0, 0.0, 0.0], [0, 0.0, 0.0]] for name in (SUCCESS, EARLY)}
    for number in range(1, NULL_SESSIONS + 1):
        arm = dice.random() < warm
        spread = 1 / LIKENESS - 1
        failing = dice.betavariate(early[arm] * spread, (1 - early[arm]) * spread)
        calls = min(1 + int(dice.lognormvariate(*CALLS)), FIRST_CALLS)
        drawn = {
            SUCCESS: float(dice.random() < success[arm]),
            EARLY: count(dice, calls, failing) / calls,
        }
        for name, value in drawn.items():
            own = sums[name][arm]
            own[0], own[1], own[2] = own[0] + 1, own[1] + value, own[2] + value * value
        if number % STEP == 0:
            measures = {name: weigh(name, sums[name], plan) for name in sums}
            if judge(plan, measures) != "cannot tell yet":
                return number
    return None


def weigh(name: str, sums: Sequence[Sequence[float]], plan: WarmPlan) -> Measure:
    deals: list[Deal] = [(ArmSums(*sums[0]), ArmSums(*sums[1]))]
    found = weigh_figure(deals, name, plan)
    difference = None if found is None else Estimate(found.difference, found.low, found.high)
    e_value = None if found is None else found.e_value
    return Measure(cold=None, warm=None, difference=difference, e_value=e_value)


def deal(name: str, series: int) -> Iterator[random.Random]:
    """Yield one source of chance for each series; cells do not share them."""
    for number in range(series):
        yield random.Random(f"{name} {number}")


def count(dice: random.Random, runs: int, share: float) -> int:
    return sum(dice.random() < share for _ in range(runs))


def at_most(what: str, found: int, series: int, bound: float) -> Row:
    limit = find_limit(series, bound)
    return (what, f"{found / series:.1%}", f"≤ {limit / series:.1%}", judge_limit(found <= limit))


def at_least(what: str, found: int, series: int, bound: float) -> Row:
    limit = series - find_limit(series, 1 - bound)
    return (what, f"{found / series:.1%}", f"≥ {limit / series:.1%}", judge_limit(found >= limit))


def judge_limit(is_within: bool) -> str:
    return "ok" if is_within else "MISSED"


def find_limit(series: int, share: float) -> int:
    """Return the count that 99 of 100 simulations stay within if the share is the truth."""
    reached = 0.0
    for hits in range(series):
        ways = math.lgamma(series + 1) - math.lgamma(hits + 1) - math.lgamma(series - hits + 1)
        reached += math.exp(ways + hits * math.log(share) + (series - hits) * math.log1p(-share))
        if reached >= 0.99:
            return hits
    return series
