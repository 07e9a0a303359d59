"""Relight inside other agents: the changes to their settings, and how to undo them."""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.locks import make_folder
from relight.sources import SOURCES
from relight.warm.agents.json_text import parse_places, remove_member, set_value
from relight.warm.agents.originals import (
    Original,
    drop_original,
    find_original,
    hash_text,
    keep_original,
)

PLUGIN = "relight"
HOOK_WORDS = "warm --hook claude-code"
BUDGET_WORDS = "budget --hook claude-code"
HOOK_SECONDS = 10
STATUS = "statusLine"
STATUS_WORDS = "statusline"
OWN_STATUS = re.compile(r"\brelight\b.* statusline\b")


class Change(Struct, frozen=True):
    """A settings file before and after; equal if there is nothing to do."""

    path: Path
    before: str | None
    after: str | None
    # the home that keeps the original, and the original; None if Relight is removed
    home: Path | None = None
    original: Original | None = None
    part: str = ""
    # what is kept for Relight's other parts, if this one is removed
    others: list[Original] = []

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


class PackageStep(Struct, frozen=True):
    """A command that installs Relight in an agent's Python or removes it, or why it cannot."""

    python: Path | None = None
    command: list[str] = []
    why_not: str | None = None
    constraints: list[str] = []
    before: list[str] = []


class Agent(Struct, frozen=True):
    """An agent that Relight can be added to."""

    # True if nothing is to be added, from the file's path, its text and the hook's command
    has: Callable[[Path, str, str], bool]
    # the new settings, from the file's path, its text and the command that answers the hook
    add: Callable[[Path, str, str], str]
    # the settings without Relight, from the file's path, its text and the text before Relight
    remove: Callable[[Path, str, str], str]
    # the words after `relight` in the command that the agent runs
    words: str = HOOK_WORDS
    # the module that answers the agent's hook, if it calls one
    hook: str | None = None
    # the module that installs Relight into the agent's Python environment, if it needs that
    package: str | None = None
    # the part of the settings that it is, if another part of Relight has the same file
    part: str = ""


def plan_change(
    agent: str,
    *,
    remove: bool = False,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    command: str | None = None,
    agents: Mapping[str, Agent] | None = None,
) -> Change:
    """Return the change that adds Relight to an agent or removes it; nothing is written yet.

    `agents` is the table of what is added: warm starts, or the status line.
    """
    environment = os.environ if environment is None else environment
    agents = AGENTS if agents is None else agents
    if agent not in agents:
        raise RelightError(f"Relight cannot be added to {agent!r}", f"only to {', '.join(agents)}")
    row = agents[agent]
    source = SOURCES[agent]
    path = source.find_homes(environment)[0] / (source.settings or "")
    current = _read(path)
    original = find_original(home, path, row.part) if home else None
    before = _strip(row, path, current, original)
    if remove:
        others = _strip_others(row, path, home, original, current, before)
        return Change(path, current, before, home, part=row.part, others=others)
    command = command or find_command(home, row.words)
    if current is not None and row.has(path, current, command):
        return Change(path, current, current)
    after = row.add(path, before or "", command)
    kept = Original(str(path), before, hash_text(after), row.part)
    return Change(path, current, after, home, kept, row.part)


def _strip(row: Agent, path: Path, text: str | None, original: Original | None) -> str | None:
    """Return settings without a part of Relight: those before it, if they are as it left them."""
    if text is None:
        return None
    if original and original.is_current(text):
        return original.before
    return row.remove(path, text, (original and original.before) or "")


def _strip_others(
    row: Agent,
    path: Path,
    home: Path | None,
    original: Original | None,
    current: str | None,
    after: str | None,
) -> list[Original]:
    """Return what is kept for Relight's other parts, without the one that is removed."""
    found = [find_original(home, path, part) for part in _PARTS if home and part != row.part]
    return [
        replace(
            other,
            before=_strip(row, path, other.before, original),
            written=hash_text(after or "") if other.is_current(current) else other.written,
        )
        for other in found
        if other
    ]


