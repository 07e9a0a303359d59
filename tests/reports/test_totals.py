from datetime import UTC, datetime
from pathlib import Path

import pytest

import build
from relight.errors import RelightError
from relight.reports.filters import read_filter
from relight.reports.totals import KEYS, report
from relight.store import Store
from relight.store.queries.costs import CostSums, sum_cost, sum_costs
from relight.store.queries.filters import Filter, find_first_day
from relight.store.queries.tool_sums import count_tools

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path, store: Store) -> Store:
    build.write_claude(tmp_path, build.claude_session())
    build.write_codex(
        tmp_path,
        [
            build.codex_meta(),
            build.codex_line("turn_context", 1, model="my-own-model"),
            build.codex_line(
                "token_usage_record", 2, response_id="r1", usage=build.codex_usage(1000)
            ),
        ],
    )
    build.import_home(store, tmp_path)
    return store


@pytest.mark.parametrize("key", KEYS)
def test_every_key_gives_rows_whose_calls_add_up_to_the_total(store: Store, key: str) -> None:
    found = report(store, (key,))
    assert found.rows
    calls = sum(row.tool_calls for row in found.rows)
    # by failure only the call counts that failed
    assert calls == found.total.tool_calls == (1 if key == "failure" else 2)


def test_a_total_counts_a_session_once_however_many_rows_it_is_in(store: Store) -> None:
    found = report(store, ("day", "model"))
    assert found.total.sessions == 2
    assert sum(row.sessions for row in found.rows) == 2


def test_by_no_key_there_is_the_total_alone(store: Store) -> None:
    found = report(store, ())
    assert found.rows == []
    assert found.total == report(store, ("model",)).total


@pytest.mark.parametrize("key", ["model", "source", "project"])
def test_what_is_added_up_for_a_page_is_what_a_report_says(store: Store, key: str) -> None:
    rows = report(store, (key,), sort=key).rows
    shown = sum_costs(store, key, Filter())
    assert [row.name for row in shown] == [row.key(key) for row in rows]
    for name in CostSums.__struct_fields__:
        assert [getattr(row, name) for row in shown] == [getattr(row, name) for row in rows]


def test_the_cost_of_all_is_what_a_report_says(store: Store) -> None:
    total = report(store, ()).total
    shown = sum_cost(store, Filter())
    for name in CostSums.__struct_fields__:
        assert getattr(shown, name) == getattr(total, name)


def test_tools_are_counted_as_a_report_counts_them(store: Store) -> None:
    chosen = Filter(source="claude-code")
    rows = report(store, ("tool",), chosen).rows
    wanted = [(row.key("tool"), row.tool_calls, row.tool_failures) for row in rows]
    counted = [(one.tool, one.calls, one.failed) for one in count_tools(store, chosen)]
    assert counted
    assert sorted(counted) == sorted(wanted)


def test_the_first_day_is_the_first_that_a_filter_takes(store: Store) -> None:
    (day,) = [row.day for row in report(store, ("day",), Filter(source="codex")).rows]
    assert find_first_day(store, Filter(source="codex")) == day
    assert find_first_day(store, Filter(source="hermes")) is None


def test_a_model_without_a_price_is_unknown_and_counted(store: Store) -> None:
    rows = {row.model: row for row in report(store, ("model",)).rows}
    assert rows["my-own-model"].cost_usd is None
    assert rows["my-own-model"].unpriced_turns == 1
    assert report(store, ("day",)).total.cost_usd == rows["claude-opus-4-6"].cost_usd


def test_what_no_source_records_is_null_and_not_zero(store: Store) -> None:
    rows = {row.source: row for row in report(store, ("source",)).rows}
    assert rows["codex"].cache_write_1h_tokens is None
    assert rows["claude-code"].cache_write_1h_tokens == 300


def test_tokens_have_no_meaning_by_tool(store: Store) -> None:
    for row in report(store, ("tool",)).rows:
        assert row.input_tokens is None
        assert row.cost_usd is None
        assert row.tool_calls == 1


def test_wall_time_is_from_the_first_record_to_the_last(store: Store) -> None:
    rows = {row.source: row for row in report(store, ("source",)).rows}
    assert rows["claude-code"].wall_seconds == 5


@pytest.mark.parametrize(
    ("chosen", "sessions"),
    [
        (Filter(source="codex"), 1),
        (Filter(model="OPUS"), 1),
        (Filter(model="%"), 0),
        (Filter(project="shop"), 2),
        (Filter(since="2026-11-16"), 0),
        (Filter(until="2026-11-14"), 0),
        (Filter(since="2026-11-15", until="2026-11-15"), 2),
    ],
)
def test_a_filter_takes_only_what_it_names(store: Store, chosen: Filter, sessions: int) -> None:
    assert report(store, ("day",), chosen).total.sessions == sessions


def test_seven_days_are_today_and_the_six_before(store: Store) -> None:
    assert read_filter(store, since="7d", now=NOW).since == "2026-11-09"
    assert read_filter(store, since="all", now=NOW).since is None


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "d", "7", "", "9999999d"])
def test_a_day_that_is_none_is_an_error_with_a_hint(store: Store, text: str) -> None:
    with pytest.raises(RelightError) as caught:
        read_filter(store, since=text, now=NOW)
    assert "7d" in str(caught.value.hint)


def test_weeks_are_iso_weeks(store: Store) -> None:
    assert report(store, ("week",)).rows[0].week == "2026-W46"
    assert report(store, ("month",)).rows[0].month == "2026-11"
