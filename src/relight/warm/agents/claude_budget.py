"""Claude Code's hook on prompts and tool calls: stops it when a budget is used up."""

from pathlib import Path
from typing import Any

import msgspec

from relight.config import find_home, read_config
from relight.reports.budgets import find_stop
from relight.store import open_reader
from relight.warm.agents.status_line import start_refresh

PROMPT = "UserPromptSubmit"


class _EventInput(msgspec.Struct):
    """The parts of Claude Code's input to the hook that matter here."""

    hook_event_name: str = ""
    cwd: str | None = None


def answer_event(
    given: bytes, *, source: str = "claude-code", home: str | Path | None = None
) -> str | None:
    """Return Claude Code's decision to stop, as JSON; None if it may go on.

    It reads the record as it is. If the last import is some seconds old, it starts another one.
    """
    try:
        event = msgspec.json.decode(given, type=_EventInput)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    config = read_config(find_home(home))
    if not config.has_store:
        return None
    start_refresh(str(config.home))
    with open_reader(config) as store:
        reason = find_stop(store, source=source, project=event.cwd)
    if reason is None:
        return None
    decision: dict[str, Any] = {"decision": "block", "reason": reason}
    if event.hook_event_name != PROMPT:
        # the call is refused, and no other is tried, which would cost again
        refused = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        specific = {"hookEventName": event.hook_event_name, **refused}
        decision = {"continue": False, "stopReason": reason, "hookSpecificOutput": specific}
    return msgspec.json.encode(decision).decode()
