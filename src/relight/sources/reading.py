"""The base of every source's reader, and the collector that turns events into index rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from relight.chat.blocks import find_task, strip_block
from relight.model import (
    Job,
    Latency,
    LimitReport,
    Mark,
    Origin,
    Parsed,
    Passage,
    Piece,
    Run,
    Session,
    SkillEntry,
    Timing,
    ToolCall,
    Total,
    Turn,
)
from relight.sources.events import (
    Attributed,
    Called,
    Compacted,
    Event,
    Measured,
    MessageWriter,
    Reported,
    Returned,
    Said,
    Transcript,
    merge_sessions,
    merge_turns,
    quote_call,
    quote_result,
)
from relight.sources.files import find_files, read_pieces

# what a malformed record may raise: it costs that record and no other
BAD_LINE = (
    msgspec.DecodeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
)
# what records without types are checked for
CHECKED = (Session, Turn, SkillEntry, Job, Run, Latency, Timing)
# what Claude Code and exporters of its sessions write in a person's place
INTERRUPTED = "[Request interrupted by user"
TITLE_CHARACTERS, ANSWER_CHARACTERS = 200, 500

S = TypeVar("S", bound=Struct)
_decode_calls = msgspec.json.Decoder(list[ToolCall]).decode


class Reader(ABC):
    """Reads a stretch of a source's records, one line after another, into events.

    A subclass needs `read_line`. `open_calls` are the calls whose results have not been read, also
    of earlier stretches: a file may be cut between a call and its result. One whose records depend
    on more than that is a `StatefulReader`.
    """

    # True if origins are not plain files of one record a line: they are read by `fetch`
    has_fetch: ClassVar[bool] = False
    # True for records without types: events that do not fit the model are refused
    is_untyped: ClassVar[bool] = False
    # True if only the conversation is wanted, with all that was said in it: no index rows
    is_conversation = False

    def __init__(self, origin: Origin, state: bytes = b"") -> None:
        self.origin = origin
        # the session whose tape the records belong to
        self.owner: str | None = None
        self.open_calls = self.restore(_decode_calls(state) if state else [])

    @staticmethod
    def restore(calls: Iterable[ToolCall]) -> dict[str, ToolCall]:
        """Calls by the names that their results have."""
        return {call.name or call.key: call for call in calls}

    @staticmethod
    def find(folder: Path) -> Iterator[Origin]:
        """The files below one of the source's folders."""
        return find_files(folder)

    @staticmethod
    def fetch(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
        """The new records of an origin since these marks, as pieces of one record a line."""
        return iter(())

    @classmethod
    def fetch_new(cls, origin: Origin, marks: Mapping[str, Mark], *, since: int) -> Iterator[Piece]:
        """The records since these marks; sessions that began before `since` may be left out."""
        return cls.fetch(origin, marks) if cls.has_fetch else read_pieces(origin, marks.get(""))

    @abstractmethod
    def read_line(self, line: bytes) -> Iterable[Event]:
        """The events of one record; an exception of `BAD_LINE` makes it an unreadable one."""

    def finish(self) -> Iterable[Event]:
        """Events that are known only after the last record."""
        return ()

    def save(self) -> bytes:
        """The state for the reader of the next stretch."""
        return msgspec.json.encode(list(self.open_calls.values())) if self.open_calls else b""

    @classmethod
    def read(cls, lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed:
        """The index rows of a stretch of records, going on from `state`."""
        reader = cls(origin, state)
        collector = (CheckedCollector if cls.is_untyped else Collector)(reader.open_calls)
        collector.read_lines(lines, reader.read_line)
        for event in reader.finish():
            collector.take(event)
        return collector.finish(reader.owner, reader.save())

    @classmethod
    def read_messages(cls, lines: Iterable[bytes], session: str) -> Transcript:
        """The chat messages of one session, from all of its records."""
        writer = MessageWriter(session)
        for event in cls.read_events(lines, session):
            writer.take(event)
        return writer.finish()

    @classmethod
    def read_events(cls, lines: Iterable[bytes], session: str) -> Iterator[Event]:
        """The events of all of a session's records, in the order of the conversation."""
        reader = cls.begin(session)
        for line in cls.arrange(lines):
            # an unreadable record was counted when it was recorded
            with suppress(*BAD_LINE):
                yield from reader.read_line(line)

    @classmethod
    def begin(cls, session: str) -> Self:
        """A reader for the messages of one session."""
        reader = cls(Origin(""))
        reader.is_conversation = True
        return reader

    @staticmethod
    def arrange(lines: Iterable[bytes]) -> Iterable[bytes]:
        """A session's records in the order of its messages."""
        return lines


class ReaderState(Struct):
    """A reader's state from one stretch to the next: the session, and calls without results."""

    session: str | None = None
    open_calls: list[ToolCall] = []


St = TypeVar("St", bound=ReaderState)


class StatefulReader(Reader, Generic[St]):
    """A reader whose records depend on earlier ones; `state_type` is what it keeps of them."""

    state_type: type[St]

    def __init__(self, origin: Origin, state: bytes = b"") -> None:
        super().__init__(origin)
        kind = self.state_type
        self.state = msgspec.json.decode(state, type=kind) if state else kind()
        self.owner = self.state.session
        self.open_calls = self.restore(self.state.open_calls)

    def save(self) -> bytes:
        self.state.session = self.owner
        self.state.open_calls = list(self.open_calls.values())
        return msgspec.json.encode(self.state)


class Collector:
    """Collects the events of a stretch of records as index rows."""

    def __init__(self, open_calls: dict[str, ToolCall]) -> None:
        self.sessions: dict[str, list[Session]] = {}
        self.turns: dict[str, Turn] = {}
        self.reports: dict[str, Turn] = {}
        self.calls: dict[str, ToolCall] = {}
        self.totals: dict[str, Total] = {}
        self.skills: dict[str, SkillEntry] = {}
        self.passages: list[Passage] = []
        self.messages: dict[str, int] = {}
        self.limits: dict[tuple[str, str, int], LimitReport] = {}
        self.compactions: list[Compacted] = []
        self.open_calls = open_calls
        # what is kept as it comes
        self.parsed = Parsed(owner=None, state=b"")
        self._early_results: dict[str, Returned] = {}

    def read_lines(
        self, lines: Sequence[bytes], read_line: Callable[[bytes], Iterable[Event]]
    ) -> None:
        """Take the events of each record; a bad record is reported and costs no other."""
        takers = self.takers
        for number, line in enumerate(lines):
            if not line or line.isspace():
                continue
            try:
                for event in read_line(line):
                    takers[type(event)](self, event)
            except BAD_LINE as error:
                self.parsed.bad_lines[number] = str(error) or type(error).__name__

    def take(self, event: Event) -> None:
        self.takers[type(event)](self, event)

    def _take_session(self, session: Session) -> None:
        self.sessions.setdefault(session.key, []).append(session)

    def _take_said(self, said: Said) -> None:
        if said.is_new:
            self.messages[said.session] = self.messages.get(said.session, 0) + 1
        is_prompt = said.role == "user"
        text = strip_block(said.text or "") if is_prompt else said.text
        if text:
            self.passages.append(Passage(said.session, "prompt" if is_prompt else "answer", text))

    def _take_called(self, called: Called) -> None:
        """Add a call; an unfinished one waits for its result, under the name the result has."""
        call = called.call
        self.passages += quote_call(call)
        if call.key in self.calls:
            return
        name = call.name or call.key
        self.calls[call.key] = call
        if call.finished_at is not None:
            return
        self.open_calls[name] = call
        if early := self._early_results.pop(name, None):
            self._close_call(name, early)

    def _take_returned(self, result: Returned) -> None:
        self.messages[result.session] = self.messages.get(result.session, 0) + 1
        self.passages += quote_result(result, self.open_calls)
        if result.name is not None:
            self._close_call(result.name, result)

    def _close_call(self, name: str, result: Returned) -> None:
        """Give an open call its result; a result that comes before its call waits for it."""
        call = self.open_calls.pop(name, None)
        if call is None:
            self._early_results[name] = result
            return
        self.calls[call.key] = msgspec.structs.replace(
            call,
            finished_at=result.at,
            result=result.text,
            is_error=result.is_error,
            exit_code=call.exit_code if result.exit_code is None else result.exit_code,
            timed_out=result.timed_out,
        )

    def _take_measured(self, measured: Measured) -> None:
        if call := self.open_calls.get(measured.name):
            self.open_calls[measured.name] = msgspec.structs.replace(
                call, exit_code=measured.exit_code, duration_ms=measured.duration_ms
            )

    def _take_attributed(self, attributed: Attributed) -> None:
        """Give calls their turn; of a call that an earlier stretch closed, only that is new."""
        for asked in attributed.calls:
            name = asked.name or asked.key
            call = self.calls.get(asked.key) or self.open_calls.get(name) or asked
            self.calls[asked.key] = msgspec.structs.replace(call, turn=attributed.turn)
            if name in self.open_calls:
                self.open_calls[name] = self.calls[asked.key]

    def _take_call(self, call: ToolCall) -> None:
        """Add a call recorded with its result: it replaces the one the model asked for."""
        self.passages += quote_call(call)
        asked = self.calls.get(call.key)
        self.calls[call.key] = msgspec.structs.replace(call, at=asked.at) if asked else call

    def _take_skill(self, entry: SkillEntry) -> None:
        """Add a skill's entry, or its version where a later record has it."""
        known = self.skills.get(entry.key, entry)
        version = known.version or entry.version
        self.skills[entry.key] = msgspec.structs.replace(known, version=version)

    # Functions, not methods: a method and its collector would form a reference cycle, and workers
    # run without the garbage collector that frees these.
    takers: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        Session: _take_session,
        Said: _take_said,
        Compacted: lambda self, compacted: self.compactions.append(compacted),
        Turn: lambda self, turn: _add_turn(self.turns, turn),
        Reported: lambda self, reported: _add_turn(self.reports, reported.turn),
        Called: _take_called,
        Returned: _take_returned,
        Measured: _take_measured,
        Attributed: _take_attributed,
        ToolCall: _take_call,
        Total: lambda self, total: self.totals.update({total.key: total}),
        SkillEntry: _take_skill,
        Job: lambda self, job: self.parsed.jobs.append(job),
        Run: lambda self, run: self.parsed.runs.append(run),
        Latency: lambda self, latency: self.parsed.latencies.append(latency),
        Timing: lambda self, timing: self.parsed.timings.append(timing),
        # the last report on a window holds
        LimitReport: lambda self, one: self.limits.update(
            {(one.session, one.kind, one.ends_at): one}
        ),
    }

    def finish(self, owner: str | None, state: bytes) -> Parsed:
        return msgspec.structs.replace(
            self.parsed,
            owner=owner,
            state=state,
            sessions=[merge_sessions(found) for found in self.sessions.values()],
            turns=list(self.turns.values()),
            reports=list(self.reports.values()),
            calls=list(self.calls.values()),
            totals=list(self.totals.values()),
            skills=list(self.skills.values()),
            passages=self.passages,
            messages=self.messages,
            limits=list(self.limits.values()),
            compactions=[(one.session, one.at) for one in self.compactions if one.at is not None],
        )


def _add_turn(turns: dict[str, Turn], turn: Turn) -> None:
    known = turns.get(turn.key)
    turns[turn.key] = merge_turns(known, turn) if known else turn


def _check_first(noun: type) -> Callable[[Any, Any], None]:
    take = Collector.takers[noun]
    return lambda self, value: take(self, check(value))


class CheckedCollector(Collector):
    """A collector for records without types: a noun that does not fit the model is refused."""

    takers: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **Collector.takers,
        **{noun: _check_first(noun) for noun in CHECKED},
        Called: lambda self, called: self._take_called(Called(check(called.call))),
    }


def check(value: S) -> S:
    """Return the value, or raise if a field has not its declared type and bounds."""
    return msgspec.convert(msgspec.to_builtins(value), type(value))


def content_text(content: Any) -> str | None:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        return "\n".join(find_texts(content)) or None
    return content if isinstance(content, str) else None


def find_texts(parts: list[Any]) -> list[str]:
    """The texts among a message's parts; others are images or files."""
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return [text for text in texts if isinstance(text, str)]


def write_value(value: Any) -> str | None:
    """A call's arguments or result: text as it is, anything else as JSON."""
    is_plain = value is None or isinstance(value, str)
    return value if is_plain else msgspec.json.encode(value).decode()


def first_line(text: str | None) -> str | None:
    """A title from a prompt: the beginning of its task on one line."""
    words = find_task(text or "")[: TITLE_CHARACTERS * 2].split()
    return " ".join(words)[:TITLE_CHARACTERS] or None


def last_words(text: str | None) -> str | None:
    """The beginning of a session's last answer."""
    return text.strip()[:ANSWER_CHARACTERS] or None if text else None
