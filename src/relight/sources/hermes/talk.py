"""Hermes' rows as chat messages."""

from collections.abc import Iterable
from typing import Any

import msgspec

from relight.chat.broken_json import decode_mended
from relight.sources.reading import BAD_LINE
from relight.sources.talk import Talk, TalkWriter


def read_talk(lines: Iterable[bytes], key: str) -> Talk:
    """What was said in a session, in the order of its rows.

    A row that was compacted away did happen and stays; one that was rewound is gone. A later line
    of the same row wins, and may hold only its flags.
    """
    rows: dict[Any, dict[str, Any]] = {}
    for data in lines:
        try:
            row = msgspec.json.decode(data)
            if isinstance(row, dict) and row.get("table") == "messages":
                rows.setdefault(row.get("id"), {}).update(row)
        except BAD_LINE:
            continue  # counted when it was recorded
    writer = TalkWriter()
    for row in sorted(rows.values(), key=_place):
        is_rewound = not row.get("active", 1) and not row.get("compacted")
        if not is_rewound and row.get("session_id", key) == key:
            _write_row(writer, row)
    return writer.finish()


def _place(row: dict[str, Any]) -> tuple[bool, int]:
    number = row.get("id")
    return not isinstance(number, int), number if isinstance(number, int) else 0


def _write_row(writer: TalkWriter, row: dict[str, Any]) -> None:
    text = row.get("content")
    text = text if isinstance(text, str) else None
    match row.get("role"):
        case "user":
            writer.say("user", text)
        case "assistant":
            name = f"row {row.get('id')}"
            writer.say("assistant", text, answer=name)
            for call in _read_calls(row.get("tool_calls")):
                function = call.get("function") or {}
                found = str(call.get("id") or call.get("call_id") or "")
                tool, arguments = function.get("name") or "", function.get("arguments")
                writer.ask(found, tool, arguments, answer=name)
        case "tool" if row.get("tool_call_id"):
            writer.tell(str(row["tool_call_id"]), text)


def _read_calls(text: object) -> list[dict[str, Any]]:
    if not isinstance(text, str) or not text:
        return []
    try:
        calls = decode_mended(msgspec.json.decode, text.encode())
    except BAD_LINE:
        return []
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
