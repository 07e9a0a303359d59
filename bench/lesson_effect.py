"""Lessons that help by a known amount: how soon and how truly the report says so.

Sessions are drawn one by one and dealt by two coins, template and lessons, as the product deals
them. The product's own comparison is asked after every session, in series of more than a hundred
after every fifth, as by somebody who looks daily. An interval covers if it holds the truth at every
look; a verdict is wrong if it names an effect where none is.
"""

import random
from collections.abc import Iterator
from statistics import fmean, median
from typing import NamedTuple

from bench.measure import judge
from bench.warm_speed import Row
from relight.warm.plans import WarmPlan
from relight.work.experiments.lesson_effect import NOT_ENOUGH, ORDER, compare_lessons
from relight.work.experiments.metrics import FIRST_CALLS, ArmSession
from relight.work.experiments.warm_verdict import CAUSE, EARLY, SUCCESS

TRIALS = 200
FEWEST_LOOKED = 10
# what 99 of 100 simulations of this size stay within, if the bound of 5 % is true
WRONG = 0.095
COVERED = 1 - WRONG
# templates do something, too: the other coin must not disturb this one
TEMPLATE_SUCCESS, TEMPLATE_EARLY = 0.10, -0.02


class World(NamedTuple):
    """What is true: with and without lessons, and how many sessions there are."""

    title: str
    cause: tuple[float, float]
    early: tuple[float, float] = (0.09, 0.09)
    success: tuple[float, float] = (0.6, 0.6)
    hold_out: float = 0.5
    sessions: int = 100
    # half of the series should show the effect with so many sessions in each arm
    half_by: int | None = None

    @property
    def each(self) -> int:
        """The sessions between two looks."""
        return 1 if self.sessions <= 100 else 5

    @property
    def truth(self) -> dict[str, float]:
        pairs = {CAUSE: self.cause, EARLY: self.early, SUCCESS: self.success}
        return {name: given - held for name, (given, held) in pairs.items()}


class Seen(NamedTuple):
    """What one drawn series showed."""

    covered: bool
    wrong: bool
    shown_at: int | None
    estimate: float
    only_cause: bool


WORLDS = (
    World("no effect, half held out", (0.5, 0.5), sessions=400),
    World("no effect, a fifth held out", (0.2, 0.2), hold_out=0.2, sessions=400),
    World("85 to 20 % by the cause, half", (0.20, 0.85), (0.07, 0.09), sessions=60, half_by=9),
    World("85 to 20 % by the cause, a fifth", (0.20, 0.85), (0.07, 0.09), hold_out=0.2),
    World("20 to 5 % by the cause, half", (0.05, 0.20), (0.085, 0.09), sessions=300, half_by=75),
)


def draw(world: World, dice: random.Random) -> ArmSession:
    """A session as the two coins deal it."""
    is_given = dice.random() >= world.hold_out
    is_warm = dice.random() >= 0.2
    place = 0 if is_given else 1
    success = world.success[place] + (TEMPLATE_SUCCESS if is_warm else 0.0)
    # calls of one session fail together: its own rate is drawn first
    mean = max(world.early[place] + (TEMPLATE_EARLY if is_warm else 0.0), 0.005)
    rate = dice.betavariate(mean * 8, (1 - mean) * 8)
    failed = sum(dice.random() < rate for _ in range(FIRST_CALLS))
    return ArmSession(
        arm="warm" if is_given else "cold",
        outcome=dice.random() < success,
        calls=FIRST_CALLS,
        judged_first=FIRST_CALLS,
        failed_first=failed,
        failures=failed,
        tools=1,
        seconds=None,
        has_success=True,
        cost_usd=None,
        output_tokens=None,
        hold_out=world.hold_out,
        is_hit=dice.random() < world.cause[place],
    )


def play(world: World, seed: int) -> Seen:
    dice = random.Random(f"{world.title} {seed}")
    plan, truth = WarmPlan(), world.truth
    sessions: list[ArmSession] = []
    covered, wrong, shown_at, estimate, only_cause = True, False, None, 0.0, True
    while len(sessions) < world.sessions:
        sessions += [draw(world, dice) for _ in range(world.each)]
        if len(sessions) < FEWEST_LOOKED:
            continue
        found = compare_lessons(sessions, plan, hold_out=world.hold_out)
        for name in ORDER:
            one = found.measures[name]
            if one.difference is None or one.difference.low is None or one.difference.high is None:
                continue
            covered &= one.difference.low <= truth[name] <= one.difference.high
            wrong |= one.verdict != NOT_ENOUGH and not truth[name]
        first = found.measures[CAUSE]
        if shown_at is None and first.verdict == "less":
            shown_at = len(sessions)
        only_cause = found.measures[EARLY].verdict == NOT_ENOUGH
        estimate = (first.difference.value or 0.0) if first.difference else 0.0
    return Seen(covered, wrong, shown_at, estimate, only_cause)


def measure_lesson_effect() -> Iterator[Row]:
    """Coverage, wrong verdicts and the time to a verdict in worlds with a known effect."""
    for world in WORLDS:
        seen = [play(world, seed) for seed in range(TRIALS)]
        title = f"lessons, {world.title}"
        covered = fmean(one.covered for one in seen)
        yield (
            f"{title}: all intervals hold the truth at every look",
            f"{covered:.1%}",
            f"{COVERED:.1%}",
            judge(COVERED, covered),
        )
        wrong = fmean(one.wrong for one in seen)
        yield (f"{title}: wrong verdicts", f"{wrong:.1%}", f"{WRONG:.1%}", judge(wrong, WRONG))
        if not world.truth[CAUSE]:
            continue
        mean = fmean(one.estimate for one in seen)
        off = abs(mean - world.truth[CAUSE])
        yield (
            f"{title}: mean estimate (truth {world.truth[CAUSE]:+.2f})",
            f"{mean:+.3f}",
            "± 0.02",
            judge(off, 0.02),
        )
        times = [one.shown_at for one in seen if one.shown_at is not None]
        share = len(times) / len(seen)
        half = f", half by {median(times):.0f}" if times else ""
        if world.half_by is not None:
            an_arm = median([one.shown_at or 10**6 for one in seen]) / 2
            row = f"{title}: sessions in each arm until half of the series show it"
            yield row, f"{an_arm:.1f}", f"{world.half_by}", judge(an_arm, world.half_by)
        yield (
            f"{title}: shown in {world.sessions} sessions{half}",
            f"{share:.1%}",
            "80 %",
            judge(0.8, share),
        )
        only = fmean(one.only_cause for one in seen)
        yield (f'{title}: early failures say "not enough data"', f"{only:.1%}", "", "")
