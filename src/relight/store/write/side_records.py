"""Records beside sessions: runs of other schedulers, durations from logs, and reported limits."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from relight.model import Job, Run, row_id
from relight.store.jobs import JobRow
from relight.store.limits import write_limits
from relight.store.sql import Connection, insert, read, replacing
from relight.store.write.sealed import Sealed, TimingRow

MERGE_RUN = """
    on conflict (id) do update set
        status = excluded.status, error = excluded.error, started_at = excluded.started_at,
        finished_at = excluded.finished_at,
        session_id = coalesce(run.session_id, excluded.session_id), outcome = null
"""
# a log that has no id of a call is about the same moment as the record
MOMENT_MS = 10_000


class RunRow(Struct, frozen=True):
    """A row of `run` for another scheduler's run."""

    id: int
    source: str
    key: str
    job_id: int
    session_id: int | None
    status: str
    error: str | None
    scheduled_for: int | None
    started_at: int | None
    finished_at: int | None


class LatencyRow(Struct, frozen=True):
    """A row of `call_latency`."""

    id: int
    session_id: int
    model: str | None
    latency_ms: int


class TimedCall(Struct, frozen=True):
    """A finished tool call, as far as a log can know it."""

    id: int
    name: int | None
    tool: str
    finished_at: int


class LoggedCall(Struct, frozen=True):
    """A tool call in a log beside the record: its end and its duration."""

    name: int | None
    tool: str
    at: int
    duration_ms: int


def write_side_records(database: Connection, piece: Sealed) -> set[int]:
    """Write these records; return the sessions of the model calls that logs have durations of."""
    source = piece.source
    jobs = [_job_row(source, job) for job in piece.jobs]
    insert(database, "job", jobs, on_conflict=replacing(JobRow, "id"))
    # a job that was deleted, or whose file is read later: its runs have its id, and no more
    stubs = [_stub_row(source, run.job) for run in piece.runs]
    insert(database, "job", stubs, on_conflict="on conflict do nothing")
    runs = [_run_row(source, run) for run in piece.runs]
    insert(database, "run", runs, on_conflict=MERGE_RUN)
    insert(database, "call_timing", piece.timings, on_conflict=replacing(TimingRow, "id"))
    write_limits(database, piece.limits)
    latencies = [
        LatencyRow(
            row_id("latency", source, one.key),
            row_id("session", source, one.session),
            one.model,
            one.latency_ms,
        )
        for one in piece.latencies
    ]
    insert(database, "call_latency", latencies, on_conflict="on conflict do nothing")
    return {one.session_id for one in latencies}


def _job_row(source: str, job: Job) -> JobRow:
    skills = msgspec.json.encode(job.skills).decode()
    fields = asdict(job) | {"skills": skills}
    return JobRow(id=row_id("job", source, job.key), source=source, **fields)


def _stub_row(source: str, key: str) -> JobRow:
    return JobRow(id=row_id("job", source, key), source=source, key=key, name=f"{source}:{key}")


def _run_row(source: str, run: Run) -> RunRow:
    return RunRow(
        id=row_id("run", source, run.key),
        source=source,
        key=run.key,
        job_id=row_id("job", source, run.job),
        session_id=row_id("session", source, run.session) if run.session else None,
        status=run.status,
        error=run.error,
        scheduled_for=run.scheduled_for,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )


def refresh_durations(database: Connection, touched: Iterable[int]) -> None:
    """Give calls of these sessions the durations that logs have.

    A call is known by the agent's id of it. Servers that number the calls of each response from
    the start use an id again, so the moment decides among those. If the log has no id, tool and
    moment decide. No logged call stands for two calls: those of one response end together.
    """
    for session_id in touched:
        logged = read(
            database,
            LoggedCall,
            "select name, tool, at, duration_ms from call_timing where session_id = ?"
            " order by at, id",
            (session_id,),
        )
        if not logged:
            continue
        calls = read(
            database,
            TimedCall,
            "select id, name, tool, finished_at from tool_call where session_id = ?"
            " and finished_at is not null",
            (session_id,),
        )
        database.executemany(
            "update tool_call set duration_ms = ? where id = ?", match_durations(calls, logged)
        )


def match_durations(
    calls: Sequence[TimedCall], logged: Sequence[LoggedCall]
) -> Iterator[tuple[int, int]]:
    """Yield the duration and the id of each call that a log has, nearest first."""
    named: dict[int | None, list[int]] = {}
    of_tool: dict[str, list[int]] = {}
    for number, one in enumerate(logged):
        if one.name is not None:
            named.setdefault(one.name, []).append(number)
        of_tool.setdefault(one.tool, []).append(number)
    near = []
    for call in calls:
        near += [
            (False, abs(logged[number].at - call.finished_at), call.id, number)
            for number in (*named.get(call.name, ()), *named.get(call.id, ()))
        ]
        for number in of_tool.get(call.tool, ()):
            apart = abs(logged[number].at - call.finished_at)
            if apart <= MOMENT_MS and (logged[number].name is None or call.name is None):
                near.append((True, apart, call.id, number))
    matched: set[int] = set()
    taken: set[int] = set()
    for _, _, call_id, number in sorted(near):
        if call_id not in matched and number not in taken:
            matched.add(call_id)
            taken.add(number)
            yield logged[number].duration_ms, call_id
