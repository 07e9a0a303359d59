"""Relight inside other agents: the changes to their settings, and how to undo them.

Settings are kept as they were before Relight was added, so that removing it restores them.
"""

import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.locks import list_missing, make_folder, write_private
from relight.sources import SOURCES
from relight.warm.agents import hermes_settings, json_hooks, skill_file
from relight.warm.agents.json_hooks import STATUS, JsonHook

FOLDER = "originals"
HOOK_WORDS = "warm --hook claude-code"
CODEX_WORDS = "warm --hook codex"
BUDGET_WORDS = "budget --hook claude-code"
STATUS_WORDS = "statusline"
_PARTS = ("", STATUS, "budget")


class Original(Struct, frozen=True):
    """A settings file before Relight changed it, and the hash of the text that Relight wrote."""

    path: str
    before: str | None
    written: str
    # the part of Relight that changed it, if not the first one: each is removed by itself
    part: str = ""
    # the folders that were made for the file, the innermost first; None if that is not known
    folders: list[str] | None = None

    def is_current(self, text: str | None) -> bool:
        """True if nothing has changed the settings since Relight wrote them."""
        return text is not None and hash_text(text) == self.written


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def find_original(home: Path, settings: Path, part: str = "") -> Original | None:
    """Return the settings that a home keeps for a file; None if it keeps none that is valid."""
    try:
        found = msgspec.json.decode(_place(home, settings, part).read_bytes(), type=Original)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.path == str(settings) else None


def keep_original(home: Path, original: Original) -> None:
    """Keep settings until Relight is removed; they may contain keys, so only the owner reads."""
    place = _place(home, Path(original.path), original.part)
    make_folder(place.parent)
    write_private(place, msgspec.json.encode(original))


def _place(home: Path, settings: Path, part: str) -> Path:
    return home / FOLDER / f"{hash_text(f'{settings}{part}')[:16]}.json"


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
    # the folders that were made for the file, the innermost first: those that are empty now go
    folders: list[str] = []
    # of a new file
    mode: int = 0o600

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

    # True if Relight is already there; called with the file's path, its text and the hook's command
    has: Callable[[Path, str, str], bool]
    # the new settings, from the file's path, its text and the command that answers the hook
    add: Callable[[Path, str, str], str]
    # the settings without Relight, from the file's path, its text and the text before Relight;
    # None if no file is left
    remove: Callable[[Path, str, str], str | None]
    # the words after `relight` in the command that the agent runs
    words: str = HOOK_WORDS
    # the module that answers the agent's hook, if it calls one
    hook: str | None = None
    # the module that installs Relight into the agent's Python environment, if it needs that
    package: str | None = None
    # the part of Relight that this row installs, if several share the file
    part: str = ""
    # the module that finds what keeps the agent from using it
    check: str | None = None
    # finds the file that is changed, if it is not that of the agent's settings
    find_file: Callable[[Mapping[str, str]], Path] | None = None
    # True if its folder is Relight's too
    has_folder: bool = False
    # of a new file: settings may hold keys
    mode: int = 0o600


def make_hook_agent(own: JsonHook, *, hook: str, part: str = "", check: str | None = None) -> Agent:
    """Return the row of an agent whose settings name hooks in JSON."""
    return Agent(own.has, own.add, own.remove, words=own.words, hook=hook, part=part, check=check)


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
    path = find_settings(agent, row, environment)
    current = _read(path)
    original = find_original(home, path, row.part) if home else None
    before = _strip(row, path, current, original)
    if remove:
        others = _strip_others(row, path, home, original, current, before)
        folders = _list_made(row, path, original)
        return Change(path, current, before, home, None, row.part, others, folders)
    command = command or find_command(home, row.words)
    if current is not None and row.has(path, current, command):
        return Change(path, current, current)
    after = row.add(path, before or "", command)
    places = [path.parent, *([home / FOLDER] if home else [])]
    made = [str(one) for place in places for one in list_missing(place)]
    if current is not None or original:
        made += _list_made(row, path, original)
    kept = Original(str(path), before, hash_text(after), row.part, made)
    return Change(path, current, after, home, kept, row.part, mode=row.mode)


def find_settings(agent: str, row: Agent, environment: Mapping[str, str]) -> Path:
    """Return the file that is changed to add Relight to an agent."""
    if row.find_file:
        return row.find_file(environment)
    source = SOURCES[agent]
    return source.find_homes(environment)[0] / (source.settings or "")


