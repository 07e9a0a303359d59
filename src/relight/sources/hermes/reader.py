"""Hermes Agent: `state.db`, in its home and in each of its profiles.

Hermes keeps sums for a session, model and task, never single calls, so its turns are totals.
`input_tokens` counts only what was not cached; `output_tokens` includes the reasoning. Columns
differ between versions: what is there is read, what is not is unknown.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from relight.chat.broken_json import decode_mended
from relight.chat.injected import strip_block
from relight.errors import RelightError
from relight.model import Ending, Mark, Origin, Parsed, Piece, Session, ToolCall
from relight.sources.databases import look_at_database, open_database
from relight.sources.hermes.cron import JOBS, LEDGER, fetch_cron, find_cron, read_job, read_run
from relight.sources.hermes.events import read_event
from relight.sources.hermes.logs import DUMP, fetch_logs, find_logs, read_log_row
from relight.sources.hermes.moa import fetch_moa, find_moa, read_moa_row
from relight.sources.hermes.skills import find_viewed, find_written
from relight.sources.hermes.totals import Sums, read_totals
from relight.sources.reading import (
    CheckedReading,
    check,
    first_line,
    last_words,
    write_value,
)
from relight.times import read_time

NAME = "hermes"
SCRIPT_ERROR = re.compile(r"^## Script Error\n[^`]*(?:```\w*\n)?([^`]*)", re.MULTILINE)
# the request's own bulk, repeated in every session; nothing is derived from it
LEFT_OUT = {"system_prompt", "origin_json", "codex_reasoning_items", "codex_message_items"}


def find(environment: Mapping[str, str], folder: Path | None) -> Iterator[Origin]:
    """The files of the home given, else of `HERMES_HOME`, and of every profile below it."""
    for root in [folder] if folder else folders(environment):
        if root.is_file():
            yield from filter(None, [look_at_database(root)])
            continue
        for home in (root, *sorted(root.glob("profiles/*"))):
            yield from filter(None, [look_at_database(home / "state.db")])
            yield from find_cron(home)
            yield from find_logs(home)
            yield from find_moa(home)


def folders(environment: Mapping[str, str]) -> list[Path]:
    home = Path(environment.get("HOME") or Path.home())
    return [Path(environment.get("HERMES_HOME") or home / ".hermes").expanduser()]


def fetch(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
    """What is new in one of Hermes' files, each row as one JSON line."""
    name = Path(origin.path).name
    if name in (JOBS, LEDGER):
        yield from fetch_cron(NAME, origin, marks)
    elif name.startswith((DUMP, "agent.log")):
        yield from fetch_logs(NAME, origin, marks)
    elif name.endswith(".jsonl"):
        yield from fetch_moa(NAME, origin, marks)
    else:
        yield from _fetch_database(origin, marks)


def _fetch_database(origin: Origin, marks: Mapping[str, Mark]) -> Iterator[Piece]:
    """What is new, session by session.

    A session is looked into when its own row, its usage or its number of messages changed.
    Rows already taped come again only with the flags that changed.
    """
    try:
        with closing(open_database(origin.path)) as database:
            yield from _fetch_sessions(database, origin, marks)
    except sqlite3.DatabaseError as error:
        raise RelightError(
            f"cannot read {origin.path}: {error}",
            "if Hermes is running, try again; `hermes sessions repair` mends a broken database",
        ) from error


def _fetch_sessions(
    database: sqlite3.Connection, origin: Origin, marks: Mapping[str, Mark]
) -> Iterator[Piece]:
    database.execute("begin")
    usage: dict[str, list[dict[str, Any]]] = {}
    if _columns(database, "session_model_usage"):
        for row in database.execute("select * from session_model_usage"):
            usage.setdefault(row["session_id"], []).append(dict(row))
    newest = dict(
        database.execute("select session_id, max(id) from messages group by session_id").fetchall()
    )
    flags = [name for name in ("active", "compacted") if name in _columns(database, "messages")]
    for row in database.execute("select * from sessions order by started_at, id").fetchall():
        session = {name: row[name] for name in row.keys() if name not in LEFT_OUT}  # noqa: SIM118
        key = session["id"]
        lines = [{"table": "sessions", **session}]
        lines += [{"table": "session_model_usage", **used} for used in usage.get(key, ())]
        newest_id = newest.get(key) or 0
        head = blake2b(msgspec.json.encode([lines, newest_id]), digest_size=8).digest()
        mark = marks.get(key) or Mark(path=origin.path, part=key)
        if mark.head == head:
            continue
        if mark.offset and "active" in flags:
            lines += _flag_lines(database, key, mark.offset, flags)
        lines += _message_lines(database, key, mark.offset)
        after = msgspec.structs.replace(
            mark,
            size=origin.size,
            modified_ns=origin.modified_ns,
            inode=origin.inode,
            offset=newest_id,
            generation=mark.generation + 1,
            head=head,
        )
        raw = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        yield Piece(source=NAME, raw=raw, before=mark, after=after)
    whole = marks.get("") or Mark(path=origin.path)
    after = msgspec.structs.replace(
        whole, size=origin.size, modified_ns=origin.modified_ns, inode=origin.inode
    )
    yield Piece(source=NAME, raw=b"", before=whole, after=after)


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row["name"] for row in database.execute(f"pragma table_info({table})")}


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
    """Compaction and rewinding mark old rows: their flags are told again, not their text."""
    statement = (
        f"select id, {', '.join(flags)} from messages"
        " where session_id = ? and id <= ? and active is not 1"
    )
    for row in database.execute(statement, (key, up_to_id)):
        yield {"table": "messages", **dict(row)}


