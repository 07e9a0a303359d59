"""Claude Code sessions against a simulated prompt cache, with every rebuild known.

The cache is simulated as a provider keeps it: an entry for each prefix of a prompt and model, which
lives five minutes or an hour and is renewed by each read. Sessions pause, switch the model, compact
their context, change an early part of it, fork, and start sub-agents; an agent's prefix is its own.
The truth comes from the simulated prompts and not from the token counts that transcripts hold. The
same seed writes the same bytes.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from relight.times import write_time

START_MS = 1_793_520_000_000  # 2026-11-01T08:00:00Z
FIVE_MINUTES, HOUR = 300.0, 3600.0
# a record has the times of responses, and a cache entry lives from its request on
MARGIN = 90.0
SYSTEM = 18_000
# dollars for a million tokens: input, read, write for five minutes, write for an hour
PRICES = {
    "claude-opus-4-6": (5.0, 0.5, 6.25, 10.0),
    "claude-haiku-4-5": (1.0, 0.1, 1.25, 2.0),
}
OPUS, HAIKU = PRICES
EVENTS = ("pause", "model_switch", "compaction", "prefix_changed", "short_wait", "nothing")


class Segment(Struct, frozen=True):
    """A part of a prompt: equal names are equal texts."""

    name: str
    tokens: int


class PlantedRebuild(Struct, frozen=True):
    """A rebuild that the simulation knows of."""

    session: str
    at_ms: int
    cause: str
    tokens: int
    usd: float
    avoidable_usd: float


class SimulatedCache:
    """Prefixes of prompts by model, with the moment that each expires at."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, tuple[str, ...]], tuple[float, float]] = {}

    def ask(self, model: str, prompt: Sequence[Segment], at: float, life: float) -> tuple[int, int]:
        """Return how many segments are read from the cache and how many are written."""
        names = tuple(one.name for one in prompt)
        found = 0
        for length in range(1, len(names) + 1):
            entry = self._entries.get((model, names[:length]))
            if entry is not None and entry[0] >= at:
                found = length
        for length in range(1, len(names) + 1):
            key = (model, names[:length])
            lives = self._entries[key][1] if length <= found and key in self._entries else life
            self._entries[key] = (at + lives, lives)
        return found, len(names) - found


