"""The soundness of tapes: records that match their checksum, and a state that a reader can take."""

from collections.abc import Iterator

from msgspec import Struct

from relight.errors import DamagedTapeError
from relight.sources import find_source, is_source
from relight.store import Store
from relight.store.queries.sessions import read_facts
from relight.store.write.tape import TapePart, count_parts, read_tape


class DamagedTape(Struct, frozen=True):
    """A stretch of a session's tape that cannot be read, and why."""

    session_id: str | None
    file: str
    offset: int
    reason: str


class TapeHealth(Struct, frozen=True):
    """The number of tape parts, how many of them were checked, and the damaged ones."""

    parts: int
    checked: int
    damaged: list[DamagedTape]


def check_tapes(store: Store, *, sample: int | None = None) -> TapeHealth:
    """Return the health of all tape parts, or of this many chosen by chance."""
    parts, _ = count_parts(store)
    damaged = [
        describe_damage(store, part, reason) for part, reason in find_damaged(store, sample=sample)
    ]
    return TapeHealth(parts, parts if sample is None else min(parts, sample), damaged)


def find_damaged(store: Store, *, sample: int | None = None) -> Iterator[tuple[TapePart, str]]:
    """Yield the damaged tape parts, of all or of this many chosen by chance, with the reason."""
    for part in read_tape(store, sample=sample):
        try:
            part.lines()
            if is_source(part.source):
                find_source(part.source).read([], part.origin, part.state)
        except DamagedTapeError:
            yield part, "its records do not match their checksum"
        except Exception as error:  # noqa: BLE001 - a damaged state may raise anything
            yield part, f"the state of its reader is damaged ({type(error).__name__})"


def describe_damage(store: Store, part: TapePart, reason: str) -> DamagedTape:
    """Return the damage of a tape part with the name of its session."""
    facts = read_facts(store, part.session_id)
    session = None if facts is None else facts.session
    return DamagedTape(session, part.origin.path, part.offset, reason)
