"""Problems for which model APIs refuse a list of messages, found before it is sent.

The rules are the documented ones of OpenAI's chat API and Anthropic's messages API, and one that
chat templates of local models add: no conversation begins with the assistant.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from relight.chat.messages import list_messages, read_arguments
from relight.errors import RelightError

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))
_PARTS = frozenset(("text", "image_url", "input_audio", "file", "refusal"))
# Blocks that only messages in Anthropic's format have.
_BLOCKS = frozenset(
    ("tool_use", "tool_result", "image", "document", "thinking", "redacted_thinking")
)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_ID_LIMIT = 40


def validate_messages(messages: Iterable[object], *, rules: str = "openai") -> list[str]:
    """Return the problems for which an API would refuse these messages; empty if they are valid.

    Under Anthropic's rules messages may be in either format: those in OpenAI's are converted by
    `to_anthropic` first.

    >>> validate_messages([{"role": "assistant", "content": "Hi"}])
    ['messages[0]: the assistant speaks first']
    """
    messages = list_messages(messages)
    if rules == "openai":
        return list(_check_chat(messages, is_anthropic=False))
    if rules != "anthropic":
        raise RelightError(f"there are no rules named {rules!r}", "Use openai or anthropic.")
    if any(_BLOCKS.intersection(_block_types(message)) for message in messages):
        return list(_check_turns(messages))
    return list(_check_chat(messages, is_anthropic=True))


def check_messages(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages; raise if one is not an object."""
    given = list_messages(messages)
    checked = [one for one in given if isinstance(one, Mapping)]
    if len(checked) < len(given):
        raise RelightError("messages must be a list of OpenAI chat messages")
    return checked


def _block_types(message: object) -> list[object]:
    content = message.get("content") if isinstance(message, Mapping) else None
    blocks = content if isinstance(content, list) else []
    return [str(block.get("type")) for block in blocks if isinstance(block, Mapping)]


def _check_chat(messages: Sequence[object], *, is_anthropic: bool) -> Iterator[str]:
    waiting: dict[str, int] = {}
    seen: set[str] = set()
    is_begun = False
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or role not in _ROLES:
            yield f"{where}: no message, or its role {role!r} is unknown"
            continue
        if role == "tool":
            is_begun = True
            key = message.get("tool_call_id")
            if not isinstance(key, str) or waiting.pop(key, None) is None:
                yield f"{where}: the result answers no open call ({key!r})"
        else:
            yield from _check_answered(waiting, where)
        yield from _check_content(message, where, is_anthropic=is_anthropic)
        calls = message.get("tool_calls")
        if role in ("system", "developer"):
            if is_anthropic and is_begun:
                yield f"{where}: a system message after the conversation began"
        elif role == "assistant" and not is_begun:
            yield f"{where}: the assistant speaks first"
        is_begun = is_begun or role in ("user", "assistant")
        if calls is None:
            continue
        if role != "assistant" or not isinstance(calls, list) or not calls:
            yield f"{where}: tool_calls must be a list of calls, in an assistant message"
            continue
        for call in calls:
            yield from _check_call(call, where, seen, is_anthropic=is_anthropic)
            if isinstance(call, Mapping) and isinstance(call.get("id"), str):
                waiting[call["id"]] = at
    yield from _check_answered(waiting, "the end")


def _check_answered(waiting: dict[str, int], where: str) -> Iterator[str]:
    for key, asked in waiting.items():
        yield f"messages[{asked}]: the call {key!r} has no result before {where}"
    waiting.clear()


def _check_call(call: object, where: str, seen: set[str], *, is_anthropic: bool) -> Iterator[str]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        yield f"{where}: a call without a function"
        return
    if call.get("type") != "function":
        yield f"{where}: a call's type must be 'function', not {call.get('type')!r}"
    yield from _check_id(call.get("id"), where, seen, is_anthropic=is_anthropic)
    yield from _check_name(function.get("name"), where)
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        yield f"{where}: the arguments of a call must be a string of JSON"
    elif is_anthropic and read_arguments(arguments) is None:
        yield f"{where}: the arguments of a call are no JSON object"


