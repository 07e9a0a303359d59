"""Builders of sessions that stumble over a standing cause of their project."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import build

MISSING = "bash: line 1: python: command not found"
Line = tuple[str, str, int]
HIT: tuple[Line, ...] = (("python run.py", MISSING, 127), ("python3 run.py", "ok", 0))
SPARED: tuple[Line, ...] = (("python3 run.py", "ok", 0),)


def write_session(home: Path, number: int, lines: Sequence[Line] = HIT, **fields: Any) -> Path:
    """A session of Claude Code, one a day, that runs these commands: line, output, exit code."""
    key = f"{number:08d}-aaaa-4aaa-8aaa-111111111111"
    at = number * 86_400.0
    own = {"sessionId": key, **fields}
    records = [build.claude_prompt(f"Task {number}", at=at, uuid=f"u{number}", **own)]
    for step, (line, out, code) in enumerate(lines):
        name = f"toolu_{number}_{step}"
        use = build.tool_use(name, command=line)
        text = f"Exit code {code}\n{out}" if code else out
        answered = build.claude_answer(
            f"m{number}_{step}", use, at=at + 2 * step + 1, stop="tool_use", **own
        )
        records += [
            answered,
            build.claude_result(name, text, at=at + 2 * step + 2, is_error=bool(code), **own),
        ]
    records.append(build.claude_answer(f"m{number}_end", at=at + 2 * len(lines) + 1, **own))
    return build.write_claude(home, records, name=key)