def apply_change(change: Change) -> None:
    """Write the settings in one step, so that the agent never reads a partial file."""
    if _read(change.path) != change.before:
        raise RelightError(f"{change.path} was changed meanwhile", "run the command again")
    try:
        if change.home and change.original:
            keep_original(change.home, change.original)
        if change.after is None:
            change.path.resolve().unlink(missing_ok=True)
        elif change.is_needed:
            _write(change.path, change.after)
        if change.home and not change.original:
            for other in change.others:
                keep_original(change.home, other)
            drop_original(change.home, change.path, change.part)
    except OSError as error:
        raise RelightError(f"cannot write {change.path}: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    make_folder(path.parent)
    # follow a link: the settings may be elsewhere
    target = path.resolve()
    beside = target.with_name(f".{target.name}.relight")
    # settings may hold keys: other users may not read them, not even for a moment
    beside.unlink(missing_ok=True)
    beside.touch(mode=0o600)
    beside.write_bytes(text.encode())
    if target.exists():
        beside.chmod(target.stat().st_mode & 0o777)
    beside.replace(target)


def find_command(home: Path | None = None, own: str = HOOK_WORDS) -> str:
    """Return the command that starts this Relight, with a home folder that is not the default."""
    beside = Path(sys.executable).with_name("relight")
    words = [str(beside)] if beside.exists() else [sys.executable, "-m", "relight"]
    words += own.split()
    if home is not None and home.absolute() != Path.home() / ".relight":
        words += ["--home", str(home.absolute())]
    # Claude Code blocks a prompt if the hook exits with 2, as another Relight does that lacks
    # an option
    return f"{shlex.join(words)} || true"


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()  # `read_text` would change the ends of lines
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RelightError(f"cannot read {path}: {error}") from error


class ClaudeHook(Struct, frozen=True):
    """A hook of Relight's in Claude Code's settings: its words, and the events that call it."""

    words: str
    events: tuple[str, ...]
    # for some events, the values of which Claude Code calls it
    matchers: Mapping[str, str] = {}

    def has(self, path: Path, text: str, command: str) -> bool:
        found = [(event, given) for event, _, _, given in self._find(path, text)]
        return found == [(event, command) for event in self.events]

    def add(self, path: Path, text: str, command: str) -> str:
        text = text if text.strip() else "{}\n"
        self._find(path, text)
        own = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
        for event in self.events:
            only = {"matcher": self.matchers[event]} if event in self.matchers else {}
            text = set_value(text, ("hooks", event), [{**only, "hooks": [own]}])
        return text

    def remove(self, path: Path, text: str, original: str) -> str:
        """Return the settings without the hook, and without what it leaves empty.

        What was empty in the original settings stays.
        """
        while found := self._find(path, text):
            name, group, hook, _ = found[-1]
            settings = parse_places(text)
            at = settings.find_last("hooks") or 0
            events = settings.members[at].node
            event = events.find_last(name) or 0
            groups = events.members[event].node
            listed = groups.members[group].node
            hooks = listed.members[listed.find_last("hooks") or 0].node
            if len(hooks.members) > 1:
                text = remove_member(text, hooks, hook)
            elif len(groups.members) > 1 or f'"{name}"' in original:
                text = remove_member(text, groups, group)
            elif len(events.members) > 1 or '"hooks"' in original:
                text = remove_member(text, events, event)
            else:
                text = remove_member(text, settings, at)
        return text

    def _find(self, path: Path, text: str) -> list[tuple[str, int, int, str]]:
        """Return Relight's hooks: the event, the group's number, the one in it, the command."""
        try:
            events = _parse_claude(text).get("hooks") or {}
            return [
                (event, number, place, hook["command"])
                for event in self.events
                for number, group in enumerate(events.get(event) or [])
                for place, hook in enumerate(group.get("hooks") or [])
                if self.words in str(hook.get("command", ""))
            ]
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise _refuse_claude(path, error) from error


def _parse_claude(text: str) -> Any:
    return json.loads(text) if text.strip() else {}


def _refuse_claude(path: Path, error: object) -> RelightError:
    return RelightError(
        f"{path} is not valid Claude Code settings: {error}", "repair it first; it was not changed"
    )


def _find_status(path: Path, text: str) -> str | None:
    """Return the command of the status line; None if there is none."""
    try:
        found = _parse_claude(text).get(STATUS)
        return None if found is None else str(found["command"])
    except (ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
        raise _refuse_claude(path, error) from error


def _has_status(path: Path, text: str, command: str) -> bool:
    return _find_status(path, text) == command


def _add_status(path: Path, text: str, command: str) -> str:
    text = text if text.strip() else "{}\n"
    _find_status(path, text)
    return set_value(text, (STATUS,), {"type": "command", "command": command})


def _remove_status(path: Path, text: str, original: str) -> str:
    """Return the settings with the status line of before, or without one."""
    if not OWN_STATUS.search(_find_status(path, text) or ""):
        return text
    settings = parse_places(text)
    place = settings.find_last(STATUS) or 0
    node = settings.members[place].node
    if _find_status(path, original) is None:
        return remove_member(text, settings, place)
    before = parse_places(original)
    earlier = before.members[before.find_last(STATUS) or 0].node
    return text[: node.start] + original[earlier.start : earlier.end] + text[node.end :]


def _has_hermes(_: Path, text: str, __: str) -> bool:
    return bool(_ENTRY.search(text) or _INLINE_ENTRY.search(text))


def _add_hermes(path: Path, text: str, _: str) -> str:
    """Name the plugin in `plugins.enabled`; the rest of the file does not change."""
    return _with_ends_of(text, _enable(text.replace("\r\n", "\n"), path))


def _remove_hermes(_: Path, text: str, __: str) -> str:
    return _with_ends_of(text, _disable(text.replace("\r\n", "\n")))


def _with_ends_of(before: str, after: str) -> str:
    """Return a text with the ends of lines that it had before."""
    return after.replace("\n", "\r\n") if "\r\n" in before else after


def _enable(text: str, path: Path) -> str:
    plugins = re.search(r"^plugins:[ \t]*(?:#.*)?$", text, re.MULTILINE)
    if plugins is None:
        if re.search(r"^plugins:", text, re.MULTILINE):
            raise RelightError(
                f"{path} has plugins written in a way Relight does not edit",
                f"run: hermes plugins enable {PLUGIN}",
            )
        ending = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{ending}plugins:\n  enabled:\n    - {PLUGIN}\n"
    start = plugins.end()
    block = re.match(r"(?:\n(?:[ \t]+[^\n]*|[ \t]*(?:#[^\n]*)?))*", text[start:])
    body = block[0] if block else ""
    inline = re.search(r"^([ \t]+)enabled:[ \t]*\[([^\]\n]*)\]", body, re.MULTILINE)
    if inline:
        listed = ", ".join(filter(None, [inline[2].strip(), PLUGIN]))
        new = f"{inline[1]}enabled: [{listed}]"
        body = body[: inline.start()] + new + body[inline.end() :]
    elif listed_block := re.search(r"^([ \t]+)enabled:[ \t]*(?:#.*)?$", body, re.MULTILINE):
        following = re.match(r"\n([ \t]*)- ", body[listed_block.end() :])
        indent = following[1] if following else listed_block[1] + "  "
        at = listed_block.end()
        body = f"{body[:at]}\n{indent}- {PLUGIN}{body[at:]}"
    elif re.search(r"^[ \t]+enabled:", body, re.MULTILINE):
        raise RelightError(
            f"{path} has plugins.enabled written in a way Relight does not edit",
            f"run: hermes plugins enable {PLUGIN}",
        )
    else:
        body = f"\n  enabled:\n    - {PLUGIN}{body}"
    return text[:start] + body + text[start + len(block[0] if block else "") :]


_ENTRY = re.compile(rf"^[ \t]+-[ \t]+['\"]?{PLUGIN}['\"]?[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_INLINE_ENTRY = re.compile(
    rf"(^[ \t]+enabled:[ \t]*\[)([^\]\n]*?)(?:,[ \t]*)?(?<![\w-])['\"]?{PLUGIN}['\"]?(?![\w-])"
    r"(?:[ \t]*,[ \t]*)?",
    re.MULTILINE,
)


def _disable(text: str) -> str:
    """Return the settings without the plugin, and without the lines that adding it wrote."""
    made = re.sub(rf"^plugins:\n  enabled:\n    - {PLUGIN}\n\Z", "", text, flags=re.MULTILINE)
    if made != text:
        return made
    text = re.sub(rf"^  enabled:\n    - {PLUGIN}\n(?!    - )", "", text, flags=re.MULTILINE)
    return _INLINE_ENTRY.sub(r"\1\2", _ENTRY.sub("", text))


_WARM = ClaudeHook(
    HOOK_WORDS, ("UserPromptSubmit", "SessionStart"), {"SessionStart": "fork|resume"}
)
_BUDGET = ClaudeHook(BUDGET_WORDS, ("UserPromptSubmit", "PreToolUse"))
# by the name of the agent's source
AGENTS = {
    "claude-code": Agent(
        _WARM.has, _WARM.add, _WARM.remove, hook="relight.warm.agents.claude_hook"
    ),
    "hermes": Agent(
        _has_hermes, _add_hermes, _remove_hermes, package="relight.warm.agents.hermes_package"
    ),
}
# the same, for the line below the prompt
STATUS_LINES = {
    "claude-code": Agent(_has_status, _add_status, _remove_status, words=STATUS_WORDS, part=STATUS),
}
# the same, for budgets that stop the agent
BUDGETS = {
    "claude-code": Agent(
        _BUDGET.has,
        _BUDGET.add,
        _BUDGET.remove,
        words=BUDGET_WORDS,
        hook="relight.warm.agents.claude_budget",
        part="budget",
    ),
}
_PARTS = ("", STATUS, "budget")
