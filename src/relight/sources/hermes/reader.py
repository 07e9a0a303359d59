"""Hermes Agent: `state.db`, in its home and in each of its profiles.

Hermes stores sums for a session, model and task, never single calls, so its turns are totals.
`input_tokens` counts only what was not cached; `output_tokens` includes the reasoning. Columns
differ between versions: a missing one is unknown.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from relight.chat.messages import decode_mended
from relight.model import Ending, Mark, Origin, Piece, Session, ToolCall
from relight.sources.events import Called, Compacted, Event, Returned, Said
from relight.sources.files import look_at, look_at_database, pass_origin, reading_database
from relight.sources.hermes.cron import JOBS, LEDGER, fetch_cron, read_job, read_run
from relight.sources.hermes.logs import (
    DUMP,
    DUMPS,
    fetch_logs,
    fetch_moa,
    read_log_row,
    read_moa_row,
    read_plugin_row,
)
from relight.sources.hermes.skills import find_viewed, find_written
from relight.sources.hermes.totals import SessionSums, read_session_totals
from relight.sources.reading import BAD_LINE, Reader, first_line, last_words, write_value
from relight.times import read_time

NAME = "hermes"
DATABASE = "state.db"
SCRIPT_ERROR = re.compile(r"^## Script Error\n[^`]*(?:```\w*\n)?([^`]*)", re.MULTILINE)
# Hermes' own words in a person's place that ask the model to go on
NUDGES = (
    "You've reached the maximum number of tool-calling iterations",
    "You just executed tool calls but returned an empty response.",
    "Continue from the compressed conversation context above.",
    "[System: Continue now.",
    "[System: Your previous ",
    "[System: The previous response was cut off",
    "[System: You are a Hermes kanban worker.",
    "[System: You edited code in this turn",
    "[IMPORTANT: Background process ",
)
# what a conversation was replaced by
SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")
# and those that ask for nothing: the next message is somebody's
NOTES = (
    "[System: The active model for this chat",
    "[System: The user has ",
    "[IMPORTANT: MCP servers have been reloaded.",
    "[Your active task list was preserved across context compression]",
    *SUMMARIES,
)
# the bulk of the request, repeated in every session; nothing is derived from it
LEFT_OUT = {"system_prompt", "origin_json", "codex_reasoning_items", "codex_message_items"}


def _fetch_database(
    origin: Origin, marks: Mapping[str, Mark], *, since: int | None = None
) -> Iterator[Piece]:
    """New rows, session by session; with `since` only of sessions that began after it.

    A session is read when its row, its usage or its number of messages has changed. Rows already
    on tape come again only with the flags that changed.
    """
    hint = "if Hermes is running, try again; `hermes sessions repair` repairs a broken database"
    with reading_database(origin.path, hint) as database:
        yield from _fetch_sessions(database, origin, marks, since=since)


def _fetch_sessions(
    database: sqlite3.Connection,
    origin: Origin,
    marks: Mapping[str, Mark],
    *,
    since: int | None,
) -> Iterator[Piece]:
    database.execute("begin")
    began = "" if since is None else f"where started_at >= {since / 1000}"
    own = "" if since is None else f"where session_id in (select id from sessions {began})"
    usage: dict[str, list[dict[str, Any]]] = {}
    if _columns(database, "session_model_usage"):
        for row in database.execute(f"select * from session_model_usage {own}"):
            usage.setdefault(row["session_id"], []).append(dict(row))
    newest = dict(
        database.execute(
            f"select session_id, max(id) from messages {own} group by session_id"
        ).fetchall()
    )
    flags = [name for name in ("active", "compacted") if name in _columns(database, "messages")]
    sessions = database.execute(f"select * from sessions {began} order by started_at, id")
    for row in sessions.fetchall():
        session = {name: row[name] for name in row.keys() if name not in LEFT_OUT}  # noqa: SIM118
        key = session["id"]
        if _is_unmarked_branch(database, session):
            session["branched"] = 1
        lines = [{"table": "sessions", **session}]
        lines += [{"table": "session_model_usage", **used} for used in usage.get(key, ())]
        newest_id = newest.get(key) or 0
        head = blake2b(msgspec.json.encode([lines, newest_id]), digest_size=8).digest()
        mark = marks.get(key) or Mark(path=origin.path, part=key)
        if mark.head == head:
            continue
        if mark.offset and "active" in flags:
            lines += _flag_lines(database, key, mark.offset, flags)
        copied = _find_copied(database, session)
        for line in _message_lines(database, key, mark.offset):
            lines.append({**line, "copied": 1} if line["id"] in copied else line)
        generation = mark.generation + 1
        after = pass_origin(mark, origin, offset=newest_id, generation=generation, head=head)
        raw = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        yield Piece(source=NAME, raw=raw, before=mark, after=after)
    whole = marks.get("") or Mark(path=origin.path)
    yield Piece(source=NAME, raw=b"", before=whole, after=pass_origin(whole, origin))


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row["name"] for row in database.execute(f"pragma table_info({table})")}


def _is_unmarked_branch(database: sqlite3.Connection, session: dict[str, Any]) -> bool:
    """True for a branch of an older Hermes, or of its API: only the parent's end shows it."""
    if not session.get("parent_session_id") or _parent_kind(session) != "compaction":
        return False
    statement = "select 1 from sessions where id = ? and end_reason = 'branched' and ended_at <= ?"
    parent = (session["parent_session_id"], session.get("started_at"))
    return database.execute(statement, parent).fetchone() is not None


