"""The steps of a session, a page at a time: each once, in order, with the cost so far."""

from pathlib import Path

import pytest
from msgspec.structs import asdict

import build
from relight.errors import RelightError
from relight.reports.sessions import find_session, read_head, read_session
from relight.reports.steps import read_steps
from relight.store import Store
from relight.store.queries.steps import CallStep, SessionCall, SessionTurn, TurnStep

FORK = "99999999-bbbb-4bbb-8bbb-999999999999"


@pytest.fixture
def store(tmp_path: Path, store: Store) -> Store:
    """A long session, and a fork of it that copied its first turns and calls."""
    lines = [build.claude_prompt("Count to a hundred")]
    for number in range(40):
        use = build.tool_use(f"toolu_{number}", command=f"echo {number}")
        # two steps at the same moment, as agents that call tools at once write them
        lines.append(build.claude_answer(f"msg_{number}", use, at=number // 2, stop="tool_use"))
        lines.append(build.claude_result(f"toolu_{number}", str(number), at=number // 2))
    build.write_claude(tmp_path, lines)
    copied = [line | {"sessionId": FORK} for line in lines[:21]]
    copied.append(build.claude_answer("msg_fork", at=90, sessionId=FORK))
    build.write_claude(tmp_path, copied, name=FORK)
    build.import_home(store, tmp_path)
    return store


@pytest.mark.parametrize("limit", [1, 3, 7, 80, 1000])
@pytest.mark.parametrize("name", [build.CLAUDE_SESSION, FORK])
def test_pages_have_every_step_once_and_in_order(store: Store, name: str, limit: int) -> None:
    session_id = find_session(store, name)
    whole = read_session(store, session_id)
    steps: list[TurnStep | CallStep] = []
    after, costs = None, 0.0
    while True:
        page = read_steps(store, session_id, after=after, limit=limit)
        assert page.cost_before_usd == pytest.approx(costs)
        steps += page.steps
        costs += sum(one.cost_usd or 0.0 for one in page.steps if isinstance(one, TurnStep))
        if (after := page.next) is None:
            break
    turns = [SessionTurn(**asdict(one)) for one in steps if isinstance(one, TurnStep)]
    calls = [SessionCall(**asdict(one)) for one in steps if isinstance(one, CallStep)]
    assert turns == whole.turns
    assert calls == whole.tool_calls
    times = [one.at or "" for one in steps]
    assert times == sorted(times)


def test_a_fork_shows_the_steps_it_copied(store: Store) -> None:
    steps = read_steps(store, find_session(store, FORK)).steps
    assert [one.step for one in steps].count("call") == 10
    shared = [one.is_shared for one in steps if isinstance(one, TurnStep)]
    assert (shared.count(True), shared.count(False)) in ((10, 1), (0, 11))


def test_a_session_is_told_without_its_steps_where_nobody_asks_for_them(store: Store) -> None:
    session_id = find_session(store, FORK)
    whole, head = read_session(store, session_id), read_head(store, session_id)
    assert asdict(whole) == {**asdict(head), "turns": whole.turns, "tool_calls": whole.tool_calls}


@pytest.mark.parametrize("after", ["", "1", "1_2_3", "1_0", "x_0_1", "1_0_1_1"])
def test_a_place_that_is_none_is_told(store: Store, after: str) -> None:
    with pytest.raises(RelightError, match="not a place in a session"):
        read_steps(store, find_session(store, FORK), after=after)


def test_a_place_beyond_the_end_has_no_steps(store: Store) -> None:
    page = read_steps(store, find_session(store, FORK), after=f"{10**19 - 1}_1_{10**19 - 1}")
    assert (page.steps, page.next) == ([], None)
    for limit in (0, 1001):
        with pytest.raises(RelightError):
            read_steps(store, find_session(store, FORK), limit=limit)


def test_a_call_of_a_turn_that_another_session_owns_is_listed_once(tmp_path: Path) -> None:
    asked = build.claude_prompt("List the files")
    answer = build.claude_answer("msg_1", at=1)
    call = build.claude_answer(
        "msg_1", build.tool_use("toolu_1", command="ls"), at=1, stop="tool_use"
    )
    build.write_claude(tmp_path, [asked, answer])
    result = build.claude_result("toolu_1", "a.txt", at=2)
    end = build.claude_answer("msg_2", at=3)
    copied = [line | {"sessionId": FORK} for line in (asked, answer, call, result, end)]
    build.write_claude(tmp_path, copied, name=FORK)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        page = read_steps(store, find_session(store, FORK))
    assert [type(step) for step in page.steps] == [TurnStep, CallStep, TurnStep]
