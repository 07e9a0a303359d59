"""Cline's command line: `data/sessions/<session>/<session>.messages.json` beside `<session>.json`.

Each is one JSON document that is written again at every change, so the messages that changed are
read. `inputTokens` includes what was cached, except from a few older providers. A sub-agent's
document is in its parent's folder. A call may do several things, each with `success`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.usage import FoundUsage, counted_usage, exclusive_usage
from relight.errors import RelightError
from relight.model import (
    Count,
    Ending,
    Mark,
    Origin,
    Piece,
    Session,
    Turn,
    Unreadable,
    Usage,
)
from relight.prices import charged_cost
from relight.sources.events import Event, Returned, Said
from relight.sources.files import find_files, join_origins, look_at, pass_origin, read_document
from relight.sources.reading import BAD_LINE, Reader, content_text, first_line, write_value
from relight.sources.sessions import make_called, see
from relight.times import read_time

NAME = "cline"
ENDING = ".messages.json"
# what the client puts around a person's words
TYPED = re.compile(r"\A\s*<user_input[^>]*>(.*?)</user_input>", re.DOTALL)
DIGEST_BYTES = 4


class MessageMetrics(Struct):
    inputTokens: Count | None = None
    outputTokens: Count | None = None
    cacheReadTokens: Count | None = None
    cacheWriteTokens: Count | None = None
    cost: float | None = None

    def read(self) -> Usage:
        read, write = self.cacheReadTokens or 0, self.cacheWriteTokens or 0
        if self.inputTokens is not None and read + write > self.inputTokens:
            # these providers do not count what was cached
            return Usage(self.inputTokens, read, write, self.outputTokens)
        used = exclusive_usage(self.inputTokens, read, self.outputTokens, cache_write=write)
        return counted_usage(used)


class MessageModel(Struct):
    id: str | None = None
    provider: str | None = None


class DocumentMessage(Struct):
    role: str = ""
    content: Any = None
    id: str | None = None
    ts: int | None = None
    modelInfo: MessageModel | None = None
    metrics: MessageMetrics | None = None


class DocumentLine(Struct, tag_field="table", tag="message"):
    session: str
    number: int
    # True if its words were read before, and only its figures changed
    is_again: bool
    message: DocumentMessage


class ManifestLine(Struct, tag_field="table", tag="session"):
    session: str
    parent: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    status: str | None = None
    cwd: str | None = None
    model: str | None = None
    version: str | None = None


_decode = msgspec.json.Decoder(ManifestLine | DocumentLine).decode


class ClineReader(Reader):
    """Reads the messages of one session or sub-agent."""

    has_fetch = True

    @staticmethod
    def find(folder: Path) -> Iterator[Origin]:
        """The documents with messages, each as new as the newer of it and its manifest."""
        for one in find_files(folder, suffix=ENDING):
            yield join_origins(one, look_at(_find_manifest(one.path)))

    @staticmethod
    def fetch(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
        """The messages that are new or changed, and the session's manifest."""
        mark = marks.get("") or Mark(path=origin.path)
        document = read_document(origin.path)
        messages = document.get("messages") if isinstance(document, dict) else None
        if not isinstance(messages, list):
            raise RelightError(f"{origin.path} has no list of messages", "a newer version wrote it")
        stem = Path(origin.path).name.removesuffix(ENDING)
        root = Path(origin.path).parent.name
        session = str(document.get("sessionId") or stem)
        # a document that was taken out of its folder has no parent
        parent = root if stem != root and session.startswith(f"{root}__") else None
        manifest, trouble = _read_manifest(origin)
        lines: list[Any] = [{"table": "session", **manifest, "session": session, "parent": parent}]
        head, changed = b"", 0
        for number, message in enumerate(messages):
            digest = _digest(message)
            known = mark.head[number * len(digest) : (number + 1) * len(digest)]
            head += digest
            if known != digest:
                changed += 1
                is_again = known[:DIGEST_BYTES] == digest[:DIGEST_BYTES]
                line = {"table": "message", "session": session, "number": number}
                lines.append({**line, "is_again": is_again, "message": message})
        # a count of records, as no place in the document stays the same
        end = mark.offset + changed + 1
        # where the next piece begins, which has the manifest again
        unreadable = [Unreadable(end, trouble)] if trouble else []
        after = pass_origin(mark, origin, offset=end, head=head)
        raw = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        yield Piece(source=NAME, raw=raw, before=mark, after=after, unreadable=unreadable)

    @staticmethod
    def arrange(lines: Iterable[bytes]) -> Iterator[bytes]:
        """The last record of each message, in the order of the document."""
        found: dict[Any, DocumentLine] = {}
        for data in lines:
            with suppress(*BAD_LINE):
                line = _decode(data)
                if isinstance(line, DocumentLine):
                    line.is_again = False
                    found[line.message.id or line.number] = line
        for line in sorted(found.values(), key=lambda line: (line.message.ts or 0, line.number)):
            yield msgspec.json.encode(line)

    def read_line(self, data: bytes) -> Iterator[Event]:
        line = _decode(data)
        self.owner = self.owner or line.session
        if isinstance(line, ManifestLine):
            yield _read_session(line)
            return
        at = read_time(line.message.ts / 1000) if line.message.ts is not None else None
        if line.message.role == "assistant":
            yield from self._read_answer(line, at)
        elif line.message.role == "user":
            yield from self._read_user(line, at)

    def _read_user(self, line: DocumentLine, at: int | None) -> Iterator[Event]:
        session, blocks = line.session, _list_blocks(line.message.content)
        results = [one for one in blocks if one.get("type") == "tool_result"]
        for block in results:
            called, content = block.get("tool_use_id"), block.get("content")
            is_error = block.get("is_error")
            name = f"{session}:{called}"
            text = content_text(content) if _is_text(content) else write_value(content)
            yield see(Session(key=session), at, "result")
            if not line.is_again:
                failed = is_error if isinstance(is_error, bool) else None
                yield Returned(session, name, at, text, failed, id=str(called))
        text = content_text([one for one in blocks if one.get("type") == "text"]) or ""
        typed = TYPED.match(text)
        if not text.strip():
            return
        said = typed[1] if typed else text
        title = first_line(said) if typed or not results else None
        yield see(Session(key=session, title=title), at, "prompt")
        if not line.is_again:
            yield Said(session, "user", said, at=at, is_typed=title is not None)

    def _read_answer(self, line: DocumentLine, at: int | None) -> Iterator[Event]:
        session, message = line.session, line.message
        # a copy in another session has the same
        turn = f"{message.ts}:{message.id or line.number}"
        model = message.modelInfo or MessageModel()
        blocks = _list_blocks(message.content)
        text = content_text([one for one in blocks if one.get("type") == "text"])
        asked = [one for one in blocks if one.get("type") == "tool_use"]
        ending: Ending = "call" if asked else "answer" if (text or "").strip() else "empty"
        yield see(Session(key=session, model=model.id, answer=text), at, ending)
        usage = (message.metrics or MessageMetrics()).read()
        yield Turn(
            key=turn,
            session=session,
            at=at,
            model=model.id,
            provider=model.provider,
            usage=usage,
            usage_status=FoundUsage(usage).status,
            cost=charged_cost(message.metrics.cost) if message.metrics else None,
        )
        if line.is_again:
            return
        yield Said(session, "assistant", text, turn, at=at)
        for one in asked:
            name, tool, given = one.get("id"), one.get("name"), one.get("input")
            yield make_called(session, turn, name, tool, given, at=at, turn=turn)


