"""Derive the whole index again from the tape, after a rule has improved."""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.intake.importing import PIECE_SECONDS, POOL_BYTES, hold_import
from relight.intake.wire import seal_part
from relight.intake.workers import Lost, Workers, count_cores
from relight.model import Mark
from relight.reports.tapes import DamagedTape, describe_damage, find_damaged
from relight.sources import is_source
from relight.store import Store, search_index
from relight.store.derive.pricing import Pricing, refresh_aliases
from relight.store.derive.rollup import add_up_days
from relight.store.keep.derived import clear_index, drop_costs, keep_costs, read_taped_sources
from relight.store.keep.migrate import note_rules
from relight.store.keep.redaction import redact_tapes
from relight.store.write.pushed import set_derived
from relight.store.write.record import Recorder, write_texts
from relight.store.write.seal import prepare_piece
from relight.store.write.sealed import Sealed
from relight.store.write.tape import TapePart, count_parts, read_tape

PARTS_AT_ONCE = 16
TARGET = "relight.intake.rebuild:answer_derivation"


class Derivation(Struct, frozen=True):
    """A part of the tape for a worker process to derive rows from."""

    part: TapePart
    timezone: str
    key: bytes
    number: int = 0


class LostPartError(RelightError):
    """A part of the tape that ends the worker process that reads it."""

    def __init__(self, part: TapePart, reason: str) -> None:
        super().__init__(reason)
        self.part = part


class Rebuilt(Struct, frozen=True):
    """The number of tape parts, and those that could not be read."""

    parts: int
    damaged: list[DamagedTape]


def rebuild(
    store: Store,
    *,
    reprice: bool = False,
    again_redact: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
) -> Rebuilt:
    """Derive every session with a tape again, in one transaction.

    Costs stay as they were recorded unless `reprice` is set. Facts, sessions of absent sources,
    and sessions whose tape was pruned, is damaged or takes more than `PIECE_SECONDS` of CPU
    time for a part, stay as they are.
    """
    with hold_import(store):
        refresh_aliases(store)  # also of sessions that have no tape to derive them from
        if again_redact:
            redact_tapes(store)
        count, size = count_parts(store)
        if workers is None:
            workers = count_cores() if size > POOL_BYTES // 4 else 1
        damaged = list(find_damaged(store))
        while True:
            unreadable = {part.session_id for part, _ in damaged}
            try:
                with Workers(workers, TARGET, message_seconds=PIECE_SECONDS) as pool:
                    _derive_all(store, pool, unreadable, reprice=reprice, progress=progress)
                break
            except LostPartError as error:  # nothing was written: again, without its session
                damaged.append((error.part, error.message))
        add_up_days(store)
        found = [describe_damage(store, part, reason) for part, reason in damaged]
    return Rebuilt(count, found)


def _derive_all(
    store: Store,
    pool: Workers,
    unreadable: Collection[int],
    *,
    reprice: bool,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Derive all sessions but the unreadable ones again; raise if a part of the tape is lost."""
    absent = find_absent_sources(store)
    count, _ = count_parts(store)
    with store.transaction() as database:
        find_recorded = None if reprice else keep_costs(database)
        kept = clear_index(database, reprice=reprice, without=absent, unreadable=unreadable)
        search_index.clear(database, fills=False)
        recorder = Recorder(store, Pricing(store, find_recorded))
        done = 0
        sealed = _derive(store, pool, absent, kept.union(unreadable))
        while some := list(islice(sealed, PARTS_AT_ONCE)):
            recorder.write(database, some)
            parts = ((one.tape_part_id, one) for one in some)
            write_texts(database, [(part, one) for part, one in parts if part is not None])
            set_derived(database, [one.tape_part_id for one in some])
            done += len(some)
            if progress:
                progress(done, count)
        search_index.skip_rest(database)
        drop_costs(database)
        note_rules(database)


def find_absent_sources(store: Store) -> list[str]:
    """Return the sources on tape whose package is not installed or does not work."""
    return [name for name in read_taped_sources(store) if not is_source(name)]


def _derive(
    store: Store, pool: Workers, absent: Sequence[str], kept: Collection[int]
) -> Iterator[Sealed]:
    """Yield the rows of all parts of the tape; raise if a part ends its worker process."""
    parts = (
        part
        for part in read_tape(store)
        if part.source not in absent and part.session_id not in kept
    )
    zone, key = store.timezone, store.redaction_key
    encode = msgspec.msgpack.encode
    decode = msgspec.msgpack.Decoder(tuple[int, Sealed]).decode
    messages = (encode(Derivation(part, zone, key, n)) for n, part in enumerate(parts))
    # in the order of the tape: of two records of the same moment the later one is the end
    early: dict[int, Sealed] = {}
    next_number = 0
    killed_once: set[bytes] = set()
    for response in pool.responses(messages):
        if isinstance(response, Lost):
            if response.is_over_time or response.message in killed_once:
                lost = msgspec.msgpack.decode(response.message, type=Derivation).part
                raise LostPartError(lost, response.describe(pool.message_seconds))
            killed_once.add(response.message)
            pool.submit(response.message)
            continue
        number, sealed = decode(response)
        early[number] = sealed
        while next_number in early:
            yield early.pop(next_number)
            next_number += 1


def derive(derivation: Derivation) -> Sealed:
    """Return the rows of a part of the tape."""
    part = derivation.part
    sealed = seal_part(part, key=derivation.key, timezone=derivation.timezone)
    place = Mark(path=part.origin.path, part=part.part, offset=part.offset)
    owner = sealed.owner_id if sealed.owner_id is not None else part.session_id
    placed = msgspec.structs.replace(sealed, before=place, owner_id=owner, tape_part_id=part.id)
    return prepare_piece(placed)


def answer_derivation(message: bytes) -> bytes:
    """Derive a part of the tape in a worker process."""
    derivation = msgspec.msgpack.decode(message, type=Derivation)
    return msgspec.msgpack.encode((derivation.number, derive(derivation)))
