"""Hermes' own traces of mixtures: the only place that tells what each adviser cost.

`state.db` sums advisers and the acting model under the preset's name; the traces tell the
advisers' calls one by one, and of the acting model no usage: that is what the sum leaves over.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from relight.failures import classify_error
from relight.model import Cost, Mark, Origin, Piece, Session, Turn, Usage
from relight.prices import reported_cost
from relight.sources.files import look_at, read_piece
from relight.sources.hermes_logs import split_by_session
from relight.sources.reading import Reading
from relight.times import read_time

FOLDER = "moa-traces"
FAILED = "[failed: "


def find_moa(root: Path) -> Iterator[Origin]:
    paths = sorted(root.glob(f"{FOLDER}/*.jsonl"))
    yield from (origin for path in paths if (origin := look_at(path)))


def fetch_moa(source: str, origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
    """What is new, by session: ids that Hermes writes alike share one file."""
    marks, mark, more = dict(marks), marks.get(""), True
    while more:
        piece, more = read_piece(source, origin, mark)
        rows = []
        for line in piece.raw.split(b"\n"):
            try:
                row = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            if isinstance(row, dict) and row.get("session_id"):
                rows.append({"table": "moa", **row, "session_id": str(row["session_id"])})
        yield from split_by_session(source, rows, marks, piece.after)
        mark = piece.after
        yield msgspec.structs.replace(piece, raw=b"")


def read_moa_row(reading: Reading, row: Mapping[str, Any]) -> None:
    """Each adviser's call as a turn of its role."""
    session, at = row["session_id"], read_time(row.get("ts"))
    reading.see_session(Session(key=session))
    references = row.get("references")
    for number, one in enumerate(references if isinstance(references, list) else ()):
        if isinstance(one, dict):
            reading.see_turn(_read_adviser(one, f"{session}:moa:{row.get('ts')}:{number}", row, at))


def _read_adviser(
    told: Mapping[str, Any], key: str, row: Mapping[str, Any], at: int | None
) -> Turn:
    output = str(told.get("output") or "")
    has_failed = output.startswith(FAILED)
    text = output.removeprefix(FAILED).rstrip("]")
    return Turn(
        key=key,
        session=row["session_id"],
        at=at,
        model=told.get("model"),
        provider=told.get("provider"),
        role="reference",
        calls=0 if has_failed else 1,
        usage=Usage(0, 0, 0, 0) if has_failed else _read_usage(told.get("usage")),
        usage_status="final" if told.get("usage") or has_failed else "partial",
        cost=_read_cost(told),
        failure=classify_error(text).kind if has_failed else None,
        failure_text=text[:500] if has_failed else None,
    )


def _read_usage(usage: object) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        input=usage.get("input_tokens"),
        cache_read=usage.get("cache_read_tokens"),
        cache_write=usage.get("cache_write_tokens"),
        output=usage.get("output_tokens"),
        reasoning=usage.get("reasoning_tokens"),
    )


def _read_cost(told: Mapping[str, Any]) -> Cost | None:
    """What Hermes says it cost; a figure comes as text, and without a price as null."""
    amount = told.get("cost_usd")
    if amount is None or told.get("cost_status") not in ("estimated", "actual"):
        return None
    cost = reported_cost(str(amount))
    is_estimated = told.get("cost_status") == "estimated" and cost.nanos is not None
    return Cost(cost.nanos, "estimated", "source") if is_estimated else cost
