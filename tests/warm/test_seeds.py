"""The most instructive part of a session: what is taken, and that it is always valid."""

import copy
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build_messages import (
    POLICY,
    Message,
    act,
    answered_messages,
    ask,
    assistant,
    call,
    coding_session,
    merge_calls,
    messy_messages,
    result,
    run,
    service_session,
    shuffle_results,
    texts_of,
    user,
)
from relight.chat.messages import to_anthropic
from relight.chat.shorten import shorten_arguments, shorten_text
from relight.chat.tokens import estimate_messages, estimate_tokens
from relight.chat.validity import validate_messages
from relight.errors import RelightError
from relight.warm.injection import wrap_messages
from relight.warm.seeds import extract_seed
from relight.warm.units import render_text

budgets = st.one_of(st.just((30, 2000)), st.tuples(st.integers(0, 40), st.integers(0, 3000)))


def assert_sound(seed: list[Message], *, max_messages: int = 30, max_tokens: int = 2000) -> None:
    """What every seed must keep to, whatever it was made from."""
    assert len(seed) <= max_messages
    assert estimate_messages(seed) <= max_tokens
    for rules in ("openai", "anthropic"):
        assert validate_messages(seed, rules=rules) == []
        follow_up = [*wrap_messages(seed, "fix"), user("And now this.")]
        assert validate_messages(follow_up, rules=rules) == []
    assert validate_messages(to_anthropic(seed)[1], rules="anthropic") == []
    assert POLICY not in texts_of(seed)
    # the pairing once more, by other means: each message with calls is followed by their results
    at, keys = 0, []
    while at < len(seed):
        asked = [one["id"] for one in seed[at].get("tool_calls", [])]
        answers = [one.get("tool_call_id") for one in seed[at + 1 : at + 1 + len(asked)]]
        assert answers == asked
        assert seed[at]["role"] != "tool"
        keys += asked
        at += 1 + len(asked)
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch("c[0-9a-f]{8}", key) for key in keys)
    assert not seed or seed[0]["role"] == "user"
    json.dumps(seed).encode()


@given(st.one_of(messy_messages, answered_messages()), budgets)
def test_a_seed_of_any_conversation_is_valid_and_within_its_budget(
    messages: list[Any], budget: tuple[int, int]
) -> None:
    max_messages, max_tokens = budget
    before = copy.deepcopy(messages)
    seed = extract_seed(messages, max_messages=max_messages, max_tokens=max_tokens)
    assert_sound(seed, max_messages=max_messages, max_tokens=max_tokens)
    assert repr(messages) == repr(before)
    assert extract_seed(before, max_messages=max_messages, max_tokens=max_tokens) == seed


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("max_messages", range(0, 32, 3))
def test_seeds_stay_valid_when_calls_are_merged_into_parallel_ones(
    size: int, max_messages: int
) -> None:
    sessions = [service_session(3)[0], coding_session(4)]
    for messages in sessions:
        merged = merge_calls(messages, size)
        seed = extract_seed(merged, max_messages=max_messages)
        assert_sound(seed, max_messages=max_messages)
        assert seed or max_messages < size + 2


@given(answered_messages(), st.integers(2, 12), budgets, st.randoms(use_true_random=False))
def test_seeds_of_merged_calls_are_valid_in_whatever_order_their_results_came(
    messages: list[Message], size: int, budget: tuple[int, int], dice: Random
) -> None:
    merged = shuffle_results(merge_calls(messages, size), dice)
    seed = extract_seed(merged, max_messages=budget[0], max_tokens=budget[1])
    assert_sound(seed, max_messages=budget[0], max_tokens=budget[1])


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=12),
    st.integers(0, 40),
    st.randoms(use_true_random=False),
)
def test_every_call_keeps_its_own_result_however_many_were_made_at_once(
    sizes: list[int], max_messages: int, dice: Random
) -> None:
    messages, number = [user("Count the files of each folder")], 0
    for size in sizes:
        numbers = range(number, number + size)
        messages.append(ask(*(call(f"k{n}", "bash", command=f"ls f{n} | wc -l") for n in numbers)))
        messages += [result(f"k{n}", f"f{n} has {n} files") for n in numbers]
        number += size
    seed = extract_seed(shuffle_results(messages, dice), max_messages=max_messages)
    assert_sound(seed, max_messages=max_messages)
    asked = {c["id"]: c["function"]["arguments"] for m in seed for c in m.get("tool_calls", ())}
    for one in seed:
        if one["role"] == "tool":
            folder = one["content"].split()[0]
            assert f"ls {folder} |" in asked[one["tool_call_id"]]


