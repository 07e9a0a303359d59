"""The counts by which a session makes a template, and the template that it made."""

from msgspec import Struct

from relight.store import Store
from relight.store.queries.steps import OWN_CALLS
from relight.store.sql import count_if, read_list, same

# the later half of a session's judged calls
LATE_CALLS = f"""(
    select label from (
        select label, row_number() over (order by at nulls last, place) as number,
            count(*) over () as calls
        from tool_call where {OWN_CALLS} and label <> 'unknown'
    ) as judged where number > calls / 2
) as late_calls"""


class GateCounts(Struct, frozen=True):
    """The counts of a session by which it makes a template, or not."""

    messages: int
    calls: int
    judged: int
    errors: int
    # judged calls of the later half, and how many of them failed
    late: int
    late_errors: int
    outcome: str
    evidence: list[str]


def read_gate_counts(store: Store, session_id: int) -> GateCounts:
    """Return the counts of a session and of the calls in it, copied ones included."""
    return store.read(
        GateCounts,
        f"""
        select
            coalesce((select sum(messages) from session_words where session_id = :session), 0)
                as messages,
            count(tool_call.id) as calls,
            {count_if("label <> 'unknown'")} as judged, {count_if("label = 'error'")} as errors,
            (select count(*) from {LATE_CALLS}) as late,
            (select {count_if("label = 'error'")} from {LATE_CALLS}) as late_errors,
            coalesce(session.outcome, 'unknown') as outcome,
            session.outcome_evidence as evidence
        from session left join tool_call on {OWN_CALLS}
        where session.id = :session
        group by session.id, session.outcome, session.outcome_evidence
        """,
        {"session": session_id},
        {"evidence": read_list},
    )[0]


def find_own_template(store: Store, session_id: int) -> str | None:
    """Return the first live template of a session, if the session has not gone on since."""
    found = store.query(
        "select template.name from session"
        " join template_version on source_session = session.source || ':' || session.key"
        " join template on template.id = template_id"
        " where session.id = ? and retired_at is null and proposed_at is null"
        f" and {same('template.project', 'session.project')}"
        " and coalesce(session.ended_at, 0) <= template_version.created_at"
        " order by template.id limit 1",
        (session_id,),
    )
    return found[0][0] if found else None
