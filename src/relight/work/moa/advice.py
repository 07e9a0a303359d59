"""What advisers of a mixture see, and how their advice is put to the model that acts."""

from collections.abc import Mapping, Sequence
from typing import Any

from relight.chat.messages import read_calls, read_text
from relight.chat.shorten import trim_text

RESULT_CHARS = 4000
ARGUMENT_CHARS = 2000
ADVISER = (
    "You are one of several advisers to an assistant that works with tools. You see its"
    " conversation so far; calls of tools and their results are told as text. You cannot call"
    " tools. Say what the assistant should do or answer next, and why: be brief and concrete, name"
    " risks and mistakes you see, and do not address the user."
)
ASK = "What should the assistant do or answer next?"
GUIDANCE = (
    "[Mixture of Agents: advice from other models, not from the user. Weigh it, trust your own"
    " judgement where it disagrees, and do not mention it.]"
)
NO_ADVICE = "No adviser answered this time: go by your own judgement."

Message = dict[str, Any]


def make_view(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The conversation as an adviser sees it: plain text, no system prompt, a user's turn last.

    >>> [one["role"] for one in make_view([{"role": "user", "content": "Go"}])]
    ['system', 'user']
    """
    view: list[Message] = [{"role": "system", "content": ADVISER}]
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer"):
            continue
        text = _tell(message)
        speaker = "assistant" if role == "assistant" else "user"
        if not text:
            continue
        if view[-1]["role"] == speaker:
            view[-1] = {"role": speaker, "content": f"{view[-1]['content']}\n\n{text}"}
        else:
            view.append({"role": speaker, "content": text})
    if view[-1]["role"] != "user":
        view.append({"role": "user", "content": ASK})
    return view


def _tell(message: Mapping[str, Any]) -> str:
    text = read_text(message.get("content"))
    if message.get("role") == "tool":
        return f"[tool result: {trim_text(text, RESULT_CHARS)}]"
    calls = [
        f"[called tool: {call.tool}({trim_text(_as_text(call.arguments), ARGUMENT_CHARS)})]"
        for call in read_calls(message)
    ]
    return "\n".join([text, *calls] if text else calls)


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else read_text(arguments)


def make_guidance(preset: str, answers: Sequence[tuple[str, str | None]]) -> str:
    """The block of advice; `answers` are labels with what each said, None where it failed."""
    lines = [GUIDANCE, f"Preset: {preset}"]
    if not any(text is not None for _, text in answers):
        lines.append(NO_ADVICE)
    for number, (label, text) in enumerate(answers, start=1):
        said = "(no answer)" if text is None else text
        lines.append(f"\nAdviser {number} — {label}:\n{said}")
    return "\n".join(lines)


def attach_guidance(messages: Sequence[Mapping[str, Any]], block: str) -> list[Mapping[str, Any]]:
    """The conversation with the block at its end; what was given is not changed.

    At the end, so that what came before stays the same and is read from the cache; in the user's
    last message where there is one, since some models refuse two of a user in a row.
    """
    *before, last = [*messages] or [{"role": "user", "content": ""}]
    if last.get("role") != "user":
        return [*before, last, {"role": "user", "content": block}]
    content = last.get("content")
    if isinstance(content, list):
        return [*before, {**last, "content": [*content, {"type": "text", "text": block}]}]
    joined = f"{content}\n\n{block}" if content else block
    return [*before, {**last, "content": joined}]
