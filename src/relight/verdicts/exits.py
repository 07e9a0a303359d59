"""What an exit code means, read together with the command that gave it and what it wrote.

Exit code 1 of grep, diff or a test runner is an answer; exit code 0 of `pytest | tail` is tail's.
Where the exit code was not recorded it is inferred from the command if the command allows it, and
otherwise anchored lines of the output decide.
"""

from msgspec.structs import replace

from relight.commands import Stage
from relight.failures import classify_error, find_exit_kind, find_kind, read_kinds
from relight.model import Verdict
from relight.verdicts.inference import infer_code, is_silent
from relight.verdicts.outputs import (
    Output,
    Raised,
    find_bad_line,
    find_complaint,
    find_exception,
    find_last_line,
    find_missing_command,
    find_printed_code,
    find_shell_message,
    find_tests,
    is_all_complaints,
)
from relight.verdicts.rules import Answer, read_rules

_EVIDENCE_LIMIT = 200
_SIGPIPE = (141, -13)
_INTERPRETERS = frozenset(("python", "node", "ruby", "perl", "php", "Rscript", "bash", "sh"))
OK = Verdict("ok", None, "the result tells of no failure")
_OK_ZERO = Verdict("ok", None, "exit code 0")
_OK_PARTLY = Verdict("ok", None, "something was found, though not everywhere")
_OK_TEXT = Verdict("ok", None, "nothing in the output tells of a failure")


def tell_error(kind: str | None, evidence: str, *, is_command: bool = False) -> Verdict:
    """The verdict that a call failed; without a kind, the evidence is asked for it."""
    evidence = evidence.strip()
    if kind is None:
        kind = find_kind(evidence, is_tool=True)
    if kind is None and not is_command:
        kind = classify_error(evidence).kind
    if kind is None or kind == "unknown":
        kind = "command_failed" if is_command else "tool_error"
    return Verdict("error", kind, read_kinds()[kind].reason, _clip(evidence) or None)


def tell_negative(kind: str, evidence: str) -> Verdict:
    """The verdict that a call did what it was asked and the answer was no."""
    return Verdict("negative", kind, read_kinds()[kind].reason, _clip(evidence) or None)


def _clip(text: str) -> str:
    return text if len(text) <= _EVIDENCE_LIMIT else text[: _EVIDENCE_LIMIT - 1] + "…"


def judge_output(output: Output, exit_code: int | None) -> Verdict:
    """What became of a command, from its exit code if that is known and from what it wrote."""
    if printed := find_printed_code(output):
        code, before = printed
        if code:
            return _judge_nonzero(before, code, is_told=True)
    if exit_code is None:
        return _judge_unknown(output)
    if exit_code == 0:
        return _judge_zero(output, is_told=True)
    return _judge_nonzero(output, exit_code, is_told=True)


def _judge_zero(output: Output, *, is_told: bool) -> Verdict:
    if missing := find_missing_command(output):
        return tell_error(_kind_of_missing(missing), missing)
    is_masked = any(stage not in output.deciders for stage in output.stages)
    if is_masked and is_all_complaints(output):
        return tell_error(None, find_last_line(output), is_command=True)
    good = _OK_ZERO if is_told else _OK_TEXT
    if output.is_reader:
        return good
    raised = find_exception(output)
    bad = raised.line if raised and (raised.is_last or is_masked) else None
    if not bad and is_masked and not _is_shown(output):
        bad = find_bad_line(output, is_sure=True)
    if not bad:
        return good
    if tests := find_tests(output):
        said = {"failed": "tests failed", "none": "no tests ran"}.get(tests[0], "tests ran")
        return Verdict("ok", None, f"exit code 0, of the last stage only; {said}")
    return tell_error(None, bad, is_command=True)


def _is_shown(output: Output) -> bool:
    """Whether the end of the output is a file's text, or findings of a checker.

    The first as in `make; cat build.log`, the second as in `mypy src | tail`.
    """
    rules, last = read_rules(), output.stages[-1]
    if rules.is_reader(last) and not last.is_piped:
        return True
    return any(rules.find_linter(stage) for stage in output.stages)


