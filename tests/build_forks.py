"""A family of Claude Code sessions: forks, forks of forks and sub-agents, as the client writes."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import build
from build import claude_answer, claude_prompt, claude_result, tool_use
from relight.store import Store

Lines = list[dict[str, Any]]
PARENT = "99999999-aaaa-4aaa-8aaa-999999999999"
# smaller than its parent's, as half of all ids are
FORK = "00000000-bbbb-4bbb-8bbb-000000000000"
SECOND = "11111111-cccc-4ccc-8ccc-111111111111"
DEEP = "05555555-dddd-4ddd-8ddd-055555555555"
MARKS = ("queue-operation", "file-history-snapshot", "forkedFrom", None)


def talk(session: str, name: str, at: float) -> Lines:
    """A prompt with a call and an answer: two turns of one session."""
    call = tool_use(f"toolu_{name}", command=f"make {name}")
    lines = [
        claude_prompt(f"Please build {name}", at=at),
        claude_answer(f"msg_{name}_1", call, at=at + 1, stop="tool_use"),
        claude_result(f"toolu_{name}", "done", at=at + 2, is_error=False),
        claude_answer(f"msg_{name}_2", at=at + 3),
    ]
    return [line | {"sessionId": session} for line in lines]


def copy(lines: Iterable[Mapping[str, Any]], session: str, own: Lines, mark: str | None) -> Lines:
    """The file of a fork: a copy of these lines with its head or marks, and its own lines."""
    copied = [
        {**line, "sessionId": session} for line in lines if "message" in line and "uuid" in line
    ]
    at, name = own[0]["timestamp"], own[0]["uuid"]
    if mark == "forkedFrom":
        source = next(line["sessionId"] for line in lines if "message" in line)
        for line in copied:
            line["forkedFrom"] = {"sessionId": source, "messageUuid": line["uuid"]}
    heads: dict[str | None, Lines] = {
        "queue-operation": [
            {"type": "mode", "mode": "normal", "sessionId": session},
            {"type": "queue-operation", "operation": "enqueue", "timestamp": at}
            | {"sessionId": session},
        ],
        # the client copies the snapshots of the parent, and dates its own after the prompt
        "file-history-snapshot": [
            snapshot("u-0", copied[0]["timestamp"]),
            snapshot(name, at.replace(".000Z", ".020Z")),
        ],
    }
    return [*heads.get(mark, []), *copied, *own]


def snapshot(message: str, at: str) -> dict[str, Any]:
    taken = {"messageId": message, "trackedFileBackups": {}, "timestamp": at}
    return {"type": "file-history-snapshot", "messageId": message, "snapshot": taken}


def cost_state(session: str, turns: int, extra: int) -> dict[str, Any]:
    """A client's total: so many turns of `build.claude_usage`, and calls that no line shows."""
    used = {
        "inputTokens": 10 * turns + extra,
        "outputTokens": 50 * turns + extra,
        "cacheReadInputTokens": 4000 * turns,
        "cacheCreationInputTokens": 300 * turns,
        "cacheCreationEphemeral1hInputTokens": 100 * turns,
    }
    return {
        "type": "cost-state",
        "sessionId": session,
        "modelUsage": {"claude-opus-4-6": used},
    }


def agent_lines(session: str, name: str, at: float) -> Lines:
    told = {"agentId": name, "isSidechain": True}
    return [line | told for line in talk(session, f"{name}_part", at)]


def family() -> dict[str, Lines]:
    """The files of a family by path: a parent, two forks of it and a fork of the first fork.

    The parent goes on after it was forked. It and the first fork have a sub-agent, and made calls
    that only their totals show.
    """
    first = talk(PARENT, "one", 0)
    later = [*talk(PARENT, "five", 400), cost_state(PARENT, 6, 7)]
    parent = [*first, cost_state(PARENT, 4, 7), *later]
    fork = copy(first, FORK, talk(FORK, "two", 100), "queue-operation")
    deep = copy(fork, DEEP, talk(DEEP, "three", 200), "forkedFrom")
    second = copy(first, SECOND, talk(SECOND, "four", 300), "file-history-snapshot")
    return {
        f"{PARENT}.jsonl": parent,
        f"{PARENT}/subagents/agent-a1.jsonl": agent_lines(PARENT, "a1", 10),
        f"{FORK}.jsonl": [*fork, cost_state(FORK, 8, 7 + 5)],
        f"{FORK}/subagents/agent-b1.jsonl": agent_lines(FORK, "b1", 110),
        f"{DEEP}.jsonl": deep,
        f"{SECOND}.jsonl": second,
    }


def append(home: Path, path: str, lines: Iterable[Mapping[str, Any]]) -> None:
    file = home / ".claude" / "projects" / "-home-dev-shop" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as open_file:
        open_file.write(build.as_lines(lines))


def owners(store: Store) -> Iterator[tuple[str, str, str]]:
    """Every turn that a line shows with its owner, and every call: (session, kind, time)."""
    yield from store.query(
        "select session.key, 'turn', turn.at from turn join session on session.id = session_id"
        " where total_id is null union all select session.key, 'call', tool_call.at from tool_call"
        " join session on session.id = session_id order by 1, 2, 3"
    )


def count_turns(store: Store) -> dict[str, int]:
    """The turns and calls of each session."""
    counts: dict[str, int] = {}
    for key, _, _ in owners(store):
        counts[key] = counts.get(key, 0) + 1
    return counts


def parents(store: Store) -> dict[str, tuple[str | None, str | None]]:
    """The kind and the parent of each root session."""
    rows = store.query(
        "select key, parent_kind, (select key from session as above where above.id ="
        " session.parent_id) from session where id = root_id"
    )
    return {key: (kind, parent) for key, kind, parent in rows}
