"""Builders: a mixture of agents, its scripted models, and a store that traces them."""

from pathlib import Path
from typing import Any

from relight.store import Store, open_store
from scripted import Reply, call

ADVICE = "Look at the log first."


def script(body: dict[str, Any]) -> Reply:
    """Advisers advise; the acting model acts."""
    if body["model"].startswith("adviser"):
        return Reply(f"{ADVICE} ({body['model']})")
    return Reply("I will look.", [call("terminal", command="tail log")] if "tools" in body else ())


def preset(url: str, *, advisers: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "name": "review",
        "references": [
            {"model": f"adviser-{n}", "base_url": url, "temperature": 0.6, "attempts": 1}
            for n in range(advisers)
        ],
        "aggregator": {"model": "actor", "base_url": url, "attempts": 1},
        **changes,
    }


def open_traced(folder: Path, *, is_traced: bool = True) -> Store:
    home = folder / "relight"
    home.mkdir(parents=True, exist_ok=True)
    traced = str(is_traced).lower()
    (home / "config.toml").write_text(f'timezone = "UTC"\n[moa]\nsave_traces = {traced}\n')
    return open_store(home)
