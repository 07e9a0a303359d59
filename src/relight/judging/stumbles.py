"""Stumbles: failed calls of a session with their cause, and what worked soon after them.

What a session did to itself is no stumble: its own edits, scripts, scratch files and guessed paths
say nothing to another session. The tables are in `data/lessons.toml`.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from relight.judging import command_forms
from relight.judging.command_forms import MORE, OWN, CommandLine, Form, LessonTable
from relight.judging.kinds import understand_call
from relight.judging.recoveries import ReadCall, Stumble, TriedCall, find_paths, recover
from relight.judging.verdicts import read_call
from relight.text import strip_hidden

# a new number reads all sessions again
STUMBLE_RULES = 1
FIRST_LINES, LAST_LINES = 5, 40
NAME_CHARACTERS = 80
MOST_STUMBLES = 100
RESULT_CHARACTERS = 20_000

_ABSOLUTE = re.compile(r"(?<![\w.])(?:/[\w.+@-]+){2,}/?")
_NUMBER = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8,}\b|\d+")
_DIGITS = re.compile(r"\S*\d\S*")
_WORDS = re.compile(r"\w+")
_QUOTED = re.compile(r"[\"'`]([\w./-]+)[\"'`]")


class SessionStumbles(Struct, frozen=True):
    """The stumbles of a session, and the programs that it ran."""

    stumbles: list[Stumble]
    programs: list[str]


def find_stumbles(calls: Sequence[TriedCall]) -> SessionStumbles:
    """Return the stumbles among a session's calls, in their order."""
    seen = list(_read_calls(calls))
    programs = dict.fromkeys(
        program
        for one in seen
        if one.line
        for form in one.line.forms
        for program in _name_programs(form)
    )
    stumbles = []
    for place, one in enumerate(seen):
        if one.call.label == "error" and (found := _judge(one)):
            stumbles.append(recover(found, seen, place))
        if len(stumbles) >= MOST_STUMBLES:
            break
    return SessionStumbles(stumbles, list(programs))


def _name_programs(form: Form) -> tuple[str, ...]:
    """A program and the interpreter that it ran in; a session's own script is not named."""
    interpreter, _, script = form.program.partition(" ")
    names = () if form.is_own else (form.program,)
    return (*names, interpreter) if script and not script.startswith("-m") else names


def _read_calls(calls: Sequence[TriedCall]) -> Iterator[ReadCall]:
    """Yield the calls of one session in order, as they are read."""
    own: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    for call in calls:
        line = command_forms.read_command_line(call.tool, call.arguments, own=own)
        form = _find_main(line, call) if line else None
        made = tuple(_find_made(call, line)) if call.label != "error" or line else ()
        yield ReadCall(call, line, form, own, gone, made)
        own |= {name for path in made for name in command_forms.name_file(path)}
        if line and " rm " in f" {line.text} ":
            removed = (one.targets for one in line.forms if one.program in ("rm", "git rm"))
            gone |= {PurePosixPath(name).name for some in removed for name in some}


def _find_main(line: CommandLine, call: TriedCall) -> Form | None:
    """The program that a call is about: the one that its evidence names, or the last real one."""
    table = command_forms.read_table()
    forms = [one for one in line.forms if one.program not in table.commands.around]
    if not forms:
        return line.forms[-1] if line.forms else None
    if call.label == "error" and call.evidence:
        for form in forms:
            word = form.program.rpartition(" ")[2].rpartition("/")[2]
            if re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", call.evidence):
                return form
    real = [one for one in forms if one.program.split(" ")[0] not in table.commands.looking]
    return (real or forms)[-1]


def _find_made(call: TriedCall, line: CommandLine | None) -> Iterator[str]:
    """The files and folders that a call makes."""
    if line is None:
        if understand_call(call.tool, call.arguments).meaning == "write":
            yield from find_paths(call.arguments)
        return
    yield from command_forms.find_made(line.text)
    for form in line.forms:
        if form.program in ("touch", "mkdir"):
            yield from form.targets
        elif form.program in ("cp", "mv", "ln"):
            yield form.targets[-1]