def read(lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed:
    """What these rows of one session say."""
    reader = _Reader(msgspec.json.decode(state, type=list[ToolCall]) if state else [])
    reader.reading.read_lines(lines, reader.read_line)
    return reader.finish()


class _Reader:
    def __init__(self, open_calls: list[ToolCall]) -> None:
        self.reading = CheckedReading(open_calls)
        self.owner: str | None = None
        self.sums: Sums | None = None
        self.used: list[Sums] = []

    def finish(self) -> Parsed:
        if self.owner is not None and self.sums is not None:
            totals = read_totals(self.owner, self.sums, self.used)
            self.reading.totals.update((total.key, total) for total in totals)
        state = msgspec.json.encode(list(self.reading.open_calls.values()))
        return self.reading.finish(self.owner, state)

    def read_line(self, line: bytes) -> None:
        row = msgspec.json.decode(line, type=dict[str, Any])
        match row.pop("table", None):
            case "sessions":
                self._read_session(row)
            case "session_model_usage":
                self.used.append(msgspec.convert(row, Sums))
            case "messages":
                self._read_message(row)
            case "jobs":
                self.reading.jobs.append(check(read_job(row)))
            case "executions":
                self.reading.runs.append(check(read_run(row)))
            case "moa":
                read_moa_row(self.reading, row)
                self.owner = row["session_id"]
            case "event":
                read_event(self.reading, row)
                self.owner = row["session_id"]
            case "log" | "request_dump" as table:
                read_log_row(self.reading, {"table": table, **row})
                self.owner = row["session_id"]

    def _read_session(self, row: dict[str, Any]) -> None:
        parent = row.get("parent_session_id")
        self.reading.see_session(
            Session(
                key=row["id"],
                parent=parent,
                parent_kind=_parent_kind(row) if parent else None,
                project=row.get("cwd"),
                title=row.get("title"),
                model=row.get("model"),
                started_at=read_time(row.get("started_at")),
                ended_at=read_time(row.get("ended_at")),
            )
        )
        self.owner = row["id"]
        self.sums = msgspec.convert(row, Sums)

    def _read_message(self, row: dict[str, Any]) -> None:
        if "role" not in row:  # only flags: the message itself was read before
            return
        at = read_time(row.get("timestamp"))
        key = row["session_id"]
        text = str(row.get("content") or "")
        is_person = row["role"] == "user" and not text.startswith("[IMPORTANT:")
        self.reading.see_session(
            Session(
                key=key,
                title=first_line(text) if is_person else None,
                started_at=at,
                ended_at=at,
                # a row that was rewound is no longer part of the conversation
                ending=(ending := _ending(row) if row.get("active", 1) else None),
                prompted_at=at if ending == "prompt" else None,
                answer=last_words(text) if row["role"] == "assistant" else None,
                script_error=_script_error(text) if row["role"] == "user" else None,
            )
        )
        if row["role"] in ("user", "assistant", "tool"):
            self.reading.hear(key, row["role"], strip_block(text))
        if row["role"] == "assistant" and row.get("tool_calls"):
            for call in decode_mended(msgspec.json.decode, row["tool_calls"].encode()):
                function = call.get("function") or {}
                name = call.get("id") or call.get("call_id")
                self.reading.open_call(
                    ToolCall(
                        # servers number the calls of each answer anew: call_0, call_1 …
                        key=f"{key}:{row['id']}:{name}",
                        name=f"{key}:{name}",
                        session=key,
                        tool=function.get("name") or "",
                        at=at,
                        arguments=write_value(function.get("arguments")),
                    )
                )
        elif row["role"] == "user":
            for entry in find_written(key, text, at):
                self.reading.see_skill(entry)
        elif row["role"] == "tool" and row.get("tool_call_id"):
            call_key, result = f"{key}:{row['tool_call_id']}", write_value(row.get("content"))
            if viewed := find_viewed(self.reading.open_calls.get(call_key), result):
                self.reading.see_skill(viewed)
            self.reading.close_call(call_key, finished_at=at, result=result)


def _ending(row: dict[str, Any]) -> Ending | None:
    match row["role"]:
        case "user":
            return "prompt"
        case "assistant":
            if row.get("tool_calls"):
                return "call"
            return "answer" if str(row.get("content") or "").strip() else "empty"
        case "tool":
            return "result"
    return None


def _script_error(prompt: str) -> str | None:
    """What a scheduled job's script died of; Hermes tells the agent, and calls the run fine."""
    found = SCRIPT_ERROR.search(prompt)
    return " ".join(found[1].split())[:300] or "it failed" if found else None


def _parent_kind(row: dict[str, Any]) -> Any:
    if row.get("source") == "subagent" or "_delegate_from" in str(row.get("model_config")):
        return "subagent"
    return "fork" if "_branched_from" in str(row.get("model_config")) else "compaction"
