"""Builders of sessions that stumble over a standing cause of their project."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import build
import build_warm
from relight.reports.lessons import read_new
from relight.store import Store, open_store
from relight.store.queries.filters import Filter

MISSING = "bash: line 1: python: command not found"
Line = tuple[str, str, int]
HIT: tuple[Line, ...] = (("python run.py", MISSING, 127), ("python3 run.py", "ok", 0))
SPARED: tuple[Line, ...] = (("python3 run.py", "ok", 0),)


PROJECT = "/home/dev/shop"
EARLY_DAY = -2000


def open_taught(
    home: Path, *, hits: int = 3, hold_out: float = 0.0, project: str = PROJECT, settings: str = ""
) -> Store:
    """A store in which a project has a lesson; no session is held out from templates."""
    (home / "relight").mkdir(parents=True, exist_ok=True)
    (home / "relight" / "config.toml").write_text(
        f'timezone = "UTC"\n[templates]\nhold_out = 0\n[lessons]\nhold_out = {hold_out}\n{settings}'
    )
    for number in range(1, hits + 1):
        write_early(home, number, cwd=project)
    return take_sessions(open_store(home / "relight"), home)


def prepare_start(home: Path, task: str) -> None:
    """A store with a lesson for sessions in a folder, and a template for a task."""
    with open_taught(home, project=str(home)) as store:
        build_warm.capture(store, task, name="fix-rounding")


def take_sessions(store: Store, home: Path) -> Store:
    """Import what agents have written, and read all of it for lessons."""
    build.import_home(store, home)
    read_new(store, Filter())
    return store


def name_session(number: int) -> str:
    """The key of a session that `write_session` writes."""
    return f"{number:08d}-aaaa-4aaa-8aaa-111111111111"


def write_early(home: Path, number: int, lines: Sequence[Line] = HIT, **fields: Any) -> Path:
    """A session as `write_session` writes it, in a year that is over on every machine."""
    return write_session(home, number, lines, first_day=EARLY_DAY, **fields)


def write_session(
    home: Path, number: int, lines: Sequence[Line] = HIT, *, first_day: int = 0, **fields: Any
) -> Path:
    """A session of Claude Code, one a day, that runs these commands: line, output, exit code."""
    key = name_session(number)
    at = (first_day + number) * 86_400.0
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
