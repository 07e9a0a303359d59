"""The facts about a session in one record: what was done or said, and when."""

from typing import ClassVar, Literal, TypeVar

from msgspec.structs import replace

from relight.model import Ending, Session, ToolCall
from relight.sources.events import Called, as_copied
from relight.sources.reading import ReaderState, StatefulReader, last_words, write_value


def see(
    session: Session,
    at: int | None,
    ending: Ending | None = None,
    *,
    ended_at: int | None = None,
    born_at: int | None = None,
) -> Session:
    """The session as a record of this time shows it.

    A record from before `born_at` was copied by a fork: it says nothing of the fork's own time.
    """
    last_at = at if ended_at is None else ended_at
    if born_at is not None and last_at is not None and last_at < born_at:
        return as_copied(session, born_at)
    return replace(
        session,
        started_at=at,
        ended_at=last_at,
        ending=ending,
        prompted_at=at if ending == "prompt" else None,
        answer=last_words(session.answer),
    )


def make_called(
    session: str,
    answer: str,
    name: object,
    tool: object,
    arguments: object,
    *,
    at: int | None,
    turn: str | None = None,
) -> Called:
    """The call with this name in an answer; `turn` is the answer's, if it has its own.

    Servers number the calls of each answer from 0, so the key has both.
    """
    call = ToolCall(
        key=f"{answer}:{name}",
        name=f"{session}:{name}",
        session=session,
        turn=turn,
        tool=str(tool or ""),
        at=at,
        arguments=write_value(arguments),
    )
    return Called(call, str(name), answer)


class SessionState(ReaderState):
    """The facts about the one session of a file."""

    parent: str | None = None
    model: str | None = None
    # the moment before which records are copies, of a fork
    born_at: int | None = None


Sn = TypeVar("Sn", bound=SessionState)


class SessionReader(StatefulReader[Sn]):
    """A reader of files with one session each, whose facts are not repeated in each record."""

    # the kind of a session that has a parent
    parent_kind: ClassVar[Literal["subagent", "fork"]] = "subagent"

    def see(
        self,
        at: int | None,
        ending: Ending | None = None,
        *,
        project: str | None = None,
        title: str | None = None,
        answer: str | None = None,
    ) -> Session:
        """The file's session as a record of this time shows it, with further facts."""
        state = self.state
        session = Session(
            key=state.session or "",
            parent=state.parent,
            parent_kind=self.parent_kind if state.parent else None,
            project=project,
            title=title,
            model=state.model,
            answer=answer,
        )
        return see(session, at, ending, born_at=state.born_at)