def find_trouble(
    agent: str, agents: Mapping[str, Agent], environment: Mapping[str, str] | None = None
) -> str | None:
    """Return what keeps an agent from using what was added to it; None if nothing is known."""
    row = agents[agent]
    if row.check is None:
        return None
    path = find_settings(agent, row, os.environ if environment is None else environment)
    found: str | None = import_module(row.check).find_trouble(path, row.words)
    return found


def find_troubles(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return what keeps agents from using the warm starts that were added to them."""
    found = {name: find_trouble(name, AGENTS, environment) for name in AGENTS}
    return [f"warm starts in {name}: {trouble}" for name, trouble in found.items() if trouble]


def _strip(row: Agent, path: Path, text: str | None, original: Original | None) -> str | None:
    """Return settings without a part of Relight: those before it, if they are as it left them."""
    if text is None:
        return None
    if original and original.is_current(text):
        return original.before
    return row.remove(path, text, (original and original.before) or "")


def _list_made(row: Agent, path: Path, original: Original | None) -> list[str]:
    """Return the folders that were made for a file; that of a file of ours alone is ours too."""
    if original and original.folders is not None:
        return original.folders
    return [str(path.parent)] if row.has_folder else []


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
            # whichever is removed last removes the file
            folders=[*(other.folders or []), *((original and original.folders) or [])],
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
            _write(change.path, change.after, mode=change.mode)
        if change.home and not change.original:
            for other in change.others:
                keep_original(change.home, other)
            _place(change.home, change.path, change.part).unlink(missing_ok=True)
        for folder in change.folders:
            with suppress(OSError):  # it is not empty
                Path(folder).rmdir()
    except OSError as error:
        raise RelightError(f"cannot write {change.path}: {error.strerror}") from error


def _write(path: Path, text: str, *, mode: int) -> None:
    make_folder(path.parent)
    # follow a link: the settings may be elsewhere
    target = path.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else mode
    # settings may hold keys: other users may not read them, not even for a moment
    write_private(target, text.encode(), mode=mode)


def find_command(home: Path | None = None, own: str = HOOK_WORDS) -> str:
    """Return the command that starts this Relight, with a home folder that is not the default."""
    beside = Path(sys.executable).with_name("relight")
    words = [str(beside)] if beside.exists() else [sys.executable, "-m", "relight"]
    words += own.split()
    if home is not None and home.absolute() != Path.home() / ".relight":
        words += ["--home", str(home.absolute())]
    # an agent blocks a prompt if the hook exits with 2, as an older Relight may
    return f"{shlex.join(words)} || true" if own else shlex.join(words)


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()  # `read_text` would change the ends of lines
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RelightError(f"cannot read {path}: {error}") from error


# by the name of the agent's source
AGENTS = {
    "claude-code": make_hook_agent(
        JsonHook(HOOK_WORDS, ("UserPromptSubmit", "SessionStart"), {"SessionStart": "fork|resume"}),
        hook="relight.warm.agents.prompt_hook",
    ),
    "codex": make_hook_agent(
        JsonHook(CODEX_WORDS, ("UserPromptSubmit", "SessionStart"), {"SessionStart": "resume"}),
        hook="relight.warm.agents.prompt_hook",
        check="relight.warm.agents.codex_trust",
    ),
    "hermes": Agent(
        hermes_settings.has_plugin,
        hermes_settings.add_plugin,
        hermes_settings.remove_plugin,
        package="relight.warm.agents.hermes_package",
    ),
}
# the same, for the line below the prompt
STATUS_LINES = {
    "claude-code": Agent(
        json_hooks.has_status,
        json_hooks.add_status,
        json_hooks.remove_status,
        words=STATUS_WORDS,
        part=STATUS,
    ),
}
# the same, for budgets that stop the agent
BUDGETS = {
    "claude-code": make_hook_agent(
        JsonHook(BUDGET_WORDS, ("UserPromptSubmit", "PreToolUse")),
        hook="relight.warm.agents.claude_budget",
        part="budget",
    ),
}
# the same, for the skill that teaches an agent to ask Relight
SKILLS = {
    name: Agent(
        skill_file.has_skill,
        skill_file.add_skill,
        skill_file.remove_skill,
        words="",
        find_file=skill_file.find_skill(name),
        has_folder=True,
    )
    for name in ("claude-code", "codex", "hermes")
}
