"""Budgets: what is spent in a period, what it will be, and when agents are stopped."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import build
from relight.errors import RelightError
from relight.reports.budgets import (
    BudgetState,
    find_stop,
    make_scope,
    parse_amount,
    read_budgets,
    remove_limit,
    set_limit,
)
from relight.store import Store, open_store

# a Wednesday
NOW = datetime(2026, 11, 18, 15, tzinfo=UTC)
USD_PER_TURN = 1.0


def spend(
    store: Store, at: datetime, usd: float, *, source: str = "codex", project: str = "/p"
) -> None:
    """A session of one turn that cost so much."""
    number = store.query("select count(*) from session")[0][0] + 1
    with store.transaction() as database:
        database.execute(
            "insert into session (id, source, key, root_id, project) values (?, ?, ?, ?, ?)",
            (number, source, f"s{number}", number, project),
        )
        database.execute(
            "insert into turn (id, session_id, at, day, calls, usage_status, cost_nanos,"
            " cost_status) values (?, ?, ?, ?, 1, 'final', ?, 'estimated')",
            (number, number, round(at.timestamp() * 1000), at.date().isoformat(), round(usd * 1e9)),
        )
        from relight.store.derive import rollup

        rollup.refresh(database, {number})


def spend_daily(store: Store, days: int, *, hours: tuple[int, ...] = (9, 17)) -> None:
    """A dollar at each of these hours of the last days, weekends too."""
    for day in range(1, days + 1):
        for hour in hours:
            spend(store, NOW.replace(hour=hour) - timedelta(days=day), 1.0)


def read_one(store: Store, now: datetime = NOW) -> BudgetState:
    (found,) = read_budgets(store, now=now.timestamp()).budgets
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5/day", (5_000_000_000, "day")),
        ("$20/week", (20_000_000_000, "week")),
        ("99.50/month", (99_500_000_000, "month")),
    ],
)
def test_an_amount_names_its_period(text: str, expected: tuple[int, str]) -> None:
    assert parse_amount(text) == expected


@pytest.mark.parametrize("text", ["5", "0/day", "-1/day", "5/year", "1e9/day", "5/day/x", "٥/day"])
def test_anything_else_is_no_amount(text: str) -> None:
    with pytest.raises(RelightError, match="not an amount"):
        parse_amount(text)


def test_a_steady_past_projects_a_steady_end(store: Store) -> None:
    spend_daily(store, 28)
    spend(store, NOW.replace(hour=9), 1.0)
    set_limit(store, "all", "14.50/week", stops=False)
    found = read_one(store)
    # Monday and Tuesday whole, a dollar this morning, one this evening, four days of two
    assert found.spent_usd == 5.0
    assert (found.projected_low_usd, found.projected_usd, found.projected_high_usd) == (14, 14, 14)
    assert found.state == "ok"
    assert found.started_at == "2026-11-16T00:00:00.000Z"
    assert found.ends_at == "2026-11-23T00:00:00.000Z"
    set_limit(store, "all", "13/week", stops=False)
    assert read_one(store).state == "projected_over"
    set_limit(store, "all", "5/week", stops=False)
    assert read_one(store).state == "over"


def test_the_rest_of_a_day_is_like_the_same_hours_of_the_days_before(store: Store) -> None:
    spend_daily(store, 10, hours=(9, 10, 20))
    set_limit(store, "all", "5/day", stops=False)
    morning, evening = NOW.replace(hour=8), NOW.replace(hour=21)
    assert read_one(store, morning).projected_usd == 3
    assert read_one(store).projected_usd == 1
    assert read_one(store, evening).projected_usd == 0


def test_weekends_are_projected_by_weekends(store: Store) -> None:
    for day in range(1, 29):
        at = NOW.replace(hour=9) - timedelta(days=day)
        if at.weekday() < 5:
            spend(store, at, 3.0)
    set_limit(store, "all", "100/week", stops=False)
    assert read_one(store).projected_usd == 12


def test_with_too_few_days_nothing_is_projected(store: Store) -> None:
    spend_daily(store, 2)
    set_limit(store, "all", "1/month", stops=False)
    found = read_one(store)
    assert (found.projected_usd, found.projected_low_usd, found.state) == (None, None, "over")


def test_sessions_of_unknown_days_are_no_past_to_project(store: Store) -> None:
    spend(store, NOW, 1.0)
    with store.transaction() as database:
        database.execute("update session_day set day = 'unknown'")
    set_limit(store, "all", "5/week", stops=False)
    assert read_one(store).projected_usd is None


def test_each_scope_counts_its_own(store: Store) -> None:
    spend(store, NOW, 1.0, source="codex", project="/home/dev/shop")
    spend(store, NOW, 2.0, source="claude-code", project="/home/dev/billing")
    for scope in ("all", "source:codex", "project:/home/dev/billing", 'project:"/home/dev"'):
        set_limit(store, scope, "5/day", stops=False)
    found = read_budgets(store, now=NOW.timestamp()).budgets
    assert {one.scope: one.spent_usd for one in found} == {
        "all": 3.0,
        "source:codex": 1.0,
        "project:/home/dev/billing": 2.0,
        'project:"/home/dev"': 0.0,
    }


def test_the_budget_of_a_folder_leaves_a_neighbour_with_a_longer_name_alone(store: Store) -> None:
    for number, folder in enumerate(("shop", "shop/src", "shop-old", "my_shop")):
        spend(store, NOW, 1.0 + number, source="codex", project=f"/home/dev/{folder}")
    set_limit(store, "project:/home/dev/shop", "1/day", stops=True)
    now = NOW.timestamp()
    (found,) = read_budgets(store, now=now).budgets
    assert found.spent_usd == 3.0
    stopped = [
        folder
        for folder in ("shop", "shop/src", "shop-old")
        if find_stop(store, source="codex", project=f"/home/dev/{folder}", now=now)
    ]
    assert stopped == ["shop", "shop/src"]


def test_one_scope_has_one_budget_for_each_period(store: Store) -> None:
    for text in ("5/day", "6/day", "7/week"):
        set_limit(store, "all", text, stops=False)
    found = read_budgets(store, now=NOW.timestamp()).budgets
    assert [(one.period, one.limit_usd) for one in found] == [("day", 6.0), ("week", 7.0)]
    remove_limit(store, "all", "day")
    with pytest.raises(RelightError, match="no budget a day for everything"):
        remove_limit(store, "all", "day")


def test_a_scope_that_is_not_known_is_refused(store: Store) -> None:
    with pytest.raises(RelightError, match="no source 'codecks'"):
        make_scope(store, source="codecks")
    with pytest.raises(RelightError, match="no job 'nightly'"):
        make_scope(store, job="nightly")
    with pytest.raises(RelightError, match="one scope"):
        make_scope(store, source="codex", project="x")


def test_only_a_budget_with_a_stop_stops_and_only_its_own_scope(store: Store) -> None:
    spend(store, NOW, 2.0, source="codex", project="/home/dev/shop")
    now = NOW.timestamp()
    set_limit(store, "all", "1/day", stops=False)
    assert find_stop(store, source="codex", project="/home/dev/shop", now=now) is None
    set_limit(store, "project:shop", "2/day", stops=True)
    reason = find_stop(store, source="codex", project="/home/dev/shop", now=now)
    assert reason is not None
    assert "$2.00 a day for the project shop is used up: $2.00 spent" in reason
    assert "begins Thu 2026-11-19 00:00 UTC" in reason
    assert "relight budget set AMOUNT/day --project shop --stop" in reason
    assert find_stop(store, source="codex", project="/home/dev/billing", now=now) is None
    later = now + 86_400
    assert find_stop(store, source="codex", project="/home/dev/shop", now=later) is None
    off = {"RELIGHT_BUDGET": "off"}
    given = {"source": "codex", "project": "/home/dev/shop"}
    assert find_stop(store, **given, now=now, environment=off) is None


def test_what_a_plan_includes_is_not_spent(store: Store) -> None:
    spend(store, NOW, 2.0)
    with store.transaction() as database:
        from relight.store.derive import rollup

        database.execute("update turn set cost_status = 'included'")
        rollup.refresh(database, {1})
    set_limit(store, "all", "1/day", stops=True)
    assert (read_one(store).spent_usd, read_one(store).state) == (0.0, "ok")


def test_days_are_those_of_the_stores_zone_also_when_clocks_change(tmp_path: Path) -> None:
    home = tmp_path / "berlin"
    home.mkdir()
    build.write_settings(home, 'timezone = "Europe/Berlin"\n')
    with open_store(home) as store:
        set_limit(store, "all", "1/day", stops=False)
        # the clock is set back on this day, which has 25 hours
        found = read_one(store, datetime(2026, 10, 25, 12, tzinfo=UTC))
    assert (found.started_at, found.ends_at) == (
        "2026-10-24T22:00:00.000Z",
        "2026-10-25T23:00:00.000Z",
    )


def test_a_month_and_a_week_end_where_the_next_begins(store: Store) -> None:
    set_limit(store, "all", "1/month", stops=False)
    found = read_one(store, datetime(2026, 12, 31, 23, tzinfo=UTC))
    assert (found.started_at or "")[:10] == "2026-12-01"
    assert (found.ends_at or "")[:10] == "2027-01-01"
