"""The rules of verdicts, read once from `data/verdicts.toml`, and the verdicts they end in."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Literal

import msgspec
from msgspec.structs import replace

from relight.data import read_table
from relight.expressions import compile_later
from relight.judging.failures import classify_error, find_kind, read_kinds
from relight.judging.shell import Stage
from relight.model import Verdict

Level = Literal["any", "sure", "zero"]

_LINES_LIMIT = 1000  # sets of programs whose lines are cached
_EVIDENCE_LIMIT = 200  # characters
_TRACEBACK = ("Traceback (most recent call last)", 'File "')  # the last line names the exception
OK = Verdict("ok", None, "the result shows no failure")
OK_ZERO = Verdict("ok", None, "exit code 0")
OK_PARTLY = Verdict("ok", None, "something was found, though not everywhere")
OK_TEXT = Verdict("ok", None, "nothing in the output shows a failure")


class AnswerRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Programs, and the exit codes that are a negative answer."""

    programs: tuple[str, ...]
    codes: tuple[int, ...]
    kind: str = "answer_no"
    pattern: str = ""
    findings: str = ""
    may_complain: bool = False
    none_codes: tuple[int, ...] = ()
    scripts: str = ""
    needs_findings: bool = False
    is_quiet: bool = False


class LineRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line by which a program reports a failure."""

    patterns: tuple[str, ...]
    words: tuple[str, ...] = ()
    programs: frozenset[str] = frozenset()
    not_programs: frozenset[str] = frozenset()
    is_sure: bool = False
    is_zero: bool = False
    is_first: bool = False
    is_usage: bool = False


class Wrapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text that a harness writes around a tool's output."""

    exit_before: tuple[str, ...]
    exit_after: tuple[str, ...]
    exit_last: tuple[str, ...]
    tags: tuple[str, ...]
    no_output: tuple[str, ...]
    prefixes: tuple[str, ...]
    timeouts: tuple[str, ...]


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names and words in a JSON result that decide a verdict."""

    exit_codes: tuple[str, ...]
    texts: tuple[str, ...]
    errors: tuple[str, ...]
    successes: tuple[str, ...]
    reports: frozenset[str]
    statuses: tuple[str, ...]
    error_words: frozenset[str]
    lone_words: frozenset[str]
    weak_error_words: frozenset[str]
    timeout_flags: tuple[str, ...]
    counts: tuple[str, ...]
    matches: tuple[str, ...]


class Tools(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tools by what they do, and how tools other than a shell report a failure."""

    editors: frozenset[str]
    commands: tuple[str, ...]
    places: frozenset[str]
    shells: frozenset[str]
    shell_words: frozenset[str]
    searchers: frozenset[str]
    coders: frozenset[str]
    nothing_found: tuple[str, ...]
    refusals: tuple[str, ...]
    first_lines: tuple[str, ...]
    first_words: tuple[str, ...]
    questions: frozenset[str]


class Programs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Programs by the meaning of their exit code and output."""

    readers: frozenset[str]
    neutral: frozenset[str]
    zero: frozenset[str]
    zero_piped: frozenset[str]
    wordless: frozenset[str]
    checks: str
    shell_messages: str
    missing_commands: str
    missing_modules: str
    speaks_as: dict[str, tuple[str, ...]]
    harmless: tuple[str, ...]
    complaints: str
    passed_tests: tuple[str, ...]
    failed_tests: tuple[str, ...]
    broken_tests: tuple[str, ...]
    no_tests: tuple[str, ...]
    help_options: frozenset[str]


class VerdictTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `verdicts.toml`."""

    wrapping: Wrapping
    fields: Fields
    tools: Tools
    programs: Programs
    answer: tuple[AnswerRow, ...]
    runner: tuple[AnswerRow, ...]
    linter: tuple[AnswerRow, ...]
    line: tuple[LineRow, ...]
    codes_of: dict[str, dict[str, str]]


