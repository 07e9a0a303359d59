"""Models compared on the work both did: verdicts, the runs still needed, and the sentences."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import build
from relight.errors import RelightError
from relight.reports.comparison.models import (
    SkillVerdict,
    compare_job,
    compare_jobs,
    compare_models,
    judge_skills,
)
from relight.reports.comparison.pairing import Pairing
from relight.reports.skills.uses import record_skill_invocation
from relight.stats.rates import wilson
from relight.store import Store
from relight.store.queries.runs import read_runs
from relight.store.queries.skills import read_daily

NOW = 1_794_700_800
DAY = 86_400


def use(
    store: Store,
    model: str | None,
    successes: int,
    failures: int,
    *,
    unknown: int = 0,
    days: float = 0.001,
    **fields: Any,
) -> None:
    """Uses of a skill, the last of them now, spread over some days."""
    outcomes = [True] * successes + [False] * failures + [None] * unknown
    for number, success in enumerate(reversed(outcomes)):
        record_skill_invocation(
            store,
            skill_name="triage",
            invoked_at=NOW - number * days * DAY / len(outcomes),
            model=model,
            success=success,
            **fields,
        )


def compare(store: Store, **options: Any) -> Pairing:
    """The only pair of the skill's models."""
    (pair,) = compare_models(store, "triage", now=NOW, **options).pairs
    return pair


# --- one job ----------------------------------------------------------------------------------


def test_a_cheaper_model_that_does_as_well_is_good_enough(store: Store) -> None:
    use(store, "big", 1000, 50, days=40, cost_usd=0.5)
    use(store, "small", 232, 10, cost_usd=0.1)
    found = compare_models(store, "triage", now=NOW)
    assert [arm.model for arm in found.models] == ["big", "small"]
    assert found.verdict == (
        "small is good enough for triage, within 5 points: 232 of 242 succeeded, big 1,000 of"
        " 1,050 (between 4 points worse and 4 better). Seen, not tested: the models were not dealt"
        " at random. It saves $315.20 a month."
    )
    (pair,) = found.pairs
    assert (pair.verdict, pair.is_settled, pair.reason) == ("good enough", True, None)
    assert pair.saving_month_usd == pytest.approx(788 * 0.4)


def test_an_interval_wider_than_the_margin_is_explained(store: Store) -> None:
    use(store, "big", 290, 10, cost_usd=0.5)
    use(store, "small", 147, 3, cost_usd=0.1)
    pair = compare(store)
    assert pair.verdict == "good enough"
    assert pair.low is not None
    assert pair.low < -0.05
    assert (
        "The interval is wider than the margin, since it bounds every difference at every look;"
        ' the verdict weighs "as good" against "5 points worse".'
    ) in pair.sentence


def test_one_run_without_a_place_is_one_run(store: Store) -> None:
    use(store, "big", 1, 0, cost_usd=0.5)
    assert "1 run has neither a job nor a project" in compare_models(store, "triage").notes


def test_a_model_that_fails_far_more_often_does_worse(store: Store) -> None:
    use(store, "big", 118, 2, cost_usd=0.5)
    use(store, "small", 11, 5, cost_usd=0.1)
    assert compare_models(store, "triage", now=NOW).verdict == (
        "small does worse at triage: 11 of 16 succeeded, big 118 of 120 (at least 4 points worse)."
        " Seen, not tested: the models were not dealt at random."
    )


def test_one_failed_run_settles_nothing(store: Store) -> None:
    use(store, "big", 100, 0, cost_usd=0.5)
    use(store, "small", 0, 1, cost_usd=0.1)
    pair = compare(store)
    assert (pair.verdict, pair.reason) == ("cannot tell yet", "few runs")
    assert "0 of 1 succeeded (big: 100 of 100)" in pair.sentence


def test_what_is_still_needed_assumes_an_equal_model_and_names_the_day(store: Store) -> None:
    use(store, "big", 118, 2, days=6.76, cost_usd=0.5)
    use(store, "small", 31, 1, days=6.76, cost_usd=0.1)
    assert compare(store).sentence == (
        "Cannot tell yet whether small is good enough for triage: 31 of 32 succeeded (big: 118 of"
        " 120). The difference lies between −20 and +6 points. If small is as good as big, about"
        " 123 more runs show it within 5 points, 26 days at this pace (until 2026-12-11); within"
        " 10 points 28 runs show it."
    )


