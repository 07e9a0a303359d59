"""The first half of the door: raw records become rows, redacted, judged and compressed.

It touches no database, so worker processes do it; `record` writes what comes out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from relight.ids import hash_names, row_id
from relight.judging.verdicts import find_test_outcome, judge_call
from relight.model import (
    Job,
    Latency,
    Mark,
    Origin,
    Parsed,
    Piece,
    Run,
    Session,
    SkillEntry,
    ToolCall,
    Total,
    Turn,
    Unreadable,
)
from relight.redact import redact
from relight.store.derive.words import count_words, fingerprint_call, read_object, write_work
from relight.store.write import tape
from relight.times import day_reader

Read = Callable[[Sequence[bytes], Origin, bytes], Parsed]


class Sealed(Struct, frozen=True, kw_only=True):
    """Rows of one stretch of records, ready to be written with the mark that says so."""

    source: str
    before: Mark
    after: Mark
    owner_id: int | None = None
    start: int = 0
    raw_bytes: int = 0
    records: bytes = b""
    sessions: list[tuple[int, Session]] = []
    turns: list[tuple[int, str | None, Turn]] = []
    calls: list[tuple[Any, ...]] = []
    totals: list[tuple[int, Total]] = []
    jobs: list[Job] = []
    runs: list[Run] = []
    latencies: list[Latency] = []
    unreadable: list[Unreadable] = []
    skills: list[tuple[Any, ...]] = []
    words: list[tuple[Any, ...]] = []
    timings: list[tuple[Any, ...]] = []


def seal(piece: Piece, read: Read, *, key: bytes, timezone: str) -> Sealed:
    """Redact a piece, read what it says, judge its calls and compress it for the tape."""
    records = redact(piece.raw, key=key)
    origin = Origin(piece.after.path, piece.after.size, piece.after.modified_ns)
    parsed = read(tape.split_lines(records), origin, piece.before.state)
    return msgspec.structs.replace(
        seal_parsed(piece.source, parsed, timezone=timezone),
        before=piece.before,
        after=msgspec.structs.replace(piece.after, state=parsed.state),
        start=_start(piece),
        raw_bytes=len(piece.raw),
        records=tape.compress(records) if records else b"",
        unreadable=[*piece.unreadable, *_place_bad_lines(piece, parsed.bad_lines)],
    )


def seal_parsed(source: str, parsed: Parsed, *, timezone: str) -> Sealed:
    """The rows of what a reader found, without any tape."""
    read_day = day_reader(timezone)
    nowhere = Mark(path="")
    return Sealed(
        source=source,
        owner_id=None if parsed.owner is None else row_id("session", source, parsed.owner),
        before=nowhere,
        after=nowhere,
        sessions=[(row_id("session", source, one.key), one) for one in parsed.sessions],
        turns=[(row_id("turn", source, one.key), read_day(one.at), one) for one in parsed.turns],
        calls=[_call_row(source, one, read_day(one.at)) for one in parsed.calls],
        totals=[(row_id("total", source, one.key), one) for one in parsed.totals],
        jobs=parsed.jobs,
        runs=parsed.runs,
        latencies=parsed.latencies,
        skills=[_skill_row(source, one) for one in parsed.skills],
        words=count_words(source, parsed),
        timings=[
            (
                row_id("timing", source, one.key),
                row_id("session", source, one.session),
                one.tool,
                one.at,
                one.duration_ms,
                None if one.name is None else row_id("name", source, one.name),
            )
            for one in parsed.timings
        ],
    )


def _call_row(source: str, call: ToolCall, day: str | None) -> tuple[Any, ...]:
    arguments = read_object(call.arguments)
    verdict = judge_call(
        call.tool,
        arguments,
        call.result,
        is_error=call.is_error,
        exit_code=call.exit_code,
        timed_out=call.timed_out,
    )
    is_plain = verdict.label in ("ok", "unknown")
    return (
        hash_names("call", source, call.key),
        row_id("session", source, call.session),
        None if call.turn is None else row_id("turn", source, call.turn),
        call.at,
        day,
        call.finished_at,
        call.tool,
        fingerprint_call(call.tool, arguments),
        None if call.arguments is None else len(call.arguments),
        None if call.result is None else len(call.result),
        call.exit_code if abs(call.exit_code or 0) < 1 << 31 else None,
        call.duration_ms,
        verdict.label,
        verdict.kind,
        None if is_plain else verdict.reason,
        None if is_plain else verdict.evidence,
        find_test_outcome(call.tool, arguments, call.result, verdict=verdict),
        write_work(call.tool, arguments),
        None if call.name is None else row_id("name", source, call.name),
    )


def _skill_row(source: str, entry: SkillEntry) -> tuple[Any, ...]:
    return (
        row_id("skill", source, entry.key),
        row_id("session", source, entry.session),
        entry.name,
        entry.entry,
        entry.at,
        entry.version,
        None if entry.turn is None else row_id("turn", source, entry.turn),
    )


def _place_bad_lines(piece: Piece, bad_lines: dict[int, str]) -> list[Unreadable]:
    """Bad lines by their byte offset in the original file, which redaction does not shift."""
    if not bad_lines:
        return []
    placed, offset = [], _start(piece)
    for number, line in enumerate(tape.split_lines(piece.raw)):
        if reason := bad_lines.get(number):
            placed.append(Unreadable(offset, reason))
        offset += len(line) + 1
    return placed


def _start(piece: Piece) -> int:
    return piece.before.offset if piece.start is None else piece.start
