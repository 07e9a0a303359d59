"""A terminal's screen, as agents that type into one are shown it: Terminal-Bench's terminus.

What was typed stands behind the shell's prompt, what it printed below it; the lines of a
here-document are echoed behind `> `. One result may show several commands. It is read as a
script, line by line, each with its own output.
"""

import re

import msgspec

from relight.judging.shell import split_stages
from relight.judging.verdicts.exits import judge_zero
from relight.judging.verdicts.judging import judge_output
from relight.judging.verdicts.outputs import Output, find_missing_command, make_output
from relight.judging.verdicts.phrases import OK_TEXT, tell_error
from relight.judging.verdicts.rules import read_rules
from relight.model import Verdict

_STARTS = ("New Terminal Output:", "Current ", "Previous response had ")
_NAME = r"(?:\([^()\n]{1,40}\) ?)?"  # that of a virtual environment
_PATH = r":[^\n]{0,120}?[#$](?: |$)"
# As on most systems, bash's on a Mac, zsh's there, and bash's where nothing is set.
_PROMPT = (
    rf"(?:(?P<who>[\w.-]+@[\w.-]+){_PATH}|[\w.-]+:[^\s:]{{1,80}} [\w.-]+[$](?: |$)"
    r"|[\w.-]+@[\w.-]+ [^\s%]{1,80} %(?: |$)|(?:ba|z|da|k)?sh-[\d.]+[#$](?: |$))"
)
_PROMPTS = re.compile(rf"^{_NAME}{_PROMPT}", re.MULTILINE)
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*['\"\\]?(\w+)['\"]?")
_ECHO = re.compile(r"[^\n>]{0,8}> ?")  # a key pressed ahead may stand before the mark
_PILED = re.compile(r"\A(?:> )+")  # those of lines that were pasted at once
_OPEN = re.compile(r"(?:\\|\||&&|\b(?:do|then|else)|[({])\s*\Z|\A\s*(?:for|while|until|if|case)\b")
_NARROWEST = 79
_NAMES_LIMIT = 9
_COMMANDS_LIMIT = 200
_BREAKS_LIMIT = 50


class Typed(msgspec.Struct, frozen=True):
    """A command on a screen, and what it printed below."""

    command: str
    text: str


class Screen(msgspec.Struct, frozen=True):
    """The commands on a screen, in order; `is_idle` if the shell waits for another.

    `rest` is what stood above the first of them. `is_open` if there is none, and the shell waits
    for the end of one that was begun earlier: a quote or a here-document nobody closed.
    """

    typed: tuple[Typed, ...]
    rest: str
    is_idle: bool
    is_open: bool = False


def read_screen(text: str) -> Screen | None:
    """The screen that a result shows; None if it shows none."""
    if not text.startswith(_STARTS) or not (head := read_rules().screen.match(text)):
        return None
    text = read_rules().after_screen.sub("", text[head.end() :]).rstrip()
    names = {found["who"] for found in _PROMPTS.finditer(text)} - {None}
    prompt = _PROMPTS
    if names:  # seen at a line's start, it counts behind output that lacks its last newline
        known = "|".join(re.escape(name) for name in sorted(names)[:_NAMES_LIMIT])
        prompt = re.compile(rf"{_NAME}(?:{known}){_PATH}|^{_NAME}{_PROMPT}", re.MULTILINE)
    prompts = list(prompt.finditer(text))[-_COMMANDS_LIMIT:]
    width = _find_width(text)
    typed = []
    for at, found in enumerate(prompts):
        end = prompts[at + 1].start() if at + 1 < len(prompts) else len(text)
        margin = found.end() - text.rfind("\n", 0, found.start()) - 1
        command, printed = _divide(text[found.end() : end], margin=margin, width=width)
        if command.strip():
            typed.append(Typed(command, printed))
        elif printed.strip() and typed:
            typed[-1] = Typed(typed[-1].command, f"{typed[-1].text}\n{printed}")
    rest = text[: prompts[0].start()] if prompts else text
    is_idle = bool(prompts) and not text[prompts[-1].end() :].strip()
    is_open = not typed and not is_idle and (f"\n{text}").endswith("\n>")
    return Screen(tuple(typed), _drop_echo(rest), is_idle, is_open)


