"""Sessions cut by task: one template for each, with the evidence of its own part."""

from pathlib import Path
from typing import Any

import pytest

import build
import build_messages as say
import build_warm
from relight.errors import RelightError
from relight.reports.labels import label_session
from relight.reports.sessions import find_session
from relight.store import Store
from relight.warm.candidates import capture_candidates
from relight.warm.capture import capture_tasks, capture_template
from relight.warm.curation import find_weakest
from relight.warm.gate import find_failed_rules, find_refusal, is_recovered, read_figures
from relight.warm.library import find_template
from relight.warm.material import Material, begins_task, cut_tasks
from terminal import Cli

FIRST = "Fix the rounding of invoice totals in the billing module"
SECOND = "Thanks! Now please add a JSON flag to the export command of the shop"
PASSED, FAILED = "12 passed in 0.31s", "1 failed, 11 passed in 0.31s"


def work(prompt: str, mark: str, *, calls: int = 12, last: str = "all is well") -> list[Any]:
    """What a session does for one prompt: calls that work, tests, an answer."""
    messages = [say.user(prompt)]
    for number in range(calls):
        line = f"{mark} --step {number} src/{mark}.py"
        messages += say.act(f"{mark}_{number}", "bash", f"{mark} {number}: well", command=line)
    messages += say.act(f"{mark}_tests", "bash", last, command=f"pytest tests/{mark}")
    return [*messages, say.assistant(f"Done with {mark}.")]


def material(*parts: list[Any], **facts: Any) -> Material:
    messages = [{"role": "system", "content": say.POLICY}, *(one for part in parts for one in part)]
    return Material(
        **{"messages": messages, "calls": [], "outcome": "unknown", "evidence": []} | facts
    )


def record(store: Store, home: Path, messages: list[Any], calls: list[Any] | None = None) -> str:
    line = {"id": "s-1", "messages": messages, "calls": calls or [], "project": "/srv/shop"}
    (home / "chats.jsonl").write_bytes(build.as_lines([line]))
    build.import_home(store, home, sources=["chat"], folder=home / "chats.jsonl")
    return "chat:s-1"


@pytest.mark.parametrize(
    ("text", "is_new"),
    [
        (FIRST, True),
        (SECOND, True),
        ("Write the release notes for version two", True),
        ("yes, go ahead and run all the tests again", False),
        ("go on", False),
        ("No, that is still wrong: the cents are lost", False),
        ("Thanks, looks good", False),
        ("2", False),
        ("Please always provide EXACTLY ONE action in triple backticks, found 4 actions.", False),
        ("<system-reminder>\nRemember the list of open tasks here.\n</system-reminder>", False),
    ],
)
def test_a_prompt_that_answers_thanks_or_corrects_begins_no_task(text: str, is_new: bool) -> None:
    assert begins_task(text) == is_new


def test_each_task_has_its_prompt_its_calls_and_the_evidence_of_its_part() -> None:
    whole = material(
        work(FIRST, "round", last=PASSED),
        [say.user("yes, go on"), say.assistant("I did.")],
        work(SECOND, "export", last=FAILED),
        outcome="failure",
        evidence=["the last test run failed"],
    )
    first, second = cut_tasks(whole, {"tests_passed"})
    assert first.messages[0]["role"] == second.messages[0]["role"] == "system"
    assert first.messages[1]["content"] == FIRST
    assert first.messages[-1]["content"] == "I did."
    assert second.messages[1]["content"] == SECOND
    assert len(first.messages) + len(second.messages) == len(whole.messages) + 1
    assert first.outcome == "success"
    assert first.evidence[0].startswith("the tests run last passed")
    assert first.evidence[-1] == "task 1 of 2 of the session"
    assert (second.outcome, second.evidence[0]) == ("failure", "the last test run failed")
    # without a proven sign the first task is as unknown as such a session is
    assert cut_tasks(whole)[0].outcome == "unknown"


def test_a_persons_word_is_about_every_task_unless_its_part_says_otherwise() -> None:
    said = {"outcome": "success", "evidence": ["a person said success: all done"]}
    good = material(work(FIRST, "round"), work(SECOND, "export"), **said)
    assert [one.outcome for one in cut_tasks(good)] == ["success", "success"]
    mixed = material(work(FIRST, "round", last=FAILED), work(SECOND, "export"), **said)
    assert cut_tasks(mixed, {"tests_failed"})[0].outcome == "failure"
    assert cut_tasks(mixed)[0].outcome == "unknown"


@pytest.mark.parametrize(
    "parts",
    [
        [work(FIRST, "round")],
        [work(FIRST, "round"), work(SECOND, "export", calls=2)],
        [work(FIRST, "round", calls=1), work(SECOND, "export")],
        [[], []],
    ],
)
def test_what_is_too_short_to_learn_from_is_no_task_of_its_own(parts: list[list[Any]]) -> None:
    whole = material(*parts)
    assert cut_tasks(whole) == [whole]


