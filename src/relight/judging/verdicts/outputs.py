"""Facts in a command's output: complaints, test summaries, lines of failure, exceptions."""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from relight.expressions import compile_later
from relight.judging.shell import Stage, find_deciders
from relight.judging.verdicts.rules import Level, read_rules

_TAIL = 3000
_COMPLAINTS_LIMIT = 1000
_LINE = compile_later(r"[^\s][^\n]*+")
_MESSAGE = compile_later(r"\n(?:\S*/)?([\w.+\[-]+(?: error)?)(?:\[\d+\])?: ([^\n]+)")
_BAD_WORDS = ("ail", "AIL", "rror", "RROR", "not ok", " exceptions", " TIMEOUT")
_NONE_WORDS = ("no tests ran", "NO TESTS RAN", "deselected", "No tests found")

_END = 600
_TRACEBACKS_LIMIT = 50
_START = "\nTraceback (most recent call last)"
_EXCEPTION = compile_later(r"\n((?:[A-Za-z_][\w.]*\.)?[A-Z_a-z]\w*)(?:: ([^\n]*))?(?=\n|\Z)")
_FRAME = compile_later(r'\n\s+File "([^"\n]+)", line \d+')
_OUTERMOST = compile_later(r'[^\n]*\n  File "[^"\n]+", line \d+, in ([^\n]+)')
_CUT = compile_later(r"\nTraceback \(most recent call last\):(?>(?:\n[ \t][^\n]*)*)")
_SYNTAX = compile_later(r"\n(?:Syntax|Indentation|Tab)Error: [^\n]*")
# not indented where it comes first of all; the second is a notebook's
_PLACE = compile_later(r'\n *(?:File "[^"\n]+"|(?:Cell|Input) In ?\[\d+\]), line \d+')
_NOTEBOOK = compile_later(r"\n([A-Z]\w*) +Traceback \(most recent call last\)")
# the end of a traceback whose head was cut off: a line of code, marks below it, what was raised
_HEADLESS = compile_later(
    r"\n {4,}\S[^\n]*(?:\n *[~^]+)?"
    r"\n((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|NotFound)(?:: [^\n]*)?)\Z"
)
_ENDINGS = ("Error", "Exception", "Interrupt", "Exit", "NotFound")
_GROUP = compile_later(
    r"\n  \+ Exception Group Traceback [^\n]*\n(?>(?:  \|   [^\n]*\n)*)  \| ([^\n]*)"
)
_ROOTS = frozenset(("<module>", "_run_module_as_main", "run_module", "run_path"))


class Output(msgspec.Struct, frozen=True):
    """A command and its output: all its stages, and those whose exit code is the line's.

    `text` begins with a newline, so that each of its lines does.
    """

    stages: tuple[Stage, ...]
    deciders: tuple[Stage, ...]
    text: str
    is_reader: bool

    @property
    def tail(self) -> str:
        """The end of the text, where programs print their result."""
        return self.text if len(self.text) <= _TAIL else f"\n{self.text[-_TAIL:]}"

    @property
    def has_output(self) -> bool:
        """True if there is anything but white space and harmless remarks."""
        harmless = read_rules().harmless
        lines = (found[0] for found in _LINE.finditer(self.text))
        return any(not harmless.match(line) for line in lines)


def make_output(stages: tuple[Stage, ...], text: str) -> Output:
    """Return the output of these stages of a command."""
    rules = read_rules()
    neutral = rules.programs.neutral
    is_reader = bool(stages) and all(
        rules.is_reader(stage) or stage.program in neutral for stage in stages
    )
    return Output(stages, find_deciders(stages), f"\n{text}", is_reader)


def find_complaint(output: Output, stages: Sequence[Stage]) -> str | None:
    """Return the line in which one of the stages reports a failure under its name."""
    text = output.text
    names: set[str] = set()
    for stage in stages:
        names.update(_find_names(stage))
    for name in names:
        if f"{name}: " in text:
            break
    else:
        return None
    for found in _MESSAGE.finditer(text):
        if found[1] in names and _is_complaint(found[0][1:], found[1]):
            return found[0][1:]
    return None


