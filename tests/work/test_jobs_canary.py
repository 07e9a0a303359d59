"""Models on trial: dealt at random, stopped for harm, promoted if good, rolled back if worse."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import build_jobs as jobs
from build import wait_for
from relight.errors import MissingError, RelightError
from relight.reports.alarm_watch import refresh_alarms
from relight.reports.alarms import read_alarms
from relight.reports.canaries import (
    CanaryReport,
    describe_switch,
    read_canary_evidence,
    read_canary_list,
)
from relight.reports.comparison.models import compare_job
from relight.reports.needs import find_needs
from relight.reports.savings import read_savings
from relight.reports.skill_canaries import read_skill_canaries
from relight.reports.skills.uses import record_skill_invocation
from relight.store import Store, open_store
from relight.store.alarms import read_alarm_rows
from relight.store.canaries import CanaryRow, read_canaries
from relight.store.queries.filters import Filter
from relight.store.queries.runs import read_runs
from relight.work.jobs.canaries import do_as_asked, find_canary, review_canaries
from relight.work.jobs.canary_plan import CanaryOrder, plan_canary, start_canary
from relight.work.jobs.claimed_run import run_now
from relight.work.jobs.job import JobResult
from relight.work.jobs.leases import Holder
from relight.work.jobs.registry import add_job, add_jobs, find_job, remove_job
from relight.work.jobs.replays import find_repeatable_tasks, replay_tasks
from relight.work.jobs.run import execute_run
from relight.work.jobs.slots import begin, claim_due, finish, start_now
from relight.work.notices import notify_news
from scripted import Reply, Server, call, has_results

HOUR, DAY = 3_600_000, 86_400_000
NOON = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()) * 1000
HOLDER = "host/1"
ENDPOINT = {"base_url": "http://127.0.0.1:9/v1"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "config.toml").write_text('timezone = "UTC"\n[notify]\nfile = "news.jsonl"\n')
    with open_store(tmp_path) as opened:
        yield opened


class Days:
    """A job once an hour whose models fail at known rates; the dice are fixed."""

    def __init__(self, store: Store, rates: dict[str, float], *, name: str = "triage") -> None:
        self.store, self.rates, self.name = store, rates, name
        self.costs = {"big": 100_000_000, "small": 10_000_000}
        self.now = NOON
        self.dice = random.Random(7)
        self.ran: list[tuple[str, str]] = []
        add_job(
            store,
            jobs.make_job(
                name, schedule="every 1h", model="big", context_tokens=99_999, **ENDPOINT
            ),
            now=self.now,
        )

    def run(self, slots: int, *, reviews: bool = True) -> None:
        """Let slots come and go: each is claimed, begun and ended as its model fares."""
        for _ in range(slots):
            self.now += HOUR
            (run_id,) = claim_due(self.store, HOLDER, now=self.now, limit=4)
            begun = begin(self.store, run_id, HOLDER, now=self.now)
            assert begun is not None
            self.end(run_id, begun[0].model or "", begun[1].key)
            if reviews:
                review_canaries(self.store, now=self.now + 2000)

    def end(self, run_id: int, model: str, key: str) -> None:
        is_good = self.dice.random() < self.rates[model]
        self.ran.append((key, model))
        result = JobResult(
            status="completed" if is_good else "failed",
            outcome="success" if is_good else "failure",
            evidence=["it was done" if is_good else "it failed"],
            finished_at=self.now + 1000,
            model=model,
            cost_nanos=self.costs[model],
        )
        finish(self.store, run_id, result, holder=HOLDER)

    def start(self, **terms: object) -> CanaryRow:
        order = CanaryOrder(model="small", **terms)  # type: ignore[arg-type]
        plan = plan_canary(self.store, self.name, order, now=self.now + 5000)
        row = msgspec.structs.replace(plan.row, seed="fixed")
        return start_canary(self.store, msgspec.structs.replace(plan, row=row))

    def show(self) -> CanaryReport:
        return read_canary_list(self.store, self.name, now=self.now).canaries[0]

    def count(self, model: str, since: int = 0) -> int:
        return sum(one == model for _, one in self.ran[since:])


def test_a_fifth_of_the_slots_is_dealt_before_each_run_and_half_after_20_clean_ones(
    store: Store,
) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(60)
    days.start()
    days.run(50)
    assert 4 <= days.count("small") <= 18
    assert days.show().share == 0.2
    assert f"about {days.show().runs_needed} more runs of it show that" in days.show().sentence
    while days.count("small") < 20:
        days.run(1)
    assert days.show().share == 0.5
    done = len(days.ran)
    days.run(40, reviews=False)
    assert 12 <= days.count("small", done) <= 28
    # the deal of a slot is written with its claim
    days.now += HOUR
    (run_id,) = claim_due(store, HOLDER, now=days.now, limit=4)
    dealt = store.query("select is_candidate from canary_deal where run_id = ?", (run_id,))
    begun = begin(store, run_id, HOLDER, now=days.now)
    assert begun is not None
    assert dealt
    assert begun[0].model == ("small" if dealt[0][0] else "big")


def test_a_model_that_fails_is_stopped_and_the_job_keeps_its_own(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 0.5})
    days.run(60)
    days.start(is_auto=True)
    days.run(100)
    one = days.show()
    assert one.state == "stopped"
    assert "it does worse" in (one.reason or "")
    assert one.failures <= 8
    assert days.count("small", 160) == 0
    assert find_job(store, "triage").model == "big"
    stopped_at = len([key for key, model in days.ran if model == "small"])
    days.run(20)
    assert days.count("small") == stopped_at


def test_an_equal_model_is_promoted_by_itself_and_its_history_says_what_it_saved(
    store: Store,
) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(100)
    days.start(is_auto=True)
    days.run(250)
    one = days.show()
    assert one.state == "promoted"
    assert find_job(store, "triage").model == "small"
    found = read_canary_list(store, "triage").switches
    assert [(one.from_model, one.to_model, one.made_by) for one in found] == [
        ("big", "small", "auto")
    ]
    assert "good enough, within 5 points" in found[0].reason
    assert found[0].runs > 0
    assert found[0].failures == 0
    assert found[0].saved_usd == pytest.approx(found[0].runs * 0.09)
    assert "saved $" in describe_switch(found[0])
    # what was switched is not proposed again, though the model before cost more lately
    (item,) = read_savings(store, now=days.now).items
    assert (item.model, item.candidates) == ("small", [])
    # the trial dealt its runs, so that the difference is the model's
    (pair,) = compare_job(store, "triage", now=days.now / 1000).pairs
    assert (pair.verdict, pair.evidence) == ("good enough", "dealt")
    assert "Its runs were dealt at random." in pair.sentence
    # no slot was skipped or run twice by the switch
    assert len({key for key, _ in days.ran}) == len(days.ran) == 350


def test_without_auto_it_asks_and_a_person_promotes(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(100)
    days.start()
    days.run(250)
    one = days.show()
    assert (one.state, one.verdict, one.asks) == ("running", "good enough", "promote")
    assert find_job(store, "triage").model == "big"
    assert one.saving_month_usd is not None
    assert one.saving_month_usd > 0
    needs = find_needs(store, Filter(), [], spirals=[])
    assert [(need.kind, need.command) for need in needs if need.kind == "canary"] == [
        ("canary", "relight job canary triage --promote")
    ]
    do_as_asked(store, "triage", "promote", made_by="ada", now=days.now)
    assert find_job(store, "triage").model == "small"
    assert read_canary_list(store, "triage").switches[0].made_by == "ada"
    with pytest.raises(RelightError, match="promoted already"):
        do_as_asked(store, "triage", "stop", made_by="ada", now=days.now)


def test_a_promoted_model_that_gets_worse_goes_back_by_itself(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(100)
    days.start(is_auto=True)
    days.run(250)
    assert days.show().state == "promoted"
    days.rates["small"] = 0.4
    for _ in range(80):
        days.run(1, reviews=False)
        refresh_alarms(store)
        review_canaries(store, now=days.now + 2000)
    one = days.show()
    assert one.state == "rolled_back", one.sentence
    assert find_job(store, "triage").model == "big"
    promoted, back = read_canary_list(store, "triage").switches
    assert (back.from_model, back.to_model, back.made_by) == ("small", "big", "auto")
    assert promoted.more_failures is not None
    assert promoted.more_failures > 3
    assert days.ran[-1][1] == "big"
    assert len({key for key, _ in days.ran}) == len(days.ran)


def test_without_auto_a_promoted_model_that_gets_worse_asks(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(100)
    days.start()
    do_as_asked(store, "triage", "promote", made_by="ada", now=days.now)
    days.rates["small"] = 0.5
    days.run(40)
    one = days.show()
    assert (one.state, one.asks) == ("promoted", "back")
    assert find_job(store, "triage").model == "small"
    assert "--back" in one.sentence
    do_as_asked(store, "triage", "back", made_by="ada", now=days.now)
    assert find_job(store, "triage").model == "big"


def test_each_step_is_notified_once(store: Store, tmp_path: Path) -> None:
    days = Days(store, {"big": 1.0, "small": 0.0})
    days.run(40)
    days.start()
    for _ in range(60):
        days.run(1, reviews=False)
        notify_news(store)
    notify_news(store)
    told = [json.loads(line) for line in (tmp_path / "news.jsonl").read_text().splitlines()]
    (one,) = [line for line in told if line["kind"] == "canary"]
    assert one["state"] == "stopped"
    assert "does worse" in one["text"]


def test_a_canary_that_takes_too_long_is_refused_with_the_days_unless_anyway(store: Store) -> None:
    days = Days(store, {"big": 0.6, "small": 0.6})
    days.run(60)
    add_job(
        store,
        msgspec.structs.replace(find_job(store, "triage"), schedule="daily 07:00"),
        now=days.now,
        replace=True,
    )
    with pytest.raises(RelightError, match="cannot tell models 5 points apart") as refused:
        days.start()
    assert "years at this pace" in refused.value.message
    assert "--anyway" in (refused.value.hint or "")
    assert days.start(anyway=True).state == "running"


def test_a_budget_ends_a_trial(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(60)
    days.start(budget_usd=0.05)
    days.run(80)
    one = days.show()
    assert one.state == "stopped"
    assert "budget of $0.05 is used up" in (one.reason or "")
    assert days.count("small") == 5


def test_a_model_that_costs_no_less_is_not_promoted(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.costs["small"] = days.costs["big"]
    days.run(100)
    days.start(is_auto=True, budget_usd=1000)
    days.run(250)
    assert days.show().state == "stopped"
    assert "costs no less" in (days.show().reason or "")
    assert find_job(store, "triage").model == "big"


def test_a_job_changed_by_hand_ends_its_trial(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0, "other": 1.0})
    days.costs["other"] = 1
    days.run(40)
    days.start()
    job = msgspec.structs.replace(find_job(store, "triage"), model="other")
    add_job(store, job, now=days.now, replace=True)
    days.run(3)
    assert {model for _, model in days.ran[-3:]} == {"other"}
    assert days.show().state == "replaced"
    # the history names switches by hand too
    switches = read_canary_list(store, "triage").switches
    assert [(one.from_model, one.to_model) for one in switches] == [("big", "other")]


def test_a_removed_job_ends_its_trial(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(40)
    days.start()
    remove_job(store, "triage")
    review_canaries(store)
    assert days.show().state == "replaced"


def test_a_person_stops_a_trial_and_a_claimed_slot_runs_on_the_model_in_use(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(40)
    days.start(share=0.99)
    days.now += HOUR
    (run_id,) = claim_due(store, HOLDER, now=days.now, limit=4)
    do_as_asked(store, "triage", "stop", made_by="ada", now=days.now)
    begun = begin(store, run_id, HOLDER, now=days.now)
    assert begun is not None
    assert begun[0].model == "big"
    with pytest.raises(MissingError, match="no model is on trial"):
        find_canary(store, "triage")


def test_runs_that_no_trial_dealt_are_seen_not_tested(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 0.2})
    days.run(60)
    job = find_job(store, "triage")
    add_job(store, replace(job, model="small"), now=days.now, replace=True)
    days.run(10)
    add_job(store, job, now=days.now, replace=True)
    days.start()
    days.run(10)
    (pair,) = compare_job(store, "triage", now=days.now / 1000).pairs
    assert (pair.verdict, pair.evidence) == ("worse", "seen")


def test_a_run_by_hand_is_not_dealt_and_does_not_count(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(40)
    days.start(share=0.99)
    run = start_now(store, find_job(store, "triage"), HOLDER, now=days.now + 9000)
    days.rates["big"] = 0.0
    days.end(run.id, "big", run.key)
    assert days.show().against_failures == 0


def test_only_one_model_is_on_trial_and_not_the_one_in_use(store: Store) -> None:
    days = Days(store, {"big": 1.0, "small": 1.0})
    days.run(40)
    with pytest.raises(RelightError, match="runs on big already"):
        plan_canary(store, "triage", CanaryOrder(model="big"), now=days.now)
    days.start()
    with pytest.raises(RelightError, match="on trial in triage already"):
        days.start()
    assert len(read_canaries(store, "triage")) == 1


def test_a_bad_job_of_a_skill_is_stopped_by_itself_and_named_in_the_mean(store: Store) -> None:
    easy = Days(store, {"big": 1.0, "small": 1.0}, name="easy")
    hard = Days(store, {"big": 0.9, "small": 0.5}, name="hard")
    own = {days.name: days for days in (easy, hard)}

    def run(slots: int, *, reviews: bool = True) -> None:
        for _ in range(slots):
            easy.now = hard.now = easy.now + HOUR
            for run_id in claim_due(store, HOLDER, now=easy.now, limit=4):
                begun = begin(store, run_id, HOLDER, now=easy.now)
                assert begun is not None
                own[begun[0].name].end(run_id, begun[0].model or "", begun[1].key)
            if reviews:
                review_canaries(store, now=easy.now + 2000)

    run(100)
    for days in own.values():
        record_skill_invocation(
            store, skill_name="sort", invoked_at=days.now / 1000, job_id=days.name, model="big"
        )
        days.start(is_auto=True)
    run(40, reviews=False)
    (mean,) = read_skill_canaries(store, "sort", now=easy.now).together
    assert (mean.model, mean.jobs) == ("small", ["easy", "hard"])
    assert mean.sentence.startswith("Over 2 jobs of sort small ")
    assert "except in hard" in mean.sentence
    run(250)
    found = read_skill_canaries(store, "sort", now=easy.now)
    assert {one.job: one.state for one in found.canaries} == {"easy": "promoted", "hard": "stopped"}
    assert [find_job(store, name).model for name in own] == ["small", "big"]


# --- with real schedulers, workers and a scripted endpoint

PRICES = """
[prices."big"]
input_usd_per_mtok = 100.0
output_usd_per_mtok = 100.0
[prices."cheap"]
input_usd_per_mtok = 1.0
output_usd_per_mtok = 1.0
[prices."bad"]
input_usd_per_mtok = 1.0
output_usd_per_mtok = 1.0
"""


class Models:
    """A scripted endpoint: each model fails at a known rate; its requests are the truth."""

    def __init__(self) -> None:
        self.rates = {("harmed", "bad"): 0.5, ("saved", "cheap"): 0.02}
        self.asked: Counter[tuple[str, str]] = Counter()
        self.dice = random.Random(11)
        self.lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Reply:
        text = str(body["messages"])
        job = next(name for name in ("harmed", "saved", "falling") if f"task of {name}" in text)
        key = job, body["model"]
        with self.lock:
            self.asked[key] += 1
            has_failed = self.dice.random() < self.rates.get(key, 0.0)
        return Reply("[SCRIPT_FAILED]: no mail server" if has_failed else "Done.")


def test_with_two_real_schedulers_harm_stops_and_a_good_model_is_promoted_and_rolled_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.toml").write_text(f'timezone = "UTC"\n{PRICES}')
    models = Models()
    with Server(models) as server, open_store(tmp_path) as store:
        place = {"base_url": server.base_url, "context_tokens": 99_999, "tools": ["read_file"]}
        now = int(time.time() * 1000) - HOUR
        names = ("harmed", "saved", "falling")
        own = [
            jobs.make_job(name, schedule="every 1s", model="big", prompt=f"task of {name}", **place)
            for name in names
        ]
        add_jobs(store, own, now=now)
        for second in range(1, 61):
            for run_id in claim_due(store, HOLDER, now=now + 1000 * second, limit=9):
                begin(store, run_id, HOLDER, now=now + 1000 * second)
                done = replace(jobs.DONE, model="big", cost_nanos=12_000_000)
                finish(store, run_id, replace(done, finished_at=now), holder=HOLDER)
        at = int(time.time() * 1000)
        for name, model in (("harmed", "bad"), ("saved", "cheap")):
            order = CanaryOrder(model=model, share=0.9, margin=0.3, is_auto=True, anyway=True)
            start_canary(store, plan_canary(store, name, order, now=at))
        models.rates["falling", "big"] = 0.8
        schedulers = [jobs.start_scheduler(tmp_path, "work", max_parallel=2) for _ in range(2)]
        try:
            wait_for(lambda: state(store, "harmed") == "stopped", seconds=240)
            wait_for(lambda: state(store, "saved") == "promoted", seconds=240)
            assert find_job(store, "saved").model == "cheap"
            models.rates["saved", "cheap"] = 0.9
            wait_for(lambda: state(store, "saved") == "rolled_back", seconds=240)
            wait_for(lambda: read_alarms(store, is_open=True).alarms, seconds=240)
        finally:
            for scheduler in schedulers:
                scheduler.terminate()
            assert [scheduler.wait(timeout=120) for scheduler in schedulers] == [0, 0]
        assert [find_job(store, name).model for name in names] == ["big"] * 3
        assert "job:falling" in {row.scope for row in read_alarm_rows(store, is_open=True)}
        promoted, back = read_canary_list(store, "saved").switches
        assert (promoted.made_by, back.made_by) == ("auto", "auto")
        assert promoted.saved_usd is not None
        assert promoted.saved_usd > 0
        # each slot ran once: as many requests as runs, and no slot has two
        for name in names:
            ran = [run for run in read_runs(store, name) if run.attempts and run.session_id]
            asked = sum(number for (job, _), number in models.asked.items() if job == name)
            assert len(ran) == asked
            assert len({run.scheduled_for for run in ran}) == len(ran)


def state(store: Store, job: str) -> str:
    return read_canaries(store, job)[0].state


# --- past tasks


def test_past_tasks_are_repeated_in_a_copy_of_the_folder_on_both_models(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'timezone = "UTC"\n{PRICES}')
    (tmp_path / "scripts").mkdir()
    count = tmp_path / "count"
    count.write_text("x")
    script = f"printf x >> {count}; echo mail number $(wc -c < {count})\n"
    (tmp_path / "scripts" / "mails.sh").write_text(script)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.txt").write_text("as before")
    writes = call("write_file", path="notes.txt", content="changed")

    def reply(body: dict[str, Any]) -> Reply:
        text = str(body["messages"])
        if "mail number 4" in text and not has_results(body):
            return Reply(None, [call("terminal", command="true")])
        if body["model"] == "cheap" and not has_results(body):
            return Reply(None, [writes])
        return Reply("Done.")

    with Server(reply) as server, open_store(tmp_path) as store, Holder(tmp_path) as holder:
        job = jobs.make_job(
            "mails", model="big", script="mails.sh", workdir=str(folder),
            base_url=server.base_url, context_tokens=99_999,
        )  # fmt: skip
        now = int(time.time() * 1000)
        add_job(store, job, now=now)
        for _ in range(4):
            run_now(store, "mails", holder=holder.name, execute=execute_run)
        order = CanaryOrder(model="cheap", anyway=True, replay=30)
        plan = plan_canary(store, "mails", order, now=now)
        # the forecast counts the tasks that can be repeated, not those that were asked for
        without = plan_canary(store, "mails", CanaryOrder(model="cheap", anyway=True), now=now)
        assert plan.forecast == without.forecast
        assert "3 tasks will be replayed: fewer than 30 do not count." in plan.sentence
        lines: list[str] = []
        row = start_canary(
            store, plan, replay=replay_tasks(store, plan.row, number=30, report=lines.append)
        )
        one = read_canary_list(store, "mails").canaries[0]
        assert one.replay is not None
        assert (one.replay.tasks, one.replay.both, one.replay.unknown) == (3, 3, 0)
        # too few to know whether replayed tasks are like runs
        assert not one.replay.is_counted
        assert "they do not count" in one.sentence
        assert one.replay.skipped == [
            f"{read_runs(store, 'mails')[1].run_id}: it used terminal, which may change anything"
        ]
        assert any(line.startswith("not repeated: ") for line in lines)
        assert (folder / "notes.txt").read_text() == "as before"
        assert len(read_runs(store, "mails")) == 4
        assert row.state == "running"
        # a prompt says which model it is for
        asked = [str(one.body["messages"]) for one in server.requests if one.raw]
        assert any("RUNTIME: model=cheap" in text for text in asked)


def test_a_replayed_task_is_paired_with_the_same_task_on_the_model_in_use(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'timezone = "UTC"\n{PRICES}')
    (tmp_path / "scripts").mkdir()
    count = tmp_path / "count"
    count.write_text("")
    script = f"printf x >> {count}; echo mail number $(wc -c < {count}).\n"
    (tmp_path / "scripts" / "mails.sh").write_text(script)
    failing = {"cheap": ("number 3.", "number 7."), "big": ("number 7.", "number 9.")}

    def reply(body: dict[str, Any]) -> Reply:
        text = str(body["messages"])
        has_failed = "replay" in asked and any(one in text for one in failing[body["model"]])
        return Reply("[SCRIPT_FAILED]: no mail server" if has_failed else "Done.")

    asked: set[str] = set()
    with Server(reply) as server, open_store(tmp_path) as store, Holder(tmp_path) as holder:
        job = jobs.make_job(
            "mails", model="big", script="mails.sh", tools=["read_file"],
            base_url=server.base_url, context_tokens=99_999,
        )  # fmt: skip
        now = int(time.time() * 1000)
        add_job(store, job, now=now)
        for _ in range(32):
            run_now(store, "mails", holder=holder.name, execute=execute_run)
        asked.add("replay")
        order = CanaryOrder(model="cheap", anyway=True, replay=32)
        plan = plan_canary(store, "mails", order, now=now + HOUR)
        start_canary(store, plan, replay=replay_tasks(store, plan.row, number=32))
        one = read_canary_list(store, "mails").canaries[0]
        assert one.replay is not None
        ends = one.replay
        assert (ends.both, ends.only_candidate, ends.only_in_use, ends.neither) == (29, 1, 1, 1)
        assert ends.is_counted
        assert "(1 only on it, 1 only on the other); they count as pairs" in one.sentence
        # they count before the first run, and their cost is the trial's
        seen = read_canary_evidence(store, read_canaries(store, "mails")[0])
        assert (seen.b.runs, seen.pairs.b.runs) == (0, 32)
        assert one.low is not None
        assert seen.spent_nanos == round((ends.cost_usd or 0) * 1e9) > 0


def test_the_tasks_of_another_program_are_not_repeated(store: Store) -> None:
    job = jobs.make_job("notes", runner="command", command=["true"])
    tasks, skipped = find_repeatable_tasks(store, job, "big", number=9)
    assert tasks == []
    assert "may do anything" in skipped[0]
