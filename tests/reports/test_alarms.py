"""Alarms on jobs and models: found once, explained, over or acknowledged."""

import random
from pathlib import Path

import pytest

from build_runs import write_runs
from relight.errors import MissingError
from relight.intake.recorder import record
from relight.model import row_id
from relight.reports.alarm_watch import refresh_alarms
from relight.reports.alarms import acknowledge_alarm, find_switch, read_alarms
from relight.reports.brief import read_brief
from relight.reports.needs import describe_needs, find_needs
from relight.reports.skills.uses import record_skill_invocation
from relight.store import Store, open_store
from relight.store.queries.filters import Filter
from terminal import Cli

DAY = 86_400_000
FIRST = 1_788_220_800_000  # 1 Sep 2026


def write_fall(store: Store, job: str = "triage", *, model: str = "big") -> None:
    """Forty good days, and then most runs fail."""
    good = [number % 40 != 13 for number in range(40)]
    bad = [number % 3 == 0 for number in range(12)]
    write_runs(store, job, good + bad, first_at=FIRST, every_ms=DAY, model=model)


def test_a_job_that_fails_more_raises_one_alarm_with_counts_and_a_day(store: Store) -> None:
    write_fall(store)
    assert refresh_alarms(store) == [1]
    assert refresh_alarms(store) == []
    found = read_alarms(store)
    (one,) = found.alarms
    assert (one.id, one.scope, one.metric) == (1, "job:triage", "success")
    assert one.since.startswith("2026-10-1")
    assert (one.failures_before, one.failures_after) == (1, 8)
    assert one.before > 0.95 > 0.4 > one.after
    assert one.sentence.startswith(
        f"Since about {one.since[8:10]} Oct 2026 triage fails more: 8 of {one.runs_after} runs,"
        f" 1 of {one.runs_before} before. Chance makes"
    )
    assert found.series == 2


def test_jobs_that_go_on_as_before_raise_hardly_any(store: Store) -> None:
    dice = random.Random(6)
    for number in range(10):
        outcomes = [dice.random() < 0.9 for _ in range(120)]
        write_runs(
            store, f"job-{number}", outcomes, first_at=FIRST, every_ms=DAY, model=f"m{number}"
        )
    assert len(refresh_alarms(store)) <= 2
    assert read_alarms(store).series == 20


def test_nothing_is_watched_before_thirty_runs(store: Store) -> None:
    write_runs(store, "new", [True] * 15 + [False] * 14, first_at=FIRST, every_ms=DAY)
    assert refresh_alarms(store) == []
    assert read_alarms(store) == read_alarms(store, is_open=True)
    assert read_alarms(store).series == 0


def test_an_acknowledged_state_is_the_usual_one_from_then_on(store: Store) -> None:
    write_fall(store)
    refresh_alarms(store)
    assert acknowledge_alarm(store, 1).acknowledged_at
    first = acknowledge_alarm(store, 1).acknowledged_at
    assert acknowledge_alarm(store, 1).acknowledged_at == first  # the first time counts
    assert read_alarms(store, is_open=True).alarms == []
    later = FIRST + 52 * DAY
    dice = random.Random(5)
    write_runs(
        store, "triage", [dice.random() < 0.33 for _ in range(60)], first_at=later, every_ms=DAY
    )
    assert refresh_alarms(store) == []
    with pytest.raises(MissingError, match="there is no alarm 9"):
        acknowledge_alarm(store, 9)


def test_an_alarm_is_over_when_all_is_as_before_and_the_next_fall_is_another(store: Store) -> None:
    write_fall(store)
    refresh_alarms(store)
    write_runs(store, "triage", [True] * 30, first_at=FIRST + 52 * DAY, every_ms=DAY)
    assert refresh_alarms(store) == []
    (one,) = read_alarms(store).alarms
    assert one.ended_at
    assert "It was as before again on" in one.sentence
    assert read_alarms(store, is_open=True).alarms == []
    write_runs(store, "triage", [False] * 8, first_at=FIRST + 82 * DAY, every_ms=DAY)
    assert refresh_alarms(store) == [2]
    assert read_alarms(store, is_open=True).alarms[0].since > one.ended_at


def test_a_fall_and_its_recovery_in_old_history_leave_no_open_alarm(store: Store) -> None:
    write_runs(store, "old", [True] * 60 + [False] * 10 + [True] * 60, first_at=FIRST, every_ms=DAY)
    refresh_alarms(store)
    (one,) = read_alarms(store).alarms
    assert one.ended_at
    assert find_needs(store, Filter(), (), spirals=()) == []


