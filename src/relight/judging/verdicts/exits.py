"""What an exit code means, read together with the command that gave it and what it wrote.

Exit code 1 of grep, diff or a test runner is an answer; exit code 0 of `pytest | tail` is tail's.
"""

from msgspec.structs import replace

from relight.judging.failures import find_exit_kind, find_kind
from relight.judging.shell import Stage
from relight.judging.verdicts.answers import judge_answer, judge_tests
from relight.judging.verdicts.exceptions import Raised, find_exception
from relight.judging.verdicts.outputs import (
    Output,
    find_bad_line,
    find_complaint,
    find_last_line,
    find_literal,
    find_missing_command,
    find_shell_message,
    find_tests,
    is_all_complaints,
)
from relight.judging.verdicts.phrases import OK_TEXT, OK_ZERO, tell_code, tell_error, tell_negative
from relight.judging.verdicts.rules import read_rules
from relight.model import Verdict

_SIGPIPE = (141, -13)
_TESTERS = ("[", "[[", "test", "grep", "cmp", "diff")
_TESTS = {
    "passed": "tests passed",
    "failed": "tests failed",
    "none": "no tests ran",
    "broken": "the tests could not run",
}


def judge_zero(output: Output, *, is_told: bool) -> Verdict:
    """What became of a command that ended in 0, or, not told so, must have."""
    return judge_unheard(output) or judge_end(output, is_told=is_told)


def judge_unheard(output: Output) -> Verdict | None:
    """The failure of a command that shows whatever its exit code: it never came to its work."""
    if missing := find_missing_command(output):
        return tell_error(_kind_of_missing(missing), missing)
    if len(output.deciders) < len(output.stages) and is_all_complaints(output):
        return tell_error(None, find_last_line(output), is_command=True)
    return None


def judge_end(output: Output, *, is_told: bool) -> Verdict:
    """What became of a command that ended in 0, by what a 0 may hide."""
    is_all_seen = len(output.deciders) == len(output.stages)
    rules, good = read_rules(), OK_ZERO if is_told else OK_TEXT
    if output.is_reader:
        return good
    raised = find_exception(output)
    if raised and is_outlived(output, raised, is_zero=is_told):
        raised = None
    is_masked = not is_all_seen and any(map(_may_fail, find_masked(output)))
    is_end = raised is not None and (raised.is_last or (is_masked and not raised.is_far))
    bad = raised.line if raised and is_end else None
    if not bad and is_masked and not _is_shown(output):
        bad = find_bad_line(output, level="sure")
    if not bad and any(stage.program in rules.zeroes for stage in output.stages):
        bad = find_bad_line(output, level="zero")
    if not bad:
        return good
    if tests := find_tests(output):
        return Verdict("ok", None, f"exit code 0, of the last stage only; {_TESTS[tests[0]]}")
    return tell_error(None, bad, is_command=True)


def judge_nonzero(output: Output, code: int, *, is_told: bool) -> Verdict:
    """What became of a command that ended in another code than 0, or must have."""
    if code in _SIGPIPE:
        return Verdict("ok", None, "what read its output had seen enough", f"exit code {code}")
    if _is_own_exit(output, code):
        return tell_code(tell_negative("answer_no", find_last_line(output)), code)
    kind = find_exit_kind(code)
    trouble = find_missing_command(output)
    if not trouble:
        trouble = find_complaint(output, output.deciders) or find_shell_message(output)
        if not trouble and len(output.deciders) < len(output.stages) and is_all_complaints(output):
            trouble = find_last_line(output)  # `cat absent | grep spam` had nothing to look through
        raised = None if output.is_reader else find_exception(output)
        if kind is None or code == 127:
            verdict = judge_answer(output, code, trouble=trouble, raised=raised)
            verdict = verdict or judge_tests(output, code, trouble=trouble, raised=raised)
            if verdict:
                return tell_code(verdict, code if is_told else None)
        trouble = trouble or (raised.line if raised else None)
        if not trouble and not output.is_reader:
            trouble = find_bad_line(output)
    if kind is None and not (trouble and find_kind(trouble, is_tool=True)):
        kind = _find_kind_of_code(output, code)
    verdict = tell_error(kind, trouble or find_last_line(output), is_command=True)
    return tell_code(verdict, code if is_told else None)


