"""The sessions that a program names itself: a block whose model calls belong together."""

import os
import sys
import time
from contextvars import ContextVar
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

    @property
    def name(self) -> str:
        """The session's name for `relight show`."""
        return f"relight:{self.session_id}"

    def __enter__(self) -> Self:
        if self.session_id is None:
            from relight.intake.recorder import make_session_name

            self.session_id = make_session_name(time.time())
        above = find_block()
        # a block in a block of the same session is no sub-agent's
        self.parent = above.parent if above and above.session_id == self.session_id else above
        _blocks.set((*_blocks.get(), self))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # without a token, which holds for one task and one use: tasks and threads may share a block
        blocks = _blocks.get()
        if self in blocks:
            place = len(blocks) - 1 - blocks[::-1].index(self)
            _blocks.set((*blocks[:place], *blocks[place + 1 :]))
        # loaded by the first call of the program; without one there is nothing to end
        if recording := sys.modules.get("relight.intake.auto.recording"):
            recording.end_session(self, error)


# the blocks that this task is in, the innermost last
_blocks: ContextVar[tuple[AutoSession, ...]] = ContextVar("relight_blocks", default=())


def find_block() -> AutoSession | None:
    """Return the innermost block, else the session that the environment names; None for none."""
    if blocks := _blocks.get():
        return blocks[-1]
    named = os.environ.get(VARIABLE)
    return AutoSession(named) if named else None


def session(
    session_id: str | None = None, *, title: str | None = None, project: str | None = None
) -> AutoSession:
    """Return a block whose model calls are one session, new or continued."""
    return AutoSession(session_id, title=title, project=project)
