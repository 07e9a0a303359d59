"""Claude Code's part of a bulk tree."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from bench.tree_text import PROJECTS, QUOTED, BulkText
from relight.cli.demo.claude_transcript import (
    HAIKU,
    NEW_VERSION,
    OPUS,
    SONNET,
    ClaudeTranscript,
    Record,
)
from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.metering import MeteredCall
from relight.cli.demo.story import HOME

# the sessions of a tree in turn; the hard cases come first, so that small trees have them too
KINDS = (
    *("partial", "delegate", "fork", "error", "truncated", "plain"),
    *("partial", "delegate", "plain", "partial", "delegate", "plain"),
)
FORKED_LINES = 250  # longer sessions are not forked


class BulkTranscript(ClaudeTranscript):
    """A transcript with the client's records of its requests, which hold no usage."""

    def respond(self, blocks: Sequence[Record], *, stop: str) -> None:
        params = {"model": self.model, "max_tokens": 128_000, "thinking": {"type": "adaptive"}}
        tail = [self.dice.hex_id(64) for _ in range(self.dice.randint(1, 6))]
        self._add_request("api-request", params=params, tail=tail)
        super().respond(blocks, stop=stop)

    def attach(self, kind: str, **content: object) -> None:
        """Add an attachment, such as the system prompt or the list of skills."""
        self.add_line({"attachment": {"type": kind, **content}, "type": "attachment"})

    def open(self, text: BulkText) -> None:
        """Write what a session begins with: environment, skills, system prompt, tools."""
        self.attach("environment", snapshot={"workingDirectory": self.cwd, "platform": "linux"})
        self.attach("skill_listing", content=text.pool[:12_500])
        self.attach("prompt_snapshot", systemPrompt=[text.pool[:6_000]])
        shape = {"system": [{"type": "text", "text": text.pool[:33_000]}]}
        self._add_request("api-request-shape", shape=shape)

    def _add_request(self, kind: str, **content: object) -> None:
        here = {"sessionId": self.session, "timestamp": self.clock.text, "version": self.version}
        shape = {"shapeHash": self.dice.hex_id(64)}
        self.records.append({"type": kind, **here, **shape, **content})


class ClaudeTree:
    """Writes sessions of Claude Code, and counts what makes them hard."""

    def __init__(self, folder: Path, dice: Dice, text: BulkText, counts: Counter[str]) -> None:
        self.root = folder / ".claude" / "projects"
        self.dice = dice
        self.text = text
        self.counts = counts
        self.forkable: list[BulkTranscript] = []

    def write_session(self, at: datetime) -> list[MeteredCall]:
        """Write the files of one session, and return its model calls."""
        dice, text = self.dice, self.text
        kind = KINDS[self.counts["sessions"] % len(KINDS)]
        if kind == "fork" and self.forkable:
            session = self._fork(at)
        else:
            session = BulkTranscript(
                dice,
                Clock(at),
                session=dice.uuid(),
                cwd=f"{HOME}/src/{dice.choice(PROJECTS)}",
                model=dice.choices((OPUS, SONNET, HAIKU), (40, 40, 20))[0],
                version=NEW_VERSION,
            )
            session.open(text)
        session.is_partial = kind == "partial"
        responses = min(400, 2 + int(dice.lognormvariate(2.9, 0.95)))
        for number, task in enumerate(text.invent_tasks(responses, with_skill=True)):
            session.play(task)
            if kind == "error" and number == 0:
                session.fail(529, "overloaded_error")
                self.counts["api_error_lines"] += 1
            session.clock.wait(dice.lognormvariate(4.2, 1.2))
        for _ in range(dice.randint(1, 4) if kind == "delegate" else 0):
            session.take(text.invent_delegation())
        session.attach("prompt_snapshot", systemPrompt=[text.pool[:48_000]])
        self._write_files(session, is_truncated=kind == "truncated")
        self.counts["sessions"] += 1
        if len(session.records) < FORKED_LINES and kind != "fork":
            self.forkable = [*self.forkable[-20:], session]
        return session.calls

    def grow(self, at: datetime, responses: int) -> tuple[Path, list[MeteredCall]]:
        """Add a prompt with so many responses to the session with the last name."""
        path = max(self.root.glob("*/*.jsonl"), key=lambda one: one.name)
        whole = path.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]  # without a truncated line
        last = next(
            line for line in map(json.loads, reversed(whole.splitlines())) if "uuid" in line
        )
        session = BulkTranscript(
            self.dice,
            Clock(at),
            session=path.stem,
            cwd=last["cwd"],
            model=OPUS,
            version=NEW_VERSION,
        )
        session.parent = last["uuid"]
        session.play(self.text.invent_task(responses))
        path.write_bytes(whole + _encode(session.records))
        return path, session.calls

    def _fork(self, at: datetime) -> BulkTranscript:
        parent = self.dice.choice(self.forkable)
        session = parent.fork()
        assert isinstance(session, BulkTranscript)
        session.clock = Clock(max(at, parent.clock.now + timedelta(minutes=1)))
        session.meter.clock = session.clock
        self.counts["forks"] += 1
        self.counts["forked_lines"] += len(session.records)
        return session

    def _write_files(self, session: ClaudeTranscript, *, is_truncated: bool) -> None:
        path = self.root / session.cwd.replace("/", "-") / f"{session.session}.jsonl"
        data = _encode(session.records)
        if is_truncated:
            last = _encode(session.records[-1:])
            data += last[: len(last) // 2]
            self.counts["truncated_files"] += 1
        self._write_file(path, data, session.records)
        for agent, _ in session.agents:
            name = f"agent-{agent.agent}.jsonl"
            inner = _encode(agent.records)
            self._write_file(path.with_suffix("") / "subagents" / name, inner, agent.records)
            self.counts["subagent_files"] += 1

    def _write_file(self, path: Path, data: bytes, records: Sequence[Record]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        messages = [one["message"] for one in records if one["type"] == "assistant"]
        calls = {message["id"]: message for message in messages}
        self.counts.update(
            files=1,
            bytes=len(data),
            lines=len(records),
            assistant_lines=len(messages),
            repeated_lines=len(messages) - len(calls),
            partial_lines=sum(message["stop_reason"] is None for message in messages),
            quoted_results=data.count(QUOTED[:30].replace('"', '\\"').encode()),
        )


def _encode(records: Sequence[Record]) -> bytes:
    dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return "".join(dumps(record) + "\n" for record in records).encode()
