"""Requests of machines to the server of their team, and the addresses for runs of its jobs.

Machines claim, begin, keep and finish them. All times are the server's: a machine whose clock is
wrong holds its lease like any other.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from relight.store import Store
from relight.store.derive.machines import find_foreign
from relight.store.members import Machine, Member, find_called, find_labels, find_machine
from relight.web.parameters import NoParameters
from relight.web.request import RequestError
from relight.work.jobs.board import (
    BegunResponse,
    ClaimedRuns,
    ClaimRequest,
    FinishRequest,
    HeldRequest,
    StoreBoard,
    WrittenResponse,
)
from relight.work.jobs.job import JobResult
from relight.work.jobs.slots import ANYWHERE, hash_session


class TeamRequest(Struct, frozen=True):
    """The sender of a request, and the facts about the machine in its headers."""

    member: Member
    # the machine's own store id, that of the store it joined, and the marks of its last pushes
    machine: str
    store_id: str
    marks: list[str]
    # the id of a run in the address
    run: str = ""

    @property
    def run_id(self) -> int:
        """The run that the address names; raise if it is no number."""
        try:
            return int(self.run)
        except ValueError:
            raise RequestError(404, f"there is no run {self.run[:40]!r}", "") from None

    def find_machine(self, store: Store) -> Machine:
        """Return the machine that sends the request; raise if it has not joined."""
        found = find_machine(store, self.machine, self.member.person_id)
        if found is None:
            raise RequestError(404, "this machine has not joined", "relight join URL")
        return found


class TeamAction(Struct, frozen=True):
    """An address for machines, and the function that answers it."""

    method: str
    path: str
    act: Callable[[Store, TeamRequest, Any], Any]
    body: type[Any] = NoParameters
    # True if it fills the disk
    is_push: bool = False


def claim_runs(store: Store, request: TeamRequest, asked: ClaimRequest) -> ClaimedRuns:
    """Claim runs of jobs that are due and that this machine may run.

    Runs that it claimed before and has not begun are in the response again.
    """
    machine = request.find_machine(store)
    holder = name_holder(machine, asked.holder)
    return ClaimedRuns(find_board(store, machine).claim(holder, limit=asked.limit))


def keep_runs(store: Store, request: TeamRequest, asked: HeldRequest) -> NoParameters:
    """Extend the lease on all runs of a holder.

    A run whose lease ends is given up: it is `unknown`, and never repeated by itself.
    """
    machine = request.find_machine(store)
    find_board(store, machine).keep(name_holder(machine, asked.holder))
    return NoParameters()


def begin_run(store: Store, request: TeamRequest, asked: HeldRequest) -> BegunResponse:
    """Begin a claimed run; null if it is not this holder's any more."""
    machine = request.find_machine(store)
    board = find_board(store, machine)
    return BegunResponse(board.begin(request.run_id, name_holder(machine, asked.holder)))


def finish_run(store: Store, request: TeamRequest, sent: FinishRequest) -> WrittenResponse:
    """Write the result of a run; `is_written` is false if it is not this holder's."""
    machine = request.find_machine(store)
    holder = name_holder(machine, sent.holder)
    board = find_board(store, machine)
    result = keep_result(store, machine, sent.result)
    return WrittenResponse(board.finish(request.run_id, result, holder=holder))


def keep_result(store: Store, machine: Machine, sent: JobResult) -> JobResult:
    """Return the result of a run that a machine may state.

    Files are the server's own, which would show and delete them, and no session of another person
    is the machine's.
    """
    sessions = {name: hash_session(name) for name in (sent.session, *sent.earlier) if name}
    with store.reading() as database:
        foreign = find_foreign(database, sessions.values(), machine.person_id)
    own = {name for name, found in sessions.items() if found not in foreign}
    return replace(
        sent,
        session=sent.session if sent.session in own else None,
        earlier=[name for name in sent.earlier if name in own],
        answer=None,
        answer_file=None,
        delivery=None,
        warnings=[],
    )


def name_holder(machine: Machine, holder: str) -> str:
    """Return a holder's name here: no machine can name another's, nor one of this host."""
    return f"@{machine.key}/{holder}"


def find_board(store: Store, machine: Machine) -> StoreBoard:
    """Return the board of the jobs that a machine may run."""
    with store.reading() as database:
        labels = find_labels(database, machine)
    places = [ANYWHERE, f"machine:{machine.key}", *(f"label:{one}" for one in labels)]
    if find_called(store, machine.name) == [machine.key]:
        places.append(f"machine:{machine.name}")
    return StoreBoard(store, places=places, is_own=False)


JOB_ACTIONS = (
    TeamAction("POST", "/api/v1/claims", claim_runs, ClaimRequest),
    TeamAction("POST", "/api/v1/claims/keep", keep_runs, HeldRequest),
    TeamAction("POST", "/api/v1/runs/{run}/begin", begin_run, HeldRequest),
    TeamAction("POST", "/api/v1/runs/{run}/finish", finish_run, FinishRequest),
)
