"""The steps of a session in the order they happened, a page at a time."""

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict

from relight.errors import RelightError
from relight.store import Store
from relight.store.queries import steps as queries
from relight.store.queries.steps import LATEST, StepPlace, StoredCall, StoredTurn
from relight.times import write_time

LARGEST_PAGE = 1000
CURSOR = re.compile(r"(-?[0-9]{1,19})_([01])_([0-9]{1,19})")


class SessionTurn(Struct, frozen=True, kw_only=True):
    """One turn of a session: a model call, or many of which only the sum is known."""

    at: str | None
    model: str | None
    provider: str | None
    role: str | None
    calls: int
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    usage_status: str
    cost_status: str | None
    cost_source: str | None
    duration_ms: int | None
    first_token_ms: int | None
    failure: str | None
    failure_text: str | None
    cost_usd: float | None
    is_shared: bool


class SessionCall(Struct, frozen=True, kw_only=True):
    """One tool call of a session, with its verdict."""

    at: str | None
    finished_at: str | None
    tool: str
    exit_code: int | None
    duration_ms: int | None
    label: str | None
    kind: str | None
    reason: str | None
    evidence: str | None


class TurnStep(SessionTurn, frozen=True, kw_only=True, tag_field="step", tag="turn"):
    """A turn as a step."""

    @property
    def step(self) -> str:
        return "turn"


class CallStep(SessionCall, frozen=True, kw_only=True, tag_field="step", tag="call"):
    """A tool call as a step."""

    @property
    def step(self) -> str:
        return "call"


class StepPage(Struct, frozen=True):
    """A page of steps; `next` is the cursor of the next page.

    `cost_before_usd` is the cost of all turns before the page, so that a running sum can go on.
    """

    steps: list[TurnStep | CallStep]
    cost_before_usd: float | None
    unpriced_before: int
    next: str | None


def read_steps(
    store: Store, session_id: int, *, after: str | None = None, limit: int = 200
) -> StepPage:
    """Return a page of turns and calls."""
    return read_placed_steps(store, session_id, after=after, limit=limit)[0]


def read_placed_steps(
    store: Store, session_id: int, *, after: str | None = None, limit: int = 200
) -> tuple[StepPage, list[int]]:
    """Return a page of turns and calls, and each one's row, by which a transcript finds it."""
    if not 1 <= limit <= LARGEST_PAGE:
        raise RelightError(f"a page has 1 to {LARGEST_PAGE} steps", "ask for several pages")
    cursor = _read_cursor(after)
    found = queries.find_places(store, session_id, after=cursor, limit=limit + 1)
    places = found[:limit]
    before = queries.sum_before(store, session_id, after=cursor)
    unpriced = before.unpriced or 0
    is_known = not before.turns or unpriced < before.turns
    last = places[-1] if places and len(found) > limit else None
    page = StepPage(
        steps=_read_places(store, session_id, places),
        cost_before_usd=(before.cost_nanos or 0) / 1e9 if is_known else None,
        unpriced_before=unpriced,
        next=f"{last.moment}_{last.step}_{last.row}" if last else None,
    )
    return page, [place.row for place in places]


def _read_places(
    store: Store, session_id: int, places: Sequence[StepPlace]
) -> list[TurnStep | CallStep]:
    rows: tuple[list[int], list[int]] = ([], [])
    for one in places:
        rows[one.step].append(one.row)
    turns = {one.row: one for one in queries.read_turns(store, session_id, rows[0])}
    calls = {one.row: one for one in queries.read_calls(store, session_id, rows[1])}
    return [
        CallStep(**asdict(_show_call(calls[one.row])))
        if one.step
        else TurnStep(**asdict(_show_turn(turns[one.row])))
        for one in places
    ]


def read_turns(store: Store, session_id: int) -> list[SessionTurn]:
    """Return all turns of a session, in the order of their times."""
    return [_show_turn(one) for one in queries.read_turns(store, session_id)]


def read_calls(store: Store, session_id: int) -> list[SessionCall]:
    """Return all tool calls of a session, in the order of their times."""
    return [_show_call(one) for one in queries.read_calls(store, session_id)]


def _show_turn(turn: StoredTurn) -> SessionTurn:
    known = asdict(turn)
    nanos = known.pop("cost_nanos")
    del known["row"]
    return SessionTurn(
        **known
        | {
            "at": write_time(turn.at),
            "cost_usd": None if nanos is None else nanos / 1e9,
            "is_shared": bool(turn.is_shared),
        }
    )


def _show_call(call: StoredCall) -> SessionCall:
    known = asdict(call)
    del known["row"]
    times = {"at": write_time(call.at), "finished_at": write_time(call.finished_at)}
    return SessionCall(**known | times)


def _read_cursor(text: str | None) -> dict[str, int]:
    if text is None:
        return {"moment": -(2**63), "step": 0, "row": 0}
    found = CURSOR.fullmatch(text)
    if found is None:
        raise RelightError(f"{text!r} is no place in a session", "leave `after` out to start over")
    numbers = [max(min(int(one), LATEST), -LATEST) for one in found.groups()]
    return dict(zip(("moment", "step", "row"), numbers, strict=True))
