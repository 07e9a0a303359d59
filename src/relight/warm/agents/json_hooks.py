"""Hooks and the status line in settings that are JSON, as Claude Code and Codex have them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.errors import RelightError
from relight.warm.agents.json_text import parse_places, remove_member, set_value

HOOK_SECONDS = 10
STATUS = "statusLine"
OWN_STATUS = re.compile(r"\brelight\b.* statusline\b")


class JsonHook(Struct, frozen=True):
    """A hook of Relight's in an agent's JSON settings: its words, and the events that call it."""

    words: str
    events: tuple[str, ...]
    # by event, the pattern of the values for which the agent calls the hook
    matchers: Mapping[str, str] = {}

    def has(self, path: Path, text: str, command: str) -> bool:
        found = [(event, given) for event, _, _, given in self.find(path, text)]
        return found == [(event, command) for event in self.events]

    def add(self, path: Path, text: str, command: str) -> str:
        text = text if text.strip() else "{}\n"
        self.find(path, text)
        own = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
        for event in self.events:
            only = {"matcher": self.matchers[event]} if event in self.matchers else {}
            text = set_value(text, ("hooks", event), [{**only, "hooks": [own]}])
        return text

    def remove(self, path: Path, text: str, original: str) -> str:
        """Return the settings without the hook, and without what it leaves empty.

        What was empty in the original settings stays.
        """
        while found := self.find(path, text):
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

    def find(self, path: Path, text: str) -> list[tuple[str, int, int, str]]:
        """Return Relight's hooks: the event, the group's number, the one in it, the command."""
        try:
            events = _parse(text).get("hooks") or {}
            return [
                (event, number, place, hook["command"])
                for event in self.events
                for number, group in enumerate(events.get(event) or [])
                for place, hook in enumerate(group.get("hooks") or [])
                if self.words in str(hook.get("command", ""))
            ]
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise _refuse(path, error) from error


def _parse(text: str) -> Any:
    return json.loads(text) if text.strip() else {}


def _refuse(path: Path, error: Exception) -> RelightError:
    # an error of Python about a value of another type says nothing to a person
    reason = error if isinstance(error, ValueError) else "it has an unknown shape"
    return RelightError(
        f"{path} cannot be read as settings: {reason}", "repair it first; it was not changed"
    )


def _find_status(path: Path, text: str) -> str | None:
    """Return the command of the status line; None if there is none."""
    try:
        found = _parse(text).get(STATUS)
        return None if found is None else str(found["command"])
    except (ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
        raise _refuse(path, error) from error


def has_status(path: Path, text: str, command: str) -> bool:
    return _find_status(path, text) == command


def add_status(path: Path, text: str, command: str) -> str:
    text = text if text.strip() else "{}\n"
    _find_status(path, text)
    return set_value(text, (STATUS,), {"type": "command", "command": command})


def remove_status(path: Path, text: str, original: str) -> str:
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
