"""Verdicts on two models, checked against worked examples, direct integration and simulation."""

import math
import random

import pytest

from relight.stats.odds import (
    MARGIN,
    Pairs,
    Tally,
    count_more_runs,
    count_more_runs_of_jobs,
    difference,
    find_interval,
    judge_job,
    judge_jobs,
    weigh_job,
    weigh_jobs,
)

EASY = (Tally(98, 2), Tally(20, 0))
HARD = (Tally(12, 8), Tally(62, 38))


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((100, 0), (0, 1), "cannot tell yet"),
        ((100, 0), (0, 2), "cannot tell yet"),
        ((100, 0), (0, 3), "worse"),
        ((95, 5), (0, 3), "worse"),
        ((100, 0), (70, 0), "good enough"),
        ((100, 0), (58, 0), "cannot tell yet"),
        ((9, 1), (8, 2), "cannot tell yet"),
        ((1000, 50), (232, 10), "good enough"),
        ((118, 2), (11, 5), "worse"),
        ((0, 0), (5, 0), "cannot tell yet"),
        ((5, 0), (0, 0), "cannot tell yet"),
    ],
)
def test_one_job_is_settled_by_enough_runs_only(
    a: tuple[int, int], b: tuple[int, int], verdict: str
) -> None:
    assert judge_job(Tally(*a), Tally(*b)) == verdict


def test_one_failure_has_odds_of_twenty_and_settles_nothing() -> None:
    assert math.exp(weigh_job(Tally(100, 0), Tally(0, 1)).worse) == pytest.approx(20, abs=1)


def integrate(a: Tally, b: Tally, d: float) -> float:
    """The log likelihood of both counts if B's rate is A's plus `d`, by many small steps."""
    low, high, steps = max(0.0, -d), min(1.0, 1.0 - d), 10_000
    width, logs = (high - low) / steps, []
    for step in range(steps):
        p = low + (step + 0.5) * width
        value = a.successes * math.log(p) + a.failures * math.log1p(-p)
        value += b.successes * math.log(p + d) + b.failures * math.log1p(-p - d)
        logs.append(value)
    top = max(logs)
    return top + math.log(width * math.fsum(math.exp(one - top) for one in logs))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Tally(9, 1), Tally(8, 2)),
        (Tally(40, 0), Tally(10, 3)),
        (Tally(3, 7), Tally(1, 0)),
        # a fixed set of nodes is too coarse for these
        (Tally(750, 750), Tally(188, 187)),
        (Tally(5700, 300), Tally(1425, 75)),
    ],
)
def test_the_odds_are_ratios_of_integrated_likelihoods(a: Tally, b: Tally) -> None:
    found = weigh_job(a, b, margin=0.1)
    same = integrate(a, b, 0.0)
    logs = [integrate(a, b, -size) - same for size in (0.05, 0.1, 0.2, 0.4)]
    worse = max(logs) + math.log(sum(math.exp(one - max(logs)) for one in logs) / 4)
    assert found.good == pytest.approx(-logs[1], abs=1e-5)
    assert found.worse == pytest.approx(worse, abs=1e-5)


def test_a_model_that_ran_the_hard_job_is_not_called_worse() -> None:
    """Pooled counts say worse, though B does as well in either job."""
    assert judge_job(Tally(110, 10), Tally(82, 38)) == "worse"
    assert judge_jobs([EASY, HARD]) == "cannot tell yet"
    apart, _ = difference([EASY, HARD], 0.0)
    assert apart == pytest.approx(0.02, abs=0.001)


def test_the_reverse_does_not_hide_a_worse_model() -> None:
    """B ran the easy job mostly and is 20 points worse in both."""
    jobs = [(Tally(38, 2), Tally(150, 50)), (Tally(120, 80), Tally(16, 24))]
    assert judge_job(Tally(158, 82), Tally(166, 74)) == "cannot tell yet"
    assert judge_jobs(jobs) == "worse"


def test_several_jobs_need_twenty_runs_of_the_cheaper_model() -> None:
    jobs = [(Tally(100, 0), Tally(0, 9)), (Tally(100, 0), Tally(0, 10))]
    assert weigh_jobs(jobs).worse > math.log(20)
    assert judge_jobs(jobs) == "cannot tell yet"
    jobs[0] = (Tally(100, 0), Tally(0, 10))
    assert judge_jobs(jobs) == "worse"


def test_jobs_that_only_one_model_ran_do_not_count() -> None:
    alone = (Tally(0, 0), Tally(0, 50))
    assert judge_jobs([(Tally(100, 0), Tally(70, 0)), alone]) == "good enough"
    assert judge_jobs([alone]) == "cannot tell yet"


def test_the_interval_narrows_and_holds_the_observed_difference() -> None:
    low, high = find_interval([(Tally(118, 2), Tally(31, 1))])
    assert (low, high) == (-0.2, 0.06)
    wide, narrow = (
        find_interval([(Tally(19, 1), Tally(19, 1))]),
        find_interval([(Tally(380, 20), Tally(380, 20))]),
    )
    assert wide[0] < narrow[0] < 0 < narrow[1] < wide[1]
    low, high = find_interval([EASY, HARD])
    assert low < 0.02 < high


@pytest.mark.parametrize(
    ("rate", "margin", "runs"),
    [
        (0.99, 0.05, 103),
        (0.98, 0.05, 134),
        (0.95, 0.05, 220),
        (0.90, 0.05, 353),
        (0.80, 0.05, 573),
        (0.60, 0.05, 814),
        (0.95, 0.10, 69),
        (0.60, 0.10, 199),
    ],
)
def test_the_runs_still_needed_are_those_of_an_equal_model(
    rate: float, margin: float, runs: int
) -> None:
    a = Tally(200 * rate, 200 * (1 - rate))
    assert count_more_runs(a, Tally(0, 0), margin=margin) == runs