def _judge_nonzero(output: Output, code: int, *, is_told: bool) -> Verdict:
    if code in _SIGPIPE:
        return Verdict("ok", None, "what read its output had seen enough", f"exit code {code}")
    kind = find_exit_kind(code)
    trouble = find_missing_command(output)
    if not trouble:
        trouble = find_complaint(output, output.deciders) or find_shell_message(output)
        raised = None if output.is_reader else find_exception(output)
        if kind is None or code == 127:
            verdict = _judge_answer(output, code, trouble=trouble, raised=raised)
            verdict = verdict or _judge_tests(output, code, trouble=trouble, raised=raised)
            if verdict:
                return _tell_code(verdict, code if is_told else None)
        trouble = trouble or (raised.line if raised else None)
        if not trouble and not output.is_reader:
            trouble = find_bad_line(output, is_sure=False)
    kind = kind or _find_kind_of_code(output, code)
    verdict = tell_error(kind, trouble or find_last_line(output), is_command=True)
    return _tell_code(verdict, code if is_told else None)


def _tell_code(verdict: Verdict, code: int | None) -> Verdict:
    """A verdict with the exit code in its evidence, or, where none was told, with the silence."""
    said = verdict.evidence
    if code is None:
        return verdict if said else replace(verdict, evidence="no output")
    return replace(
        verdict, evidence=_clip(f"exit code {code}: {said}" if said else f"exit code {code}")
    )


def _judge_unknown(output: Output) -> Verdict:
    if missing := find_missing_command(output):
        return tell_error(_kind_of_missing(missing), missing)
    complaint = find_complaint(output, output.deciders)
    if not complaint and (message := find_shell_message(output)):
        complaint = message if _is_decisive(output, message) else None
    if complaint:
        row = _find_row_of(output)
        if row and row.may_complain:
            return tell_negative(row.kind, complaint)
        if verdict := _judge_findings(output, is_complaining=True):
            return verdict
        tests = None if output.is_reader else find_tests(output)
        if tests and tests[0] in ("failed", "none"):
            return _tell_tests(*tests)
        return tell_error(None, complaint, is_command=True)
    code = infer_code(output)
    if code is not None:
        if code == 0:
            return _judge_zero(output, is_told=False)
        return _judge_nonzero(output, code, is_told=False)
    if output.is_reader:
        return _judge_reader(output)
    tests = find_tests(output, is_runner=_is_runner(output))
    if tests and tests[0] != "passed":
        return _tell_tests(*tests)
    raised = find_exception(output)
    if tests and not (raised and raised.is_last):
        return Verdict("ok", None, "the tests passed", _clip(tests[1]))
    if raised:
        if _is_failed_check(raised):
            return tell_negative("tests_failed", raised.line)
        return tell_error(None, raised.line, is_command=True)
    if verdict := _judge_findings(output):
        return verdict
    if bad := find_bad_line(output, is_sure=False):
        return tell_error(None, bad, is_command=True)
    return _OK_TEXT


def _tell_tests(what: str, line: str) -> Verdict:
    """The verdict of a test run that did not pass."""
    if what == "broken":
        return tell_error(None, line, is_command=True)
    return tell_negative("no_tests" if what == "none" else "tests_failed", line)


def _judge_reader(output: Output) -> Verdict:
    rules = read_rules()
    for last in output.deciders[-1:]:
        is_mute = last.program in ("test", "[", "[[") or is_silent(last)
        if is_mute and rules.find_row(rules.answers, last) and not output.has_output:
            return Verdict("unknown", None, "only the exit code would tell")
    return _OK_TEXT


def _is_failed_check(raised: Raised) -> bool:
    """Whether an assertion failed in code that was written to find out, not deep in a library."""
    is_own = raised.file in ("<string>", "<stdin>") or read_rules().check.search(raised.file)
    return raised.name == "AssertionError" and bool(is_own)


