"""A request of a machine to the server of its team, and the table of addresses that take one."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from relight.store import Store
from relight.store.members import Machine, Member, find_machine
from relight.web.parameters import NoParameters
from relight.web.request import RequestError


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
