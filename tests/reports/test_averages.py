"""Moving averages of skills, and their curves: on each day what the average was then."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import build
from relight.errors import RelightError
from relight.reports.skills.averages import (
    SkillCurve,
    SkillEma,
    query_skill_ema,
    read_curves,
    show_band,
)
from relight.reports.skills.uses import record_skill_invocation
from relight.store import Store, open_store

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def use(store: Store, *, days_ago: float = 0, count: int = 1, **fields: Any) -> None:
    for _ in range(count):
        record_skill_invocation(
            store,
            **{"skill_name": "triage", "model": "haiku"} | fields,
            invoked_at=NOW - timedelta(days=days_ago),
        )


def average(store: Store, **parameters: Any) -> SkillEma:
    (row,) = query_skill_ema(store, now=NOW, **parameters)
    return row


def test_two_runs_thirteen_days_apart_weigh_99_and_1_percent(store: Store) -> None:
    use(store, success=True)
    use(store, days_ago=13, success=False)
    row = average(store)
    assert row.ema_success_rate == pytest.approx(0.990, abs=5e-4)
    assert row.ema_success_rate == pytest.approx(1 / (1 + 0.7**13))
    assert (row.sample_count, row.days_with_data) == (2, 2)


def test_a_recent_rate_is_shown_as_a_band_not_as_a_number(store: Store) -> None:
    """Three fresh successes after an old failure are a rate of 99.8 %, and prove little."""
    use(store, days_ago=13, success=False)
    use(store, success=True, count=3)
    row = average(store)
    assert row.ema_success_rate == pytest.approx(0.997, abs=1e-3)
    assert (row.success_count, row.failure_count) == (3, 1)
    assert row.ema_success_low == pytest.approx(0.43, abs=0.02)
    assert show_band(row) == "44–100%"


def test_no_rate_is_shown_if_most_outcomes_are_unknown(store: Store) -> None:
    use(store, success=True)
    use(store, success=None, count=2)
    row = average(store)
    assert row.ema_success_rate == 1
    assert show_band(row) == "–"
    use(store, success=True)
    assert show_band(average(store)) == "34–100%"


def test_each_run_weighs_by_itself_and_not_each_day(store: Store) -> None:
    use(store, days_ago=1, success=True, count=50)
    use(store, days_ago=1, success=False, count=50)
    use(store, success=True)
    row = average(store)
    assert row.ema_success_rate == pytest.approx(0.507, abs=5e-4)
    assert row.n_eff == pytest.approx((1 + 100 * 0.7) ** 2 / (1 + 100 * 0.49))


def test_an_unknown_outcome_is_neither_success_nor_failure(store: Store) -> None:
    for success, count in ((True, 4), (False, 1), (None, 5)):
        use(store, success=success, count=count)
    row = average(store)
    assert row.ema_success_rate == pytest.approx(0.8)
    assert (row.success_count, row.failure_count, row.unknown_count) == (4, 1, 5)
    assert (row.n_eff, row.coverage, row.sample_count) == (5, 0.5, 10)


def test_a_run_without_a_cost_does_not_halve_the_mean(store: Store) -> None:
    use(store, cost_usd=0.02, duration_seconds=8)
    use(store)
    row = average(store)
    assert (row.ema_cost_per_call, row.ema_duration_s, row.unpriced_count) == (0.02, 8, 1)


def test_two_providers_on_one_day_are_one_day_and_the_latest_is_named(store: Store) -> None:
    use(store, days_ago=0.2, provider="home")
    use(store, provider="cloud")
    row = average(store)
    assert (row.days_with_data, row.provider, row.sample_count) == (1, "cloud", 2)


def test_one_day_of_data_is_that_days_plain_mean_however_old(store: Store) -> None:
    for cost in (0.01, 0.02, 0.06):
        use(store, days_ago=5, cost_usd=cost, success=cost < 0.05)
    row = average(store)
    assert row.ema_cost_per_call == pytest.approx(0.03)
    assert row.ema_success_rate == pytest.approx(2 / 3)
    assert row.n_eff == pytest.approx(3)


def test_nothing_known_gives_no_mean(store: Store) -> None:
    use(store)
    row = average(store)
    assert (row.ema_success_rate, row.ema_cost_per_call, row.ema_duration_s) == (None, None, None)
    assert (row.n_eff, row.coverage) == (0, 0)


def test_a_half_life_counts_half_after_that_many_days(store: Store) -> None:
    use(store, cost_usd=3)
    use(store, days_ago=5, cost_usd=0)
    assert average(store, half_life_days=5).ema_cost_per_call == pytest.approx(2)
    assert average(store, alpha=0.1294494367038759).ema_cost_per_call == pytest.approx(2)


def test_weights_that_all_but_vanish_still_give_a_mean(store: Store) -> None:
    use(store, days_ago=4000, success=True)
    use(store, days_ago=4001, success=False)
    row = average(store, window_days=10_000, half_life_days=0.1)
    assert row.ema_success_rate == pytest.approx(1, abs=0.01)


def test_the_window_holds_today_and_the_days_before_it(store: Store) -> None:
    use(store, days_ago=13)
    use(store, days_ago=14)
    use(store, days_ago=-1)  # tomorrow, by a clock that is wrong
    assert average(store).sample_count == 1


@pytest.mark.parametrize("days", [10**7, 10**400])
def test_a_window_may_be_longer_than_time(store: Store, days: int) -> None:
    use(store, days_ago=5000)
    assert average(store, window_days=days).sample_count == 1


def test_days_are_those_of_the_stores_own_zone(tmp_path: Path) -> None:
    (tmp_path / "relight").mkdir()
    build.write_settings(tmp_path / "relight", 'timezone = "Asia/Tokyo"\n')
    from relight.store import open_store

    with open_store(tmp_path / "relight") as store:
        # 23:30 and 00:30 in Tokyo are two days, though one in London
        for hour in (14, 15):
            at = datetime(2026, 11, 14, hour, 30, tzinfo=UTC)
            record_skill_invocation(store, skill_name="triage", invoked_at=at)
        (row,) = query_skill_ema(store, now=datetime(2026, 11, 15, 3, tzinfo=UTC))
    assert row.days_with_data == 2


def test_rows_are_by_skill_and_model_the_newest_first(store: Store) -> None:
    use(store, days_ago=2, model="opus")
    use(store, days_ago=1, skill_name="tidy")
    use(store, days_ago=3)
    rows = query_skill_ema(store, now=NOW.timestamp())
    assert [(row.skill_name, row.model) for row in rows] == [
        ("tidy", "haiku"),
        ("triage", "opus"),
        ("triage", "haiku"),
    ]
    assert rows[0].last_invoked_at == "2026-11-14T12:00:00.000Z"


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"alpha": 0}, "alpha"),
        ({"alpha": 1}, "alpha"),
        ({"alpha": -0.3}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"alpha": "much"}, "alpha"),
        ({"half_life_days": 0}, "half_life_days"),
        ({"half_life_days": float("inf")}, "half_life_days"),
        ({"half_life_days": 5, "alpha": 0.3}, "alpha and half_life_days"),
        ({"window_days": 0}, "window_days"),
        ({"window_days": 2.5}, "window_days"),
        ({"window_days": True}, "window_days"),
        ({"half_life_days": 10**400}, "half_life_days"),
        ({"window_days": "14"}, "window_days"),
        ({"now": "soon"}, "now"),
        ({"now": -5e10}, "now"),
        ({"now": datetime(2026, 11, 15)}, "now"),  # noqa: DTZ001 - that is what is wrong with it
    ],
)
def test_a_bad_parameter_is_named(store: Store, parameters: dict[str, Any], name: str) -> None:
    with pytest.raises(RelightError, match=f"^{name} "):
        query_skill_ema(store, **parameters)


LAST = date(2026, 11, 15)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as store:
        yield store


def use_aged(store: Store, age: int, *, success: bool | None, cost: float | None = 0.1) -> None:
    at = datetime(2026, 11, 15, 12, tzinfo=UTC) - timedelta(days=age)
    record_skill_invocation(
        store, skill_name="triage", invoked_at=at, model="haiku", success=success, cost_usd=cost
    )


def read_one(store: Store, **options: float) -> SkillCurve:
    (curve,) = read_curves(store, last=LAST, **options)  # type: ignore[arg-type]
    return curve


def test_each_day_is_what_the_average_was_then(store: Store) -> None:
    for age, success in ((9, True), (9, False), (6, True), (2, False), (2, True), (0, True)):
        use_aged(store, age, success=success, cost=age / 10)
    curve = read_one(store, days=8)
    for place, age in enumerate(range(7, -1, -1)):
        now = datetime(2026, 11, 15, 23, tzinfo=UTC) - timedelta(days=age)
        (told,) = query_skill_ema(store, now=now)
        point, cost = curve.success[place], curve.cost_usd[place]
        assert point is not None
        assert point.value == pytest.approx(told.ema_success_rate)
        assert cost is not None
        assert cost.value == pytest.approx(told.ema_cost_per_call)
    assert curve.uses == [0, 1, 0, 0, 0, 2, 0, 1]


def test_before_the_first_use_and_long_after_the_last_there_is_no_value(store: Store) -> None:
    use_aged(store, 20, success=True)
    curve = read_one(store, days=25, window_days=14)
    known = [point is not None for point in curve.success]
    assert known == [False] * 4 + [True] * 14 + [False] * 7


def test_an_outcome_and_a_cost_nobody_knows_are_left_out(store: Store) -> None:
    use_aged(store, 1, success=None, cost=None)
    use_aged(store, 0, success=True, cost=0.2)
    curve = read_one(store, days=2)
    assert curve.success[0] is None
    assert curve.cost_usd[0] is None
    assert curve.uses == [1, 1]


def test_few_runs_have_a_wide_interval(store: Store) -> None:
    use_aged(store, 0, success=True)
    (few,) = read_one(store, days=1).success
    for _ in range(60):
        use_aged(store, 0, success=True)
    (many,) = read_one(store, days=1).success
    assert few is not None
    assert many is not None
    assert (few.low or 0) < 0.3 < 0.9 < (many.low or 0)


def test_a_longer_half_life_forgets_more_slowly(store: Store) -> None:
    use_aged(store, 10, success=False)
    use_aged(store, 0, success=True)
    quick = read_one(store, days=1).success[0]
    slow = read_one(store, days=1, half_life_days=30.0).success[0]
    assert quick is not None
    assert slow is not None
    assert (quick.value or 0) > 0.9 > 0.6 > (slow.value or 0)
