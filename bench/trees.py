"""Large trees of Claude Code and Codex sessions with exact ground truth, for tests and benchmarks.

The record shapes are those of the demo's transcripts. The same seed and size write the same bytes:

    TREE/.claude/projects/<slug>/<session>.jsonl
    TREE/.claude/projects/<slug>/<session>/subagents/agent-*.jsonl
    TREE/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl
    TREE/truth.json      tokens per tool, UTC day and model, and counts of the hard cases

The trees are hard to read on purpose:

  * one response is several lines with the same message and request id; in partial sessions the
    early lines have a placeholder instead of the output tokens
  * forks copy all earlier lines under a new session id; sub-agents have
    separate files with the session id of their parent
  * cache writes are split into buckets of five minutes and one hour
  * API errors are messages of the model `<synthetic>`; the last line of a file may be truncated
  * tool results quote lines of transcripts
  * Codex 0.53 and 0.117 repeat each running total; totals restart from zero after a resume (0.53);
    sub-agents replay their parent's records (0.117); forks start at their parent's total without
    its records (0.166); usage records stand beside the totals (0.166)
"""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.claude_tree import ClaudeTree
from bench.codex_tree import CodexTree
from bench.tree_text import BulkText
from relight.cli.demo.dice import Dice
from relight.cli.demo.metering import MeteredCall, TokenUse

APPEND_POOL_CHARACTERS = 200_000


class Truth:
    """The exact tokens of a tree by tool, UTC day and model, and the number of each hard case."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, dict[str, Counter[str]]]] = {"claude": {}, "codex": {}}
        self.counts: dict[str, Counter[str]] = {"claude": Counter(), "codex": Counter()}

    def add(self, tool: str, calls: Iterable[MeteredCall]) -> None:
        """Count model calls on the UTC day of their first line."""
        for call in calls:
            models = self.cells[tool].setdefault(call.at[:10], {})
            figures = _count_claude(call.usage) if tool == "claude" else _count_codex(call.usage)
            models.setdefault(call.model, Counter()).update({"requests": 1, **figures})

    def as_json(self) -> dict[str, Any]:
        shown = {}
        for tool, days in self.cells.items():
            rows = {day: dict(sorted(models.items())) for day, models in sorted(days.items())}
            totals: Counter[str] = Counter()
            for models in rows.values():
                for cell in models.values():
                    totals.update(cell)
            counts = dict(sorted(self.counts[tool].items()))
            shown[tool] = {"totals": totals, "counts": counts, "days": rows}
        return shown

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Truth":
        truth = cls()
        for tool, days in truth.cells.items():
            for day, models in data[tool]["days"].items():
                days[day] = {model: Counter(cell) for model, cell in models.items()}
            truth.counts[tool].update(data[tool]["counts"])
        return truth


def _count_claude(usage: TokenUse) -> dict[str, int]:
    return {
        "input": usage.fresh,
        "output": usage.output,
        "cache_read": usage.read,
        "cache_write_5m": usage.write - usage.write_1h,
        "cache_write_1h": usage.write_1h,
    }


def _count_codex(usage: TokenUse) -> dict[str, int]:
    return {
        "input_total": usage.prompt,
        "cached_input": usage.read,
        "cache_write": usage.write,
        "output": usage.output,
        "reasoning": usage.thinking,
    }


def generate_tree(
    folder: Path,
    *,
    claude_mb: float,
    codex_mb: float,
    seed: int = 1,
    days: int = 45,
    end: str = "2026-11-01",
) -> None:
    """Write a new tree whose sessions spread over the days before `end`."""
    dice, truth = Dice(seed), Truth()
    text = BulkText(dice.branch("text"))
    first = datetime.strptime(end, "%Y-%m-%d").replace(tzinfo=UTC) - timedelta(days=days)
    claude = ClaudeTree(folder, dice.branch("claude"), text, truth.counts["claude"])
    codex = CodexTree(folder, dice.branch("codex"), text, truth.counts["codex"])
    for name, tree, megabytes in (("claude", claude, claude_mb), ("codex", codex, codex_mb)):
        while truth.counts[name]["bytes"] < megabytes * 1e6:
            hour = min(23.9, max(0.0, dice.gauss(15, 4)))  # some sessions cross midnight
            at = first + timedelta(days=dice.randrange(days), hours=hour)
            truth.add(name, tree.write_session(at.replace(microsecond=0)))
    _write_truth(folder, truth, {"seed": seed, "days": days, "end": end, "generation": 1})


def grow_tree(folder: Path, *, turns: int = 1) -> list[Path]:
    """Add a prompt with this many responses to one session of each tool; return their files."""
    data = json.loads((folder / "truth.json").read_text())
    facts = {name: data[name] for name in ("seed", "days", "end", "generation")}
    facts["generation"] += 1
    dice = Dice(data["seed"] * 1000 + facts["generation"])
    text, truth = BulkText(dice, APPEND_POOL_CHARACTERS), Truth.from_json(data)
    end = datetime.strptime(data["end"], "%Y-%m-%d").replace(tzinfo=UTC)
    at = end - timedelta(hours=1) + timedelta(minutes=facts["generation"])
    grown = []
    claude = ClaudeTree(folder, dice, text, truth.counts["claude"])
    codex = CodexTree(folder, dice, text, truth.counts["codex"])
    for name, tree in (("claude", claude), ("codex", codex)):
        path, calls = tree.grow(at, turns)
        truth.add(name, calls)
        grown.append(path)
    _write_truth(folder, truth, facts)
    return grown


def _write_truth(folder: Path, truth: Truth, facts: dict[str, Any]) -> None:
    text = json.dumps({**facts, **truth.as_json()}, indent=1)
    (folder / "truth.json").write_text(text + "\n")
