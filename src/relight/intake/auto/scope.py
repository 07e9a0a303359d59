"""What a program says about its sessions: a block whose model calls belong together."""

import os
import sys
import time
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

# the variable that names the session of a whole program, which `relight exec --session` sets
VARIABLE = "RELIGHT_SESSION"


class AutoSession:
    """A block whose model calls are one session; `with` and `async with` code may share it.

    An exception that leaves the block is a failure of the session. A block inside another one is
    a sub-agent's session.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        project: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.title = title
        self.project = project
        self.parent: AutoSession | None = None
        self._token: Token[AutoSession | None] | None = None

    @property
    def name(self) -> str:
        """The session's name for `relight show`."""
        return f"relight:{self.session_id}"

    def __enter__(self) -> Self:
        if self.session_id is None:
            from relight.intake.recorder import make_session_name

            self.session_id = make_session_name(time.time())
        self.parent = find_scope()
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is not None:
            try:
                _current.reset(self._token)
            except ValueError:  # entered in another task
                _current.set(self.parent)
        # loaded by the first call of the program; without one there is nothing to end
        if recording := sys.modules.get("relight.intake.auto.recording"):
            recording.end_session(self, error)


_current: ContextVar[AutoSession | None] = ContextVar("relight_session", default=None)


def find_scope() -> AutoSession | None:
    """Return the innermost block, else the session that the environment names; None for none."""
    found = _current.get()
    if found is None and (named := os.environ.get(VARIABLE)):
        return AutoSession(named)
    return found


def session(
    session_id: str | None = None, *, title: str | None = None, project: str | None = None
) -> AutoSession:
    """Return a block whose model calls are one session, new or continued."""
    return AutoSession(session_id, title=title, project=project)
