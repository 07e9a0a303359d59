"""Did it help? Sessions are compared, and too few of them are no answer."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import build
import build_forks
import build_warm
from relight.errors import RelightError
from relight.reports.listing import list_sessions
from relight.stats.rates import Estimate
from relight.store import Store
from relight.store.queries.listing import Listing
from relight.warm.plans import WarmPlan, change_plan, find_plan, read_warm_plans
from relight.warm.provision import provision_session
from relight.warm.results import read_stats
from relight.work.experiments.holdout import compare_arms, read_holdout
from relight.work.experiments.metrics import METRICS, ArmSession, read_arm_sessions
from relight.work.experiments.warm_verdict import EARLY, SUCCESS


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


@pytest.mark.parametrize("arm", ["warm", "cold"])
def test_forks_count_for_their_parents_arm_and_are_no_sessions_of_their_own(
    tmp_path: Path, arm: str
) -> None:
    """One fork was dealt an arm by itself: what it did still counts for its parent's."""
    for path, lines in build_forks.family().items():
        build_forks.append(tmp_path, path, lines)
    with build_warm.open_warm(tmp_path) as store:
        build.import_home(store, tmp_path, sources=["claude-code"])
        made = build_warm.capture(store, "Build the shop", name="build")
        build_warm.add_provision(store, build_forks.PARENT, arm, made)
        build_warm.add_provision(
            store, build_forks.FORK, {"warm": "cold", "cold": "warm"}[arm], made
        )
        (unit,) = read_arm_sessions(store)
        report = read_holdout(store)
        stats = read_stats(store)
        listed = list_sessions(store, listing=Listing(arm=arm)).sessions
        family = store.query("select output_tokens from session_day")
        ((calls,),) = store.query(
            "select count(*) from tool_call join session on session.id = session_id"
            " where session.id = root_id"
        )
    assert unit.arm == arm
    assert unit.calls == calls == 5
    assert unit.output_tokens == sum(tokens for (tokens,) in family)
    assert report.sessions == {"warm": 0, "cold": 0} | {arm: 1}
    assert report.provisions == {"warm": 0, "cold": 0, "abstained": 0} | {arm: 1}
    assert [(one.warm + one.cold, one.unfollowed) for one in stats] == [(1, 0)]
    # as many as the figures count
    assert [one.session_id for one in listed] == [f"claude-code:{build_forks.PARENT}"]


def test_a_difference_of_costs_has_as_many_digits_as_its_interval() -> None:
    cost = METRICS["cost_usd_per_run"]
    shown = cost.format_difference(Estimate(-0.0005, -0.001, 0.0))
    assert shown == "−$0.0005 (−$0.0010 to +$0.0000)"
    assert cost.format_difference(Estimate(1.5, None, None)) == "+$1.50"


def test_a_difference_of_shares_is_at_most_a_hundred_points() -> None:
    success = METRICS["success_rate"]
    shown = success.format_difference(Estimate(-0.155, -1.404, 1.095))
    assert shown == "−15.5 points (−100.0 to +100.0)"


def test_few_sessions_are_not_enough_and_their_counts_are_said() -> None:
    for sessions in ([make("cold", False), make("warm", True)], [], [make("warm", None)]):
        assert compare_arms(sessions, WarmPlan()).verdict == "cannot tell yet"
    found = compare_arms([make("cold", False), make("warm", True)], WarmPlan())
    assert found.sentences == [
        "Cannot tell yet: 1 of 1 warm session succeeded against 0 of 1 cold session;"
        " a comparison begins with 10 sessions in each arm.",
        "0% of the first 30 calls failed in 1 warm session against 0% in 1 cold session;"
        " a comparison begins with 10 sessions in each arm.",
    ]
    assert compare_arms([], WarmPlan()).sentences == [
        "Cannot tell yet: no outcome is known.",
        "No call of a session is judged.",
    ]


def test_counts_come_first_and_the_interval_is_in_points() -> None:
    sessions = [make("cold", n < 31) for n in range(40)]
    sessions += [make("warm", n < 36) for n in range(40)]
    found = compare_arms(sessions, WarmPlan(measure="success"))
    assert found.sentences == [
        "Cannot tell yet: 36 of 40 warm sessions succeeded against 31 of 40 cold sessions"
        " (between 16 points fewer and 41 more)."
    ]


