"""Exported sessions: lines of a chat file that `relight export` wrote, with the figures of turns.

Turns and calls keep the ids of the store that they were exported from, so reading an older and a
newer export of a session adds nothing twice.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from relight.chat.exported import (
    VERSION,
    ExportedCall,
    ExportedMessage,
    ExportedSession,
    ExportedTurn,
)
from relight.model import BUCKETS, Session, ToolCall, Turn
from relight.sources.events import Called, Compacted, Event, Returned, Said
from relight.sources.reading import last_words
from relight.times import read_time

_decode = msgspec.json.Decoder(ExportedSession).decode


def decode_exported(line: bytes) -> ExportedSession:
    """The record of a line that has the mark; raise if its shape is newer than this reader."""
    record = _decode(line)
    if record.relight_export > VERSION:
        raise ValueError(
            f"the export has shape {record.relight_export}, newer than {VERSION}: update Relight"
        )
    return record


def read_exported(record: ExportedSession) -> Iterator[Event]:
    """The events of an exported session: its facts, its turns with their cost, its messages."""
    key = record.session_id
    yield _read_session(record)
    # the store that reads this adds the call that a session was cut off in by itself
    turns = [one for one in record.turns if one.usage_status != "unanswered"]
    said = {one.turn_id for one in record.messages}
    silent = deque(one for one in turns if one.turn_id not in said and one.calls < 2)
    known = {call.call_id: call for call in record.calls}
    placed: set[str | None] = set()
    for message in record.messages:
        # a model call without words stands at its time, one with words at them
        while silent and message.timestamp and (silent[0].at or "") < message.timestamp:
            yield _read_turn(key, silent.popleft())
        yield from _read_message(key, message, known, placed)
    for turn in turns:
        if turn.turn_id in said or turn.calls > 1 or turn in silent:
            yield _read_turn(key, turn)
    for call in record.calls:
        if call.call_id not in placed:  # the tape that its words were on is gone
            yield Called(_make_call(key, call, finished_at=read_time(call.finished_at)))


def _read_session(record: ExportedSession) -> Session:
    answers = [one.content for one in record.messages if one.role == "assistant" and one.content]
    copied = ("parent_kind", "project", "branch", "title", "model", "version")
    facts: dict[str, Any] = {name: getattr(record, name) for name in copied}
    facts |= {
        "key": record.session_id,
        "exported_from": record.session_id,
        "parent": record.parent_session_id,
        "started_at": read_time(record.started_at),
        "ended_at": read_time(record.ended_at),
        "ending": None if _is_settled(record) else record.ending,
        "prompted_at": read_time(record.prompted_at),
        "answer": last_words(answers[-1]) if answers else None,
        # an unknown outcome is judged by the same evidence again
        "told_outcome": record.outcome if record.outcome != "unknown" else None,
    }
    return msgspec.convert(facts, Session)


def _is_settled(record: ExportedSession) -> bool:
    """True if the other store saw no model call cut off, where this one would by the ending.

    It knew more: that the session is live, or that only sums of its calls are recorded.
    """
    statuses = {one.usage_status for one in record.turns}
    is_open = record.ending in ("prompt", "result")
    is_open |= record.ending == "interrupted" and "reconciled" in statuses
    return is_open and "unanswered" not in statuses


def _read_turn(key: str, turn: ExportedTurn) -> Turn:
    nanos = None if turn.cost_usd is None else round(turn.cost_usd * 1e9)
    copied = ("at", "model", "provider", "role", "calls", "usage_status", "duration_ms")
    more = ("first_token_ms", "failure", "failure_text", "branch")
    facts: dict[str, Any] = {name: getattr(turn, name) for name in (*copied, *more)}
    facts |= {
        "key": turn.turn_id,
        "session": key,
        "at": read_time(turn.at),
        "usage": {name: getattr(turn, column) for name, column in BUCKETS.items()},
    }
    if nanos is not None or turn.cost_status == "included":
        cost = {"nanos": nanos, "status": turn.cost_status, "source": turn.cost_source}
        facts["cost"] = cost
    return msgspec.convert(facts, Turn)


def _read_message(
    key: str,
    message: ExportedMessage,
    known: Mapping[str, ExportedCall],
    placed: set[str | None],
) -> Iterator[Event]:
    at, text = read_time(message.timestamp), message.content
    if message.is_compaction:
        yield Compacted(key, at, text)
    elif message.role == "user":
        if text:
            yield Said(key, "user", text, at=at)
        if message.injected:
            is_new = not text
            yield Said(key, "user", message.injected, is_new=is_new, at=at, is_typed=False)
    elif message.role == "assistant":
        if text:
            yield Said(key, "assistant", text, message.turn_id, at=at)
        for asked in message.tool_calls or ():
            call = known.get(asked.id)
            if call is None or asked.id in placed:
                continue  # a fork copied it: it counts for the parent
            placed.add(asked.id)
            made = _make_call(key, call, arguments=asked.function.arguments)
            yield Called(made, call.call_id, message.turn_id)
    elif message.role == "tool" and message.tool_call_id in placed:
        yield _read_result(key, known[message.tool_call_id or ""], text)


def _make_call(
    key: str,
    call: ExportedCall,
    *,
    arguments: str | None = None,
    finished_at: int | None = None,
) -> ToolCall:
    return ToolCall(
        key=call.call_id,
        session=key,
        tool=call.tool,
        turn=call.turn_id,
        at=read_time(call.at),
        finished_at=finished_at,
        arguments=arguments,
        exit_code=call.exit_code if finished_at is not None else call.recorded_exit_code,
        duration_ms=call.duration_ms,
    )


def _read_result(key: str, call: ExportedCall, text: str | None) -> Returned:
    return Returned(
        session=key,
        name=call.call_id,
        at=read_time(call.finished_at),
        text=text,
        is_error=call.is_error,
        timed_out=call.timed_out,
        id=call.call_id,
    )