def find_outputs(screen: Screen, keys: str) -> list[Output]:
    """Each command on a screen with its output; the keys pressed, where none is to be seen."""
    typed = list(screen.typed)
    first = keys.strip().partition("\n")[0]
    if not any(each.command.startswith(first[:_NARROWEST]) for each in typed):
        pressed = {line.strip() for line in keys.split("\n")}
        lines = [line for line in screen.rest.split("\n") if line.strip() not in pressed]
        typed.insert(0, Typed(keys, "\n".join(lines)))
    return [_make_output(each.command, each.text) for each in typed]


def judge_screen(screen: Screen, keys: str) -> Verdict:
    """What became of the commands on a screen: the last one's exit code would be that of all.

    An earlier one's failure counts where it would in a script: if it shows in spite of that.
    """
    if screen.is_open and not screen.rest.strip() and not _is_open(keys):
        return tell_error("syntax_error", "the shell waits for the end of an earlier command")
    outputs = find_outputs(screen, keys)
    last = outputs[-1]
    is_begun = not screen.is_idle and not last.text.strip()  # it may be at work still
    verdict = OK_TEXT if is_begun else judge_output(last, None)
    if verdict.label in ("error", "negative"):
        return verdict
    for output in reversed(outputs[:-1]):
        if not output.is_reader or find_missing_command(output):
            masked = _make_output(f"{output.command}\ntrue", output.text[1:])
            earlier = judge_zero(masked, is_told=False)
            if earlier.label == "error":
                return earlier
    return verdict


def _make_output(command: str, text: str) -> Output:
    return make_output(split_stages(command), text, command=command)


def _find_width(text: str) -> int:
    """How many characters a line of the terminal holds, if several lines are as long; else 0."""
    lengths = [len(line) for line in text.split("\n")]
    width = max(lengths)
    return width if width >= _NARROWEST and lengths.count(width) > 1 else 0


def _divide(text: str, *, margin: int, width: int) -> tuple[str, str]:
    """What was typed behind a prompt, with all its lines, and what was printed after it."""
    command, _newline, rest = text.partition("\n")
    is_full = width > 0 and margin + len(command) == width
    for _ in range(_BREAKS_LIMIT):
        if not is_full or not rest:
            break  # else the terminal broke the line
        more, _newline, rest = rest.partition("\n")
        command, is_full = command + more, len(more) == width
    if mark := _HEREDOC.search(command):
        closing = re.compile(rf"^(?:{_ECHO.pattern})?{mark[1]}[ \t]*$", re.MULTILINE)
        closed = next(reversed(list(closing.finditer(rest))), None)  # it may be echoed twice
        body = rest[: closed.start()] if closed else "\n".join(_find_echoes(rest))
        rest = _PILED.sub("", rest[closed.end() + 1 :]) if closed else _drop_echo(rest)
        typed = [_ECHO.sub("", line, count=1) for line in body.split("\n") if line]
        return "\n".join((command, *typed, mark[1])), rest
    if _is_open(command):
        lines = rest.split("\n")
        count = next((at for at, line in enumerate(lines) if line[:1] != ">"), len(lines))
        typed = [_ECHO.sub("", line, count=1) for line in lines[:count]]
        return "\n".join((command, *typed)), "\n".join(lines[count:])
    return command, rest


def _is_open(command: str) -> bool:
    """Whether more lines must follow for a command to be whole."""
    return bool(_OPEN.search(command)) or bool(command.count("'") % 2 or command.count('"') % 2)


def _find_echoes(text: str) -> list[str]:
    return [line for line in text.split("\n") if _ECHO.match(line)]


def _drop_echo(text: str) -> str:
    """Text without the lines of a here-document, whose first command is out of sight."""
    return "\n".join(line for line in text.split("\n") if line[:1] != ">")
