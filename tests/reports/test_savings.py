"""Savings: cheaper models tried and untried, what they save, and what it takes to know."""

import os
from pathlib import Path
from typing import Any

import pytest

import serving
from build_runs import write_runs
from relight.intake.recorder import record
from relight.model import row_id
from relight.reports.savings import SavingItem, describe_need, read_savings
from relight.store import Store
from terminal import run_relight

NOW = 1_794_812_400_000  # Mon 16 Nov 2026 07:00 UTC
HOUR = 3_600_000


def run(store: Store, job: str, model: str, number: int, **fields: Any) -> None:
    """Runs of the last days, the last of them now; one in twenty fails."""
    cost = fields.pop("cost_usd")
    outcomes = [place % 20 != 19 for place in range(number)]
    first = NOW - number * HOUR + fields.pop("apart_ms", 0)
    write_runs(
        store, job, fields.pop("outcomes", outcomes), first_at=first, every_ms=HOUR, model=model,
        costs_usd=[cost] * number, **fields,
    )  # fmt: skip


def find(store: Store, name: str, **options: Any) -> SavingItem:
    (item,) = [one for one in read_savings(store, now=NOW, **options).items if one.name == name]
    return item


def test_a_cheaper_model_that_was_tried_is_judged_by_its_runs(store: Store) -> None:
    run(store, "triage", "big", 300, cost_usd=0.5)
    run(store, "triage", "small", 40, cost_usd=0.1, apart_ms=1000)
    item = find(store, "triage")
    assert (item.job, item.skill, item.model, item.runs) == ("triage", None, "big", 340)
    assert item.month_usd == pytest.approx(300 * 0.5 + 40 * 0.1)
    (one,) = item.candidates
    assert (one.model, one.verdict) == ("small", "cannot tell yet")
    assert one.saving_month_usd == pytest.approx(300 * 0.4)
    assert one.evidence == ("38 of 40 succeeded, big 285 of 300; seen, not dealt at random")
    assert one.runs_needed
    assert one.cost_needed_usd == pytest.approx(one.runs_needed * 0.1)
    assert one.days_needed
    assert describe_need(one).startswith(f"{one.runs_needed} runs, {one.days_needed} days, $")


def test_a_job_on_several_models_saves_where_most_of_its_cost_goes(store: Store) -> None:
    run(store, "triage", "big", 34, cost_usd=0.5)
    run(store, "triage", "small", 35, cost_usd=0.1, apart_ms=1000)
    item = find(store, "triage")
    assert item.model == "big"
    assert [one.model for one in item.candidates] == ["small"]
    assert item.saving_usd == pytest.approx(34 * 0.4)


def test_the_model_in_use_is_the_one_that_is_set_in_the_job(store: Store) -> None:
    """`job canary` compares with it, so savings must not name another one."""
    run(store, "triage", "big", 34, cost_usd=0.5)
    run(store, "triage", "small", 35, cost_usd=0.1, apart_ms=1000)
    with store.transaction() as database:
        database.execute("update job set model = 'small'")
    item = find(store, "triage")
    assert item.model == "small"
    assert "big" not in [one.model for one in item.candidates]


def test_a_model_that_does_worse_comes_last_and_counts_for_nothing(store: Store) -> None:
    run(store, "triage", "big", 200, cost_usd=0.5)
    run(store, "triage", "bad", 20, cost_usd=0.01, outcomes=[False] * 20, apart_ms=1000)
    run(store, "triage", "mid", 20, cost_usd=0.3, apart_ms=2000)
    run(store, "triage", "dear", 20, cost_usd=0.9, apart_ms=3000)
    run(store, "rare", "big", 20, cost_usd=0.1)
    item = find(store, "triage")
    assert [(one.model, one.verdict) for one in item.candidates] == [
        ("mid", "cannot tell yet"), ("bad", "worse"),
    ]  # fmt: skip
    assert item.saving_usd == pytest.approx(200 * 0.2)
    assert [one.name for one in read_savings(store, now=NOW).items] == ["triage", "rare"]


def test_a_job_that_rests_or_has_no_known_cost_promises_nothing(store: Store) -> None:
    write_runs(store, "old", [True] * 5, first_at=NOW - 2000 * HOUR, every_ms=HOUR, model="big")
    write_runs(store, "free", [True] * 5, first_at=NOW - 9 * HOUR, every_ms=HOUR, model="big")
    (item,) = read_savings(store, now=NOW).items
    assert (item.name, item.month_usd, item.unpriced_runs, item.candidates) == ("free", None, 5, [])


