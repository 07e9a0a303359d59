"""Did it help? Sessions are compared, and too few of them are no answer."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import build_warm
from relight.work.experiments.holdout import compare_arms, read_holdout
from relight.work.experiments.metrics import ArmSession, read_arm_sessions


def make(
    arm: str, outcome: bool | None, failed: int = 0, calls: int = 10, **guards: Any
) -> ArmSession:
    return ArmSession(
        arm=arm,
        outcome=outcome,
        calls=calls,
        judged_first=calls,
        failed_first=failed,
        failures=failed,
        tools=3,
        seconds=10.0 + failed,
        has_success=True,
        output_tokens=None,
        **({"cost_usd": None} | guards),
    )


def test_few_sessions_are_not_enough() -> None:
    report = compare_arms([make("cold", False), make("warm", True)])
    assert report.verdict.startswith("not enough data")
    assert compare_arms([]).verdict.startswith("not enough data")
    assert compare_arms([make("warm", None)]).verdict.startswith("not enough data")


def test_where_nothing_failed_cold_no_gain_can_be_planned_and_that_is_said() -> None:
    sessions = [make(arm, None) for arm in ("cold", "warm") for _ in range(20)]
    assert compare_arms(sessions).verdict.endswith(
        "no number of sessions can be planned to see such an effect"
    )


def test_a_large_difference_in_success_is_seen() -> None:
    sessions = [make("cold", n % 2 == 0) for n in range(500)]
    sessions += [make("warm", n % 10 < 8) for n in range(500)]
    report = compare_arms(sessions, samples=500)
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
    report = compare_arms(sessions, samples=500)
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
        p_value = compare_arms(dealt, samples=200).measures["first_30_failure_rate"].p_value
        alarms += p_value is not None and p_value < 0.05
    assert alarms <= 12  # of 100 at 5 %, all but once in a thousand times


def deal_alike(dice: Random, cold: int, warm: int) -> list[ArmSession]:
    """Sessions of one kind in both arms, their figures as skewed as real ones."""
    dealt = []
    for place in range(cold + warm):
        calls = int(dice.lognormvariate(2, 0.9))
        failed = calls // 2 if dice.random() < 0.15 else 0
        guards: dict[str, Any] = {
            "cost_usd": dice.lognormvariate(-2, 1.5),
            "tokens": int(dice.lognormvariate(10, 1.2)),
            "model_seconds": dice.lognormvariate(1, 1) * calls,
            "timed_calls": calls,
            "missing_tools": int(dice.random() < 0.05),
        }
        arm = "cold" if place < cold else "warm"
        dealt.append(make(arm, dice.random() < 0.6, failed, calls, **guards))
    return dealt


@pytest.mark.parametrize(("cold", "warm"), [(8, 32), (15, 15)])
def test_arms_that_are_alike_warn_in_vain_no_more_often_than_is_said(cold: int, warm: int) -> None:
    dice = Random(4)
    trials, warned = 150, 0
    parted: Counter[str] = Counter()
    for _ in range(trials):
        report = compare_arms(deal_alike(dice, cold, warm), samples=199)
        warned += bool(report.warnings)
        for name, one in (report.measures | report.guards).items():
            bounds = one.difference
            if bounds and bounds.low is not None and bounds.high is not None:
                parted[name] += not bounds.low <= 0 <= bounds.high
    assert max(parted.values()) <= 16  # of 150 at 5 %, all but once in a thousand times
    assert warned <= 27  # of 150 at 10 %


def test_an_interval_leaves_zero_out_where_the_p_value_says_so() -> None:
    dice = Random(5)
    for number in range(40):
        cold, warm = dice.choice(((8, 32), (15, 15), (30, 10)))
        report = compare_arms(deal_alike(dice, cold, warm), samples=99 if number % 2 else 400)
        for one in (*report.guards.values(), report.measures["first_30_failure_rate"]):
            bounds = one.difference
            assert bounds is not None
            is_parted = (bounds.low or 0.0) > 0 or (bounds.high or 0.0) < 0
            assert one.p_value is not None
            assert is_parted == (one.p_value < 0.05)


def test_what_gets_worse_meanwhile_is_said() -> None:
    dice = Random(3)
    sessions = []
    for n in range(120):
        more = dice.randint(0, 400)
        facts: dict[str, Any] = {"timed_calls": 4, "model_seconds": 8.0 + dice.random()}
        sessions.append(make("cold", n % 2 == 0, tokens=1000 + more, cost_usd=0.1 + more / 1e4))
        dearer: dict[str, Any] = {
            "tokens": 2000 + more,
            "cost_usd": 0.1 + more / 1e4,
            "missing_tools": n % 3,
        }
        sessions.append(make("warm", n % 2 == 0, **dearer, **facts))
    report = compare_arms(sessions, samples=300)
    tokens = report.guards["tokens_per_session"]
    assert tokens.difference is not None
    assert tokens.difference.value is not None
    assert tokens.difference.value > 900
    assert [warning.partition(":")[0] for warning in report.warnings] == [
        "warm sessions use more tokens",
        "warm sessions call more tools that are not there",
    ]
    latency = report.guards["seconds_per_model_call"]
    assert (latency.cold, latency.difference) == (None, None)
    assert latency.warm is not None
    assert report.guards["cost_usd_per_session"].p_value is not None


def test_a_session_with_a_turn_of_no_price_has_no_cost(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, "Fix the rounding in invoices")
        for key, unpriced in (("a", 0), ("b", 1)):
            build_warm.add_session(store, key, "success")
            build_warm.add_provision(store, key, "warm", made)
            with store.transaction() as database:
                database.execute(
                    "insert into session_day (session_id, root_id, day, source, model, turns,"
                    " partial_turns, unpriced_turns, input_tokens, cache_read_tokens,"
                    " output_tokens, cost_nanos, included_nanos, tool_calls, tool_failures,"
                    " wall_ms) select id, id, '2026-11-15', source, 'm', 2, 0, ?, 100, 0, 20,"
                    " 5000000, 0, 0, 0, 0"
                    " from session where key = ?",
                    (unpriced, key),
                )
        one, two = read_arm_sessions(store)
    assert (one.cost_usd, one.tokens) == (0.005, 120)
    assert (two.cost_usd, two.tokens) == (None, 120)


def test_a_report_can_be_read_without_retiring_anything(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, "Fix the rounding in invoices", name="poor")
        for number in range(12):
            for arm, outcome in (("warm", "failure"), ("cold", "success")):
                build_warm.add_session(store, f"{arm}-{number}", outcome)
                build_warm.add_provision(store, f"{arm}-{number}", arm, made)
        assert read_holdout(store, may_retire=False).retired == []
        assert read_holdout(store).retired == ["poor"]


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
        report = read_holdout(store)
    assert report.sessions == {"cold": 1, "warm": 1}
    assert report.provisions == {"warm": 2, "cold": 1, "abstained": 1}
    assert report.calls == {"cold": 2, "warm": 3}
    rate = report.measures["first_30_failure_rate"]
    assert rate.warm is not None
    assert rate.warm.value == 1 / 3
    assert report.verdict.startswith("not enough data")
