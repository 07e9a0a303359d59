"""The outcome of a shell command: from its exit code together with the command and its output.

Exit code 1 of grep, diff or a test runner is an answer; exit code 0 of `pytest | tail` is tail's.
If no exit code was recorded, it is inferred where the command makes it certain; otherwise anchored
lines of the output decide.
"""

import re

from relight.judging.failures import find_exit_kind, find_kind
from relight.judging.shell import Stage
from relight.judging.verdicts.exit_answers import (
    find_answer_row,
    is_failed_check,
    is_test_run,
    judge_answer,
    judge_findings,
    judge_tests,
)
from relight.judging.verdicts.outputs import (
    Output,
    find_bad_line,
    find_complaint,
    find_exception,
    find_last_line,
    find_missing_command,
    find_shell_message,
    find_tests,
    is_all_complaints,
)
from relight.judging.verdicts.rules import (
    OK_TEXT,
    OK_ZERO,
    add_code,
    make_error,
    make_negative,
    make_tests,
    read_rules,
)
from relight.model import Verdict

_SIGPIPE = (141, -13)
_TESTS = {
    "passed": "tests passed",
    "failed": "tests failed",
    "none": "no tests ran",
    "broken": "the tests could not run",
}
_UNREADABLE = re.compile(r"[Ss]yntax error|unexpected EOF|parse error")
# With hidden errors and no output, the file that they were to show does not exist.
_SHOWERS = frozenset(("ls", "cat", "head", "tail", "stat", "nl"))
_SAYERS = ("echo", "printf")
_ECHO_OPTIONS = frozenset(("-n", "-e", "-E", "-ne", "-en"))


def judge_output(output: Output, exit_code: int | None) -> Verdict:
    """Return the verdict on a command, from its exit code if that is known and from its output."""
    if exit_code is None:
        return _judge_text(output)
    if exit_code == 0:
        return _judge_missing(output) or _judge_end(output, is_known=True)
    return _judge_nonzero(output, exit_code, is_known=True)


def _judge_missing(output: Output) -> Verdict | None:
    """The failure of a command that did no work, which shows whatever the exit code is."""
    if missing := find_missing_command(output):
        kind = "missing_module" if "No module named" in missing else "command_not_found"
        return make_error(kind, missing)
    if len(output.deciders) < len(output.stages) and is_all_complaints(output):
        return make_error(None, find_last_line(output), is_command=True)
    return None


def _judge_end(output: Output, *, is_known: bool) -> Verdict:
    """The verdict on exit code 0, by the failures that a 0 may hide."""
    bad = None if output.is_reader else _find_hidden_failure(output)
    if not bad:
        return OK_ZERO if is_known else OK_TEXT
    if tests := find_tests(output):
        return Verdict("ok", None, f"exit code 0, of the last stage only; {_TESTS[tests[0]]}")
    return make_error(None, bad, is_command=True)


def _find_hidden_failure(output: Output) -> str | None:
    is_masked = _is_masked(output)
    raised = find_exception(output)
    if raised and (raised.is_last or (is_masked and not raised.is_far)):
        return raised.line
    if is_masked and not _is_shown(output) and (bad := find_bad_line(output, level="sure")):
        return bad
    zeroes = read_rules().zeroes
    if any(stage.program in zeroes for stage in output.stages):
        return find_bad_line(output, level="zero")
    return None


def _is_masked(output: Output) -> bool:
    """True if the exit code hides the failure of a stage that has no fallback.

    `a || b` handles the failure of `a`; `a || true` only hides it.
    """
    deciding = {id(stage) for stage in output.deciders}  # the same line may stand there twice
    for at, stage in enumerate(output.stages):
        fallback = output.stages[at + 1 : at + 2] if stage.joint == "||" else ()
        is_handled = any(one.program in _SAYERS or _may_fail(one) for one in fallback)
        if id(stage) not in deciding and not is_handled and _may_fail(stage):
            return True
    return False


def _may_fail(stage: Stage) -> bool:
    """True if a stage can fail visibly: `cat > a.py <<E` before `python a.py` cannot."""
    rules = read_rules()
    return not (rules.is_reader(stage) or stage.program in rules.programs.neutral)


def _is_shown(output: Output) -> bool:
    """True if the output ends in a file's text (`make; cat log`) or findings (`mypy | tail`)."""
    rules, last = read_rules(), output.stages[-1]
    if rules.is_reader(last) and not last.is_piped and not rules.is_wordless(last):
        return True
    return any(rules.find_linter(stage) for stage in output.stages)


def _judge_nonzero(output: Output, code: int, *, is_known: bool) -> Verdict:
    """The verdict on a command that ended in another code than 0, recorded or inferred."""
    if code in _SIGPIPE:
        return Verdict("ok", None, "what read its output had seen enough", f"exit code {code}")
    kind, shown_code = find_exit_kind(code), code if is_known else None
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
                return add_code(verdict, shown_code)
        trouble = trouble or (raised.line if raised else None)
        if not trouble and not output.is_reader:
            trouble = find_bad_line(output)
    if kind is None and not (trouble and find_kind(trouble, is_tool=True)):
        kind = _find_kind_of_code(output, code)
    verdict = make_error(kind, trouble or find_last_line(output), is_command=True)
    return add_code(verdict, shown_code)


def _find_kind_of_code(output: Output, code: int) -> str | None:
    codes_of = read_rules().codes_of
    for stage in output.deciders:
        if kind := codes_of.get(stage.program, {}).get(str(code)):
            return kind
    return None


