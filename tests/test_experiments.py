"""Did it help? Sessions are compared, and too few of them are no answer."""

from pathlib import Path
from random import Random

import build_warm
from relight.experiments import Session, compare, read_report


def make(arm: str, outcome: bool | None, failed: int = 0, calls: int = 10) -> Session:
    return Session(
        arm=arm,  # type: ignore[arg-type]
        outcome=outcome,
        calls=calls,
        judged_first=calls,
        failed_first=failed,
        failures=failed,
        tools=3,
        seconds=10.0 + failed,
        has_success=True,
        cost_usd=None,
        output_tokens=None,
    )


def test_few_sessions_are_not_enough() -> None:
    report = compare([make("cold", False), make("warm", True)])
    assert report.verdict.startswith("not enough data")
    assert compare([]).verdict.startswith("not enough data")
    assert compare([make("warm", None)]).verdict.startswith("not enough data")


def test_a_large_difference_in_success_is_seen() -> None:
    sessions = [make("cold", n % 2 == 0) for n in range(500)]
    sessions += [make("warm", n % 10 < 8) for n in range(500)]
    report = compare(sessions, samples=500)
    assert report.primary == "success_rate"
    assert report.verdict.startswith("warm is better")
    difference = report.measures["success_rate"].difference
    assert difference is not None
    assert difference.value is not None
    assert abs(difference.value - 0.3) < 1e-9
    assert report.probability_warm_better is not None
    assert report.probability_warm_better > 0.99
    assert report.live_view is not None
    assert report.live_view.low > 0


def test_without_outcomes_the_failures_of_the_first_calls_decide() -> None:
    dice = Random(1)
    sessions = [make("cold", None, dice.choice((0, 1, 2, 3))) for _ in range(300)]
    sessions += [make("warm", None, dice.choice((0, 0, 0, 1))) for _ in range(300)]
    report = compare(sessions, samples=500)
    assert report.primary == "first_30_failure_rate"
    assert report.verdict.startswith("warm is better")


def test_arms_dealt_at_random_hardly_ever_differ() -> None:
    """The nominal 5 %, with sessions that fail as a whole and arms of 4 to 1."""
    dice = Random(7)
    pool = [(dice.random() < 0.2, dice.randint(3, 30)) for _ in range(300)]
    alarms = 0
    for _ in range(100):
        dealt = [
            make(
                "cold" if dice.random() < 0.2 else "warm",
                None,
                failed=calls // 2 if is_bad else 0,
                calls=calls,
            )
            for is_bad, calls in pool
        ]
        p_value = compare(dealt, samples=200).measures["first_30_failure_rate"].p_value
        alarms += p_value is not None and p_value < 0.05
    assert alarms <= 12  # of 100 at 5 %, all but once in a thousand times


def test_a_report_joins_provisions_with_the_sessions_that_followed(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, "Fix the rounding in invoices")
        build_warm.add_session(store, "a", "success", labels=["ok", "error", "ok"])
        build_warm.add_session(store, "b", "failure", labels=["error", "negative"])
        build_warm.add_session(store, "c", None, labels=["ok"])
        build_warm.add_provision(store, "a", "warm", made)
        build_warm.add_provision(store, "b", "cold", made)
        build_warm.add_provision(store, "c", "cold", None)
        build_warm.add_provision(store, "never-came", "warm", made)
        report = read_report(store)
    assert report.sessions == {"cold": 1, "warm": 1}
    assert report.provisions == {"warm": 2, "cold": 1, "abstained": 1}
    assert report.calls == {"cold": 2, "warm": 3}
    rate = report.measures["first_30_failure_rate"]
    assert rate.warm is not None
    assert rate.warm.value == 1 / 3
    assert report.verdict.startswith("not enough data")
