"""Commands in the form by which they are compared over sessions: programs, flags, subjects.

A form keeps what belongs to the project (the program, its action, its flags) and drops what belongs
to one task: `timeout 60 python3 -m pytest -x tests/test_a.py` is `python3 -m pytest -x <path>`.
The table of causes and commands by which lessons are read is `data/lessons.toml`.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, cached_property
from pathlib import PurePosixPath

from msgspec import Struct

from relight import data
from relight.expressions import compile_kept
from relight.judging.kinds import understand_call
from relight.judging.shell import Stage, drop_documents, split_stages

OWN, PATH, MORE = "<own>", "<path>", "…"
LONGEST = 20_000  # characters of a command that are read
MOST_FLAGS = 6
FORM_CHARACTERS = 80
_WORD = re.compile(r"[A-Za-z][\w:-]*\Z")
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")
_PATH = re.compile(r"[\w.*~-]*/|\.\w{1,5}(?:::|$)|\.\Z")
_INTERPRETER = re.compile(r"(?:^|[\s;&|(])(\S*py(?:thon|py)[\d.]*)\s+(?:-\w+\s+)*-m\s+([\w.]+)")
_PYTHON = re.compile(r"\S*/py(?:thon|py)[\d.]*(?: -m .*)?")
_RUNNER = re.compile(r"py(?:thon|py)[\d.]*|bash|sh|zsh|node|deno|ruby|perl|php")
_MADE = re.compile(
    r"""(?:(?<![-=<>\w&])>{1,2}|\btee(?:\s+-a)?|open\()\s*["']?([\w./~+-]+)"""
    r"""(?:["']\s*,\s*["'][wax])?"""
)
_SETTING = re.compile(r"(?:^|[\s;&|(])(?:export\s+|env\s+)?([A-Z_][A-Z0-9_]{2,})=(\S*)")
_SCRIPT = re.compile(r"\.(?:py|sh|js|ts|rb|pl|mjs|cjs)\Z")
_DOTTED = re.compile(r"[\w]+(?:\.\w+)+\Z")
_PRIVATE = re.compile(r"(?:^|[\s=])[/~$]|\n|://|redacted")
_PLAIN_VALUE = re.compile(r"[\w.:,-]{1,30}\Z")
# foreign text must not end its own quotation
_QUOTES = str.maketrans("`“”", "'''")


class _Cause(Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    words: str
    patterns: list[str]


class _Names(Struct, frozen=True, forbid_unknown_fields=True):
    own: str
    affairs: str
    affair_kinds: frozenset[str]


class _Commands(Struct, frozen=True, forbid_unknown_fields=True):
    around: frozenset[str]
    looking: frozenset[str]
    with_action: frozenset[str]
    steps: list[str]


class LessonTable(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The whole of `lessons.toml`."""

    causes: list[_Cause]
    names: _Names
    commands: _Commands

    @cached_property
    def patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(row.kind, compile_kept(one)) for row in self.causes for one in row.patterns]

    @cached_property
    def words(self) -> dict[str, str]:
        return {row.kind: row.words for row in self.causes}

    @cached_property
    def own(self) -> re.Pattern[str]:
        return compile_kept(self.names.own)

    @cached_property
    def affairs(self) -> re.Pattern[str]:
        return compile_kept(self.names.affairs)

    @cached_property
    def steps(self) -> re.Pattern[str]:
        return compile_kept("|".join(self.commands.steps))


@cache
def read_table() -> LessonTable:
    """Return the table of causes and commands."""
    return data.read_table("lessons.toml", LessonTable)


def describe_cause(kind: str, name: str) -> str:
    """Return a cause in words.

    >>> describe_cause("missing", "pytest")
    'no module or command `pytest`'
    """
    if name == OWN:
        return "a module that the session's own script names is missing"
    return read_table().words[kind].format(name=name.translate(_QUOTES))


class Form(Struct, frozen=True, kw_only=True):
    """A program of a command line as it is compared, and the things that it is about."""

    # the program with its interpreter or action: `python3 -m pytest`, `npm run`
    program: str
    # the same with flags, and marks for the rest
    text: str
    # all words, if they say nothing about a machine or a task
    whole: str
    targets: tuple[str, ...]
    is_own: bool = False


class CommandLine(Struct, frozen=True):
    """A command line: its programs in order, the variables it sets and the folder it enters."""

    text: str
    forms: tuple[Form, ...]
    settings: tuple[str, ...] = ()
    folder: str | None = None


def read_command_line(tool: str, arguments: object, *, own: Collection[str]) -> CommandLine | None:
    """Return the command line of a call; None if it runs none. `own` are names the session made."""
    command = understand_call(tool, arguments).command
    if not command:
        return None
    text = drop_documents(command if isinstance(command, str) else str(command[-1]))[:LONGEST]
    own = {*own, *(name for path in find_made(text) for name in name_file(path))}
    stages = split_stages(command[:LONGEST] if isinstance(command, str) else command)
    forms = tuple(_make_form(stage, text, own) for stage in stages if stage.words)
    settings = tuple(dict.fromkeys(_show_setting(*pair) for pair in _SETTING.findall(text)))
    folders = [one.words[1] for one in stages if one.program == "cd" and len(one.words) > 1]
    folder = folders[-1].rstrip("/") if folders else None
    return CommandLine(text, forms, settings, folder)


def find_made(text: str) -> Iterator[str]:
    """Yield the files that a command line writes to, without here-documents."""
    for found in _MADE.finditer(text):
        if found[1] != "/dev/null":
            yield found[1]


def name_file(path: str) -> set[str]:
    """Return the names by which a file or folder is known: its own, and as a module."""
    place = PurePosixPath(path.rstrip("/"))
    names = {place.name, place.stem}
    if place.name == "__init__.py" and len(place.parts) > 1:
        names.add(place.parts[-2])
    return names - {"", ".", "__init__", "__init__.py"}


def _show_setting(name: str, value: str) -> str:
    """A variable with its value if that is plain: other values belong to a machine or a task."""
    value = value.strip("'\"")
    return f"{name}={value}" if _PLAIN_VALUE.match(value) else f"{name}={MORE}"


def _make_form(stage: Stage, text: str, own: Collection[str]) -> Form:
    with_action = read_table().commands.with_action
    words = [word for word in stage.words if word]
    program, rest = _name_program(stage, words, text)
    base = program.rpartition("/")[2]
    is_own = False
    is_interpreter = bool(_RUNNER.fullmatch(base)) and " " not in program
    if is_interpreter and rest and _SCRIPT.search(rest[0]):
        script, rest = rest[0], rest[1:]
        if is_own_word(script, own):
            program, is_own = f"{program} {OWN}", True
        else:
            shown = f"{MORE}/{PurePosixPath(script).name}" if script.startswith("/") else script
            program = f"{program} {shown}"
        targets = [script]
    else:
        targets = []
        if "/" in program and not program.startswith("/"):
            is_own = is_own_word(program, own)
            program = OWN if is_own else program
        elif program.startswith("/"):
            program = program if _PYTHON.fullmatch(program) else base
    if base in with_action or program.rpartition(" ")[2] in with_action:
        action = rest[:1] if rest and _WORD.match(rest[0]) else []
        if action and action[0] in ("run", "compose", "exec", "-m") and len(rest) > 1:
            action = [word for word in rest[:2] if _WORD.match(word)]
        program, rest = " ".join([program, *action]), rest[len(action) :]
    flags: list[str] = []
    marks: list[str] = []
    for word in rest:
        if flag := _FLAG.match(word):
            flags.append(flag[0])
        elif word.isdigit() or word.startswith("-"):
            continue
        else:
            targets.append(word)
            marks.append(PATH if _PATH.search(word) else MORE)
    marked = [mark for mark in (MORE, PATH) if mark in marks]
    shown = " ".join([program, *sorted(set(flags))[:MOST_FLAGS], *marked])[:FORM_CHARACTERS]
    is_own |= is_interpreter and "-c" in flags
    whole = " ".join(words)
    return Form(
        program=program,
        text=shown,
        whole=whole if len(whole) <= FORM_CHARACTERS and not _PRIVATE.search(whole) else shown,
        targets=tuple(targets) or (program,),
        is_own=is_own,
    )


def _name_program(stage: Stage, words: Sequence[str], text: str) -> tuple[str, list[str]]:
    """The program as typed, with the module that an interpreter runs, and the other words."""
    if stage.wrappers[-1:] == ("python",):
        for interpreter, module in _INTERPRETER.findall(text):
            if module == words[0]:
                return f"{interpreter} -m {module}", list(words[1:])
        return f"python -m {words[0]}", list(words[1:])
    return words[0], list(words[1:])


def is_own_word(word: str, own: Collection[str]) -> bool:
    """True if a session made a file or a module of this name, or its name looks invented.

    >>> is_own_word("/tmp/repro_1.py", ())
    True
    """
    invented = read_table().own
    return any(name in own or invented.match(name) for name in _read_names(word))


def _read_names(word: str) -> set[str]:
    path = PurePosixPath(word.partition("::")[0])
    names = {path.name, path.stem}
    if _DOTTED.match(word) and not _SCRIPT.search(word):
        names.add(word.partition(".")[0])
    if path.name == "__init__.py" or len(path.parts) > 1:
        names.add(path.parts[0])
    return {name for name in names if name}


def share_targets(failed: Form, later: Form) -> bool:
    """True if a later command is about at least half of what a failed one was about.

    Plain words, such as a namespace, say little: without a path or module, all must be the same.
    """
    wanted = {_canonical(one) for one in failed.targets}
    found = {_canonical(one) for one in later.targets}
    tails = {name.rpartition("/")[2] for name in found}
    shared = {name for name in wanted if name in found or name.rpartition("/")[2] in tails}
    is_named = any(
        _PATH.search(one) or _DOTTED.match(one)
        for one in failed.targets
        if _canonical(one) in shared
    )
    return 2 * len(shared) >= len(wanted) if is_named else shared == wanted


def _canonical(target: str) -> str:
    """A path, a module or a test by one name: `a/b.py`, `a.b` and `a/b.py::test` are equal."""
    name = target.partition("::")[0].strip("'\"").removeprefix("./").rstrip("/")
    if _DOTTED.match(name) and not _SCRIPT.search(name):
        return name.replace(".", "/")
    return _SCRIPT.sub("", name)
