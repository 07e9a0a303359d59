"""Commands whose non-zero exit code is an answer: tests, checkers, searches, check scripts."""

from relight.judging.shell import Stage
from relight.judging.verdicts.outputs import (
    Output,
    Raised,
    find_bad_line,
    find_broken_tests,
    find_last_line,
    find_tests,
)
from relight.judging.verdicts.rules import (
    OK_PARTLY,
    AnswerRow,
    make_negative,
    make_tests,
    read_rules,
)
from relight.model import Verdict

# Faults of the script itself, whatever it was written to check.
_OWN_FAULTS = frozenset(
    [
        *["SyntaxError", "IndentationError", "TabError", "NameError", "UnboundLocalError"],
        *["ImportError", "ModuleNotFoundError", "FileNotFoundError", "PermissionError", ""],
        *["KeyboardInterrupt", "MemoryError", "ImproperlyConfigured", "AppRegistryNotReady"],
    ]
)
_INTERPRETERS = frozenset(("python", "node", "ruby", "perl", "php", "Rscript", "bash", "sh"))


def judge_answer(
    output: Output, code: int, *, trouble: str | None, raised: Raised | None
) -> Verdict | None:
    """Return the negative answer of a program whose exit code is an answer; None if it failed."""
    rules = read_rules()
    hides = output.is_reader and any(stage.hides_errors for stage in output.deciders)
    if hides and not output.has_output:
        return make_negative("no_match", "no output, errors hidden")
    for stage in output.deciders:
        row = rules.find_row(rules.answers, stage)
        if row is None or code not in row.codes or raised or (trouble and not row.may_complain):
            continue
        if row.pattern and not rules.patterns[row].search(output.text):
            continue
        if not output.is_reader and find_bad_line(output, level="sure"):
            return None
        if (code == 123 or stage.program == "find") and output.has_output:
            return OK_PARTLY
        shown = find_last_line(output) if row.kind == "difference" or row.pattern else ""
        return make_negative(row.kind, trouble or shown)
    return None


def judge_tests(
    output: Output, code: int, *, trouble: str | None, raised: Raised | None
) -> Verdict | None:
    """Return the verdict on a failing test run, lint findings or a failed check; else None."""
    if output.is_reader:
        return None
    tests = find_tests(output, is_runner=is_test_run(output))
    if tests and tests[0] != "passed":
        return make_tests(*tests)
    if raised and is_failed_check(raised, output):
        return make_negative("tests_failed", raised.line)
    if raised:
        return None
    linters = [row for row in map(read_rules().find_linter, output.deciders) if row]
    linters = [row for row in linters if code in row.codes and (row.may_complain or not trouble)]
    if linters and find_broken_tests(output):
        return None  # the linter could not check anything
    for row in linters:
        if verdict := _judge_linter(row, output):
            return verdict
    if trouble:
        return None
    for stage in output.deciders:
        if verdict := _judge_runner(stage, output, code):
            return verdict if not find_bad_line(output) or verdict.kind == "no_tests" else None
    return None


def _judge_linter(row: AnswerRow, output: Output) -> Verdict | None:
    if not row.needs_findings:
        return make_negative("lint_findings", find_last_line(output))
    found = read_rules().findings[row].search(output.text)
    return make_negative("lint_findings", found[0].strip()) if found else None


def _judge_runner(stage: Stage, output: Output, code: int) -> Verdict | None:
    """The verdict on a test runner or a check without a summary, by its exit code."""
    runner, last = _find_runner(stage), find_last_line(output)
    if runner and code in runner.none_codes:
        return make_negative("no_tests", last)
    if (runner and code in runner.codes) or (code == 1 and _is_check(stage)):
        return make_negative("tests_failed", last)
    return None


def judge_findings(output: Output, *, is_complaining: bool = False) -> Verdict | None:
    """Return the findings of a checker, by its output alone; None if there are none."""
    rules = read_rules()
    for stage in output.deciders:
        row = rules.find_linter(stage)
        if row is None or (is_complaining and not row.may_complain):
            continue
        if found := rules.findings[row].search(output.text):
            return make_negative("lint_findings", found[0].strip())
    return None


def find_answer_row(output: Output) -> AnswerRow | None:
    """Return the row of the first stage whose exit code is an answer."""
    rules = read_rules()
    rows = (rules.find_row(rules.answers, stage) for stage in output.deciders)
    return next((row for row in rows if row), None)


def is_failed_check(raised: Raised, output: Output) -> bool:
    """True if a script that was written as a check ended in the failure that it checks for.

    An assertion failed there, not deep in a library; or a script with the name of a check ended
    in an exception of what it called, not in a fault of the script. On 9,315 labelled shell calls
    this decides 143 between answer and error.
    """
    if raised.name == "AssertionError":
        file = raised.files[-1] if raised.files else ""
        if file in ("<string>", "<stdin>"):
            return True
        return bool(read_rules().check.search(file))
    if raised.name in _OWN_FAULTS:
        return False
    scripts = {_find_script(stage) for stage in output.deciders if _is_check(stage)}
    return any(file.rpartition("/")[2] in scripts for file in raised.files)


def is_test_run(output: Output) -> bool:
    """True if a program that runs tests is in the command."""
    return any(_find_runner(stage) for stage in output.stages)


def _find_runner(stage: Stage) -> AnswerRow | None:
    rules = read_rules()
    found = rules.find_row(rules.runners, stage)
    if found or stage.program != "python":
        return found
    script = stage.action.rpartition("/")[2]
    after = stage.words[stage.words.index(stage.action) + 1 :] if script else ()
    return rules.runners.get(script) or rules.runners.get(f"{script} {next(iter(after), '')}")


def _is_check(stage: Stage) -> bool:
    return bool(read_rules().check.search(_find_script(stage)))


def _find_script(stage: Stage) -> str:
    script = stage.action if stage.program in _INTERPRETERS else stage.program
    return script.rpartition("/")[2]
