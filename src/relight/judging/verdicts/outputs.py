"""What a command's output shows: complaints, test summaries, printed exit codes."""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from relight.judging.shell import Stage, find_deciders
from relight.judging.verdicts.rules import Level, read_rules

_TAIL = 3000
_COMPLAINTS_LIMIT = 1000
_LINE = re.compile(r"[^\s][^\n]*+")
_MESSAGE = re.compile(r"\n(?:\S*/)?([\w.+\[-]+(?: error)?)(?:\[\d+\])?: ([^\n]+)")
_BAD_WORDS = ("ail", "AIL", "rror", "RROR", "not ok")
_NONE_WORDS = ("no tests ran", "NO TESTS RAN", "deselected", "No tests found")
_ECHO_OPTIONS = frozenset(("-n", "-e", "-E", "-ne", "-en"))
_PRINTED = re.compile(r"\$\?|\$\{?(?:PIPESTATUS|pipestatus)[^}\s]*\}?")


class Output(msgspec.Struct, frozen=True):
    """A command and its output: all its stages, and those whose exit code is the line's.

    `text` begins with a newline, so that each of its lines does; `command` is the whole of it,
    here-documents included.
    """

    stages: tuple[Stage, ...]
    deciders: tuple[Stage, ...]
    text: str
    is_reader: bool
    command: str = ""

    @property
    def tail(self) -> str:
        """The end of the text: programs say last what became of it all."""
        return self.text if len(self.text) <= _TAIL else f"\n{self.text[-_TAIL:]}"

    @property
    def has_output(self) -> bool:
        """Whether there is anything but white space and remarks of no weight."""
        harmless = read_rules().harmless
        lines = (found[0] for found in _LINE.finditer(self.text))
        return any(not harmless.match(line) for line in lines)


def make_output(stages: tuple[Stage, ...], text: str, *, command: str = "") -> Output:
    """The text that these stages of a command wrote."""
    rules = read_rules()
    neutral = rules.programs.neutral
    is_reader = bool(stages) and all(
        rules.is_reader(stage) or stage.program in neutral for stage in stages
    )
    return Output(stages, find_deciders(stages), f"\n{text}", is_reader, command)


def find_complaint(output: Output, stages: Sequence[Stage]) -> str | None:
    """A line in which one of the stages says, under its own name, that it could not."""
    text = output.text
    names: set[str] = set()
    for stage in stages:
        names.update(_find_names(stage))
    for name in names:
        if f"{name}: " in text:
            break
    else:
        return None
    others = _Others(output, stages) if len(stages) < len(output.stages) else None
    for found in _MESSAGE.finditer(text):
        if found[1] not in names:
            continue
        line = found[0][1:]
        if _is_complaint(line, found[1]) and not (others and others.may_have_said(found)):
            return line
    return None


def _find_names(stage: Stage) -> list[str]:
    """The names under which a stage may complain."""
    speaks_as = read_rules().programs.speaks_as
    names = [stage.program, stage.words[0].rpartition("/")[2], *stage.wrappers]
    for program in tuple(names):
        names.extend(speaks_as.get(program, ()))
    return names


class _Others:
    """The stages of a command that are not asked about, by the names they complain under.

    `cat a || cat b` may complain of a, and show b.
    """

    def __init__(self, output: Output, stages: Sequence[Stage]) -> None:
        asked = {id(stage) for stage in stages}
        self.end = len(output.text.rstrip())
        self.own = {word for stage in stages for word in stage.words[1:]}
        self.words: dict[str, set[str]] = {}
        self.provided: set[str] = set()
        for stage in output.stages:
            if id(stage) not in asked:
                for name in _find_names(stage):
                    self.words.setdefault(name, set()).update(stage.words[1:])
                    if stage.joint == "||":
                        self.provided.add(name)

    def may_have_said(self, found: re.Match[str]) -> bool:
        """Whether a message is that of another stage of the same program, by what it names."""
        spoken = {word.strip(":'`\",‘’") for word in found[0].split()}
        if spoken.isdisjoint(self.own):
            return not spoken.isdisjoint(self.words.get(found[1], ()))
        return found[1] in self.provided and found.end() < self.end


def _is_complaint(line: str, name: str) -> bool:
    rules = read_rules()
    if rules.harmless.match(line):
        return False
    return name in ("fatal", "error", "abort", "E") or bool(rules.complaint.search(line))


def find_shell_message(output: Output) -> str | None:
    """A line in which the shell itself says what it could not do."""
    text, rules = output.text, read_rules()
    if "sh:" not in text and "(eval):" not in text and "environment: " not in text:
        return None
    lines = (found[0][1:] for found in rules.shell_message.finditer(text))
    return next((line for line in lines if not rules.harmless.match(line)), None)


