"""Spirals are found, and what they burnt is counted once."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from relight.judging.spirals import JudgedCall, Spiral, find_spirals

Label = Literal["ok", "negative", "error", "unknown"]


def fail(tool: str = "bash", arguments: str = "x", turn: int | None = None) -> JudgedCall:
    return JudgedCall(tool, arguments, "error", turn)


def succeed(tool: str = "bash", label: Label = "ok") -> JudgedCall:
    return JudgedCall(tool, "x", label)


def test_three_equal_failures_are_a_spiral() -> None:
    assert find_spirals([fail()] * 3) == [
        Spiral("bash", "identical", 3, 0, 2, None, None, unknown_turns=3, positions=(0, 1, 2))
    ]


def test_two_equal_failures_are_not() -> None:
    assert find_spirals([fail(), fail(), succeed()]) == []


def test_ninety_equal_failures_are_one_spiral() -> None:
    (spiral,) = find_spirals([succeed(), *[fail()] * 90])
    assert (spiral.count, spiral.first, spiral.last) == (90, 1, 90)


def test_a_success_in_between_ends_a_run() -> None:
    assert find_spirals([fail(), fail(), succeed(), fail(), fail()]) == []


def test_an_answer_of_no_is_a_success_of_the_call() -> None:
    assert find_spirals([succeed(label="negative")] * 9) == []


def test_a_call_without_verdict_neither_ends_a_run_nor_counts() -> None:
    (spiral,) = find_spirals([fail(), succeed(label="unknown"), fail(), fail()])
    assert (spiral.count, spiral.last) == (3, 3)


def test_looking_around_with_another_tool_does_not_hide_a_spiral() -> None:
    (spiral,) = find_spirals([fail(), succeed("read"), fail(), succeed("read"), fail()])
    assert (spiral.kind, spiral.count) == ("identical", 3)


def test_looking_around_with_the_same_shell_does_not_hide_a_spiral() -> None:
    look = JudgedCall("bash", "ls", "ok", is_harmless=True)
    (spiral,) = find_spirals([fail(), look, fail(), look, fail(arguments="y"), fail()])
    assert (spiral.kind, spiral.count, spiral.last) == ("identical", 3, 5)


def test_something_done_by_the_same_tool_ends_a_run_of_equal_calls() -> None:
    done = JudgedCall("bash", "make", "ok")
    assert find_spirals([fail(), done, fail(), done, fail()]) == []


def test_five_different_failures_of_one_tool_are_a_spiral() -> None:
    (spiral,) = find_spirals([fail(arguments=str(number)) for number in range(5)])
    assert (spiral.kind, spiral.count) == ("tool", 5)
    assert find_spirals([fail(arguments=str(number)) for number in range(4)]) == []


def test_tools_are_followed_separately() -> None:
    calls = [call for _ in range(3) for call in (fail("bash"), fail("edit"))]
    assert [spiral.tool for spiral in find_spirals(calls)] == ["bash", "edit"]


def test_the_cost_of_a_turn_is_counted_once_for_all_its_calls() -> None:
    calls = [JudgedCall("bash", "x", "error", turn, 100, 7) for turn in (1, 1, 2)]
    (spiral,) = find_spirals(calls)
    assert (spiral.tokens, spiral.cost_nanos, spiral.unknown_turns) == (200, 14, 0)


def test_unknown_cost_is_reported_and_not_taken_for_zero() -> None:
    calls = [
        JudgedCall("bash", "x", "error", 1, 100, 7),
        JudgedCall("bash", "x", "error", 2, None, None),
        JudgedCall("bash", "x", "error", 3, 50, None),
    ]
    (spiral,) = find_spirals(calls)
    assert (spiral.tokens, spiral.cost_nanos, spiral.unknown_turns) == (150, 7, 2)


def test_shares_of_a_sum_are_added_and_shown_as_an_estimate() -> None:
    calls = [JudgedCall("bash", "x", "error", 1, 1100.4, 70.4, is_share=True)] * 3
    (spiral,) = find_spirals(calls)
    assert (spiral.tokens, spiral.cost_nanos, spiral.unknown_turns) == (3301, 211, 0)
    assert spiral.is_estimated


@given(
    st.lists(
        st.builds(
            JudgedCall,
            st.sampled_from(["bash", "edit"]),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["ok", "error", "unknown", "negative"]),
        ),
        max_size=40,
    )
)
def test_no_call_is_in_two_spirals(calls: list[JudgedCall]) -> None:
    spirals = find_spirals(calls)
    errors = sum(call.label == "error" for call in calls)
    assert sum(spiral.count for spiral in spirals) <= errors
    assert [spiral.first for spiral in spirals] == sorted(spiral.first for spiral in spirals)
