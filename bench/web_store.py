"""A large store for the dashboard's benchmark, written straight into the tables."""

import random
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import CACHE, tree
from relight.intake.importing import import_all
from relight.judging.kinds import CATEGORIES
from relight.model import row_id
from relight.store import Store, open_store
from relight.store.derive import rollup
from relight.store.derive.rollup import add_up_days
from relight.store.sql import Connection

DAYS = 365
DAY_MS = 86_400_000
FRESH_SECONDS = 3 * 86_400  # its newest sessions must still be new
LARGE_TURNS = 10_000
ROLLED_UP = 500
MADE_SESSIONS = 50_000
JOBS, RUNS, TEMPLATES, PROVISIONS = 30, 4000, 150, 1000
MODELS = (
    ("claude-opus-4-6", "anthropic"),
    ("claude-haiku-4-5", "anthropic"),
    ("gpt-5.1", "openai"),
    ("gpt-5.1-codex", "openai"),
    ("qwen3-coder", "local"),
)
SOURCES = ("claude-code", "claude-code", "claude-code", "codex", "hermes")
TOOLS = ("Bash", "Read", "Edit", "Grep", "Write", "WebFetch", "mcp__db__query", "Task")
KINDS = ("command_failed", "timeout", "file_not_found", "permission_denied", "no_match")
WORDS = (
    "fix",
    "rounding",
    "invoices",
    "checkout",
    "tests",
    "parser",
    "client",
    "import",
    "night",
    "job",
    "rename",
    "module",
    "speed",
    "query",
    "trace",
    "guide",
    "review",
    "change",
    "release",
    "cache",
    "login",
    "export",
    "schema",
    "retry",
    "upload",
    "search",
    "billing",
    "report",
)
OUTCOMES = ("success", "success", "failure", "unknown")
_session = "source project title model started_at ended_at outcome outcome_evidence task_type"
_turn = "at day model provider calls input_tokens cache_read_tokens cache_write_tokens"
_turn += " cache_write_1h_tokens output_tokens usage_status cost_nanos cost_status cost_source"
_call = "at day finished_at tool fingerprint arguments_bytes result_bytes exit_code duration_ms"
_group = "day source project model provider outcome"
_sums = "turns partial_turns unpriced_turns input_tokens cache_read_tokens cache_write_tokens"
_sums += " cache_write_1h_tokens output_tokens cost_nanos included_nanos tool_calls tool_failures"
_use = "skill_name entry invoked_at day model provider duration_seconds cost_nanos cost_status"
_failed = "tool_calls tool_failures failed_turns last_at"
_hour = "hour source first_at turns unpriced_turns tokens nanos"
# the columns with ids that a copy changes, and those that it keeps; triggers write the rest
COPIED = {
    "session": (("id", "root_id"), (*_session.split(), "category", "score", "answer")),
    "turn": (
        ("id", "session_id"),
        (*_turn.split(), "duration_ms", "failure", "failure_text"),
    ),
    "tool_call": (
        ("id", "session_id", "turn_id"),
        (*_call.split(), "label", "kind", "reason", "evidence"),
    ),
    "session_day": (("session_id", "root_id"), (*_group.split(), *_sums.split(), "wall_ms")),
    "call_day": (
        ("session_id", "root_id"),
        (*_group.split(), "tool", "kind", *_failed.split()),
    ),
    "position_day": (
        ("session_id", "root_id"),
        ("day", "position", "source", "project", *_failed.replace("last", "failed").split()),
    ),
    "session_hour": (("session_id",), tuple(_hour.split())),
    "skill_invocations": (("root_id",), (*_use.split(), "success", "is_told")),
}


