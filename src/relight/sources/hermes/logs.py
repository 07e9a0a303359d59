"""Facts that Hermes' database does not hold: API errors, latencies, advisers, tool times.

They are in Hermes' logs and request dumps, and in the rows that Relight's plugin writes inside
Hermes. Each row is a line on the session's tape. `state.db` sums a mixture's advisers and the
acting model under the preset's name: only the traces have each call of an adviser. They have no
usage of the acting model, which is what remains of the sum.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from relight.chat.messages import decode_mended
from relight.errors import RelightError
from relight.judging.failures import classify_error
from relight.model import (
    Cost,
    Latency,
    Mark,
    Origin,
    Piece,
    Session,
    SkillEntry,
    Timing,
    Turn,
    Unreadable,
)
from relight.prices import reported_cost
from relight.sources.events import Event, failed_turn
from relight.sources.files import pass_origin, read_pieces
from relight.sources.hermes.totals import find_provider, read_usage
from relight.sources.reading import BAD_LINE
from relight.times import read_time

DUMP = "request_dump_"
DUMPS = f"sessions/{DUMP}*.json"
LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \w+ \[(?P<session>[\w.-]+)\] \S+: (?P<text>.*)"
)
ANSWERED = re.compile(r"API call #\d+: model=(?P<model>\S+) .*latency=(?P<seconds>[\d.]+)s")
FAILED = re.compile(
    r"API call failed \(attempt \d+/\d+\) error_type=(?P<type>\S+)(?:.* model=(?P<model>\S+))?"
    r"(?:.* summary=(?P<summary>.*))?"
)
ENDED = re.compile(
    r"Turn ended: reason=interrupted(?P<call>_during_api_call)?(?:.* model=(?P<model>\S+))?"
)
# a scheduled session is named after its job and the moment it began
SCHEDULED = re.compile(r"cron_.+_(\d{8}_\d{6})")
NOT_ANSWERED = "[failed: "
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def fetch_logs(source: str, origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
    """New rows, in one piece for each session, so that each is on its session's tape."""
    marks = dict(marks)
    if DUMP in origin.path:
        rows, whole = [_read_dump(origin)], marks.get("") or Mark(path=origin.path)
        after = pass_origin(whole, origin)
        yield from split_by_session(source, rows, marks, after)
        yield Piece(source=source, raw=b"", before=whole, after=after)
        return
    for piece in read_pieces(origin, marks.get(""), source=source):
        rows = [row for line in piece.raw.splitlines() if (row := read_line(line))]
        yield from split_by_session(source, rows, marks, piece.after)
        yield msgspec.structs.replace(piece, raw=b"")


def split_by_session(
    source: str, rows: list[dict[str, Any]], marks: dict[str, Mark], whole: Mark
) -> Iterator[Piece]:
    """A piece for each session's rows; `marks` is updated, as a large file has several pieces."""
    by_session: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_session.setdefault(row["session_id"], []).append(row)
    for session, some in by_session.items():
        before = marks.get(session) or Mark(path=whole.path, part=session)
        after = msgspec.structs.replace(
            before, generation=before.generation + 1, modified_ns=whole.modified_ns
        )
        marks[session] = after
        raw = b"".join(msgspec.json.encode(row) + b"\n" for row in some)
        yield Piece(source=source, raw=raw, before=before, after=after)


def _read_dump(origin: Origin) -> dict[str, Any]:
    """The error of a request dump, without the request, which repeats the conversation."""
    try:
        dump = msgspec.json.decode(Path(origin.path).read_bytes())
        request = dump.get("request", {}).get("body", {})
        return {
            "table": "request_dump",
            "session_id": str(dump["session_id"]),
            "at": _read_local(dump["timestamp"]),
            "model": request.get("model") if isinstance(request, dict) else None,
            "reason": dump.get("reason"),
            "error": dump.get("error") or {},
        }
    except BAD_LINE as error:
        raise RelightError(f"cannot read {origin.path}: {error}", "it is left out") from error