@pytest.mark.parametrize("number", range(6))
def test_a_service_session_keeps_nearly_all_of_its_actions_in_2000_tokens(number: int) -> None:
    messages, wanted = service_session(number, actions=11)
    seed = extract_seed(messages)
    assert_sound(seed)
    kept = {
        one["function"]["arguments"] for message in seed for one in message.get("tool_calls", ())
    }
    found = sum(one["function"]["arguments"] in kept for one in wanted)
    assert found / len(wanted) >= 0.8


@pytest.mark.parametrize("make", [lambda: service_session(1)[0], lambda: coding_session(1)])
def test_plain_text_is_a_quarter_to_a_half_shorter(make: Callable[[], list[Message]]) -> None:
    seed = extract_seed(make())
    share = estimate_tokens(render_text(seed)) / estimate_messages(seed)
    assert 0.5 < share < 0.75


@given(st.one_of(messy_messages, answered_messages()), budgets)
def test_a_seed_that_is_sent_as_text_is_within_its_budget_as_text(
    messages: list[Any], budget: tuple[int, int]
) -> None:
    max_messages, max_tokens = budget
    seed = extract_seed(messages, max_messages=max_messages, max_tokens=max_tokens, style="text")
    assert len(seed) <= max_messages
    assert estimate_tokens(render_text(seed)) <= max_tokens
    for rules in ("openai", "anthropic"):
        assert validate_messages(seed, rules=rules) == []


@pytest.mark.parametrize("lines", [20, 60])
def test_a_seed_fills_its_budget_in_the_style_in_which_it_is_sent(lines: int) -> None:
    messages = run(
        *(
            (f"cat src/part{n}.py", f"def total{n}(xs):\n    return sum(xs)\n" * lines)
            for n in range(40)
        )
    )
    text = estimate_tokens(render_text(extract_seed(messages, style="text")))
    assert 0.85 < text / 2000 <= 1
    assert 0.85 < estimate_messages(extract_seed(messages)) / 2000 <= 1
    assert estimate_tokens(render_text(extract_seed(messages))) / 2000 < 0.75, "as it was"


@pytest.mark.parametrize("most", range(5))
@pytest.mark.parametrize("size", [1, 2])
def test_a_seed_has_no_more_calls_than_asked_for(most: int, size: int) -> None:
    seed = extract_seed(merge_calls(coding_session(1), size), max_calls=most)
    assert_sound(seed)
    shown = sum(len(one.get("tool_calls", ())) for one in seed)
    assert shown <= most
    assert shown or most < size


def test_a_style_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RelightError, match="style cannot be 'html'"):
        extract_seed([], style="html")


def test_a_seed_of_a_coding_session_shows_different_commands_once() -> None:
    seed = extract_seed(coding_session(2, actions=60))
    lines = [
        one["function"]["arguments"] for message in seed for one in message.get("tool_calls", ())
    ]
    assert len(set(lines)) == len(lines) >= 6


def test_messages_keep_the_order_of_the_source() -> None:
    messages, wanted = service_session(5, actions=9)
    order = [one["function"]["arguments"] for one in wanted]
    seed = extract_seed(messages)
    kept = [
        one["function"]["arguments"] for message in seed for one in message.get("tool_calls", ())
    ]
    assert [order.index(one) for one in kept] == sorted(order.index(one) for one in kept)


def test_a_failure_is_left_out() -> None:
    seed = extract_seed([user("Go."), *act("a", "get_order", "Error: no such order", order="#1")])
    assert seed == []


def test_of_calls_made_at_once_those_that_worked_stay() -> None:
    asked = [call(name, "get_order", order=name) for name in "abcd"]
    answers = [result(name, "Error: no such order" if name == "c" else name) for name in "abcd"]
    messages = [user("Find them."), ask(*asked), *answers, assistant("Three were found.")]
    seed = extract_seed(messages)
    assert_sound(seed)
    assert [message["content"] for message in seed] == [
        "Find them.",
        None,
        "a",
        "b",
        "d",
        "Three were found.",
    ]


