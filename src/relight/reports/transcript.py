"""A recorded session as chat messages, read from its tape."""

from relight.errors import RelightError
from relight.sources import find_source, is_source
from relight.sources.messages import Transcript
from relight.store import Store
from relight.store.write.tape import read_tape


def read_transcript(store: Store, session_id: int) -> Transcript:
    """What was said in a session, without what Relight itself put into it.

    Redacted, as all that is on tape. A sub-agent of old lies on its parent's tape.
    """
    rows = store.query("select source, key, root_id from session where id = ?", (session_id,))
    if not rows:
        raise RelightError("that session is not in the store", "`relight report --by session`")
    source, key, root_id = rows[0]
    if not is_source(source):
        raise RelightError(f"sessions of {source} cannot be read as messages")
    lines = [line for part in read_tape(store, session_id) for line in part.lines()]
    if not lines and root_id != session_id:
        lines = [line for part in read_tape(store, root_id) for line in part.lines()]
    if not lines:
        raise RelightError(
            f"the records of {source}:{key} are gone", "its tape was pruned: only figures are left"
        )
    return find_source(source).read_messages(lines, key)
