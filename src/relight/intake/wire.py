"""The data that machines send one another: parts of the tape, or their rows without any words.

Messages are Structs in MessagePack by name. A field that a reader does not know is ignored, and one
that is missing has its default, so a version is raised only for a change that needs more.
"""

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from relight.model import Moment, OutcomeName, Parsed, Session, Turn, hash_names, row_id
from relight.names import cut_project
from relight.sources import SOURCES, find_source, is_source
from relight.store.team_facts import RunFigures
from relight.store.write.pushed import decompress_most
from relight.store.write.seal import redate, seal_parsed
from relight.store.write.sealed import CallRow, Sealed
from relight.store.write.tape import TapePart, compress

VERSION = 1
# the versions that this server takes
VERSIONS = (1,)
MOST_BYTES = 16 << 20
CONTENT = "application/msgpack"
Share = Literal["figures", "tapes"]
Name = Annotated[str, Meta(min_length=1, max_length=1000)]
PushMark = Annotated[str, Meta(max_length=64)]
Label = Annotated[str, Meta(pattern=r"^\w[\w.@/+-]{0,62}$")]
StoreId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
# an id as programs make them, also of a sub-agent behind that of its session; anything else may be
# words or a path
PLAIN_ID = re.compile(r"[\w.:@+#-]{1,128}|[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4}/[\w-]{1,40}", re.ASCII)
# a local server may name a model by its file
PATH_START = re.compile(r"[/~\\]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|[a-z]+:/|file:")
# a tool or skill that there is; a model may also call one by a command or a sentence
TOOL = re.compile(r"[\w.:@+-]{1,128}(/[\w.:@+-]{1,64})?", re.ASCII)
HIDDEN_TOOL = "hidden"
NAME = re.compile(r"[\w][\w.@/+ -]{0,62}", re.ASCII)


class SentPart(Struct, frozen=True, kw_only=True):
    """A part of the tape. `records` are compressed lines, or a `Sealed` without words."""

    source: Name
    session: Name
    path: Annotated[str, Meta(max_length=4096)]
    part: Annotated[str, Meta(max_length=1000)] = ""
    generation: Annotated[int, Meta(ge=0)] = 0
    position: Annotated[int, Meta(ge=0)] = 0
    modified_ns: int = 0
    recorded_at: Moment = 0
    raw_bytes: Annotated[int, Meta(ge=0)] = 0
    state: bytes = b""
    records: bytes
    is_figures: bool = False


class SentOutcome(Struct, frozen=True, kw_only=True):
    """The outcome, kind and score of a session, as its own machine judged them."""

    source: Name
    session: Name
    outcome: OutcomeName | None = None
    points_to: OutcomeName | None = None
    task_type: str | None = None
    category: str | None = None
    score: Annotated[float, Meta(ge=0, le=1)] | None = None
    is_label: bool = False


class SentRun(Struct, frozen=True, kw_only=True):
    """A run of a job that has ended. `session` and `earlier` are `source:key` on the machine."""

    source: Name
    key: Name
    job: Annotated[str, Meta(max_length=1000)] = ""
    job_name: str | None = None
    session: Name | None = None
    earlier: list[Name] = []
    figures: RunFigures
    error: str | None = None
    evidence: list[str] = []


class SentUse(Struct, frozen=True, kw_only=True):
    """A recorded use of a skill: the session that it was given for, and the facts by name."""

    session: Name
    skill: Name
    entry: str | None = None
    values: dict[str, str | int | float] = {}


class Push(Struct, frozen=True, kw_only=True):
    """One message of a machine. `forgotten` are the ids of sessions on the server.

    `mark` is this push's own, `before` that of the last push that was acknowledged: a copy of the
    machine's home does not know what its twin has pushed since.
    """

    parts: list[SentPart] = []
    outcomes: list[SentOutcome] = []
    runs: list[SentRun] = []
    uses: list[SentUse] = []
    forgotten: list[int] = []
    before: PushMark = ""
    mark: PushMark = ""


class Pushed(Struct, frozen=True, kw_only=True):
    """The answer after the commit: counts of parts, and how far the server is behind.

    `refused` are the places, in the message, of parts of forgotten sessions.
    """

    stored: int = 0
    known: int = 0
    refused: list[int] = []
    behind: int = 0