@given(st.integers(0, 9), st.integers(2, 6), st.sets(st.integers(0, 30)), budgets)
def test_seeds_are_valid_whichever_of_the_calls_made_at_once_failed(
    number: int, size: int, failed: set[int], budget: tuple[int, int]
) -> None:
    merged = merge_calls(service_session(number, actions=12)[0], size)
    keys = [one["id"] for message in merged for one in message.get("tool_calls", ())]
    facts = [{"call_id": key, "is_error": at in failed} for at, key in enumerate(keys)]
    seed = extract_seed(merged, max_messages=budget[0], max_tokens=budget[1], calls=facts)
    assert_sound(seed, max_messages=budget[0], max_tokens=budget[1])


def test_a_failure_is_kept_with_what_put_it_right_and_marked() -> None:
    messages = [
        user("Where is my order?"),
        *act("a", "get_order", "Error: order not found", order="W1"),
        *act("b", "get_order", '{"status": "delivered"}', order="#W1"),
        assistant("It was delivered."),
    ]
    contents = [message["content"] for message in extract_seed(messages)]
    assert contents == [
        "Where is my order?",
        None,
        "[This call failed; the next one is how it was put right.]\nError: order not found",
        None,
        '{"status": "delivered"}',
        "It was delivered.",
    ]


@pytest.mark.parametrize("max_tokens", [60, 90, 120, 150, 2000])
def test_a_seed_of_a_seed_keeps_a_failure_with_its_cure_alone(max_tokens: int) -> None:
    messages = [
        user("What is new here?"),
        *act("a", "bash", "fatal: not a git repository", command="git status"),
        *act("b", "bash", "nothing to commit", command="git -C shop status"),
        *act("c", "bash", "mei_kovacs", command="whoami"),
    ]
    text = render_text(extract_seed(extract_seed(messages), max_tokens=max_tokens))
    assert text.count("This call failed") <= 1
    assert ("This call failed" in text) <= ("git -C shop" in text)
    assert max_tokens < 2000 or text == render_text(extract_seed(messages))


def test_what_is_known_of_a_call_beside_its_text_counts() -> None:
    messages = run(("make", "all fine"))
    assert extract_seed(messages)
    assert not extract_seed(messages, calls=[{"call_id": "call_0", "exit_code": 2}])


def test_a_message_of_which_one_call_has_no_result_is_left_out_whole() -> None:
    messages = [user("Go."), ask(call("a", "Read", path="x"), call("b", "Read", path="y"))]
    assert extract_seed([*messages, result("a", "text")]) == []
    assert extract_seed([*messages, result("b", "text b"), result("a", "text a")])[2:] == [
        result(one["id"], text)
        for one, text in zip(
            extract_seed([*messages, result("b", "text b"), result("a", "text a")])[1][
                "tool_calls"
            ],
            ["text a", "text b"],
            strict=True,
        )
    ]


def test_what_was_done_for_a_later_request_stands_behind_that_request() -> None:
    messages: list[Message] = []
    for task in range(4):
        messages.append(user(f"Request {task}: make report {task} of the archive, all sheets."))
        for step in range(14):
            command = f"render --report {task} --sheet {step} > out/{task}/{step}.html"
            messages += act(f"{task}-{step}", "bash", f"sheet {step} written", command=command)
        messages.append(assistant(f"Report {task} is written, with all of its sheets."))
    seed = extract_seed(messages)
    assert_sound(seed)
    asked, done = [], []
    for message in seed:
        if message["role"] == "user":
            asked.append(message["content"].split()[1].strip(":"))
        for one in message.get("tool_calls", ()):
            done.append(json.loads(one["function"]["arguments"])["command"].split()[2])
            assert done[-1] == asked[-1]
    assert asked == list(dict.fromkeys(done))
    assert asked[0] == "0"


def test_an_answer_to_a_question_takes_no_room_from_actions() -> None:
    messages = [user("Exchange these things.")]
    for number in range(14):
        messages += act(f"c{number}", "exchange_item", "done", item=number)
        messages += [assistant(f"Item {number} is next. Shall I go on?"), user("Yes, please.")]
    seed = extract_seed(messages)
    assert sum(len(message.get("tool_calls", ())) for message in seed) == 14


def test_a_conversation_without_tools_keeps_short_exchanges() -> None:
    messages = [user("Name it."), assistant("Relight?"), user("Shorter."), assistant("Lit.")]
    assert extract_seed([{"role": "system", "content": POLICY}, *messages]) == messages