def test_a_session_of_two_tasks_makes_two_templates_with_names_of_their_tasks(
    tmp_path: Path,
) -> None:
    with build_warm.open_warm(tmp_path) as store:
        session = record(store, tmp_path, [*work(FIRST, "round"), *work(SECOND, "export")])
        label_session(store, find_session(store, session), "success")
        made = capture_tasks(store, session)
        assert [one.name for one in made] == [
            "fix-rounding-invoice-totals-billing",
            "add-json-flag-export-command",
        ]
        assert [one.task for one in made] == [FIRST, SECOND]
        assert {one.source_session for one in made} == {session}
        assert "task 1 of 2 of the session" in made[0].evidence
        assert not any("export" in str(message) for message in made[0].seed[1:])
        with pytest.raises(RelightError, match="there is no task 3: the session has 2 tasks"):
            capture_template(store, session, task=3)


def test_a_name_is_that_of_the_first_task_and_the_others_get_a_number(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path) as store:
        messages = [*work(FIRST, "round"), *work(SECOND, "export")]
        session = record(store, tmp_path, messages)
        label_session(store, find_session(store, session), "success")
        first = capture_template(store, session, name="billing")
        second = find_template(store, "billing-2")
        assert [(one.name, one.task) for one in (first, second)] == [
            ("billing", FIRST),
            ("billing-2", SECOND),
        ]
        assert "task 1 of 2 of the session" in first.evidence
        # a session that is not in the store is cut in the same way, and again into versions
        again = capture_template(
            store, "told:1", name="billing", messages=messages, outcome="success", force=True
        )
        assert (again.name, again.version, again.task) == ("billing", 2, FIRST)
        assert find_template(store, "billing-2").version == 2


def test_tasks_of_one_session_do_not_retire_one_another(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, live=2) as store:
        build_warm.capture(store, "Something else that was done before", name="older")
        session = record(store, tmp_path, [*work(FIRST, "round"), *work(SECOND, "export")])
        label_session(store, find_session(store, session), "success")
        made = [one.name for one in capture_tasks(store, session)]
        assert len(made) == 2
        weakest = find_weakest(store, find_template(store, made[1]))
        assert made[0] not in [one.name for one in weakest]
        with pytest.raises(RelightError, match=f"{made[0]} has the same content"):
            capture_tasks(store, session)


def test_a_failed_last_task_leaves_the_template_of_the_one_before(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:  # its labels have proven what tests say
        told = [*work(FIRST, "round", last=PASSED), *work(SECOND, "export", last=FAILED)]
        session = record(store, tmp_path, told)
        (made,) = capture_tasks(store, session)
        assert (made.task, made.outcome) == (FIRST, "success")
        found = capture_candidates(store, dry_run=True)
    assert [one.template for one in found] == []  # it made one already


def test_import_and_auto_make_candidates_of_single_tasks(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        told = [*work(FIRST, "round", last=PASSED), *work(SECOND, "export", last=FAILED)]
        record(store, tmp_path, told)
        found = capture_candidates(store, dry_run=True)
    (one,) = found  # the import has proposed it
    assert one.template is not None
    assert (one.template.task, one.reason) == (FIRST, "was a candidate")


def stumble(calls: int, failed: int) -> tuple[list[Any], list[Any]]:
    """A session whose first calls fail, and the facts about its calls."""
    messages = [say.user(FIRST)]
    facts = []
    for number in range(calls):
        line = f"python{'' if number < failed else 3} run.py {number}"
        messages += say.act(f"c{number}", "bash", "output", command=line)
        facts.append({"call_id": f"c{number}", "exit_code": 127 if number < failed else 0})
    return [*messages, say.assistant("Done.")], facts


@pytest.mark.parametrize(("failed", "passes"), [(8, True), (12, False), (0, True)])
def test_a_session_that_failed_early_and_recovered_passes_the_gate(
    tmp_path: Path, failed: int, passes: bool
) -> None:
    with build_warm.open_warm(tmp_path) as store:
        session = record(store, tmp_path, *stumble(20, failed))
        row = find_session(store, session)
        label_session(store, row, "success")
        figures = read_figures(store, row)
        assert figures.error_rate == failed / 20
        assert (find_refusal(store, row, session) is None) == passes
        found = capture_candidates(store, dry_run=True)
        assert [one.template is not None for one in found] == ([True] if passes else [])
        if passes:
            made = capture_template(store, session)
            assert made.outcome == "success"
        else:
            assert "too many failures: 60.0% of 20 calls failed" in find_failed_rules(figures)[0]
            assert not is_recovered(figures)


def test_template_create_makes_one_of_each_task_or_of_the_one_asked_for(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    with build.open_home(tmp_path) as store:
        session = record(store, tmp_path, [*work(FIRST, "round"), *work(SECOND, "export")])
        label_session(store, find_session(store, session), "success")
    second = cli.json("template", "create", session, "--task", "2", "--no-import")
    assert (second["name"], second["more"]) == ("add-json-flag-export-command", [])
    first = cli.run("template", "create", session, "--no-import")
    assert "fix-rounding-invoice-totals-billing version 1" in first.stdout
    with build.open_home(tmp_path) as store:
        assert find_template(store, "fix-rounding-invoice-totals-billing").task == FIRST
