"""Builders: small transcripts in the real clients' shapes, and what a store holds in the end."""

import json
import secrets
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from bench.campaign.stores import dump as dump
from bench.campaign.stores import dump_search as dump_search

import relight.store
from relight.intake.importing import Imported
from relight.judging.outcomes import RUN_SIGNS
from relight.store import Store, open_store
from relight.store.derive.outcomes import write_proven
from relight.warm.automatic import import_and_propose

START = 1_794_700_800_000  # 2026-11-15T00:00:00Z
CLAUDE_SESSION = "11111111-aaaa-4aaa-8aaa-111111111111"
CODEX_SESSION = "01a1dd31-17d7-7420-9fbf-d960215b41b5"


def stamp(seconds: float) -> str:
    from relight.times import write_time

    return write_time(START + round(seconds * 1000)) or ""


def claude_usage(output: int = 50, **changes: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 4000,
        "output_tokens": output,
        "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 100},
    }
    return usage | changes


def claude_line(kind: str, at: float, **fields: Any) -> dict[str, Any]:
    base = {
        "type": kind,
        "sessionId": CLAUDE_SESSION,
        "uuid": f"u-{at}",
        "timestamp": stamp(at),
        "cwd": "/home/dev/shop",
        "version": "2.1.325",
        "isSidechain": False,
    }
    return base | fields


def claude_prompt(text: str, at: float = 0, **fields: Any) -> dict[str, Any]:
    return claude_line("user", at, message={"role": "user", "content": text}, **fields)


def claude_answer(
    name: str,
    *blocks: dict[str, Any],
    at: float = 1,
    usage: dict[str, Any] | None = None,
    stop: str | None = "end_turn",
    model: str = "claude-opus-4-6",
    **fields: Any,
) -> dict[str, Any]:
    message = {
        "id": name,
        "role": "assistant",
        "model": model,
        "content": list(blocks) or [{"type": "text", "text": "Done."}],
        "stop_reason": stop,
        "usage": usage or claude_usage(),
    }
    return claude_line("assistant", at, message=message, requestId=f"req_{name}", **fields)


def tool_use(name: str, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": arguments}


def claude_result(
    name: str, text: str, at: float = 2, is_error: bool | None = None, **fields: Any
) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": name, "content": text}
    if is_error is not None:
        block["is_error"] = is_error
    return claude_line("user", at, message={"role": "user", "content": [block]}, **fields)


def claude_session() -> list[dict[str, Any]]:
    """A small session: a prompt, two calls of which one fails, an answer."""
    return [
        claude_prompt("Fix the rounding in the invoice"),
        claude_answer("msg_1", tool_use("toolu_1", command="pytest -q"), at=1, stop="tool_use"),
        claude_result("toolu_1", "3 passed in 0.10s", at=2, is_error=False),
        claude_answer("msg_2", tool_use("toolu_2", "Read", file_path="/gone"), at=3),
        claude_result("toolu_2", "File does not exist.", at=4, is_error=True),
        claude_answer("msg_3", at=5),
    ]


def codex_line(kind: str, at: float, **payload: Any) -> dict[str, Any]:
    return {"timestamp": stamp(at), "type": kind, "payload": payload}


def codex_usage(total: int, *, cached: int = 400, output: int = 20) -> dict[str, int]:
    return {
        "input_tokens": total,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": 5,
        "total_tokens": total + output,
    }


def codex_meta(name: str = CODEX_SESSION, **fields: Any) -> dict[str, Any]:
    payload = {"id": name, "cwd": "/home/dev/shop", "cli_version": "0.166.0", "source": "exec"}
    return codex_line("session_meta", 0, **{**payload, "model_provider": "openai", **fields})


def codex_count(at: float, total: dict[str, int] | None, last: dict[str, int] | None = None) -> Any:
    info = None if total is None else {"total_token_usage": total, "last_token_usage": last}
    return codex_line("event_msg", at, type="token_count", info=info)


def as_lines(records: Iterable[Mapping[str, Any] | str]) -> bytes:
    texts = (
        one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in records
    )
    return "".join(f"{text}\n" for text in texts).encode()


def write_claude(
    home: Path, records: Iterable[Mapping[str, Any] | str], *, name: str = CLAUDE_SESSION
) -> Path:
    path = home / ".claude" / "projects" / "-home-dev-shop" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_lines(records))
    return path