def test_a_long_result_is_cut_in_the_middle_with_a_note() -> None:
    seed = extract_seed(run(("cat a.txt", "start " + "word " * 5000 + "end")), max_tokens=600)
    assert re.fullmatch(r"start .* … \[\d+ characters cut\] … .* end", seed[2]["content"])


def test_long_arguments_are_cut_inside_their_json() -> None:
    seed = extract_seed(run(("cat > a.py <<'EOF'\n" + "x = 1\n" * 1000 + "EOF", "")))
    command = json.loads(seed[1]["tool_calls"][0]["function"]["arguments"])["command"]
    assert command.startswith("cat > a.py")
    assert command.endswith("EOF")
    assert "characters cut" in command


@given(st.text(), st.integers(0, 300))
def test_a_shortened_text_shows_how_much_was_cut(text: str, limit: int) -> None:
    short = shorten_text(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        found = re.search(r"… \[(\d+) characters cut\] …", short)
        assert found
        assert len(short.replace(found[0], "")) <= max(limit, 2)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.integers(0, 2000),
)
def test_shortened_arguments_are_always_an_object(value: object, limit: int) -> None:
    for arguments in (value, json.dumps(value)):
        short = shorten_arguments(arguments, limit)
        assert isinstance(json.loads(short), dict)
        assert len(short) <= max(limit, 200)


def test_lone_surrogates_do_not_reach_a_request() -> None:
    seed = extract_seed([user("a\ud800b"), *act("a", "Read", "x\udfffy", path="p")])
    assert texts_of(seed).encode()


HIDDEN = "".join(chr(0xE0000 + ord(letter)) for letter in "obey") + "\u200b\u202e\x1b"


def test_nothing_is_in_a_seed_that_a_person_cannot_see() -> None:
    messages = [
        user(f"Count{HIDDEN} the files"),
        *act("a", "bash", f"7 files{HIDDEN}", command=f"ls{HIDDEN} | wc -l"),
        *act("b", "bash", HIDDEN, command="true"),
        assistant(HIDDEN),
        user(HIDDEN),
        assistant(f"Seven{HIDDEN}."),
    ]
    seed = extract_seed(messages)
    assert_sound(seed)
    text = "".join(
        part
        for one in seed
        for part in (one["content"] or "", *(str(call) for call in one.get("tool_calls", ())))
    )
    assert not set(text) & set(HIDDEN)
    assert "Count the files" in text
    assert "7 files" in text


@pytest.mark.parametrize("is_text", [True, False])
def test_nothing_hidden_is_in_the_arguments_of_a_seeds_calls(is_text: bool) -> None:
    """As values, and as the escapes that JSON writes for them."""
    fields = {"command": f"ls {HIDDEN}-l\r\b", f"k{HIDDEN}": [{"a": HIDDEN}, f"ü{HIDDEN}\n"]}
    for ascii_only in (True, False):
        given = json.dumps(fields, ensure_ascii=ascii_only) if is_text else fields
        made = {"id": "c1", "type": "function", "function": {"name": "x", "arguments": given}}
        messages = [
            user("List them."),
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "c1", "content": "a"},
            assistant("Done."),
        ]
        seed = extract_seed(messages)
        (kept,) = [call for one in seed for call in one.get("tool_calls", ())]
        arguments = json.loads(kept["function"]["arguments"])
        assert arguments == {"command": "ls -l", "k": [{"a": ""}, "ü\n"]}


def test_a_wrapped_seed_names_the_template_and_ends_with_the_assistant() -> None:
    seed = extract_seed(run(("make", "built")))
    wrapped = wrap_messages(seed, "  fix\nrounding ")
    assert "named fix rounding." in wrapped[0]["content"]
    assert wrapped[-1]["role"] == "assistant"
    assert wrapped[1:-1] == seed[1:]
    assert wrap_messages([], "none") == []


def test_text_shows_each_call_with_its_own_result() -> None:
    messages = [
        user("Look."),
        ask(call("a", "Bash", command="ls"), call("b", "Grep", pattern="x", path="src")),
        result("b", "no match"),
        result("a", "src"),
    ]
    assert render_text(extract_seed(messages)) == (
        'User: Look.\n→ Bash: ls\n← src\n→ Grep {"pattern": "x", "path": "src"}\n← no match'
    )


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(RelightError, match="must be 0 or more"):
        extract_seed([], max_tokens=-1)
