"""The scheduler: claims due runs in the store and hands them to its workers.

Any number of schedulers may share a store. An idle one reads one row of an index twice a second.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from relight.errors import StoreError
from relight.store import Store
from relight.store.jobs import find_next_due
from relight.work.jobs import slots
from relight.work.jobs.job import JobResult
from relight.work.jobs.leases import HEARTBEAT_MS, Holder
from relight.work.jobs.lost_runs import find_dead, find_uncollected, mark_lost, settle_dead
from relight.work.jobs.pool import EXECUTE, WorkerEvent, WorkerPool

if TYPE_CHECKING:
    from relight.work.jobs.remote import RemoteRuns

POLL_SECONDS = 0.5
TROUBLE_SECONDS = 5.0
# a worker is started this long before a slot
AHEAD_MS = 3000
# a smaller step back of the clock is an ordinary correction
SET_BACK_MS = 60_000


class Scheduler:
    """One scheduler on a store. It calls `report` with each finished run's id and other events."""

    def __init__(
        self,
        store: Store,
        *,
        max_parallel: int,
        execute: str = EXECUTE,
        clock: Callable[[], float] = time.time,
        report: Callable[[str, Any], None] = lambda kind, value: None,
        remote: "RemoteRuns | None" = None,
    ) -> None:
        self.store = store
        self._remote = remote
        if remote is None and store.config.jobs.for_team:
            from relight.work.jobs.remote import find_remote_runs

            self._remote = find_remote_runs(store, report)
        self._max_parallel = max_parallel
        self._execute = execute
        self._clock = clock
        self._report = report
        self._stops = 0
        self._has_reported_stop = False
        self._renewed_at = 0
        self._ticked_at: int | None = None
        # runs whose worker died, and those that were handed out again for that
        self._ended: list[WorkerEvent] = []
        self._again: set[int] = set()
        # interrupted runs whose sessions a worker was sent to collect
        self._collected: set[int] = set()

    def run(self, *, once: bool = False) -> None:
        """Run due jobs until stopped; with `once`, only those that are due at this moment.

        Stopped once, it begins no more runs and returns when the last has ended. Stopped twice, it
        returns at once, and open runs end as `unknown`.
        """
        until = self._now() if once else None
        home = self.store.config.home
        with (
            Holder(home) as holder,
            closing(
                WorkerPool(home, holder, size=self._max_parallel, execute=self._execute)
            ) as workers,
            self._signals(workers),
        ):
            while self._stops < 2:
                try:
                    found = self._tick(workers, holder.name, until=until)
                    if not workers.runs and (self._stops or (once and not found)):
                        return
                    pause = self._pause(workers)
                except (StoreError, OSError) as error:
                    # a disk or memory that is full for a while must not end what is running
                    if once:
                        raise
                    self._report("trouble", error)
                    pause = TROUBLE_SECONDS
                self._take_event(workers.wait(pause))
            self._report("stopped", len(workers.runs))

    def stop(self) -> None:
        """Stop as a signal does: once after the last run, twice at once."""
        self._stops += 1

    def _tick(self, workers: WorkerPool, holder: str, *, until: int | None) -> bool:
        """Settle the runs of dead holders and hand out due runs; True if there was one."""
        now = self._now()
        if self._ticked_at is None or now < self._ticked_at - SET_BACK_MS:
            slots.bring_forward(self.store, now=now)
        self._ticked_at = now
        if workers.runs and now > self._renewed_at + HEARTBEAT_MS:
            slots.keep_lease(self.store, holder, now=now)
            self._renewed_at = now
        self._settle(holder)
        if self._remote is not None:
            # none is claimed by a scheduler that stops, or that runs what is due now
            free = 0 if self._stops or until is not None else workers.free
            self._remote.tick(holder, free=free, now=now)
        if self._stops:
            return False
        if lost := settle_dead(self.store, find_dead(self.store, now=now)):
            self._report("lost", lost)
        # claims that an error or a worker's death kept from beginning
        found = [one for one in slots.find_claimed(self.store, holder) if one not in workers.runs]
        due_by = now if until is None else until
        found += slots.claim_due(self.store, holder, now=due_by, limit=workers.free - len(found))
        for run_id in found:
            self._hand_out(workers, run_id)
        # collecting sessions takes too long for this thread, and is tried once
        interrupted = find_uncollected(self.store) - self._collected - workers.runs
        for run_id in sorted(interrupted)[: workers.free]:
            self._collected.add(run_id)
            self._hand_out(workers, run_id)
        return bool(found)

    def _hand_out(self, workers: WorkerPool, run_id: int) -> None:
        try:
            workers.hand_out(run_id)
        except OSError as error:
            self._ended.append(WorkerEvent(run_id, f"could not be started ({error})"))

    def _settle(self, holder: str) -> None:
        """Mark runs whose worker died; a run that had not begun is handed out again, once."""
        while self._ended:
            event = self._ended[-1]
            is_over = self._mark_lost(event, holder)
            self._ended.pop()
            self._again.add(event.run_id)
            if is_over:
                self._report("done", event.run_id)

    def _mark_lost(self, event: WorkerEvent, holder: str) -> bool:
        evidence = f"the process that ran it {event.ended_by}; it is not repeated"
        if mark_lost(self.store, event.run_id, holder, evidence=evidence):
            return True
        if event.run_id not in self._again:
            return False
        failed = JobResult(
            status="failed",
            outcome="failure",
            evidence=[f"no process could begin it: each {event.ended_by}"],
            attempts=0,
            finished_at=self._now(),
        )
        return slots.finish(self.store, event.run_id, failed, holder=holder)

    def _pause(self, workers: WorkerPool) -> float:
        """Seconds to wait: until the next slot, but not for long, since jobs may be added."""
        due = find_next_due(self.store)
        left = None if due is None else due - self._now()
        if left is not None and 0 < left < AHEAD_MS and not self._stops:
            workers.warm_up()
            return min(left / 1000, POLL_SECONDS)
        workers.close_idle()
        return POLL_SECONDS

    def _take_event(self, event: WorkerEvent | None) -> None:
        if event is not None and event.ended_by:
            self._ended.append(event)
        elif event is not None and event.run_id not in self._collected:
            self._report("done", event.run_id)
        if self._stops and not self._has_reported_stop:
            self._has_reported_stop = True
            self._report("stopping", None)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    @contextmanager
    def _signals(self, workers: WorkerPool) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM; the handler only ends the wait."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.stop()
            workers.wake()

        before = {one: signal.signal(one, handle) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