class JoinRequest(Struct, frozen=True, kw_only=True):
    """A machine's own store id, its name, and what it will share.

    `marks` are those of its last pushes, by the id of the server's store: the acknowledged one, and
    one that was sent and perhaps lost. `copied_from` is the store id of the home that it is a copy
    of.
    """

    store_id: StoreId
    name: Annotated[str, Meta(min_length=1, max_length=63)]
    share: Share
    marks: dict[str, list[PushMark]] = {}
    # words that jobs may ask for
    labels: list[Label] = []
    copied_from: StoreId | None = None


class Joined(Struct, frozen=True, kw_only=True):
    """The server's store id, the key by which it knows the machine, and the last push's mark."""

    store_id: str
    machine: str
    person: str
    mark: str = ""


class Naming(Struct, frozen=True):
    """The names of sessions, turns and calls on the server, by those of one machine.

    Ids that are unique on one machine only end in `@` and the machine's key. Where no words are
    shared, a name that a person may have written is replaced by a hash of it.
    """

    machine: str
    hides: bool = False

    def name_session(self, source: str, key: str) -> str:
        """Return a session's name on the server, from its name on the machine."""
        return self._end(source, self.hide(key))

    def hide(self, key: str) -> str:
        """Return the name that may be sent."""
        return keep_id(key) if self.hides else key

    def hide_session(self, name: str) -> str:
        """Return the name that may be sent of a session: `source:key`, or a key alone."""
        source, colon, key = name.partition(":")
        return f"{source}:{self.hide(key)}" if colon else self.hide(name)

    def find_session(self, source: str, key: str) -> int:
        """Return the row id of a session on the server."""
        return row_id("session", source, self.name_session(source, key))

    def _end(self, source: str, key: str) -> str:
        return key if has_global_ids(source) else f"{key}@{self.machine}"

    def apply(self, source: str, parsed: Parsed) -> Parsed:
        """Return parsed records with the names that they have on the server."""
        if has_global_ids(source) and not self.hides:
            return parsed

        def session(key: str) -> str:
            return self.name_session(source, key)

        def other(key: str) -> str:
            return self._end(source, key)

        return replace(
            parsed,
            owner=None if parsed.owner is None else session(parsed.owner),
            sessions=_rename(
                parsed.sessions, key=session, parent=session, exported_from=self.hide_session
            ),
            turns=_rename(parsed.turns, key=other, session=session),
            reports=_rename(parsed.reports, key=other, session=session),
            calls=_rename(parsed.calls, key=other, session=session, turn=other, name=other),
            totals=_rename(parsed.totals, key=other, session=session),
            latencies=_rename(parsed.latencies, key=other, session=session),
            skills=_rename(parsed.skills, key=other, session=session, turn=other),
            passages=_rename(parsed.passages, session=session),
            messages={session(key): count for key, count in parsed.messages.items()},
            timings=_rename(parsed.timings, key=other, session=session, name=other),
            limits=_rename(parsed.limits, session=session),
            compactions=[(session(key), at) for key, at in parsed.compactions],
            # ledgers of jobs are on no tape
            jobs=[],
            runs=[],
        )


def has_global_ids(source: str) -> bool:
    """True if no two machines give the same id; a source that is not installed has none such."""
    known = SOURCES.get(source) or (find_source(source) if is_source(source) else None)
    return known is not None and known.has_global_ids


def _rename(items: Sequence[Any], **names: Callable[[str], str]) -> list[Any]:
    return [
        replace(
            one,
            **{
                field: change(value)
                for field, change in names.items()
                if (value := getattr(one, field)) is not None
            },
        )
        for one in items
    ]


def parse_part(part: TapePart) -> Parsed:
    """Return the parsed records of a part of the tape, with names as they are in this store."""
    parsed = find_source(part.source).read(part.lines(), part.read_origin, part.state)
    return parsed if part.machine is None else Naming(part.machine).apply(part.source, parsed)


def seal_part(part: TapePart, *, key: bytes, timezone: str) -> Sealed:
    """Return the rows of a part of the tape, whether it has records or rows."""
    if part.is_figures:
        return redate(read_figures(part.records), timezone)
    return seal_parsed(part.source, parse_part(part), key=key, timezone=timezone)


def make_figures(part: TapePart, naming: Naming, *, key: bytes, timezone: str) -> bytes:
    """Return the rows of a part of this machine's tape, without any words, compressed.

    They are derived again from the tape: what is sent is what a rebuild would write.
    """
    parsed = find_source(part.source).read(part.lines(), part.origin, part.state)
    sealed = seal_parsed(part.source, naming.apply(part.source, parsed), key=key, timezone=timezone)
    return write_figures(remove_words(sealed, key=key))


