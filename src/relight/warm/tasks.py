"""Sessions cut by task: from one prompt that begins something new to the next.

A session often does several tasks, one after the other. Each task is judged by the evidence in its
part of the session: the results of its tests, and the prompt that follows it. A prompt that only
answers, thanks or corrects continues the task before it. So do a harness' complaint about the form
of an answer, and a part that is too short to learn from.
"""

import re
from collections.abc import Set as AbstractSet
from typing import Any, Literal

from msgspec.structs import replace

from relight.chat.blocks import split_injected
from relight.chat.messages import read_entries, read_text
from relight.chat.similarity import weigh_words
from relight.judging.features import find_last_tests, judge_calls, says
from relight.judging.outcomes import PERSON_SAID, OutcomeEvidence, judge_outcome
from relight.judging.scoring import is_proficient
from relight.model import Outcome
from relight.warm.material import Material

Messages = list[dict[str, Any]]
# words with a meaning; fewer are an answer ("yes, do that"), and thanks may need some more
LEAST_WORDS, LEAST_AFTER_THANKS = 3, 6
# in the first words: a task may quote one further on
_COMPLAINT_CHARACTERS = 100
_REPLY = re.compile(
    r"\W*(?:yes|yep|no|nope|ok|okay|sure|fine|right|go (?:on|ahead)|continue|proceed|carry on"
    r"|please (?:continue|go on|proceed)|do (?:it|that|so)|both|neither"
    r"|the (?:first|second|last))\b",
    re.IGNORECASE,
)


def cut_tasks(material: Material, proven: AbstractSet[str] = frozenset()) -> list[Material]:
    """Return the material of each task of a session, in order; of one task, all of it.

    `proven` are the kinds of signs that decide an outcome in this store.
    """
    head, parts = _cut(material.messages)
    if len(parts) < 2:
        return [material]
    cut = []
    for number, part in enumerate(parts, start=1):
        outcome, evidence = material.outcome, material.evidence
        if number < len(parts):  # what is known of the session is about its end
            found = _judge_part(part, material, _read_prompt(parts[number][0]), proven)
            outcome, evidence = found.outcome, found.evidence
        title = f"task {number} of {len(parts)} of the session"
        own = {call["id"] for message in part for call in message.get("tool_calls") or ()}
        cut.append(
            replace(
                material,
                messages=[*head, *part],
                calls=[one for one in material.calls if one.get("call_id") in own],
                outcome=outcome,
                evidence=[*evidence, title],
                title=None,
            )
        )
    return cut


def begins_task(text: str) -> bool:
    """True if a prompt asks for something new.

    >>> begins_task("Now add a --json flag to the export command")
    True
    >>> begins_task("yes, run the tests and commit"), begins_task("No, that is still wrong: fix it")
    (False, False)
    """
    typed = split_injected(text)[0]
    is_complaint = says("malformed", typed[:_COMPLAINT_CHARACTERS])
    if is_complaint or _REPLY.match(typed) or says("user_corrections", typed):
        return False
    return len(weigh_words(typed)) >= (LEAST_AFTER_THANKS if says("thanks", typed) else LEAST_WORDS)


def _cut(messages: Messages) -> tuple[Messages, list[Messages]]:
    """Return the messages before the first prompt, and those of each task."""
    places = [place for place, one in enumerate(messages) if one.get("role") == "user"]
    if not places:
        return messages, []
    parts: list[Messages] = [[]]
    for message in messages[places[0] :]:
        is_prompt = message.get("role") == "user" and begins_task(_read_prompt(message))
        if is_prompt and _is_long(parts[-1]):
            parts.append([])
        parts[-1].append(message)
    if len(parts) > 1 and not _is_long(parts[-1]):
        rest = parts.pop()
        parts[-1] += rest
    return messages[: places[0]], parts


def _is_long(part: Messages) -> bool:
    calls = sum(len(one.get("tool_calls") or ()) for one in part)
    return is_proficient(len(part), calls)


def _read_prompt(message: dict[str, Any]) -> str:
    return read_text(message.get("content"))


def _judge_part(
    part: Messages, material: Material, reaction: str, proven: AbstractSet[str]
) -> Outcome:
    """Return the outcome of a task that another one followed, by the evidence of its part.

    A person's word about the session is about all of it, unless the part says otherwise.
    """
    entries = read_entries(part)
    calls = [call for entry in entries for call in entry.calls]
    verdicts = judge_calls(calls, facts=material.calls)
    labels = [one.label for one in verdicts if one.label != "unknown"]
    tests = find_last_tests(calls, verdicts)
    is_answered = bool(entries) and entries[-1].role == "assistant" and not entries[-1].calls
    found = judge_outcome(
        OutcomeEvidence(
            task=_read_prompt(part[0]),
            ending="answer" if is_answered else "result",
            answer=entries[-1].text if is_answered else None,
            last_call_label=verdicts[-1].label if verdicts else None,
            last_call_kind=verdicts[-1].kind if verdicts else None,
            last_call_tool=calls[-1].tool if calls else None,
            last_call_reason=verdicts[-1].evidence if verdicts else None,
            last_tests=None if tests is None else "passed" if tests else "failed",
            judged_calls=len(labels),
            failed_calls=labels.count("error"),
            last_words=_read_reaction(reaction),
        ),
        proven,
    )
    said = [one for one in material.evidence if one.startswith(f"{PERSON_SAID} success")]
    has_doubt = any(one.startswith("points to failure") for one in found.evidence)
    if said and found.outcome == "unknown" and not has_doubt:
        return Outcome("success", [*said, *found.evidence])
    return found


def _read_reaction(text: str) -> Literal["thanks", "correction"] | None:
    if says("user_corrections", text):
        return "correction"
    return "thanks" if says("thanks", text) else None
