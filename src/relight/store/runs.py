"""The tables `run` and `run_attempt`: Relight's own runs from claim to end, and their sessions.

A run is `claimed` by a holder, then `running`, then ended. The holder is the process that has the
lease. The functions here read and write rows; the rules are in `work/jobs/`.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict, astuple

from relight.config import Config
from relight.store import Store
from relight.store.jobs import restore_slot
from relight.store.sql import Connection, find_first, flag, insert_into

_OPEN = "source = 'relight' and status in ('claimed', 'running')"


class ClaimRow(Struct, frozen=True, kw_only=True):
    """A row of `run` as it is first written: claimed, running or skipped."""

    id: int
    source: str = "relight"
    key: str
    job_id: int
    status: str
    scheduled_for: int | None = None
    started_at: int | None = None
    note: str | None = None
    holder: str | None = None
    lease_until: int | None = None
    outcome: str | None = None
    outcome_evidence: str | None = None


class RunEndRow(Struct, frozen=True, kw_only=True):
    """The columns of `run` that are known when the run has ended."""

    status: str
    error: str | None
    finished_at: int | None
    outcome: str
    outcome_evidence: str
    attempts: int
    model: str | None
    provider: str | None
    cost_nanos: int | None
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    answer_file: str | None
    delivery: str | None
    warnings: str | None
    failure_kind: str | None
    retry_at: int | None


class BegunRun(Struct, frozen=True):
    """A run that has just begun, with its job's definition."""

    key: str
    job: str
    scheduled_for: int | None
    definition: str
    # JSON: the settings of a model on trial that this run was dealt
    change: str | None


class HeldRun(Struct, frozen=True):
    """A run that has not ended."""

    id: int
    key: str
    status: str


class InterruptedRun(Struct, frozen=True):
    """A run that ended as `unknown`, and when the next run of the same job began."""

    holder: str
    outcome_evidence: str
    finished_at: int | None
    next_started_at: int | None


class RunCost(Struct, frozen=True):
    """Known cost of a run; `is_unpriced` is 1 if part of it is unknown."""

    cost_nanos: int | None
    is_unpriced: int


class SessionCost(Struct, frozen=True):
    """Cost and tokens of a session with its sub-agents."""

    cost_nanos: int | None
    unpriced_turns: int
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None


class RecordedSession(Struct, frozen=True):
    """A session by its id and its name `source:key`, and its start."""

    id: int
    name: str
    started_at: int | None


def insert_run(database: Connection, row: ClaimRow) -> bool:
    """Write a new run; False if there is one for the same slot already."""
    statement = insert_into("run", ClaimRow, "on conflict do nothing")
    return database.execute(statement, astuple(row)).rowcount == 1


def find_open_run(store: Store, job_id: int) -> str | None:
    """The key of the job's run that is claimed or running."""
    return store.find_first(f"select key from run where job_id = ? and {_OPEN}", (job_id,))


def find_held_runs(store: Store, holder: str, status: str) -> list[HeldRun]:
    """Return the open runs of a holder with this status, claimed or running."""
    return store.read(
        HeldRun,
        f"select * from run where holder = ? and {_OPEN} and status = ?"
        " order by scheduled_for nulls first, id",
        (holder, status),
    )


def find_held_run(store: Store, run_id: int, holder: str) -> HeldRun | None:
    """The run with this id if it is this holder's, open or ended."""
    statement = "select * from run where id = ? and holder = ?"
    return store.find(HeldRun, statement, (run_id, holder))


def set_running(store: Store, run_id: int, holder: str, *, now: int) -> BegunRun | None:
    """Set a claimed run to running; None if the claim is not this holder's any more."""
    with store.transaction() as database:
        begun = database.execute(
            "update run set status = 'running', started_at = ?"
            " where id = ? and holder = ? and status = 'claimed'",
            (now, run_id, holder),
        )
        return read_begun(store, run_id) if begun.rowcount else None


def read_begun(store: Store, run_id: int) -> BegunRun:
    """A run with its job's definition."""
    return store.read(
        BegunRun,
        """
            select run.key as key, job.key as job, scheduled_for, definition, (
                select change from canary_deal join canary on canary.id = canary_id
                where canary_deal.run_id = run.id and is_candidate = 1
            ) as change
            from run join job on job.id = run.job_id where run.id = ?
        """,
        (run_id,),
    )[0]


def renew_lease(store: Store, holder: str, *, until: int) -> None:
    """Extend the lease on all open runs of a holder."""
    store.write(f"update run set lease_until = ? where holder = ? and {_OPEN}", (until, holder))


def read_leases(store: Store) -> dict[str, int | None]:
    """The holders of all open runs, and when their leases end."""
    rows = store.query(f"select holder, max(lease_until) from run where {_OPEN} group by holder")
    return dict(rows)


def return_claims(store: Store, holder: str) -> None:
    """Delete the claims of a holder whose runs never began, and make their slots due again."""
    with store.transaction() as database:
        rows = database.execute(
            f"select id, job_id, scheduled_for from run where holder = ? and {_OPEN}"
            " and status = 'claimed'",
            (holder,),
        ).fetchall()
        for run_id, job_id, slot in rows:
            database.execute("delete from run where id = ?", (run_id,))
            restore_slot(database, job_id, slot)


