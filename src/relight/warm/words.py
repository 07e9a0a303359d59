"""The words that a template keeps of its session: asked, said, run and seen, and what was done."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from relight.chat.messages import Call, list_own, read_arguments, read_entries
from relight.chat.similarity import Vector, weigh_words
from relight.judging.features import judge_calls
from relight.judging.kinds import understand_call
from relight.judging.shell import drop_documents
from relight.store.templates import TemplateWords
from relight.warm.units import read_result_text

# of each result, and of all commands and all results
RESULT_CHARACTERS, LONGEST = 600, 20_000


def read_words(
    messages: Iterable[object],
    *,
    task: str = "",
    calls: Iterable[Mapping[str, Any]] | None = None,
) -> TemplateWords:
    """Return the words of a redacted session; `task` is its task, if the messages cut it."""
    entries = read_entries(list_own(messages))
    made = [call for entry in entries for call in entry.calls]
    verdicts = judge_calls(made, facts=calls)
    worked = [call for call, one in zip(made, verdicts, strict=True) if one.label != "error"]
    commands = [read_command(call) for call in worked]
    asked = "\n".join([task, *(one.text for one in entries if one.role == "user")])
    said = "\n".join(one.text for one in entries if one.role == "assistant")
    ran = " ".join(map(_describe_call, worked, commands))
    saw = "\n".join(read_result_text(call.result)[:RESULT_CHARACTERS] for call in made)
    return TemplateWords(
        user=_round(weigh_words(asked)),
        assistant=_round(weigh_words(said)),
        commands=_round(weigh_words(ran, limit=LONGEST)),
        results=_round(weigh_words(saw, limit=LONGEST)),
        actions=_round(_count_actions(worked, commands)),
    )


def read_command(call: Call) -> str:
    """Return the shell command of a call without its here-documents; empty if it runs none."""
    command = understand_call(call.tool, call.arguments).command
    if not command:
        return ""
    return drop_documents(command if isinstance(command, str) else " ".join(command))


def _describe_call(call: Call, command: str) -> str:
    return " ".join([call.tool, *(read_arguments(call.arguments) or {}), command])


def _count_actions(calls: Sequence[Call], commands: Sequence[str]) -> Vector:
    """Return what a session did: words of commands by the calls that have them, or tools.

    Where it used several tools, what followed what counts as well.
    """
    counts: Counter[str] = Counter()
    for call, command in zip(calls, commands, strict=True):
        counts.update(weigh_words(command).keys() if command else [call.tool])
    tools = [call.tool for call in calls]
    if len(set(tools)) > 1:
        counts.update(f"{before} {after}" for before, after in pairwise(tools))
    return {word: 1 + math.log(count) for word, count in counts.items()}


def _round(words: Vector) -> Vector:
    return {word: round(weight, 2) for word, weight in words.items()}
