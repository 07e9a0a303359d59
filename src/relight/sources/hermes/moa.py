"""Hermes' own traces of mixtures: the only record of what each adviser cost.

`state.db` sums advisers and the acting model under the preset's name. The traces have each call of
an adviser, and no usage of the acting model, which is what remains of the sum.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from relight.judging.failures import classify_error
from relight.model import Cost, Mark, Origin, Piece, Session, Turn, Unreadable
from relight.prices import reported_cost
from relight.sources.events import Event
from relight.sources.files import look_at, read_pieces
from relight.sources.hermes.logs import split_by_session
from relight.sources.hermes.totals import read_usage
from relight.sources.reading import BAD_LINE
from relight.text import decode_mended
from relight.times import read_time

FOLDER = "moa-traces"
FAILED = "[failed: "
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def find_moa(root: Path) -> Iterator[Origin]:
    paths = sorted(root.glob(f"{FOLDER}/*.jsonl"))
    yield from (origin for path in paths if (origin := look_at(path)))


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
    text = output.removeprefix(FAILED).rstrip("]")
    failure = classify_error(text) if output.startswith(FAILED) else None
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