def test_the_runs_still_needed_do_not_shrink_with_the_observed_gap(store: Store) -> None:
    """At the observed rates a few runs would settle it, and if the models are equal they do not."""
    use(store, "big", 60, 0, cost_usd=0.5)
    use(store, "small", 8, 2, cost_usd=0.1)
    pair = compare(store)
    assert pair.reason == "few runs"
    assert (pair.more_runs or 0) > 100


def test_runs_that_take_too_long_are_named_with_a_wider_margin(store: Store) -> None:
    use(store, "big", 72, 48, days=29, cost_usd=0.5)
    use(store, "small", 10, 6, days=29, cost_usd=0.1)
    sentence = compare(store).sentence
    assert "Models 5 points apart are hard to tell here: at 60% success it takes about" in sentence
    assert "years at this pace" in sentence
    assert re.search(r" Within 10 points \d+ runs show it: `--margin 10`.$", sentence)
    assert "--margin" not in compare(store, margin=0.1).sentence


def test_what_a_wider_margin_shows_already_is_said(store: Store) -> None:
    use(store, "big", 41, 1, cost_usd=0.5)
    use(store, "small", 44, 0, cost_usd=0.1)
    assert compare(store).sentence.endswith("; within 10 points it is shown already.")
    assert compare(store, margin=0.1).verdict == "good enough"


def test_runs_of_one_model_alone_are_said_not_to_help(store: Store) -> None:
    use(store, "big", 72, 48, cost_usd=0.5)
    for number in range(16):
        record_skill_invocation(
            store,
            skill_name="triage",
            invoked_at=NOW + 40 * DAY + number,
            model="small",
            success=number < 10,
            cost_usd=0.1,
        )
    (pair,) = compare_models(store, "triage", now=NOW + 41 * DAY).pairs
    assert pair.share == 1
    assert "it takes over 20,000 more runs of small" in pair.sentence
    assert "Runs of small alone do not help: big has not run in the last 30 days." in pair.sentence


def test_without_a_recent_run_no_day_is_named(store: Store) -> None:
    use(store, "big", 118, 2, cost_usd=0.5)
    use(store, "small", 31, 1, cost_usd=0.1)
    (pair,) = compare_models(store, "triage", now=NOW + 60 * DAY).pairs
    assert pair.more_runs is not None
    assert (pair.more_days, pair.until) == (None, None)
    assert "at this pace" not in pair.sentence


# --- several jobs -----------------------------------------------------------------------------


def use_two_jobs(store: Store) -> None:
    """The cheaper model does at least as well in both, but ran the hard one mostly."""
    use(store, "big", 98, 2, job_id="easy", cost_usd=0.5)
    use(store, "small", 20, 0, job_id="easy", cost_usd=0.05)
    use(store, "big", 12, 8, job_id="hard", cost_usd=0.5)
    use(store, "small", 62, 38, job_id="hard", cost_usd=0.05)


def test_a_model_that_ran_the_hard_job_is_not_blamed_for_it(store: Store) -> None:
    use_two_jobs(store)
    found = compare_models(store, "triage", now=NOW)
    (pair,) = found.pairs
    assert (pair.verdict, pair.reason) == ("cannot tell yet", "few runs")
    assert pair.difference == pytest.approx(0.02, abs=0.001)
    assert found.verdict.startswith(
        "Cannot tell yet whether small is good enough for triage: 20 of 20 in easy (big: 98 of"
        " 100), 62 of 100 in hard (big: 12 of 20). Job by job, the difference lies between −18 and"
        " +20 points."
    )
    assert [(job.name, job.verdict) for job in pair.jobs] == [
        ("easy", "cannot tell yet"),
        ("hard", "cannot tell yet"),
    ]


def test_one_job_of_a_skill_is_judged_by_itself(store: Store) -> None:
    use_two_jobs(store)
    found = compare_models(store, "triage", job="hard", now=NOW)
    assert found.job == "hard"
    assert "good enough for triage in hard: 62 of 100 succeeded (big: 12 of 20)" in found.verdict
    with pytest.raises(RelightError, match="triage never ran in a job 'nightly'") as caught:
        compare_models(store, "triage", job="nightly")
    assert caught.value.hint == "it ran in easy, hard"