def test_a_large_difference_in_success_is_seen() -> None:
    sessions = [make("cold", n % 2 == 0) for n in range(500)]
    sessions += [make("warm", n % 10 < 8) for n in range(500)]
    report = compare_arms(sessions, WarmPlan(), samples=500)
    assert report.verdict == "warm is better"
    assert report.sentences[0] == (
        "Warm is better: 400 of 500 warm sessions succeeded against 250 of 500 cold sessions"
        " (between 21 and 39 points more)."
    )
    difference = report.measures["success_rate"].difference
    assert difference is not None
    assert difference.value == pytest.approx(0.3)
    assert report.e_value > 1000
    worse = [replace(one, outcome=not one.outcome) for one in sessions]
    assert compare_arms(worse, WarmPlan(), samples=500).verdict == "warm is worse"


def stumble(outcome: bool | None = None) -> list[ArmSession]:
    dice = Random(1)
    sessions = [make("cold", outcome, dice.choice((3, 5, 7))) for _ in range(100)]
    return [*sessions, *(make("warm", outcome, dice.choice((2, 3, 4))) for _ in range(100))]


def test_a_verdict_by_early_failures_alone_says_that_success_is_not_known() -> None:
    report = compare_arms(stumble(), WarmPlan(), samples=500)
    assert report.verdict == "warm stumbles less"
    assert report.sentences[0].startswith(
        "Warm sessions stumble less: 30.7% of the first 30 calls failed in 100 warm sessions"
        " against 51.0% in 100 cold sessions (between "
    )
    assert report.sentences[0].endswith(" points less).")
    assert report.sentences[1] == "Whether more of them succeed is not known: no outcome is known."
    alone = compare_arms(stumble(), WarmPlan(measure="early_failures"), samples=500)
    assert alone.sentences[1] == "Whether more of them succeed is not part of this plan."
    only = compare_arms(stumble(outcome=True), WarmPlan(measure="success"), samples=500)
    assert only.verdict == "cannot tell yet"


def test_two_figures_need_twice_the_evidence_in_one_of_them() -> None:
    """The mean of both e-values decides: the one without an effect counts about as nothing."""
    known = [make("cold", n < 52, n % 3) for n in range(100)]
    known += [make("warm", n < 75, n % 3) for n in range(100)]
    alone = compare_arms(known, WarmPlan(measure="success"), samples=100)
    both = compare_arms(known, WarmPlan(), samples=100)
    success, early = (both.measures[name].e_value for name in (SUCCESS, EARLY))
    assert success is not None
    assert early is not None
    assert alone.e_value == success
    assert both.e_value == pytest.approx((success + early) / 2)
    assert (alone.verdict, both.verdict) == ("warm is better", "cannot tell yet")


def test_early_failures_are_the_mean_over_sessions_and_agree_with_the_sentence() -> None:
    sessions = [make("cold", None, 1, 1), make("cold", None, 0, 30), make("warm", None, 0, 30)]
    found = compare_arms(sessions, WarmPlan())
    cold = found.measures[EARLY].cold
    assert cold is not None
    assert cold.value == 0.5  # not 1 of 31
    assert "50% in 2 cold sessions" in found.sentences[1]


def test_arms_dealt_at_random_hardly_ever_differ() -> None:
    """Sessions that fail as a whole and arms of 4 to 1."""
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
        alarms += compare_arms(dealt, WarmPlan(), samples=20).verdict != "cannot tell yet"
    assert alarms <= 5


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
        report = compare_arms(deal_alike(dice, cold, warm), WarmPlan(), samples=199)
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
        report = compare_arms(
            deal_alike(dice, cold, warm), WarmPlan(), samples=99 if number % 2 else 400
        )
        for one in (*report.guards.values(), report.measures["failures_per_session"]):
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
    report = compare_arms(sessions, WarmPlan(), samples=300)
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
    assert report.verdict == "cannot tell yet"


DAY = 86_400_000


