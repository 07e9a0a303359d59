"""Reading conversations, turning them into Anthropic's format, and what the APIs would refuse."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from build_messages import (
    Message,
    answered_messages,
    ask,
    assistant,
    call,
    coding_session,
    merge_calls,
    messy_messages,
    result,
    service_session,
    user,
)
from relight.chat.blocks import wrap_block
from relight.chat.messages import read_arguments, read_entries, read_text, to_anthropic
from relight.chat.validity import check_messages, validate_messages
from relight.errors import RelightError
from relight.judging.features import measure_session
from relight.judging.kinds import classify_session
from relight.judging.scoring import score_session
from relight.warm.injection import wrap_messages
from relight.warm.seeds import extract_seed
from relight.warm.units import render_text

GOOD = [user("Look."), ask(call("a", "Read", path="x")), result("a", "text"), assistant("Seen.")]


def both(messages: list[Any]) -> list[str]:
    return validate_messages(messages) + validate_messages(messages, rules="anthropic")


def test_results_are_joined_by_id_whatever_their_order() -> None:
    messages = [ask(call("a", "Read"), call("b", "Bash")), result("b", "two"), result("a", "one")]
    assert [one.result for one in read_entries(messages)[0].calls] == ["one", "two"]


def test_a_result_with_a_reused_id_answers_the_latest_call() -> None:
    messages = [ask(call("a", "Read")), ask(call("a", "Bash")), result("a", "text")]
    calls = [one.calls[0] for one in read_entries(messages)]
    assert [(one.tool, one.has_result) for one in calls] == [("Read", False), ("Bash", True)]


def test_calls_of_one_message_with_the_same_id_are_answered_in_order() -> None:
    messages = [ask(call("a", "Read"), call("a", "Bash")), result("a", "one"), result("a", "two")]
    assert [one.result for one in read_entries(messages)[0].calls] == ["one", "two"]


def test_results_may_come_after_another_message_of_the_assistant() -> None:
    asked = [ask(call("a", "Read")), ask(call("b", "Bash"))]
    entries = read_entries([*asked, result("a", "one"), result("b", "two")])
    assert [entry.calls[0].result for entry in entries] == ["one", "two"]


def test_a_result_that_answers_nothing_is_left_out() -> None:
    assert [one.text for one in read_entries([user("Hi"), result("x", "text")])] == ["Hi"]


def test_a_custom_call_has_its_input_as_arguments() -> None:
    asked = {"id": "a", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}}
    assert read_entries([ask(asked)])[0].calls[0].arguments == "*** Begin"


def test_content_may_be_text_parts_an_object_or_nothing() -> None:
    assert read_text("a") == "a"
    assert read_text([{"type": "text", "text": "a"}, "b"]) == "a\nb"
    assert read_text({"text": "a"}) == "a"
    assert read_text(None) == ""
    assert read_text(7) == "7"


@pytest.mark.parametrize("arguments", ["", "{", "[]", '"x"', '{"a": NaN}', None, "[" * 100_000])
def test_what_is_no_json_object_is_no_arguments(arguments: object) -> None:
    assert read_arguments(arguments) is None


def test_good_messages_have_no_problems() -> None:
    assert both(GOOD) == []
    assert both([{"role": "system", "content": "Be brief."}, *GOOD]) == []
    assert both([]) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([assistant("Hi")], "messages[0]: the assistant speaks first"),
        (GOOD[:2], "messages[1]: the call 'a' has no result before the end"),
        (
            [*GOOD[:2], user("And?"), GOOD[2]],
            "messages[1]: the call 'a' has no result before messages[2]",
        ),
        ([*GOOD[:3], GOOD[2]], "messages[3]: the result answers no open call ('a')"),
        ([*GOOD, *GOOD[1:]], "messages[4]: the id 'a' is used twice"),
        ([user("Hi"), ask()], "messages[1]: tool_calls must be a list of calls"),
        (
            [user("Hi"), ask(call("a", "b c")), result("a", "x")],
            "messages[1]: 'b c' is not a tool's name",
        ),
        (
            [user("Hi"), ask(call("", "x")), result("", "x")],
            "messages[1]: a call without an id",
        ),
        ([{"role": "critic", "content": "x"}], "messages[0]: no message, or its role 'critic'"),
        (["text"], "messages[0]: no message"),
        ([{"role": "user", "content": None}], "messages[0]: no content"),
        (
            [{"role": "user", "content": [{"type": "video"}]}],
            "messages[0]: a part of an unknown type 'video'",
        ),
    ],
)
def test_what_both_apis_refuse_is_reported_with_its_place(
    messages: list[Any], problem: str
) -> None:
    for rules in ("openai", "anthropic"):
        assert any(one.startswith(problem) for one in validate_messages(messages, rules=rules))


@pytest.mark.parametrize(
    ("messages", "rules", "problem"),
    [
        ([user("Hi"), ask(call("x" * 41, "y")), result("x" * 41, "z")], "openai", "longer than 40"),
        ([user("Hi"), ask(call("a.b", "y")), result("a.b", "z")], "anthropic", "characters other"),
        ([user(" ")], "anthropic", "empty content"),
        ([*GOOD, {"role": "system", "content": "x"}], "anthropic", "after the conversation began"),
    ],
)
def test_what_only_one_api_refuses_is_reported_for_it(
    messages: list[Any], rules: str, problem: str
) -> None:
    other = "openai" if rules == "anthropic" else "anthropic"
    assert problem in " ".join(validate_messages(messages, rules=rules))
    assert validate_messages(messages, rules=other) == []


def test_arguments_that_are_no_object_are_refused_by_anthropic_only() -> None:
    asked = {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{"}}
    messages = [user("Hi"), ask(asked), result("a", "y")]
    assert validate_messages(messages) == []
    assert "no JSON object" in validate_messages(messages, rules="anthropic")[0]
    with pytest.raises(
        RelightError, match="message 1 calls x with arguments that are not an object"
    ):
        to_anthropic(messages)


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(RelightError, match="no rules named 'mistral'"):
        validate_messages([], rules="mistral")


def use(key: str, **fields: Any) -> Message:
    return {"type": "tool_use", "id": key, "name": "Read", "input": {}} | fields


def answer(key: str) -> Message:
    return {"type": "tool_result", "tool_use_id": key, "content": "x"}


TEXT = {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ([("user", [TEXT]), ("assistant", [use("a")]), ("user", [answer("a"), TEXT])], ""),
        ([("user", "Hi"), ("assistant", [use("a")]), ("user", [TEXT])], "no result before"),
        ([("user", "Hi"), ("assistant", [use("a")])], "no result before the end"),
        ([("user", [answer("a")])], "answers no call of the turn before"),
        ([("assistant", [use("a")]), ("user", [answer("a")])], "the assistant speaks first"),
        (
            [("user", "Hi"), ("assistant", [use("a")]), ("user", [TEXT, answer("a")])],
            "results must stand before all else",
        ),
        (
            [("user", "Hi"), ("user", "Ho"), ("assistant", [use("a")]), ("user", [answer("a")])],
            "two turns of the same role",
        ),
        (
            [("user", "Hi"), ("assistant", [use("a", input="x")]), ("user", [answer("a")])],
            "must be an object",
        ),
        ([("user", [use("a")]), ("assistant", [TEXT])], "a call in a user turn"),
        ([("user", [answer("a")]), ("system", "x")], "neither user nor assistant"),
        ([("user", [{"type": "thinking"}, {"type": "text", "text": ""}])], "an empty text part"),
    ],
)
def test_blocks_are_judged_by_anthropics_rules(turns: list[Any], problem: str) -> None:
    messages = [{"role": role, "content": content} for role, content in turns]
    problems = validate_messages(messages, rules="anthropic")
    assert problem in " ".join(problems) if problem else problems == []


def test_results_become_blocks_before_the_users_text() -> None:
    system, turns = to_anthropic([{"role": "system", "content": "Be brief."}, *GOOD[:3], user("?")])
    assert system == "Be brief."
    assert turns == [
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": [use("a", input={"path": "x"})]},
        {"role": "user", "content": [answer("a") | {"content": "text"}, TEXT | {"text": "?"}]},
    ]


def test_images_become_blocks() -> None:
    data = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    link = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    _, turns = to_anthropic([{"role": "user", "content": [data, link]}])
    assert [block["source"] for block in turns[0]["content"]] == [
        {"type": "base64", "media_type": "image/png", "data": "AA"},
        {"type": "url", "url": "https://example.org/a.png"},
    ]


@given(answered_messages())
def test_what_is_valid_for_anthropic_converts_to_valid_blocks(messages: list[Message]) -> None:
    if not validate_messages(messages, rules="anthropic"):
        assert validate_messages(to_anthropic(messages)[1], rules="anthropic") == []


@given(messy_messages)
def test_no_messages_are_too_messy_to_be_judged(messages: list[Any]) -> None:
    assert all(isinstance(one, str) for one in both(messages))
    assert len(read_entries(messages)) <= len(messages)


@pytest.mark.parametrize("size", [1, 3])
def test_calls_merged_into_parallel_ones_are_valid(size: int) -> None:
    for messages in (service_session(1)[0], coding_session(1)):
        assert both(merge_calls(messages, size)) == []


@pytest.mark.parametrize("number", range(3))
def test_an_example_put_before_a_session_is_in_no_count_of_it(number: int) -> None:
    own = coding_session(number)
    seed = extract_seed(service_session(number)[0])
    given = [own[0], *wrap_messages(seed, "earlier"), *own[1:]]
    block = wrap_block(render_text(seed), name="earlier", version=1)
    told = [own[0], user(f"{block}\n\n{own[1]['content']}"), *own[2:]]
    parts = [{"type": "text", "text": block}, {"type": "text", "text": own[1]["content"]}]
    for messages in (given, told, [own[0], {"role": "user", "content": parts}, *own[2:]]):
        assert measure_session(messages) == measure_session(own)
        assert extract_seed(messages) == extract_seed(own)
        assert classify_session(messages) == classify_session(own)


def test_messages_may_come_from_any_iterable_and_are_read_once() -> None:
    messages = coding_session(1)
    assert score_session(iter(messages)) == score_session(messages)
    assert extract_seed(iter(messages)) == extract_seed(messages)
    assert classify_session(iter(messages)) == classify_session(messages)
    assert check_messages(iter(messages)) == messages
    wrong = [*messages, {"role": "assistant", "content": ""}]
    assert validate_messages(iter(wrong), rules="anthropic")


@pytest.mark.parametrize("messages", [None, "Hi", {"role": "user"}, 7])
@pytest.mark.parametrize(
    "read", [score_session, extract_seed, classify_session, validate_messages, check_messages]
)
def test_what_is_no_list_of_messages_is_refused(messages: Any, read: Callable[..., Any]) -> None:
    with pytest.raises(RelightError, match=r"^messages must be a list of OpenAI chat messages$"):
        read(messages)
