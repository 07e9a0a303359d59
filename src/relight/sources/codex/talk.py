"""Codex' rollouts as chat messages."""

from collections.abc import Iterable

from relight.sources.codex import lines
from relight.sources.reading import BAD_LINE
from relight.sources.talk import Talk, TalkWriter


def read_talk(records: Iterable[bytes], key: str) -> Talk:
    """What was said in a rollout, with what a fork took over from its parent."""
    writer = TalkWriter()
    for data in records:
        try:
            line = lines.decode_line(data)
        except BAD_LINE:
            continue  # counted when it was recorded
        payload = line.payload
        if payload is None:
            continue
        if line.type == "response_item":
            _write_item(writer, payload)
        elif payload.type == "item_completed" and payload.item:
            writer.know(payload.item.id, exit_code=payload.item.exit_code)
    return writer.finish()


def _write_item(writer: TalkWriter, payload: lines.Payload) -> None:
    name = payload.call_id or payload.id or ""
    if payload.type in lines.CALLS and name:
        tool = payload.name or payload.type.removesuffix("_call")
        writer.ask(name, tool, lines.find_arguments(payload))
    elif payload.type in lines.RESULTS and payload.call_id:
        writer.tell(payload.call_id, lines.as_text(payload.output))
    elif payload.type == "message" and payload.role in ("user", "assistant"):
        texts = [part.text for part in payload.content or () if part.text]
        if payload.role == "user":
            texts = [text for text in texts if not text.startswith(lines.HARNESS)]
        writer.say(payload.role, "\n".join(texts))
