"""The features of a session that its score is made of.

Measuring is separate from weighing, so that a measured session can be scored again when the
weights change. Patterns are in `data/scoring.toml`. They are slow and rarely match, so a text is
first searched for the plain words without which no pattern can match.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.messages import Call, Entry, list_own, read_arguments, read_entries, read_text
from relight.data import read_table
from relight.errors import RelightError
from relight.expressions import compile_kept
from relight.judging.kinds import Category, TaskType, classify_calls, understand_call
from relight.judging.verdicts import find_test_outcome, judge_call
from relight.model import Parsed, Passage, Verdict, hash_names, row_id

_SHORT = 3
_READ_CHARACTERS = 10_000  # of a text: what a person means stands near its beginning
# For each row of patterns, words of which every match contains one.
HINTS = {
    "user_corrections": (
        "wrong", "incorrect", "not right",
        "not correct", "not what i", "not the", "that isn", "that wasn", "i said", "i already ",
        "i just ", "i told", "i asked", "i meant", "you forgot", "you missed", "you misunderstood",
        "you ignored", "you broke", "you did", "you were supposed", "you should", "undo ",
        "revert ", "still ", "actually", "try again",
    ),
    "thanks": (
        "thank", "thx", "perfect", "great", "awesome", "excellent", "lgtm", "looks good", "works",
        "well done", "nice",
    ),
    "malformed": (
        "formatted ", "format error", "exactly one ", "tool call", "function call", "could not ",
        "invalid ", "found",
    ),
    "give_ups": (
        "unable", "not able", "sorry", "i can", "i could", "i was ", "unfortunately", "i apologi",
        "give up", "giving up", "ran out of", "not possible", "as far as i c",
    ),
}  # fmt: skip
# words that are a correction only at the start of a line
_INTERRUPTION = re.compile(r"\W*(?:wait|stop|hold on|no|nope)\b").match


class Feature(Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of a feature, its typical value and spread."""

    weight: float
    mean: float
    deviation: float


class Measures(Struct, frozen=True, kw_only=True):
    """The measures of a session: enough to score it again with other weights.

    A feature is None if it is unknown: no test was run, no call was judged.
    """

    total_messages: int
    tool_calls: int
    tool_results: int
    judged_calls: int
    error_count: int
    tools: tuple[str, ...]
    task_type: TaskType
    category: Category
    features: dict[str, float | None]


class WordCounts(Struct, frozen=True, array_like=True, gc=False):
    """Counts of what was said in a session during one stretch of records."""

    session_id: int
    messages: int
    user_messages: int
    corrections: int
    is_first_correction: int
    malformed: int
    give_ups: int
    # how the last user message reads, "thanks" or "correction"
    last_words: str | None


class ScoringTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `scoring.toml`."""

    intercept: float
    ridge: float
    minimum_examples: int
    features: dict[str, Feature]
    patterns: dict[str, tuple[str, ...]]


def measure_session(
    messages: Iterable[object], *, calls: Iterable[Mapping[str, Any]] | None = None
) -> Measures:
    """Return the measures of a session, with a verdict on each call."""
    own = list_own(messages)
    entries = read_entries(own)
    made = [call for entry in entries for call in entry.calls]
    verdicts = judge_calls(made, facts=calls)
    kind = classify_calls((call.tool, call.arguments) for call in made)
    failed = [verdict.label == "error" for verdict in verdicts if verdict.label != "unknown"]
    broken = {
        (call.tool, str(call.arguments)): None
        for call, verdict in zip(made, verdicts, strict=True)
        if verdict.label == "error"
    }
    features = make_features(
        messages=len(own),
        calls=len(made),
        failed=failed,
        broken=len(broken),
        malformed=_count_malformed(entries, verdicts),
        corrections=_count_texts("user_corrections", entries, "user"),
        give_ups=_count_texts("give_ups", entries, "assistant"),
        time_outs=sum(verdict.kind == "timeout" for verdict in verdicts),
        last_tests_passed=find_last_tests(made, verdicts),
        is_submitted=_is_submitted(entries, made),
        is_handed_over=any(_matches("handed_over", call.tool) for call in made),
    )
    return Measures(
        total_messages=len(own),
        tool_calls=len(made),
        tool_results=sum(call.has_result for call in made),
        judged_calls=len(failed),
        error_count=sum(failed),
        tools=tuple(sorted({call.tool for call in made})),
        task_type=kind.task_type,
        category=kind.category,
        features=features,
    )


def make_features(
    *,
    messages: int,
    calls: int,
    failed: Sequence[bool],
    broken: int,
    malformed: int,
    corrections: int,
    give_ups: int,
    time_outs: int,
    last_tests_passed: bool | None,
    is_submitted: bool,
    is_handed_over: bool,
) -> dict[str, float | None]:
    """Return the features from a session's counts; None where there was nothing to count.

    `failed` has one flag for each judged call, `broken` is the number of distinct failed calls.
    """
    late = failed[len(failed) // 2 :]
    is_short = calls < _SHORT  # too short for its length to mean anything
    of_length = {"messages": messages, "calls": calls}
    of_words = {"malformed_turns": malformed, "user_corrections": corrections, "give_ups": give_ups}
    of_calls = {
        "longest_failure_run": _longest_run(failed),
        "repeated_failures": sum(failed) - broken,
        "time_outs": time_outs,
    }
    return {
        **{name: None if is_short else math.log1p(count) for name, count in of_length.items()},
        **{name: math.log1p(count) if messages else None for name, count in of_words.items()},
        **{name: math.log1p(count) if calls else None for name, count in of_calls.items()},
        "last_call_failed": float(failed[-1]) if failed else None,
        "late_failures": sum(late) / len(late) if late else None,
        "last_tests_passed": None if last_tests_passed is None else float(last_tests_passed),
        "submitted": float(is_submitted),
        "handed_over": float(is_handed_over) if calls else None,
    }


def judge_calls(
    calls: Sequence[Call], *, facts: Iterable[Mapping[str, Any]] | None = None
) -> list[Verdict]:
    """Return a verdict on each call, from its result and the facts with its id.

    If ids occur twice, facts are assigned in the order of the calls.
    """
    known: dict[str, list[Mapping[str, Any]]] = {}
    for fact in facts or ():
        if not isinstance(fact, Mapping):
            raise RelightError("calls must be a list of objects, each with a call_id")
        known.setdefault(str(fact.get("call_id") or ""), []).append(fact)
    verdicts: list[Verdict] = []
    for call in calls:
        queue = known.get(call.key)
        fact = queue.pop(0) if queue else {}
        result = "" if call.has_result and call.result is None else call.result
        verdicts.append(
            judge_call(
                call.tool,
                call.arguments,
                result,
                is_error=fact.get("is_error"),
                exit_code=fact.get("exit_code"),
                timed_out=fact.get("timed_out"),
            )
        )
    return verdicts


def _count_malformed(entries: Sequence[Entry], verdicts: Sequence[Verdict]) -> int:
    """The number of unusable turns: empty, not readable, without a tool, or rejected later."""
    turns = [entry for entry in entries if entry.role == "assistant"]
    empty = sum(not entry.calls and not entry.text.strip() for entry in turns)
    unreadable = sum(
        isinstance(call.arguments, str)
        and call.arguments.lstrip()[:1] == "{"
        and read_arguments(call.arguments) is None
        for entry in turns
        for call in entry.calls
    )
    unknown = sum(verdict.kind == "tool_not_available" for verdict in verdicts)
    return empty + unreadable + unknown + _count_texts("malformed", entries, "user")


def _count_texts(name: str, entries: Sequence[Entry], role: str) -> int:
    """The number of matching texts of a role, without the task, the first user message."""
    texts = [entry.text for entry in entries if entry.role == role]
    return sum(_matches(name, text) for text in (texts[1:] if role == "user" else texts))


def _longest_run(failed: Sequence[bool]) -> int:
    longest = run = 0
    for is_failed in failed:
        run = run + 1 if is_failed else 0
        longest = max(longest, run)
    return longest


def find_last_tests(calls: Sequence[Call], verdicts: Sequence[Verdict]) -> bool | None:
    """Return whether the tests run last passed; None if none were run."""
    for call, verdict in zip(reversed(calls), reversed(verdicts), strict=True):
        result = read_text(call.result)
        outcome = find_test_outcome(call.tool, call.arguments, result, verdict=verdict)
        if call.has_result and outcome:
            return outcome == "passed"
    return None


def _is_submitted(entries: Sequence[Entry], calls: Sequence[Call]) -> bool:
    """True if the session reached its end: a submission, or an answer as the last message."""
    for call in calls[-2:]:
        if is_submission(call.tool, understand_call(call.tool, call.arguments).command):
            return True
    if not entries or not entries[-1].is_last:
        return False
    answers = entries[-1:] if entries[-1].role == "assistant" else entries[-2:-1]
    return any(one.role == "assistant" and one.text and not one.calls for one in answers)


def is_submission(tool: str, command: str | list[str] | None) -> bool:
    """True if a call reports that the work is done, by its tool's name or by its command."""
    line = " ".join(command) if isinstance(command, list) else command or ""
    if matches_tool("submitted", tool):
        return True
    is_near = "submit" in line or "SUBMIT" in line or "Submit" in line
    return is_near and _matches("submitted", line)