def _judge_answer(
    output: Output, code: int, *, trouble: str | None, raised: Raised | None
) -> Verdict | None:
    """The no of a program whose exit code is its answer, unless something else went wrong."""
    rules = read_rules()
    hides = output.is_reader and any(stage.hides_errors for stage in output.deciders)
    if hides and not output.has_output:
        return tell_negative("no_match", "no output, errors hidden")
    for stage in output.deciders:
        row = rules.find_row(rules.answers, stage)
        if row is None or code not in row.codes or raised or (trouble and not row.may_complain):
            continue
        if row.pattern and not rules.patterns[row].search(output.text):
            continue
        if not output.is_reader and find_bad_line(output, is_sure=True):
            return None
        if (code == 123 or stage.program == "find") and output.has_output:
            return _OK_PARTLY
        shown = find_last_line(output) if row.kind == "difference" else ""
        return tell_negative(row.kind, trouble or shown)
    return None


def _judge_tests(
    output: Output, code: int, *, trouble: str | None, raised: Raised | None
) -> Verdict | None:
    """A failing test run, lint findings, or a script that was written to find out."""
    if output.is_reader:
        return None
    tests = find_tests(output, is_runner=_is_runner(output))
    if tests and tests[0] != "passed":
        return _tell_tests(*tests)
    if raised and _is_failed_check(raised):
        return tell_negative("tests_failed", raised.line)
    if raised:
        return None
    rules, last = read_rules(), find_last_line(output)
    for stage in output.deciders:
        row = rules.find_linter(stage)
        if row is None or code not in row.codes or (trouble and not row.may_complain):
            continue
        found = rules.findings[row].search(output.text) if row.needs_findings else None
        if found or not row.needs_findings:
            return tell_negative("lint_findings", found[0].strip() if found else last)
    if trouble:
        return None
    for stage in output.deciders:
        runner = _find_runner(stage)
        if runner and code in runner.none_codes:
            return tell_negative("no_tests", last)
        if (runner and code in runner.codes) or (code == 1 and _is_check(stage)):
            if find_bad_line(output, is_sure=False):
                return None
            return tell_negative("tests_failed", last)
    return None


def _judge_findings(output: Output, *, is_complaining: bool = False) -> Verdict | None:
    rules = read_rules()
    for stage in output.deciders:
        row = rules.find_linter(stage)
        if row is None or (is_complaining and not row.may_complain):
            continue
        if found := rules.findings[row].search(output.text):
            return tell_negative("lint_findings", found[0].strip())
    return None


def _find_kind_of_code(output: Output, code: int) -> str | None:
    codes_of = read_rules().codes_of
    for stage in output.deciders:
        if kind := codes_of.get(stage.program, {}).get(str(code)):
            return kind
    return None


def _kind_of_missing(line: str) -> str:
    return "missing_module" if "No module named" in line else "command_not_found"


def _find_row_of(output: Output) -> Answer | None:
    rules = read_rules()
    rows = (rules.find_row(rules.answers, stage) for stage in output.deciders)
    return next((row for row in rows if row), None)


def _is_decisive(output: Output, message: str) -> bool:
    """Whether what the shell could not do is what the line's exit code tells of."""
    if "syntax error" in message or "unexpected EOF" in message:
        return True
    spoken = {word.strip(":'`\"") for word in message.split()}
    if any(spoken.intersection(stage.words) for stage in output.deciders):
        return True
    if output.is_reader:
        return output.text.strip() == message
    return len(output.deciders) == len(output.stages)


def _find_runner(stage: Stage) -> Answer | None:
    rules = read_rules()
    found = rules.find_row(rules.runners, stage)
    if found or stage.program != "python":
        return found
    script = stage.action.rpartition("/")[2]
    after = stage.words[stage.words.index(stage.action) + 1 :] if script else ()
    return rules.runners.get(script) or rules.runners.get(f"{script} {next(iter(after), '')}")


def _is_runner(output: Output) -> bool:
    return any(_find_runner(stage) for stage in output.stages)


def _is_check(stage: Stage) -> bool:
    script = stage.action if stage.program in _INTERPRETERS else stage.program
    return bool(read_rules().check.search(script))
