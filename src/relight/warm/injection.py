"""A template in front of a conversation: as a block of text, or as messages of its own."""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

from relight.chat.injected import wrap_block
from relight.chat.messages import read_entries, read_text, to_anthropic
from relight.chat.tokens import estimate_messages, estimate_tokens
from relight.chat.validity import check_messages, validate_messages
from relight.errors import RelightError
from relight.warm.examples import render_text, wrap_messages
from relight.warm.gate import read_tools
from relight.warm.library import Template
from relight.warm.seeds import extract_seed
from relight.warm.units import Message

STYLES = ("text", "messages")
# room for the words around a seed
_FRAME_TOKENS = 120


def inject(
    template: Template, messages: Sequence[Mapping[str, Any]], *, style: str = "text"
) -> list[Message]:
    """A new list of messages that begins with the template; it shares nothing with the one given.

    Text goes in front of the first user message's own: it needs a third fewer tokens, works with
    every model, and leaves the system prompt, and so the cache, as it is. As messages it stands
    behind the leading system messages.
    """
    if style not in STYLES:
        raise RelightError(f"there is no style {style!r}", f"use {' or '.join(STYLES)}")
    copied = [deepcopy(dict(message)) for message in check_messages(list(messages))]
    if style == "text":
        return _inject_text(template, copied)
    start = 0
    while start < len(copied) and copied[start].get("role") in ("system", "developer"):
        start += 1
    injected = [*copied[:start], *wrap_messages(template.seed, template.name), *copied[start:]]
    own = {str(call["id"]) for one in template.seed for call in one.get("tool_calls", ())}
    theirs = {call.key for one in read_entries(copied) for call in one.calls}
    problems = validate_messages(injected) if not validate_messages(copied) else []
    if problems or own & theirs:
        why = problems[0] if problems else "a call has the same id"
        raise RelightError(f"the messages would not be valid: {why}", 'use style="text"')
    return injected


def _inject_text(template: Template, messages: list[Message]) -> list[Message]:
    block = render_template(template)
    for message in messages:
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list):
                message["content"] = [{"type": "text", "text": f"{block}\n\n"}, *content]
            else:
                message["content"] = f"{block}\n\n{read_text(content)}"
            return messages
    return [*messages, {"role": "user", "content": block}]


def render_template(template: Template) -> str:
    """A template as the text that is put before a task; the same bytes every time."""
    text = render_text(template.seed)
    return wrap_block(text, name=template.name, version=template.version)


def fit_seed(
    template: Template, *, budget: int, tools: Collection[object] | None = None
) -> list[Message]:
    """A template's seed within a budget of tokens, without calls of tools that are not there.

    It is chosen anew rather than cut: a cut would break pairs of calls and results. Where no call
    is left there is nothing to learn from, and nothing is given.
    """
    present = read_tools(tools)
    seed = template.seed if present is None else _drop_units(template.seed, present)
    if estimate_messages(seed) + _FRAME_TOKENS > budget:
        seed = extract_seed(seed, max_tokens=max(budget - _FRAME_TOKENS, 0))
    return seed if any(message.get("tool_calls") for message in seed) else []


def _drop_units(seed: Sequence[Message], tools: Collection[str]) -> list[Message]:
    """The seed without the messages that call a tool which is missing, nor their results."""
    gone: set[str] = set()
    kept = []
    for message in seed:
        calls = message.get("tool_calls", ())
        if any(call["function"]["name"] not in tools for call in calls):
            gone |= {call["id"] for call in calls}
        elif message.get("tool_call_id") not in gone:
            kept.append(message)
    return kept


def count_text_tokens(template: Template) -> int:
    return estimate_tokens(render_template(template))


def as_format(messages: Sequence[Message], form: str) -> Any:
    """Wrapped messages as a program's API wants them."""
    if form == "anthropic":
        return to_anthropic(messages)[1]
    return deepcopy(list(messages))
