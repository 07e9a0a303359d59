"""The calls among which spirals are found, and the usage that they are charged with."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from relight.model import WHOLE_TOKENS
from relight.store import Store

# the sum is unknown without these two; few agents record all others
NEEDED = ("input_tokens", "output_tokens")
TOKENS = " + ".join(
    f"turn.{name}" if name in NEEDED else f"coalesce(turn.{name}, 0)" for name in WHOLE_TOKENS
)
CALLS = f"""
    select tool_call.session_id, tool_call.tool, tool_call.fingerprint, tool_call.label,
        tool_call.turn_id, tool_call.at, tool_call.work, turn.calls, {TOKENS} as tokens,
        turn.cost_nanos, tool_call.place,
        case when turn.calls > 1 then (
            select count(*) from tool_call as other
            where other.session_id = tool_call.session_id and other.turn_id = tool_call.turn_id
        ) end as together
    from tool_call {{only}}
    left join turn on turn.id = tool_call.turn_id and tool_call.label = 'error'
    where tool_call.session_id in ({{among}})
    order by tool_call.at nulls last, tool_call.place
"""
# the tools that failed often enough in a session
FAILING = """
    join (
        select session_id, tool from call_day where session_id in ({among}) and tool is not null
        group by session_id, tool having sum(tool_failures) >= {least}
    ) as failing on failing.session_id = tool_call.session_id and failing.tool = tool_call.tool
"""
# Some clients report only sums: the usage of turns to which no call is known to belong.
POOLS = f"""
    select turn.session_id, sum(turn.calls) as calls, sum({TOKENS}) as tokens,
        case when count(turn.cost_nanos) = count(*) then sum(turn.cost_nanos) end as cost_nanos
    from turn where turn.session_id in ({{among}}) and turn.calls > 0
        and coalesce(turn.role, 'aggregator') = 'aggregator'
        and not exists (
            select 1 from tool_call
            where tool_call.session_id = turn.session_id and tool_call.turn_id = turn.id
        )
    group by turn.session_id
"""
AT_ONCE = 500


class SessionOfRoot(Struct, frozen=True):
    """A session, and the one at the top of its tree of sub-agents."""

    id: int
    root_id: int


class SpiralCall(Struct, frozen=True):
    """A tool call; if it failed, with the usage of its turn, as far as that is known.

    `together` is the number of calls of its turn, if the turn stands for several model calls.
    """

    session_id: int
    tool: str
    fingerprint: int
    label: Literal["ok", "negative", "error", "unknown"] | None
    turn_id: int | None
    at: int | None
    work: str | None
    calls: int | None
    tokens: int | None
    cost_nanos: int | None
    place: int
    together: int | None


class UsagePool(Struct, frozen=True):
    """The usage of a session's turns to which no call is known to belong."""

    session_id: int
    calls: int
    tokens: int | None
    cost_nanos: int | None


def find_failing_below(store: Store, roots: Sequence[int], *, least: int) -> list[SessionOfRoot]:
    """Return these sessions and their sub-agents in which a tool failed at least so often."""
    return [
        one
        for among in split_ids(roots)
        for one in store.read(
            SessionOfRoot,
            "select distinct session_id as id, root_id from ("
            " select session_id, root_id, tool from call_day"
            f" where session_id in (select id from session where root_id in ({among}))"
            " and tool is not null"
            f" group by session_id, root_id, tool having sum(tool_failures) >= {least}"
            ") as failing",
        )
    ]


def read_judged_calls(
    store: Store, sessions: Sequence[int], *, least: int | None = None
) -> list[SpiralCall]:
    """Return the tool calls of these sessions, each session's in the order of their times.

    With `least` they are those of tools that failed at least so often in their session.
    """
    return [
        call
        for among in split_ids(sessions)
        for call in store.read(
            SpiralCall,
            CALLS.format(
                among=among, only="" if least is None else FAILING.format(among=among, least=least)
            ),
        )
    ]


def read_pools(store: Store, sessions: Sequence[int]) -> list[UsagePool]:
    """Return the usage of turns without calls, for these sessions that have any."""
    return [
        pool
        for among in split_ids(sessions)
        for pool in store.read(UsagePool, POOLS.format(among=among))
    ]


def split_ids(sessions: Sequence[int]) -> list[str]:
    """Return ids as lists for `in (…)`, none of them too long."""
    starts = range(0, len(sessions), AT_ONCE)
    return [", ".join(map(str, sessions[start : start + AT_ONCE])) for start in starts]