def _judge(seen: ReadCall) -> Stumble | None:
    """The stumble of a failed call; None if it is the session's own affair."""
    table, call = command_forms.read_table(), seen.call
    role, _ = read_call(call.tool, call.arguments)
    if call.kind in table.names.affair_kinds or role in ("editor", "search"):
        return None
    if seen.form is None:
        return _judge_tool(seen)
    kind, name = _find_cause(call, table)
    program = seen.form.program
    if kind == "missing" and program.startswith(f"{name} "):
        program = name  # the interpreter, whatever it was to run
    is_looking = program.split(" ")[0] in table.commands.looking
    if kind == "exception" and (table.affairs.match(name) or seen.form.is_own):
        return None  # a script of the session's own, or the bug that it is about
    if kind in ("no_path", "failed", "no_permission") and (is_looking or seen.form.is_own):
        return None
    if kind in ("no_path", "missing", "cannot_import"):
        names = {name, name.partition(".")[0], PurePosixPath(name).name, PurePosixPath(name).stem}
        if kind == "cannot_import":  # the module that it is in may be one that the session edited
            names.update(_WORDS.findall(call.evidence or ""))
        if names & (seen.own | seen.gone):
            return None
        if kind == "no_path" and command_forms.is_own_word(name, ()):
            return None
        if kind == "no_path" and name in seen.form.targets:
            return None  # a path that the agent guessed
    if kind == "missing" and command_forms.is_own_word(name, ()):
        name = OWN
    return Stumble(
        kind=kind,
        name=_normalise(name, seen),
        program=program,
        form=seen.form.text,
        step=call.step,
        is_own_program=seen.form.is_own,
        cost_nanos=call.cost_nanos,
    )


def _judge_tool(seen: ReadCall) -> Stumble | None:
    """The stumble of a tool with named arguments."""
    call = seen.call
    if understand_call(call.tool, call.arguments).meaning in ("read", "write"):
        return None  # a guessed path, or the session's own edit
    message = strip_hidden((call.evidence or call.result).strip()).split("\n")[0]
    message = _normalise(_DIGITS.sub("<n>", message), seen).strip()
    if not message:
        return None
    return Stumble(
        kind="tool",
        name=message,
        program=call.tool,
        form=call.tool,
        step=call.step,
        cost_nanos=call.cost_nanos,
    )


def _find_cause(call: TriedCall, table: LessonTable) -> tuple[str, str]:
    """The kind and name of a cause: of all lines, the first rule that matches one."""
    if call.kind == "timeout":
        return "too_long", ""
    evidence = re.sub(r"^exit code \d+: ", "", strip_hidden(call.evidence or ""))
    lines = [line.strip() for line in strip_hidden(call.result[-RESULT_CHARACTERS:]).split("\n")]
    lines = [line for line in lines if line]
    near = [evidence, *reversed(lines[-LAST_LINES:]), *lines[:FIRST_LINES]]
    for kind, pattern in table.patterns:
        for line in near:
            if found := pattern.search(line[:500]):
                return kind, found["name"].strip().rstrip(".,;:'\"")
    return "failed", evidence or (lines[-1] if lines else "")


def _normalise(name: str, seen: ReadCall) -> str:
    """Return a cause's name without paths, numbers and the session's own names."""
    text = _ABSOLUTE.sub(lambda found: f"{MORE}/{PurePosixPath(found[0]).name}", name)

    def hide(found: re.Match[str]) -> str:
        is_own = command_forms.is_own_word(found[1], seen.own)
        return found[0].replace(found[1], OWN) if is_own else found[0]

    text = _QUOTED.sub(hide, text)
    if " " in text:
        text = " ".join(_NUMBER.sub("<n>", text).split())
    return text if len(text) <= NAME_CHARACTERS else f"{text[: NAME_CHARACTERS - 1]}{MORE}"
