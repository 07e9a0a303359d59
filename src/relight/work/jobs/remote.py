"""Runs of jobs of the server that this machine has joined, claimed there and run here.

A slot is begun at the server first. From then on the server never gives it to anybody else, so a
kill at any moment leaves it begun once. Here it becomes a run of this store, and everything that
watches over runs watches over it. Its result is reported until the server has it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from relight.errors import RelightError
from relight.intake.pushed_facts import EVIDENCE
from relight.intake.team_client import Line, ServerError, find_token
from relight.intake.wire import Naming, cut_model
from relight.model import Usage, row_id
from relight.store import Store, remote_runs
from relight.store.runs import ClaimRow
from relight.store.team import TeamTarget, read_own_id, read_target
from relight.work.jobs.board import BegunSlot, ServerBoard
from relight.work.jobs.job import JobResult
from relight.work.jobs.leases import HEARTBEAT_MS, LEASE_MS
from relight.work.jobs.registry import make_row

POLL_MS, TROUBLE_MS = 2_000, 30_000
SECONDS = 5.0
GONE = "its process ended before it began; it is not repeated"


class RemoteRuns:
    """The server's runs on this machine, for one scheduler.

    `tick` claims what is due there and writes it to this store as claimed by the scheduler's own
    holder. Trouble with the server is reported and tried again later; runs here go on.
    """

    def __init__(
        self,
        store: Store,
        target: TeamTarget,
        board: ServerBoard,
        *,
        report: Callable[[str, object], None] = lambda kind, value: None,
        poll_ms: int | None = None,
    ) -> None:
        self._store = store
        self._target = target
        self._board = board
        self._report = report
        self._poll_ms = POLL_MS if poll_ms is None else poll_ms
        self._next_at = 0
        self._kept_at = 0

    def tick(self, holder: str, *, free: int, now: int) -> None:
        """Report results, keep leases, and claim up to so many runs if that is due."""
        ended = remote_runs.read_ended(self._store)
        if now < self._next_at and not ended:
            return
        self._next_at = now + self._poll_ms
        try:
            self._report_ended(ended)
            self._keep(now)
            if free > 0:
                for run_id in self._board.claim(holder, limit=free):
                    if begun := self._board.begin(run_id, holder):
                        self._take_over(begun, holder, now=now)
        except ServerError as error:
            self._next_at = now + TROUBLE_MS
            self._report("trouble", error)

    def _keep(self, now: int) -> None:
        if now > self._kept_at + HEARTBEAT_MS:
            for holder in remote_runs.find_remote_holders(self._store):
                self._board.keep(holder)
            self._kept_at = now

    def _take_over(self, begun: BegunSlot, holder: str, *, now: int) -> None:
        """Write a run of the server as one of this store, once."""
        name = f"{begun.job.name}@team"
        key = f"{begun.run.key}@team"
        run = ClaimRow(
            id=row_id("run", "relight", f"{key}@{self._target.store_id}"),
            key=key,
            job_id=row_id("job", "relight", name),
            status="claimed",
            started_at=None,
            holder=holder,
            lease_until=now + LEASE_MS,
            note=f"for {self._target.url}",
        )
        # never scheduled here, whatever happens to the run
        job = make_row(begun.job, begun.job, state="removed", due=None)
        job = replace(job, id=run.job_id, key=name, name=name, place=None)
        row = remote_runs.RemoteRunRow(run.id, begun.run.id, self._target.store_id, holder)
        remote_runs.add_remote_run(self._store, job, run, row)

    def _report_ended(self, ended: Sequence[remote_runs.EndedRun]) -> None:
        for one in ended:
            if one.store_id == self._target.store_id:
                naming = Naming(self._target.machine, self._target.share == "figures")
                result = make_sent_result(one, naming)
                self._board.finish(one.server_run_id, result, holder=one.holder)
            # the server that has another store now has no such run
            remote_runs.set_reported(self._store, one.run_id)


def make_sent_result(ended: remote_runs.EndedRun, naming: Naming) -> JobResult:
    """Return the result of a run as the server gets it; at the level of figures without words."""
    if ended.status is None:
        return JobResult(status="unknown", outcome="unknown", evidence=[GONE], attempts=0)
    session = None
    if ended.session is not None:
        source, _, key = ended.session.partition(":")
        session = f"{source}:{naming.name_session(source, key)}"
    # by its name each: a field that is added to both must not leave with the figures unseen
    return JobResult(
        status=ended.status,  # type: ignore[arg-type]
        outcome=ended.outcome or "unknown",  # type: ignore[arg-type]
        evidence=EVIDENCE if naming.hides else ended.evidence,
        attempts=ended.attempts or 0,
        session=session,
        finished_at=ended.finished_at,
        model=cut_model(ended.model) if naming.hides else ended.model,
        provider=ended.provider,
        cost_nanos=ended.cost_nanos,
        usage=Usage(
            input=ended.input_tokens,
            cache_read=ended.cache_read_tokens,
            cache_write=ended.cache_write_tokens,
            output=ended.output_tokens,
        ),
        failure_kind=ended.failure_kind,
        retry_at=ended.retry_at,
    )


def find_remote_runs(
    store: Store, report: Callable[[str, object], None] = lambda kind, value: None
) -> RemoteRuns | None:
    """Return the runs of the server that this machine has joined; None if it does none for it.

    `[jobs] for_team = true` lets this machine run them.
    """
    target = read_target(store)
    if target is None or not store.config.jobs.for_team:
        return None
    with suppress(RelightError):
        line = Line(target.url, find_token(target.token_file), seconds=SECONDS)
        board = ServerBoard(line, machine=read_own_id(store))
        return RemoteRuns(store, target, board, report=report)
    return None
