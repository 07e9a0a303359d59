"""Requests to the Linux kernel about this process; elsewhere they do nothing and return False."""

import ctypes
import sys
from contextlib import suppress

_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36


def hide_memory() -> bool:
    """Let no other process of the user read this one's memory and first environment.

    A command that an agent runs could read the keys of its parent from `/proc/$PPID/environ`. Only
    root with the right to trace still can. There are no core dumps after this, and no debugger can
    attach. Programs that are started from here are not hidden.
    """
    return _control(_SET_DUMPABLE, 0)


def adopt_orphans() -> bool:
    """Become the parent of all descendants that lose theirs, so that none can hide."""
    return _control(_SET_CHILD_SUBREAPER, 1)


def _control(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    return False
