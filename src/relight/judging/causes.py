"""The kind and the cause of a failed run or session, as its evidence names them.

Evidence is a list of sentences, the deciding one first. Equal causes get equal words, so that
failures of the same cause can be counted together.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct

from relight.judging.failures import classify_error, read_kinds

LONGEST_CAUSE = 160
OVER_BUDGET = "it was ended over {1}"
MOST_FAILED = "most calls failed, the last one too"
LABEL = re.compile(r"a person said failure(?:: (?P<why>.+))?", re.DOTALL)
EXIT = re.compile(
    r"\bexit(?:ed)?(?: with)?(?: (?:exit )?(?:code|status))? (\d{1,3})\b", re.IGNORECASE
)
# parts of a message that differ from one failure to the next: ids, times and large numbers
VARYING = re.compile(
    r"""\b(?:
        [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
        | (?:req|msg|call|run|resp|sess(?:ion)?)[_-]\w{6,}
        | (?=[a-f]*\d)[0-9a-f]{8,}
        | \d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\ ?UTC|[+-]\d\d:?\d\d)?)?
        | \d+(?:\.\d+)?\ ?(?:ms|s|seconds|minutes)
        | \d{4,}
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


class Cause(Struct, frozen=True):
    """The kind of a failure, as `data/failures.toml` names it, and its cause in words."""

    kind: str
    cause: str


def find_cause(evidence: Sequence[str]) -> Cause:
    """Return kind and cause of a failure from its evidence, the deciding sentence first.

    A person's reason is the cause. A label without a reason, and a program that only says that it
    failed, leave the cause to the other evidence.

    >>> find_cause(["the job's script failed: Script exited with code 3"])
    Cause(kind='command_failed', cause='script failed: exit code 3')
    >>> find_cause(["the scheduler's ledger says failed: HTTP 500: no luck, req_0a1b2c3d4"])
    Cause(kind='server_error', cause='HTTP 500: no luck, …')
    >>> find_cause(["the scheduler's ledger says failed: Script exited with code 3"])
    Cause(kind='command_failed', cause='Script exited with code 3')
    """
    label = LABEL.fullmatch(evidence[0]) if evidence else None
    if label and label["why"]:
        return Cause("labelled", _shorten(evidence[0]))
    is_bare = label is not None or evidence[:1] == ["the source says failure"]
    # what was only said comes last: it is the cause if no other evidence is
    for sentence in [*evidence[1:], *evidence[:1]] if is_bare else evidence[:1]:
        if (found := _read_sentence(sentence)) is not None:
            return found
    if label:
        return Cause("labelled", "a person said failure")
    if not evidence:
        return Cause("unknown", "no evidence of how it went")
    return _classify(evidence[0])


@lru_cache(maxsize=4096)
def _classify(text: str) -> Cause:
    return Cause(classify_error(text).kind, _shorten(text))


@lru_cache(maxsize=4096)
def _read_sentence(sentence: str) -> Cause | None:
    """Return what a sentence of `judge_outcome` or of a run says; None if it says no cause."""
    for pattern, read in SENTENCES:
        if found := pattern.match(sentence):
            return read(found)
    return None


def _read_ledger(found: re.Match[str]) -> Cause:
    kind = classify_error(found[1]).kind
    is_script = kind == "unknown" and found[1].startswith("Script exited with code")
    return Cause("command_failed" if is_script else kind, _shorten(found[1]))


def _read_script(found: re.Match[str]) -> Cause:
    kind = classify_error(found[1]).kind
    code = EXIT.search(found[1])
    text = f"exit code {code[1]}" if code else found[1]
    return Cause(
        "command_failed" if kind == "unknown" else kind, _shorten(f"script failed: {text}")
    )


def _read_model_call(found: re.Match[str]) -> Cause:
    kind = found[1] if found[1] in read_kinds() else "unknown"
    return Cause(kind, _shorten(f"model call failed: {found[2] or found[1]}"))


def _read_last_call(found: re.Match[str]) -> Cause:
    tool, reason = found[1], found[2]
    kinds = (name for name, row in read_kinds().items() if row.is_tool and row.reason in reason)
    kind = next(kinds, None) or classify_error(reason).kind
    return Cause("tool_error" if kind == "unknown" else kind, _shorten(f"{tool}: {reason}"))


def _name(kind: str, words: str = "{0}") -> Callable[[re.Match[str]], Cause]:
    """Return what reads a sentence as a cause; `{0}` is the sentence, `{1}` what it names."""
    return lambda found: Cause(kind, _shorten(words.format(found.string, *found.groups())))


SENTENCES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Cause]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), read)
    for pattern, read in (
        (r"the scheduler's ledger says failed: (.*)", _read_ledger),
        (r"the job's script failed: (.*)", _read_script),
        (r"the last model call failed: (\w+)(?: \((.*)\))?", _read_model_call),
        (r"the last call failed: ([^,]+), (.*)", _read_last_call),
        (
            r"it was ended at .* (its budget of \S+?)(?:;|$)",
            _name("budget", OVER_BUDGET),
        ),
        (r"it was ended after \S+ seconds, which was its limit", _name("time_limit")),
        (r"it ended in a spiral: (.+) failed \d+ times", _name("spiral", "a spiral of {1}")),
        (r"\d+ of \d+ calls failed, the last one too", _name("calls_failed", MOST_FAILED)),
        (r"the last test run failed", _name("tests_failed")),
        (r"no answer after the last user message", _name("no_answer")),
        (r"the answer is empty", _name("empty_answer")),
        (r"the answer says", _name("admitted")),
        (r"the source says failure", _name("reported")),
    )
)


def _shorten(text: str) -> str:
    """Return the first line without what differs from one failure to the next."""
    line = " ".join(VARYING.sub("…", text.strip().partition("\n")[0]).split())
    return line if len(line) <= LONGEST_CAUSE else line[: LONGEST_CAUSE - 1] + "…"