def find_missing_command(output: Output) -> str | None:
    """The shell's word that a command does not exist.

    A reader may show such a line from a log: there it counts only for the command's own words.
    """
    text, rules = output.text, read_rules()
    if "not found" in text:
        for found in rules.missing_command.finditer(text):
            name = found["a"] or found["b"] or found["c"]
            own = [stage for stage in output.stages if name in stage.words]
            if own and all(stage.joint == "||" for stage in own):
                continue  # it was tried, with another way prepared
            if own or not output.is_reader:
                return found[0][1:]
    if "No module named" in text and not output.is_reader:
        line = rules.missing_module.search(text)
        return line[0][1:] if line else None
    return None


def find_tests(
    output: Output, *, is_runner: bool = False
) -> tuple[Literal["passed", "failed", "broken", "none"], str] | None:
    """What the summary of a test run says, with its line; None if there is no summary.

    `broken`: a runner that could not run them; `none`: one that found none to run.
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
    """The line in which a test runner says that it could not run them."""
    text = output.tail
    found = read_rules().broken_tests.search(text)
    return _line_at(text, found.start() + 1) if found else None


def find_bad_line(output: Output, *, level: Level = "any") -> str | None:
    """A line by which build tools, package managers and the like show that they failed."""
    text = output.tail
    programs = frozenset(stage.program for stage in output.stages)
    for row, pattern in read_rules().find_lines(programs, level):
        for word in row.words:
            if word in text:
                break
        else:
            if row.words:
                continue
        if row.is_usage and _asks_for_help(output):
            continue
        found = pattern.match(output.text.lstrip()) if row.is_first else pattern.search(text)
        if found:
            return found[0].strip().rpartition("\n")[2]
    return None


def _asks_for_help(output: Output) -> bool:
    asked = read_rules().programs.help_options
    return any(asked.intersection(stage.words) for stage in output.stages)


def find_printed_code(output: Output) -> tuple[int, Output] | None:
    """The exit code a command prints by `echo $?`, and the run of what stood before it."""
    for at, stage in enumerate(output.stages):
        if at and stage.program in ("echo", "printf") and not stage.hides_output:
            words = " ".join(stage.words[1:])
            is_handled = output.stages[at - 1].joint == "||"  # it was tried, and told what came
            if is_handled or not (found := _PRINTED.search(words)):
                continue
            before = words[: found.start()].rsplit("\\n", 1)[-1]
            line = rf"\n{re.escape(before)}(\d{{1,3}})\b" + ("" if before else r"[ \t]*(?=\n|\Z)")
            printed = list(re.finditer(line, output.text))
            if printed:
                stages = output.stages[:at]
                if "pipestatus" in found[0].lower():
                    stages = tuple(msgspec.structs.replace(s, joint=";") for s in stages[:1])
                earlier = make_output(stages, output.text[1:], command=output.command)
                return int(printed[-1][1]), earlier
    return None


def find_silent_end(output: Output) -> Output | None:
    """The last pipeline of a command, if it wrote nothing though others did.

    In `ls; echo "--- hits"; grep spam a.py` nothing follows what echo said.
    """
    first = len(output.stages) - 1
    while first > 0 and output.stages[first - 1].joint == "|":
        first -= 1
    if first < 1:
        return None
    said = find_literal(output.stages[first - 1])
    if not said or output.stages[first - 1].joint not in (";", "&&"):
        return None
    if not output.text.rstrip().endswith(f"\n{said}"):
        return None
    return make_output(output.stages[first:], "", command=output.command)


def find_literal(stage: Stage) -> str | None:
    """The line that an echo, or a printf, writes whatever happens; None if that is not known."""
    if stage.program not in ("echo", "printf") or stage.hides_output or stage.joint == "|":
        return None
    words = stage.words[1:]
    while words and (words[0] in _ECHO_OPTIONS or (words[0] == "--" and len(words) > 1)):
        words = words[1:]
    said, special = " ".join(words), "$`*?\\"
    if stage.program == "printf":
        said, special = said.removesuffix("\\n"), "$`*?\\%"
    return said.strip() if not set(special).intersection(said) else None


def is_all_complaints(output: Output) -> bool:
    """Whether nothing was written but complaints: what was asked for never came.

    A line that is indented goes on with the one above; `wc` counts nothing where nothing came.
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
    """The last line that says something."""
    return output.text.rstrip().rpartition("\n")[2].strip()


def _line_at(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)].strip()
