"""The new rows of OpenCode's database, session by session.

A message is complete if the agent says so, or if it has gone on to another answer. Incomplete ones
are read again until they are complete.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from relight.model import Mark, Origin, Piece, Unreadable
from relight.sources.files import look_at_database, pass_origin, reading_database
from relight.sources.reading import BAD_LINE

SESSION = ("id", "parent_id", "directory", "version", "time_created", "time_updated")
DIGEST_BYTES = 8
CHANGES = "select session_id, count(*), max(time_updated) from {table} group by session_id"


def find_databases(folder: Path, stem: str) -> Iterator[Origin]:
    """The databases in a folder; development versions of the agent have separate ones."""
    paths = [folder] if folder.is_file() else sorted(folder.glob(f"{stem}*.db"))
    yield from filter(None, map(look_at_database, paths))


def fetch_sessions(source: str, origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
    """The new messages of each session that changed; incomplete ones come again until complete."""
    hint = "if the agent is running, try again; a newer version may have other tables"
    with reading_database(origin.path, hint) as database:
        database.execute("begin")
        yield from _fetch_changed(source, database, origin, marks)


def _fetch_changed(
    source: str, database: sqlite3.Connection, origin: Origin, marks: Mapping[str, Mark]
) -> Iterator[Piece]:
    changes: dict[str, list[Any]] = {}
    for table in ("message", "part"):
        for key, *found in database.execute(CHANGES.format(table=table)):
            changes.setdefault(key, []).extend(found)
    unreadable = _find_foreign(database, changes)
    for row in database.execute("select * from session order by time_created, id").fetchall():
        session = {name: row[name] for name in SESSION}
        key = session["id"]
        head = _digest(msgspec.json.encode([session, changes.get(key)]))
        mark = marks.get(key) or Mark(path=origin.path, part=key)
        if mark.head[:DIGEST_BYTES] == head:
            continue
        done_at = int.from_bytes(mark.head[DIGEST_BYTES:])
        lines, done_at, is_done = _read_messages(database, key, done_at)
        first = msgspec.json.encode({"table": "session", **session})
        raw = b"".join(line + b"\n" for line in (first, *lines))
        # an update within the millisecond of the last one shows in the rows alone
        head = head if is_done else _digest(raw)
        if mark.head[:DIGEST_BYTES] == head:
            continue
        # the offset is a count of pieces: a message may come in several
        head += done_at.to_bytes(8)
        after = pass_origin(mark, origin, offset=mark.offset + 1, head=head)
        yield Piece(source=source, raw=raw, before=mark, after=after)
    whole = marks.get("") or Mark(path=origin.path)
    after = pass_origin(whole, origin)
    yield Piece(source=source, raw=b"", before=whole, after=after, unreadable=unreadable)


def _read_messages(
    database: sqlite3.Connection, session: str, after: int
) -> tuple[list[bytes], int, bool]:
    """The messages after a time as lines, the time up to which all are complete, and if all are."""
    rows = database.execute(
        "select id, session_id, time_created, data from message"
        " where session_id = ? and time_created > ? order by time_created, id",
        (session, after),
    ).fetchall()
    parts: dict[str, list[dict[str, Any]]] = {row["id"]: [] for row in rows}
    for row in database.execute(
        "select part.id, message_id, part.data from part join message on message.id = message_id"
        " where part.session_id = ? and message.time_created > ? order by part.id",
        (session, after),
    ):
        found = {"id": row["id"], "data": _decode_data(row["data"])}
        parts.setdefault(row["message_id"], []).append(found)
    messages = [{**dict(row), "data": _decode_data(row["data"])} for row in rows]
    answers = [n for n, one in enumerate(messages) if _get(one["data"], "role") == "assistant"]
    last = answers[-1] if answers else -1
    lines, open_at = [], None
    for number, one in enumerate(messages):
        completed = _get(_get(one["data"], "time"), "completed") or _get(one["data"], "error")
        is_done = number < last or (number == last and bool(completed))
        if not is_done and open_at is None:
            open_at = one["time_created"]
        line = {"table": "message", **one, "is_done": is_done, "parts": parts[one["id"]]}
        lines.append(msgspec.json.encode(line))
    times = [one["time_created"] for one in messages]
    done = [at for at in times if open_at is None or at < open_at]
    return lines, max([after, *done]), open_at is None


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _decode_data(text: Any) -> Any:
    """A row's JSON; other text stays as it is, and makes the message an unreadable record."""
    try:
        return msgspec.json.decode(text)
    except BAD_LINE:
        return text if isinstance(text, str) else None


def _get(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, dict) else None


def _find_foreign(database: sqlite3.Connection, known: Mapping[str, Any]) -> list[Unreadable]:
    """Sessions whose messages are in a table of a newer version alone."""
    try:
        rows = database.execute("select distinct session_id from session_message").fetchall()
    except sqlite3.OperationalError:
        return []
    missed = sorted(key for (key,) in rows if key not in known)
    reason = "messages are in `session_message`, a table of a newer version: {}"
    return [Unreadable(number, reason.format(key)) for number, key in enumerate(missed)]