def write_agent(parent: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """A sub-agent of the session that was written to `parent`, beside it as Claude Code does."""
    path = parent.with_suffix("") / "subagents" / "agent-a1.jsonl"
    path.parent.mkdir(parents=True)
    told = {"agentId": "a1", "isSidechain": True}
    path.write_bytes(as_lines({**record, **told} for record in records))
    return path


def write_codex(
    home: Path, records: Iterable[Mapping[str, Any] | str], *, name: str = CODEX_SESSION
) -> Path:
    folder = home / ".codex" / "sessions" / "2026" / "11" / "15"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-2026-11-15T00-00-00-{name}.jsonl"
    path.write_bytes(as_lines(records))
    return path


HERMES_TABLES = """
    create table sessions (id text primary key, source text not null, model text,
        model_config text, parent_session_id text, started_at real not null, ended_at real,
        end_reason text, message_count integer default 0, tool_call_count integer default 0,
        input_tokens integer default 0, output_tokens integer default 0,
        cache_read_tokens integer default 0, cache_write_tokens integer default 0,
        reasoning_tokens integer default 0, cwd text, billing_provider text,
        estimated_cost_usd real, actual_cost_usd real, cost_status text, cost_source text,
        title text, api_call_count integer default 0, system_prompt text);
    create table messages (id integer primary key autoincrement, session_id text not null,
        role text not null, content text, tool_call_id text, tool_calls text, tool_name text,
        timestamp real not null, finish_reason text, active integer not null default 1,
        compacted integer not null default 0);
    create index idx_messages_session on messages (session_id, timestamp);
    create table session_model_usage (session_id text, model text, billing_provider text default '',
        billing_base_url text default '', billing_mode text default '', task text default '',
        api_call_count integer default 0, input_tokens integer default 0,
        output_tokens integer default 0, cache_read_tokens integer default 0,
        cache_write_tokens integer default 0, reasoning_tokens integer default 0,
        estimated_cost_usd real default 0, actual_cost_usd real default 0, cost_status text,
        cost_source text, first_seen real, last_seen real,
        primary key (session_id, model, billing_provider, billing_base_url, billing_mode, task));
"""


# what Hermes has open while a test goes on; closed after it
HELD: list[sqlite3.Connection] = []


def connect_as_hermes(path: Path) -> sqlite3.Connection:
    """A connection that stays open as long as the test: Hermes does not close its databases."""
    connection = sqlite3.connect(path, isolation_level=None)
    HELD.append(connection)
    return connection


def open_hermes(home: Path, *, profile: str | None = None) -> sqlite3.Connection:
    """Hermes' own database, open for writing as Hermes has it."""
    folder = home / ".hermes" / (f"profiles/{profile}" if profile else "")
    folder.mkdir(parents=True, exist_ok=True)
    database = connect_as_hermes(folder / "state.db")
    database.execute("pragma journal_mode = wal")
    database.executescript(HERMES_TABLES)
    return database


def insert(database: sqlite3.Connection, table: str, **values: Any) -> None:
    marks = ", ".join("?" * len(values))
    database.execute(
        f"insert into {table} ({', '.join(values)}) values ({marks})", list(values.values())
    )


def hermes_session(database: sqlite3.Connection, name: str = "20261115_000000_abc123") -> str:
    """A small Hermes session: a prompt, a terminal call, an answer, sums."""
    begin = START / 1000
    figures = {"input_tokens": 1000, "output_tokens": 68, "cache_read_tokens": 400}
    insert(
        database,
        "sessions",
        id=name,
        source="cli",
        model="gpt-5.1",
        started_at=begin,
        cwd="/home/dev/shop",
        api_call_count=2,
        **figures,
    )
    insert(
        database,
        "session_model_usage",
        session_id=name,
        model="gpt-5.1",
        billing_provider="openai",
        api_call_count=2,
        first_seen=begin + 1,
        **figures,
    )
    function = {"name": "terminal", "arguments": '{"command": "ls"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    rows: Sequence[dict[str, Any]] = (
        {"role": "user", "content": "List the files"},
        {"role": "assistant", "content": "", "tool_calls": json.dumps([call])},
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "tool_name": "terminal",
            "content": '{"output": "a.txt", "exit_code": 0, "error": null}',
        },
        {"role": "assistant", "content": "There is a.txt", "finish_reason": "stop"},
    )
    for number, row in enumerate(rows):
        insert(database, "messages", session_id=name, timestamp=begin + number, **row)
    return name