def test_a_job_that_costs_twice_as_much_raises_an_alarm_on_its_cost(store: Store) -> None:
    dice = random.Random(2)
    costs = [0.1 * dice.lognormvariate(0, 0.3) * (2.5 if n >= 90 else 1) for n in range(105)]
    write_runs(store, "triage", [True] * 105, first_at=FIRST, every_ms=DAY, costs_usd=costs)
    assert refresh_alarms(store) == [1]
    (one,) = read_alarms(store).alarms
    assert one.metric == "cost"
    assert one.after / one.before == pytest.approx(2.5, rel=0.25)
    assert "a run of triage costs 2." in one.sentence


def test_a_model_that_fails_more_in_several_jobs_raises_an_alarm(store: Store) -> None:
    dice = random.Random(4)
    for number in range(4):
        outcomes = [dice.random() < (0.97 if n < 30 else 0.72) for n in range(50)]
        at = FIRST + number * DAY // 5
        write_runs(store, f"job-{number}", outcomes, first_at=at, every_ms=DAY, model="small")
    refresh_alarms(store)
    found = read_alarms(store)
    assert "model:small" in [one.scope for one in found.alarms]
    assert found.series == 10


def test_alarms_of_one_change_are_one_row_and_acknowledged_together(store: Store) -> None:
    for job in ("a", "b", "c"):
        write_fall(store, job, model="small")
    write_fall(store, "other", model="big")
    refresh_alarms(store)
    one, two = read_alarms(store, is_open=True).alarms
    assert {one.scope, two.scope} == {"model:small", "job:other"}
    head = one if one.also else two
    assert sorted(head.also) == ["job:a", "job:b", "job:c"]
    assert "The same day: job " in head.sentence
    assert {alarm.id for alarm in read_brief(store, since=0).alarms} == {one.id, two.id}
    lines = describe_needs(find_needs(store, Filter(), [], spirals=[]))
    assert any(line.endswith(": relight alarms") for line in lines)
    assert not any(".:" in line for line in lines)
    acknowledge_alarm(store, head.id)
    assert [one.scope for one in read_alarms(store, is_open=True).alarms] == ["job:other"]
    assert len(read_alarms(store).alarms) == 5


def test_what_changed_at_the_same_time_is_named(store: Store) -> None:
    """The skill's version and the model: forty runs before the change, ten with it."""
    for number in range(52):
        key, is_old = f"run-{number}", number < 40
        at = FIRST + number * DAY
        with record(store, key, model="big" if is_old else "small", title="Sort it") as rec:
            rec.turn(input_tokens=10, output_tokens=1, at=at / 1000)
            if not is_old:
                rec.tool_call(
                    "Bash", {"command": "make"}, "exit 127: no such command", exit_code=127
                )
            rec.finish("success")
        version = "2.1" if is_old else "2.2"
        record_skill_invocation(
            store, skill_name="sorting", invoked_at=at / 1000, session_id=f"relight:{key}",
            skill_version=version,
        )  # fmt: skip
        write_runs(
            store, "triage", [is_old or number % 3 == 0], first_at=at, every_ms=DAY,
            session_id=row_id("session", "relight", key), model="big" if is_old else "small",
        )  # fmt: skip
    refresh_alarms(store)
    (one,) = [one for one in read_alarms(store).alarms if one.scope == "job:triage"]
    texts = [change.text for change in one.changed]
    assert "On 11 Oct 2026 its skill sorting went from 2.1 to 2.2" in texts
    assert "On 11 Oct 2026 its model went from big to small" in texts
    assert any(text.startswith("Bash fails") for text in texts)
    assert not any("prompt" in text for text in texts)
    assert all(text in one.sentence for text in texts)


def test_a_value_that_goes_to_and_fro_is_no_switch() -> None:
    assert find_switch(["a"] * 30, 15) is None
    assert find_switch(["a", "a", "b"] * 10, 15) is None
    assert find_switch([None] * 30, 15) is None
    assert find_switch(["a"] * 15 + [None] * 3 + ["b"] * 12, 17) == (18, "a", "b")


def test_the_command_lists_and_acknowledges_alarms(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    with open_store(tmp_path / "relight") as store:
        write_fall(store)
    (one,) = cli.json("alarms")["alarms"]
    assert set(one) >= {
        "id", "scope", "metric", "since", "before", "after", "changed", "acknowledged_at",
    }  # fmt: skip
    assert cli.run("alarms", "ack", "one").returncode == 1
    assert cli.run("alarms", "ack", "1").stdout == "acknowledged 1: job:triage\n"
    assert "no alarm; 2 series are watched" in cli.run("alarms").stdout
    assert cli.json("alarms", "--all")["alarms"][0]["acknowledged_at"]