def write_figures(sealed: Sealed) -> bytes:
    return compress(msgspec.msgpack.encode(sealed))


def read_figures(records: bytes) -> Sealed:
    """Return the rows of a part that has no words; raise if they are not rows."""
    return msgspec.msgpack.decode(decompress_most(records), type=Sealed)


def remove_words(sealed: Sealed, *, key: bytes | None = None) -> Sealed:
    """Return the rows with numbers, times, models, tools, skills and verdicts only.

    A list of what stays: a new field of a row is not sent until it is named here. With `key`, the
    fingerprints of calls are hashed with it, so that nobody can guess a command by its hash.
    """
    nowhere = replace(sealed.before, path="", part="", head=b"", state=b"")
    return Sealed(
        source=sealed.source,
        before=nowhere,
        after=nowhere,
        owner_id=sealed.owner_id,
        sessions=[(found, _keep_session(one)) for found, one in sealed.sessions],
        turns=[(found, day, _keep_turn(one)) for found, day, one in sealed.turns],
        reports=[(found, _keep_turn(one)) for found, one in sealed.reports],
        calls=[_keep_call(one, key) for one in sealed.calls],
        totals=[
            (found, replace(one, key="", model=cut_model(one.model)))
            for found, one in sealed.totals
        ],
        skills=[replace(one, skill_name=keep_tool(one.skill_name)) for one in sealed.skills],
        words=sealed.words,
        timings=[replace(one, tool=keep_tool(one.tool)) for one in sealed.timings],
        limits=sealed.limits,
        compactions=sealed.compactions,
    )


def cut_model(model: str | None) -> str | None:
    """Return a model's name; of one that is named by its file, the last part of the path.

    >>> cut_model("/home/anna/models/qwen3.gguf"), cut_model("openai/gpt-5.2")
    ('qwen3.gguf', 'openai/gpt-5.2')
    """
    return cut_project(model) if model and PATH_START.match(model) else model


def keep_id(key: str) -> str:
    """Return an id as it is, and anything else as a hash.

    >>> keep_id("req_011CSHoEeqs5C35K"), keep_id("tidy the shop")
    ('req_011CSHoEeqs5C35K', '7e79b411cf68715f')
    """
    if PLAIN_ID.fullmatch(key):
        return key
    return f"{hash_names('hidden', key) & (1 << 64) - 1:016x}"


def keep_tool(tool: str) -> str:
    """Return the name of a tool or skill as it may be sent.

    >>> keep_tool("mcp__shop__find"), keep_tool("cat notes.md"), keep_tool("/bin/ls")
    ('mcp__shop__find', 'hidden', 'hidden')
    """
    return tool if TOOL.fullmatch(tool) else HIDDEN_TOOL


def _keep_session(one: Session) -> Session:
    return Session(
        key=one.key,
        parent=one.parent,
        parent_kind=one.parent_kind,
        forked_at=one.forked_at,
        project=cut_project(one.project),
        model=cut_model(one.model),
        version=one.version,
        started_at=one.started_at,
        ended_at=one.ended_at,
        ending=one.ending,
        prompted_at=one.prompted_at,
        told_outcome=one.told_outcome,
        exported_from=one.exported_from,
    )


def _keep_turn(one: Turn) -> Turn:
    return Turn(
        key="",
        session=one.session,
        at=one.at,
        model=cut_model(one.model),
        provider=one.provider,
        role=one.role,
        calls=one.calls,
        usage=one.usage,
        usage_status=one.usage_status,
        cost=one.cost,
        duration_ms=one.duration_ms,
        first_token_ms=one.first_token_ms,
        failure=one.failure,
        request=None if one.request is None else keep_id(one.request),
    )


def _keep_call(one: CallRow, key: bytes | None) -> CallRow:
    fingerprint = one.fingerprint
    if key is not None:
        digest = blake2b(fingerprint.to_bytes(8, "big", signed=True), key=key[:64], digest_size=8)
        fingerprint = int.from_bytes(digest.digest(), "big", signed=True)
    tool = keep_tool(one.tool)
    return replace(one, tool=tool, fingerprint=fingerprint, reason=None, evidence=None)


def hide_place(text: str, key: bytes) -> str:
    """Return a keyed hash of a path: it identifies a file, and nobody can guess it."""
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key[:64], digest_size=16).hexdigest()
