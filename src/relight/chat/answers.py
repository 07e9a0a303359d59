"""A model's answer as a chat message, from the plain data of any SDK's response.

A response may be the whole of it, one message, or a list of items or blocks. Text and calls become
`content` and `tool_calls`; thoughts are left out, since no API takes them back.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# the places of the answer inside a whole response
WRAPPERS: tuple[tuple[str | int, ...], ...] = (
    ("choices", 0, "message"),  # OpenAI chat completions, LiteLLM
    ("candidates", 0, "content"),  # Gemini
    ("output", "message"),  # Bedrock Converse
    ("output",),  # OpenAI Responses
    ("message",),
)
# the item types of a call, and the fields that hold a call in an item without a type
CALL_TYPES = ("function_call", "custom_tool_call", "tool_use", "tool_call")
CALL_FIELDS = ("toolUse", "functionCall", "function_call")
ID_FIELDS = ("call_id", "toolUseId", "id")
ARGUMENT_FIELDS = ("arguments", "input", "args")
THOUGHTS = ("reasoning", "thinking", "redacted_thinking")


def read_answer(given: object) -> dict[str, Any] | None:
    """Return the message that plain data holds; None if it holds neither text nor calls.

    A message in the format of OpenAI's chat API is returned as it is, with a role.

    >>> read_answer([{"type": "tool_use", "id": "a", "name": "ls", "input": {}}])["tool_calls"]
    [{'id': 'a', 'type': 'function', 'function': {'name': 'ls', 'arguments': '{}'}}]
    """
    answer = _unwrap(given)
    if isinstance(answer, str):
        return {"role": "assistant", "content": answer}
    if isinstance(answer, list):
        return _join(answer)
    if not isinstance(answer, dict):
        return None
    content = answer.get("content", answer.get("parts"))
    if isinstance(content, list) and (joined := _join(content)):
        if "tool_calls" not in joined and "content" in answer:
            return {"role": "assistant", **answer}
        fields = {"role", "content", "parts", "tool_calls"}
        return {**{k: v for k, v in answer.items() if k not in fields}, **joined}
    called = answer.get("tool_calls")
    if isinstance(called, list) and any(map(_read_call, called)):
        answer = {**answer, "tool_calls": [_read_call(one) or one for one in called]}
    is_message = answer.keys() & {"role", "content", "tool_calls"}
    return {"role": "assistant", **answer} if is_message else None


def _unwrap(given: object) -> object:
    """Return the part of a response that is the answer; the response itself if it is that."""
    if not isinstance(given, dict) or "role" in given or "content" in given:
        return given
    for path in WRAPPERS:
        found: Any = given
        for name in path:
            try:
                found = found[name]
            except (KeyError, IndexError, TypeError):
                found = None
                break
        if found is not None:
            return _unwrap(found)
    return given


def _join(items: Sequence[object]) -> dict[str, Any] | None:
    """Return one message of all text and calls in a list of items; None if it has none."""
    parts = list(_flatten(items))
    calls = [call for part in parts if (call := _read_call(part))]
    texts = [text for part in parts if (text := _read_part(part)) is not None]
    if not calls and not texts and not any(_is_thought(part) for part in parts):
        return None
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) or None}
    return message | ({"tool_calls": calls} if calls else {})


def _flatten(items: Sequence[object]) -> Iterator[object]:
    for item in items:
        inner = item.get("content") if isinstance(item, dict) else None
        if isinstance(inner, list) and not _is_thought(item):
            yield from inner
        else:
            yield item


def _is_thought(part: object) -> bool:
    return isinstance(part, dict) and (part.get("type") in THOUGHTS or part.get("thought") is True)


def _read_part(part: object) -> str | None:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or _is_thought(part):
        return None
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else None


def _read_call(part: object) -> dict[str, Any] | None:
    """Return a call in OpenAI's chat format; None for other items."""
    if not isinstance(part, dict):
        return None
    if isinstance(part.get("function"), Mapping):
        return part
    holder = next((part[name] for name in CALL_FIELDS if isinstance(part.get(name), dict)), None)
    body = holder or (part if part.get("type") in CALL_TYPES else {})
    if not isinstance(name := body.get("name"), str):
        return None
    key = next((body[one] for one in ID_FIELDS if body.get(one) is not None), "")
    arguments: object = next(
        (body[one] for one in ARGUMENT_FIELDS if body.get(one) is not None), {}
    )
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"id": str(key), "type": "function", "function": {"name": name, "arguments": arguments}}