def test_models_that_ran_different_jobs_cannot_be_compared(store: Store) -> None:
    use(store, "big", 100, 0, job_id="easy", cost_usd=0.5)
    use(store, "small", 38, 0, job_id="easy", cost_usd=0.1)
    use(store, "small", 40, 42, job_id="hard", cost_usd=0.1)
    found = compare_models(store, "triage", now=NOW)
    assert found.pairs[0].reason == "different jobs"
    assert found.verdict == (
        "small and big cannot be compared at triage: the models ran different jobs. 82 of small's"
        " 120 runs are in jobs that big never ran (hard: 82). Together they ran easy. Nothing can"
        " be said about the model."
    )


def test_runs_in_other_jobs_do_not_count_if_most_are_shared(store: Store) -> None:
    use(store, "big", 100, 0, job_id="easy", cost_usd=0.5)
    use(store, "small", 80, 0, job_id="easy", cost_usd=0.1)
    use(store, "small", 0, 30, job_id="hard", cost_usd=0.1)
    pair = compare(store)
    assert (pair.verdict, pair.successes, pair.failures) == ("good enough", 80, 0)


def test_jobs_that_settle_in_opposite_directions_have_no_one_answer(store: Store) -> None:
    for job, successes, failures in (("easy", 100, 0), ("hard", 10, 20)):
        use(store, "big", 100, 0, job_id=job, cost_usd=0.5)
        use(store, "small", successes, failures, job_id=job, cost_usd=0.1)
    pair = compare(store)
    assert (pair.verdict, pair.reason) == ("cannot tell yet", "opposite jobs")
    assert pair.sentence == (
        "At triage small does as well as big in easy and worse in hard: there is no one answer."
        " By job: 100 of 100 in easy (big: 100 of 100), 10 of 30 in hard (big: 100 of 100)."
    )


def test_a_job_that_seems_worse_is_named_as_an_exception(store: Store) -> None:
    for job, runs in (("one", 300), ("two", 300)):
        use(store, "big", runs, 0, days=10, job_id=job, cost_usd=0.5)
        use(store, "small", runs, 0, job_id=job, cost_usd=0.1)
    use(store, "big", 50, 0, days=10, job_id="odd", cost_usd=0.5)
    use(store, "small", 2, 1, job_id="odd", cost_usd=0.1)
    pair = compare(store)
    assert pair.verdict == "good enough"
    assert [job.name for job in pair.jobs if job.is_exception] == ["odd"]
    assert "good enough for triage, within 5 points, except in odd:" in pair.sentence
    # the exception would not be switched, so it saves nothing
    assert pair.saving_month_usd == pytest.approx(600 * 0.4)


def test_costs_are_compared_job_by_job_too(store: Store) -> None:
    """All runs of `small` together cost more a run, because it ran the long job mostly."""
    use(store, "big", 100, 0, job_id="short", cost_usd=0.2)
    use(store, "small", 10, 0, job_id="short", cost_usd=0.1)
    use(store, "big", 10, 0, job_id="long", cost_usd=2)
    use(store, "small", 100, 0, job_id="long", cost_usd=1)
    found = compare_models(store, "triage", now=NOW)
    assert [arm.model for arm in found.models] == ["small", "big"]
    (pair,) = found.pairs
    assert (pair.model, pair.against, pair.is_cheaper) == ("small", "big", True)


def test_outside_of_jobs_runs_are_compared_by_project(store: Store, tmp_path: Path) -> None:
    for model, project in (("big", "web"), ("small", "web"), ("small", "api")):
        answer = build.claude_answer("a1", at=2)
        answer["message"]["model"] = model
        records = [build.claude_prompt("Go", at=1, cwd=f"/home/me/{project}"), answer]
        name = f"{model}-{project}"
        for line in records:
            line["sessionId"] = name
        build.write_claude(tmp_path, records, name=name)
        build.import_home(store, tmp_path)
        record_skill_invocation(
            store,
            skill_name="triage",
            invoked_at=NOW,
            session_id=f"claude-code:{name}",
            model=model,
            success=True,
            cost_usd=0.5 if model == "big" else 0.1,
        )
    found = compare_models(store, "triage", now=NOW)
    assert [(job.name, job.runs, job.against_runs) for job in found.pairs[0].jobs] == [
        ("api", 1, 0),
        ("web", 1, 1),
    ]
    assert "runs outside of jobs are compared by project (api and web)" in found.notes


