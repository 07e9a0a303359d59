"""Droid: `sessions/<folder>/<id>.jsonl`, with the sums of its tokens in `<id>.settings.json`.

No model call has its own usage: the sums are a control total, as those of Hermes. Until they can be
read, the tokens of the answers are unknown. `inputTokens` excludes what was cached, and the sums
exclude those of sub-agents, which are sessions. Messages that only the model sees were not typed. A
fork begins with a copy of its parent's records, up to the message that it names; its sums are its
own.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.chat.messages import decode_mended
from relight.model import (
    Count,
    Ending,
    Mark,
    Origin,
    Piece,
    Session,
    Total,
    Usage,
)
from relight.sources.events import Compacted, Event, Measured, Returned, Said
from relight.sources.files import (
    find_files,
    join_origins,
    look_at,
    pass_origin,
    read_document,
    read_pieces,
)
from relight.sources.reading import content_text, first_line
from relight.sources.sessions import SessionReader, SessionState, make_called
from relight.times import read_time

NAME = "droid"
SETTINGS = ".settings.json"
# how the client marks its own words in a person's place
REMINDER = "<system-reminder>"
TIME = re.compile(rb'"timestamp":"([^"]{10,40})"')
FORKED = re.compile(rb'"forkedAtMessageId":"([^"]+)"')
EXIT_CODE = re.compile(r"\[Process exited with code (-?\d{1,9})\]\s*\Z")


class DroidSums(Struct):
    inputTokens: Count | None = None
    outputTokens: Count | None = None
    cacheCreationTokens: Count | None = None
    cacheReadTokens: Count | None = None
    thinkingTokens: Count | None = None


class DroidMessage(Struct):
    role: str = ""
    content: Any = None
    modelId: str | None = None
    visibility: str | None = None


class DroidLine(Struct):
    """A record of the session, or its sums, which `fetch` adds."""

    type: str = ""
    id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    title: str | None = None
    parentId: str | None = None
    parent: str | None = None
    forkedAtMessageId: str | None = None
    callingSessionId: str | None = None
    summaryText: str | None = None
    reason: str | None = None
    message: DroidMessage | None = None
    # of the sums
    model: str | None = None
    calls: Count | None = None
    at: int | None = None
    tokenUsage: DroidSums | None = None


class DroidState(SessionState):
    last_at: int | None = None
    # how many answers were read
    calls: int = 0
    # the last message that a fork copied, until it was read
    copied_until: str | None = None


_decode = msgspec.json.Decoder(DroidLine).decode


class DroidReader(SessionReader[DroidState]):
    """Reads the records of one session, and its sums."""

    has_fetch = True
    state_type = DroidState

    @staticmethod
    def find(folder: Path) -> Iterator[Origin]:
        """The records and the sums of each session."""
        yield from find_files(folder)
        if not folder.is_file():
            for one in find_files(folder, suffix=SETTINGS):
                yield join_origins(one, look_at(_find_records(one.path)))

    @staticmethod
    def fetch(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
        """New records, or the sums as one record."""
        if not origin.path.endswith(SETTINGS):
            for piece in read_pieces(origin, marks.get("")):
                yield replace(piece, source=NAME)
            return
        yield _fetch_sums(origin, marks.get("") or Mark(path=origin.path))

    def read_line(self, data: bytes) -> Iterator[Event]:
        line = decode_mended(_decode, data)
        at = read_time(line.timestamp)
        self.state.last_at = at or self.state.last_at
        if line.type == "sums" and line.id:
            self.owner = line.id
            yield from _read_sums(line, line.id)
            return
        if line.type == "session_start" and line.id and self.state.session is None:
            self.owner = self.state.session = line.id
            self.state.copied_until = line.forkedAtMessageId
            forked = line.parent if line.forkedAtMessageId else None
            yield Session(
                key=line.id,
                parent=line.callingSessionId or forked,
                parent_kind="subagent" if line.callingSessionId else "fork" if forked else None,
                project=line.cwd,
                started_at=at,
                ended_at=at,
            )
        if self.state.session is None:
            raise ValueError("the session has no id")
        if self._is_copy(line) and not self.is_conversation:
            return
        if line.type == "compaction_state":
            yield Compacted(self.state.session, at, line.summaryText)
        elif line.type == "agent_turn_outcome":
            ending = OUTCOMES.get(line.reason or "")
            if ending:
                yield Session(key=self.state.session, ended_at=self.state.last_at, ending=ending)
        elif line.message is not None and line.message.role == "assistant":
            yield from self._read_answer(line, line.message, at)
        elif line.message is not None:
            yield from self._read_user(line.message, at)

    def finish(self) -> Iterator[Event]:
        """The answers so far, with unknown tokens: the sums replace them when they are read."""
        state = self.state
        if state.session is not None and state.calls:
            yield Total(
                key=state.session,
                session=state.session,
                model=state.model,
                at=state.last_at,
                calls=state.calls,
                usage=Usage(),
            )

    def _is_copy(self, line: DroidLine) -> bool:
        """True for a record that a fork copied, which counts for its parent."""
        until = self.state.copied_until
        if until is None or line.type == "session_start":
            return False
        if until in (line.id, line.parentId):
            self.state.copied_until = None
        return line.parentId != until

    def _read_user(self, message: DroidMessage, at: int | None) -> Iterator[Event]:
        session = self.state.session or ""
        blocks = message.content if isinstance(message.content, list) else []
        for block in blocks:
            if not isinstance(block, dict) or block.get("type") != "tool_result":
                continue
            called, text = str(block.get("tool_use_id")), content_text(block.get("content"))
            flag, name = block.get("is_error"), f"{session}:{called}"
            yield self.see(at, "result")
            if found := EXIT_CODE.search(text or ""):
                yield Measured(session, name, int(found[1]))
            is_error = flag if isinstance(flag, bool) else None
            yield Returned(session, name, at, text, is_error, id=called)
        text = content_text(message.content)
        if not text or message.visibility == "llm_only":
            return
        is_typed = not text.startswith(REMINDER)
        yield self.see(at, "prompt", title=first_line(text) if is_typed else None)
        yield Said(session, "user", text, at=at, is_typed=is_typed)

    def _read_answer(
        self, line: DroidLine, message: DroidMessage, at: int | None
    ) -> Iterator[Event]:
        session = self.state.session or ""
        self.state.calls += 1
        self.state.model = message.modelId or self.state.model
        blocks = [one for one in message.content or () if isinstance(one, dict)]
        text = content_text([one for one in blocks if one.get("type") == "text"])
        asked = [one for one in blocks if one.get("type") == "tool_use"]
        ending: Ending = "call" if asked else "answer" if (text or "").strip() else "empty"
        yield self.see(at, ending, answer=text)
        answer = f"{session}:{line.id}"
        yield Said(session, "assistant", text, answer, at=at)
        for one in asked:
            name, tool, given = one.get("id"), one.get("name"), one.get("input")
            yield make_called(session, answer, name, tool, given, at=at)


OUTCOMES: dict[str, Ending] = {
    **dict.fromkeys(("error", "failed"), "api_error"),
    **dict.fromkeys(("interrupted", "cancelled", "aborted"), "interrupted"),
}


def _find_records(path: str) -> str:
    return f"{path.removesuffix(SETTINGS)}.jsonl"


def _fetch_sums(origin: Origin, mark: Mark) -> Piece:
    """A session's settings, reduced to its model and its sums."""
    records = Path(_find_records(origin.path))
    settings = read_document(origin.path)
    written = records.read_bytes() if records.exists() else b""
    times = [read_time(found.decode()) for found in TIME.findall(written)]
    last_at = max((at for at in times if at is not None), default=None)
    line = {
        "type": "sums",
        "id": records.stem,
        "model": settings.get("model"),
        "calls": _find_own(written).count(b'"role":"assistant"') or None,
        "at": last_at or origin.modified_ns // 1_000_000,
        "tokenUsage": settings.get("tokenUsage"),
    }
    raw = msgspec.json.encode(line) + b"\n"
    head = blake2b(raw, digest_size=8).digest()
    after = pass_origin(mark, origin, offset=mark.offset + (head != mark.head), head=head)
    return Piece(source=NAME, raw=raw if head != mark.head else b"", before=mark, after=after)


def _find_own(written: bytes) -> bytes:
    """The records of a session without those that it copied as a fork."""
    head, _, records = written.partition(b"\n")
    forked = FORKED.search(head)
    if forked is None:
        return written
    _, _, after = records.partition(b'"id":"%b"' % forked[1])
    return after.partition(b"\n")[2]


def _read_sums(line: DroidLine, session: str) -> Iterator[Event]:
    used = line.tokenUsage or DroidSums()
    yield Session(key=session, model=line.model)
    if used.inputTokens is None or used.outputTokens is None:
        return
    yield Total(
        key=session,
        session=session,
        model=line.model,
        at=line.at,
        calls=line.calls,
        usage=Usage(
            input=used.inputTokens,
            cache_read=used.cacheReadTokens or 0,
            cache_write=used.cacheCreationTokens or 0,
            output=used.outputTokens,
            # it stays 0 in every version seen, whatever the model thought
            reasoning=used.thinkingTokens or None,
        ),
    )
