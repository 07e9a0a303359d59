"""Join telemetry with the records of an agent's files: each call counts once.

A report belongs to the turn with the same request, else to the nearest turn with the same tokens.
It gives that turn its duration, the time to the first token, its cost, and its tokens if the record
was cut short. A report without a turn becomes one: of a call that no file has, or before the file
is read. All of this is a function of the rows, so the order of arrival does not matter.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict

from relight.model import TOKENS, WHOLE_TOKENS, Cost, CostStatus, TokenColumns, Turn, row_id
from relight.store.derive.pricing import Pricing
from relight.store.derive.rollup import days_of
from relight.store.sql import Connection, greatest, insert, least, read, write_touched
from relight.store.write.sealed import Sealed, TurnRow, name_request, name_tokens, usage_of

# without an id, a report and a record with the same tokens are about the same time
MOMENT_MS = 600_000
# of a failure there may be a record in other words, a moment later
FAILED_MOMENT_MS = 15_000
# a log record and a span of one call end together, but for the moment between them
SAME_END_MS = 1000
# one call may be reported by a log record and by a span
MERGE_REPORT = f"""
    on conflict (id) do update set
        at = {least("call_report.at", "excluded.at")},
        duration_ms = {greatest("call_report.duration_ms", "excluded.duration_ms")},
        first_token_ms = {least("call_report.first_token_ms", "excluded.first_token_ms")},
        cost_nanos = coalesce(call_report.cost_nanos, excluded.cost_nanos),
        cost_source = coalesce(call_report.cost_source, excluded.cost_source),
        cost_status = case when call_report.cost_nanos is null then excluded.cost_status
            else call_report.cost_status end,
        {", ".join(f"{name} = coalesce(call_report.{name}, excluded.{name})" for name in TOKENS)}
"""
# the families of these sessions that have reports
ROOTS = """
    select distinct session.root_id, session.source from session
    where root_id in (select root_id from session where id in (select id from touched))
        and id in (select session_id from call_report)
"""
REMOVE = """
    delete from turn where id in (select call_report.id from call_report
        join session on session.id = call_report.session_id where root_id = ?)
    returning session_id
"""
FILL_TIMES = """
    update turn set duration_ms = coalesce(duration_ms, :duration_ms),
        first_token_ms = coalesce(first_token_ms, :first_token_ms)
    where id = :turn
"""
FILL_COST = """
    update turn set cost_nanos = :cost_nanos, cost_status = :cost_status,
        cost_source = :cost_source
    where id = :turn and cost_status in ('estimated', 'unknown')
"""
FILL_TOKENS = f"""
    update turn set usage_status = 'final', {", ".join(f"{one} = :{one}" for one in TOKENS)}
    where id = :turn
"""
# The time of a session that only telemetry has: a file's own times replace it.
DATE = """
    update session set
        started_at = (select min(at) from call_report where session_id = session.id),
        ended_at = (select max(at + coalesce(duration_ms, 0)) from call_report
            where session_id = session.id),
        model = coalesce(model, (select call_report.model from call_report
            where session_id = session.id and call_report.model is not null
            order by at desc limit 1))
    where root_id = ? and ending is null
        and id in (select session_id from call_report)
        and not exists (select 1 from turn where turn.session_id = session.id
            and id not in (select id from call_report))
"""
UNDATE = """
    update session set started_at = null, ended_at = null
    where id in (select id from touched) and ending is null
        and id in (select session_id from call_report)
        and not exists (select 1 from turn where turn.session_id = session.id
            and id not in (select id from call_report))
"""


# Reported tool calls of the families of these sessions that the agent's own record has as well.
RECORDED = """
    select tool_call.id, tool_call.session_id from call_timing
    join tool_call on tool_call.id = call_timing.report_id
    join session on session.id = call_timing.session_id
    where session.root_id in
            (select root_id from session where id in (select id from touched))
        and exists (select 1 from tool_call as own where own.id = call_timing.name)