def _find_names(stage: Stage) -> list[str]:
    """The names under which a stage may complain."""
    speaks_as = read_rules().programs.speaks_as
    names = [stage.program, stage.words[0].rpartition("/")[2], *stage.wrappers]
    for program in tuple(names):
        names.extend(speaks_as.get(program, ()))
    return names


def _is_complaint(line: str, name: str) -> bool:
    rules = read_rules()
    if rules.harmless.match(line):
        return False
    return name in ("fatal", "error", "abort", "E") or bool(rules.complaint.search(line))


def find_shell_message(output: Output) -> str | None:
    """Return the line of an error of the shell itself."""
    text, rules = output.text, read_rules()
    if "sh:" not in text and "(eval):" not in text and "environment: " not in text:
        return None
    lines = (found[0][1:] for found in rules.shell_message.finditer(text))
    return next((line for line in lines if not rules.harmless.match(line)), None)


def find_missing_command(output: Output) -> str | None:
    """Return the shell's message that a command does not exist.

    A reader may show such a line from a log: there it counts only for words of the command.
    """
    text, rules = output.text, read_rules()
    if "not found" in text:
        for found in rules.missing_command.finditer(text):
            name = found["a"] or found["b"] or found["c"]
            own = [stage for stage in output.stages if name in stage.words]
            if own and all(stage.joint == "||" for stage in own):
                continue  # it has a fallback
            if own or not output.is_reader:
                return found[0][1:]
    if "No module named" in text and not output.is_reader:
        line = rules.missing_module.search(text)
        return line[0][1:] if line else None
    return None


def find_tests(
    output: Output, *, is_runner: bool = False
) -> tuple[Literal["passed", "failed", "broken", "none"], str] | None:
    """Return what the summary of a test run says, with its line; None without a summary.

    `broken`: the runner could not run the tests; `none`: it found none.
    """
    text, rules = output.tail, read_rules()
    failed = none = None
    if any(word in text for word in _BAD_WORDS):
        failed = next(reversed(list(rules.failed_tests.finditer(text))), None)
    if not failed and any(word in text for word in _NONE_WORDS):
        none = rules.no_tests.search(text)
    if (failed or none or is_runner) and (broken := find_broken_tests(output)):
        return "broken", broken
    if failed:
        return "failed", _line_at(text, failed.start() + 1)
    if none:
        return "none", _line_at(text, none.start() + 1)
    if "\nRan 0 tests " in text:
        return None  # though the next line says OK
    if found := rules.passed_tests.search(text):
        return "passed", _line_at(text, found.start() + 1)
    return None


def find_broken_tests(output: Output) -> str | None:
    """Return the line in which a test runner reports that it could not run the tests."""
    text = output.tail
    found = read_rules().broken_tests.search(text)
    return _line_at(text, found.start() + 1) if found else None


def find_bad_line(output: Output, *, level: Level = "any") -> str | None:
    """Return a line by which build tools, package managers and others report a failure."""
    text = output.tail
    programs = frozenset(stage.program for stage in output.stages)
    for row, pattern in read_rules().find_lines(programs, level):
        for word in row.words:
            if word in text:
                break
        else:
            if row.words:
                continue
        asked = read_rules().programs.help_options
        if row.is_usage and any(asked.intersection(stage.words) for stage in output.stages):
            continue
        found = pattern.match(output.text.lstrip()) if row.is_first else pattern.search(text)
        if found:
            return found[0].strip().rpartition("\n")[2]
    return None


def is_all_complaints(output: Output) -> bool:
    """True if the output holds nothing but complaints.

    An indented line continues the one above; `wc` counts 0 where nothing came. On 9,315 labelled
    shell calls this decides 3, each a `cat absent | head` that ends in 0.
    """
    if len(output.text) > _COMPLAINTS_LIMIT:
        return False
    lines = [line for line in output.text.split("\n", 9) if line.strip() and line[:1] not in " \t"]
    if output.stages[-1].program == "wc" and lines[-1:] == ["0"]:
        lines.pop()
    return 0 < len(lines) <= 5 and all(_is_any_complaint(output, f"\n{line}") for line in lines)


