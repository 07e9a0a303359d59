"""Chat messages: speakers, calls joined with their results, conversion to Anthropic's format.

Messages are in the format of OpenAI's chat API unless said otherwise. They come from programs of
every kind, so nothing here assumes that ids are unique, that every call was answered, or that
content is a string.

An example that Relight gave to a session is not work of that session: it is removed before
anything is counted, or ten borrowed successes would look like an effect.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.chat.blocks import skip_injected
from relight.config import LEAST_TOOL_CHARS, find_home, read_config
from relight.errors import RelightError

if TYPE_CHECKING:
    from relight.config import Settings

T = TypeVar("T")

MAX_TOOL_CHARS_VARIABLE = "RELIGHT_MAX_TOOL_CHARS"
_HEAD_PERCENT = 65
# an escaped surrogate without its other half
LONE_SURROGATE = re.compile(
    rb"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


class Call(Struct, frozen=True):
    """A call that a model made, as written, with the content of its result if it has one."""

    key: str
    tool: str
    arguments: Any
    result: Any = None
    has_result: bool = False


class Entry(Struct, frozen=True):
    """The text of one message of the user or the model, with the calls in it."""

    role: Literal["user", "assistant"]
    text: str
    calls: tuple[Call, ...] = ()
    is_last: bool = False


def list_messages(messages: object) -> list[object]:
    """Return the messages of any iterable, which is read once; raise for anything else."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise RelightError("messages must be a list of OpenAI chat messages")
    return list(messages)


def list_own(messages: Iterable[object]) -> list[dict[str, Any]]:
    """Return the messages of the session itself, without what Relight put before it."""
    given = list_messages(messages)
    return list(skip_injected([one for one in given if isinstance(one, Mapping)]))


def read_entries(messages: Iterable[object]) -> list[Entry]:
    """Return the messages of a conversation in order, each call joined with its result by id.

    Programs reuse ids: a result belongs to the latest message that still waits for its id, and
    within one message to the first call. Results without a call are left out, and so are system
    prompts. `is_last` marks the message that the conversation ends on.
    """
    entries: list[Entry] = []
    waiting: dict[str, list[tuple[int, int]]] = {}
    calls: list[list[Call]] = []
    role: object = None
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        role = message.get("role")
        if role == "tool":
            places = waiting.get(str(message.get("tool_call_id") or ""))
            if places:
                place = next(one for one in places if one[0] == places[-1][0])
                places.remove(place)
                entry, at = place
                answered = replace(calls[entry][at], result=message.get("content"), has_result=True)
                calls[entry][at] = answered
        elif role == "user" or role == "assistant":
            asked = list(read_calls(message)) if role == "assistant" else []
            for at, call in enumerate(asked):
                waiting.setdefault(call.key, []).append((len(entries), at))
            entries.append(Entry(role, read_text(message.get("content"))))
            calls.append(asked)
    joined = [replace(entry, calls=tuple(own)) for entry, own in zip(entries, calls, strict=True)]
    if joined and role == joined[-1].role:
        joined[-1] = replace(joined[-1], is_last=True)
    return joined


def read_calls(message: Mapping[str, Any]) -> Iterator[Call]:
    """Yield the calls in an assistant message, without their results."""
    listed = message.get("tool_calls")
    for call in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        if not isinstance(call, Mapping):
            continue
        body = call.get("function") or call.get("custom")
        if isinstance(body, Mapping):
            arguments = body.get("arguments", body.get("input"))
            yield Call(str(call.get("id") or ""), str(body.get("name") or ""), arguments)


def read_text(content: object) -> str:
    """Return the text of a message's content, which is a string, a list of parts, or nothing.

    >>> read_text([{"type": "text", "text": "look:"}, {"type": "image_url", "image_url": {}}])
    'look:\\n[image_url]'
    """
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, Sequence):
        return "" if content is None else str(content)
    texts: list[str] = []
    for part in content:
        if isinstance(part, Mapping):
            text = part.get("text", part.get("refusal"))
            texts.append(text if isinstance(text, str) else f"[{part.get('type') or 'part'}]")
        elif isinstance(part, str):
            texts.append(part)
    return "\n".join(texts)


def read_arguments(arguments: object) -> dict[str, Any] | None:
    """Return the arguments of a call as an object; None if they are not one.

    `NaN`, which is not JSON, is refused as the APIs refuse it.
    """
    if isinstance(arguments, Mapping):
        return {str(name): value for name, value in arguments.items()}
    if not isinstance(arguments, str):
        return None
    try:
        value = json.loads(arguments, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def read_object(arguments: str | None) -> Any:
    """Return a call's arguments decoded once for all readers; text that is not an object stays."""
    if arguments is not None and arguments.lstrip()[:1] == "{":
        try:
            return msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError):
            pass  # it stays text
    return arguments


def decode_mended(decode: Callable[[bytes], T], line: bytes) -> T:
    """Return decoded JSON; half a character, as JavaScript leaves in a cut string, is replaced."""
    try:
        return decode(line)
    except msgspec.DecodeError:
        mended = LONE_SURROGATE.sub(lambda found: b"\\ufffd" if found[1] else found[0], line)
        if mended == line:
            raise
        return decode(mended)