"""
OF_CALL = (("tool_call", "id"), ("file_edit", "call_id"), ("git_commit", "call_id"))


class CallReportRow(TokenColumns, frozen=True):
    """A row of `call_report`."""

    id: int
    session_id: int
    request: int | None
    at: int | None
    model: str | None
    provider: str | None
    calls: int
    usage_status: str
    cost_nanos: int | None
    cost_status: CostStatus
    cost_source: str | None
    duration_ms: int | None
    first_token_ms: int | None
    failure: str | None
    failure_text: str | None


class JoinedTurn(TokenColumns, frozen=True):
    """A turn of an agent's record, as far as a report may concern it."""

    id: int
    session_id: int
    request: int | None
    at: int | None
    calls: int
    usage_status: str
    failure: str | None
    duration_ms: int | None


def _columns(table: str, row: type[TokenColumns]) -> str:
    return ", ".join(f"{table}.{name}" for name in row.__struct_fields__)


REPORTS = f"""
    select {_columns("call_report", CallReportRow)}
    from call_report join session on session.id = session_id
    where root_id = ? order by call_report.at, call_report.id
"""
TURNS = f"""
    select {_columns("turn", JoinedTurn)} from turn join session on session.id = session_id
    where root_id = ? and total_id is null and usage_status <> 'unanswered'
        and coalesce(role, '') not in ('reference', 'compaction')
"""


def write_reports(database: Connection, pieces: Sequence[Sealed], touched: Iterable[int]) -> None:
    """Write what telemetry reports, and take away the times that it gave to these sessions.

    Their own records may follow, whose times count; `join` dates those that still have none.
    """
    write_touched(database, touched)
    database.execute(UNDATE)
    rows = [
        _report_row(piece.source, report_id, turn)
        for piece in pieces
        for report_id, turn in piece.reports
    ]
    insert(database, "call_report", rows, on_conflict=MERGE_REPORT)


def _report_row(source: str, report_id: int, turn: Turn) -> CallReportRow:
    cost = turn.cost or Cost(None, "unknown", None)
    return CallReportRow(
        **name_tokens(turn.usage),
        id=report_id,
        session_id=row_id("session", source, turn.session),
        request=name_request(source, turn),
        at=turn.at,
        model=turn.model,
        provider=turn.provider,
        calls=turn.calls,
        usage_status=turn.usage_status,
        cost_nanos=cost.nanos,
        cost_status=cost.status,
        cost_source=cost.source,
        duration_ms=turn.duration_ms,
        first_token_ms=turn.first_token_ms,
        failure=turn.failure,
        failure_text=turn.failure_text,
    )


def join_reports(database: Connection, touched: Iterable[int], pricing: Pricing) -> set[int]:
    """Give reports to the turns of these sessions' families; return the sessions that changed."""
    write_touched(database, touched)
    changed = _drop_recorded_calls(database)
    for root_id, source in database.execute(ROOTS).fetchall():
        changed |= {one for (one,) in database.execute(REMOVE, (root_id,)).fetchall()}
        reports = drop_repeated(read(database, CallReportRow, REPORTS, (root_id,)))
        turns = read(database, JoinedTurn, TURNS, (root_id,))
        pairs = match_reports(turns, reports)
        by_id = {one.id: one for one in turns}
        alone = []
        for report in reports:
            turn = by_id.get(pairs.get(report.id, 0))
            if turn is None:
                alone.append(report)
                changed.add(report.session_id)
            else:
                _fill(database, turn, report)
                changed.add(turn.session_id)
        _write_alone(database, source, alone, pricing)
        database.execute(DATE, (root_id,))
    return changed


def _drop_recorded_calls(database: Connection) -> set[int]:
    """Remove reported tool calls that the agent's own record has; return their sessions."""
    found = database.execute(RECORDED).fetchall()
    for table, column in OF_CALL:
        rows = [(call_id,) for call_id, _ in found]
        database.executemany(f"delete from {table} where {column} = ?", rows)
    return {session_id for _, session_id in found}


