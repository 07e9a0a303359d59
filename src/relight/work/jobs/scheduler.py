"""Runs what is due: claims it in the store, and has workers do it.

Any number of schedulers may share a store. An idle one looks at one row of an index twice a
second, and holds nothing in memory but that.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from relight.errors import StoreError
from relight.store import Store
from relight.work.jobs.job import RunResult
from relight.work.jobs.leases import HEARTBEAT_MS, Holder
from relight.work.jobs.lost_runs import find_dead, find_untold, lose, settle_dead
from relight.work.jobs.results import finish
from relight.work.jobs.slots import (
    bring_forward,
    claim_due,
    find_claimed,
    find_next_due,
    keep_lease,
)
from relight.work.jobs.workers import EXECUTE, Crew, Event

POLL_SECONDS = 0.5
TROUBLE_SECONDS = 5.0
# a worker is made ready this long before something is due
AHEAD_MS = 3000
# a clock that goes back by less is only being put right
SET_BACK_MS = 60_000

Tell = Callable[[str, Any], None]


class Scheduler:
    """One scheduler on a store. `tell` hears of runs by their ids, and of what else goes on."""

    def __init__(
        self,
        store: Store,
        *,
        max_parallel: int,
        execute: str = EXECUTE,
        clock: Callable[[], float] = time.time,
        tell: Tell = lambda kind, told: None,
    ) -> None:
        self.store = store
        self._max_parallel = max_parallel
        self._execute = execute
        self._clock = clock
        self._tell = tell
        self._stops = 0
        self._has_told = False
        self._kept_at = 0
        self._ticked_at: int | None = None
        # runs whose worker died, and those that were handed out anew for it
        self._ended: list[Event] = []
        self._again: set[int] = set()
        # runs that were cut short, and of which a worker told what they left
        self._followed: set[int] = set()

    def run(self, *, once: bool = False) -> None:
        """Run what is due until told to stop; with `once`, only what is due at this moment.

        Told once, it begins nothing new and leaves when the last run has ended; told twice, it
        leaves at once, and what was running ends as `unknown`.
        """
        until = self._now() if once else None
        with (
            Holder(self.store.config.home) as holder,
            self._crew(holder) as crew,
            self._signals(crew),
        ):
            while self._stops < 2:
                try:
                    found = self._tick(crew, holder.name, until=until)
                    if not crew.busy and (self._stops or (once and not found)):
                        return
                    pause = self._pause(crew)
                except (StoreError, OSError) as error:
                    # a disk or memory that is full for a while must not end what is running
                    if once:
                        raise
                    self._tell("trouble", error)
                    pause = TROUBLE_SECONDS
                self._take_event(crew.wait(pause))
            self._tell("stopped", crew.busy)

    def stop(self) -> None:
        """As a signal does: once to end with the last run, twice to end now."""
        self._stops += 1

    def _tick(self, crew: Crew, holder: str, *, until: int | None) -> bool:
        """Settle what the dead left, and hand out what is due; tells if there was anything."""
        now = self._now()
        if self._ticked_at is None or now < self._ticked_at - SET_BACK_MS:
            bring_forward(self.store, now=now)
        self._ticked_at = now
        if crew.busy and now > self._kept_at + HEARTBEAT_MS:
            keep_lease(self.store, holder, now=now)
            self._kept_at = now
        self._settle(holder)
        if self._stops:
            return False
        if lost := settle_dead(self.store, find_dead(self.store, now=now)):
            self._tell("lost", lost)
        # what a trouble or a worker's death kept from being begun is still there
        found = [one for one in find_claimed(self.store, holder) if one not in crew.runs]
        due_by = now if until is None else until
        found += claim_due(self.store, holder, now=due_by, limit=crew.free - len(found))
        for run_id in found:
            self._hand_out(crew, run_id)
        # to tell what they left takes longer than this thread has, and is tried once
        untold = sorted(find_untold(self.store) - self._followed - crew.runs)[: crew.free]
        for run_id in untold:
            self._followed.add(run_id)
            self._hand_out(crew, run_id)
        return bool(found)

    def _hand_out(self, crew: Crew, run_id: int) -> None:
        try:
            crew.hand_out(run_id)
        except OSError as error:
            self._ended.append(Event(run_id, f"could not be started ({error})"))

    def _settle(self, holder: str) -> None:
        """Mark runs whose worker died; one that had not begun is handed out again, once."""
        while self._ended:
            event = self._ended[-1]
            is_over = self._mark_lost(event, holder)
            self._ended.pop()
            self._again.add(event.run_id)
            if is_over:
                self._tell("done", event.run_id)

    def _mark_lost(self, event: Event, holder: str) -> bool:
        evidence = f"the process that ran it {event.ended_by}; it is not repeated"
        if lose(self.store, event.run_id, holder, evidence=evidence):
            return True
        if event.run_id not in self._again:
            return False
        failed = RunResult(
            status="failed",
            outcome="failure",
            evidence=[f"no process could begin it: each {event.ended_by}"],
            attempts=0,
            finished_at=self._now(),
        )
        return finish(self.store, event.run_id, failed, holder=holder)

    def _pause(self, crew: Crew) -> float:
        """How long to wait: until something is due, but not for long, since jobs get added."""
        due = find_next_due(self.store)
        left = None if due is None else due - self._now()
        if left is not None and 0 < left < AHEAD_MS and not self._stops:
            crew.warm_up()
            return min(left / 1000, POLL_SECONDS)
        crew.let_go_idle()
        return POLL_SECONDS

    def _take_event(self, event: Event | None) -> None:
        if event is not None and event.ended_by:
            self._ended.append(event)
        elif event is not None and event.run_id not in self._followed:
            self._tell("done", event.run_id)
        if self._stops and not self._has_told:
            self._has_told = True
            self._tell("stopping", None)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    @contextmanager
    def _crew(self, holder: Holder) -> Iterator[Crew]:
        home = self.store.config.home
        crew = Crew(home, holder, size=self._max_parallel, execute=self._execute)
        try:
            yield crew
        finally:
            crew.close()

    @contextmanager
    def _signals(self, crew: Crew) -> Iterator[None]:
        """Both ways of being told to stop end the wait; the rest is done between runs."""

        def hear(number: int, frame: FrameType | None) -> None:
            self.stop()
            crew.wake()

        before = {one: signal.signal(one, hear) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
