"""Write each event of a live session before the call that recorded it returns.

Another process may hold the database for longer than a program can wait. Until then the events are
in a backlog file beside the database. If the program is killed, the next recorder or the next
import writes them.
"""

import json
import logging
import os
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.errors import UnavailableError
from relight.intake.checks import make_plain
from relight.locks import append_whole, create_held, hold, make_folder, renew_in_forks
from relight.model import Mark, Origin, Piece, row_id
from relight.redact import redact
from relight.sources import relight as events
from relight.store import Store
from relight.store.derive import scores
from relight.store.derive.additions import sum_turns
from relight.store.misses import count_miss
from relight.store.write import tape
from relight.store.write.record import Recorder
from relight.store.write.seal import seal
from relight.store.write.sealed import turn_row
from relight.store.write.tape import read_marks

# how long a program waits for other writers, once; after that its events go to the backlog
WAIT_SECONDS = 0.5
# how long it waits at its end
END_SECONDS = 5.0
# the path of a live session's tape begins with this
PLACE = "recorder/"
# the most events in one transaction
BATCH = 1000

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
        self._queued = self._written = self._saved = self._lost = self._mended = 0
        self._backlog = Backlog(self.store.config.backlog / f"{mark.part}.jsonl")
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
        price = partial(self._recorder.pricing.price, 0, source=events.NAME)
        rows = [turn_row(events.NAME, 0, None, turn, cost=price(turn)) for turn in turns]
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
        line, is_whole = encode(event)
        with self._lock:
            self.waiting.append(line)
            self._mended += not is_whole
            self._queued += 1
            return self._queued

    def write(self, number: int, *, is_last: bool = False) -> None:
        """Return when an event is written, by this thread or by another.

        Events that queue up while a thread writes go into one transaction. While the database is
        not available they go to the backlog, and no call waits a second time.
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
                            pass  # raises if the database is still in use
                    self._write_until(self._queued)
                self._backlog.clear()
                self._is_in_trouble = False
            except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
                self._save(error)
            self._count_lost(self._lost, "events could not be understood")
            self._count_lost(self._mended, "values were recorded as text")
            self._lost = self._mended = 0

    def _write_until(self, number: int, *, batch: int = BATCH) -> None:
        """Write the events up to this one in batches; one by one after one that fails."""
        while self._written < number:
            with self._lock:
                lines = self.waiting[: min(batch, number - self._written)]
            try:
                count = self._record(lines)
            except Exception as error:  # of one event: it is counted, and the others are written
                if isinstance(error, UnavailableError):
                    raise  # the database is not available now: all events wait
                if len(lines) > 1:
                    self._write_until(self._written + len(lines), batch=1)
                    continue
                # an event that cannot be written must not delay the others
                logger.warning("an event could not be recorded: %r", error)
                count, self._lost = 1, self._lost + 1
                self._backlog.clear()
                self._saved = 0
            with self._lock:
                del self.waiting[:count]
                self._written += count
                self._saved = max(self._saved - count, 0)

    def _record(self, lines: list[bytes]) -> int:
        """Write lines; return how many of the waiting events are in the database now."""
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
            raise ValueError("the tape does not continue at its read mark")
        self._mark = msgspec.structs.replace(before, offset=known)
        with self._lock:
            ends = accumulate(map(len, self.waiting), initial=before.offset)
            return sum(end <= known for end in ends) - 1 if known > before.offset else 0

    def _find_written(self) -> int | None:
        """Return how far the store has this tape; None if the session was forgotten."""
        marks = read_marks(self.store, events.NAME, self._mark.path)
        return marks[self.name].offset if self.name in marks else None

    def _save(self, trouble: Exception) -> None:
        """Write the waiting events to the backlog, redacted."""
        if not self._is_in_trouble:
            logger.warning("events wait to be written: %s", trouble)
        try:
            with self._lock:
                new = self.waiting[self._saved :]
                key = self.store.redaction_key
                self.waiting[self._saved :] = [redact(one, key=key) for one in new]
                self._backlog.add(self._mark, self.waiting[self._saved :])
                self._saved = len(self.waiting)
        except Exception as error:  # noqa: BLE001 - the events stay in memory for the next attempt
            if not self._is_in_trouble:
                logger.warning("the backlog could not be written either: %s", error)
        self._is_in_trouble = True

    def _count_lost(self, number: int, reason: str) -> None:
        if number:
            count_miss(self.store, self.store.config.home, reason, number=number)

    def close(self) -> None:
        """Join the written parts, and leave the rest to the next recorder."""
        with self._write_lock:
            lost = self.count_waiting() - self._saved
            self._count_lost(lost, f"events of {self._mark.path} could be written nowhere")
            self._backlog.close()
            self._saved = 0
            if self.waiting:
                return
            try:
                with self.store.waiting(WAIT_SECONDS), self.store.transaction() as database:
                    tape.join_parts(database, events.NAME, self._mark)
                    session = self._mark.path.removeprefix(PLACE)
                    scores.refresh(database, {row_id("session", events.NAME, session)})
            except Exception as error:  # noqa: BLE001 - all events are recorded, in parts
                logger.warning("the tape's parts were not joined: %s", error)

    def resume(self, lines: list[bytes]) -> bool:
        """Write the events that an ended process left; False if that is not possible now."""
        self.waiting, self._queued, self._saved = lines, len(lines), len(lines)
        self.write(len(lines))
        return not self.waiting


def _new_mark(path: str) -> Mark:
    """Return a mark that no other recorder uses, so that none waits for another."""
    return Mark(path=path, part=secrets.token_hex(6))


def take_backlogs(store: Store) -> None:
    """Write the events that programs left beside the database when they were killed."""
    try:
        for path in find_backlogs(store):
            with hold_backlog(path) as left:
                if left is not None:
                    if not LiveTape(store, left.mark).resume(left.lines):
                        return
                    path.unlink(missing_ok=True)
                    scores.refresh_due(store)
    except Exception as error:  # noqa: BLE001 - the next recorder or import tries again
        logger.warning("events that other programs left were not written: %s", error)


def encode(event: events.AnyEvent) -> tuple[bytes, bool]:
    """Return an event as one line, and whether that has every value as it was given.

    Text that JSON cannot carry is repaired, and any other value becomes text: nothing is refused.
    """
    try:
        return msgspec.json.encode(event) + b"\n", True
    except UnicodeEncodeError:
        return _dump(msgspec.to_builtins(event)), True
    except Exception:  # noqa: BLE001 - a recorder must never break what it records
        fields = zip(event.__struct_encode_fields__, event.__struct_fields__, strict=True)
        plain = {name: _simplify(getattr(event, field)) for name, field in fields}
        config = event.__struct_config__
        return _dump({str(config.tag_field): config.tag, **plain}), False


def _simplify(value: object) -> object:
    if isinstance(value, dict):  # a message stays one
        return {str(key): make_plain(one) for key, one in value.items()}
    return make_plain(value)


def _dump(plain: object) -> bytes:
    return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


class LeftEvents(Struct, frozen=True):
    """The backlog of a recorder that has ended: its tape's read mark, and the lines after it."""

    mark: Mark
    lines: list[bytes]


