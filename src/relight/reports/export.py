"""Sessions as records to export: facts, figures, turns, tool calls and messages.

Memory holds one session at a time, whatever the size of the store.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.chat.exported import (
    AskedCall,
    AskedFunction,
    ExportedCall,
    ExportedFacts,
    ExportedFigures,
    ExportedMessage,
    ExportedSession,
    ExportedTurn,
)
from relight.redact import redact
from relight.reports.conversation import Item
from relight.reports.trace import read_numbered
from relight.sources.files import LINE_LIMIT_BYTES
from relight.store import Store
from relight.store.queries import export as queries
from relight.store.queries.export import name_exported_call, name_turn
from relight.store.queries.filters import Filter
from relight.times import write_time

# the longest texts of a session that would not fit into a line, the first that does is taken
CUTS = (1_000_000, 100_000, 10_000, 1000, 100)


class SessionTables(Struct, frozen=True):
    """A session without its texts."""

    facts: ExportedFacts
    figures: ExportedFigures
    turns: list[ExportedTurn]
    calls: list[ExportedCall]


class ExportLine(Struct, frozen=True):
    """A session as a line of a chat file, redacted; `is_cut` if texts were shortened."""

    line: bytes
    turns: int
    calls: int
    has_texts: bool
    is_cut: bool


def list_families(store: Store, chosen: Filter) -> Iterator[list[int]]:
    """Yield each session of a part of the record with its sub-agents, the oldest first."""
    roots, after = queries.read_roots(store, chosen, None)
    while roots:
        for root in roots:
            yield queries.read_family(store, root)
        roots, after = queries.read_roots(store, chosen, after) if after else ([], None)


def read_session_tables(store: Store, session_id: int) -> SessionTables:
    """Return a session's figures, turns and calls, redacted by today's rules."""
    with store.snapshot():
        tables = _read_tables(store, session_id)
    data = redact(msgspec.json.encode(tables), key=store.redaction_key)
    return msgspec.json.decode(data, type=SessionTables)


def write_session_line(
    store: Store, session_id: int, *, limit: int = LINE_LIMIT_BYTES
) -> ExportLine:
    """Return a session as one line of JSON.

    The tape was redacted when it was recorded, perhaps by older rules. Here the session is one
    piece: a secret that one message shows is removed from every other. An import does not read a
    line over the limit, so the longest texts of such a session are cut.
    """
    with store.snapshot():
        record = read_exported_session(store, session_id)
    line, is_cut = redact(msgspec.json.encode(record), key=store.redaction_key), False
    for most in CUTS:
        if len(line) < limit:
            break
        cut = [_cut_message(one, most) for one in record.messages]
        record, is_cut = replace(record, messages=cut), True
        line = redact(msgspec.json.encode(record), key=store.redaction_key)
    return ExportLine(
        line=line,
        turns=len(record.turns),
        calls=len(record.calls),
        has_texts=record.silence is None,
        is_cut=is_cut,
    )


def read_exported_session(store: Store, session_id: int) -> ExportedSession:
    """Return a session with everything that an export has."""
    tables = _read_tables(store, session_id)
    numbered = read_numbered(store, session_id)
    results = {
        name_exported_call(item.call): item for item in numbered.items if item.call is not None
    }
    return ExportedSession(
        **asdict(tables.facts),
        figures=tables.figures,
        turns=tables.turns,
        calls=[_add_result(call, results.get(call.call_id)) for call in tables.calls],
        messages=list(make_messages(numbered.items)),
        silence=numbered.silence,
    )


def _read_tables(store: Store, session_id: int) -> SessionTables:
    return SessionTables(
        facts=queries.read_export_facts(store, session_id),
        figures=queries.read_export_figures(store, session_id),
        turns=queries.read_export_turns(store, session_id),
        calls=queries.read_export_calls(store, session_id),
    )


def _add_result(call: ExportedCall, item: Item | None) -> ExportedCall:
    if item is None:
        return call
    return replace(
        call,
        recorded_exit_code=item.exit_code,
        is_error=item.is_error,
        timed_out=item.timed_out,
    )


def make_messages(items: Iterable[Item]) -> Iterator[ExportedMessage]:
    """Yield the messages of a conversation; the calls of one response share a message."""
    answer: Item | None = None
    calls: list[Item] = []
    for item in items:
        if item.kind == "call":
            if answer is None or _find_response(answer) != _find_response(item):
                yield from _close(answer, calls)
                answer, calls = item, []
            calls.append(item)
            continue
        yield from _close(answer, calls)
        answer, calls = None, []
        if item.kind == "answer" and item.text:
            answer = item
        elif item.kind == "prompt":
            yield replace(_make_message("user", item), injected=item.injected)
        elif item.kind == "compaction":
            yield replace(_make_message("system", item), is_compaction=True)
    yield from _close(answer, calls)


def _find_response(item: Item) -> int | str | None:
    """The model's response that an item is from; agents with sums alone only name it."""
    return item.answer if item.turn is None else item.turn


def _make_message(role: str, item: Item) -> ExportedMessage:
    is_said = role != "assistant"
    return ExportedMessage(
        role=role,
        content=(item.text or "") if is_said else item.text,
        timestamp=write_time(item.at),
        turn_id=name_turn(item.turn),
    )


def _close(answer: Item | None, calls: list[Item]) -> Iterator[ExportedMessage]:
    """An answer with its calls, then their results, as chat APIs want them."""
    if answer is None:
        return
    asked = [
        AskedCall(
            name_exported_call(one.call), function=AskedFunction(one.tool or "", one.arguments)
        )
        for one in calls
        if one.call is not None
    ]
    yield replace(_make_message("assistant", answer), tool_calls=asked or None)
    for one in calls:
        if one.call is not None and one.result is not None:
            yield ExportedMessage(
                role="tool",
                tool_call_id=name_exported_call(one.call),
                content=one.result,
                timestamp=write_time(one.ended_at),
            )


def _cut_message(message: ExportedMessage, most: int) -> ExportedMessage:
    calls = message.tool_calls and [
        replace(
            one, function=replace(one.function, arguments=limit_text(one.function.arguments, most))
        )
        for one in message.tool_calls
    ]
    content, injected = limit_text(message.content, most), limit_text(message.injected, most)
    return replace(message, content=content, injected=injected, tool_calls=calls)


def limit_text(text: str | None, most: int) -> str | None:
    """Return the beginning of a longer text, and how much is left out.

    >>> limit_text("abcdef", 4), limit_text("abcd", 4), limit_text(None, 4)
    ('abcd[2 characters left out]', 'abcd', None)
    """
    if text is None or len(text) <= most:
        return text
    return f"{text[:most]}[{len(text) - most:,} characters left out]"