def _check_id(key: object, where: str, seen: set[str], *, is_anthropic: bool) -> Iterator[str]:
    if not isinstance(key, str) or not key:
        yield f"{where}: a call without an id"
        return
    if key in seen:
        yield f"{where}: the id {key!r} is used twice"
    seen.add(key)
    if is_anthropic and not _ID.match(key):
        yield f"{where}: the id {key!r} has characters other than letters, digits, _ and -"
    if not is_anthropic and len(key) > _ID_LIMIT:
        yield f"{where}: the id {key!r} is longer than {_ID_LIMIT} characters"


def _check_name(name: object, where: str) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.match(name):
        yield f"{where}: {name!r} is not a tool's name (1 to 64 letters, digits, _ and -)"


def _check_content(message: Mapping[str, Any], where: str, *, is_anthropic: bool) -> Iterator[str]:
    content, role = message.get("content"), message["role"]
    if content is None:
        if role != "assistant" or not (message.get("tool_calls") or message.get("refusal")):
            yield f"{where}: no content"
    elif isinstance(content, str):
        has_calls = role == "assistant" and message.get("tool_calls")
        if is_anthropic and not content.strip() and role != "tool" and not has_calls:
            yield f"{where}: empty content"
    elif not isinstance(content, list) or not content:
        yield f"{where}: content must be text or a list of parts"
    else:
        for part in content:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if not isinstance(part, Mapping) or kind not in _PARTS:
                yield f"{where}: a part of an unknown type {kind!r}"
            elif kind == "text":
                yield from _check_text(part.get("text"), where, may_be_blank=not is_anthropic)


def _check_text(text: object, where: str, *, may_be_blank: bool) -> Iterator[str]:
    if not isinstance(text, str):
        yield f"{where}: a text part without text"
    elif not may_be_blank and not text.strip():
        yield f"{where}: an empty text part"


def _check_turns(messages: Sequence[object]) -> Iterator[str]:
    waiting: dict[str, int] = {}
    seen: set[str] = set()
    before: object = "assistant"
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or role not in ("user", "assistant"):
            yield f"{where}: no message, or its role {role!r} is neither user nor assistant"
            continue
        if role == before:
            yield f"{where}: " + (
                "two turns of the same role" if at else "the assistant speaks first"
            )
        before = role
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list) or not content:
            yield f"{where}: content must be text or a list of blocks"
            content = []
        results, others = _split_results(content)
        for key in results:
            if role != "user" or waiting.pop(key, None) is None:
                yield f"{where}: the result answers no call of the turn before ({key!r})"
        yield from _check_answered(waiting, f"the end of {where}")
        if "tool_result" in _block_types({"content": content})[len(results) :]:
            yield f"{where}: results must stand before all else in a turn"
        for block in others:
            if block.get("type") == "text":
                yield from _check_text(block.get("text"), where, may_be_blank=False)
            elif block.get("type") == "tool_use":
                if role != "assistant":
                    yield f"{where}: a call in a user turn"
                yield from _check_id(block.get("id"), where, seen, is_anthropic=True)
                yield from _check_name(block.get("name"), where)
                if not isinstance(block.get("input"), Mapping):
                    yield f"{where}: the input of a call must be an object"
                waiting[str(block.get("id"))] = at
    yield from _check_answered(waiting, "the end")


def _split_results(content: list[Any]) -> tuple[list[str], list[Mapping[str, Any]]]:
    blocks = [block for block in content if isinstance(block, Mapping)]
    results = [str(one.get("tool_use_id")) for one in blocks if one.get("type") == "tool_result"]
    return results, [one for one in blocks if one.get("type") != "tool_result"]
