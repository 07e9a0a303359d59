"""Verdicts with their kind, the reason of that kind, and short evidence."""

from msgspec.structs import replace

from relight.judging.failures import classify_error, find_kind, read_kinds
from relight.model import Verdict

_EVIDENCE_LIMIT = 200
_TRACEBACK = ("Traceback (most recent call last)", 'File "')  # the last line names the exception
OK = Verdict("ok", None, "the result tells of no failure")
OK_ZERO = Verdict("ok", None, "exit code 0")
OK_PARTLY = Verdict("ok", None, "something was found, though not everywhere")
OK_TEXT = Verdict("ok", None, "nothing in the output tells of a failure")


def make_error(kind: str | None, evidence: str, *, is_command: bool = False) -> Verdict:
    """Return the verdict that a call failed; without a kind, the evidence decides it."""
    evidence = evidence.strip()
    if kind is None:
        kind = find_kind(evidence, is_tool=True)
    if kind is None and not is_command:
        kind = classify_error(evidence).kind
    if kind is None or kind == "unknown":
        kind = "command_failed" if is_command else "tool_error"
    if evidence.startswith(_TRACEBACK):
        evidence = evidence.rpartition("\n")[2]
    return Verdict("error", kind, read_kinds()[kind].reason, _clip(evidence) or None)


def make_negative(kind: str, evidence: str) -> Verdict:
    """Return the verdict that a call worked and its answer was no."""
    return Verdict("negative", kind, read_kinds()[kind].reason, _clip(evidence) or None)


def make_tests(what: str, line: str) -> Verdict:
    """Return the verdict on a test run by its summary, as `find_tests` reads it."""
    if what == "passed":
        return Verdict("ok", None, "the tests passed", _clip(line))
    if what == "broken":
        return make_error(None, line, is_command=True)
    return make_negative("no_tests" if what == "none" else "tests_failed", line)


def add_code(verdict: Verdict, code: int | None) -> Verdict:
    """Return a verdict with the exit code in its evidence; without one, silence is the evidence."""
    said = verdict.evidence
    if code is None:
        return verdict if said else replace(verdict, evidence="no output")
    return replace(
        verdict, evidence=_clip(f"exit code {code}: {said}" if said else f"exit code {code}")
    )


def _clip(text: str) -> str:
    return text if len(text) <= _EVIDENCE_LIMIT else text[: _EVIDENCE_LIMIT - 1] + "…"