def add_dealt(store: Store, made: Any, arm: str, outcomes: str, *, at: int) -> None:
    """One recorded session for each letter: s for success, f for failure."""
    for number, letter in enumerate(outcomes):
        key = f"{arm}-{at}-{number}"
        build_warm.add_session(store, key, {"s": "success", "f": "failure"}[letter])
        build_warm.add_provision(store, key, arm, made, at=at)


def test_a_changed_plan_counts_only_later_sessions_and_the_earlier_stays_readable(
    tmp_path: Path,
) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, "Fix the rounding in invoices")
        assert find_plan(store).number is None
        add_dealt(store, made, "warm", "s" * 90, at=1000)
        add_dealt(store, made, "cold", "f" * 40 + "s" * 40, at=1000)
        before = read_holdout(store, may_retire=False, now=DAY)
        assert (before.plan.number, before.verdict) == (1, "warm is better")
        changed = change_plan(store, effect=0.15, now=2000)
        assert (changed.number, changed.effect, changed.measure) == (2, 0.15, "both")
        after = read_holdout(store, may_retire=False, now=DAY)
        assert (after.sessions, after.verdict) == ({"cold": 0, "warm": 0}, "cannot tell yet")
        add_dealt(store, made, "warm", "sf", at=2000)
        later = read_holdout(store, may_retire=False, now=DAY)
        assert later.sessions == {"cold": 0, "warm": 2}
        earlier = read_holdout(store, plan=1, may_retire=False, now=DAY)
        assert (earlier.verdict, earlier.measures) == (before.verdict, before.measures)
        assert earlier.sentences[-1].startswith("This comparison ended on 1970-01-01")
        assert change_plan(store, effect=0.15, now=3000).number == 2  # nothing changed
        assert [one.number for one in read_warm_plans(store)] == [2, 1]
        with pytest.raises(RelightError, match="there is no plan 3"):
            read_holdout(store, plan=3)
        with pytest.raises(RelightError, match="effect must be above 0 and below 1"):
            change_plan(store, effect=1.5)
        with pytest.raises(RelightError, match="early_effect must be above 0"):
            change_plan(store, early_effect=0.0)
        with pytest.raises(RelightError, match="error must be above 0 and at most"):
            change_plan(store, error=0.3)


def test_the_first_session_that_is_dealt_begins_the_plan(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path) as store:
        provision_session(store, "Fix the rounding in invoices", session_id="none", now=4000)
        assert find_plan(store).number is None  # nothing is like the task: no arm begins
        build_warm.capture(store, "Fix the rounding in invoices")
        provision_session(store, "Fix the rounding in invoices", session_id="a", now=5000)
        provision_session(store, "Fix the rounding in invoices", session_id="b", now=6000)
        assert (find_plan(store).number, find_plan(store).begun_at) == (
            1,
            "1970-01-01T00:00:05.000Z",
        )
        ((share,),) = store.query(
            "select distinct hold_out from provision where arm is not null"
            " and template_id is not null"
        )
        assert share == 0.2


def test_what_is_still_needed_has_two_dates_at_the_recent_rate(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path) as store:
        made = build_warm.capture(store, "Fix the rounding in invoices")
        change_plan(store, measure="success", now=0)
        for day in range(10):
            add_dealt(store, made, "warm", "ssfs", at=day * DAY + 1)
            add_dealt(store, made, "cold", "s" if day % 2 else "f", at=day * DAY + 1)
        found = read_holdout(store, may_retire=False, now=10 * DAY)
    needed = found.needed
    assert needed is not None
    assert needed.sessions_per_day == pytest.approx(5.0, rel=0.01)
    assert needed.sessions is not None
    assert needed.half_sessions is not None
    assert 1.4 < needed.sessions / needed.half_sessions < 1.7
    assert found.sentences[1].startswith(
        f"If warm gains the planned 10 points, about {needed.sessions:,} more sessions show it,"
        f" until {needed.until} at 5 a day"
    )
    assert found.sentences[2].startswith(
        f"With one half held out (`hold_out = 0.5`): about {needed.half_sessions}, until 1970-"
    )


def test_without_a_hold_out_the_report_says_that_nothing_can_be_compared(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        made = build_warm.capture(store, "Fix the rounding in invoices")
        add_dealt(store, made, "warm", "ssss", at=1)
        assert "Nothing is held out" in read_holdout(store, now=DAY).sentences[-1]
