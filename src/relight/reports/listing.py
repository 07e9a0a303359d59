"""Lists of sessions, a page at a time."""

import re

from msgspec import Struct

from relight.errors import RelightError
from relight.reports.totals import is_priced
from relight.store import Store
from relight.store.queries import listing as queries
from relight.store.queries.filters import Filter
from relight.store.queries.listing import COUNTED, SORTS, ListedRow, Listing
from relight.times import write_time

LARGEST_PAGE = 500
CURSOR = re.compile(r"([0-9]{1,19})_(-?[0-9]{1,19})")
MOST = 2**63 - 1  # the largest number of a database


class ListedSession(Struct, frozen=True, kw_only=True):
    """A session of a list, with its sub-agents counted in."""

    session: str
    source: str
    id: str
    title: str | None
    project: str | None
    model: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    category: str | None
    score: float | None
    turns: int
    tokens: int
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int
    tool_calls: int
    tool_failures: int
    wall_seconds: float
    subagents: int


class SessionPage(Struct, frozen=True):
    """A page of sessions; `count` is of all pages, and `next` the cursor of the next page.

    `is_more` says that there are more than `count`.
    """

    sessions: list[ListedSession]
    count: int
    is_more: bool
    next: str | None


class OutcomeCounts(Struct, frozen=True):
    """How many sessions succeeded and failed, and how many have an unknown outcome."""

    success: int = 0
    failure: int = 0
    unknown: int = 0


def list_sessions(
    store: Store, chosen: Filter | None = None, listing: Listing | None = None
) -> SessionPage:
    """Return a page of sessions; sub-agents are counted in their parents'."""
    wanted = listing or Listing()
    if wanted.sort not in SORTS:
        raise RelightError(f"cannot sort by {wanted.sort!r}", f"there are {', '.join(SORTS)}")
    if not 1 <= wanted.limit <= LARGEST_PAGE:
        raise RelightError(f"a page has 1 to {LARGEST_PAGE} sessions", "ask for several pages")
    after = None if wanted.after is None else _read_cursor(wanted.after)
    asked = queries.make_tests(store, chosen or Filter(), wanted)
    in_days = queries.count_in_days(store, asked)
    rows: list[ListedRow] = []
    if asked.quick:
        rows = queries.read_page(store, wanted, asked, after, way="quick")
    if len(rows) <= wanted.limit:
        # a scan soon meets one of many sessions; few are found faster by looking each of them up
        is_few = in_days is not None and in_days <= COUNTED and not asked.rest
        way = "lookup" if is_few else "scan"
        rows = queries.read_page(store, wanted, asked, after, way=way)
    has_more = len(rows) > wanted.limit
    shown = rows[: wanted.limit]
    count = len(rows)
    if has_more or after is not None:
        is_counted = in_days is not None and not asked.rest
        count = (in_days or 0) if is_counted else queries.count_listed(store, asked)
    return SessionPage(
        sessions=[_show(row) for row in shown],
        count=min(count, COUNTED),
        is_more=count > COUNTED,
        next=f"{shown[-1].place}_{shown[-1].root_id}" if has_more else None,
    )


def count_outcomes(store: Store, chosen: Filter | None = None) -> OutcomeCounts:
    """Return how many sessions of these days have each outcome."""
    asked = queries.make_tests(store, chosen or Filter(), Listing())
    counts = {one.outcome: one.sessions for one in queries.count_outcomes(store, asked)}
    return OutcomeCounts(**counts)


def _read_cursor(text: str) -> tuple[int, int]:
    """Return the place and root id after which a page begins."""
    found = CURSOR.fullmatch(text)
    if found is None:
        raise RelightError(f"{text!r} is no place in a list", "leave `after` out to start over")
    value, root_id = (max(min(int(one), MOST), -MOST) for one in found.groups())
    return value, root_id


def _show(row: ListedRow) -> ListedSession:
    is_known = is_priced(row.turns, row.unpriced_turns, row.cost_nanos)
    return ListedSession(
        session=row.session,
        source=row.source,
        id=row.id,
        title=row.title,
        project=row.project,
        model=row.model,
        started_at=write_time(row.started_at),
        ended_at=write_time(row.ended_at),
        outcome=row.outcome or "unknown",
        category=row.category,
        score=row.score,
        turns=row.turns,
        tokens=row.tokens,
        cost_usd=row.cost_nanos / 1e9 if is_known else None,
        included_usd=row.included_nanos / 1e9,
        unpriced_turns=row.unpriced_turns,
        tool_calls=row.tool_calls,
        tool_failures=row.tool_failures,
        wall_seconds=row.wall_ms / 1000,
        subagents=row.subagents,
    )