UTC = 'timezone = "UTC"\n'


def open_home(folder: Path, *, proven: Collection[str] = RUN_SIGNS, is_file: bool = False) -> Store:
    """A store whose days are UTC, whatever the machine's zone, and whose labels prove signs.

    With the signs proven, outcomes are known, as in the store of somebody who has labelled.
    With `is_file` it is on SQLite, as the store of a machine that pushes always is.
    """
    home = folder / "relight"
    home.mkdir(parents=True, exist_ok=True)
    is_new = make_file_store(home) if is_file else make_store(home)
    store = open_store(home)
    with store.transaction() as database:
        if is_new:
            own = "update meta set value = ? where key = 'redaction_key'"
            database.execute(own, (secrets.token_hex(32),))
        write_proven(database, proven)
    return store


def make_file_store(home: Path) -> bool:
    """Write the settings and the empty database of a home; False if it has one already."""
    (home / "config.toml").write_text(UTC)
    if (home / "relight.db").exists():
        return False
    (home / "relight.db").touch(mode=0o600)
    (home / "relight.db").write_bytes(make_empty_database(relight.store.SCHEMA))
    return True


def find_file_settings(_: Path, /) -> str:
    """Return the lines of `config.toml` that say where a home's store is: none for a file."""
    return ""


# `--postgres` puts other functions here
make_store = make_file_store
find_settings = find_file_settings


def write_settings(home: Path, text: str) -> None:
    """Write `config.toml` of a home, whose store stays where it is."""
    (home / "config.toml").write_text(f"{find_settings(home)}{text}\n")


@cache
def make_empty_database(_: int) -> bytes:
    """The file of an empty store of a schema; to copy it is much quicker than to migrate each."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(UTC)
        # a home that has a file stays on SQLite, also with --postgres
        (Path(folder) / "relight.db").touch(mode=0o600)
        open_store(folder).close()
        return (Path(folder) / "relight.db").read_bytes()


def import_home(store: Store, home: Path, **options: Any) -> list[Imported]:
    """Import what lies in a home folder, and nothing of the machine's own."""
    return import_and_propose(store, environment={"HOME": str(home)}, **{"workers": 1, **options})


def git(folder: Path, *words: str) -> str:
    who = [
        "-c",
        "user.name=Dev",
        "-c",
        "user.email=dev@example.com",
        "-c",
        "init.defaultBranch=main",
    ]
    found = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return found.stdout


def wait_for(test: Callable[[], object], *, seconds: float = 120.0) -> None:
    """Go on as soon as something has come to pass; never to wait for ever."""
    deadline = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


@contextmanager
def holding(store: Store) -> Iterator[None]:
    """Another connection writes, and does not come to an end."""
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("begin immediate")
    try:
        yield
    finally:
        other.execute("rollback")
        other.close()
