"""What every reader gathers while it walks through the records of a source."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from relight.model import (
    Job,
    Latency,
    Parsed,
    Run,
    Session,
    SkillEntry,
    Spoken,
    Timing,
    ToolCall,
    Total,
    Turn,
)

# whatever a strange record may raise: it costs that record and no more
BAD_LINE = (
    msgspec.DecodeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
)
# what Claude Code, and what exports its sessions, writes in a person's place
INTERRUPTED = "[Request interrupted by user"
TITLE_CHARACTERS = 200
ANSWER_CHARACTERS = 500

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class Reading:
    """The sessions, turns and calls told so far in one stretch of records.

    A call whose result has not come yet is kept in `open_calls`, which the reader stores in
    its state: a file may be cut between a request and its result.
    """

    def __init__(self, open_calls: Sequence[ToolCall] = ()) -> None:
        self.sessions: dict[str, Session] = {}
        self.turns: dict[str, Turn] = {}
        self.calls: dict[str, ToolCall] = {}
        self.totals: dict[str, Total] = {}
        self.jobs: list[Job] = []
        self.runs: list[Run] = []
        self.latencies: list[Latency] = []
        self.skills: dict[str, SkillEntry] = {}
        self.spoken: list[Spoken] = []
        self.messages: dict[str, int] = {}
        self.timings: list[Timing] = []
        self.bad_lines: dict[int, str] = {}
        self.open_calls = {call.name or call.key: call for call in open_calls}
        self._early_results: dict[str, dict[str, object]] = {}

    def read_lines(self, lines: Sequence[bytes], read_line: Callable[[bytes], None]) -> None:
        """Read record by record; one that cannot be read is told, and costs no other."""
        for number, line in enumerate(lines):
            if not line or line.isspace():
                continue
            try:
                read_line(line)
            except BAD_LINE as error:
                self.bad_lines[number] = str(error) or type(error).__name__

    def see_session(self, session: Session) -> None:
        """Add what a record says of its session: first facts stay, times widen."""
        known = self.sessions.get(session.key)
        self.sessions[session.key] = merge_sessions(known, session) if known else session

    def see_turn(self, turn: Turn) -> None:
        """Add a turn, or another witness of one: the fullest usage and the earliest time hold."""
        known = self.turns.get(turn.key)
        self.turns[turn.key] = merge_turns(known, turn) if known else turn

    def open_call(self, call: ToolCall) -> None:
        """Add a call that waits for its result, under the name the result will bear."""
        if call.key in self.calls:
            return
        name = call.name or call.key
        self.calls[call.key] = self.open_calls[name] = call
        if early := self._early_results.pop(name, None):
            self.close_call(name, **early)

    def close_call(self, name: str, **found: object) -> None:
        """Give an open call its result; one that nobody has asked for yet is kept."""
        if call := self.open_calls.pop(name, None):
            self.calls[call.key] = msgspec.structs.replace(call, **found)
        else:
            self._early_results[name] = found

    def see_skill(self, entry: SkillEntry) -> None:
        """Add a skill's way in, or its version where that is told after it."""
        known = self.skills.get(entry.key, entry)
        version = known.version or entry.version
        self.skills[entry.key] = msgspec.structs.replace(known, version=version)

    def hear(
        self,
        session: str,
        role: Literal["user", "assistant", "tool"],
        text: str | None = None,
        *,
        is_new: bool = True,
    ) -> None:
        """Add a message of the conversation, or more words of one."""
        if is_new:
            self.messages[session] = self.messages.get(session, 0) + 1
        if text and role != "tool":
            self.spoken.append(Spoken(session, role, text))

    def finish(self, owner: str | None, state: bytes) -> Parsed:
        return Parsed(
            owner=owner,
            state=state,
            sessions=list(self.sessions.values()),
            turns=list(self.turns.values()),
            calls=list(self.calls.values()),
            totals=list(self.totals.values()),
            jobs=self.jobs,
            runs=self.runs,
            latencies=self.latencies,
            skills=list(self.skills.values()),
            spoken=self.spoken,
            messages=self.messages,
            timings=self.timings,
            bad_lines=self.bad_lines,
        )


class CheckedReading(Reading):
    """A reading of records without types: one that does not fit the nouns is not taken."""

    def see_session(self, session: Session) -> None:
        super().see_session(check(session))

    def see_turn(self, turn: Turn) -> None:
        super().see_turn(check(turn))

    def open_call(self, call: ToolCall) -> None:
        super().open_call(check(call))

    def see_skill(self, entry: SkillEntry) -> None:
        super().see_skill(check(entry))


def check(value: S) -> S:
    """The value, if its fields are of the kinds and within the bounds that it declares."""
    return msgspec.convert(msgspec.to_builtins(value), type(value))


def merge_sessions(known: Session, more: Session) -> Session:
    return Session(
        key=known.key,
        parent=known.parent or more.parent,
        parent_kind=known.parent_kind or more.parent_kind,
        project=known.project or more.project,
        title=known.title or more.title,
        model=more.model or known.model,
        version=more.version or known.version,
        started_at=earliest(known.started_at, more.started_at),
        ended_at=latest(known.ended_at, more.ended_at),
        ending=more.ending or known.ending,
        prompted_at=latest(known.prompted_at, more.prompted_at),
        answer=more.answer or known.answer,
        told_outcome=known.told_outcome or more.told_outcome,
        script_error=known.script_error or more.script_error,
    )


def merge_turns(known: Turn, more: Turn) -> Turn:
    fuller = more if (more.usage.output or 0) > (known.usage.output or 0) else known
    is_final = "final" in (known.usage_status, more.usage_status)
    return msgspec.structs.replace(
        known,
        at=earliest(known.at, more.at),
        usage=fuller.usage,
        cost=fuller.cost,
        usage_status="final" if is_final else known.usage_status,
    )


def earliest(a: int | None, b: int | None) -> int | None:
    return min(a, b) if a is not None and b is not None else (b if a is None else a)


def latest(a: int | None, b: int | None) -> int | None:
    return max(a, b) if a is not None and b is not None else (b if a is None else a)


def content_text(content: Any) -> str | None:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        return "\n".join(find_texts(content)) or None
    return content if isinstance(content, str) else None


def find_texts(parts: list[Any]) -> list[str]:
    """The texts among a message's parts, of which others are pictures or files."""
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return [text for text in texts if isinstance(text, str)]


def write_value(value: Any) -> str | None:
    """What a call was given or gave: text as it is, else the JSON of it."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def first_line(text: str | None) -> str | None:
    """A title from a prompt: its first words on one line."""
    if not text:
        return None
    return " ".join(text[: TITLE_CHARACTERS * 2].split())[:TITLE_CHARACTERS] or None


def last_words(text: str | None) -> str | None:
    """The answer a session ended with, long enough to be known by."""
    return text.strip()[:ANSWER_CHARACTERS] or None if text else None
