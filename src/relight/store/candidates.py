"""Candidates for templates: the counts by which a session clears the bar, and those that do."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from relight.store import Store
from relight.store.queries.steps import OWN_CALLS
from relight.store.sql import Connection, count_if, flag, list_marks, read_list, same

# the later half of the judged calls among some
LATE_CALLS = """(
    select label from (
        select label, row_number() over (order by at nulls last, place) as number,
            count(*) over () as calls
        from {calls} where label <> 'unknown'
    ) as judged where number > calls / 2
) as late_calls"""


class SourceSession(Struct, frozen=True):
    """The facts about a session that a template is made from."""

    name: str
    project: str | None
    title: str | None
    outcome: str | None
    outcome_evidence: str | None


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


class SessionBar(Struct, frozen=True):
    """The conditions for a template to be made from a session without a person's request."""

    least_calls: int
    least_messages: int
    failure_rate: float
    # of all calls, if those of the later half hardly ever failed
    recovered_rate: float


def count_candidates(store: Store) -> int:
    """Return the number of candidates that wait for a person."""
    waiting = "select count(*) from template where proposed_at is not null and retired_at is null"
    return int(store.query(waiting)[0][0])


def count_proposed(store: Store, *, since: int) -> int:
    """Return the number of candidates proposed since a time in milliseconds."""
    ((count,),) = store.query("select count(*) from template where proposed_at >= ?", (since,))
    return int(count)


def read_source_session(store: Store, session_id: int) -> SourceSession:
    """Return what the database holds about a session that a template is made from."""
    return store.read(
        SourceSession,
        "select source || ':' || key as name, project, title, outcome, outcome_evidence"
        " from session where id = ?",
        (session_id,),
    )[0]


# Successful sessions without a template whose calls hardly ever failed, at least in the later half.
# Signs of success are enough for a candidate: what it is worth is measured.
_CLEARS_BAR = """
    ({is_good}) and root_id = session.id and is_frozen = 0
        and (select sum(tool_calls) from session_day where session_id = session.id) >= {calls}
        and (select sum(messages) from session_words where session_id = session.id) >= {messages}
        and not exists (
            select 1 from template_version where source_session = source || ':' || key)
"""
_IS_GOOD = """(outcome = 'success' or points_to = 'success')
    and (select sum(tool_failures) <= {rate} * sum(tool_calls) from session_day
            where session_id = session.id)
        or (outcome = 'success' or points_to = 'success')
    and (select sum(tool_failures) <= {recovered} * sum(tool_calls) from session_day
            where session_id = session.id)
    and (select {errors} <= {rate} * count(*) from {late})"""
# a task before the last one may have succeeded whatever became of the session
_HAS_PROMPTS = "(select sum(user_messages) from session_words where session_id = session.id) > 1"
_NEWEST_FIRST = "order by started_at desc nulls last, session.id"
_SUCCESSES_FIRST = _NEWEST_FIRST.replace(
    "by", f"""by {flag("coalesce(outcome, '') = 'success'")} desc,""", 1
)


def _clear_bar(database: Connection, bar: SessionBar) -> str:
    """The test of sessions that clear the bar.

    Of a session with several tasks an earlier one can count only if some sign proves an outcome.
    """
    from relight.store.derive.outcomes import read_proven  # loads the rules of verdicts

    own = "(select * from tool_call where tool_call.session_id = session.id) as tool_call"
    is_good = _IS_GOOD.format(
        rate=bar.failure_rate,
        recovered=bar.recovered_rate,
        errors=count_if("label = 'error'"),
        late=LATE_CALLS.format(calls=own),
    )
    if read_proven(database):
        is_good += f" or {_HAS_PROMPTS}"
    return _CLEARS_BAR.format(is_good=is_good, calls=bar.least_calls, messages=bar.least_messages)


def find_good_sessions(store: Store, bar: SessionBar, *, limit: int) -> list[tuple[int, str]]:
    """Return ids and names of sessions that clear the bar and made no template, newest first."""
    with store.reading() as database:
        found = database.execute(
            "select session.id, source || ':' || key from session"
            f" where {_clear_bar(database, bar)} {_SUCCESSES_FIRST} limit ?",
            (limit,),
        )
        return [(session_id, name) for session_id, name in found]


def take_due(
    store: Store,
    touched: Collection[int],
    bar: SessionBar,
    *,
    over_before: int,
    tape_bytes: int,
    complete: Sequence[str],
) -> list[int]:
    """Return the touched and postponed sessions that clear the bar, are over, and succeeded.

    Sessions that clear the bar but may go on are postponed to a later call. The sources `complete`
    record only sessions that are over, and a session with a recorded outcome has ended. What only
    points to a success makes no template, so such a session need not be read.
    """
    from relight.store.derive.outcomes import read_proven  # loads the rules of verdicts

    source = f"source in ({list_marks(complete)})"
    is_over = f"coalesce(ended_at, 0) <= ? or {source} or told_outcome is not null"
    with store.transaction() as database:
        _insert_due(database, touched)
        succeeded = "outcome = 'success'"
        if read_proven(database):
            succeeded += f" or {_HAS_PROMPTS}"
        rows = database.execute(
            f"select session.id, {flag(is_over)}, {flag(succeeded)}"
            f" from session where {_clear_bar(database, bar)}"
            " and session.id in (select session_id from candidate_due)"
            " and (select sum(length(records)) from tape_part where session_id = session.id) <= ?"
            f" {_NEWEST_FIRST}",
            (over_before, *complete, tape_bytes),
        ).fetchall()
        database.execute("delete from candidate_due")
        _insert_due(database, [found for found, is_ended, _ in rows if not is_ended])
    return [found for found, is_ended, has_succeeded in rows if is_ended and has_succeeded]


def postpone(store: Store, sessions: Collection[int]) -> None:
    """Keep sessions for a later `take_due`."""
    with store.transaction() as database:
        _insert_due(database, sessions)


def _insert_due(database: Connection, sessions: Collection[int]) -> None:
    database.executemany(
        "insert into candidate_due (session_id) values (?) on conflict (session_id) do nothing",
        [(one,) for one in sessions],
    )


def read_gate_counts(store: Store, session_id: int) -> GateCounts:
    """Return the counts of a session and of the calls in it, copied ones included."""
    late = LATE_CALLS.format(calls=OWN_CALLS)
    return store.read(
        GateCounts,
        f"""
        select
            coalesce((select sum(messages) from session_words where session_id = :session), 0)
                as messages,
            count(tool_call.id) as calls,
            {count_if("label <> 'unknown'")} as judged, {count_if("label = 'error'")} as errors,
            (select count(*) from {late}) as late,
            (select {count_if("label = 'error'")} from {late}) as late_errors,
            coalesce(session.outcome, 'unknown') as outcome,
            session.outcome_evidence as evidence
        from session left join {OWN_CALLS} on 1 = 1
        where session.id = :session
        group by session.id, session.outcome, session.outcome_evidence
        """,
        {"session": session_id},
        {"evidence": read_list},
    )[0]


def find_own_template(store: Store, session_id: int) -> str | None:
    """Return the first live template of a session, if the session has not gone on since."""
    return store.find_first(
        "select template.name from session"
        " join template_version on source_session = session.source || ':' || session.key"
        " join template on template.id = template_id"
        " where session.id = ? and retired_at is null and proposed_at is null"
        f" and {same('template.project', 'session.project')}"
        " and coalesce(session.ended_at, 0) <= template_version.created_at"
        " order by template.id limit 1",
        (session_id,),
    )
