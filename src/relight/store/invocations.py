"""Uses of skills with their share of the session, derived anew whenever the session changes."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from relight.store.charges import AMOUNTS, OWN, Bill, Turn, read_bills
from relight.times import day_reader

# calls that got no answer cost nothing, if their model has a price at all
FREE = f"select 1 from turn where {OWN} and calls = 0 and cost_nanos = 0 limit 1"
SESSION = """
    select session.source, session.key, session.started_at, session.ended_at, session.model,
        session.outcome, session.outcome_evidence, session.score,
        job.source || ':' || job.key, job.provider
    from session
    left join run on run.session_id = session.id
    left join job on job.id = run.job_id
    where session.id = ?
    order by run.started_at desc limit 1
"""
COLUMNS = (
    "session_id",
    "root_id",
    "job_id",
    "skill_name",
    "skill_version",
    "entry",
    "invoked_at",
    "completed_at",
    "day",
    "model",
    "provider",
    "duration_seconds",
    "cost_status",
    "cost_source",
    "success",
    "end_reason",
    "quality_score",
    "share",
    *AMOUNTS,
)
# What was told of a use stands, whatever is derived.
WRITE = f"""
    insert into skill_invocations ({", ".join(COLUMNS)}, is_told)
    values ({", ".join(f":{name}" for name in COLUMNS)}, 0)
    on conflict (session_id, skill_name, coalesce(entry, '')) do update set
        {", ".join(f"{name} = excluded.{name}" for name in COLUMNS)}
    where is_told = 0
"""
SUCCESS = {"success": 1, "failure": 0}


def refresh(database: sqlite3.Connection, touched: Iterable[int]) -> None:
    """Charge the skills of these sessions anew; where no skill was ever seen it costs nothing."""
    has_any = database.execute("select 1 from skill_entry limit 1").fetchone()
    has_told = database.execute(
        "select 1 from skill_invocations where root_id is null and session_id is not null limit 1"
    ).fetchone()
    if not has_any and not has_told:
        return
    database.execute("create temp table if not exists touched (id integer primary key)")
    database.execute("delete from touched")
    database.executemany("insert or ignore into touched values (?)", [(one,) for one in touched])
    if has_told:
        _join_told(database)
    if has_any:
        _refresh_touched(database)


def _join_told(database: sqlite3.Connection) -> None:
    """Give what was told of a session, before it was read, the session's full name."""
    rows = database.execute(
        "select root_id, source || ':' || key, key from session"
        " where id in (select id from touched)"
    ).fetchall()
    database.executemany(
        "update or ignore skill_invocations set root_id = ?1, session_id = ?2"
        " where root_id is null and session_id in (?2, ?3)",
        rows,
    )


def _refresh_touched(database: sqlite3.Connection) -> None:
    (timezone,) = database.execute("select value from meta where key = 'timezone'").fetchone()
    used = {
        root_id
        for (root_id,) in database.execute(
            "select distinct root_id from session where root_id in"
            "   (select root_id from session where id in (select id from touched))"
            " and exists (select 1 from skill_entry where session_id = session.id)"
        )
    }
    # one that lost its skills to a fork, or is a sub-agent's now, has no use of its own any more
    touched = database.execute(
        "select id, source || ':' || key from session where id in (select id from touched)"
    ).fetchall()
    database.executemany(
        "delete from skill_invocations where session_id = ? and is_told = 0",
        [(name,) for session_id, name in touched if session_id not in used],
    )
    for root_id in used:
        rows = list(_derive(database, root_id, timezone))
        database.executemany(WRITE, rows)
        _delete_others(database, root_id, {(row["skill_name"], row["entry"]) for row in rows})


def _delete_others(
    database: sqlite3.Connection, root_id: int, kept: set[tuple[str, str | None]]
) -> None:
    rows = database.execute(
        "select id, skill_name, entry from skill_invocations where is_told = 0 and session_id ="
        " (select source || ':' || key from session where id = ?)",
        (root_id,),
    ).fetchall()
    database.executemany(
        "delete from skill_invocations where id = ?",
        [(found,) for found, skill, entry in rows if (skill, entry) not in kept],
    )


def _derive(database: sqlite3.Connection, root_id: int, timezone: str) -> Iterator[dict[str, Any]]:
    """The rows of one session with its sub-agents."""
    source, key, started_at, ended_at, model, outcome, evidence, score, job, provider = (
        database.execute(SESSION, (root_id,)).fetchone()
    )
    reasons = msgspec.json.decode(evidence or "[]")
    read_day = day_reader(timezone)
    bills = read_bills(database, root_id, started_at, ended_at)
    total = sum(bill.amounts["cost_nanos"] or 0 for bill in bills)
    for bill in bills:
        charge = bill.charge
        is_free = not bill.turns and database.execute(FREE, (root_id,)).fetchone() is not None
        status, cost_source = _describe_cost(bill, is_free=is_free)
        # unknown are tokens and costs; a call that was not made is known
        amounts = bill.amounts | {
            name: value or 0 for name, value in bill.amounts.items() if not name.endswith("_tokens")
        }
        cost = amounts["cost_nanos"] = None if status == "unknown" else amounts["cost_nanos"]
        used_model, used_provider = _find_model(bill.turns, root_id) or (model, provider)
        yield {
            "session_id": f"{source}:{key}",
            "root_id": root_id,
            "job_id": job or _scheduled_by(source, key),
            "skill_name": charge.name,
            "skill_version": charge.version,
            "entry": charge.entry,
            "invoked_at": charge.invoked_at,
            "completed_at": charge.completed_at,
            "day": read_day(charge.invoked_at) or "unknown",
            "model": used_model,
            "provider": used_provider,
            "duration_seconds": None if charge.milliseconds is None else charge.milliseconds / 1000,
            "cost_status": status,
            "cost_source": cost_source,
            "success": SUCCESS.get(outcome),
            "end_reason": reasons[0] if reasons else None,
            "quality_score": score,
            "share": cost / total if total and cost is not None else float(charge.weight),
            **amounts,
        }


def _describe_cost(bill: Bill, *, is_free: bool) -> tuple[str, str | None]:
    """How sure a charge is, and who says so; `partial`: some of its calls have no price."""
    turns = bill.turns
    if not turns:
        return ("estimated" if is_free else "unknown"), None
    if any(turn.is_unpriced for turn in turns) and not bill.amounts["cost_nanos"]:
        return "unknown", None
    priced = [turn for turn in turns if not turn.is_unpriced]
    sources, statuses = ({turn.cost_source for turn in priced}, {one.cost_status for one in priced})
    source = sources.pop() if len(sources) == 1 else None
    if len(priced) < len(turns):
        return "partial", source
    return (statuses.pop() if len(statuses) == 1 else "estimated"), source


def _find_model(turns: Sequence[Turn], root_id: int) -> tuple[str | None, str | None] | None:
    """The model with most calls: of the conversation itself where it has any, not of helpers."""
    calls: dict[tuple[bool, str, str | None, str | None], int] = {}
    for turn in turns:
        is_main = turn.session == root_id and turn.role is None
        name = (is_main, f"{turn.model} {turn.provider}", turn.model, turn.provider)
        calls[name] = calls.get(name, 0) + turn.calls
    if not calls:
        return None
    best = max(calls, key=lambda name: (name[0], calls[name], name[1]))
    return best[2], best[3]


def _scheduled_by(source: str, key: str) -> str | None:
    """The job of a scheduled session whose run its ledger has forgotten."""
    if source == "hermes" and key.startswith("cron_"):
        return f"hermes:{key.removeprefix('cron_').rsplit('_', 2)[0]}"
    return None
