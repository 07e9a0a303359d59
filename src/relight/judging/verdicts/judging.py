"""What became of a command: by its exit code, or, where none was recorded, by what it wrote.

An exit code that was not recorded is inferred from the command if the command allows it;
otherwise anchored lines of the output decide.
"""

import re

from relight.judging.verdicts.answers import (
    find_answer_row,
    is_failed_check,
    is_test_run,
    judge_findings,
)
from relight.judging.verdicts.exceptions import find_exception
from relight.judging.verdicts.exits import (
    is_outlived,
    is_remedied,
    judge_end,
    judge_nonzero,
    judge_unheard,
    judge_zero,
)
from relight.judging.verdicts.inference import infer_code, is_silent
from relight.judging.verdicts.outputs import (
    Output,
    find_bad_line,
    find_complaint,
    find_printed_code,
    find_shell_message,
    find_silent_end,
    find_tests,
)
from relight.judging.verdicts.phrases import OK_TEXT, tell_error, tell_negative, tell_tests
from relight.judging.verdicts.rules import read_rules
from relight.model import Verdict

_UNREADABLE = re.compile(r"[Ss]yntax error|unexpected EOF|parse error")
_ZSH = re.compile(r"(?:\(eval\)|zsh)(?::([\w-]+))?:\d+: ")


def judge_output(output: Output, exit_code: int | None) -> Verdict:
    """What became of a command, from its exit code if that is known and from what it wrote."""
    if printed := find_printed_code(output):
        code, before = printed
        verdict = judge_nonzero(before, code, is_told=True) if code else OK_TEXT
        if verdict.label == "error":
            return verdict
        if code and not exit_code:  # it was asked for, and told
            return Verdict("ok", None, f"{verdict.reason}, and its exit code was printed")
    if exit_code is None:
        return _judge_untold(output)
    if exit_code == 0:
        return judge_zero(output, is_told=True)
    return judge_nonzero(output, exit_code, is_told=True)


def _judge_untold(output: Output) -> Verdict:
    if unheard := judge_unheard(output):
        return unheard
    complaint = find_complaint(output, output.deciders)
    if not complaint and (message := find_shell_message(output)):
        complaint = message if _is_decisive(output, message) else None
    if complaint:
        row = find_answer_row(output)
        if row and row.may_complain and read_rules().patterns[row].search(output.text):
            return tell_negative(row.kind, complaint)
        if verdict := judge_findings(output, is_complaining=True):
            return verdict
        tests = None if output.is_reader else find_tests(output)
        if tests and tests[0] in ("failed", "none"):
            return tell_tests(*tests)
        return tell_error(None, complaint, is_command=True)
    end = find_silent_end(output) or output
    code = infer_code(end)
    if code and code > 1 and end is not output:  # among others' words, a page may be empty
        code = None
    if code is not None:
        if code == 0:
            return judge_end(output, is_told=False)
        return judge_nonzero(output, code, is_told=False)
    if output.is_reader:
        return _judge_reader(end)
    tests = find_tests(output, is_runner=is_test_run(output))
    if tests and tests[0] != "passed":
        return tell_tests(*tests)
    raised = find_exception(output)
    if raised and is_outlived(output, raised):
        raised = None
    if tests and not (raised and raised.is_last):
        return judge_findings(output) or tell_tests(*tests)
    if raised:
        if is_failed_check(raised, output):
            return tell_negative("tests_failed", raised.line)
        return tell_error(None, raised.line, is_command=True)
    if verdict := judge_findings(output):
        return verdict
    bad = find_bad_line(output)
    if bad and not is_remedied(output):
        return tell_error(None, bad, is_command=True)
    return OK_TEXT


def _judge_reader(output: Output) -> Verdict:
    rules = read_rules()
    for last in output.deciders[-1:]:
        row = rules.find_row(rules.answers, last)
        is_mute = last.program in ("test", "[", "[[") or is_silent(last)
        is_mute = is_mute or bool(row and row.is_quiet and not row.pattern)
        if row and is_mute and not output.has_output:
            return Verdict("unknown", None, "only the exit code would tell")
    return OK_TEXT


def _is_decisive(output: Output, message: str) -> bool:
    """Whether what the shell could not do is what the line's exit code tells of.

    zsh names the builtin that failed, `(eval):kill:1:`, and goes no further where it cannot even
    make the words of a command.
    """
    if _UNREADABLE.search(message):
        return True
    zsh = _ZSH.match(message)
    if zsh and not zsh[1] and output.text.rstrip().endswith(message):
        return True
    spoken = {word.strip(":'`\"") for word in message.split()}
    if zsh and zsh[1]:
        spoken.add(zsh[1])
    if any(spoken.intersection(stage.words) for stage in output.deciders):
        return True
    if output.is_reader:
        return output.text.strip() == message
    return len(output.deciders) == len(output.stages)
