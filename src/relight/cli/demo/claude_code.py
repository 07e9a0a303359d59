"""Claude Code's `projects` folder: a month of sessions, some of them odd."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from relight.cli.demo.claude_transcript import (
    HAIKU,
    NEW_VERSION,
    OLD_VERSION,
    OPUS,
    SONNET,
    ClaudeTranscript,
    Record,
    write_total,
)
from relight.cli.demo.dice import Clock, Dice
from relight.cli.demo.story import Stories, StoryTask, find_arm

# the odd ones, one in four of the latest sessions
ODD = ("compact", "unreadable", "fork", "secret", "overload", "spiral")
CLOSED_CHANCE = 0.7
DELEGATING_CHANCE = 0.5


def write_transcripts(
    home: Path, dice: Dice, stories: Stories, begun: Sequence[datetime], *, now: datetime
) -> None:
    """Write a session for each moment, and one that is still running."""
    places = range(len(begun) - 4 * len(ODD), len(begun), 4)
    odd = dict(zip(places, ODD, strict=True))
    for number, at in enumerate(begun):
        oddity, name = odd.get(number, ""), dice.uuid()
        tasks = _choose_tasks(dice, stories, oddity, arm=find_arm(name))
        version = OLD_VERSION if number < len(begun) // 2 else NEW_VERSION
        for session in _hold_session(dice, Clock(at), name, tasks, version=version, oddity=oddity):
            _write_session(home, session, is_broken=oddity == "unreadable")
    _write_open_session(home, dice, stories.deal("billing"), now=now)


def _choose_tasks(dice: Dice, stories: Stories, oddity: str, *, arm: str) -> list[StoryTask]:
    if oddity == "secret":
        return [stories.make_task("planted-secret", "infra")]
    if oddity == "spiral":
        return [stories.make_task("locked-state", "infra")]
    project = stories.choose_project()
    count = 2 if oddity else dice.choices(range(1, 9), (1, 1, 2, 3, 4, 4, 3, 2))[0]
    may_delegate = not oddity and dice.is_lucky(DELEGATING_CHANCE)
    return stories.deal(project, count, may_delegate=may_delegate, arm=arm)


def _hold_session(
    dice: Dice, clock: Clock, name: str, tasks: Sequence[StoryTask], *, version: str, oddity: str
) -> Iterator[ClaudeTranscript]:
    """Yield one session, or two if it is forked."""
    started_ms = clock.milliseconds
    model = dice.choices((OPUS, SONNET, HAIKU), (72, 21, 7))[0]
    session = ClaudeTranscript(
        dice, clock, session=name, cwd=tasks[0].folder, model=model, version=version
    )
    for number, task in enumerate(tasks):
        if number:
            clock.wait(dice.choice((60, 240, 400, 800, 1_500)) * dice.uniform(0.6, 1.4))
        if number and oddity == "compact":
            session.compact()
        if number and oddity == "fork":
            yield _close(session, started_ms=started_ms)
            session = session.fork()
        if number and oddity == "overload":
            session.type_prompt("One more thing.")
            session.fail(529, "overloaded_error")
        session.play(task)
    if oddity or dice.is_lucky(CLOSED_CHANCE):
        _close(session, started_ms=started_ms)
    yield session


def _close(session: ClaudeTranscript, *, started_ms: int) -> ClaudeTranscript:
    """Add the client's totals, its last record: they include sub-agents, and forks inherit them."""
    usage = {model: write_total(model, used) for model, used in session.totals.items()}
    spent = session.clock.milliseconds - started_ms
    session.records += [
        {"type": "tools-used", "tools": session.tools, "sessionId": session.session},
        {
            "type": "cost-state",
            "sessionId": session.session,
            "totalCostUSD": sum(row["costUSD"] for row in usage.values()),
            "totalAPIDuration": spent * 2 // 5,
            "totalToolDuration": spent // 5,
            "totalLinesAdded": session.lines_added,
            "totalDuration": spent,
            "startTime": started_ms,
            "modelUsage": usage,
            "hasUnknownModelCost": False,
        },
    ]
    return session


def _write_session(home: Path, session: ClaudeTranscript, *, is_broken: bool) -> None:
    lines = [_encode(record) + b"\n" for record in session.records]
    if is_broken:  # the machine went down while a line was being written
        half = b'{"type":"last-prompt","lastPrompt":"and then","leafUuid":"\n'
        lines.insert(len(lines) // 2, half)
    path = _find_path(home, session)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    folder = path.with_suffix("") / "subagents"
    for agent, meta in session.agents:
        folder.mkdir(parents=True, exist_ok=True)
        lines = [_encode(record) + b"\n" for record in agent.records]
        (folder / f"agent-{agent.agent}.jsonl").write_bytes(b"".join(lines))
        (folder / f"agent-{agent.agent}.meta.json").write_bytes(_encode(meta))


def _write_open_session(home: Path, dice: Dice, tasks: list[StoryTask], *, now: datetime) -> None:
    """Write a session that is still running: its last line is incomplete."""
    clock = Clock(now - timedelta(seconds=150))
    (session,) = _hold_session(dice, clock, dice.uuid(), tasks, version=NEW_VERSION, oddity="")
    until = Clock(now).text
    lines = [_encode(line) for line in session.records if line.get("timestamp", "z") <= until]
    path = _find_path(home, session)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join([*lines[:-1], lines[-1][: len(lines[-1]) // 2]]))


def _find_path(home: Path, session: ClaudeTranscript) -> Path:
    folder = home / "projects" / session.cwd.replace("/", "-")
    return folder / f"{session.session}.jsonl"


def _encode(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
