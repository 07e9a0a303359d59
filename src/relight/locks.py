"""Files that one process at a time holds, and objects that a forked process must renew."""

import os
from typing import Protocol
from weakref import WeakSet


def hold(file: int, *, waits: bool = True) -> bool:
    """Lock an open file until it is closed; False if another process has it.

    Windows has no such locks: there it always returns True, and the caller does without.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


class Renewable(Protocol):
    """An object with a lock or a connection that a fork must not share with its parent."""

    def renew(self) -> None: ...


_renewable: WeakSet[Renewable] = WeakSet()


def renew_in_forks(thing: Renewable) -> None:
    """Renew this object in each process that is forked off this one."""
    _renewable.add(thing)


def _renew_all() -> None:
    for thing in list(_renewable):
        thing.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_renew_all)
