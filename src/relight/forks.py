"""Things that begin anew in a process that was forked off.

A fork inherits locks that a thread of its parent may hold, and a connection to the database that
two processes must not share.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    def renew(self) -> None: ...


_renewable: WeakSet[Renewable] = WeakSet()


def renew_in_forks(thing: Renewable) -> None:
    """Have it renewed in each process that is forked off this one."""
    _renewable.add(thing)


def _renew_all() -> None:
    for thing in list(_renewable):
        thing.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_renew_all)