def _read_local(text: str) -> int | None:
    """A local time as Unix milliseconds, or None if the text is not a time."""
    try:
        return read_time(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return None


def read_line(line: bytes) -> dict[str, Any] | None:
    """The facts of a log line that the database does not have; its times are local."""
    found = LINE.match(line.decode("utf-8", "replace"))
    at = _read_local(found["time"].replace(",", ".")) if found else None
    if found is None or at is None:
        return None
    row = {"table": "log", "session_id": found["session"], "at": at}
    text = found["text"]
    if call := ANSWERED.match(text):
        return row | {"event": "answered", "model": call["model"], "seconds": call["seconds"]}
    if call := FAILED.match(text):
        text = call["summary"] or call["type"]
        return row | {"event": "failed", "model": call["model"], "text": text}
    if ended := ENDED.match(text):
        in_call = {"in_call": True, "model": ended["model"]} if ended["call"] else {}
        return row | {"event": "interrupted", **in_call}
    return None


def read_log_row(row: dict[str, Any]) -> Iterator[Event]:
    """The events of a row of a log or a dump."""
    session, at = row["session_id"], row["at"]
    yield Session(key=session, started_at=_find_start(session, at))
    if row["table"] == "request_dump":
        error = row["error"]
        text = str(error.get("message") or row.get("reason"))
        yield _read_failure(row, at, text, status=error.get("status_code"))
    elif row["event"] == "failed":
        yield _read_failure(row, at, row["text"], status=None)
    elif row["event"] == "answered":
        yield Latency(
            key=f"{session}@{at}",
            session=session,
            model=row["model"],
            latency_ms=round(float(row["seconds"]) * 1000),
        )
    elif row["event"] == "interrupted":
        yield Session(key=session, ended_at=at, ending="interrupted")
        if row.get("in_call"):
            # 499: the client closed the request
            yield _read_failure(row, at, "interrupted during an API call", status=499)


def _find_start(session: str, at: int | None) -> int | None:
    """The start of a scheduled session, from its id: Hermes may end it before it has a row.

    The id is in the time zone of Hermes' settings. A log line of the session cannot be earlier.
    """
    named = SCHEDULED.fullmatch(session)
    began = _read_local(named[1].replace("_", "T")) if named else None
    return None if began is None or at is None else min(began, at)


def _read_failure(row: dict[str, Any], at: int | None, text: str, *, status: int | None) -> Turn:
    """A failed call; log, dump and plugin record it, mostly within the same second."""
    key = f"{row['session_id']}!{(at or 0) // 1000}"
    model = row.get("model")
    return failed_turn(key, row["session_id"], text, at=at, status=status, model=model)


def read_plugin_row(row: dict[str, Any]) -> Iterator[Event]:
    """The events of a row that the database does not hold."""
    session = row["session_id"]
    at = read_time(row.get("ended_at") or row.get("at"))
    yield Session(key=session, model=row.get("model"))
    match row.get("event"):
        case "answered":
            yield _read_answer(row, at)
        case "failed":
            text = str(row.get("message") or row.get("reason") or "API error")
            yield _read_failure(row, at, text, status=row.get("status"))
        case "called" if row.get("tool") and row.get("duration_ms") is not None and at:
            call = row.get("call_id")
            name = f"{session}:{call}" if call else None
            spent = round(row["duration_ms"])
            yield Timing(f"{session}:{call}:{at}", session, row["tool"], at, spent, name)
        case "skill" if row.get("name"):
            yield SkillEntry(
                key=f"{session}:preload:{row['name']}",
                session=session,
                name=row["name"],
                entry="preload",
                at=at,
                version=row.get("version"),
            )


def _read_answer(row: dict[str, Any], at: int | None) -> Turn:
    duration = row.get("duration_seconds")
    # "None" is on tapes of older plugins, where Hermes gives a request no id
    name = row["at"] if row.get("id") in (None, "None") else row["id"]
    return Turn(
        key=f"{row['session_id']}:{name}",
        session=row["session_id"],
        at=read_time(row.get("started_at")) or at,
        model=row.get("model"),
        provider=find_provider(row.get("provider"), row.get("base_url")),
        usage=read_usage(row.get("usage")),
        duration_ms=None if duration is None else round(duration * 1000),
    )


def fetch_moa(source: str, origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
    """New rows by session: ids that Hermes writes alike share one file."""
    marks = dict(marks)
    for piece in read_pieces(origin, marks.get(""), source=source):
        rows, bad_lines = [], []
        start = piece.before.offset
        for line in piece.raw.split(b"\n"):
            try:
                row = decode_mended(_decode, line) if line.strip() else {}
            except BAD_LINE as error:
                row = {}
                bad_lines.append(Unreadable(start, str(error)))
            if row.get("session_id"):
                rows.append({"table": "moa", **row, "session_id": str(row["session_id"])})
            start += len(line) + 1
        yield from split_by_session(source, rows, marks, piece.after)
        yield msgspec.structs.replace(piece, raw=b"", unreadable=[*piece.unreadable, *bad_lines])


def read_moa_row(row: Mapping[str, Any]) -> Iterator[Event]:
    """Each adviser's call as a turn of its role."""
    session, at = row["session_id"], read_time(row.get("ts"))
    yield Session(key=session)
    references = row.get("references")
    for number, one in enumerate(references if isinstance(references, list) else ()):
        if isinstance(one, dict):
            yield _read_adviser(one, f"{session}:moa:{row.get('ts')}:{number}", row, at)


def _read_adviser(
    reference: Mapping[str, Any], key: str, row: Mapping[str, Any], at: int | None
) -> Turn:
    output = str(reference.get("output") or "")
    usage = reference.get("usage")
    text = output.removeprefix(NOT_ANSWERED).rstrip("]")
    failure = classify_error(text) if output.startswith(NOT_ANSWERED) else None
    used = read_usage(usage) if usage or failure is None else failure.usage
    return Turn(
        key=key,
        session=row["session_id"],
        at=at,
        model=reference.get("model"),
        provider=reference.get("provider"),
        role="reference",
        calls=0 if failure else 1,
        usage=used,
        usage_status="partial" if used.output is None else "final",
        cost=_read_cost(reference),
        failure=failure.kind if failure else None,
        failure_text=text[:500] if failure else None,
    )


def _read_cost(reference: Mapping[str, Any]) -> Cost | None:
    """The cost that Hermes reports: an amount as text, or null without a price."""
    amount, status = reference.get("cost_usd"), reference.get("cost_status")
    if amount is None or status not in ("estimated", "actual"):
        return None
    return reported_cost(str(amount), status="estimated" if status == "estimated" else "reported")