def _find_copied(database: sqlite3.Connection, session: dict[str, Any]) -> set[int]:
    """The messages at the beginning of a branch that Hermes copied, with new ids and times."""
    parent = session.get("parent_session_id")
    if not parent or _parent_kind(session) != "fork":
        return set()
    statement = (
        "select id, role, content, tool_calls, tool_call_id from messages"
        " where session_id = ? order by id"
    )
    said = iter([tuple(row)[1:] for row in database.execute(statement, (parent,))])
    copied = set()
    for row in database.execute(statement, (session["id"],)):
        if tuple(row)[1:] not in said:  # goes on behind the last message found
            break
        copied.add(row["id"])
    return copied


def _message_lines(
    database: sqlite3.Connection, key: str, after_id: int
) -> Iterator[dict[str, Any]]:
    # the plus keeps SQLite from walking through all sessions' messages in the order of their ids
    statement = "select * from messages where session_id = ? and +id > ? order by +id"
    for row in database.execute(statement, (key, after_id)):
        known = {name: row[name] for name in row.keys() if name not in LEFT_OUT}  # noqa: SIM118
        yield {"table": "messages", **{k: v for k, v in known.items() if v is not None}}


def _flag_lines(
    database: sqlite3.Connection, key: str, up_to_id: int, flags: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Old rows whose flags compaction or rewinding changed: the flags without the text."""
    statement = (
        f"select id, {', '.join(flags)} from messages"
        " where session_id = ? and id <= ? and active is not 1"
    )
    for row in database.execute(statement, (key, up_to_id)):
        yield {"table": "messages", **dict(row)}


class HermesReader(Reader):
    """Reads the rows of one session, each as one JSON line."""

    has_fetch = True
    is_untyped = True

    def __init__(self, origin: Origin, state: bytes = b"") -> None:
        super().__init__(origin, state)
        self.sums: SessionSums | None = None
        self.used: list[SessionSums] = []

    @staticmethod
    def find(folder: Path) -> Iterator[Origin]:
        """The files of a home, and of every profile below it."""
        if folder.is_file():
            yield from filter(None, [look_at_database(folder)])
            return
        for home in (folder, *sorted(folder.glob("profiles/*"))):
            logs = (*sorted(home.glob("logs/agent.log*")), *sorted(home.glob(DUMPS)))
            traces = sorted(home.glob("moa-traces/*.jsonl"))
            cron = home / "cron"
            yield from filter(None, [look_at_database(home / DATABASE), look_at(cron / JOBS)])
            ledger = look_at_database(cron / LEDGER)
            yield from filter(None, [ledger, *map(look_at, (*logs, *traces))])

    @staticmethod
    def fetch(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
        """The new rows of one of Hermes' files."""
        name = Path(origin.path).name
        if name in (JOBS, LEDGER):
            yield from fetch_cron(NAME, origin, marks)
        elif name.startswith((DUMP, "agent.log")):
            yield from fetch_logs(NAME, origin, marks)
        elif name.endswith(".jsonl"):
            yield from fetch_moa(NAME, origin, marks)
        else:
            yield from _fetch_database(origin, marks)

    @classmethod
    def fetch_new(cls, origin: Origin, marks: Mapping[str, Mark], *, since: int) -> Iterator[Piece]:
        """The rows of new sessions; only the database has all of their usage."""
        if Path(origin.path).name == DATABASE:
            yield from _fetch_database(origin, marks, since=since)

    @staticmethod
    def arrange(lines: Iterable[bytes]) -> Iterator[bytes]:
        """The messages in the order of their rows.

        A row that was compacted away was said and stays; one that was rewound is gone. A later line
        of the same row wins, and may hold only its flags.
        """
        rows: dict[Any, dict[str, Any]] = {}
        for line in lines:
            with suppress(*BAD_LINE):
                row = msgspec.json.decode(line)
                if isinstance(row, dict) and row.get("table") == "messages":
                    rows.setdefault(row.get("id"), {}).update(row)
        for row in sorted(rows.values(), key=_place):
            if row.get("active", 1) or row.get("compacted"):
                yield msgspec.json.encode(row)

    def finish(self) -> Iterator[Event]:
        if self.owner is not None and self.sums is not None:
            yield from read_session_totals(self.owner, self.sums, self.used)

    def read_line(self, line: bytes) -> Iterator[Event]:
        row = msgspec.json.decode(line, type=dict[str, Any])
        match row.pop("table", None):
            case "sessions":
                yield from self._read_session(row)
            case "session_model_usage":
                self.used.append(msgspec.convert(row, SessionSums))
            case "messages":
                yield from self._read_message(row)
            case "jobs":
                yield read_job(row)
            case "executions":
                yield read_run(row)
            case "moa":
                yield from read_moa_row(row)
                self.owner = row["session_id"]
            case "event":
                yield from read_plugin_row(row)
                self.owner = row["session_id"]
            case "log" | "request_dump" as table:
                yield from read_log_row({"table": table, **row})
                self.owner = row["session_id"]

    def _read_session(self, row: dict[str, Any]) -> Iterator[Session]:
        parent = row.get("parent_session_id")
        yield Session(
            key=row["id"],
            parent=parent,
            parent_kind=_parent_kind(row) if parent else None,
            project=row.get("cwd"),
            branch=row.get("git_branch"),
            title=row.get("title"),
            model=row.get("model"),
            started_at=read_time(row.get("started_at")),
            ended_at=read_time(row.get("ended_at")),
        )
        self.owner = row["id"]
        self.sums = msgspec.convert(row, SessionSums)

    def _read_message(self, row: dict[str, Any]) -> Iterator[Event]:
        if "role" not in row:  # only flags: the message itself was read before
            return
        role = row["role"]
        at = read_time(row.get("timestamp"))
        key = row["session_id"]
        text = str(row.get("content") or "")
        is_person = role == "user" and not text.startswith((*NUDGES, *NOTES))
        is_title = is_person and not text.startswith("[IMPORTANT:")
        # the calls and skills of a message that a branch copied are its parent's
        is_own = self.is_conversation or not row.get("copied")
        # a row that was rewound is no longer part of the conversation
        ending = _ending(row) if row.get("active", 1) else None
        yield Session(
            key=key,
            title=first_line(text) if is_title else None,
            started_at=at,
            ended_at=at,
            ending=ending,
            prompted_at=at if ending == "prompt" and is_person else None,
            answer=last_words(text) if role == "assistant" else None,
            script_error=_script_error(text) if role == "user" else None,
        )
        if role == "user":
            yield Said(key, "user", text, at=at, is_typed=is_title)
            if text.startswith(SUMMARIES):
                yield Compacted(key, at, text)
            if is_own:
                yield from find_written(key, text, at)
        elif role == "assistant":
            answer = f"row {row.get('id')}"
            yield Said(key, "assistant", text, answer, at=at)
            if is_own:
                yield from _read_calls(row, key, answer, at)
        elif role == "tool" and is_own:
            yield from self._read_result(row, key, at)

    def _read_result(self, row: dict[str, Any], key: str, at: int | None) -> Iterator[Event]:
        if not (called := row.get("tool_call_id")):
            yield Returned(key)
            return
        name, result = f"{key}:{called}", write_value(row.get("content"))
        if viewed := find_viewed(self.open_calls.get(name), result):
            yield viewed
        yield Returned(key, name, at, result, id=str(called))


def _read_calls(row: dict[str, Any], session: str, answer: str, at: int | None) -> Iterator[Called]:
    if not row.get("tool_calls"):
        return
    for call in decode_mended(msgspec.json.decode, row["tool_calls"].encode()):
        function = call.get("function") or {}
        name = call.get("id") or call.get("call_id")
        asked = ToolCall(
            # servers number the calls of each answer from 0: call_0, call_1 …
            key=f"{session}:{row['id']}:{name}",
            name=f"{session}:{name}",
            session=session,
            tool=function.get("name") or "",
            at=at,
            arguments=write_value(function.get("arguments")),
        )
        yield Called(asked, str(name or ""), answer)


def _place(row: dict[str, Any]) -> tuple[bool, int]:
    number = row.get("id")
    return not isinstance(number, int), number if isinstance(number, int) else 0


def _ending(row: dict[str, Any]) -> Ending | None:
    match row["role"]:
        case "user":
            return None if str(row.get("content") or "").startswith(NOTES) else "prompt"
        case "assistant":
            if row.get("tool_calls"):
                return "call"
            return "answer" if str(row.get("content") or "").strip() else "empty"
        case "tool":
            return "result"
    return None


def _script_error(prompt: str) -> str | None:
    """The error of a scheduled job's script, which Hermes gives to the agent in its prompt."""
    found = SCRIPT_ERROR.search(prompt)
    return " ".join(found[1].split())[:300] or "it failed" if found else None


def _parent_kind(row: dict[str, Any]) -> Any:
    if row.get("source") == "subagent" or "_delegate_from" in str(row.get("model_config")):
        return "subagent"
    is_fork = row.get("branched") or "_branched_from" in str(row.get("model_config"))
    return "fork" if is_fork else "compaction"