def _read_session(line: ManifestLine) -> Session:
    ending: Ending | None = None
    if line.status in ("failed", "cancelled", "aborted"):
        ending = "api_error" if line.status == "failed" else "interrupted"
    started_at = read_time(line.started_at)
    return Session(
        key=line.session,
        parent=line.parent,
        parent_kind="subagent" if line.parent else None,
        project=line.cwd,
        model=line.model,
        version=line.version,
        started_at=started_at,
        ended_at=read_time(line.ended_at) or started_at,
        ending=ending,
    )


def _find_manifest(path: str) -> str:
    return f"{path.removesuffix(ENDING)}.json"


def _read_manifest(origin: Origin) -> tuple[dict[str, Any], str | None]:
    """The fields of a session's manifest, and why it has none; a sub-agent has no manifest."""
    path = _find_manifest(origin.path)
    if not Path(path).exists():
        return {}, None
    try:
        found = read_document(path)
        names = ("started_at", "ended_at", "status", "cwd", "model")
        fields = {name: found.get(name) for name in names}
        made_by = (found.get("metadata") or {}).get("sessionHistoryOrigin") or {}
        return fields | {"version": made_by.get("version")}, None
    except FileNotFoundError:  # it was deleted since
        return {}, None
    except RelightError as error:
        return {}, error.message
    except BAD_LINE as error:
        return {}, f"cannot read {path}: {error}"


def _digest(message: Any) -> bytes:
    """A fingerprint of a message's words, and one of all of it."""
    words = message.get("content") if isinstance(message, dict) else message
    return b"".join(
        blake2b(msgspec.json.encode(one), digest_size=DIGEST_BYTES).digest()
        for one in (words, message)
    )


def _list_blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [one for one in content or () if isinstance(one, dict)]


def _is_text(content: Any) -> bool:
    """True for words; a list of what a call did, each with a status, is judged as it is."""
    return isinstance(content, str) or not any(
        isinstance(one, dict) and "success" in one for one in content or ()
    )
