"""What skills cost where a part of it is unknown."""

from pathlib import Path

import pytest

import build
import build_skills
from build_skills import check_report, read
from relight.reports.comparison.models import compare_models
from relight.reports.skills.averages import query_skill_ema
from relight.store import Store
from relight.store.queries.skills import read_daily


@pytest.fixture
def partly(tmp_path: Path, store: Store) -> Store:
    """Two skills, of which one ran on a model without a price, but for a priced turn before it."""
    build.write_claude(
        tmp_path,
        [
            build.claude_prompt("go"),
            *build_skills.claude_skill("toolu_1", "tidy", at=2),
            build.claude_answer("m1", at=3),
            *build_skills.claude_skill("toolu_2", "sweep", at=4, body="Sweep."),
            build.claude_answer("m2", at=5, model="at-home"),
            build.claude_answer("m3", at=6, model="at-home"),
        ],
    )
    build.import_home(store, tmp_path)
    return store


def test_a_partial_cost_is_in_sums_and_in_no_mean(partly: Store) -> None:
    columns = "skill_name, model, cost_status, cost_nanos > 0"
    assert read(partly, columns) == [
        ("sweep", "at-home", "partial", 1),
        ("tidy", "claude-opus-4-6", "estimated", 1),
    ]
    daily = {row.skill_name: row for row in read_daily(partly)}
    assert daily["sweep"].total_cost_usd
    assert (daily["sweep"].avg_cost_usd, daily["sweep"].unpriced_count) == (None, 1)
    averages = {row.skill_name: row for row in query_skill_ema(partly, now=build.START / 1000)}
    assert (averages["sweep"].ema_cost_per_call, averages["sweep"].unpriced_count) == (None, 1)
    assert averages["tidy"].ema_cost_per_call is not None
    (arm,) = compare_models(partly, "sweep").models
    assert (arm.cost_per_call_usd, arm.unpriced_runs) == (None, 1)
    check_report(partly)


def test_shares_add_up_to_one_also_where_a_cost_is_unknown(partly: Store) -> None:
    assert partly.query("select sum(share) from skill_invocations") == [(pytest.approx(1),)]
    # by calls: of tidy its answer and the look-up of sweep, of sweep its two
    assert read(partly, "share") == [(0.5,), (0.5,)]


def test_shares_add_up_to_one_where_one_skill_has_no_price_at_all(
    tmp_path: Path, store: Store
) -> None:
    build.write_claude(
        tmp_path,
        [
            *build_skills.claude_command("tidy", at=1, body="Tidy."),
            build.claude_answer("m1", at=3),
            *build_skills.claude_skill("toolu_2", "sweep", at=4, body="Sweep."),
            build.claude_answer("m2", at=5, model="at-home"),
        ],
    )
    build.import_home(store, tmp_path)
    assert read(store, "skill_name, cost_status, cost_nanos is null, share") == [
        ("sweep", "unknown", 1, pytest.approx(1 / 3)),
        ("tidy", "estimated", 0, pytest.approx(2 / 3)),
    ]
    check_report(store)


def test_a_part_of_an_unpriced_turn_makes_a_cost_partial(tmp_path: Path, store: Store) -> None:
    build.write_claude(
        tmp_path,
        [
            build.claude_answer("m0", at=1, model="at-home"),
            *build_skills.claude_skill("toolu_1", "tidy", at=2),
            build.claude_answer("m1", at=3),
            *build_skills.claude_skill("toolu_2", "sweep", at=4, body="Sweep."),
            build.claude_answer("m2", at=5),
        ],
    )
    build.import_home(store, tmp_path)
    assert read(store, "skill_name, cost_status") == [("sweep", "partial"), ("tidy", "partial")]
    assert store.query("select sum(share) from skill_invocations") == [(pytest.approx(1),)]
