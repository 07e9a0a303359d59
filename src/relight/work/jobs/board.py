"""The board of due slots: a store's own, or that of the server that this machine has joined.

A run is claimed, begun, kept under a lease and finished through the same four functions. Behind
them is a store, or a server that calls them on its own store. Only the clock of the store's side
counts. The fence is the pair of run and holder: another holder, or one whose claim was given back,
can begin and finish nothing.
"""

import time
from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from relight.intake.team_client import Line
from relight.redact import redact_text
from relight.store import Store
from relight.store.runs import find_held_run, read_begun
from relight.work.jobs import slots
from relight.work.jobs.job import JobDefinition, JobResult, JobRun
from relight.work.jobs.lost_runs import find_dead, settle_dead
from relight.work.notices import watch_canaries

HolderName = Annotated[str, Meta(min_length=1, max_length=200)]


class BegunSlot(Struct, frozen=True):
    """A run that has begun, with its job's definition."""

    job: JobDefinition
    run: JobRun


class ClaimRequest(Struct, frozen=True):
    """A request for runs: the holder, and the most that it takes."""

    holder: HolderName
    limit: Annotated[int, Meta(ge=0, le=64)] = 1


class ClaimedRuns(Struct, frozen=True):
    """The ids of runs that a holder has claimed and not begun."""

    runs: list[int]


class HeldRequest(Struct, frozen=True):
    """The holder of the run that a request is about."""

    holder: HolderName


class BegunResponse(Struct, frozen=True):
    """The run that may begin; null if it is not this holder's any more."""

    begun: BegunSlot | None


class FinishRequest(Struct, frozen=True):
    """The result of a run, and who held it."""

    holder: HolderName
    result: JobResult


class WrittenResponse(Struct, frozen=True):
    """The answer to a write: true if a result was written, or a lease extended."""

    is_written: bool


class StoreBoard:
    """The board of a store, by this side's clock."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        places: Sequence[str] = (slots.ANYWHERE,),
        is_own: bool = True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._places = places
        self._is_own = is_own

    def claim(self, holder: str, *, limit: int) -> list[int]:
        """Return the runs that this holder has claimed and not begun, with up to `limit` new ones.

        Runs of dead holders are settled first: a machine that is gone blocks no slot.
        """
        now = self._now()
        settle_dead(self._store, find_dead(self._store, now=now))
        held = slots.find_claimed(self._store, holder)
        return held + slots.claim_due(
            self._store,
            holder,
            now=now,
            limit=limit - len(held),
            places=self._places,
            is_own=self._is_own,
        )

    def begin(self, run_id: int, holder: str) -> BegunSlot | None:
        """Begin a claimed run; None if it is not this holder's. To begin twice changes nothing."""
        begun = slots.begin(self._store, run_id, holder, now=self._now())
        if begun is None:
            held = find_held_run(self._store, run_id, holder)
            if held is not None and held.status == "running":
                begun = slots.decode_begun(read_begun(self._store, run_id), run_id, now=self._now())
        return BegunSlot(*begun) if begun else None

    def keep(self, holder: str) -> None:
        """Extend the lease on all runs of a holder."""
        slots.keep_lease(self._store, holder, now=self._now())

    def finish(self, run_id: int, result: JobResult, *, holder: str) -> bool:
        """Write a run's result; False if the run is not this holder's."""
        key = self._store.redaction_key
        clean = replace(result, evidence=[redact_text(one, key=key) for one in result.evidence])
        is_written = slots.finish(self._store, run_id, clean, holder=holder)
        watch_canaries(self._store)
        return is_written

    def _now(self) -> int:
        return int(self._clock() * 1000)


class ServerBoard:
    """The board of the server that this machine has joined; raises if it cannot be reached."""

    def __init__(self, line: Line, *, machine: str) -> None:
        self._line = line
        self._machine = machine

    def claim(self, holder: str, *, limit: int) -> list[int]:
        answer = self._send("/api/v1/claims", ClaimRequest(holder, limit))
        return msgspec.json.decode(answer, type=ClaimedRuns).runs

    def begin(self, run_id: int, holder: str) -> BegunSlot | None:
        answer = self._send(f"/api/v1/runs/{run_id}/begin", HeldRequest(holder))
        return msgspec.json.decode(answer, type=BegunResponse).begun

    def keep(self, holder: str) -> None:
        self._send("/api/v1/claims/keep", HeldRequest(holder))

    def finish(self, run_id: int, result: JobResult, *, holder: str) -> bool:
        answer = self._send(f"/api/v1/runs/{run_id}/finish", FinishRequest(holder, result))
        return msgspec.json.decode(answer, type=WrittenResponse).is_written

    def _send(self, path: str, body: Struct) -> bytes:
        return self._line.send("POST", path, body, Machine=self._machine)

    def close(self) -> None:
        self._line.close()
