"""Derive the whole index again from the tape, when a rule has improved."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec
from msgspec import Struct

from relight.intake.importing import POOL_BYTES, hold_import
from relight.model import Cost, Mark, Usage
from relight.redact import redact
from relight.sources import find_source
from relight.store import Store
from relight.store.derive.pricing import Kept, Pricing
from relight.store.write import tape as tapes
from relight.store.write.record import Recorder
from relight.store.write.seal import Sealed, seal_parsed
from relight.store.write.tape import TapePart, read_tape

PARTS_AT_ONCE = 16
USAGE = (
    "input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cache_write_1h_tokens,"
    " reasoning_tokens"
)
DERIVED = (
    "tool_call",
    "call_day",
    "control_total",
    "turn",
    "skill_entry",
    "session_words",
    "call_timing",
)


class Derivation(Struct, frozen=True):
    """A part of the tape for a worker process to derive rows from."""

    part: TapePart
    timezone: str
    number: int = 0


def rebuild(
    store: Store,
    *,
    reprice: bool = False,
    again_redact: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
) -> int:
    """Derive every session with a tape anew, in one transaction; gives how many parts were read.

    Costs stay as they were recorded unless `reprice`; facts that nothing can derive, and sessions
    whose tape was pruned, are left alone.
    """
    with hold_import(store):
        if again_redact:
            _redact_tapes(store)
        (count, size) = store.query(
            "select count(*), coalesce(sum(length(records)), 0) from tape_part"
        )[0]
        with store.transaction() as database:
            kept = None if reprice else _keep_costs(database)
            if reprice:
                database.execute("delete from price")
            _clear(database)
            recorder = Recorder(store, Pricing(store, kept))
            if workers is None:
                workers = os.cpu_count() or 1 if size > POOL_BYTES // 4 else 1
            done = 0
            sealed = _derive(store, workers)
            while some := list(islice(sealed, PARTS_AT_ONCE)):
                recorder.write(database, some)
                done += len(some)
                if progress:
                    progress(done, count)
            database.execute("drop table if exists temp.kept_cost")
    return int(count)


def _derive(store: Store, workers: int) -> Iterator[Sealed]:
    parts = read_tape(store)
    if workers == 1:
        yield from (derive(Derivation(part, store.timezone)) for part in parts)
        return
    from relight.intake.workers import Workers

    encode = msgspec.msgpack.encode
    decode = msgspec.msgpack.Decoder(tuple[int, Sealed]).decode
    messages = (encode(Derivation(part, store.timezone, n)) for n, part in enumerate(parts))
    # in the order of the tape: of two records of the same moment the later one tells the ending
    early: dict[int, Sealed] = {}
    next_number = 0
    with Workers(workers, "relight.intake.rebuild:answer_derivation") as pool:
        for number, sealed in map(decode, pool.answers(messages)):
            early[number] = sealed
            while next_number in early:
                yield early.pop(next_number)
                next_number += 1


def derive(derivation: Derivation) -> Sealed:
    """The rows that a part of the tape stands for."""
    part = derivation.part
    read = find_source(part.source).read
    parsed = read(part.lines(), part.origin, part.state)
    sealed = seal_parsed(part.source, parsed, timezone=derivation.timezone)
    place = Mark(path=part.origin.path, part=part.part, offset=part.offset)
    return msgspec.structs.replace(sealed, before=place)


def answer_derivation(message: bytes) -> bytes:
    """What a worker process does with a part of the tape."""
    derivation = msgspec.msgpack.decode(message, type=Derivation)
    return msgspec.msgpack.encode((derivation.number, derive(derivation)))


def _keep_costs(database: sqlite3.Connection) -> Kept:
    database.execute("drop table if exists temp.kept_cost")
    database.execute(
        "create temp table kept_cost (id integer primary key, input_tokens, cache_read_tokens,"
        " cache_write_tokens, output_tokens, cache_write_1h_tokens, reasoning_tokens, cost_nanos,"
        " cost_status, cost_source)"
    )
    database.execute(
        f"insert into kept_cost select id, {USAGE}, cost_nanos, cost_status, cost_source from turn"
    )

    def find_kept(turn_id: int) -> tuple[Usage, Cost] | None:
        row = database.execute("select * from kept_cost where id = ?", (turn_id,)).fetchone()
        return None if row is None else (Usage(*row[1:7]), Cost(*row[7:]))

    return find_kept


def _clear(database: sqlite3.Connection) -> None:
    """Take away what the tape can give back, and nothing else."""
    derivable = "select id from session where is_frozen = 0"
    for table in DERIVED:
        database.execute(f"delete from {table} where session_id in ({derivable})")
    database.execute(f"delete from shared_turn where session_id in ({derivable})")
    database.execute(f"delete from session_day where session_id in ({derivable})")
    database.execute(f"delete from skill_charge where root_id in ({derivable})")
    # those told of keep their ids, and are derived anew under what was told
    database.execute(
        f"delete from skill_invocations where is_told = 0 and root_id in ({derivable})"
    )
    database.execute("delete from session where is_frozen = 0")


def _redact_tapes(store: Store) -> None:
    """Apply today's rules to tapes recorded under older ones."""
    for (part_id,) in store.query("select id from tape_part"):
        records = store.query("select records from tape_part where id = ?", (part_id,))[0][0]
        lines = tapes.decompress(records)
        cleaned = redact(lines, key=store.redaction_key)
        if cleaned != lines:
            with store.transaction() as database:
                database.execute(
                    "update tape_part set records = ? where id = ?",
                    (tapes.compress(cleaned), part_id),
                )