def test_a_session_that_used_a_skill_in_two_ways_is_one_run(store: Store) -> None:
    for entry in ("slash", "tool"):
        record_skill_invocation(
            store,
            skill_name="triage",
            invoked_at=NOW,
            session_id="one",
            entry=entry,
            model="big",
            success=True,
            cost_usd=0.2,
        )
    (arm,) = compare_models(store, "triage", now=NOW).models
    assert (arm.runs, arm.successes) == (1, 1)
    assert arm.cost_per_call_usd == pytest.approx(0.4)


# --- unknown outcomes and costs ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("unknown", "other", "reason"),
    [(17, 0, "unknown outcomes"), (26, 26, "unknown outcomes"), (10, 6, None)],
)
def test_many_or_uneven_unknown_outcomes_allow_no_verdict(
    store: Store, unknown: int, other: int, reason: str | None
) -> None:
    use(store, "big", 100, 0, unknown=other, cost_usd=0.5)
    use(store, "small", 100, 0, unknown=unknown, cost_usd=0.1)
    pair = compare(store)
    assert pair.reason == reason
    if reason:
        assert pair.verdict == "cannot tell yet"
        assert (
            f"the outcome of {unknown} of {100 + unknown} runs is unknown (big: {other} of"
            in pair.sentence
        )


def test_figures_leave_unknowns_out_and_count_them(store: Store) -> None:
    use(store, "opus", 3, 1, unknown=6, cost_usd=0.3)
    use(store, "opus", 0, 0, unknown=2)
    (arm,) = compare_models(store, "triage").models
    assert (arm.runs, arm.successes, arm.failures, arm.unknown, arm.unpriced_runs) == (
        12,
        3,
        1,
        8,
        2,
    )
    assert arm.success_rate == 0.75
    assert arm.cost_per_call_usd == pytest.approx(0.3)
    assert arm.cost_per_success_usd == pytest.approx(0.4)
    assert (arm.low, arm.high) == (wilson(3, 4).low, wilson(3, 4).high)


@pytest.mark.parametrize("unknown", [0, 3])
def test_one_model_alone_cannot_be_compared(store: Store, unknown: int) -> None:
    use(store, "opus", 5, 0)
    use(store, "haiku", 0, 0, unknown=unknown)
    verdict = compare_models(store, "triage").verdict
    assert verdict == "Cannot tell yet: only opus has runs of triage with a known outcome."


def test_without_any_known_outcome_nothing_can_be_said(store: Store) -> None:
    use(store, "opus", 0, 0, unknown=2)
    use(store, "haiku", 0, 0, unknown=2)
    assert compare_models(store, "triage").verdict == (
        "Cannot tell yet: no model has runs of triage with a known outcome."
    )


def test_other_versions_on_other_models_are_noted(store: Store) -> None:
    use(store, "opus", 5, 0, skill_version="1.0", job_id="j", cost_usd=1)
    use(store, "haiku", 5, 0, skill_version="1.1", job_id="j", cost_usd=0.1)
    (note,) = compare_models(store, "triage").notes
    assert "versions differ between models (opus: 1.0; haiku: 1.1)" in note


def test_a_hash_and_a_declared_version_may_be_of_the_same_text(store: Store) -> None:
    use(store, "opus", 5, 0, skill_version="1.0", job_id="j", cost_usd=1)
    use(store, "haiku", 5, 0, skill_version="sha256:b246a1d1e6bd", job_id="j", cost_usd=0.1)
    assert compare_models(store, "triage").notes == []


def test_a_model_without_a_price_is_compared_and_its_cost_is_unknown(store: Store) -> None:
    use(store, "opus", 100, 0, job_id="j", cost_usd=0.9)
    use(store, "at-home", 95, 0, job_id="j")
    found = compare_models(store, "triage")
    assert found.verdict.startswith("at-home is good enough")
    assert found.verdict.endswith(" Whether it is cheaper is unknown.")
    assert found.pairs[0].is_cheaper is None
    assert 'add [prices."at-home"]' in found.notes[0]


def test_one_that_is_known_to_be_cheaper_comes_before_one_without_a_price(store: Store) -> None:
    for model, cost in (("opus", 0.9), ("haiku", 0.05), ("at-home", None)):
        use(store, model, 100, 0, cost_usd=cost)
    found = compare_models(store, "triage")
    assert found.verdict.startswith("haiku is good enough")
    assert [(pair.model, pair.is_cheaper) for pair in found.pairs] == [
        ("haiku", True),
        ("at-home", None),
    ]