def test_an_untried_model_is_known_by_the_price_of_the_same_tokens(store: Store) -> None:
    import time

    now = round(time.time() * 1000)
    for number in range(6):
        key = f"run-{number}"
        with record(store, key, model="claude-opus-4-6", provider="anthropic") as rec:
            rec.turn(input_tokens=100_000, output_tokens=2_000)
            rec.finish("success")
        write_runs(
            store, "digest", [True], first_at=now - (number + 1) * HOUR, every_ms=HOUR,
            session_id=row_id("session", "relight", key), model="claude-opus-4-6",
        )  # fmt: skip
    with record(store, "other", model="claude-haiku-4-5", provider="anthropic") as rec:
        rec.turn(input_tokens=10, output_tokens=1)
    (item,) = [one for one in read_savings(store).items if one.name == "digest"]
    (one,) = item.candidates
    assert (one.model, one.verdict) == ("claude-haiku-4-5", "not tried")
    assert item.month_usd is not None
    # haiku costs a fifth of opus
    assert one.saving_month_usd == pytest.approx(item.month_usd * 0.8)
    assert one.evidence == "the tokens of 6 runs at its price"
    assert one.runs_needed
    assert one.days_needed
    given = [two.model for two in read_savings(store, models=["gpt-5-mini"]).items[0].candidates]
    assert "gpt-5-mini" in given


def test_a_trial_deals_the_runs_of_all_models_so_the_days_count_them(store: Store) -> None:
    import time

    now = round(time.time() * 1000)

    def write(model: str, **fields: Any) -> None:
        write_runs(store, "digest", [True] * 40, first_at=now - 480 * HOUR, every_ms=12 * HOUR,
                   model=model, **fields)  # fmt: skip

    with record(store, "one", model="claude-opus-4-6", provider="anthropic") as rec:
        rec.turn(input_tokens=100_000, output_tokens=2_000)
        rec.finish("success")
    write("claude-opus-4-6", session_id=row_id("session", "relight", "one"))

    def find_days() -> int:
        (item,) = read_savings(store, models=["claude-haiku-4-5"]).items
        (days,) = [one.days_needed for one in item.candidates if one.verdict == "not tried"]
        assert item.model == "claude-opus-4-6"
        assert days is not None
        return days

    alone = find_days()
    # as many runs on a model without a price
    now += 1000
    write("local")
    assert find_days() == pytest.approx(alone / 2, rel=0.05)
    environment = {**os.environ, "RELIGHT_HOME": str(store.config.home), "COLUMNS": "200"}
    assert "≥$" in run_relight(environment, "savings").stdout


def test_savings_are_on_a_page_and_in_the_api(store: Store, tmp_path: Path) -> None:
    import time

    now = round(time.time() * 1000)
    for model, cost, apart in (("big", 0.5, 0), ("<i>small", 0.1, 1000)):
        write_runs(
            store, "triage", [True] * 9, first_at=now - 9 * HOUR + apart, every_ms=HOUR,
            model=model, costs_usd=[cost] * 9,
        )  # fmt: skip
    with serving.make_client(store.config.home) as client:
        (item,) = client.get("/api/savings").json()["items"]
        page = client.get("/savings").text
        assert client.get("/api/savings?margin=2").status_code == 400
    names = {"job", "skill", "model", "month_usd", "candidates"}
    assert names <= set(item)
    assert {"model", "evidence", "saving_month_usd", "verdict", "runs_needed"} <= set(
        item["candidates"][0]
    )
    assert "&lt;i&gt;small" in page
    assert "<i>small" not in page
    assert "cannot tell yet" in page


def test_names_of_jobs_and_models_are_whole_in_a_narrow_window(store: Store) -> None:
    import time

    now = round(time.time() * 1000)
    job, models = "weekly-summary-of-tickets", ("claude-opus-4-6-thinking", "gpt-5.1-codex-mini")
    for number, model in enumerate(models):
        write_runs(
            store, job, [True] * 9, first_at=now - 9 * HOUR + number, every_ms=HOUR,
            model=model, costs_usd=[0.5 / (1 + number)] * 9,
        )  # fmt: skip
    environment = {**os.environ, "RELIGHT_HOME": str(store.config.home), "COLUMNS": "80"}
    lines = run_relight(environment, "savings").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    shown = [line for line in lines if any(name in line for name in (job, *models))]
    assert [line.split()[0] for line in shown] == [job, *models]
    assert "in use" in shown[1]
    assert "cannot tell yet" in shown[2]