def _is_any_complaint(output: Output, line: str) -> bool:
    alone = msgspec.structs.replace(output, text=line)
    return bool(find_complaint(alone, output.stages) or find_shell_message(alone))


def find_last_line(output: Output) -> str:
    """Return the last line that is not empty."""
    return output.text.rstrip().rpartition("\n")[2].strip()


def _line_at(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)].strip()


class Raised(msgspec.Struct, frozen=True):
    """The exception that ended a program: at the end of its output, or far from there.

    `files` are the files of its frames, the innermost last.
    """

    line: str
    name: str
    is_last: bool
    is_far: bool = False
    files: tuple[str, ...] = ()


def find_exception(output: Output) -> Raised | None:
    """Return the Python exception that ended a program, if the end of the text shows it.

    A traceback of an exception that was caught begins at the function that caught it; an uncaught
    one begins at the module that was run.

    Captured output is often flushed after the traceback, hence the end and not the last line. If
    the traceback comes first of all, the whole output was flushed after it.
    """
    text = output.text.rstrip()
    has_traceback = "Traceback (most recent" in text
    start = text.rfind(_START) if has_traceback else -1
    if start >= 0:
        start = _find_uncaught(output, text, start)
        if start < 0:
            return None
        found = _EXCEPTION.search(text, text.find("\n", start + 1))
        if not found and _CUT.fullmatch(text, start):
            return Raised(text[start + 1 :].partition("\n")[0], "", is_last=True)
    elif has_traceback and (notebook := _NOTEBOOK.search(text)):
        said = text.rfind(f"\n{notebook[1]}: ", notebook.end())
        line = text[said + 1 :].partition("\n")[0] if said >= 0 else notebook[1]
        return Raised(line, notebook[1], is_last=True)
    elif has_traceback and "Exception Group Traceback" in text:
        group = _GROUP.search(text)
        return Raised(group[1], group[1].partition(":")[0], is_last=True) if group else None
    elif "Error: " in text[-_END:] and ", line " in text and _PLACE.search(text):
        found = _SYNTAX.search(text, max(0, len(text) - _END)) or _find_headless(output, text)
    else:
        found = _find_headless(output, text)
    is_far = found is not None and len(text) - found.end() > _END
    if not found or (is_far and text[:start].strip()):
        return None
    line = found[0][1:]
    frames = _FRAME.findall(text, max(0, found.start() - 3000), found.start())
    name = line.partition(":")[0].rpartition(".")[2]
    if name == "BrokenPipeError" and any(stage.joint == "|" for stage in output.stages):
        return None  # `| head` had seen enough
    is_last = found.end() >= len(text)
    return Raised(line, name, is_last, is_far, tuple(frames))


def _find_headless(output: Output, text: str) -> re.Match[str] | None:
    """The last line of a traceback whose head was cut off, by `| tail` or by the agent.

    On 9,315 labelled shell calls this decides 1.
    """
    last = text[text.rfind("\n") + 1 :]
    if not any(word in last for word in _ENDINGS):
        return None
    if output.stages and not any(map(_is_python, output.stages)):
        return None
    found = _HEADLESS.search(text, max(0, len(text) - _END))
    return _EXCEPTION.match(text, found.start(1) - 1) if found else None


def _is_python(stage: Stage) -> bool:
    return stage.program.endswith(("python", ".py"))


def _find_uncaught(output: Output, text: str, start: int) -> int:
    """The place of the last uncaught traceback, from `start` backwards; -1 without one."""
    if not any(map(_is_python, output.stages)):
        return start  # tools that run code, and programs such as pip, print what stopped them
    for _ in range(_TRACEBACKS_LIMIT):
        outermost = _OUTERMOST.match(text, start + 1)
        if not outermost or outermost[1] in _ROOTS:
            break
        start = text.rfind(_START, 0, start)
        if start < 0:
            break
    return start
