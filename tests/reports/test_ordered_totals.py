"""Reports in an order, cut to their first rows, with outcomes and the cost of a success."""

from pathlib import Path

import pytest

import build
from relight.errors import RelightError
from relight.reports.labels import label_session
from relight.reports.metrics import list_metrics
from relight.reports.sessions import find_session
from relight.reports.totals import KEYS, report
from relight.store import Store
from relight.store.queries.filters import Filter

MODELS = ["claude-haiku-4-5", "claude-opus-4-6", "claude-sonnet-4-5", "no-such-model"]


@pytest.fixture
def store(tmp_path: Path, store: Store) -> Store:
    """Two sessions of each model, on two days, the first of them with a known outcome."""
    for number, model in enumerate(MODELS):
        for day in range(2):
            name = f"{number}{day}"
            at = day * 86_400 + number * 60
            lines = [
                build.claude_prompt("Go", at=at, sessionId=name),
                build.claude_answer(f"m{name}", at=at + 5, sessionId=name, model=model),
            ]
            lines = [one | {"gitBranch": f"b{day}", "version": f"2.{number}"} for one in lines]
            build.write_claude(tmp_path, lines, name=name)
    build.import_home(store, tmp_path)
    for number in range(4):
        outcome = "failure" if number == 2 else "success"
        label_session(store, find_session(store, f"{number}0"), outcome)
    return store


def test_rows_are_sorted_by_cost_unless_they_are_times(store: Store) -> None:
    models = [row.model for row in report(store, ("model",)).rows]
    assert models == ["claude-opus-4-6", "claude-sonnet-4-5", "claude-haiku-4-5", "no-such-model"]
    days = [row.day for row in report(store, ("day",)).rows]
    assert days == ["2026-11-15", "2026-11-16"]
    both = [(row.day, row.model) for row in report(store, ("day", "model")).rows]
    assert both == [(day, model) for day in days for model in models]
    within = [(row.model, row.day) for row in report(store, ("model", "day")).rows]
    assert within == sorted(within)


def test_rows_are_sorted_by_any_key_or_figure(store: Store) -> None:
    assert [row.model for row in report(store, ("model",), sort="model").rows] == MODELS
    found = report(store, ("model",), sort="successes").rows
    assert [row.successes for row in found] == [1, 1, 1, 0]
    assert report(store, ("day",), sort="cost").rows[0].cost_usd is not None
    for sort in ("colour", "project"):
        with pytest.raises(RelightError, match="cannot sort by") as caught:
            report(store, ("model",), sort=sort)
        assert "sort by model, sess., turns, output" in (caught.value.hint or "")
    with pytest.raises(RelightError, match="top must be at least 1, got 0"):
        report(store, ("model",), top=0)


@pytest.mark.parametrize("by", ["model", "tool"])
def test_rows_are_sorted_by_every_heading_of_their_table(store: Store, by: str) -> None:
    for metric in list_metrics(is_of_calls=by == "tool"):
        values = [metric.read(row) for row in report(store, (by,), sort=metric.title).rows]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=True)
        assert values[len(known) :] == [None] * (len(values) - len(known)), "unknown comes last"


@pytest.mark.parametrize("by", [("model",), ("day", "model"), ("tool",), ("branch",), ("session",)])
def test_the_rest_is_one_row_and_the_total_stays_the_total(
    store: Store, by: tuple[str, ...]
) -> None:
    whole, cut = report(store, by), report(store, by, top=1)
    assert cut.total == whole.total
    assert len(cut.rows) == min(len(whole.rows), 1)
    if len(whole.rows) > 1:
        assert cut.other is not None
        for figure in ("turns", "output_tokens", "tool_calls", "unpriced_turns"):
            first, rest = (getattr(one, figure) or 0 for one in (cut.rows[0], cut.other))
            assert first + rest == (getattr(whole.total, figure) or 0)
    assert report(store, by, top=1000).other is None


def test_a_session_in_several_of_the_rest_s_rows_counts_once(tmp_path: Path, store: Store) -> None:
    lines = [build.claude_prompt("Go", at=9, sessionId="two")]
    lines += [
        build.claude_answer(f"t{one}", at=10 + one, sessionId="two", model=model)
        for one, model in enumerate(MODELS)
    ]
    build.write_claude(tmp_path, lines, name="two")
    build.import_home(store, tmp_path)
    found = report(store, ("model",), top=1)
    assert found.other is not None
    assert found.other.sessions == 7
    assert found.total.sessions == 9


def test_a_success_costs_what_sessions_with_an_outcome_cost(store: Store) -> None:
    rows = {row.model: row for row in report(store, ("model",)).rows}
    opus = rows["claude-opus-4-6"]
    assert (opus.sessions, opus.successes, opus.failures, opus.unknown) == (2, 1, 0, 1)
    assert opus.cost_usd is not None
    assert opus.cost_per_success_usd == pytest.approx(opus.cost_usd / 2)
    assert opus.mean_cost_usd == pytest.approx(opus.cost_usd / 2)
    buckets = (opus.input_tokens, opus.cache_read_tokens, opus.cache_write_tokens)
    assert opus.total_tokens == sum(one or 0 for one in (*buckets, opus.output_tokens))
    assert opus.mean_tokens == (opus.total_tokens or 0) / 2
    assert rows["claude-sonnet-4-5"].cost_per_success_usd is None, "none succeeded"
    unpriced = rows["no-such-model"]
    assert (unpriced.successes, unpriced.cost_per_success_usd, unpriced.mean_cost_usd) == (
        1, None, None,
    )  # fmt: skip
    total = report(store).total
    assert (total.successes, total.failures, total.unknown) == (3, 1, 4)
    known = sum((rows[model].cost_usd or 0) / 2 for model in MODELS)  # one of two sessions
    assert total.cost_per_success_usd == pytest.approx(known / 3)


@pytest.mark.parametrize("key", KEYS)
def test_every_grouping_counts_outcomes_and_each_session_once_in_the_total(
    store: Store, key: str
) -> None:
    found = report(store, (key,))
    for row in (*found.rows, found.total):
        assert row.sessions == row.successes + row.failures + row.unknown
    assert report(store, (key,), top=1).total == found.total


def test_branches_and_versions_are_keys(store: Store) -> None:
    assert {row.branch: row.sessions for row in report(store, ("branch",)).rows} == {
        "b0": 4,
        "b1": 4,
    }
    versions = {row.agent_version for row in report(store, ("agent_version", "model")).rows}
    assert versions == {"2.0", "2.1", "2.2", "2.3"}


def test_a_report_says_its_days(store: Store) -> None:
    found = report(store, ("day",), Filter(since="2026-11-15", until="2026-11-15"))
    assert (found.since, found.until, len(found.rows)) == ("2026-11-15", "2026-11-15", 1)
