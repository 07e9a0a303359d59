"""The scripts that a command carries: in a here-document, or after `-c`.

Output alone does not show whether an exception that was printed was also caught, nor that a
script ended by `sys.exit(1)`. Where the script stands in the command itself, it tells.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from relight.judging.shell import Stage

_HEREDOC = re.compile(r"<<-?[ \t]*['\"\\]?(\w+)['\"]?[^\n]*\n")
_PRINTS = re.compile(r"print_exc|format_exc|print_tb|\.exception\(|exc_info")
_LEAVES = re.compile(
    r"""(?:\bprint\(\s*f?(?P<q>["'])(?P<said>[^\n\\]{4,200}?)(?P=q)[^\n]{0,200}\)[ \t]*[\n;]\s*)?
    (?:raise[ ]SystemExit|\b(?:sys\.)?exit)\(\s*
    (?:(?P<code>[1-9]\d{0,2})\s*\)|f?(?P<r>["'])(?P<told>[^\n\\]{4,200}?)(?P=r))""",
    re.VERBOSE,
)
_LEAVING = re.compile(r"\braise SystemExit\(|\b(?:sys\.|os\._)?exit\((?!\s*0?\s*\))")
_FILES = re.compile(
    r"""\bopen\([^()\n]{0,200},\s*(?:mode\s*=\s*)?["'][rb]?[wax+]|\.(?:write|read)_(?:text|bytes)\(
    |\.read\(\)
    |\.(?:save|savefig|to_(?:csv|json|excel|parquet|sql)|commit|unlink|rename)\(
    |\bshutil\.|\bos\.(?:remove|rename|replace|makedirs|unlink)\(""",
    re.VERBOSE,
)
_CLAUSE = re.compile(r"\s*except\b([^:]*):")
_FIELD = re.compile(r"\{[^{}]*\}|%[-+.\d]*[sdrifgx]")
_SOURCE_LIMIT = 50_000
_LINES_LIMIT = 100
_LETTERS = 4  # fewer are no sentence of its own


def is_guarded(
    command: str, stages: Sequence[Stage], *, frame: tuple[str, int, str], name: str
) -> bool:
    """Whether a script of the command catches what is raised at a line of it, and shows it.

    The frame is the outermost one of a traceback: its file, its line's number and its code; the
    name is that of the exception.
    """
    if not _PRINTS.search(command):
        return False
    file, number, code = frame
    for source in _find_sources(command, stages):
        lines = source.split("\n")
        if number > len(lines) or (code and lines[number - 1].strip() != code):
            continue
        if file in ("<stdin>", "<string>") or code:
            return _is_in_try(lines, number - 1, name)
    return False


def find_told_exit(command: str, text: str) -> int | None:
    """The exit code of a script that says, in words it has only for that, that it leaves."""
    if "exit(" not in command and "SystemExit(" not in command:
        return None
    lines = text.strip().split("\n")
    if len(lines) > _LINES_LIMIT:  # standard error may come first, as it does in a pipe
        lines = lines[: _LINES_LIMIT // 2] + lines[-_LINES_LIMIT // 2 :]
    for found in islice(_LEAVES.finditer(command, 0, _SOURCE_LIMIT), _LINES_LIMIT):
        said = found["told"] or found["said"]
        if said and _is_said(said, lines, is_whole=bool(found["told"])):
            return int(found["code"] or 1)
    return None


def leaves(command: str) -> bool:
    """Whether the script in a command has its own way to end in another code than 0."""
    return bool(_LEAVING.search(command, 0, _SOURCE_LIMIT))


def handles_files(command: str) -> bool:
    """Whether the script in a command reads or changes what is on the disk, or says so."""
    return bool(_FILES.search(command, 0, _SOURCE_LIMIT))


def _find_sources(command: str, stages: Sequence[Stage]) -> Iterator[str]:
    position = 0
    while opened := _HEREDOC.search(command, position):
        mark = re.compile(rf"^[ \t]*{opened[1]}[ \t]*$", re.MULTILINE)
        closed = mark.search(command, opened.end())
        yield command[opened.end() : closed.start() if closed else None]
        if not closed:
            break
        position = closed.end()
    for stage in stages:
        if "-c" in stage.words[:-1]:
            yield stage.words[stage.words.index("-c") + 1]


def _is_in_try(lines: Sequence[str], at: int, name: str) -> bool:
    if lines[at].lstrip().startswith("try:"):
        return _catches(lines, at, name)
    width = _measure(lines[at])
    for above in range(at - 1, -1, -1):
        line = lines[above]
        if line.strip() and _measure(line) < width:
            width = _measure(line)
            if line.lstrip().startswith("try:") and _catches(lines, above, name):
                return True
    return False


def _catches(lines: Sequence[str], at: int, name: str) -> bool:
    """Whether one of the clauses after a `try` is for everything, or for this exception."""
    width = _measure(lines[at])
    for line in lines[at + 1 :]:
        if not line.strip() or _measure(line) > width:
            continue
        if _measure(line) < width or not (clause := _CLAUSE.match(line)):
            break
        caught = set(re.findall(r"\w+", clause[1].partition(" as ")[0]))
        if not caught or not caught.isdisjoint((name, "Exception", "BaseException")):
            return True
    return False


def _measure(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_said(said: str, lines: Sequence[str], *, is_whole: bool) -> bool:
    """Whether one of the lines is what a literal, or a format, makes."""
    first, *rest = _FIELD.split(said)
    if sum(character.isalpha() for part in (first, *rest) for character in part) < _LETTERS:
        return False
    for line in lines:
        at = len(first) if line.startswith(first) else -1
        for part in rest:
            found = line.find(part, at) if at >= 0 else -1
            at = found + len(part) if found >= 0 else -1
        if at >= 0 and (not is_whole or rest or at == len(line)):
            return True
    return False
