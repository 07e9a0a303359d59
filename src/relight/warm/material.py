"""The material of templates: a session's messages without secrets, how it went, and its tasks.

A session often does several tasks, one after the other: it is cut from one prompt that begins
something new to the next. Each task is judged by the evidence in its part of the session: the
results of its tests, and the prompt that follows it. A prompt that only answers, thanks or
corrects continues the task before it. So do a harness' complaint about the form of an answer, and
a part that is too short to learn from.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.chat.blocks import skip_injected, split_injected
from relight.chat.messages import read_entries, read_text
from relight.chat.shorten import clean_text
from relight.chat.similarity import weigh_words
from relight.chat.validity import check_messages
from relight.errors import RelightError, describe, refuse
from relight.judging.features import find_last_tests, judge_calls, says
from relight.judging.outcomes import PERSON_SAID, OutcomeEvidence, judge_outcome
from relight.judging.scoring import is_proficient
from relight.model import Outcome
from relight.redact import redact
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.store.candidates import read_source_session

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


class Material(Struct, frozen=True, kw_only=True):
    """A session that a template can be made from: redacted, with what is known of its outcome."""

    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    outcome: str
    evidence: list[str]
    source_session: str | None = None
    project: str | None = None
    title: str | None = None


def read_material(store: Store, session_id: int) -> Material:
    """Return the material of a recorded session."""
    transcript = read_transcript(store, session_id)
    session = read_source_session(store, session_id)
    return Material(
        messages=redact_messages(store, transcript.messages),
        calls=transcript.calls,
        outcome=session.outcome or "unknown",
        evidence=msgspec.json.decode(session.outcome_evidence or "[]"),
        source_session=session.name,
        project=session.project,
        title=session.title,
    )


def take_material(
    store: Store,
    session_id: object,
    *,
    messages: Iterable[Mapping[str, Any]],
    calls: Iterable[Mapping[str, Any]] | None,
) -> Material:
    """Return the material of a session that a program passes, which need not be in the store."""
    own = list(skip_injected(check_messages(_check_list("messages", messages))))
    facts = [] if calls is None else _check_list("calls", calls)
    if not all(isinstance(call, Mapping) for call in facts):
        raise refuse("calls", "must be a list of objects", 'as {"call_id": …, "is_error": …}')
    return Material(
        messages=redact_messages(store, own),
        calls=[dict(call) for call in facts],
        outcome="unknown",
        evidence=[],
        source_session=None if session_id is None else clean_text(str(session_id)),
    )


def _check_list(name: str, values: Any) -> list[Any]:
    """Return the values as a list; raise if they are a text or an object."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise refuse(name, f"must be a list of OpenAI chat {name}, not {describe(values)}")
    return list(values)


def redact_messages(store: Store, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages without secrets, by today's rules."""
    try:
        data = b"\n".join(msgspec.json.encode(_make_plain(message)) for message in messages)
    except RecursionError as error:
        raise RelightError("the messages are nested too deeply") from error
    clean = redact(data, key=store.redaction_key)
    return [msgspec.json.decode(line) for line in clean.split(b"\n") if line]


def _make_plain(value: Any) -> Any:
    """Return a value as JSON can hold it; programs mix their own objects into messages."""
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {clean_text(str(name)): _make_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | AbstractSet):
        return [_make_plain(one) for one in value]
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError):
        return describe(value)


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
