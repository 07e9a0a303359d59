"""The content of a store, compared with that of another one."""

import os
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.campaign.score import Score
from bench.measure import relight
from relight.store import Store, open_store
from relight.store.sql import PART_SHIFT
from relight.store.write.tape import read_tape

# columns of each table of the index; `*` is all but those that depend on the order of reading
INDEX = {
    "session": "source, key, root_id, parent_id, parent_kind, forked_at, project, title, model,"
    " version, started_at, ended_at, outcome, task_type, category, score",
    "turn": "*",
    "tool_call": "*",
    "control_total": "*",
    "shared_turn": "*",
    "session_day": "*",
    "call_day": "*",
    "position_day": "*",
    "listing": "*",
    "compaction": "*",
    "cache_rebuild": "*",
    "file_edit": "*",
    "git_commit": "*",
    "skill_entry": "*",
    "skill_invocations": "session_id, root_id, job_id, skill_name, skill_version, entry,"
    " invoked_at, completed_at, day, model, provider, duration_seconds, input_tokens,"
    " output_tokens, cache_read_tokens, cache_write_tokens, cost_nanos, cost_status,"
    " cost_source, success, end_reason, quality_score, share, is_told, turns, tool_calls",
    "skill_run": "skill_name, job_id, project, model, success, nanos, last_at",
}


def dump(store: Store, *, has_search: bool = True) -> dict[str, Any]:
    """Return a store's logical content: no order of arrival, no row ids, no times of import."""
    tables: dict[str, Any] = {
        table: sorted(store.query(f"select {_name(store, table, columns)} from {table}"), key=repr)
        for table, columns in INDEX.items()
    }
    # the roll-up that triggers keep must be what its rows add up to, whatever has happened to them
    runs = store.query(f"select {INDEX['skill_run']} from skill_run_now")
    assert tables["skill_run"] == sorted(runs, key=repr)
    tape: dict[int, bytes] = {}
    for part in read_tape(store):
        # a line's end may come later than the line, and be a part's first byte
        lines = b"".join(line + b"\n" for line in part.lines() if line)
        tape[part.session_id] = tape.get(part.session_id, b"") + lines
    found = {**tables, "tape": sorted(tape.items())}
    return {**found, "search": dump_search(store)} if has_search else found


def dump_search(store: Store) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return the entries of the search index: session, kind, and words in their order."""
    sessions = dict(store.query("select place, session_id from search_part"))
    entries: dict[int, list[tuple[str, int, str]]] = {}
    for term, number, column, place in read_words(store):
        entries.setdefault(number, []).append((column, place, term))
    return sorted(
        (sessions[number >> PART_SHIFT], number & 3, tuple(f"{c}:{t}" for c, _, t in sorted(words)))
        for number, words in entries.items()
    )


def read_words(store: Store) -> Iterator[tuple[str, int, str, int]]:
    """Yield the words of the search index, each with its entry, column and place."""
    if store.engine == "postgres":
        for number, *texts in store.query("select entry, words, path, tool from search_words"):
            for column, text in zip(("words", "path", "tool"), texts, strict=True):
                for place, word in enumerate((text or "").split()):
                    yield word, number, column, place
        return
    store.query(
        "create virtual table if not exists temp.w using fts5vocab(main, search_words, instance)"
    )
    with store.reading() as database:
        yield from database.execute('select term, doc, col, "offset" from w')


def _name(store: Store, table: str, columns: str) -> str:
    """The columns by name, and all but `place` for `*`."""
    if columns != "*":
        return columns
    with store.reading() as database:
        found = database.execute(f"select * from {table} where 1 = 0").description
    return ", ".join(name for (name, *_) in found if name != "place")


def dump_home(home: Path) -> dict[str, Any]:
    with open_store(home) as store:
        return dump(store)


def make_home(home: Path) -> Path:
    """An empty home whose days are UTC."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    (home / "config.toml").write_text('timezone = "UTC"\n')
    open_store(home).close()
    return home


def compare(score: Score, expected: dict[str, Any], found: dict[str, Any], *, what: str) -> None:
    """Count the rows and the records of the tape that are missing, and those that are too many."""
    for table, rows in expected.items():
        if rows == found[table]:
            continue
        before, after = _count(rows), _count(found[table])
        for column, verb, some in (
            ("lost", "lacks", before - after),
            ("twice", "has", after - before),
        ):
            score.add(column, f"{what}: {table} {verb} {min(some, default='')[:300]}", some.total())


def _count(rows: list[Any]) -> Counter[str]:
    """The rows; of a tape, its records."""
    if rows and isinstance(rows[0][-1], bytes):
        return Counter(f"{key} {line!r}" for key, tape in rows for line in tape.splitlines())
    return Counter(map(repr, rows))


def is_sound(home: Path) -> bool:
    with sqlite3.connect(home / "relight.db", timeout=60) as database:
        (answer,) = database.execute("pragma integrity_check").fetchone()
    database.close()
    return bool(answer == "ok")


def start(*words: str, home: Path, tree: Path | None = None, **options: Any) -> "Process":
    """Start a `relight` command as the leader of a group of its own."""
    environment = {**os.environ, "TZ": "UTC", "RELIGHT_HOME": str(home)}
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME", "RELIGHT_TOKEN"):
        environment.pop(name, None)
    environment["HOME"] = str(tree or home)
    return subprocess.Popen(
        relight(*words),
        env=environment,
        **{
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,
            **options,
        },
    )


Process = subprocess.Popen[bytes]


def finish(score: Score, child: Process, *, what: str, seconds: float = 90.0) -> None:
    """Wait for the end of a command and of all that it started; count it if it does not come."""
    try:
        _, errors = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        score.add("hung", f"{what}, or a process that it started, is there after {seconds:.0f} s")
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        _, errors = child.communicate()
    if b"Traceback" in (errors or b""):
        score.add("lost", f"{what} ended in a traceback: {errors[-300:].decode()!r}")