class Agent:
    """One conversation with its own prefix: a session, a fork of it, or a sub-agent."""

    def __init__(
        self, world: "CacheTree", session: str, *, model: str, life: float, agent: str = ""
    ) -> None:
        self.world, self.session, self.agent = world, session, agent
        self.model, self.life = model, life
        self.prompt = [Segment(f"system {agent and 'of agents'}", SYSTEM)]
        self.cached: list[Segment] = []
        self.lines: list[dict[str, Any]] = []
        self.answered_at = 0.0

    @property
    def name(self) -> str:
        return f"claude-code:{self.session}" + (f"/{self.agent}" if self.agent else "")

    def say(self, tokens: int) -> None:
        """Add a person's prompt, or a tool's result."""
        self.prompt.append(Segment(self.world.make_name(), tokens))
        self._add("user", message={"role": "user", "content": "go on"})

    def respond(self, cause: str | None = None) -> None:
        """Make a model call; `cause` is what happened since the last one."""
        world = self.world
        asked_at = world.now
        found, _ = world.cache.ask(self.model, self.prompt, asked_at, self.life)
        read = sum(one.tokens for one in self.prompt[:found])
        written = sum(one.tokens for one in self.prompt[found:])
        world.now += world.dice.uniform(1, 15)
        output = world.dice.randint(50, 900)
        self._note(cause, self.prompt[found:], written)
        creation = {
            "ephemeral_5m_input_tokens": 0 if self.life == HOUR else written,
            "ephemeral_1h_input_tokens": written if self.life == HOUR else 0,
        }
        usage = {
            "input_tokens": world.dice.randint(1, 8),
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "cache_creation": creation,
            "output_tokens": output,
        }
        name = f"msg_{world.make_name()}"
        message = {
            "id": name,
            "role": "assistant",
            "model": self.model,
            "content": [{"type": "text", "text": "Done."}],
            "stop_reason": "end_turn",
            "usage": usage,
        }
        self._add("assistant", message=message, requestId=f"req_{name}")
        self.cached, self.answered_at = list(self.prompt), world.now
        self.prompt.append(Segment(world.make_name(), output))

    def compact(self) -> None:
        """Replace the conversation by a summary."""
        tokens = self.world.dice.randint(2_000, 9_000)
        self.prompt = [self.prompt[0], Segment(self.world.make_name(), tokens)]
        message = {"role": "user", "content": "A summary of what was said."}
        self._add("user", message=message, isCompactSummary=True)

    def change_prefix(self) -> None:
        """Change a small early part, such as a date or a list of tools."""
        place = self.world.dice.randrange(1, max(len(self.prompt) // 2, 2))
        self.prompt.insert(place, Segment(self.world.make_name(), 12))

    def _note(self, cause: str | None, written: Sequence[Segment], tokens: int) -> None:
        """Note a rebuild: what was cached for this agent and was written again."""
        before = {one.name for one in self.cached}
        again = sum(one.tokens for one in written if one.name in before)
        if cause == "compaction":  # the summary stands for what was lost, as far as it goes
            kept = {one.name for one in self.prompt} - {one.name for one in written}
            lost = sum(one.tokens for one in self.cached if one.name not in kept)
            again = min(tokens, lost)
        if not again or cause is None:
            assert not again, "nothing happened, and yet the cache was lost"
            return
        _, read, short, long = PRICES[self.model]
        price = long if self.life == HOUR else short
        is_short = cause == "pause" and self.world.now - self.answered_at <= HOUR
        self.world.planted.append(
            PlantedRebuild(
                session=self.name,
                at_ms=self.world.now_ms,
                cause=cause,
                tokens=again,
                usd=again * price / 1e6,
                avoidable_usd=again * (price - read) / 1e6 if is_short else 0.0,
            )
        )

    def _add(self, kind: str, **fields: Any) -> None:
        line = {
            "type": kind,
            "sessionId": self.session,
            "uuid": self.world.make_name(),
            "timestamp": write_time(self.world.now_ms),
            "cwd": "/home/dev/shop",
            "version": "2.1.325",
            "isSidechain": bool(self.agent),
            **fields,
        }
        self.lines.append(line | ({"agentId": self.agent} if self.agent else {}))


class CacheTree:
    """Writes sessions one after another, and collects the truth about their rebuilds."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder / ".claude" / "projects" / "-home-dev-shop"
        self.dice = random.Random(seed)
        self.cache = SimulatedCache()
        self.now = 0.0
        self.planted: list[PlantedRebuild] = []
        self._names = 0

    @property
    def now_ms(self) -> int:
        return START_MS + round(self.now * 1000)

    def make_name(self) -> str:
        self._names += 1
        return f"{self._names:06}"

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def write_session(self) -> None:
        """Write a session, and sometimes a sub-agent of it and a fork."""
        dice = self.dice
        life = dice.choice((FIVE_MINUTES, FIVE_MINUTES, HOUR))
        session = f"{self.make_name()}-aaaa-4aaa-8aaa-{dice.getrandbits(48):012x}"
        main = Agent(self, session, model=dice.choice((OPUS, HAIKU)), life=life)
        for _ in range(dice.randint(3, 8)):
            main.say(dice.randint(200, 6_000))
            main.respond()
            self.wait(dice.uniform(2, 60))
        for _ in range(dice.randint(2, 9)):
            self._play(main, dice.choice(EVENTS))
        self._write(main)
        if dice.random() < 0.4:
            self._fork(main)
        self.wait(dice.uniform(2 * HOUR, 9 * HOUR))

    def _play(self, agent: Agent, event: str) -> None:
        dice, cause = self.dice, None
        self.wait(dice.uniform(2, 60))
        if event == "pause":
            cause = self._pause(agent)
        elif event == "short_wait":
            self.wait(dice.uniform(30, agent.life - 230))
        elif event == "model_switch":
            agent.model = HAIKU if agent.model == OPUS else OPUS
            cause = event
        elif event == "compaction":
            agent.compact()
            cause = event
        elif event == "prefix_changed":
            agent.change_prefix()
            cause = event
        if not agent.agent and dice.random() < 0.3 and event == "nothing":
            self._delegate(agent)
        agent.say(dice.randint(100, 3_000))
        agent.respond(cause)
        for _ in range(dice.randint(0, 3)):
            self.wait(dice.uniform(2, 60))
            agent.say(dice.randint(100, 3_000))
            agent.respond()

    def _pause(self, agent: Agent) -> str:
        """Wait longer than the cache lives."""
        dice, least = self.dice, agent.life + MARGIN
        longest = HOUR - MARGIN if agent.life < HOUR and dice.random() < 0.7 else 8 * HOUR
        if agent.life < HOUR < longest:
            least = HOUR + MARGIN
        self.wait(dice.uniform(least, longest))
        if dice.random() < 0.5:  # another session keeps the system prompt warm
            self.cache.ask(agent.model, agent.prompt[:1], self.now, agent.life)
        return "pause"

    def _delegate(self, parent: Agent) -> None:
        """A sub-agent works between two turns of its parent, which loses nothing by it."""
        dice = self.dice
        name = f"{dice.getrandbits(32):08x}"
        child = Agent(self, parent.session, model=HAIKU, life=FIVE_MINUTES, agent=name)
        for _ in range(dice.randint(2, 4)):
            child.say(dice.randint(100, 2_000))
            child.respond()
            self.wait(dice.uniform(1, 10))
        self._write(child)

    def _fork(self, parent: Agent) -> None:
        """A fork copies all lines of its parent and goes on after a pause."""
        session = f"{self.make_name()}-bbbb-4bbb-8bbb-{self.dice.getrandbits(48):012x}"
        fork = Agent(self, session, model=parent.model, life=parent.life)
        fork.prompt, fork.cached = list(parent.prompt), list(parent.cached)
        fork.answered_at = parent.answered_at
        fork.lines = [{**line, "sessionId": session} for line in parent.lines]
        cause = self._pause(fork)
        fork.say(300)
        fork.respond(cause)
        self._play(fork, "nothing")
        self._write(fork)

    def _write(self, agent: Agent) -> None:
        path = self.folder / f"{agent.session}.jsonl"
        if agent.agent:
            path = self.folder / agent.session / "subagents" / f"agent-{agent.agent}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in agent.lines))


def write_cache_tree(folder: Path, *, seed: int, sessions: int = 40) -> list[PlantedRebuild]:
    """Write sessions below a home folder; return every rebuild in them."""
    tree = CacheTree(folder, seed)
    for _ in range(sessions):
        tree.write_session()
    return tree.planted
