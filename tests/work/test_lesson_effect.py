"""The effect of lessons: three figures in their order, each with a verdict that holds always."""

from pathlib import Path
from typing import Any

import build_warm
import relight
from build_lessons import (
    HIT,
    PROJECT,
    SPARED,
    name_session,
    open_taught,
    take_sessions,
    write_early,
)
from relight.warm.plans import WarmPlan
from relight.work.experiments.holdout import read_holdout
from relight.work.experiments.lesson_effect import NOT_ENOUGH, LessonEffect, compare_lessons
from relight.work.experiments.metrics import ArmSession, read_arm_sessions
from terminal import Cli

TASK = "Fix the rounding in the invoices module"


def session(arm: str, *, is_hit: bool | None, failed: int = 1, outcome: bool = True) -> ArmSession:
    return ArmSession(
        arm=arm,
        outcome=outcome,
        calls=30,
        judged_first=30,
        failed_first=failed,
        failures=failed,
        tools=1,
        seconds=None,
        has_success=True,
        cost_usd=None,
        output_tokens=None,
        hold_out=0.5,
        is_hit=is_hit,
    )


def arms(hits: tuple[int, int], sessions: int = 20, **facts: Any) -> list[ArmSession]:
    """Sessions with lessons and held out; so many of each fail by the cause."""
    return [
        session(arm, is_hit=number < some, **facts)
        for arm, some in zip(("warm", "cold"), hits, strict=True)
        for number in range(sessions)
    ]


def compare(sessions: list[ArmSession]) -> LessonEffect:
    return compare_lessons(sessions, WarmPlan(), hold_out=0.5)


def test_failures_by_the_very_cause_show_first_and_the_others_say_not_enough_data() -> None:
    found = compare(arms((4, 17)))
    assert [one.verdict for one in found.measures.values()] == ["less", NOT_ENOUGH, NOT_ENOUGH]
    first, early, success, needed = found.sentences
    assert first.startswith(
        "Sessions that failed by a cause of their lessons: 4 of 20 with lessons"
        " against 17 of 20 without (between "
    )
    assert first.endswith("points fewer): shown.")
    assert early.endswith(f"against 3.3% in 20 without: {NOT_ENOUGH}.")
    assert "Sessions that succeeded: 20 of 20 with lessons" in success
    assert needed == "How many more sessions it takes is not known yet."  # all sessions are alike


def test_a_later_figure_counts_only_if_those_before_it_are_shown() -> None:
    apart = [
        session(arm, is_hit=number < 5, failed=failed + number % 2)
        for arm, failed in (("warm", 0), ("cold", 8))
        for number in range(40)
    ]
    found = compare(apart)
    assert (found.measures["first_30_failure_rate"].e_value or 0) > 20
    assert {one.verdict for one in found.measures.values()} == {NOT_ENOUGH}
    shown = [
        session(arm, is_hit=number < hits, failed=failed + number % 2)
        for arm, hits, failed in (("warm", 2, 0), ("cold", 34, 8))
        for number in range(40)
    ]
    verdicts = [one.verdict for one in compare(shown).measures.values()]
    assert verdicts == ["less", "less", NOT_ENOUGH]


def test_a_comparison_begins_with_five_sessions_in_each_arm_and_of_other_figures_with_ten() -> None:
    few = compare(arms((0, 4), 4)).sentences
    assert "a comparison begins with 5 sessions in each arm" in few[0]
    assert "a comparison begins with 10 sessions in each arm" in few[1]
    found = compare(arms((1, 7), 8))
    first = found.measures["cause_failure_rate"]
    assert (first.verdict, first.difference) == ("less", None)
    assert found.sentences[0].endswith("1 of 8 with lessons against 7 of 8 without: shown.")


def test_a_shown_fall_has_an_interval_without_a_rise() -> None:
    found = compare(arms((2, 9), 11)).measures["cause_failure_rate"]
    assert found.verdict == "less"
    assert found.difference is not None
    assert found.difference.high == 0.0


def test_sessions_whose_failures_are_not_read_are_counted_and_in_no_figure() -> None:
    found = compare([*arms((4, 17)), session("warm", is_hit=None)])
    assert found.unread == 1
    assert found.sessions == {"given": 21, "held_out": 20}
    assert found.measures["cause_failure_rate"].given_sessions == 20


def test_recorded_sessions_are_compared_by_the_coin_of_lessons_whatever_that_of_templates_was(
    tmp_path: Path,
) -> None:
    with open_taught(tmp_path, hold_out=0.5) as store:
        build_warm.capture(store, TASK, name="rounding")
        given = {}
        for number in range(4, 44):
            found = relight.provision_session(
                store,
                TASK if number % 2 else "Nothing like it: zebra",
                session_id=name_session(number),
                project=PROJECT,
                source="claude-code",
            )
            given[number] = found.lessons
            write_early(tmp_path, number, SPARED if found.lessons else HIT)
        take_sessions(store, tmp_path)
        report = read_holdout(store)
        dealt = list(read_arm_sessions(store))
    effect = report.lessons
    assert effect is not None
    many = sum(given.values())
    assert effect.sessions == {"given": many, "held_out": 40 - many}
    assert effect.measures["cause_failure_rate"].verdict == "less"
    (one,) = effect.lessons
    assert (one.given_failed, one.given_sessions) == (0, many)
    assert (one.held_out_failed, one.held_out_sessions) == (40 - many, 40 - many)
    # templates are compared among the sessions that had one, with or without lessons
    assert len(dealt) == 20


def test_the_report_shows_lessons_also_where_no_template_was_dealt(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    folder = tmp_path / "shop"
    folder.mkdir()
    open_taught(tmp_path, project=str(folder)).close()
    key = name_session(9)
    cli.json("warm", TASK, "--project", str(folder), "--session", f"claude-code:{key}")
    write_early(tmp_path, 9, HIT, cwd=str(folder))
    found = cli.json("experiment", "report")["lessons"]
    assert found["sessions"] == {"given": 1, "held_out": 0}
    assert [one["given_failed"] for one in found["lessons"]] == [1]
    shown = cli.run("experiment", "report", "--no-import").stdout
    assert "lessons: 1 sessions given, 0 held out" in shown
    assert "1 of 1" in shown
    assert cli.json("experiment", "plan")["plans"][0]["cause_effect"] == 0.3
    cli.run("experiment", "plan", "--cause-effect", "0.2", "--yes")
    assert cli.json("experiment", "plan")["plans"][0]["cause_effect"] == 0.2
