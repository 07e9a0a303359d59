"""Sessions to be shown that a demo does not have: one that began just now, one that is hostile."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HOSTILE = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    "</pre></details>\x1b[31mred\x1b[2J\x07 \u202egnp.exe\u2066 \u200bhid\U000e0041den\x00"
)
LONG_LINE = "x" * 5_000_000


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
        "usage": {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960},
    }
    path.write_text(json.dumps(session) + "\n", encoding="utf-8")
    return path


def import_chat(home: Path, path: Path) -> None:
    """Read a chat file as a person would: by the command, in a separate process."""
    command = [sys.executable, "-m", "relight", "--home", str(home), "import"]
    subprocess.run(
        [*command, "--source", "chat", "--from", str(path)], check=True, capture_output=True
    )
