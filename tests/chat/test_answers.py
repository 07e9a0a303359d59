"""A model's answer, as each SDK returns it, becomes one chat message."""

from typing import Any

import pytest

from relight.chat.answers import read_answer

TEXT, CALLED = "Two files.", {"path": "/tmp"}
CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "/tmp"}'}}
WHOLE = {"role": "assistant", "content": TEXT, "tool_calls": [CALL]}
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "text", "text": "?"}]},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "ls",
        "arguments": '{"path": "/tmp"}',
    },
]
BLOCKS = [
    {"type": "thinking", "thinking": "?", "signature": "x"},
    {"type": "text", "text": TEXT},
    {"type": "tool_use", "id": "c1", "name": "ls", "input": CALLED},
]
ANSWERS: dict[str, Any] = {
    "a chat completion": {"id": "x", "choices": [{"index": 0, "message": WHOLE}]},
    "the output of Responses": ITEMS,
    "a response of Responses": {"id": "resp_1", "object": "response", "output": ITEMS},
    "the content of Anthropic": BLOCKS,
    "a message of Anthropic": {"role": "assistant", "content": BLOCKS},
    "Bedrock Converse": {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"text": TEXT},
                    {"toolUse": {"toolUseId": "c1", "name": "ls", "input": CALLED}},
                ],
            }
        }
    },
    "Gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "?", "thought": True},
                        {"text": TEXT},
                        {"functionCall": {"id": "c1", "name": "ls", "args": CALLED}},
                    ],
                }
            }
        ]
    },
}


@pytest.mark.parametrize("name", ANSWERS)
def test_text_and_calls_are_found_in(name: str) -> None:
    assert read_answer(ANSWERS[name]) == WHOLE


def test_a_message_of_langchain_keeps_its_fields() -> None:
    call = {"name": "ls", "args": CALLED, "id": "c1", "type": "tool_call"}
    found = read_answer({"type": "ai", "content": TEXT, "tool_calls": [call]})
    assert found == {**WHOLE, "type": "ai"}


@pytest.mark.parametrize("message", [WHOLE, {"role": "assistant", "content": [{"text": "a"}]}])
def test_a_chat_message_stays_as_it_is(message: dict[str, Any]) -> None:
    assert read_answer(message) == message


def test_plain_text_is_an_answer() -> None:
    assert read_answer("Done.") == {"role": "assistant", "content": "Done."}


@pytest.mark.parametrize("given", [None, 12, [1, 2], {"words": "x"}, {"choices": []}])
def test_what_has_neither_text_nor_calls_is_no_answer(given: object) -> None:
    assert read_answer(given) is None