def _judge_text(output: Output) -> Verdict:
    """The verdict on a command without a recorded exit code."""
    if verdict := _judge_missing(output):
        return verdict
    complaint = find_complaint(output, output.deciders) or _find_decisive_message(output)
    if complaint:
        return _judge_complaint(output, complaint)
    code = infer_code(output)
    if code == 0:
        return _judge_end(output, is_known=False)
    if code is not None:
        return _judge_nonzero(output, code, is_known=False)
    return _judge_reader(output) if output.is_reader else _judge_last_words(output)


def _find_decisive_message(output: Output) -> str | None:
    """The shell's own error, if it is what set the exit code."""
    message = find_shell_message(output)
    if not message or _UNREADABLE.search(message):
        return message
    text = output.text.rstrip()
    if output.is_reader:
        return message if text.strip() == message else None
    is_decisive = text.endswith(message) or len(output.deciders) == len(output.stages)
    return message if is_decisive else None


def _judge_complaint(output: Output, complaint: str) -> Verdict:
    """The verdict on a command that complained under its name; the complaint may be an answer."""
    row = find_answer_row(output)
    if row and row.may_complain and read_rules().patterns[row].search(output.text):
        return make_negative(row.kind, complaint)
    if verdict := judge_findings(output, is_complaining=True):
        return verdict
    tests = None if output.is_reader else find_tests(output)
    if tests and tests[0] in ("failed", "none"):
        return make_tests(*tests)
    return make_error(None, complaint, is_command=True)


def _judge_reader(output: Output) -> Verdict:
    rules = read_rules()
    for last in output.deciders[-1:]:
        row = rules.find_row(rules.answers, last)
        is_mute = last.program in ("test", "[", "[[") or _is_silent(last)
        is_mute = is_mute or bool(row and row.is_quiet and not row.pattern)
        if row and is_mute and not output.has_output:
            return Verdict("unknown", None, "only the exit code would show it")
    return OK_TEXT


def _judge_last_words(output: Output) -> Verdict:
    """The verdict by the end of the output: test summary, exception, findings, failure lines."""
    tests = find_tests(output, is_runner=is_test_run(output))
    if tests and tests[0] != "passed":
        return make_tests(*tests)
    raised = find_exception(output)
    if tests and not (raised and raised.is_last):
        return judge_findings(output) or make_tests(*tests)
    if raised and is_failed_check(raised, output):
        return make_negative("tests_failed", raised.line)
    if raised:
        return make_error(None, raised.line, is_command=True)
    if verdict := judge_findings(output):
        return verdict
    bad = find_bad_line(output)
    return make_error(None, bad, is_command=True) if bad else OK_TEXT


def infer_code(output: Output) -> int | None:
    """Return the exit code that the command and its output make certain; None if they do not.

    `… | tail`, `…; echo done` and `… || true` end in 0. In `… && echo done` the word `done` shows
    it. grep and diff show their exit code by whether they wrote anything.
    """
    rules, deciders = read_rules(), output.deciders
    if not output.stages:
        return None
    if not deciders:
        return 0
    last = deciders[-1]
    if last.program in ("exit", "return", "false"):
        code = "1" if last.program == "false" else last.action
        return int(code) if code.isdecimal() and len(code) < 4 else None
    if len(deciders) > 1 and last.program == "echo" and (said := _find_literal(last)):
        return 0 if said in output.text else 1
    open_stages = [stage for stage in deciders if not _ends_in_zero(stage)]
    if not open_stages:
        return 0
    if open_stages != [last]:
        return None
    if last.hides_errors and not output.has_output and _shows_files(last):
        return 1
    row = rules.find_row(rules.answers, last)
    if row is None or 1 not in row.codes or (row.is_quiet and not output.has_output):
        return None
    if row.pattern:
        return 1 if rules.patterns[row].search(output.text) else None
    if _is_silent(last) or last.program == "find":  # find ends in 0 though it finds nothing
        return None
    if row.kind == "no_match":
        return 0 if output.has_output else 1
    if row.kind == "difference":
        return 1 if output.has_output else 0
    return None


def _ends_in_zero(stage: Stage) -> bool:
    """True for a stage whose exit code is 0 unless it complains."""
    rules = read_rules()
    if stage.program in rules.programs.zero or stage.program == "cd":
        return True
    if stage.is_piped and stage.program in rules.programs.zero_piped:
        return True
    return _is_plain_diff(stage) or (not stage.hides_errors and rules.is_plain_reader(stage))


def _is_plain_diff(stage: Stage) -> bool:
    """True for a `git diff` that ends in 0 whatever it shows."""
    if stage.program != "git" or stage.action not in ("diff", "diff-index", "diff-files"):
        return False
    return not {"--no-index", "--exit-code", "--quiet", "--check"}.intersection(stage.words)


def _shows_files(stage: Stage) -> bool:
    return stage.program in _SHOWERS or (stage.program == "sed" and "-n" in stage.words)


def _is_silent(stage: Stage) -> bool:
    """True for a stage with an option or a redirection that suppresses its output."""
    if stage.hides_output or stage.program == "diff":  # whose -q says less, not nothing
        return stage.hides_output
    options = [word for word in stage.words[1:] if word.startswith("-")]
    return any(
        word in ("--quiet", "--silent") or (word[1:2] != "-" and "q" in word) for word in options
    )


def _find_literal(stage: Stage) -> str | None:
    """The line that an echo writes whatever happens; None if that is not known."""
    if stage.hides_output or stage.joint == "|":
        return None
    words = stage.words[1:]
    while words and (words[0] in _ECHO_OPTIONS or (words[0] == "--" and len(words) > 1)):
        words = words[1:]
    said = " ".join(words)
    return None if set("$`*?\\").intersection(said) else said.strip()
