"""The turns and limit messages from which the windows of plans are made."""

from collections.abc import Sequence

from msgspec import Struct

from relight.model import WHOLE_TOKENS
from relight.store import Store
from relight.store.queries.costs import KNOWN_COST
from relight.store.sql import add_up, divide, read_usd

HOUR_MS = 3_600_000


class WindowUse(Struct, frozen=True):
    """Turns with tokens, one or those of an hour: the first moment, all tokens, their worth.

    `nanos` is the worth at list price, None if no turn has a price.
    """

    at: int
    tokens: int
    nanos: int | None
    turns: int = 1
    unpriced_turns: int = 0
    # of which session, where accounts differ by session
    session_id: int | None = None


class LimitMessage(Struct, frozen=True):
    """An agent's words when it refused a request because a window was full."""

    at: int
    session_id: int
    text: str


def read_hours(
    store: Store, source: str, since: int, *, by_session: bool = False
) -> dict[int, list[WindowUse]]:
    """Return a source's turns from the hour of a moment on, by their hour."""
    # sums of an hour come in the order of the index, which has all of them
    own, key, order = ("", "cast(null as bigint)", "")
    if by_session:
        own, key, order = (", session_id", "session_id", ", min(first_at)")
    rows = store.query(
        "select hour, min(first_at), sum(tokens), sum(nanos), sum(turns), sum(unpriced_turns),"
        f" {key} from session_hour where source = ? and hour >= ?"
        f" group by hour{own} order by hour{order}",
        (source, find_hour(since)),
    )
    found: dict[int, list[WindowUse]] = {}
    for hour, *figures in rows:
        found.setdefault(hour, []).append(WindowUse(*figures))
    return found


def read_single_turns(
    store: Store, source: str, hours: Sequence[int], *, by_session: bool = False
) -> dict[int, list[WindowUse]]:
    """Return the single turns of some hours, by hour, in their order."""
    tokens = add_up(WHOLE_TOKENS, "turn.")
    unpriced = "case when turn.cost_nanos is null then 1 else 0 end"
    key = "turn.session_id" if by_session else "cast(null as bigint)"
    found: dict[int, list[WindowUse]] = {}
    for some, marks in divide(hours):
        rows = store.query(
            f"select used.hour, turn.at, {tokens}, turn.cost_nanos, 1, {unpriced}, {key}"
            f" from (select session_id, hour from session_hour where source = ? and hour in"
            f" ({marks})) as used join turn on turn.session_id = used.session_id"
            f" and turn.at > used.hour * {HOUR_MS} and turn.at <= (used.hour + 1) * {HOUR_MS}"
            f" where {tokens} > 0 order by turn.at, turn.id",
            (source, *some),
        )
        for hour, *figures in rows:
            found.setdefault(hour, []).append(WindowUse(*figures))
    return found


def find_hour(at: int) -> int:
    """Return the number of the hour in which a moment is; the full hour is the end of one.

    >>> find_hour(3_600_000), find_hour(3_600_001)
    (0, 1)
    """
    return (at - 1) // HOUR_MS


def find_first_turn(store: Store, source: str) -> int | None:
    """Return the beginning of the hour of a source's first turn."""
    ((found,),) = store.query("select min(hour) from session_hour where source = ?", (source,))
    return None if found is None else found * HOUR_MS


def find_block_start(store: Store, source: str, since: int) -> int:
    """Return the first turn of the first block of five hours that begins after a moment.

    Each block depends on the one before. One step of the index finds the next, so a year without
    a pause takes milliseconds.
    """
    following = (
        "select first_at from session_hour where source = :source and hour >= {}"
        " order by hour, first_at limit 1"
    )
    after = f"block.first_at / {HOUR_MS} + 5"
    rows = store.query(
        f"with recursive block (first_at) as (select ({following.format(0)}) union all"
        f" select ({following.format(after)}) from block where block.first_at <= :since)"
        " select max(first_at) from block",
        {"source": source, "since": since},
    )
    return int(rows[0][0] or 0)


def read_limit_messages(store: Store, source: str, since: int) -> list[LimitMessage]:
    """Return the messages about a full window from a moment on, in their order."""
    return store.read(
        LimitMessage,
        "select at, session_id, failure_text as text from turn"
        " where failure = 'usage_limit' and at >= ? and failure_text is not null"
        " and (select source from session where session.id = turn.session_id) = ?"
        " order by at, id",
        (since, source),
    )


def read_session_paths(store: Store, source: str, since: int) -> list[tuple[int, str]]:
    """Return the sessions that have not ended before a moment, each with a file it is in."""
    return store.query(
        "select session.id, min(origin.path) from session"
        " join tape_part on tape_part.session_id = session.id"
        " join origin on origin.id = tape_part.origin_id"
        " where session.source = ? and session.ended_at >= ? group by session.id",
        (source, since),
    )


class RecentSession(Struct, frozen=True):
    """A session of the last hours: its cost, and its last turn with the tokens it was given.

    `cached_for_hour` is 1 if the last write to the cache was at the one-hour price, 0 if it was
    not, and None if nothing was written.
    """

    key: str
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int
    last_at: int | None
    context_tokens: int | None
    cached_for_hour: int | None


def read_recent_sessions(store: Store, *, since: int, limit: int) -> list[RecentSession]:
    """Return the sessions that ended after a moment, the last ones first."""
    cost = KNOWN_COST.format("sum(turns)", "sum(unpriced_turns)", "sum(cost_nanos)")
    context = add_up(("input_tokens", "cache_read_tokens", "cache_write_tokens"))
    last = "(select {} from turn where session_id = recent.id and calls > 0{} order by at desc"
    last += " limit 1)"
    hour = "case when cache_write_1h_tokens > 0 then 1 else 0 end"
    return store.read(
        RecentSession,
        f"select recent.key as key, {cost} as cost_usd,"
        " coalesce(sum(included_nanos), 0) as included_usd,"
        " coalesce(sum(unpriced_turns), 0) as unpriced_turns,"
        f" {last.format('at', '')} as last_at, {last.format(context, '')} as context_tokens,"
        f" {last.format(hour, ' and cache_write_tokens > 0')} as cached_for_hour"
        " from (select id, key, ended_at from session where ended_at >= ? and id = root_id"
        " order by ended_at desc limit ?) as recent"
        " left join session_day on session_day.root_id = recent.id"
        " group by recent.id, recent.key, recent.ended_at order by recent.ended_at desc",
        (since, limit),
        {"cost_usd": read_usd, "included_usd": read_usd},
    )
