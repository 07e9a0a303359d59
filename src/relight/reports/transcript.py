"""A recorded session as chat messages, and the records that it is read from."""

from relight.errors import MissingError, RelightError
from relight.sources import find_source, is_source
from relight.sources.events import Transcript
from relight.store import Store
from relight.store.queries import sessions
from relight.store.queries.sessions import FoundSession
from relight.store.write.tape import read_tape


def read_transcript(store: Store, session_id: int) -> Transcript:
    """Return the messages of a session, redacted as on the tape, without what Relight injected."""
    found = find_facts(store, session_id)
    lines = read_records(store, session_id, found)
    return find_source(found.source).read_messages(lines, found.own_id)


def find_facts(store: Store, session_id: int) -> FoundSession:
    """Return the facts of a session; raise if it is not recorded."""
    found = sessions.read_facts(store, session_id)
    if found is None:
        raise MissingError("that session is not in the store", "`relight report --by session`")
    return found


def read_records(store: Store, session_id: int, found: FoundSession) -> list[bytes]:
    """Return the records of a session; raise if they are gone or nothing can read them.

    An early sub-agent's records are on its parent's tape.
    """
    if not is_source(found.source):
        raise RelightError(
            f"there is no source {found.source!r} any more",
            "install the package that reads its sessions",
        )
    lines = [line for part in read_tape(store, session_id) for line in part.lines()]
    if not lines and found.root_id != session_id:
        lines = [line for part in read_tape(store, found.root_id) for line in part.lines()]
    if not lines:
        raise RelightError(
            f"the records of {found.session} are gone",
            f"{found.machine} shares figures only"
            if found.machine
            else "its tape was pruned: only figures are left",
        )
    return lines