def to_anthropic(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return the system prompt and the messages in the format of Anthropic's API.

    System messages go to the front, results of calls become blocks of the next user turn, and
    turns of the same role are joined, so that roles alternate.

    >>> to_anthropic([{"role": "user", "content": "Hi"}])
    ('', [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi'}]}])
    """
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role in ("system", "developer"):
            system.append(read_text(message.get("content")))
            continue
        if role not in ("user", "assistant", "tool"):
            raise RelightError(
                f"message {number} has the role {role!r}, which Anthropic's API lacks"
            )
        blocks = list(_make_blocks(message, number))
        speaker = "assistant" if role == "assistant" else "user"
        if turns and turns[-1]["role"] == speaker:
            turns[-1]["content"].extend(blocks)
        elif blocks:
            turns.append({"role": speaker, "content": blocks})
    return "\n\n".join(text for text in system if text), turns


def _make_blocks(message: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    if message["role"] == "tool":
        key = message.get("tool_call_id")
        yield {"type": "tool_result", "tool_use_id": key, "content": read_text(content)}
        return
    parts = content if isinstance(content, list) else [{"type": "text", "text": read_text(content)}]
    for part in parts:
        url = part.get("image_url") if isinstance(part, Mapping) else None
        address = url.get("url") if isinstance(url, Mapping) else url
        if isinstance(address, str):
            yield {"type": "image", "source": _make_image_source(address)}
        elif (text := read_text([part])).strip():
            yield {"type": "text", "text": text}
    for call in read_calls(message):
        arguments = read_arguments(call.arguments)
        if arguments is None:
            raise RelightError(
                f"message {number} calls {call.tool or 'a tool'} with arguments that are not an"
                " object",
                "Anthropic's API takes only JSON objects as arguments.",
            )
        yield {"type": "tool_use", "id": call.key, "name": call.tool, "input": arguments}


def _make_image_source(address: str) -> dict[str, str]:
    if not address.startswith("data:"):
        return {"type": "url", "url": address}
    head, _, data = address.removeprefix("data:").partition(",")
    return {"type": "base64", "media_type": head.partition(";")[0], "data": data}


def trim_text(text: str, limit: int) -> str:
    """Return a tool result as it is sent to a model: `limit` characters and a note of its length.

    >>> trim_text("0123456789" * 10, 20)
    '0123456789012\\n… [truncated, 100 chars total]\\n3456789'
    """
    if len(text) <= limit:
        return text
    head, tail = split_ends(text, limit)
    return f"{head}\n… [truncated, {len(text)} chars total]\n{tail}"


def shorten_tool_results(
    messages: Iterable[Mapping[str, Any]], *, max_chars: int | None = None
) -> list[dict[str, Any]]:
    """Return a copy of chat messages whose tool results are at most `max_chars` long, and a note.

    Without `max_chars` the limit is `RELIGHT_MAX_TOOL_CHARS`, else `max_tool_chars` in
    `config.toml`, else 8,000. Only texts are shortened; pictures and the like stay.

    >>> message = {"role": "tool", "tool_call_id": "1", "content": "0123456789" * 10}
    >>> shorten_tool_results([message], max_chars=20)[0]["content"]
    '0123456789012\\n… [truncated, 100 chars total]\\n3456789'
    """
    limit = find_max_tool_chars() if max_chars is None else max_chars
    return [_shorten_result(message, limit) for message in messages]


def _shorten_result(message: Mapping[str, Any], limit: int) -> dict[str, Any]:
    if message.get("role") != "tool":
        return dict(message)
    content = message.get("content")
    if isinstance(content, str):
        content = trim_text(content, limit)
    elif isinstance(content, list):
        content = [
            {**part, "text": trim_text(part["text"], limit)}
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
    return {**message, "content": content}


def find_max_tool_chars(config: "Settings | None" = None) -> int:
    """Return the longest tool result that a model is sent, as the user has set it."""
    given = os.environ.get(MAX_TOOL_CHARS_VARIABLE)
    if not given:
        return (config or read_config(find_home())).max_tool_chars
    if not given.isdecimal() or int(given) < LEAST_TOOL_CHARS:
        raise RelightError(
            f"{MAX_TOOL_CHARS_VARIABLE} must be a whole number from {LEAST_TOOL_CHARS} up,"
            f" not {given!r}",
            "unset it to use max_tool_chars in config.toml",
        )
    return int(given)


def split_ends(text: str, room: int) -> tuple[str, str]:
    """Return the head and the tail of a text, together `room` characters.

    The head says what a text is and the tail how it ended, so 65 % of the result is head.
    """
    head = room * _HEAD_PERCENT // 100
    return text[:head], text[len(text) - room + head :]


def describe_arguments(shape: type[Any]) -> tuple[str, dict[str, Any]]:
    """Return the description of a Struct of arguments, its docstring, and its JSON schema."""
    from inspect import cleandoc

    _, parts = msgspec.json.schema_components([shape])
    schema = dict(parts[shape.__name__])
    schema.pop("title", None)
    return cleandoc(schema.pop("description", "")), schema
