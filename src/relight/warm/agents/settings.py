"""Relight inside other agents: what has to change in their settings, and how to undo it."""

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.errors import RelightError

AGENTS = ("claude-code", "hermes")
PLUGIN = "relight"
HOOK = "UserPromptSubmit"
HOOK_WORDS = "warm --hook claude-code"
HOOK_SECONDS = 10


class Change(Struct, frozen=True):
    """A settings file as it is and as it would be; the same where nothing is left to do."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


def plan_change(
    agent: str,
    *,
    remove: bool = False,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    command: str | None = None,
) -> Change:
    """What adding Relight to an agent, or removing it, changes; nothing is written yet."""
    environment = os.environ if environment is None else environment
    user = Path(environment.get("HOME") or Path.home())
    if agent == "claude-code":
        named = environment.get("CLAUDE_CONFIG_DIR", "").split(",")[0].strip()
        folder = Path(named).expanduser() if named else user / ".claude"
        path = folder / "settings.json"
        return _plan_claude(path, command or find_command(home), remove=remove)
    if agent == "hermes":
        folder = Path(environment.get("HERMES_HOME") or user / ".hermes").expanduser()
        return _plan_hermes(folder / "config.yaml", remove=remove)
    raise RelightError(f"Relight cannot be added to {agent!r}", f"only to {', '.join(AGENTS)}")


def apply_change(change: Change) -> None:
    """Write the settings in one step, so that the agent never reads half a file."""
    if change.after is None:
        change.path.unlink(missing_ok=True)
        return
    try:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        # a link is followed: the settings may be kept elsewhere
        target = change.path.resolve()
        beside = target.with_name(f".{target.name}.relight")
        # settings may hold keys: nobody else may read them, not even for a moment
        beside.unlink(missing_ok=True)
        beside.touch(mode=0o600)
        beside.write_text(change.after, encoding="utf-8")
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        beside.replace(target)
    except OSError as error:
        raise RelightError(f"cannot write {change.path}: {error.strerror}") from error


def find_command(home: Path | None = None) -> str:
    """How another program starts this Relight, with the home folder where it is not the usual."""
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


def _plan_claude(path: Path, command: str, *, remove: bool) -> Change:
    before = _read(path)
    try:
        settings: Any = json.loads(before) if before and before.strip() else {}
        hooks = settings.get("hooks") or {}
        groups = [
            kept for group in hooks.get(HOOK) or [] if (kept := _without_ours(group)) is not None
        ]
        settings["hooks"] = hooks
    except (ValueError, AttributeError, TypeError) as error:
        raise RelightError(
            f"{path} is not as Claude Code writes it: {error}", "mend it first; it was not touched"
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
    """A group of hooks without Relight's; None if there was nothing else in it."""
    hooks = group.get("hooks") or []
    kept = [hook for hook in hooks if HOOK_WORDS not in str(hook.get("command", ""))]
    if len(kept) == len(hooks):
        return group
    return {**group, "hooks": kept} if kept else None


def _plan_hermes(path: Path, *, remove: bool) -> Change:
    """The plugin is named in `plugins.enabled`; the rest of the file stays as it is written."""
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
    """The settings without the plugin, and without the lines that adding it made."""
    made = re.sub(rf"^plugins:\n  enabled:\n    - {PLUGIN}\n\Z", "", text, flags=re.MULTILINE)
    if made != text:
        return made
    text = re.sub(rf"^  enabled:\n    - {PLUGIN}\n(?!    - )", "", text, flags=re.MULTILINE)
    return _INLINE_ENTRY.sub(r"\1\2", _ENTRY.sub("", text))
