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

from relight.errors import RelightError
from relight.sources import SOURCES

PLUGIN = "relight"
HOOK = "UserPromptSubmit"
HOOK_WORDS = "warm --hook claude-code"
HOOK_SECONDS = 10


class Change(Struct, frozen=True):
    """A settings file before and after; equal if there is nothing to do."""

    path: Path
    before: str | None
    after: str | None

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

    # from the settings file and the command that answers the hook; True to remove Relight
    plan: Callable[[Path, str, bool], Change]
    # the module with `answer_prompt`, if the agent calls a hook
    hook: str | None = None
    # the module that installs Relight into the agent's Python environment, if it needs that
    package: str | None = None


def plan_change(
    agent: str,
    *,
    remove: bool = False,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    command: str | None = None,
) -> Change:
    """Return the change that adds Relight to an agent or removes it; nothing is written yet."""
    environment = os.environ if environment is None else environment
    if agent not in AGENTS:
        raise RelightError(f"Relight cannot be added to {agent!r}", f"only to {', '.join(AGENTS)}")
    source = SOURCES[agent]
    path = source.find_homes(environment)[0] / (source.settings or "")
    return AGENTS[agent].plan(path, command or find_command(home), remove)


def apply_change(change: Change) -> None:
    """Write the settings in one step, so that the agent never reads a partial file."""
    if change.after is None:
        change.path.unlink(missing_ok=True)
        return
    try:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        # follow a link: the settings may be elsewhere
        target = change.path.resolve()
        beside = target.with_name(f".{target.name}.relight")
        # settings may hold keys: other users may not read them, not even for a moment
        beside.unlink(missing_ok=True)
        beside.touch(mode=0o600)
        beside.write_text(change.after, encoding="utf-8")
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        beside.replace(target)
    except OSError as error:
        raise RelightError(f"cannot write {change.path}: {error.strerror}") from error


def find_command(home: Path | None = None) -> str:
    """Return the command that starts this Relight, with a home folder that is not the default."""
    beside = Path(sys.executable).with_name("relight")
    words = [str(beside)] if beside.exists() else [sys.executable, "-m", "relight"]
    words += HOOK_WORDS.split()
    if home is not None and home.absolute() != Path.home() / ".relight":
        words += ["--home", str(home.absolute())]
    return shlex.join(words)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RelightError(f"cannot read {path}: {error}") from error


def _plan_claude(path: Path, command: str, remove: bool) -> Change:
    before = _read(path)
    try:
        settings: Any = json.loads(before) if before and before.strip() else {}
        hooks = settings.get("hooks") or {}
        groups = [
            rest for group in hooks.get(HOOK) or [] if (rest := _without_ours(group)) is not None
        ]
        settings["hooks"] = hooks
    except (ValueError, AttributeError, TypeError) as error:
        raise RelightError(
            f"{path} is not valid Claude Code settings: {error}",
            "repair it first; it was not changed",
        ) from error
    if not remove:
        own = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
        groups.append({"hooks": [own]})
    if groups:
        hooks[HOOK] = groups
    else:
        hooks.pop(HOOK, None)
    if not hooks:
        del settings["hooks"]
    if before is None and not settings:
        return Change(path, None, None)
    after = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    if before is not None and json.loads(before or "{}") == settings:
        after = before
    return Change(path, before, after)


def _without_ours(group: Any) -> Any:
    """Return a group of hooks without Relight's; None if nothing else is in it."""
    hooks = group.get("hooks") or []
    others = [hook for hook in hooks if HOOK_WORDS not in str(hook.get("command", ""))]
    if len(others) == len(hooks):
        return group
    return {**group, "hooks": others} if others else None


def _plan_hermes(path: Path, _: str, remove: bool) -> Change:
    """Name the plugin in `plugins.enabled`; the rest of the file does not change."""
    before = _read(path)
    text = before or ""
    after = _disable(text) if remove else _enable(text, path)
    return Change(path, before, after if before is not None or after else None)


def _enable(text: str, path: Path) -> str:
    if _ENTRY.search(text) or _INLINE_ENTRY.search(text):
        return text
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


_ENTRY = re.compile(rf"^[ \t]+-[ \t]+['\"]?{PLUGIN}['\"]?[ \t]*\n?", re.MULTILINE)
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


# by the name of the agent's source
AGENTS = {
    "claude-code": Agent(_plan_claude, hook="relight.warm.agents.claude_hook"),
    "hermes": Agent(_plan_hermes, package="relight.warm.agents.hermes_package"),
}
