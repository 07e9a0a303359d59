"""The steps of a session in the order they happened, a page at a time."""

import re
from collections.abc import Sequence

from msgspec import Struct

from relight.errors import RelightError
from relight.store import Store
from relight.store.queries import steps as queries
from relight.store.queries.steps import LATEST, CallStep, StepPlace, TurnStep

LARGEST_PAGE = 1000
CURSOR = re.compile(r"(-?[0-9]{1,19})_([01])_([0-9]{1,19})")


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
    cost, unpriced = queries.sum_before(store, session_id, after=cursor)
    last = places[-1] if places and len(found) > limit else None
    page = StepPage(
        steps=_read_places(store, session_id, places),
        cost_before_usd=cost,
        unpriced_before=unpriced,
        next=f"{last.moment}_{last.step}_{last.row}" if last else None,
    )
    return page, [place.row for place in places]


def _read_places(
    store: Store, session_id: int, places: Sequence[StepPlace]
) -> list[TurnStep | CallStep]:
    """Return the steps of these places; turns and calls come in the same order as their places."""
    rows: tuple[list[int], list[int]] = ([], [])
    for one in places:
        rows[one.step].append(one.row)
    turns = queries.read_turns(store, session_id, TurnStep, rows[0])[::-1]
    calls = queries.read_tool_calls(store, session_id, CallStep, rows[1])[::-1]
    return [calls.pop() if one.step else turns.pop() for one in places]


def _read_cursor(text: str | None) -> dict[str, int]:
    if text is None:
        return {"moment": -(2**63), "step": 0, "row": 0}
    found = CURSOR.fullmatch(text)
    if found is None:
        raise RelightError(
            f"{text!r} is not a place in a session", "leave `after` out to start over"
        )
    numbers = [max(min(int(one), LATEST), -LATEST) for one in found.groups()]
    return dict(zip(("moment", "step", "row"), numbers, strict=True))