class Backlog:
    """One recorder's file beside the database; it exists only while events wait."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def add(self, mark: Mark, lines: Sequence[bytes]) -> None:
        """Append lines; `mark` is the read mark of the tape before the first of them."""
        if not lines:
            return
        if self._file is None:
            make_folder(self._path.parent)
            self._file = create_held(self._path, msgspec.json.encode(mark) + b"\n")
        append_whole(self._file, b"".join(lines))

    def clear(self) -> None:
        """Delete the file: all its events are in the database."""
        if self._file is not None:
            self.close()
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the file to the next recorder or import."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


@contextmanager
def hold_backlog(path: Path) -> Iterator[LeftEvents | None]:
    """The events of a file; None while its recorder, or another process, uses it."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        yield None
        return
    try:
        yield _read_backlog(path) if hold(file, waits=False) else None
    finally:
        os.close(file)


def _read_backlog(path: Path) -> LeftEvents:
    head, *lines = path.read_bytes().splitlines(keepends=True) or [b""]
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # killed while it wrote: that call had not returned
    try:
        return LeftEvents(msgspec.json.decode(head, type=Mark), lines)
    except msgspec.DecodeError:
        return LeftEvents(Mark(path=""), [])


def find_backlogs(store: Store) -> list[Path]:
    return sorted(store.config.backlog.glob("*.jsonl"))
