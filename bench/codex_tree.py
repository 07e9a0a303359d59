"""Codex' part of a bulk tree."""

import json
from collections import Counter
from copy import copy
from datetime import datetime, timedelta
from pathlib import Path

from bench.tree_text import PROJECTS, BulkText
from relight.cli.demo.codex import (
    LARGE,
    SMALL,
    VERSION,
    Record,
    Request,
    Rollout,
)
from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.metering import MeteredCall, TokenUse
from relight.cli.demo.story import HOME, StoryStep

# the sessions of a tree in turn; the hard cases come first, so that small trees have them too
KINDS = ("resumed", "old", "plain", "fork", "replay", "plain", "plain", "plain")
OLD_VERSION, OLDEST_VERSION = "0.117.0", "0.53.0"
VERSIONS = {"resumed": OLDEST_VERSION, "old": OLD_VERSION, "replay": OLD_VERSION}
_STAMP_BYTES = len('{"timestamp":"2026-11-15T03:12:00.000Z"')


class OldRollout(Rollout):
    """A rollout of Codex 0.117 or 0.53: no ordinals, usage only as running totals, twice each."""

    def _record_usage(self, usage: TokenUse) -> None:
        self._count()

    def _complete(self, item: Record, *, started_ms: int | None = None) -> None:
        kinds = {"UserMessage": "user_message", "AgentMessage": "agent_message"}
        if item["type"] in kinds:
            self._event(kinds[item["type"]], message=item["content"][0]["text"])

    def _event(self, kind: str, **payload: object) -> None:
        if self.version != OLDEST_VERSION or not kind.startswith("task_"):
            super()._event(kind, **payload)

    def _format_output(self, asked: Request, step: StoryStep) -> str:
        if self.version != OLDEST_VERSION:
            return super()._format_output(asked, step)
        metadata = {"exit_code": asked.exit, "duration_seconds": round(step.seconds, 1)}
        return json.dumps({"output": asked.out, "metadata": metadata})

    def _add(self, kind: str, payload: Record) -> None:
        self._write({"timestamp": self.clock.text, "type": kind, "payload": payload})


class CodexTree:
    """Writes rollouts of Codex, and counts what makes them hard."""

    def __init__(self, folder: Path, dice: Dice, text: BulkText, counts: Counter[str]) -> None:
        self.root = folder / ".codex" / "sessions"
        self.dice = dice
        self.text = text
        self.counts = counts
        self.parents: dict[str, list[Rollout]] = {"fork": [], "replay": []}

    def write_session(self, at: datetime) -> list[MeteredCall]:
        """Write the rollout of one session, and return its model calls."""
        dice = self.dice
        kind = KINDS[self.counts["sessions"] % len(KINDS)]
        if kind in self.parents and not self.parents[kind]:
            kind = "plain"
        parent = dice.choice(self.parents[kind]) if kind in self.parents else None
        if parent:
            at = max(at, parent.clock.now + timedelta(seconds=5))
        rollout = self._open(at, kind, parent)
        turns = 1 + (kind == "resumed") + int(dice.expovariate(1 / 2.5))
        if kind == "old":
            turns = 1  # short, since sub-agents replay it
        for number in range(turns):
            if number and kind == "resumed":
                rollout.total = TokenUse()
                self.counts["total_resets"] += 1
            rollout.play(self.text.invent_task(min(60, 1 + int(dice.lognormvariate(2.0, 0.8)))))
            rollout.clock.wait(dice.lognormvariate(4.2, 1.2))
        if kind == "plain":
            self.parents["fork"].append(rollout)
        elif kind == "old":
            self.parents["replay"].append(rollout)
        name = f"rollout-{at:%Y-%m-%dT%H-%M-%S}-{rollout.session}.jsonl"
        path = self.root / at.strftime("%Y/%m/%d") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        size = path.write_bytes(b"".join(rollout.lines))
        self.counts.update(sessions=1, files=1, lines=len(rollout.lines), bytes=size)
        return rollout.calls

    def grow(self, at: datetime, responses: int) -> tuple[Path, list[MeteredCall]]:
        """Add a prompt with so many responses to the newest rollout of the newest version."""
        for path in sorted(self.root.rglob("rollout-*.jsonl"), reverse=True):
            lines = path.read_bytes().splitlines()
            meta = json.loads(lines[0])["payload"]
            if meta["cli_version"] == VERSION:
                break
        spent = (json.loads(line) for line in reversed(lines) if b'"token_usage_record"' in line)
        rollout = Rollout(self.dice, Clock(at), session=meta["id"], cwd=meta["cwd"], model=LARGE)
        rollout.lines.clear()
        rollout.ordinal = len(lines)
        rollout.total = _read_usage(next(spent)["payload"]["thread_token_usage"])
        rollout.play(self.text.invent_task(responses))
        with path.open("ab") as file:
            file.writelines(rollout.lines)
        return path, rollout.calls

    def _open(self, at: datetime, kind: str, parent: Rollout | None) -> Rollout:
        """Return a rollout with its first records; a fork or a replay continues its parent."""
        meta: Record = {"base_instructions": {"text": self.text.pool[:20_000]}}
        if parent:
            meta["forked_from_id"] = parent.session
        if kind == "fork":
            meta["history_mode"] = "paginated"
        elif parent:
            spawned = {"parent_thread_id": parent.session, "depth": 1}
            meta["source"] = {"subagent": {"thread_spawn": spawned}}
        form = OldRollout if kind in VERSIONS else Rollout
        rollout = form(
            self.dice,
            Clock(at),
            session=self.dice.uuid7(at),
            cwd=f"{HOME}/src/{self.dice.choice(PROJECTS)}",
            model=self.dice.choices((LARGE, SMALL), (7, 3))[0],
            version=VERSIONS.get(kind, VERSION),
            meta=meta,
        )
        if parent:
            rollout.total = parent.total
            self.counts[{"fork": "forks", "replay": "replays"}[kind]] += 1
        if parent and kind == "replay":
            self._replay(rollout, parent)
        return rollout

    def _replay(self, rollout: Rollout, parent: Rollout) -> None:
        """Copy the parent's records, stamped with the time of the copy."""
        rollout.clock.wait(0.02)
        stamp = f'{{"timestamp":"{rollout.clock.text}"'.encode()
        rollout.lines += [stamp + line[_STAMP_BYTES:] for line in parent.lines]
        self.counts["replayed_lines"] += len(parent.lines)
        rollout.clock.wait(0.02)
        rollout.meter = copy(parent.meter)
        rollout.meter.clock = rollout.clock


def _read_usage(total: dict[str, int]) -> TokenUse:
    read = total["cached_input_tokens"]
    return TokenUse(
        fresh=total["input_tokens"] - read,
        read=read,
        output=total["output_tokens"],
        thinking=total["reasoning_output_tokens"],
    )
