"""Results that only one benchmark harness or client writes, apart from the main path.

Terminal-Bench's terminus shows a terminal's screen: each command behind the shell's prompt, its
output below, the lines of a here-document behind `> `. It is read as a script, line by line, each
with its output. Cline returns a list with one object for each command of a call.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from relight.judging.shell import split_stages
from relight.judging.verdicts.commands import judge_output, judge_zero
from relight.judging.verdicts.outputs import Output, find_missing_command, make_output
from relight.judging.verdicts.rules import OK, OK_TEXT, make_error
from relight.judging.verdicts.tool_results import ReadResult, judge_fields, read_result
from relight.model import Verdict

_HEAD = re.compile(
    r"(?:Previous response had warnings:\n(?:[^\n]+\n)*\n)?(?:Current terminal state:\n)?"
    r"(?:New Terminal Output|Current Terminal TerminalScreen):\n"
)
_QUESTION = re.compile(r"\nAre you sure you want to mark the task as complete\?[\s\S]*\Z")
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
    """A command on a screen, and its output below."""

    command: str
    text: str


class TerminalScreen(msgspec.Struct, frozen=True):
    """The commands on a screen, in order; `is_idle` if the shell waits for another.

    `rest` is the text above the first of them. `is_open` if no command is in sight and the shell
    waits for the end of an earlier one: a quote or a here-document that was not closed.
    """

    typed: tuple[Typed, ...]
    rest: str
    is_idle: bool
    is_open: bool = False


def read_screen(text: str) -> TerminalScreen | None:
    """Return the screen that a result shows; None if it is not one."""
    if not (head := _HEAD.match(text)):
        return None
    text = _QUESTION.sub("", text[head.end() :]).rstrip()
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
    return TerminalScreen(tuple(typed), _drop_echo(rest), is_idle, is_open)


def find_outputs(screen: TerminalScreen, keys: str) -> list[Output]:
    """Return each command on a screen with its output; the keys typed count if none is in sight."""
    typed = list(screen.typed)
    first = keys.strip().partition("\n")[0]
    if not any(each.command.startswith(first[:_NARROWEST]) for each in typed):
        pressed = {line.strip() for line in keys.split("\n")}
        lines = [line for line in screen.rest.split("\n") if line.strip() not in pressed]
        typed.insert(0, Typed(keys, "\n".join(lines)))
    return [_make_output(each.command, each.text) for each in typed]


def judge_screen(screen: TerminalScreen, keys: str) -> Verdict:
    """Return the verdict on the commands on a screen: that of the last one.

    A failure of an earlier one counts if its output shows it, as in a script.
    """
    if screen.is_open and not screen.rest.strip() and not _is_open(keys):
        return make_error("syntax_error", "the shell waits for the end of an earlier command")
    outputs = find_outputs(screen, keys)
    last = outputs[-1]
    is_begun = not screen.is_idle and not last.text.strip()  # it may still be running
    verdict = OK_TEXT if is_begun else judge_output(last, None)
    if verdict.label in ("error", "negative"):
        return verdict
    for output in reversed(outputs[:-1]):
        if not output.is_reader or find_missing_command(output):
            masked = _make_output(f"{output.command}\ntrue", output.text[1:])
            earlier = judge_zero(masked, is_known=False)
            if earlier.label == "error":
                return earlier
    return verdict


def _make_output(command: str, text: str) -> Output:
    return make_output(split_stages(command), text, command=command)


def _find_width(text: str) -> int:
    """The width of the terminal, if several lines are as long; else 0."""
    lengths = [len(line) for line in text.split("\n")]
    width = max(lengths)
    return width if width >= _NARROWEST and lengths.count(width) > 1 else 0


def _divide(text: str, *, margin: int, width: int) -> tuple[str, str]:
    """The command behind a prompt, with all its lines, and the output after it."""
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
    """True if a command is incomplete without more lines."""
    return bool(_OPEN.search(command)) or bool(command.count("'") % 2 or command.count('"') % 2)


def _find_echoes(text: str) -> list[str]:
    return [line for line in text.split("\n") if _ECHO.match(line)]


def _drop_echo(text: str) -> str:
    """The text without the lines of a here-document whose command is out of sight."""
    return "\n".join(line for line in text.split("\n") if line[:1] != ">")


def judge_parts(
    parts: Sequence[Mapping[str, Any]],
    lines: Sequence[str],
    judge_shell: Callable[[str, ReadResult, int | None], Verdict],
) -> Verdict:
    """Return the worst verdict on the parts of a call that did several things.

    If there is one command line for each part, `judge_shell` judges the parts.
    """
    verdicts = [
        _judge_part(part, lines[at] if len(lines) == len(parts) else None, judge_shell)
        for at, part in enumerate(parts)
    ]
    labels = [verdict.label for verdict in verdicts]
    worst = next((label for label in ("error", "negative") if label in labels), labels[-1])
    return verdicts[labels.index(worst)]


def _judge_part(
    part: Mapping[str, Any],
    line: str | None,
    judge_shell: Callable[[str, ReadResult, int | None], Verdict],
) -> Verdict:
    seen = read_result(part)
    if line is not None:
        texts = [read_result(part[name]) for name in ("result", "error") if name in part]
        code = next((each.exit_code for each in (seen, *texts) if each.exit_code), 0)
        if code or not judge_fields(part):
            text = texts[0].text if texts else seen.text
            return judge_shell(line, ReadResult(text, text), code)
    if seen.is_error or seen.exit_code:
        first = seen.text.strip().partition("\n")[0]
        return make_error(None, first or "marked as an error")
    return judge_fields(part) or OK
