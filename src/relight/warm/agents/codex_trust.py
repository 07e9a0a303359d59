"""Codex runs a hook only after its user has trusted it, and says nothing about one that it skips.

What a user trusts is kept in `config.toml`: the place of the hook, and a hash of its words. Relight
reads that and never writes it, since to trust is the user's part.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DO = "start codex, type /hooks, and trust those of Relight"
SWITCHES = ("hooks", "codex_hooks")


def find_trouble(settings: Path, words: str) -> str | None:
    """Return why Codex skips the hooks with these words; None if it runs them, or has none.

    A file that cannot be read says nothing here: Codex itself complains about it.
    """
    try:
        hooks = json.loads(settings.read_bytes()).get("hooks") or {}
        path = settings.with_name("config.toml")
        config = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        states = (config.get("hooks") or {}).get("state") or {}
        own = list(_list_hooks(hooks, words))
        real = settings.resolve()  # Codex follows the link of a CODEX_HOME
        if own and any((config.get("features") or {}).get(one) is False for one in SWITCHES):
            return f"set hooks = true under [features] in {path}"
        for event, place, group, hook in own:
            keys = [f"{one}:{_name_event(event)}:{place}" for one in (settings, real)]
            state: dict[str, Any] = next(filter(None, map(states.get, keys)), {})
            if state.get("enabled") is False:
                return (
                    f"Codex has the hook on {event} switched off: {DO.replace('trust', 'enable')}"
                )
            if state.get("trusted_hash") != hash_hook(event, group, hook):
                return f"Codex silently skips hooks that you have not trusted: {DO}"
    except (OSError, ValueError, AttributeError, TypeError):
        return None
    return None


def _list_hooks(hooks: Any, words: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield the hooks with these words: event, place, group and the hook itself."""
    for event, groups in hooks.items():
        for number, group in enumerate(groups or []):
            for index, hook in enumerate(group.get("hooks") or []):
                if words in str(hook.get("command", "")):
                    yield event, f"{number}:{index}", group, hook


def hash_hook(event: str, group: dict[str, Any], hook: dict[str, Any]) -> str:
    """Return the hash of a hook that Codex keeps when it is trusted."""
    own = {"async": False, **hook, "timeout": max(int(hook.get("timeout", 600)), 1)}
    # Codex gives the events of prompts no matcher
    has_matcher = group.get("matcher") is not None and event != "UserPromptSubmit"
    matcher = {"matcher": group["matcher"]} if has_matcher else {}
    identity = {"event_name": _name_event(event), **matcher, "hooks": [own]}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _name_event(event: str) -> str:
    """Return an event as Codex writes it in places.

    >>> _name_event("UserPromptSubmit")
    'user_prompt_submit'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