def test_a_model_that_costs_the_same_is_not_cheaper(store: Store) -> None:
    use(store, "one", 95, 5, cost_usd=0.5)
    use(store, "other", 99, 1, cost_usd=0.5)
    found = compare_models(store, "triage")
    assert found.verdict == "No model is cheaper than one: a run costs the same on each."
    assert found.pairs[0].is_cheaper is False
    use(store, "less", 1, 0, cost_usd=0.1)
    assert compare_models(store, "triage").verdict.startswith("Cannot tell yet whether less ")


def test_a_cheaper_model_of_which_nothing_is_known_is_not_called_bad(store: Store) -> None:
    use(store, "one", 9, 1, cost_usd=0.5)
    use(store, "other", 9, 1, cost_usd=0.5)
    use(store, "less", 0, 0, unknown=3, cost_usd=0.1)
    assert compare_models(store, "triage").verdict.startswith(
        "less cannot be judged at triage: the outcome of 3 of 3 runs is unknown (one: 0 of 10)."
    )


def test_runs_of_an_unknown_model_are_in_no_pair(store: Store) -> None:
    use(store, "opus", 5, 0, job_id="j", cost_usd=1)
    use(store, None, 5, 0, job_id="j")
    use(store, "opus", 1, 0, job_id="j")
    found = compare_models(store, "triage")
    assert found.pairs == []
    assert found.notes == [
        "the cost of runs on an unknown model is unknown",
        "5 runs of an unknown model are left out of the comparison",
        "1 run of unknown or partly known cost is left out of the costs",
    ]


# --- which models -----------------------------------------------------------------------------


def test_models_may_be_chosen_by_a_part_that_only_one_has(store: Store) -> None:
    for model in ("claude-opus-4-6", "claude-haiku-4-5", "claude-haiku-4-6", None):
        use(store, model, 1, 0, cost_usd=1)
    found = compare_models(store, "triage", models=["opus", "unknown", "claude-opus-4-6"])
    assert sorted(arm.model or "" for arm in found.models) == ["", "claude-opus-4-6"]
    with pytest.raises(RelightError, match="ran on several models like 'haiku'") as caught:
        compare_models(store, "triage", models=["opus", "haiku"])
    assert caught.value.hint == "it ran on claude-haiku-4-5, claude-haiku-4-6"
    with pytest.raises(RelightError, match=r"^models must name two or more"):
        compare_models(store, "triage", models=["opus"])


def test_of_several_models_the_cheapest_that_will_do_is_named(store: Store) -> None:
    for model, successes, cost in (("big", 100, 1.0), ("mid", 100, 0.5), ("small", 40, 0.1)):
        use(store, model, successes, 100 - successes, cost_usd=cost)
    found = compare_models(store, "triage")
    assert found.verdict.startswith("mid is good enough")
    assert found.pairs[1].sentence.startswith("small does worse")
    chosen = compare_models(store, "triage", models=["small", "big"])
    assert [arm.model for arm in chosen.models] == ["big", "small"]
    assert chosen.verdict.startswith("small does worse")


def test_the_list_of_skills_has_the_same_verdicts(store: Store) -> None:
    use_two_jobs(store)
    record_skill_invocation(store, skill_name="alone", invoked_at=NOW, model="big", success=True)
    assert judge_skills(store, {"triage", "alone"}) == {
        "triage": SkillVerdict("small", "big", "cannot tell yet")
    }
    assert judge_skills(store, {"alone"}) == {}


def test_of_many_skills_those_with_the_part_asked_for_are_named_first(store: Store) -> None:
    for name in (*"abcdefgh", "ticket-triage"):
        record_skill_invocation(store, skill_name=name, invoked_at=1_794_700_800)
    with pytest.raises(RelightError) as caught:
        compare_models(store, "triage")
    assert caught.value.hint == "there are ticket-triage, a, b, c, d, e, f, g and 1 more"


def test_what_is_not_there_is_an_error_with_a_hint(store: Store) -> None:
    use(store, "opus", 1, 0)
    with pytest.raises(RelightError) as caught:
        compare_models(store, "tidy")
    assert caught.value.hint == "there are triage"
    with pytest.raises(RelightError, match="never ran on 'haiku'"):
        compare_models(store, "triage", models=["opus", "haiku"])
    with pytest.raises(RelightError, match="margin must be"):
        compare_models(store, "triage", margin=1)
    with pytest.raises(RelightError, match="margin must be above 0: no number of runs"):
        compare_models(store, "triage", margin=0)
    for nonsense in ("half \ud83d", "", "a\0b"):
        with pytest.raises(RelightError, match="skill must be"):
            compare_models(store, nonsense)
        with pytest.raises(RelightError, match="skill must be"):
            read_daily(store, skill=nonsense)