class Rules:
    """The table, compiled.

    A pattern for lines is searched with a newline before the text: `re` jumps from one literal
    newline to the next, where `^` would be tried at every character. At each of them it tries only
    the alternatives that begin with the right letter.
    """

    def __init__(self, table: VerdictTable) -> None:
        wrapping, tools, programs = table.wrapping, table.tools, table.programs
        self.fields, self.tools, self.programs = table.fields, tools, programs
        self.codes_of = table.codes_of
        self.exit_before = compile_later(join_patterns(wrapping.exit_before))
        self.exit_after = compile_later(join_patterns(wrapping.exit_after))
        self.exit_last = compile_later(join_patterns(wrapping.exit_last))
        self.tag = compile_later(rf"<({'|'.join(wrapping.tags)})(?: [^>\n]*)?>\n?")
        self.no_output = compile_later(join_patterns(wrapping.no_output), re.IGNORECASE)
        self.prefix = compile_later(join_patterns(wrapping.prefixes))
        self.timeout = at_lines(wrapping.timeouts)
        self.nothing_found = compile_later(join_patterns(tools.nothing_found))
        self.refusal = compile_later(join_patterns(tools.refusals))
        self.first_line = compile_later(join_patterns(tools.first_lines))
        self.first_words = compile_later(join_patterns(tools.first_words))
        self.check = compile_later(programs.checks)
        self.shell_message = at_lines([programs.shell_messages])
        self.missing_command = at_lines([programs.missing_commands])
        self.missing_module = at_lines([programs.missing_modules])
        self.harmless = compile_later(join_patterns(programs.harmless))
        self.complaint = compile_later(programs.complaints)
        self.passed_tests = at_lines(programs.passed_tests)
        self.failed_tests = at_lines(programs.failed_tests)
        self.broken_tests = at_lines(programs.broken_tests)
        self.no_tests = at_lines(programs.no_tests)
        self.answers = by_program(table.answer)
        self.runners = by_program(table.runner)
        self.linters = by_program(table.linter)
        self.findings = {row: at_lines([row.findings]) for row in table.linter}
        self.scripts = {row: compile_later(row.scripts) for row in table.linter if row.scripts}
        self.patterns = {row: compile_later(row.pattern, re.MULTILINE) for row in table.answer}
        self.lines = [
            (
                row,
                compile_later(join_patterns(row.patterns))
                if row.is_first
                else at_lines(row.patterns),
            )
            for row in table.line
        ]
        self.zeroes = frozenset(name for row in table.line if row.is_zero for name in row.programs)
        self._named = frozenset(
            name for row in table.line for name in (*row.programs, *row.not_programs)
        )
        self._lines: dict[tuple[frozenset[str], Level], list[tuple[LineRow, re.Pattern[str]]]] = {}

    def find_lines(
        self, programs: frozenset[str], level: Level
    ) -> list[tuple[LineRow, re.Pattern[str]]]:
        """Return the rows of lines that apply if these programs are in a command.

        `sure`: rows that hold whatever the exit code of another program is, such as `| tail`;
        `zero`: rows that hold for a program whose exit code is always 0.
        """
        programs &= self._named
        known = self._lines.get((programs, level))
        if known is None:
            known = [
                (row, pattern)
                for row, pattern in self.lines
                if (level == "any" or (row.is_sure if level == "sure" else row.is_zero))
                and (not row.programs or not programs.isdisjoint(row.programs))
                and programs.isdisjoint(row.not_programs)
            ]
            if len(self._lines) < _LINES_LIMIT:
                self._lines[programs, level] = known
        return known

    def find_row(self, rows: dict[str, AnswerRow], stage: Stage) -> AnswerRow | None:
        """Return the row of a stage: of program and action (`git grep`), else of the program."""
        return rows.get(f"{stage.program} {stage.action}") or rows.get(stage.program)

    def find_linter(self, stage: Stage) -> AnswerRow | None:
        """Return the row of a checker, or of a script that runs one by its name: `npm run lint`."""
        row = self.find_row(self.linters, stage)
        if row is None or not row.scripts:
            return row
        script = self.scripts[row]
        return row if any(script.fullmatch(word) for word in stage.words[1:]) else None

    def is_reader(self, stage: Stage) -> bool:
        """True if a stage only shows what others wrote, so that its output proves nothing."""
        readers = self.programs.readers
        return stage.program in readers or f"{stage.program} {stage.action}" in readers

    def is_wordless(self, stage: Stage) -> bool:
        """True if a stage is a reader that shows names and figures, no text."""
        wordless = self.programs.wordless
        return stage.program in wordless or f"{stage.program} {stage.action}" in wordless

    def is_plain_reader(self, stage: Stage) -> bool:
        """True if a stage is a reader that ends in 0 unless it complains: cat, but not grep."""
        return self.is_reader(stage) and self.find_row(self.answers, stage) is None


def join_patterns(patterns: Iterable[str]) -> str:
    """Return one pattern that matches if any of several does."""
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def at_lines(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for a text that begins with a newline, tried at the start of each line."""
    return compile_later(rf"\n(?:{join_patterns(patterns)})", re.MULTILINE)


def by_program(rows: Iterable[AnswerRow]) -> dict[str, AnswerRow]:
    """Return rows by each program that they name; the first row that names one counts."""
    return {name: row for row in reversed(tuple(rows)) for name in row.programs}


@cache
def read_rules() -> Rules:
    """Return the rules, read and compiled at the first use."""
    return Rules(read_table("verdicts.toml", VerdictTable))


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
