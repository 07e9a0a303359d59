"""The turns and limit messages from which the windows of plans are made."""

from msgspec import Struct

from relight.model import WHOLE_TOKENS
from relight.store import Store
from relight.store.queries.costs import KNOWN_COST
from relight.store.sql import add_up, read_usd

ENDED = "session.source = ? and session.ended_at >= ? and turn.at >= ?"


class WindowTurn(Struct, frozen=True):
    """A turn with tokens: its moment, all its tokens and its worth at list price."""

    at: int
    session_id: int
    tokens: int
    nanos: int | None


class LimitMessage(Struct, frozen=True):
    """An agent's words when it refused a request because a window was full."""

    at: int
    session_id: int
    text: str


def read_window_turns(store: Store, source: str, since: int) -> list[WindowTurn]:
    """Return a source's turns from a moment on, in their order.

    A session that has ended before it is left out by its own row: turns have no index by time.
    """
    tokens = add_up(WHOLE_TOKENS, "turn.")
    return store.read(
        WindowTurn,
        f"select turn.at as at, turn.session_id as session_id, {tokens} as tokens,"
        " turn.cost_nanos as nanos from session join turn on turn.session_id = session.id"
        f" where {ENDED} and {tokens} > 0 order by turn.at, turn.id",
        (source, since, since),
    )


def find_first_turn(store: Store, source: str) -> int | None:
    """Return the beginning of a source's first session."""
    ((found,),) = store.query("select min(started_at) from session where source = ?", (source,))
    return found  # type: ignore[no-any-return]


def read_limit_messages(store: Store, source: str, since: int) -> list[LimitMessage]:
    """Return the messages about a full window from a moment on, in their order."""
    return store.read(
        LimitMessage,
        "select turn.at as at, turn.session_id as session_id, turn.failure_text as text"
        " from session join turn on turn.session_id = session.id"
        f" where {ENDED} and turn.failure = 'usage_limit' and turn.failure_text is not null"
        " order by turn.at, turn.id",
        (source, since, since),
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
