"""The Python exception that ended a program, as its output shows it.

A traceback of an exception that was caught begins at the function that caught it; an uncaught one
begins at the module that was run.
"""

import re

import msgspec

from relight.judging.shell import Stage
from relight.judging.verdicts.outputs import Output

_END = 600
_TRACEBACKS_LIMIT = 50
_START = "\nTraceback (most recent call last)"
_EXCEPTION = re.compile(r"\n((?:[A-Za-z_][\w.]*\.)?[A-Z_a-z]\w*)(?:: ([^\n]*))?(?=\n|\Z)")
_FRAME = re.compile(r'\n\s+File "([^"\n]+)", line \d+')
_OUTERMOST = re.compile(r'[^\n]*\n  File "[^"\n]+", line \d+, in ([^\n]+)')
_CUT = re.compile(r"\nTraceback \(most recent call last\):(?>(?:\n[ \t][^\n]*)*)")
_SYNTAX = re.compile(r"\n(?:Syntax|Indentation|Tab)Error: [^\n]*")
# not indented where it comes first of all; the second is a notebook's
_PLACE = re.compile(r'\n *(?:File "[^"\n]+"|(?:Cell|Input) In ?\[\d+\]), line \d+')
_NOTEBOOK = re.compile(r"\n([A-Z]\w*) +Traceback \(most recent call last\)")
# the end of a traceback whose head was cut off: a line of code, marks below it, what was raised
_HEADLESS = re.compile(
    r"\n {4,}\S[^\n]*(?:\n *[~^]+)?"
    r"\n((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|NotFound)(?:: [^\n]*)?)\Z"
)
_ENDINGS = ("Error", "Exception", "Interrupt", "Exit", "NotFound")
_GROUP = re.compile(
    r"\n  \+ Exception Group Traceback [^\n]*\n(?>(?:  \|   [^\n]*\n)*)  \| ([^\n]*)"
)
_ROOTS = frozenset(("<module>", "_run_module_as_main", "run_module", "run_path"))


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
    """Where the last uncaught traceback begins, from `start` backwards; -1 without one."""
    for _ in range(_TRACEBACKS_LIMIT):
        outermost = _OUTERMOST.match(text, start + 1)
        if not outermost or not _is_caught(output, outermost):
            break
        start = text.rfind(_START, 0, start)
        if start < 0:
            break
    return start


def _is_caught(output: Output, outermost: re.Match[str]) -> bool:
    if not any(map(_is_python, output.stages)):
        return False  # tools that run code, and programs such as pip, print what stopped them
    return outermost[1] not in _ROOTS
