"""Write the events of a live session, each before its caller continues."""

import json
import logging
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate

import msgspec

from relight.errors import StoreError
from relight.ids import row_id
from relight.intake.backlog import Backlog, find_backlogs, taking
from relight.locks import renew_in_forks
from relight.model import Mark, Origin, Piece
from relight.redact import redact
from relight.sources import relight as events
from relight.store import Store
from relight.store.derive import scores
from relight.store.misses import count_miss
from relight.store.write import tape
from relight.store.write.append import sum_turns
from relight.store.write.marks import read_marks
from relight.store.write.record import Recorder
from relight.store.write.rows import turn_row
from relight.store.write.seal import seal

# how long a program stands still for other writers, once; after that it does not wait for them
WAIT_SECONDS = 0.5
# and how long at its end
END_SECONDS = 5.0
# where tapes of live sessions say that they are from
PLACE = "recorder/"
# how many events go into one transaction at most
BATCH = 1000
# raised by SQLite if the database is at fault, and not the values
STORE_TROUBLE = (sqlite3.OperationalError, sqlite3.DatabaseError)

logger = logging.getLogger("relight")


class LiveTape:
    """One recorder's part of a session's tape; several recorders may write one session."""

    def __init__(self, store: Store, mark: Mark) -> None:
        self.store = store
        self._recorder = Recorder(store)
        self._begin(mark)
        renew_in_forks(self)

    @classmethod
    def begin(cls, store: Store, session_id: str) -> "LiveTape":
        return cls(store, _new_mark(f"{PLACE}{session_id}"))

    def _begin(self, mark: Mark) -> None:
        self.waiting: list[bytes] = []
        self._mark = mark
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._told = self._written = self._kept = self._lost = 0
        self._backlog = Backlog(self.store.config.home, mark.part)
        self._held = threading.local()
        self._is_in_trouble = False

    def renew(self) -> None:
        """Begin another tape after a fork, and leave the parent's events to the parent."""
        self._backlog.close()
        self._begin(_new_mark(self._mark.path))

    @property
    def name(self) -> str:
        return self._mark.part

    def count_waiting(self) -> int:
        """Return the number of events that are not in the database yet."""
        with self._lock:
            return len(self.waiting)

    def sum_waiting(self) -> Iterable[Mapping[str, int | None]]:
        """Return the sums of the turns that are not in the database yet."""
        with self._lock:
            lines = list(self.waiting)
        turns = (
            events.RecorderReader.read(lines, Origin(self._mark.path), b"").turns if lines else ()
        )
        price = self._recorder.pricing.price
        rows = [turn_row(events.NAME, 0, None, turn, cost=price(0, turn)) for turn in turns]
        return sum_turns(rows).values()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write the events of this thread in one transaction, at the end of the block."""
        if hasattr(self._held, "number"):
            yield
            return
        self._held.number = 0
        try:
            yield
        finally:
            number = self._held.number
            del self._held.number
            self.write(number)

    def line_up(self, event: events.AnyEvent) -> int:
        """Queue an event; return its number."""
        with self._lock:
            self.waiting.append(encode(event))
            self._told += 1
            return self._told

    def write(self, number: int, *, is_last: bool = False) -> None:
        """Have an event written before returning: by this thread, or by one that was quicker.

        What lined up while another was writing is written at once, in one transaction. While the
        database cannot be had, it is kept beside it, and nobody waits a second time.
        """
        if hasattr(self._held, "number") and not is_last:
            self._held.number = number
            return
        with self._write_lock:
            if self._written >= number:
                return
            has_waited = self._backlog.is_open and not is_last
            seconds = END_SECONDS if is_last else WAIT_SECONDS
            try:
                with self.store.waiting(0 if has_waited else seconds):
                    if has_waited:
                        with self.store.transaction():
                            pass  # whether it can be had, before all that waits is made ready
                    self._write_until(self._told)
                self._backlog.clear()
                self._is_in_trouble = False
            except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
                self._keep(error)
            self._count_lost(self._lost, "events could not be understood")
            self._lost = 0

    def _write_until(self, number: int, *, batch: int = BATCH) -> None:
        """Write the events up to this one, in few goes; one by one where one of them cannot be."""
        while self._written < number:
            with self._lock:
                lines = self.waiting[: min(batch, number - self._written)]
            try:
                count = self._record(lines)
            except Exception as error:
                if isinstance(error, StoreError) and type(error.__cause__) in STORE_TROUBLE:
                    raise  # it cannot be used now: all of it waits
                if len(lines) > 1:
                    self._write_until(self._written + len(lines), batch=1)
                    continue
                # an event that cannot be written must not hold up the others
                logger.warning("what was told could not be understood: %r", error)
                count, self._lost = 1, self._lost + 1
                self._backlog.clear()
                self._kept = 0
            with self._lock:
                del self.waiting[:count]
                self._written += count
                self._kept = max(self._kept - count, 0)

    def _record(self, lines: list[bytes]) -> int:
        """Write lines; gives how many of those that wait are written by now."""
        before, raw = self._mark, b"".join(lines)
        after = msgspec.structs.replace(before, offset=before.offset + len(raw))
        piece = Piece(source=events.NAME, raw=raw, before=before, after=after)
        key, timezone = self.store.redaction_key, self.store.timezone
        taken, _ = self._recorder.record(
            [seal(piece, events.RecorderReader.read, key=key, timezone=timezone)]
        )
        known = None if taken else self._find_written()
        if known is None:
            self._mark = after
            return len(lines)
        # interrupted between its commit and its return, or written from the backlog by another
        if known == before.offset:
            raise ValueError("the tape is where it was, and does not go on")
        self._mark = msgspec.structs.replace(before, offset=known)
        with self._lock:
            ends = accumulate(map(len, self.waiting), initial=before.offset)
            return sum(end <= known for end in ends) - 1 if known > before.offset else 0

    def _find_written(self) -> int | None:
        """Return how far the store has this tape; None if the session was forgotten."""
        marks = read_marks(self.store, events.NAME, self._mark.path)
        return marks[self.name].offset if self.name in marks else None

    def _keep(self, trouble: Exception) -> None:
        """Write the waiting events beside the database, redacted."""
        if not self._is_in_trouble:
            logger.warning("records wait to be written: %s", trouble)
        try:
            with self._lock:
                new = self.waiting[self._kept :]
                key = self.store.redaction_key
                self.waiting[self._kept :] = [redact(one, key=key) for one in new]
                self._backlog.add(self._mark, self.waiting[self._kept :])
                self._kept = len(self.waiting)
        except Exception as error:  # noqa: BLE001 - it stays in memory, and is tried again
            if not self._is_in_trouble:
                logger.warning("nor could they be kept beside the database: %s", error)
        self._is_in_trouble = True

    def _count_lost(self, number: int, reason: str) -> None:
        if number:
            count_miss(self.store, self.store.config.home, reason, number=number)

    def close(self) -> None:
        """Join the written parts, and leave the rest to the next recorder."""
        with self._write_lock:
            lost = self.count_waiting() - self._kept
            self._count_lost(lost, f"events of {self._mark.path} could be written nowhere")
            self._backlog.close()
            self._kept = 0
            if self.waiting:
                return
            try:
                with self.store.waiting(WAIT_SECONDS), self.store.transaction() as database:
                    tape.join_parts(database, events.NAME, self._mark)
                    session = self._mark.path.removeprefix(PLACE)
                    scores.refresh(database, {row_id("session", events.NAME, session)})
            except Exception as error:  # noqa: BLE001 - in parts and without a score it is as safe
                logger.warning("the tape was not tidied up: %s", error)

    def resume(self, lines: list[bytes]) -> bool:
        """Write the events that an ended process left; False if that is not possible now."""
        self.waiting, self._told, self._kept = lines, len(lines), len(lines)
        self.write(len(lines))
        return not self.waiting


def _new_mark(path: str) -> Mark:
    """Return a mark that no other recorder uses, so that none waits for another."""
    return Mark(path=path, part=secrets.token_hex(6))


def take_backlogs(store: Store) -> None:
    """Write the events that programs left beside the database when they were killed."""
    try:
        for path in find_backlogs(store.config.home):
            with taking(path) as left:
                if left is not None:
                    if not LiveTape(store, left.mark).resume(left.lines):
                        return
                    path.unlink(missing_ok=True)
                    scores.refresh_due(store)
    except Exception as error:  # noqa: BLE001 - it waits for the next one
        logger.warning("what others left was not written: %s", error)


def encode(event: events.AnyEvent) -> bytes:
    """Return an event as one line; text that JSON cannot carry is repaired, never refused."""
    try:
        return msgspec.json.encode(event) + b"\n"
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(event)
        return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
