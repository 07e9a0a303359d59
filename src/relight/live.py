"""Writes the events of a live session, each before whoever told it goes on."""

import json
import logging
import secrets
import threading

import msgspec

from relight.model import Mark, Piece
from relight.sources import relight as events
from relight.store import Store, tape
from relight.store.record import Recorder
from relight.store.seal import seal

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
        with self._write_lock:
            if self._written >= number:
                return
            with self._lock:
                lines, told = list(self.waiting), self._told
            try:
                self._write_lines(b"".join(lines))
            except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
                logger.warning("a record waits to be written: %s", error)
                return
            with self._lock:
                del self.waiting[: len(lines)]
                self._written = told

    def _write_lines(self, raw: bytes) -> None:
        before = self._mark
        after = msgspec.structs.replace(before, offset=before.offset + len(raw))
        piece = Piece(source=events.NAME, raw=raw, before=before, after=after)
        key, timezone = self.store.redaction_key, self.store.timezone
        sealed = seal(piece, events.read, key=key, timezone=timezone)
        self._recorder.record([sealed])
        self._mark = sealed.after

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