@lru_cache(maxsize=4096)
def matches_tool(name: str, tool: str) -> bool:
    return _matches(name, tool)


def _matches(name: str, text: str) -> bool:
    return bool(read_pattern(name).search(text, 0, _READ_CHARACTERS))


def says(name: str, text: str) -> bool:
    """True if a text matches the patterns of this name.

    >>> says("user_corrections", "No, I meant the other file."), says("give_ups", "All done.")
    (True, False)
    """
    lowered = text[:_READ_CHARACTERS].lower()
    for hint in HINTS[name]:
        if hint in lowered:
            break
    else:
        if name != "user_corrections" or not any(map(_INTERRUPTION, lowered.split("\n"))):
            return False
    return _matches(name, text)


def count_words(source: str, parsed: Parsed) -> list[WordCounts]:
    """Return the counts of each session's messages in a stretch of records."""
    by_session: dict[str, list[Passage]] = {session: [] for session in parsed.messages}
    for one in parsed.passages:
        by_session.setdefault(one.session, []).append(one)
    return [
        _count(row_id("session", source, session), parsed.messages.get(session, 0), some)
        for session, some in by_session.items()
    ]


def _count(session_id: int, messages: int, passages: Iterable[Passage]) -> WordCounts:
    users = corrections = malformed = give_ups = first = 0
    last, is_correction = "", False
    for one in passages:
        if one.kind == "answer":
            give_ups += says("give_ups", one.text)
        if one.kind != "prompt":
            continue
        is_correction = says("user_corrections", one.text)
        first = int(is_correction) if not users else first
        users += 1
        last = one.text
        corrections += is_correction
        malformed += says("malformed", one.text)
    return WordCounts(
        session_id=session_id,
        messages=messages,
        user_messages=users,
        corrections=corrections,
        is_first_correction=first,
        malformed=malformed,
        give_ups=give_ups,
        last_words="correction" if is_correction else "thanks" if says("thanks", last) else None,
    )


def fingerprint_call(tool: str, arguments: Any) -> int:
    """A hash that is equal for equal requests, whatever the order and spacing of their JSON.

    >>> fingerprint_call("get", {"a": 1, "b": 2}) == fingerprint_call("get", {"b": 2, "a": 1})
    True
    """
    if isinstance(arguments, str):
        text = arguments
    else:  # a call without arguments equals one with an empty object
        text = msgspec.json.encode(arguments or {}, order="sorted").decode()
    return hash_names("arguments", tool, text or "{}")


@cache
def read_pattern(name: str) -> re.Pattern[str]:
    """Return all rows of one kind of pattern as one pattern."""
    return compile_kept("|".join(read_scoring_table().patterns[name]), re.I | re.M)


@cache
def read_scoring_table() -> ScoringTable:
    """Return the content of `scoring.toml`, read at the first use."""
    return read_table("scoring.toml", ScoringTable)
