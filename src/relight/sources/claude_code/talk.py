"""Claude Code's transcripts as chat messages."""

from collections.abc import Iterable

from relight.sources.claude_code.lines import COMMANDS, Line, decode_line, name_session, result_text
from relight.sources.reading import BAD_LINE
from relight.sources.talk import Talk, TalkWriter


def read_talk(lines: Iterable[bytes], key: str) -> Talk:
    """What was said in the session of this key; each sub-agent in a file is a session apart."""
    writer = TalkWriter()
    chains: dict[str, str] = {}
    for data in lines:
        try:
            line = decode_line(data)
        except BAD_LINE:
            continue  # counted when it was recorded
        if line.message is None or not line.sessionId:
            continue
        if name_session(line, chains) == key:
            _write_line(writer, line)
    return writer.finish()


def _write_line(writer: TalkWriter, line: Line) -> None:
    message = line.message
    if message is None or line.isMeta or line.isCompactSummary or line.isApiErrorMessage:
        return
    text = message.content if isinstance(message.content, str) else None
    if line.type == "assistant" and message.model != "<synthetic>":
        name = message.id or line.uuid
        writer.say("assistant", text, answer=name)
        for block in message.blocks:
            if block.type == "text":
                writer.say("assistant", block.text, answer=name)
            elif block.type == "tool_use":
                arguments = bytes(block.input).decode("utf-8", "replace") or None
                writer.ask(block.id, block.name, arguments, answer=name)
    elif line.type == "user":
        texts = [text] if text else []
        for block in message.blocks:
            if block.type == "tool_result":
                writer.tell(block.tool_use_id, result_text(block.content))
                writer.know(block.tool_use_id, is_error=block.is_error)
            elif block.type == "text":
                texts.append(block.text)
        said = "\n".join(one for one in texts if one)
        if not said.startswith(COMMANDS):
            writer.say("user", said)
