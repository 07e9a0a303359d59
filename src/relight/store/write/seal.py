"""The first half of the door: raw records become rows, redacted, judged and compressed.

It touches no database, so worker processes do it; `record` writes the result.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from relight.chat.messages import read_object
from relight.config import Settings
from relight.judging.admissions import admit, hash_answer
from relight.judging.features import count_words, fingerprint_call
from relight.judging.kinds import Understood, understand_call
from relight.judging.verdicts import find_test_outcome, judge_read
from relight.judging.verdicts.tool_results import read_result
from relight.model import (
    Mark,
    Origin,
    Parsed,
    Piece,
    Session,
    SkillEntry,
    Timing,
    ToolCall,
    Unreadable,
    Verdict,
    hash_names,
    row_id,
)
from relight.redact import DENSE, redact, redact_cell
from relight.store.derive.pricing import Pricer
from relight.store.derive.scores import measure_piece, write_work
from relight.store.derive.search_text import make_texts
from relight.store.derive.whole_sessions import sum_piece
from relight.store.limits import make_limit_row
from relight.store.write import tape
from relight.store.write.sealed import (
    CallRow,
    CompactionRow,
    FileEditRow,
    GitCommitRow,
    Sealed,
    SkillEntryRow,
    TimingRow,
    list_turns,
)
from relight.times import day_reader

# as verdicts quote an exit code that stands in the text of a result
MOST_PATH = 4096  # characters
EXIT_EVIDENCE = re.compile(r"exit code (-?\d{1,9})\b")
Read = Callable[[Sequence[bytes], Origin, bytes], Parsed]


DENSE_NOTE = f"[redacted:{DENSE}:".encode()
DENSE_REASON = "recorded without some of its texts: too many secrets hide one another in them"


def seal(piece: Piece, read: Read, *, key: bytes, timezone: str) -> Sealed:
    """Return the rows of a piece: redacted, parsed, judged and compressed for the tape."""
    records = redact(piece.raw, key=key)
    origin = Origin(piece.after.path, piece.after.size, piece.after.modified_ns)
    parsed = read(tape.split_lines(records), origin, piece.before.state)
    return msgspec.structs.replace(
        seal_parsed(piece.source, parsed, key=key, timezone=timezone),
        before=piece.before,
        after=msgspec.structs.replace(piece.after, state=parsed.state),
        start=_start(piece),
        raw_bytes=len(piece.raw),
        records=tape.compress(records) if records else b"",
        unreadable=[
            *piece.unreadable,
            *_place_bad_lines(piece, {**_find_dense(records), **parsed.bad_lines}),
        ],
    )


def prepare_piece(piece: Sealed, settings: Settings | None = None) -> Sealed:
    """Return a piece with rows of turns and measures, which the writing process need not make.

    With settings its turns have a cost, and its sessions are summed.
    """
    replace, is_first = msgspec.structs.replace, piece.before.offset == 0
    measures = measure_piece(piece) if is_first else {}
    prepared = replace(piece, turns=[], turn_rows=list_turns(piece), measures=measures)
    if settings is None:
        return prepared
    price = Pricer(settings).price_row
    turns = [price(turn, piece.source) for turn in prepared.turn_rows]
    priced = replace(prepared, turn_rows=turns, is_priced=True)
    return replace(priced, sums=sum_piece(priced, settings.models.aliases)) if is_first else priced


def seal_parsed(source: str, parsed: Parsed, *, key: bytes, timezone: str) -> Sealed:
    """Return the rows of parsed records, without a tape."""
    read_day = day_reader(timezone)
    nowhere = Mark(path="")
    calls = [_seal_call(source, one, read_day(one.at), key=key) for one in parsed.calls]
    sessions = [
        (row_id("session", source, one.key), _redact_cells(one, key)) for one in parsed.sessions
    ]
    return Sealed(
        source=source,
        owner_id=None if parsed.owner is None else row_id("session", source, parsed.owner),
        before=nowhere,
        after=nowhere,
        sessions=sessions,
        admissions={
            hash_answer(one.answer): admit(one.answer)
            for _, one in sessions
            if one.answer and one.ending == "answer"
        },
        turns=[(row_id("turn", source, one.key), read_day(one.at), one) for one in parsed.turns],
        reports=[(row_id("report", source, one.key), one) for one in parsed.reports],
        calls=[row for row, _, _ in calls],
        totals=[(row_id("total", source, one.key), one) for one in parsed.totals],
        jobs=parsed.jobs,
        runs=parsed.runs,
        latencies=parsed.latencies,
        skills=[_skill_row(source, one) for one in parsed.skills],
        words=count_words(source, parsed),
        timings=[
            TimingRow(
                id=row_id("timing", source, one.key),
                session_id=row_id("session", source, one.session),
                tool=one.tool,
                at=one.at,
                duration_ms=one.duration_ms,
                name=_name_timing(source, one),
                report_id=hash_names("call", source, one.report) if one.report else None,
            )
            for one in parsed.timings
        ],
        limits=[make_limit_row(source, one) for one in parsed.limits],
        compactions=[
            CompactionRow(row_id("session", source, session), at)
            for session, at in parsed.compactions
        ],
        edits=[row for _, edits, _ in calls for row in edits],
        commits=[row for _, _, commits in calls for row in commits],
        texts=make_texts(source, parsed.passages),
    )


def _name_timing(source: str, timing: Timing) -> int | None:
    """The hash of the name or of the key of a timed call: the log has one or the other, or none."""
    if timing.call is not None:
        return hash_names("call", source, timing.call)
    return None if timing.name is None else row_id("name", source, timing.name)


def _redact_cells(session: Session, key: bytes) -> Session:
    """The session with the texts of its lists redacted once more: what escapes hid stands here."""
    cells = {name: getattr(session, name) for name in ("title", "project", "branch", "answer")}
    clean = {name: redact_cell(text, key=key) for name, text in cells.items() if text}
    changed = {name: text for name, text in clean.items() if text is not cells[name]}
    return msgspec.structs.replace(session, **changed) if changed else session


def redate(piece: Sealed, timezone: str) -> Sealed:
    """Return a sealed piece with its days in another time zone."""
    read_day = day_reader(timezone)
    replace = msgspec.structs.replace
    return replace(
        piece,
        turns=[(found, read_day(turn.at), turn) for found, _, turn in piece.turns],
        turn_rows=[replace(turn, day=read_day(turn.at)) for turn in piece.turn_rows],
        calls=[replace(call, day=read_day(call.at)) for call in piece.calls],
        sums={},
    )


def _seal_call(
    source: str, call: ToolCall, day: str | None, *, key: bytes
) -> tuple[CallRow, list[FileEditRow], list[GitCommitRow]]:
    """The rows of a call, of the files that it changes, and of its commits."""
    arguments = read_object(call.arguments)
    seen = None if call.result is None else read_result(call.result)
    known = understand_call(call.tool, arguments)
    verdict = judge_read(
        call.tool,
        arguments,
        seen,
        is_error=call.is_error,
        exit_code=call.exit_code,
        timed_out=call.timed_out,
    )
    is_plain = verdict.label in ("ok", "unknown")
    row = CallRow(
        id=hash_names("call", source, call.key),
        session_id=row_id("session", source, call.session),
        turn_id=None if call.turn is None else row_id("turn", source, call.turn),
        at=call.at,
        day=day,
        finished_at=call.finished_at,
        tool=call.tool,
        fingerprint=fingerprint_call(call.tool, arguments),
        arguments_bytes=None if call.arguments is None else len(call.arguments),
        result_bytes=None if call.result is None else len(call.result),
        exit_code=_find_exit_code(call, verdict),
        duration_ms=call.duration_ms,
        label=verdict.label,
        kind=verdict.kind,
        reason=None if is_plain else verdict.reason,
        evidence=None if is_plain else verdict.evidence,
        tests=find_test_outcome(call.tool, arguments, call.result, verdict=verdict, seen=seen),
        work=write_work(call.tool, arguments, known),
        name=None if call.name is None else row_id("name", source, call.name),
    )
    return row, _edit_rows(row.id, call, arguments, key=key), _commit_rows(row.id, call, known, key)


def _edit_rows(call_id: int, call: ToolCall, arguments: Any, *, key: bytes) -> list[FileEditRow]:
    """The files that a call changes; a file that it changes twice has one row."""
    if not call.arguments:
        return []
    from relight.judging.edits import count_changes, find_edits

    fields = arguments if isinstance(arguments, dict) else None
    lines: dict[str, tuple[int, int]] = {}
    for one in find_edits(call.tool, call.arguments, fields=fields, diff=count_changes):
        path = redact_cell(one.path[:MOST_PATH], key=key)
        added, removed = lines.get(path, (0, 0))
        lines[path] = (added + one.added, removed + one.removed)
    return [FileEditRow(call_id, path, *both) for path, both in lines.items()]


def _commit_rows(call_id: int, call: ToolCall, known: Understood, key: bytes) -> list[GitCommitRow]:
    """The commits that a finished call made, with the hashes that git printed."""
    if call.result is None or "commit" not in (call.arguments or ""):
        return []
    from relight.judging.edits import find_commits

    return [
        GitCommitRow(call_id, one.hash, redact_cell(one.branch, key=key) if one.branch else None)
        for one in find_commits(known.command, call.result)
    ]


def _find_exit_code(call: ToolCall, verdict: Verdict) -> int | None:
    """Return the recorded exit code, else the one that the verdict read in the result."""
    if call.exit_code is not None:
        return call.exit_code if abs(call.exit_code) < 1 << 31 else None
    found = EXIT_EVIDENCE.match(verdict.evidence or "")
    return int(found[1]) if found else None


def _skill_row(source: str, entry: SkillEntry) -> SkillEntryRow:
    return SkillEntryRow(
        id=row_id("skill", source, entry.key),
        session_id=row_id("session", source, entry.session),
        skill_name=entry.name,
        entry=entry.entry,
        at=entry.at,
        skill_version=entry.version,
        turn_id=None if entry.turn is None else row_id("turn", source, entry.turn),
    )


def _find_dense(records: bytes) -> dict[int, str]:
    """The lines in which whole texts were replaced, because secrets hid one another."""
    if DENSE_NOTE not in records:
        return {}
    lines = enumerate(tape.split_lines(records))
    return {number: DENSE_REASON for number, line in lines if DENSE_NOTE in line}


def _place_bad_lines(piece: Piece, bad_lines: dict[int, str]) -> list[Unreadable]:
    """Return the bad lines with their offset in the original file, before redaction."""
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


def list_origins(piece: Sealed) -> list[int | None]:
    """Return the rows of a piece's sessions, with those above sub-agents and exported ones."""
    sessions = [one for _, one in piece.sessions]
    # a fork of a forgotten session is a separate session
    below = [one for one in sessions if one.parent is not None and one.parent_kind == "subagent"]
    ids = [piece.owner_id, *(row_id("session", piece.source, one.parent or "") for one in below)]
    exported = [one.parent for one in below if one.parent and one.exported_from]
    return [*ids, *map(_find_original, exported), *list_originals(piece)]


def list_originals(piece: Sealed) -> set[int]:
    """Return the rows that exported sessions have where they were exported from."""
    names = (one.exported_from for _, one in piece.sessions)
    return {_find_original(name) for name in names if name}


def _find_original(name: str) -> int:
    source, _, key = name.partition(":")
    return row_id("session", source, key)


def strip_piece(piece: Sealed) -> Sealed:
    """Keep only the read mark of a piece that is left out: no tape and no reader's state."""
    after = msgspec.structs.replace(piece.after, state=b"")
    return msgspec.structs.replace(piece, records=b"", after=after)
