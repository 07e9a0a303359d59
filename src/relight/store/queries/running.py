"""Sessions with records of the last minutes, and the last turn and calls of each."""

from msgspec import Struct

from relight.store import Store
from relight.store.queries.costs import KNOWN_COST


class RunningRow(Struct, frozen=True):
    """A session that is going on, with its sub-agents' figures; times are Unix milliseconds."""

    id: int
    session: str
    source: str
    title: str | None
    project: str | None
    branch: str | None
    model: str | None
    started_at: int | None
    last_at: int
    ending: str | None
    turns: int
    cost_nanos: int | None
    included_nanos: int
    unpriced_turns: int
    # at list price, since a moment
    recent_nanos: int


class LastTurn(Struct, frozen=True):
    """The model of a session's last turn, and the tokens that it read."""

    model: str | None
    provider: str | None
    context: int | None


class LastCall(Struct, frozen=True):
    """One of the last calls of a session and its sub-agents."""

    tool: str
    fingerprint: int
    label: str | None
    at: int | None
    finished_at: int | None
    work: str | None


def read_running(
    store: Store, *, since: int, until: int, recent: int, limit: int = 100
) -> list[RunningRow]:
    """Return the sessions whose last record lies between two moments, the latest first.

    `recent` is when the cost for the rate begins.
    """
    cost = KNOWN_COST.format(
        *(f"coalesce(listing.{name}, 0)" for name in ("turns", "unpriced_turns", "cost_nanos"))
    )
    return store.read(
        RunningRow,
        "select session.id, session.source || ':' || session.key as session, session.source,"
        " session.title, session.project, session.branch, session.model, session.started_at,"
        " last_at, session.ending, coalesce(listing.turns, 0) as turns,"
        f" {cost} as cost_nanos,"
        " coalesce(listing.included_nanos, 0) as included_nanos,"
        " coalesce(listing.unpriced_turns, 0) as unpriced_turns,"
        " coalesce((select sum(turn.cost_nanos) from session as part"
        "   join turn on turn.session_id = part.id and turn.at >= :recent"
        "   where part.root_id = session.id), 0) as recent_nanos"
        " from (select root_id, max(ended_at) as last_at from session"
        "   where ended_at >= :since and ended_at <= :until group by root_id) as late"
        " join session on session.id = late.root_id"
        " left join listing on listing.root_id = session.id"
        f" order by last_at desc, session.id limit {limit}",
        {"since": since, "until": until, "recent": recent},
    )


def find_last_turn(store: Store, session_id: int) -> LastTurn | None:
    """Return the last answered turn of a session, without its sub-agents."""
    found = store.read(
        LastTurn,
        "select model, provider, input_tokens + coalesce(cache_read_tokens, 0)"
        " + coalesce(cache_write_tokens, 0) as context from turn"
        " where session_id = ? and calls = 1 and total_id is null and role is null"
        " order by at desc nulls last, place desc limit 1",
        (session_id,),
    )
    return found[0] if found else None


def read_last_calls(store: Store, root_id: int, *, limit: int) -> list[LastCall]:
    """Return the last calls of a session and its sub-agents, oldest first."""
    found = store.read(
        LastCall,
        "select tool, fingerprint, label, at, finished_at, work from session as part"
        " join tool_call on tool_call.session_id = part.id"
        " where part.root_id = ? order by at desc nulls last, tool_call.place desc"
        f" limit {limit}",
        (root_id,),
    )
    return found[::-1]
