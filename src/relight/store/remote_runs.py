"""The table `remote_run`: runs whose slot this machine claimed at the server that it has joined."""

from msgspec import Struct

from relight.store import Store
from relight.store.jobs import JobRow, replace_job
from relight.store.runs import ClaimRow, insert_run
from relight.store.sql import find_first, insert, read_list


class RemoteRunRow(Struct, frozen=True):
    """A row of `remote_run`."""

    run_id: int
    server_run_id: int
    store_id: str
    holder: str


class EndedRun(RemoteRunRow, frozen=True):
    """A run that has ended here and that the server does not know yet; `status` is None if its
    claim was given back.
    """

    status: str | None
    outcome: str | None
    outcome_evidence: str | None
    attempts: int | None
    session: str | None
    finished_at: int | None
    model: str | None
    provider: str | None
    cost_nanos: int | None
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    failure_kind: str | None
    retry_at: int | None

    @property
    def evidence(self) -> list[str]:
        return read_list(self.outcome_evidence)


def add_remote_run(store: Store, job: JobRow, run: ClaimRow, row: RemoteRunRow) -> None:
    """Write a claimed run of the server; nothing if it was written before."""
    with store.transaction() as database:
        known = "select 1 from remote_run where run_id = ?"
        if find_first(database, known, (row.run_id,)) is None:
            insert(database, "remote_run", [row])
            replace_job(database, job)
            insert_run(database, run)


def find_remote_holders(store: Store) -> list[str]:
    """The holders, at the server, of runs whose results it does not have yet."""
    return store.list_values("select distinct holder from remote_run where is_reported = 0")


def read_ended(store: Store) -> list[EndedRun]:
    """Runs of the server that have ended here, or never began, and are not reported yet."""
    return store.read(
        EndedRun,
        """
            select remote_run.run_id, server_run_id, store_id, remote_run.holder, status,
                run.outcome, run.outcome_evidence, attempts,
                session.source || ':' || session.key as session, finished_at, run.model,
                run.provider, cost_nanos, input_tokens, cache_read_tokens, cache_write_tokens,
                output_tokens, failure_kind, retry_at
            from remote_run left join run on run.id = remote_run.run_id
            left join session on session.id = run.session_id
            where is_reported = 0 and (status is null or status not in ('claimed', 'running'))
        """,
    )


def set_reported(store: Store, run_id: int) -> None:
    """Note that the server has the result of a run."""
    store.write("update remote_run set is_reported = 1 where run_id = ?", (run_id,))
