"""A session that was cut off inside a model call says what it cost at least."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import build
from relight.intake.rebuild import rebuild
from relight.reports.listing import list_sessions
from relight.reports.sessions import find_session, read_session
from relight.reports.totals import report
from relight.store import Store

PROMPT = build.claude_prompt("Fix the rounding")
CALL = build.claude_answer("m1", build.tool_use("t1", command="ls"), at=1, stop="tool_use")
RESULT = build.claude_result("t1", "a.txt", at=2)
ANSWER = build.claude_answer("m2", at=3)
STOP = build.claude_prompt("[Request interrupted by user]", at=3)
STOP_TOOL = build.claude_prompt("[Request interrupted by user for tool use]", at=3)
REJECTED = build.claude_result(
    "t1", "The user doesn't want to proceed with this tool use.", at=2, is_error=True
)
LIMIT = build.claude_line(
    "assistant",
    3,
    isApiErrorMessage=True,
    apiErrorStatus=429,
    message={
        "id": "e1",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [{"type": "text", "text": "API Error: 429 rate limit reached"}],
    },
)


def figures(store: Store) -> tuple[int | None, float | None, int | None]:
    total = report(store, ("model",)).total
    (listed,) = list_sessions(store).sessions
    shown = read_session(store, find_session(store, listed.session_id)).figures
    unpriced = {total.unpriced_turns, listed.unpriced_turns, shown.unpriced_turns}
    assert {total.cost_usd, shown.cost_usd} == {listed.cost_usd}
    assert len(unpriced) == 1
    return total.turns, total.cost_usd, unpriced.pop()


@pytest.mark.parametrize(
    ("lines", "turns", "unpriced"),
    [
        ([PROMPT], 0, 1),
        ([PROMPT, CALL], 1, 0),  # killed in the tool: every call is on record
        ([PROMPT, CALL, RESULT], 1, 1),
        ([PROMPT, CALL, RESULT, ANSWER], 2, 0),
        ([PROMPT, CALL, RESULT, STOP], 1, 1),
        ([PROMPT, CALL, REJECTED, STOP_TOOL], 1, 0),
        ([PROMPT, CALL, RESULT, LIMIT], 1, 0),
    ],
)
def test_a_call_without_an_answer_makes_the_cost_a_lower_bound(
    tmp_path: Path, store: Store, lines: list[dict[str, Any]], turns: int, unpriced: int
) -> None:
    build.write_claude(tmp_path, lines)
    build.import_home(store, tmp_path)
    found = figures(store)
    assert found[0] == turns
    assert found[2] == unpriced
    assert (found[1] is None) == (turns == 0)
    before = build.dump(store)
    rebuild(store, workers=1)
    assert build.dump(store) == before


def test_a_session_that_goes_on_was_not_cut_off(tmp_path: Path, store: Store) -> None:
    path = build.write_claude(tmp_path, [PROMPT, CALL, RESULT])
    build.import_home(store, tmp_path)
    assert figures(store)[2] == 1
    with path.open("ab") as file:
        file.write(build.as_lines([ANSWER]))
    build.import_home(store, tmp_path)
    assert figures(store)[2] == 0


def test_a_session_that_goes_on_after_a_compaction_was_not_cut_off(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    said = {"role": "user", "content": "go", "timestamp": build.START / 1000}
    build.insert(
        hermes, "sessions", id="first", source="cli", model="m", started_at=build.START / 1000
    )
    build.insert(hermes, "messages", session_id="first", **said)
    build.import_home(store, tmp_path)
    assert figures(store) == (0, None, 1)
    build.insert(
        hermes,
        "sessions",
        id="second",
        source="cli",
        model="m",
        parent_session_id="first",
        started_at=build.START / 1000 + 9,
    )
    answer = {"role": "assistant", "content": "Done.", "timestamp": build.START / 1000 + 10}
    build.insert(hermes, "messages", session_id="second", **answer)
    build.import_home(store, tmp_path)
    assert report(store, ("model",)).total.unpriced_turns == 0


def test_a_skill_is_charged_with_the_call_that_was_cut_off(tmp_path: Path, store: Store) -> None:
    import build_skills

    lines = [PROMPT, *build_skills.claude_skill("toolu_1", "tidy", at=2), CALL, RESULT]
    lines = [line | {"timestamp": build.stamp(at)} for at, line in enumerate(lines)]
    build.write_claude(tmp_path, lines)
    build.import_home(store, tmp_path)
    assert store.query("select cost_status, unpriced_turns from skill_invocations") == [
        ("partial", 1)
    ]
    build_skills.check_report(store)