def test_the_runs_still_needed_settle_it_and_one_fewer_does_not() -> None:
    a, b = Tally(118, 2), Tally(31, 1)
    more = count_more_runs(a, b)
    assert more == 123
    rate = (118 + 31 + 1) / (152 + 1.05)

    def is_good(runs: int) -> bool:
        grown = Tally(118 + 4 * runs * rate, 2 + 4 * runs * (1 - rate))
        return weigh_job(grown, Tally(31 + runs * rate, 1 + runs * (1 - rate))).good >= math.log(30)

    assert is_good(more)
    assert not is_good(more - 1)


def test_more_runs_of_one_model_alone_may_never_settle_it() -> None:
    assert count_more_runs(Tally(72, 48), Tally(10, 6), share=1) is None


def test_the_runs_still_needed_in_several_jobs_settle_them() -> None:
    more = count_more_runs_of_jobs((EASY, HARD), share=0.5)
    assert more is not None

    def grow(runs: int) -> bool:
        grown = []
        for (a, b), part_a, part_b in zip(
            (EASY, HARD), (5 / 6, 1 / 6), (1 / 6, 5 / 6), strict=True
        ):
            known = a.runs + b.runs
            rate = min((a.successes + b.successes + 1) / (known + 1.05), 0.998)
            both = [
                Tally(one.successes + part * runs * rate, one.failures + part * runs * (1 - rate))
                for one, part in ((a, part_a), (b, part_b))
            ]
            grown.append((both[0], both[1]))
        return judge_jobs(grown) == "good enough"

    assert grow(more)
    assert not grow(more - 1)
    assert count_more_runs_of_jobs((EASY,)) == count_more_runs(*EASY)


@pytest.mark.parametrize(("rate", "behind"), [(0.95, 0.0), (0.95, 0.05)])
def test_looking_after_every_fifth_run_seldom_gives_a_wrong_verdict(
    rate: float, behind: float
) -> None:
    """60 series of 150 runs each; 5 % may be wrong, so 8 are beyond the 99 % limit."""
    draw = random.Random(7)
    wrong = 0
    for _ in range(60):
        a = [0, 0]
        b = [0, 0]
        for run in range(1, 151):
            for counts, chance in ((a, rate), (b, rate - behind)):
                counts[draw.random() >= chance] += 1
            if run % 5:
                continue
            verdict = judge_job(Tally(*a), Tally(*b))
            if verdict == ("good enough" if behind else "worse"):
                wrong += 1
                break
    assert wrong <= 8


def test_tasks_on_both_models_say_more_if_the_models_fail_at_the_same_ones() -> None:
    """54 of 60 succeed on both models: as counts that is little, as the same tasks it is much."""
    a, b = Tally(90, 10), Tally(0, 0)
    alike = weigh_job(a, b, pairs=Pairs(both=54, neither=6)).good
    apart = weigh_job(a, b, pairs=Pairs(both=48, only_a=6, only_b=6)).good
    counted = weigh_job(a, Tally(54, 6)).good
    assert alike > math.log(10)
    assert apart < counted < alike


def test_past_tasks_that_are_harder_than_the_runs_do_not_make_a_model_look_worse() -> None:
    hard = Pairs(both=48, only_a=3, only_b=3, neither=6)
    assert judge_job(Tally(990, 10), Tally(51, 9)) == "worse"
    assert judge_job(Tally(990, 10), Tally(0, 0), pairs=hard) == "cannot tell yet"
    assert weigh_job(Tally(990, 10), Tally(0, 0), pairs=hard).worse < 0


def test_pairs_alone_show_harm() -> None:
    assert judge_job(Tally(0, 0), Tally(0, 0), pairs=Pairs(both=20, only_a=8)) == "worse"
    low, high = find_interval([(Tally(95, 5), Tally(0, 0))], pairs=Pairs(both=20, only_a=8))
    assert low < -0.28 < high < 0


@pytest.mark.parametrize("likeness", [0.0, 0.3, 0.9])
def test_a_wrong_verdict_by_pairs_stays_rare_at_every_look(likeness: float) -> None:
    """Looked at three times in 60 tasks, 300 times, for models equal or a margin worse."""
    wrong = {"worse": 0, "good enough": 0}
    for behind, verdict in ((0.0, "worse"), (MARGIN, "good enough")):
        for number in range(300):
            dice = random.Random(f"{likeness} {behind} {number}")
            p, q = 0.95, 0.95 - behind
            both = min(p * q + likeness * math.sqrt(p * (1 - p) * q * (1 - q)), q)
            ends = dice.choices(range(4), [both, p - both, q - both, 1 - p - q + both], k=60)
            looks = (Pairs(*(ends[:runs].count(end) for end in range(4))) for runs in (20, 40, 60))
            a, b = Tally(190, 10), Tally(0, 0)
            wrong[verdict] += any(judge_job(a, b, pairs=one) == verdict for one in looks)
    # 5 % of 300, and what 99 of 100 simulations stay within
    assert max(wrong.values()) <= 24


def test_counts_whose_likelihood_reaches_just_to_the_end_are_judged() -> None:
    """Eight standard deviations from 391 of 446 end at exactly 1, where no logarithm exists."""
    assert judge_job(Tally(362, 51), Tally(29, 4)) == "cannot tell yet"
