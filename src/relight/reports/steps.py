"""The steps of a session in the order they happened, a page at a time however many there are."""

import re
from collections.abc import Sequence
from typing import Any

from relight.errors import RelightError
from relight.store import Store
from relight.times import write_time

LARGEST_PAGE = 1000
TURN = (
    "at, model, provider, role, calls, input_tokens, cache_read_tokens, cache_write_tokens,"
    " cache_write_1h_tokens, output_tokens, reasoning_tokens, usage_status, cost_nanos,"
    " cost_status, cost_source, duration_ms, first_token_ms, failure, failure_text"
)
CALL = "at, finished_at, tool, exit_code, duration_ms, label, kind, reason, evidence"
SHARED = "(select turn_id from shared_turn where session_id = :session)"
OWN_TURNS = f"(session_id = :session or id in {SHARED})"
OWN_CALLS = f"(session_id = :session or turn_id in {SHARED})"
CURSOR = re.compile(r"(-?[0-9]{1,19})_([01])_([0-9]{1,19})")
LATEST = 2**63 - 1  # what has no time comes last
# each way in has its own order and limit, so that an index gives no more than a page of it
PART = """
    select * from (
        select {step} as step, {place} as place, {table}.place as row from {table} {test}
            and ({place}, {step}, {table}.place) > (:place, :step, :row)
        order by {table}.at, {table}.place limit :limit
    )
"""
TIMED = "where session_id = :session and at >= :place"
UNTIMED = "where session_id = :session and at is null"
COPIED = (
    "join shared_turn on shared_turn.turn_id = {table}.{key}"
    " where shared_turn.session_id = :session"
)
BEFORE = f"""
    select sum(cost_nanos), count(*), sum(cost_nanos is null) from turn
    where {OWN_TURNS} and calls > 0
        and (coalesce(at, {LATEST}), 0, place) <= (:place, :step, :row)
"""


def _places() -> str:
    """The places of a page's steps: those of its own with a time and without, and those copied."""
    parts = []
    for step, (table, key) in enumerate((("turn", "id"), ("tool_call", "turn_id"))):
        late = f"coalesce({table}.at, {LATEST})"
        for place, test in (
            ("at", TIMED),
            (str(LATEST), UNTIMED),
            (late, COPIED.format(table=table, key=key)),
        ):
            parts.append(PART.format(step=step, place=place, table=table, test=test))
    return f"{' union all '.join(parts)} order by place, step, row limit :limit"


PLACES = _places()


def read_steps(
    store: Store,
    session_id: int,
    *,
    after: str | None = None,
    limit: int = 200,
    with_rows: bool = False,
) -> dict[str, Any]:
    """A page of turns and calls; `next` asks for the one after it.

    `cost_before_usd` is what all turns before the page came to, so that a running sum goes on.
    `with_rows` tells each step's row in its table, by which `wording` knows what was said.
    """
    if not 1 <= limit <= LARGEST_PAGE:
        raise RelightError(f"a page has 1 to {LARGEST_PAGE} steps", "ask for several pages")
    values = {"session": session_id, "limit": limit + 1, **_read_cursor(after)}
    found = store.query(PLACES, values)
    places = found[:limit]
    nanos, turns, unpriced = store.query(BEFORE, values)[0]
    turn_rows = read_turns(store, session_id, _rows(places, 0))
    call_rows = read_calls(store, session_id, _rows(places, 1))
    steps = [
        {"step": "call", **call_rows[row]} if step else {"step": "turn", **turn_rows[row]}
        for step, _, row in places
    ]
    if with_rows:
        steps = [{**one, "row": row} for one, (_, _, row) in zip(steps, places, strict=True)]
    last = places[-1] if places else None
    return {
        "steps": steps,
        "cost_before_usd": (nanos or 0) / 1e9 if not turns or unpriced < turns else None,
        "unpriced_before": unpriced or 0,
        "next": f"{last[1]}_{last[0]}_{last[2]}" if last and len(found) > limit else None,
    }


def read_turns(
    store: Store, session_id: int, rows: Sequence[int] | None = None
) -> dict[int, dict[str, Any]]:
    """A session's turns by their row in the table, all or these, in the order of their times."""
    found = store.query(
        f"select place, session_id <> :session, {TURN} from turn where {_among(rows, OWN_TURNS)}"
        " order by at is null, at, place",
        {"session": session_id},
    )
    turns = {}
    for number, is_shared, *row in found:
        turn = dict(zip(TURN.split(", "), row, strict=True))
        nanos = turn.pop("cost_nanos")
        turn["at"] = write_time(turn["at"])
        turn["cost_usd"] = None if nanos is None else nanos / 1e9
        turn["is_shared"] = bool(is_shared)
        turns[number] = turn
    return turns


def read_calls(
    store: Store, session_id: int, rows: Sequence[int] | None = None
) -> dict[int, dict[str, Any]]:
    """A session's tool calls by their row in the table, all or these, in their order."""
    found = store.query(
        f"select place, {CALL} from tool_call where {_among(rows, OWN_CALLS)}"
        " order by at is null, at, place",
        {"session": session_id},
    )
    calls = {}
    for number, *row in found:
        call = dict(zip(CALL.split(", "), row, strict=True))
        call["at"] = write_time(call["at"])
        call["finished_at"] = write_time(call["finished_at"])
        calls[number] = call
    return calls


def _among(rows: Sequence[int] | None, otherwise: str) -> str:
    return otherwise if rows is None else f"place in ({', '.join(map(str, rows))})"


def _rows(places: Sequence[tuple[int, int, int]], step: int) -> list[int]:
    return [row for one, _, row in places if one == step]


def _read_cursor(text: str | None) -> dict[str, int]:
    if text is None:
        return {"place": -(2**63), "step": 0, "row": 0}
    found = CURSOR.fullmatch(text)
    if found is None:
        raise RelightError(f"{text!r} is no place in a session", "leave `after` out to begin anew")
    numbers = [max(min(int(one), LATEST), -LATEST) for one in found.groups()]
    return dict(zip(("place", "step", "row"), numbers, strict=True))
