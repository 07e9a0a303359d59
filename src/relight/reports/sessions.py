"""One session: finding it by what a person typed, and everything known about it."""

from typing import Any

import msgspec

from relight.errors import MissingError
from relight.reports.failures import session_spirals
from relight.reports.families import sum_family
from relight.reports.steps import read_calls, read_turns
from relight.store import Store
from relight.times import write_time


def find_session(store: Store, name: str) -> int:
    """The id of the session a person means: `source:id`, the agent's id, or the start of either."""
    source, _, rest = name.partition(":")
    rows = store.query(
        "select id, source, key from session where key = ?1 or (source = ?2 and key = ?3)",
        (name, source, rest),
    )
    if not rows and name:
        rows = store.query(
            "select id, source, key from session where substr(key, 1, length(?1)) = ?1"
            " or (source = ?2 and substr(key, 1, length(?3)) = ?3) order by source, key limit 50",
            (name, source, rest if rest else "\0"),
        )
        roots = [row for row in rows if "/" not in row[2]]
        rows = roots if len(roots) == 1 else rows
    if not rows:
        raise MissingError(
            f"there is no session {name!r}", "`relight report --by session` lists them"
        )
    if len(rows) > 1:
        several = ", ".join(f"{source}:{key}" for _, source, key in rows[:8])
        more = f" and {len(rows) - 8} more" if len(rows) > 8 else ""
        raise MissingError(f"{name!r} could be {several}{more}", "write more of its beginning")
    return int(rows[0][0])


def read_session(store: Store, session_id: int, *, with_steps: bool = True) -> dict[str, Any]:
    """What is known of a session: its figures with its sub-agents', its own turns and calls.

    A face that shows a page of `steps` at a time does without all of them here.
    """
    columns = (
        "source, key, parent_id, parent_kind, root_id, project, title, model, version, started_at,"
        " ended_at, outcome, outcome_evidence, answer, is_frozen, task_type, category, score"
    )
    row = store.query(f"select {columns} from session where id = ?", (session_id,))[0]
    known = dict(zip(columns.split(", "), row, strict=True))
    steps = (
        {}
        if not with_steps
        else {
            "turns": list(read_turns(store, session_id).values()),
            "tool_calls": list(read_calls(store, session_id).values()),
        }
    )
    return {
        "session": f"{known['source']}:{known['key']}",
        "source": known["source"],
        "id": known["key"],
        "parent": name_session(store, known["parent_id"]),
        "parent_kind": known["parent_kind"],
        "children": _children(store, session_id),
        "project": known["project"],
        "title": known["title"],
        "model": known["model"],
        "version": known["version"],
        "started_at": write_time(known["started_at"]),
        "ended_at": write_time(known["ended_at"]),
        "outcome": known["outcome"] or "unknown",
        "evidence": msgspec.json.decode(known["outcome_evidence"] or "[]"),
        "answer": known["answer"],
        "task_type": known["task_type"],
        "category": known["category"],
        "score": known["score"],
        "has_tape": bool(
            store.query("select 1 from tape_part where session_id = ? limit 1", (session_id,))
        ),
        "figures": sum_family(store, session_id),
        "spirals": session_spirals(store, session_id),
        **steps,
    }


def name_session(store: Store, session_id: int | None) -> str | None:
    rows = store.query("select source || ':' || key from session where id = ?", (session_id,))
    return rows[0][0] if rows else None


def _children(store: Store, session_id: int) -> list[dict[str, Any]]:
    rows = store.query(
        "select source || ':' || session.key, parent_kind, title,"
        " (select sum(cost_nanos) from session_day where session_id = session.id),"
        " (select sum(unpriced_turns) from session_day where session_id = session.id)"
        " from session where parent_id = ? order by started_at, session.key",
        (session_id,),
    )
    return [
        {
            "session": name,
            "kind": kind,
            "title": title,
            "cost_usd": None if nanos is None or (unpriced and not nanos) else nanos / 1e9,
            "unpriced_turns": unpriced or 0,
        }
        for name, kind, title, nanos, unpriced in rows
    ]
