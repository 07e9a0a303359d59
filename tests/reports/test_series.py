"""Figures over time: hours, days, weeks and months of one record agree."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

import build
from relight.intake.recorder import record
from relight.reports.series import SeriesKey, TimeStep, rank_names, read_series
from relight.reports.totals import report
from relight.store import Store, open_store
from relight.store.queries.filters import Filter

DAY = "2026-11-15"
MODELS = ("claude-opus-4-6", "claude-haiku-4-5", "my-own-model")


def fill(store: Store) -> None:
    """Three sessions on two days: models with a price and without, one that fails."""
    zone = ZoneInfo(store.timezone)
    for number, model in enumerate(MODELS):
        begin = datetime.fromisoformat(f"{DAY}T0{number}:59:59").replace(tzinfo=zone)
        moments = [begin]
        with record(
            store,
            f"s{number}",
            model=model,
            project=f"/p/{number % 2}",
            clock=partial(read_last, moments),
        ) as rec:
            for _ in range(3):
                rec.turn(input_tokens=1000, output_tokens=100)
                moments.append(moments[-1] + timedelta(minutes=50))
            moments.append(begin + timedelta(days=1))
            rec.turn(input_tokens=10, output_tokens=1)
            rec.finish("failure" if number else "success")


def read_last(moments: list[datetime]) -> float:
    return moments[-1].timestamp()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "relight").mkdir()
    # half an hour beside the hours of UTC
    build.write_settings(tmp_path / "relight", 'timezone = "Asia/Kolkata"\n')
    opened = open_store(tmp_path / "relight")
    fill(opened)
    return opened


@pytest.mark.parametrize("step", get_args(TimeStep))
@pytest.mark.parametrize("by", get_args(SeriesKey))
def test_every_step_adds_up_to_the_report(store: Store, step: TimeStep, by: SeriesKey) -> None:
    chosen = Filter(since=DAY)
    total = report(store, (), chosen).total
    points = read_series(store, step, by, chosen)
    assert sum(one.tokens or 0 for one in points) == total.total_tokens == 3 * 3311
    assert sum(one.turns for one in points) == total.turns == 12
    assert sum(one.unpriced_turns for one in points) == total.unpriced_turns == 4
    assert sum(one.cost_usd or 0 for one in points) == pytest.approx(total.cost_usd)
    assert {one.name for one in points} == {
        row.key(by) for row in report(store, (by,), chosen).rows
    }


def test_hours_are_those_of_the_stores_time_zone(store: Store) -> None:
    points = read_series(store, "hour", "model", Filter(since=DAY, until=DAY))
    opus = [(one.step, one.turns) for one in points if one.name == MODELS[0]]
    # 00:59, 01:49 and 02:39 in Kolkata
    assert opus == [
        ("2026-11-14T18:30:00.000Z", 1),
        ("2026-11-14T19:30:00.000Z", 1),
        ("2026-11-14T20:30:00.000Z", 1),
    ]
    assert {
        (one.successes, one.failures, one.unknown) for one in points if one.name == MODELS[0]
    } == {(1, 0, 0)}


def test_a_cost_without_a_price_is_unknown_and_not_zero(store: Store) -> None:
    for step in get_args(TimeStep):
        points = read_series(store, step, "model", Filter(since=DAY))
        unpriced = [one for one in points if one.name == MODELS[2]]
        assert unpriced
        assert all(one.cost_usd is None and one.worth_usd is None for one in unpriced)
    assert rank_names(points) == list(MODELS)


def test_a_filter_narrows_hours_as_it_narrows_days(store: Store) -> None:
    for chosen in (Filter(since=DAY, model="opus"), Filter(since=DAY, project='"/p/1"')):
        hours = read_series(store, "hour", "source", chosen)
        assert sum(one.tokens or 0 for one in hours) == report(store, (), chosen).total.total_tokens


def test_the_hours_of_a_day_when_clocks_change(tmp_path: Path) -> None:
    build.write_settings(tmp_path, 'timezone = "Europe/Berlin"\n')
    with open_store(tmp_path) as store:
        at = datetime(2026, 10, 25, 23, 30, tzinfo=ZoneInfo("Europe/Berlin"))
        with record(store, "s", model=MODELS[0], clock=at.timestamp) as rec:
            rec.turn(input_tokens=1, output_tokens=1)
        (point,) = read_series(store, "hour", "model", Filter(since="2026-10-25"))
    assert point.step == at.replace(minute=0).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@pytest.mark.parametrize("step", ["hour", "day"])
def test_outcomes_that_are_not_asked_for_are_unknown(store: Store, step: TimeStep) -> None:
    whole = read_series(store, step, "model", Filter(since=DAY))
    lean = read_series(store, step, "model", Filter(since=DAY), has_outcomes=False)
    unknown = {"successes": None, "failures": None, "unknown": None}
    assert lean == [replace(one, **unknown) for one in whole]