def write_run_end(
    store: Store,
    run_id: int,
    end: RunEndRow,
    *,
    holder: str,
    session_id: int | None,
    earlier: Sequence[int],
) -> bool:
    """Write how a run ended, join its sessions, and derive what depends on them.

    False if the run is not this holder's or has another end already. A run that was given up as
    `unknown`, and whose process was alive after all, may still be finished.
    """
    with store.transaction() as database:
        own = session_id
        if own is not None and _is_of_other_run(database, own, run_id):
            # a continued session stays with its first run, or its cost would count twice
            own = None
        values = {**asdict(end), "session_id": own}
        columns = ", ".join(f"{name} = ?" for name in values)
        written = database.execute(
            f"update run set {columns}, lease_until = null"
            " where id = ? and holder = ? and status in ('claimed', 'running', 'unknown')",
            (*values.values(), run_id, holder),
        )
        if not written.rowcount:
            return False
        database.executemany(
            "insert into run_attempt (session_id, run_id) values (?, ?) on conflict do nothing",
            [(one, run_id) for one in earlier],
        )
        if sessions := {*earlier, *([own] if own is not None else [])}:
            _derive(database, sessions, store.config)
    return True


def _is_of_other_run(database: Connection, session_id: int, run_id: int) -> bool:
    other = "select 1 from run where session_id = ? and id <> ?"
    return find_first(database, other, (session_id, run_id)) is not None


def _derive(database: Connection, sessions: set[int], config: Config) -> None:
    """Update the sums and outcomes of sessions, and their skill uses, after their run has ended.

    Only the run says whether its session was cut off inside a model call.
    """
    from relight.store.derive import outcomes, rollup, unanswered
    from relight.store.derive.skills import uses

    rollup.refresh(database, unanswered.refresh(database, sessions, config))
    uses.refresh(database, outcomes.refresh(database, sessions))


def has_ended(store: Store, run_id: int) -> bool:
    """True if the run is neither claimed nor running."""
    ended = "select 1 from run where id = ? and status not in ('claimed', 'running')"
    return bool(store.query(ended, (run_id,)))


def find_interrupted_run(store: Store, run_id: int) -> InterruptedRun | None:
    """The run with this id if it ended as `unknown`."""
    return store.find(
        InterruptedRun,
        """
            select holder, outcome_evidence, finished_at, (
                select min(started_at) from run as later
                where later.job_id = run.job_id and later.started_at > run.started_at
            ) as next_started_at
            from run where id = ? and status = 'unknown'
        """,
        (run_id,),
    )


def read_run_costs(
    store: Store, *, since: int, except_run: int, job: str | None = None
) -> list[RunCost]:
    """The costs of one job's runs, or of all, since a moment.

    A run knows what its attempts cost; otherwise the known cost of their sessions counts, with
    sub-agents.
    """
    where = "" if job is None else "and job.key = ?"
    sessions = (
        "root_id = run.session_id"
        " or root_id in (select session_id from run_attempt where run_id = run.id)"
    )
    return store.read(
        RunCost,
        f"""
            select coalesce(cost_nanos, priced) as cost_nanos,
                {flag("cost_nanos is null and (priced is null or unpriced > 0)")} as is_unpriced
            from (
                select run.cost_nanos, (
                    select sum(cost_nanos) from session_day where {sessions}
                ) as priced, (
                    select sum(unpriced_turns) from session_day where {sessions}
                ) as unpriced
                from run join job on job.id = run.job_id
                where run.source = 'relight' and run.machine_id is null
                    and run.started_at >= ? and run.id <> ?
                    and (run.session_id is not null or run.cost_nanos is not null) {where}
            ) as spent
        """,
        (since, except_run, *([] if job is None else [job])),
    )


def find_earlier_runs(store: Store, run_id: int) -> dict[str, str]:
    """The runs that began before this one and are still running, with their jobs' definitions.

    The order is total, so that of two runs exactly one gives way to the other.
    """
    rows = store.query(
        """
            select run.key, definition from run join job on job.id = run.job_id
            where run.source = 'relight' and run.status = 'running'
                and (run.started_at, run.id) < (select started_at, id from run where id = ?)
        """,
        (run_id,),
    )
    return dict(rows)


def read_session_cost(store: Store, session_id: int) -> SessionCost:
    """Cost and tokens of a session; all None if nothing is recorded."""
    return store.read(
        SessionCost,
        """
            select sum(cost_nanos) as cost_nanos,
                coalesce(sum(unpriced_turns), 0) as unpriced_turns,
                sum(input_tokens) as input_tokens, sum(cache_read_tokens) as cache_read_tokens,
                sum(cache_write_tokens) as cache_write_tokens,
                sum(output_tokens) as output_tokens
            from session_day where root_id = ?
        """,
        (session_id,),
    )[0]


def find_recorded_session(store: Store, session_id: int) -> RecordedSession | None:
    """The session with this id, if it is recorded."""
    statement = "select id, source || ':' || key as name, started_at from session where id = ?"
    return store.find(RecordedSession, statement, (session_id,))


def find_sessions_named_after(store: Store, run_key: str) -> list[str]:
    """Relight's own sessions of a run, one for each attempt: `<run key>-…`."""
    return store.list_values(
        "select source || ':' || key from session"
        " where source = 'relight' and key > ? || '-' and key < ? || '.' and parent_id is null"
        " order by started_at nulls first, key",
        (run_key, run_key),
    )


def find_unclaimed_sessions(
    store: Store, *, source: str | None, begin: int, end: int
) -> list[RecordedSession]:
    """Other agents' sessions that began between two moments and belong to no run."""
    where = "" if source is None else "and source = ?"
    return store.read(
        RecordedSession,
        f"""
            select id, source || ':' || key as name, started_at from session
            where (parent_id is null or parent_kind = 'fork')
                and started_at between ? and ? and source <> 'relight' {where}
                and not exists (select 1 from run where run.session_id = session.id)
                and not exists (
                    select 1 from run_attempt where run_attempt.session_id = session.id
                )
            order by started_at, key
        """,
        (begin, end, *([] if source is None else [source])),
    )