def find_store(sessions: int) -> Path:
    """A home with this many sessions of twenty turns each, made once and kept for some days.

    A large one is a small one with copies of its sessions, at the same times.
    """
    home = CACHE / f"web-{sessions}"
    done = home / "done"
    if done.exists() and time.time() - done.stat().st_mtime < FRESH_SECONDS:
        return home
    shutil.rmtree(home, ignore_errors=True)
    if sessions <= MADE_SESSIONS:
        home.mkdir(parents=True)
        (home / "config.toml").write_text('timezone = "UTC"\n')
    else:
        shutil.copytree(find_store(MADE_SESSIONS), home)
        (home / "done").unlink()
    with open_store(home) as store:
        store.run("pragma synchronous = off")
        store.run("pragma cache_size = -1000000")
        if sessions <= MADE_SESSIONS:
            fill(store, sessions)
        for number in range(1, sessions // MADE_SESSIONS):
            copy_rows(store, number)
        add_up_days(store)  # as each import does
        store.run("pragma wal_checkpoint(truncate)")
    done.touch()
    return home


def copy_rows(store: Store, number: int) -> None:
    """Write the first sessions once more, with other ids."""
    change = number << 50
    for table, (changed, kept) in COPIED.items():
        changes = [f"({name} | {change}) - ({name} & {change})" for name in changed]
        if table == "session":
            changes.append(f"key || '-{number}'")
            changed = (*changed, "key")
        elif table == "skill_invocations":
            changes.append(f"session_id || '-{number}'")
            changed = (*changed, "session_id")
        owner = "id" if table == "session" else "root_id" if "root_id" in changed else "session_id"
        # each in its own transaction: SQLite searches a long log for every page
        with store.transaction() as database:
            database.execute(
                f"insert into {table} ({', '.join((*changed, *kept))})"
                f" select {', '.join((*changes, *kept))} from {table}"
                f" where {owner} in (select id from session where place <= {MADE_SESSIONS})"
            )
        store.run("pragma wal_checkpoint(truncate)")


def fill(store: Store, sessions: int) -> None:
    dice = random.Random(11)
    made = list(make_sessions(dice, sessions, int(time.time() * 1000)))
    for write in (_write_sessions, _write_turns, _write_calls, _write_roll_ups, _write_uses):
        with store.transaction() as database:
            write(database, dice, made)
    with store.transaction() as database:
        write_jobs(database, dice, made)
        write_templates(database, dice, made)
    # some of them with words: real records, read as any
    import_all(store, environment={"HOME": str(tree(10))})


def _write_sessions(database: Connection, _: random.Random, made: list[tuple[Any, ...]]) -> None:
    database.executemany(
        "insert into session (id, source, key, root_id, project, title, model, started_at,"
        " ended_at, outcome, outcome_evidence, task_type, category, score, answer)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        made,
    )


def _write_turns(database: Connection, dice: random.Random, made: list[tuple[Any, ...]]) -> None:
    database.executemany(
        "insert into turn (id, session_id, at, day, model, provider, role, calls, input_tokens,"
        " cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,"
        " reasoning_tokens, usage_status, cost_nanos, cost_status, cost_source, duration_ms,"
        " first_token_ms, failure, failure_text)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        make_turns(dice, made),
    )


def _write_calls(database: Connection, dice: random.Random, made: list[tuple[Any, ...]]) -> None:
    database.executemany(
        "insert into tool_call (id, session_id, turn_id, at, day, finished_at, tool,"
        " fingerprint, arguments_bytes, result_bytes, exit_code, duration_ms, label, kind,"
        " reason, evidence) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        make_calls(dice, made),
    )


def _write_roll_ups(database: Connection, _: random.Random, made: list[tuple[Any, ...]]) -> None:
    for place in range(0, len(made), ROLLED_UP):
        rollup.refresh(database, [row[0] for row in made[place : place + ROLLED_UP]])


def _write_uses(database: Connection, dice: random.Random, made: list[tuple[Any, ...]]) -> None:
    database.executemany(
        "insert into skill_invocations (session_id, root_id, skill_name, entry, invoked_at,"
        " day, model, provider, duration_seconds, cost_nanos, cost_status, success, is_told)"
        " values (?, ?, ?, 'tool', ?, ?, ?, ?, ?, ?, 'estimated', ?, 0)",
        make_uses(dice, made),
    )


def make_sessions(dice: random.Random, number: int, now: int) -> Iterator[tuple[Any, ...]]:
    for place in range(number):
        source = dice.choice(SOURCES)
        key = f"{dice.getrandbits(128):032x}"
        session_id = row_id("session", source, key)
        started = now - 3_600_000 - int(DAYS * DAY_MS * (number - 1 - place) / number)
        model, _ = dice.choice(MODELS)
        yield (
            session_id,
            source,
            key,
            session_id,
            f"/home/dev/project-{int(dice.paretovariate(1)) % 60}",
            " ".join(dice.choices(WORDS, k=dice.randint(3, 12))),
            model,
            started,
            started + dice.randint(20, 3000) * 1000,
            dice.choice(OUTCOMES),
            '["the tests that ran last passed"]',
            "code",
            dice.choice(CATEGORIES),
            dice.random(),
            "It is done: " + " ".join(dice.choices(WORDS, k=60)),
        )


def count_turns(place: int) -> int:
    """One session is very long; the others have twenty turns each on average."""
    return LARGE_TURNS if place == 0 else 10 + place % 21


def day_of(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()


def make_turns(dice: random.Random, made: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for place, row in enumerate(made):
        session_id, started, ended = row[0], row[7], row[8]
        model, provider = dice.choice(MODELS)
        turns = count_turns(place)
        for number in range(turns):
            at = started + (ended - started) * number // turns
            is_priced = provider != "local"
            failure = "rate_limit" if dice.random() < 0.004 else None
            yield (
                session_id ^ (number + 1),
                session_id,
                at,
                day_of(at),
                model,
                provider,
                None,
                1,
                dice.randint(10, 4000),
                dice.randint(0, 90_000),
                dice.randint(0, 9000),
                0,
                dice.randint(10, 2500),
                None,
                "final",
                dice.randint(10**5, 10**8) if is_priced else None,
                "estimated" if is_priced else "unknown",
                "prices.toml" if is_priced else None,
                dice.randint(400, 40_000),
                None,
                failure,
                "429 Too Many Requests" if failure else None,
            )


def make_calls(dice: random.Random, made: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for place, row in enumerate(made):
        session_id, started, ended = row[0], row[7], row[8]
        turns = count_turns(place)
        is_stuck = place % 40 == 7
        for number in range(turns):
            at = started + (ended - started) * number // turns + 500
            label = "error" if dice.random() < 0.05 or (is_stuck and number < 4) else "ok"
            kind = dice.choice(KINDS) if label == "error" else None
            yield (
                session_id ^ (number + 1) ^ (1 << 40),
                session_id,
                session_id ^ (number + 1),
                at,
                day_of(at),
                at + 300,
                "Bash" if is_stuck and number < 4 else dice.choice(TOOLS),
                5 if is_stuck and number < 4 else dice.getrandbits(60),
                dice.randint(10, 300),
                dice.randint(0, 9000),
                1 if label == "error" else 0,
                300,
                label,
                kind,
                f"exit code 1: {kind}" if kind else None,
                "exit code 1" if kind else None,
            )


def make_uses(dice: random.Random, made: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for row in made[::2]:
        session_id, source, key, at = row[0], row[1], row[2], row[7]
        model, provider = dice.choice(MODELS)
        yield (
            f"{source}:{key}",
            session_id,
            f"skill-{dice.randint(0, 39)}",
            at,
            day_of(at),
            model,
            provider,
            dice.uniform(5, 900),
            dice.randint(10**6, 10**9),
            dice.choice((0, 1, 1, 1, None)),
        )


def write_jobs(database: Connection, dice: random.Random, made: list[tuple[Any, ...]]) -> None:
    """Jobs of Hermes' scheduler, with four thousand runs of which each left a session."""
    for number in range(JOBS):
        key = f"job{number:09}"
        database.execute(
            "insert into job (id, source, key, name, schedule, skills, model, state, created_at)"
            " values (?, 'hermes', ?, ?, '0 3 * * *', '[]', 'gpt-5.1', 'scheduled', ?)",
            (row_id("job", "hermes", key), key, f"night-{number}", made[0][7]),
        )
    scheduled = [row for row in made if row[1] == "hermes"][-RUNS:]
    for place, row in enumerate(scheduled):
        database.execute(
            "insert into run (id, source, key, job_id, session_id, status, started_at,"
            " finished_at, outcome, outcome_evidence)"
            " values (?, 'hermes', ?, ?, ?, 'completed', ?, ?, ?, '[]')",
            (
                row_id("run", "hermes", str(place)),
                str(place),
                row_id("job", "hermes", f"job{place % JOBS:09}"),
                row[0],
                row[7],
                row[8],
                row[9],
            ),
        )


def write_templates(database: Connection, dice: random.Random, made: list[tuple[Any, ...]]) -> None:
    """Templates in two versions each, and the sessions that began with them or were held out."""
    for number in range(1, TEMPLATES + 1):
        session = dice.choice(made)
        database.execute(
            "insert into template (id, name, project, category, created_at) values (?, ?, ?, ?, ?)",
            (number, f"template-{number}", session[4], CATEGORIES[0], session[7]),
        )
        for version in (1, 2):
            database.execute(
                "insert into template_version (template_id, version, description, tags, task_type,"
                " task, tools, actions, seed, tokens, content_hash, score, outcome, evidence,"
                " overruled, redactions, source_session, created_at) values (?, ?, ?, '[]', 'code',"
                " ?, '[\"Bash\"]', '{}', '[]', 900, ?, 0.8, 'success', '[]', '[]', '{}', ?, ?)",
                (
                    number,
                    version,
                    session[5],
                    session[5],
                    f"{number}-{version}",
                    f"{session[1]}:{session[2]}",
                    session[7],
                ),
            )
    for place, row in enumerate(dice.sample(made, PROVISIONS)):
        database.execute(
            "insert into provision (id, session_key, source, arm, template_id, version, similarity,"
            " reason, category, tokens, created_at)"
            " values (?, ?, ?, ?, ?, 2, 0.5, 'similar', 'coding', 900, ?)",
            (
                f"p{place}",
                row[2],
                row[1],
                "cold" if place % 5 == 0 else "warm",
                place % TEMPLATES + 1,
                row[7],
            ),
        )