# --- jobs -------------------------------------------------------------------------------------

JOB = "aaaaaaaaaaaa"


def write_hermes_runs(
    home: Path, runs: list[tuple[str, bool]], *, tokens_of_failed: int = 1000
) -> None:
    """A job of Hermes with runs on these models; its file names the model of today only."""
    database = build.open_hermes(home)
    folder = home / ".hermes" / "cron"
    folder.mkdir()
    job = {"id": JOB, "name": "nightly", "model": "gpt-5-mini", "enabled": True}
    (folder / "jobs.json").write_text(json.dumps({"jobs": [job]}))
    ledger = build.connect_as_hermes(folder / "executions.db")
    ledger.execute(
        "create table executions (id text primary key, job_id text, source text, status text,"
        " claimed_at text, started_at text, finished_at text, error text)"
    )
    for number, (model, is_good) in enumerate(runs):
        at = number * 100
        build.insert(
            ledger, "executions", id=f"run{number}", job_id=JOB, source="builtin",
            status="completed" if is_good else "failed", claimed_at=build.stamp(at),
            started_at=build.stamp(at), finished_at=build.stamp(at + 50),
            error=None if is_good else "HTTP 500",
        )  # fmt: skip
        tokens = 1000 if is_good else tokens_of_failed
        begin = build.START / 1000 + at + 3
        name = f"cron_{JOB}_20261115_{number:06}"
        build.insert(
            database, "sessions", id=name, source="cron", model=model, started_at=begin,
            end_reason="cron_complete", api_call_count=1, input_tokens=tokens,
            output_tokens=tokens // 20,
        )  # fmt: skip
        build.insert(
            database, "session_model_usage", session_id=name, model=model,
            billing_provider="openai", api_call_count=1, first_seen=begin, input_tokens=tokens,
            output_tokens=tokens // 20,
        )  # fmt: skip
        for offset, (role, text) in enumerate((("user", "go"), ("assistant", "All is fine."))):
            if is_good or role == "user":
                build.insert(
                    database, "messages", session_id=name, role=role, content=text,
                    timestamp=begin + offset,
                )  # fmt: skip


def test_the_models_of_another_schedulers_job_are_compared(store: Store, tmp_path: Path) -> None:
    big, small = "gpt-5.1", "gpt-5-mini"
    write_hermes_runs(tmp_path, [(big, True)] * 12 + [(small, True)] * 2 + [(small, False)] * 6)
    build.import_home(store, tmp_path)
    found = compare_job(store, "nightly", now=build.START / 1000 + DAY)
    assert found.job == f"hermes:{JOB}"
    assert found.verdict.startswith(
        "gpt-5-mini does worse at nightly: 2 of 8 succeeded, gpt-5.1 12 of 12 (at least"
    )
    assert {run.model for run in read_runs(store, "nightly")} == {big, small}
    (one,) = compare_jobs(store).jobs
    assert (one.job, one.pairs[0].verdict) == (f"hermes:{JOB}", "worse")


def test_refused_runs_are_not_the_cost_of_a_model_without_a_price(
    store: Store, tmp_path: Path
) -> None:
    runs = [("gpt-5.1", True)] * 3 + [("nobodys-27b", True)] * 3 + [("nobodys-27b", False)] * 2
    write_hermes_runs(tmp_path, runs, tokens_of_failed=0)
    build.import_home(store, tmp_path)
    found = compare_job(store, "nightly", now=build.START / 1000 + DAY)
    arm = next(arm for arm in found.models if arm.model == "nobodys-27b")
    assert (arm.runs, arm.cost_per_call_usd, arm.cost_per_success_usd) == (5, None, None)
    assert [pair.is_cheaper for pair in found.pairs] == [None]


def test_a_job_that_never_ran_or_is_unknown_is_an_error(store: Store, tmp_path: Path) -> None:
    write_hermes_runs(tmp_path, [])
    build.import_home(store, tmp_path)
    with pytest.raises(RelightError, match="the job 'nightly' has not run yet"):
        compare_job(store, "nightly")
    with pytest.raises(RelightError, match="there is no job 'daily'"):
        compare_job(store, "daily")
    assert compare_jobs(store).jobs == []
