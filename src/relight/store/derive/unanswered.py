"""The model call that a session was cut off in: it has no record, and its cost is unknown.

A session whose last record is a prompt or a tool's result was waiting for the model when it was
killed or timed out. Providers charge for a call that is abandoned, so what the session spent is a
lower bound, unless the model is free. The call becomes a failed turn of unknown usage, until a
later record answers it.
"""

from collections.abc import Iterable

from msgspec import Struct

from relight.config import Config
from relight.judging.failures import classify_error
from relight.model import Cost, Usage, row_id
from relight.prices import UNKNOWN, find_own_price, price_usage
from relight.store.derive.rollup import days_of
from relight.store.sql import Connection, greatest, insert, read, write_touched
from relight.store.write.sealed import TurnRow, name_tokens

# a scheduled run whose process died: only that says that a program's live session has ended
LOST_RUN = """
    select 1 from run where run.source = 'relight' and run.status = 'unknown' and (
        run.session_id = session.id or run.id in (
            select run_id from run_attempt where run_attempt.session_id = session.id
        )
    )
"""
# An interruption may also end a tool: then the call of the tool is open or stopped.
STOPPED_TOOL = """
    select 1 from tool_call where tool_call.session_id = session.id
        and (finished_at is null or kind in ('interrupted', 'rejected'))
        and at >= coalesce(prompted_at, 0)
"""
LAST_RESULT = "(select max(finished_at) from tool_call where tool_call.session_id = session.id)"
LAST_INPUT = f"coalesce({greatest('prompted_at', LAST_RESULT)}, 0)"
# one row at most and no `exists`, for which PostgreSQL may read all turns to join them
ANSWERED = f"""
    select 1 from turn where turn.session_id = session.id and total_id is null
        and coalesce(role, '') not in ('reference', 'compaction')
        and (at > {LAST_INPUT} or (failure is not null and at >= {LAST_INPUT})) limit 1
"""
# Some clients record only sums of calls: of those, an interruption says nothing.
SUMMED = "select 1 from turn where turn.session_id = session.id and total_id is not null"
# a log has calls of a session that the agent's database has not
LOGGED = """
    exists (select 1 from call_latency where call_latency.session_id = session.id)
    and not exists (select 1 from turn where turn.session_id = session.id)
"""
CONTINUED = """
    select 1 from session as next
    where next.parent_id = session.id and next.parent_kind = 'compaction'
"""
CUT_OFF = f"""
    select session.id, session.source, session.key, coalesce(ended_at, started_at) as at, model, (
        select provider from turn where turn.session_id = session.id
            and turn.model = session.model and role is null
        order by at desc nulls last limit 1
    ) as provider, (
        select run.error from run where run.session_id = session.id and run.source <> 'relight'
    ) as error
    from session
    where session.id in (select id from touched) and coalesce(ended_at, started_at) is not null
        and (source <> 'relight' or exists ({LOST_RUN}))
        and (ending in ('prompt', 'result')
            or (ending = 'interrupted' and not exists ({STOPPED_TOOL}) and not exists ({SUMMED}))
            or (ending is null and {LOGGED}))
        and ({ANSWERED}) is null and not exists ({CONTINUED})
"""


class CutOffSession(Struct, frozen=True):
    """A session that ended inside a model call."""

    id: int
    source: str
    key: str
    at: int
    model: str | None
    provider: str | None
    # what a scheduler's ledger says about its end
    error: str | None

    @property
    def was_refused(self) -> bool:
        """True if the call was refused, so that it costs nothing."""
        return self.error is not None and classify_error(self.error).is_refusal


def refresh(database: Connection, touched: Iterable[int], config: Config) -> set[int]:
    """Write the unanswered call of each session that has one; return all sessions looked at.

    A session that goes on under another id after a compaction was not cut off.
    """
    write_touched(database, touched)
    parents = database.execute(
        "select parent_id from session where id in (select id from touched)"
        " and parent_kind = 'compaction'"
    ).fetchall()
    looked_at = {*touched, *(parent for (parent,) in parents)}
    write_touched(database, looked_at)
    named = database.execute(
        "select source, key from session where id in (select id from touched)"
    ).fetchall()
    database.executemany(
        "delete from turn where id = ?", [(make_call_id(source, key),) for source, key in named]
    )
    read_day = days_of(database)
    cut_off = [one for one in read(database, CutOffSession, CUT_OFF) if not one.was_refused]
    costs = [find_cost(one, config) for one in cut_off]
    rows = [
        TurnRow(
            **name_tokens(Usage()),
            id=make_call_id(one.source, one.key),
            session_id=one.id,
            at=one.at,
            day=read_day(one.at),
            model=one.model,
            provider=one.provider,
            role=None,
            calls=0,
            usage_status="unanswered",
            cost_nanos=cost.nanos,
            cost_status=cost.status,
            cost_source=cost.source,
            duration_ms=None,
            first_token_ms=None,
            failure=None,
            failure_text=None,
        )
        for one, cost in zip(cut_off, costs, strict=True)
    ]
    insert(database, "turn", rows)
    return looked_at


def find_cost(one: CutOffSession, config: Config) -> Cost:
    """Return the cost of a call of unknown usage, which is known only if the model is free."""
    own = find_own_price(one.model, one.provider, config)
    return price_usage(Usage(), own, at=one.at) if own else UNKNOWN


def make_call_id(source: str, key: str) -> int:
    """Return the id of a session's unanswered call."""
    return row_id("unanswered", source, key)