def drop_repeated(reports: Sequence[CallReportRow]) -> list[CallReportRow]:
    """Return the reports without the spans of calls that a log record reports as well.

    If the server sent a request id, they are one report already. Only log records have a cost.
    """
    plain = [one for one in reports if one.request is None and one.failure is None]
    logs = [one for one in plain if one.cost_nanos is not None]
    near = sorted(
        (distance, span.id, log.id)
        for span in (one for one in plain if one.cost_nanos is None)
        for log in logs
        if (distance := abs(_find_end(span) - _find_end(log))) <= SAME_END_MS
        and (span.session_id, _tokens(span)) == (log.session_id, _tokens(log))
    )
    repeated: set[int] = set()
    taken: set[int] = set()
    for _, span_id, log_id in near:
        if span_id not in repeated and log_id not in taken:
            repeated.add(span_id)
            taken.add(log_id)
    return [one for one in reports if one.id not in repeated]


def _find_end(report: CallReportRow) -> int:
    return (report.at or 0) + (report.duration_ms or 0)


def match_reports(turns: Sequence[JoinedTurn], reports: Sequence[CallReportRow]) -> dict[int, int]:
    """Return the turn of each report that has one: the same request, else the nearest in time."""
    named = {one.request: one.id for one in turns if one.request is not None}
    pairs = {
        one.id: named[one.request]
        for one in reports
        if one.failure is None and one.request is not None and one.request in named
    }
    near = sorted(
        (distance, report.id, turn.id)
        for report in reports
        if report.id not in pairs
        for turn in turns
        if (distance := _measure(turn, report)) is not None
    )
    taken = set(pairs.values())
    for _, report_id, turn_id in near:
        if report_id not in pairs and turn_id not in taken:
            pairs[report_id] = turn_id
            taken.add(turn_id)
    return pairs


def _measure(turn: JoinedTurn, report: CallReportRow) -> int | None:
    """Return how far a turn is from a report in time; None if they are of different calls."""
    if turn.at is None or report.at is None or (turn.failure is None) != (report.failure is None):
        return None
    if report.failure is None and _tokens(turn) != _tokens(report):
        return None
    if turn.request is not None and report.request is not None and report.failure is None:
        return None
    apart = max(report.at - turn.at, turn.at - _find_end(report), 0)
    most = MOMENT_MS if report.failure is None else FAILED_MOMENT_MS
    return apart if apart <= most else None


def _tokens(row: TokenColumns) -> list[int]:
    return [getattr(row, name) or 0 for name in WHOLE_TOKENS]


def _fill(database: Connection, turn: JoinedTurn, report: CallReportRow) -> None:
    """Give a turn what its record lacks; the tokens only if the record was cut short."""
    values = asdict(report) | {"turn": turn.id}
    database.execute(FILL_TIMES, values)
    if report.cost_nanos is not None:
        database.execute(FILL_COST, values)
    if turn.usage_status == "partial" and report.output_tokens is not None:
        database.execute(FILL_TOKENS, values)


def _write_alone(
    database: Connection, source: str, reports: Sequence[CallReportRow], pricing: Pricing
) -> None:
    """Write the reports that have no turn as turns."""
    read_day = days_of(database)
    rows = []
    for one in reports:
        given = Cost(one.cost_nanos, one.cost_status, one.cost_source)
        turn = Turn(
            key="",
            session="",
            at=one.at,
            model=one.model,
            provider=one.provider,
            calls=one.calls,
            usage=usage_of(one),
            cost=given if one.cost_nanos is not None else None,
        )
        cost = pricing.price(one.id, turn, source=source)
        figures = asdict(one) | {
            "day": read_day(one.at),
            "role": None,
            "cost_nanos": cost.nanos,
            "cost_status": cost.status,
            "cost_source": cost.source,
        }
        rows.append(TurnRow(**figures))
    insert(database, "turn", rows)
