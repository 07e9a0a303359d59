"""How long calls took, where only a witness beside the session's own record tells it."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from relight.ids import row_id
from relight.store.write.seal import Sealed

# a witness that has no id of the call tells of the same moment as the record
MOMENT_MS = 10_000


def write(database: sqlite3.Connection, piece: Sealed) -> None:
    """Write what witnesses tell of calls of tools, and of models."""
    database.executemany(
        "insert or replace into call_timing values (?, ?, ?, ?, ?, ?)", piece.timings
    )
    source = piece.source
    database.executemany(
        "insert or ignore into call_latency values (?, ?, ?, ?)",
        [
            (
                row_id("latency", source, one.key),
                row_id("session", source, one.session),
                one.model,
                one.latency_ms,
            )
            for one in piece.latencies
        ],
    )


def refresh(database: sqlite3.Connection, touched: Iterable[int]) -> None:
    """Give calls of these sessions the durations that witnesses tell.

    A call is known by the agent's own id of it. Servers that number the calls of each answer anew
    use an id again, so the moment decides among those; where a witness has no id, tool and moment
    do. No witness speaks for two calls: those of one answer end together.
    """
    if not database.execute("select 1 from call_timing limit 1").fetchone():
        return
    for session_id in touched:
        timings = database.execute(
            "select name, tool, at, duration_ms from call_timing where session_id = ?"
            " order by at, id",
            (session_id,),
        ).fetchall()
        if not timings:
            continue
        calls = database.execute(
            "select id, name, tool, finished_at from tool_call where session_id = ?"
            " and finished_at is not null",
            (session_id,),
        ).fetchall()
        database.executemany(
            "update tool_call set duration_ms = ? where id = ?", match_timings(calls, timings)
        )


def match_timings(
    calls: Sequence[tuple[Any, ...]], timings: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, int]]:
    """The duration of each call that a witness tells of, nearest first, and the call's id."""
    named: dict[int, list[int]] = {}
    of_tool: dict[str, list[int]] = {}
    for number, (name, tool, _, _) in enumerate(timings):
        if name is not None:
            named.setdefault(name, []).append(number)
        of_tool.setdefault(tool, []).append(number)
    near = []
    for call_id, name, tool, finished_at in calls:
        near += [
            (False, abs(timings[number][2] - finished_at), call_id, number)
            for number in named.get(name, ())
        ]
        for number in of_tool.get(tool, ()):
            known, _, at, _ = timings[number]
            apart = abs(at - finished_at)
            if apart <= MOMENT_MS and (known is None or name is None):
                near.append((True, apart, call_id, number))
    told: set[int] = set()
    taken: set[int] = set()
    for _, _, call_id, number in sorted(near):
        if call_id not in told and number not in taken:
            told.add(call_id)
            taken.add(number)
            yield timings[number][3], call_id
