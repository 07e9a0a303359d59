"""Builders for warm starts: good sessions, templates, provisions and what followed them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import build_messages as say
from relight.store import Store, open_store
from relight.warm.capture import capture_template
from relight.warm.library import Template
from relight.warm.plans import begin_first_plan

TOOLS = ("pytest", "ruff", "mypy", "invoice")


def open_warm(folder: Path, *, hold_out: float = 0.2, live: int = 5) -> Store:
    home = folder / "relight"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        f'timezone = "UTC"\n[templates]\nhold_out = {hold_out}\nmax_live_per_category = {live}\n'
    )
    return open_store(home)


def session(task: str, programs: Sequence[str] = TOOLS, *, tool: str = "bash") -> list[Any]:
    """A session that passes the gate: twelve calls that work, and an answer."""
    messages = [{"role": "system", "content": say.POLICY}, say.user(task)]
    for number in range(12):
        program = programs[number % len(programs)]
        output = f"{program} step {number}: all is well"
        command = f"{program} --step {number} src/{program}.py"
        messages += say.act(f"call_{number}", tool, output, command=command)
    return [*messages, say.assistant(f"Done: {task}")]


def capture(store: Store, task: str, programs: Sequence[str] = TOOLS, **facts: Any) -> Template:
    told = {"outcome": "success", "messages": session(task, programs), **facts}
    return capture_template(store, "told:1", **told)


def add_session(store: Store, key: str, outcome: str | None, *, labels: Sequence[str] = ()) -> None:
    """A recorded session with an outcome and judged calls, as an import would leave it."""
    from relight.model import row_id

    found = row_id("session", "chat", key)
    with store.transaction() as database:
        database.execute(
            "insert into session (id, source, key, root_id, outcome, started_at, ended_at)"
            " values (?, 'chat', ?, ?, ?, 1000, 61000)",
            (found, key, found, outcome),
        )
        database.executemany(
            "insert into tool_call (id, session_id, at, finished_at, tool, fingerprint, label)"
            " values (?, ?, ?, ?, 'bash', ?, ?)",
            [
                (row_id("call", key, str(n)), found, 2000 + n, 2500 + n, n, label)
                for n, label in enumerate(labels)
            ],
        )


def add_provision(
    store: Store, key: str, arm: str, template: Template | None, *, at: int = 1
) -> None:
    if template is not None:
        begin_first_plan(store, now=at)
    with store.transaction() as database:
        database.execute(
            "insert into provision (id, session_key, arm, template_id, version, reason, created_at)"
            " values (?, ?, ?, ?, ?, '', ?)",
            (
                f"p-{key}",
                key,
                arm,
                template.id if template else None,
                template.version if template else None,
                at,
            ),
        )
