"""Curves of skills: on each day what the average was then."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from relight.reports.skills.averages import SkillCurve, query_skill_ema, read_curves
from relight.reports.skills.uses import record_skill_invocation
from relight.store import Store, open_store

LAST = date(2026, 11, 15)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as store:
        yield store


def use(store: Store, age: int, *, success: bool | None, cost: float | None = 0.1) -> None:
    at = datetime(2026, 11, 15, 12, tzinfo=UTC) - timedelta(days=age)
    record_skill_invocation(
        store, skill_name="triage", invoked_at=at, model="haiku", success=success, cost_usd=cost
    )


def read_one(store: Store, **options: float) -> SkillCurve:
    (curve,) = read_curves(store, last=LAST, **options)  # type: ignore[arg-type]
    return curve


def test_each_day_is_what_the_average_was_then(store: Store) -> None:
    for age, success in ((9, True), (9, False), (6, True), (2, False), (2, True), (0, True)):
        use(store, age, success=success, cost=age / 10)
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
    use(store, 20, success=True)
    curve = read_one(store, days=25, window_days=14)
    known = [point is not None for point in curve.success]
    assert known == [False] * 4 + [True] * 14 + [False] * 7


def test_an_outcome_and_a_cost_nobody_knows_are_left_out(store: Store) -> None:
    use(store, 1, success=None, cost=None)
    use(store, 0, success=True, cost=0.2)
    curve = read_one(store, days=2)
    assert curve.success[0] is None
    assert curve.cost_usd[0] is None
    assert curve.uses == [1, 1]


def test_few_runs_have_a_wide_interval(store: Store) -> None:
    use(store, 0, success=True)
    (few,) = read_one(store, days=1).success
    for _ in range(60):
        use(store, 0, success=True)
    (many,) = read_one(store, days=1).success
    assert few is not None
    assert many is not None
    assert (few.low or 0) < 0.3 < 0.9 < (many.low or 0)


def test_a_longer_half_life_forgets_more_slowly(store: Store) -> None:
    use(store, 10, success=False)
    use(store, 0, success=True)
    quick = read_one(store, days=1).success[0]
    slow = read_one(store, days=1, half_life_days=30.0).success[0]
    assert quick is not None
    assert slow is not None
    assert (quick.value or 0) > 0.9 > 0.6 > (slow.value or 0)
