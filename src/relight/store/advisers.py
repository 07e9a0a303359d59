"""The table `adviser_deal`, and what the advisers of mixtures cost and took in all sessions."""

from collections.abc import Sequence

from msgspec import Struct

from relight.store import Store
from relight.store.derive.pricing import NAMED
from relight.store.sql import FAILURES, SUCCESSES, count_if, insert


class AdviserDealRow(Struct, frozen=True):
    """A row of `adviser_deal`."""

    session_key: str
    adviser: str
    preset: str
    dealt_at: int
    share: float
    is_muted: int


class AdviserSums(Struct, frozen=True):
    """The calls of an adviser in all sessions; `recent` since a moment."""

    adviser: str | None
    sessions: int
    calls: int
    failures: int
    nanos: int | None
    unpriced: int
    recent_nanos: int | None
    timed: int
    total_ms: int | None


class AdviserArm(Struct, frozen=True):
    """The sessions in which an adviser was muted, or those in which it was not."""

    adviser: str
    is_muted: int
    sessions: int
    successes: int
    failures: int


class AdvisedSums(Struct, frozen=True):
    """Sessions of mixtures since a moment: how many, their whole cost, and their outcomes."""

    sessions: int
    nanos: int | None
    unpriced: int
    successes: int
    failures: int


_SUMS = f"""
    select adviser, count(distinct session_id) as sessions, count(*) as calls,
        count(failure) as failures, sum(cost_nanos) as nanos,
        {count_if("cost_nanos is null and calls > 0")} as unpriced, sum(recent) as recent_nanos,
        count(duration_ms) as timed, sum(duration_ms) as total_ms
    from (
        select {NAMED.format("turn.model")} as adviser, session_id, calls, failure, cost_nanos,
            duration_ms, case when at >= :since then cost_nanos end as recent
        from turn where role = 'reference'
    ) as advice
    group by adviser order by sum(cost_nanos) desc nulls last, adviser
"""
_ARMS = f"""
    select adviser, is_muted, count(*) as sessions, {SUCCESSES} as successes,
        {FAILURES} as failures
    from adviser_deal
    join session on session.source = 'relight' and session.key = adviser_deal.session_key
    group by adviser, is_muted order by adviser, is_muted
"""
_ADVISED = f"""
    select count(*) as sessions, sum(nanos) as nanos, coalesce(sum(unpriced), 0) as unpriced,
        {SUCCESSES} as successes, {FAILURES} as failures
    from (
        select session.outcome,
            (select sum(cost_nanos) from session_day where root_id = session.id) as nanos,
            (select sum(unpriced_turns) from session_day where root_id = session.id) as unpriced
        from session where coalesce(started_at, ended_at) >= :since and session.id in (
            select session_id from turn where role = 'reference'
        )
    ) as one
"""


def find_deals(store: Store, session_key: str) -> list[AdviserDealRow]:
    """Return what the advisers of a session were dealt."""
    statement = "select * from adviser_deal where session_key = ?"
    return store.read(AdviserDealRow, statement, (session_key,))


def add_adviser_deals(store: Store, rows: Sequence[AdviserDealRow]) -> None:
    """Write what the advisers of a session are dealt; one that was dealt before keeps that."""
    with store.transaction() as database:
        insert(database, "adviser_deal", rows, on_conflict="on conflict do nothing")


def sum_advisers(store: Store, *, since: int) -> list[AdviserSums]:
    """Return the calls of each adviser over all sessions, the costliest first."""
    return store.read(AdviserSums, _SUMS, {"since": since})


def count_muted(store: Store) -> list[AdviserArm]:
    """Return the sessions with and without each adviser, among those that were dealt."""
    return store.read(AdviserArm, _ARMS)


def sum_advised(store: Store, *, since: int) -> AdvisedSums:
    """Return the sessions of mixtures since a moment."""
    return store.read(AdvisedSums, _ADVISED, {"since": since})[0]
