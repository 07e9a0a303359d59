"""Sessions to be shown that a demo does not have: one that began just now, one that is hostile."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from terminal import run_relight

HOSTILE = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    "</pre></details>\x1b[31mred\x1b[2J\x07 \u202egnp.exe\u2066 \u200bhid\U000e0041den\x00"
)
LONG_LINE = "x" * 5_000_000
USAGE = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}


def write_chat(path: Path, *, key: str, title: str, result: str = "done") -> Path:
    """A file with one session that began just now: a prompt, a call with its result, an answer."""
    function = {"name": "terminal", "arguments": json.dumps({"command": "cat notes"})}
    call = {"id": "call_1", "type": "function", "function": function}
    session = {
        "id": key,
        "model": "claude-haiku-4-5",
        "provider": "anthropic",
        "project": "/home/kim/src/shop-api",
        "started_at": datetime.now(UTC).isoformat(),
        "messages": [
            {"role": "user", "content": title},
            {"role": "assistant", "content": "I'll look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": result},
            {"role": "assistant", "content": "There it is."},
        ],
        "usage": USAGE,
    }
    path.write_text(json.dumps(session) + "\n", encoding="utf-8")
    return path


def import_chat(home: Path, path: Path) -> None:
    """Read a chat file as a person would: by the command, in a separate process."""
    words = ["--home", str(home), "import", "--source", "chat", "--from", str(path)]
    done = run_relight(os.environ, *words)
    assert done.returncode == 0, done.stderr


Message = dict[str, Any]


def make_call(number: int, tool: str, arguments: object, result: str = "done") -> list[Message]:
    """A message that makes one call, and the message with its result."""
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": tool, "arguments": given}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
    ]


def write_messages(
    path: Path,
    *,
    key: str,
    messages: Sequence[Message],
    usage: dict[str, int] | None = USAGE,
) -> Path:
    """A file with one session of these messages that began just now."""
    session = {
        "id": key,
        "model": "claude-haiku-4-5",
        "project": "/home/kim/src/shop-api",
        "started_at": datetime.now(UTC).isoformat(),
        "messages": list(messages),
        "usage": usage,
    }
    path.write_text(json.dumps(session) + "\n", encoding="utf-8")
    return path


def make_long_messages(prompts: int) -> list[Message]:
    """Prompts with an answer and nine calls each, the last of which fails."""
    messages: list[Message] = []
    for prompt in range(prompts):
        messages.append({"role": "user", "content": f"Task number {prompt + 1}"})
        for call in range(9):
            number = prompt * 9 + call
            failed = json.dumps({"output": f"secretword{number}", "exit_code": 1, "error": "no"})
            result = failed if call == 8 else f"all is well {number}"
            messages += make_call(number, "terminal", {"command": f"step-{number}"}, result)
        messages.append({"role": "assistant", "content": f"Part {prompt + 1} is **done**."})
    return messages