def _is_own_exit(output: Output, code: int) -> bool:
    """Whether a command looked at something and then said `exit 1` itself."""
    before, last = output.stages[:-1], output.stages[-1:]
    if not last or last[0].program != "exit" or last[0].action != str(code):
        return False
    return any(stage.program in _TESTERS for stage in before) and not any(map(_may_fail, before))


def _kind_of_missing(line: str) -> str:
    """The kind of failure that a line about something missing tells of."""
    return "missing_module" if "No module named" in line else "command_not_found"


def is_outlived(output: Output, raised: Raised, *, is_zero: bool = False) -> bool:
    """Whether an exception was of a stage whose failure the rest of the command got over.

    Where Python is in the command, it was Python's. With `is_zero` the rest is known to have
    ended well, be it silent.
    """
    pythons = [stage for stage in output.stages if stage.program.endswith(("python", ".py"))]
    suspects = pythons or [stage for stage in output.stages if _may_fail(stage)]
    suspected = {id(stage) for stage in suspects}
    if any(id(stage) in suspected for stage in find_masked(output)):
        return raised.is_far
    is_provided = any(id(output.stages[at]) in suspected for at in _find_provided(output))
    return is_provided and (is_zero or not raised.is_last)


def is_remedied(output: Output) -> bool:
    """Whether a failure was provided for, and what was done about it did not end in another."""
    if not any(_may_fail(output.stages[at]) for at in _find_provided(output)):
        return False
    end = replace(output, text=f"\n{find_last_line(output)}")
    return find_bad_line(end) is None


def find_masked(output: Output) -> list[Stage]:
    """The stages that could have failed unseen, with nothing prepared for that."""
    provided = _find_provided(output)
    deciding = {id(stage) for stage in output.deciders}  # the same line may stand there twice
    return [
        stage
        for at, stage in enumerate(output.stages)
        if id(stage) not in deciding and at not in provided
    ]


def _find_provided(output: Output) -> set[int]:
    """The stages before a `||` with a program behind it that does something about it, or says so.

    `|| true` and `|| tail log` only pass over a failure, or show it.
    """
    stages = output.stages
    provided: set[int] = set()
    for at in range(len(stages) - 2, -1, -1):
        is_left = stages[at].joint == "||" and _is_remedy(stages[at + 1], output)
        if is_left or (stages[at].joint in ("|", "&&") and at + 1 in provided):
            provided.add(at)
    return provided


def _is_remedy(stage: Stage, output: Output) -> bool:
    said = find_literal(stage)
    return f"\n{said}" in output.text if said else _may_fail(stage)


def _may_fail(stage: Stage) -> bool:
    """Whether a stage can fail in its own way: `cat > a.py <<E` before `python a.py` cannot."""
    rules = read_rules()
    return not (rules.is_reader(stage) or stage.program in rules.programs.neutral)


def _is_shown(output: Output) -> bool:
    """Whether the end of the output is a file's text, or findings of a checker.

    The first as in `make; cat build.log`, the second as in `mypy src | tail`.
    """
    rules, last = read_rules(), output.stages[-1]
    if rules.is_reader(last) and not last.is_piped and not rules.is_wordless(last):
        return True
    return any(rules.find_linter(stage) for stage in output.stages)


def _find_kind_of_code(output: Output, code: int) -> str | None:
    codes_of = read_rules().codes_of
    for stage in output.deciders:
        if kind := codes_of.get(stage.program, {}).get(str(code)):
            return kind
    return None
