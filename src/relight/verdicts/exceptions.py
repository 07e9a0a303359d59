"""The Python exception that a program died of, as its output shows it.

Not every traceback is a death. One that was caught begins at the function that caught it; only
one that nobody caught begins at the module that was run.
"""

import re

import msgspec

from relight.verdicts.outputs import Output
from relight.verdicts.scripts import is_guarded

_END = 600
_TRACEBACKS_LIMIT = 50
_START = "\nTraceback (most recent call last)"
_EXCEPTION = re.compile(r"\n((?:[A-Za-z_][\w.]*\.)?[A-Z_a-z]\w*)(?:: ([^\n]*))?(?=\n|\Z)")
_FRAME = re.compile(r'\n\s+File "([^"\n]+)", line \d+')
_OUTERMOST = re.compile(r'[^\n]*\n  File "([^"\n]+)", line (\d+), in ([^\n]+)(?:\n    ([^\n]+))?')
_CUT = re.compile(r"\nTraceback \(most recent call last\):(?>(?:\n[ \t][^\n]*)*)")
_SYNTAX = re.compile(r"\n(?:Syntax|Indentation|Tab)Error: [^\n]*")
_PLACE = re.compile(r'\n *File "[^"\n]+", line \d+')  # not indented where it comes first of all
_GROUP = re.compile(
    r"\n  \+ Exception Group Traceback [^\n]*\n(?>(?:  \|   [^\n]*\n)*)  \| ([^\n]*)"
)
_ROOTS = frozenset(("<module>", "_run_module_as_main", "run_module", "run_path"))


class Raised(msgspec.Struct, frozen=True):
    """The exception a program ended in: at the end of its output, or far from there."""

    line: str
    name: str
    file: str
    is_last: bool
    is_far: bool = False


def find_exception(output: Output) -> Raised | None:
    """The Python exception that a program died of, if its last words are in the end of the text.

    Captured output is often flushed after the traceback, hence the end and not the last line;
    and where the traceback comes first of all, all of the output was.
    """
    text = output.text.rstrip()
    start = text.rfind(_START)
    if start >= 0:
        start = _find_uncaught(output, text, start)
        if start < 0:
            return None
        found = _EXCEPTION.search(text, text.find("\n", start + 1))
        if not found and _CUT.fullmatch(text, start):
            return Raised(text[start + 1 :].partition("\n")[0], "", "", is_last=True)
    elif "Exception Group Traceback" in text:
        group = _GROUP.search(text)
        return Raised(group[1], group[1].partition(":")[0], "", is_last=True) if group else None
    elif "Error: " in text[-_END:] and 'File "' in text and _PLACE.search(text):
        found = _SYNTAX.search(text, max(0, len(text) - _END))
    else:
        return None
    is_far = found is not None and len(text) - found.end() > _END
    if not found or (is_far and text[:start].strip()):
        return None
    line = found[0][1:]
    frames = _FRAME.findall(text, max(0, found.start() - 3000), found.start())
    name = line.partition(":")[0].rpartition(".")[2]
    if name == "BrokenPipeError" and any(stage.joint == "|" for stage in output.stages):
        return None  # `| head` had seen enough
    is_last = found.end() >= len(text)
    return Raised(line, name, frames[-1] if frames else "", is_last, is_far)


def _find_uncaught(output: Output, text: str, start: int) -> int:
    """Where the last traceback begins that nobody caught, from one on backwards; -1 if nowhere."""
    for _ in range(_TRACEBACKS_LIMIT):
        outermost = _OUTERMOST.match(text, start + 1)
        if not outermost or not _is_caught(output, text, outermost):
            break
        start = text.rfind(_START, 0, start)
        if start < 0:
            break
    return start


def _is_caught(output: Output, text: str, outermost: re.Match[str]) -> bool:
    if not any(stage.program.endswith(("python", ".py")) for stage in output.stages):
        return False  # tools that run code, and programs such as pip, show what they stopped at
    file, number, function, code = outermost.groups()
    if function not in _ROOTS:
        return True
    found = _EXCEPTION.search(text, outermost.end())
    frame = (file, int(number[:9]), code or "")
    name = found[1].rpartition(".")[2] if found else ""
    return is_guarded(output.command, output.stages, frame=frame, name=name)
