"""Writes the events of a live session, each before whoever told it goes on."""

import json
import logging
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from relight.misses import count_miss
from relight.model import Mark, Piece
from relight.sources import relight as events
from relight.store import Store, tape
from relight.store.marks import read_marks
from relight.store.record import Recorder
from relight.store.seal import Sealed, seal

logger = logging.getLogger("relight")


class LiveTape:
    """One teller's part of a session's tape; several may tell one session."""

    def __init__(self, store: Store, session_id: str) -> None:
        self.store = store
        # no two tellers are alike, so that none waits for another's mark
        self.name = secrets.token_hex(6)
        self.waiting: list[bytes] = []
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._recorder = Recorder(store)
        self._mark = Mark(path=f"recorder/{session_id}", part=self.name)
        self._told = self._written = 0
        self._held = threading.local()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What this thread tells inside is written in one go, when it leaves."""
        self._held.number = 0
        try:
            yield
        finally:
            number = self._held.number
            del self._held.number
            self.write(number)

    def line_up(self, event: events.AnyEvent) -> int:
        """Put an event in its place among those told; gives its number."""
        with self._lock:
            self.waiting.append(encode(event))
            self._told += 1
            return self._told

    def write(self, number: int) -> None:
        """Have an event written before returning: by this thread, or by one that was quicker.

        What lined up while another was writing is written at once, in one transaction.
        """
        if hasattr(self._held, "number"):
            self._held.number = number
            return
        with self._write_lock:
            if self._written >= number:
                return
            with self._lock:
                lines, told = list(self.waiting), self._told
            try:
                self._write_lines(lines)
            except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
                logger.warning("a record waits to be written: %s", error)
                return
            with self._lock:
                del self.waiting[: len(lines)]
                self._written = told

    def _write_lines(self, lines: list[bytes]) -> None:
        sealed = self._seal(b"".join(lines))
        if sealed is None:  # one of them breaks the reader: it must not hold up the others
            for line in lines if len(lines) > 1 else ():
                self._write_lines([line])
            if len(lines) == 1:
                count_miss(self.store, self.store.config.home, "an event could not be understood")
            return
        taken, _ = self._recorder.record([sealed])
        before, self._mark = self._mark, sealed.after
        if not taken and (known := self._find_written()) is not None:
            # interrupted between its commit and its return: only what is new is written
            self._mark = msgspec.structs.replace(before, offset=known)
            if rest := b"".join(lines)[known - before.offset :]:
                self._write_lines(rest.splitlines(keepends=True))

    def _seal(self, raw: bytes) -> Sealed | None:
        before = self._mark
        after = msgspec.structs.replace(before, offset=before.offset + len(raw))
        piece = Piece(source=events.NAME, raw=raw, before=before, after=after)
        key, timezone = self.store.redaction_key, self.store.timezone
        try:
            return seal(piece, events.read, key=key, timezone=timezone)
        except Exception as error:  # noqa: BLE001 - whatever a strange event does to the reader
            logger.warning("what was told could not be understood: %r", error)
            return None

    def _find_written(self) -> int | None:
        """How far the store has this tape; None if it was told to forget it."""
        marks = read_marks(self.store, events.NAME, self._mark.path)
        return marks[self.name].offset if self.name in marks else None

    def join(self) -> None:
        """One part of tape in place of one an event: a third of the size, and quicker to read."""
        try:
            with self.store.transaction() as database:
                tape.join_parts(database, events.NAME, self._mark)
        except Exception as error:  # noqa: BLE001 - it stays in parts, which is as good
            logger.warning("the tape was not joined: %s", error)


def encode(event: events.AnyEvent) -> bytes:
    """An event as one line; text that no JSON can carry is mended, never refused."""
    try:
        return msgspec.json.encode(event) + b"\n"
    except (UnicodeEncodeError, TypeError):
        plain = msgspec.to_builtins(event, enc_hook=str)
        return json.dumps(plain, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"
