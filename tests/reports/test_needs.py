"""Things that need a person: each named, with the command that leads to it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

import build
import build_warm
from build_dashboard import HOSTILE
from relight.intake.recorder import record
from relight.model import OutcomeName
from relight.reports.budgets import set_limit
from relight.reports.labels import label_session
from relight.reports.needs import Need, describe_needs, find_failing_jobs, find_needs
from relight.reports.runs import JobReport, read_jobs
from relight.reports.sessions import find_session
from relight.reports.spirals import read_spirals
from relight.reports.totals import report
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.warm.library import retire_template

JOB = JobReport(
    job="nightly", name="nightly", schedule=None, timezone=None, runner="chat", skills=[],
    model=None, provider=None, script=None, state="scheduled", created_at=None, next_run_at=None,
    is_overdue=False, runs=2, successes=0, failures=2, unknown=0, last_run_at=None,
    last_outcome="failure", trouble="the last 2 runs failed",
)  # fmt: skip


def look(store: Store, chosen: Filter | None = None) -> list[Need]:
    part = chosen or Filter()
    jobs, spirals = read_jobs(store), read_spirals(store, part)
    found = find_needs(store, part, jobs, spirals=spirals)
    # pages have counted the sessions before
    unknown = report(store, ("day",), part).total.unknown
    assert find_needs(store, part, jobs, spirals=spirals, unknown=unknown) == found
    return found


def finish(store: Store, name: str, outcome: OutcomeName, **about: str) -> None:
    with record(store, name, **{"model": "claude-haiku-4-5", **about}) as rec:  # type: ignore[arg-type]
        rec.turn(input_tokens=10, output_tokens=1)
        rec.finish(outcome)


def test_nothing_needs_anybody_when_all_is_known_and_well(store: Store) -> None:
    assert look(store) == []
    finish(store, "one", "success")
    finish(store, "two", "failure")
    assert look(store) == []


def test_a_session_without_an_outcome_needs_a_label_until_it_has_one(store: Store) -> None:
    finish(store, "one", "unknown")
    finish(store, "two", "unknown")
    (need,) = look(store)
    assert (need.kind, need.title, need.command) == (
        "outcome", "2 sessions have no outcome", "relight label",
    )  # fmt: skip
    label_session(store, find_session(store, "relight:one"), "success")
    assert look(store)[0].title == "1 session has no outcome"
    # a person who cannot say either is asked no more
    label_session(store, find_session(store, "relight:two"), "unknown")
    assert look(store) == []


def test_a_model_without_a_price_is_named_and_one_with_a_price_is_not(store: Store) -> None:
    finish(store, "one", "success", model="my-own-model")
    finish(store, "two", "success")
    (need,) = look(store)
    assert (need.kind, need.title, need.name) == ("price", "my-own-model", "my-own-model")
    assert need.reason == "no price is known: 1 turn missing from the cost"
    assert look(store, Filter(until="2000-01-01")) == []


def test_one_line_names_the_turns_of_all_models_without_a_price(store: Store) -> None:
    finish(store, "one", "success", model="my-own-model")
    assert describe_needs(look(store)) == [
        "my-own-model: no price is known: 1 turn missing from the cost: relight doctor"
    ]
    for number, model in enumerate(("my-own-model", "another-model", "a-third-model")):
        finish(store, f"more-{number}", "success", model=model)
    (line,) = describe_needs(look(store))
    assert line == (
        "my-own-model (and 2 more): no price is known: 4 turns missing from the cost:"
        " relight doctor"
    )


def test_a_line_of_several_needs_gives_the_reason_of_the_one_it_names() -> None:
    needs = find_failing_jobs([JOB, replace(JOB, job="b", name="b")])
    assert describe_needs(needs) == [
        "nightly: the last 2 runs failed (and 1 more): relight job history nightly"
    ]


def test_a_candidate_waits_until_it_is_accepted_or_declined(store: Store) -> None:
    name = build_warm.capture(store, "Deploy the search cluster").name
    with store.transaction() as database:
        database.execute("update template set proposed_at = 1")
    (need,) = look(store)
    assert (need.kind, need.title) == ("candidate", "1 candidate waits to be accepted")
    assert need.command == "relight template list --candidates"
    retire_template(store, name, why="declined")
    assert look(store) == []


def test_a_spiral_leads_to_its_session(tmp_path: Path, store: Store) -> None:
    lines = [build.claude_prompt("Mend it")]
    for number in range(4):
        call = build.tool_use(f"t{number}", command="pytest -q")
        lines.append(build.claude_answer(f"m{number}", call, at=number * 2 + 1))
        text = "Exit code 127\nbash: no: command not found"
        lines.append(build.claude_result(f"t{number}", text, at=number * 2 + 2, is_error=True))
    build.write_claude(tmp_path, lines)
    build.import_home(store, tmp_path)
    (need,) = [one for one in look(store) if one.kind == "spiral"]
    assert need.name == f"claude-code:{build.CLAUDE_SESSION}"
    assert need.reason.startswith("$")
    assert need.reason.endswith(": Bash failed 4 times, the same call")
    assert need.command == f"relight show {need.name} --errors"


def test_jobs_that_fail_are_named_with_their_history() -> None:
    (need,) = find_failing_jobs([JOB, replace(JOB, job="b", name="b", trouble=None)])
    assert (need.title, need.reason) == ("nightly", "the last 2 runs failed")
    assert need.command == "relight job history nightly"


def test_a_paused_job_fails_no_more() -> None:
    assert find_failing_jobs([replace(JOB, state="paused")]) == []


def test_jobs_of_one_name_are_told_apart() -> None:
    other = replace(JOB, job="hermes:4d9a61c07b3e")
    commands = [one.command for one in find_failing_jobs([JOB, other])]
    assert commands == ["relight job history nightly", "relight job history hermes:4d9a61c07b3e"]


@pytest.mark.parametrize("name", ["two words", "$(rm -rf ~)", "it's", HOSTILE])
def test_a_name_is_one_word_of_the_command(name: str) -> None:
    import shlex

    (need,) = find_failing_jobs([replace(JOB, name=name)])
    assert shlex.split(need.command) == ["relight", "job", "history", name]


def test_a_budget_that_is_over_needs_a_person_and_one_that_is_not_does_not(store: Store) -> None:
    with record(store, "one", model="claude-haiku-4-5") as rec:
        rec.turn(input_tokens=1_000_000, output_tokens=1)
        rec.finish("success")
    set_limit(store, "all", "99/day", stops=False)
    assert look(store) == []
    set_limit(store, "all", "0.50/day", stops=False)
    (need,) = look(store)
    assert (need.kind, need.title) == ("budget", "$0.50 a day for everything")
    assert need.reason == "The budget of $0.50 a day for everything is used up: $1.00 spent"
