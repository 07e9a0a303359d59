"""A session's uses of skills, as its own records give them, and what each is charged with."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from relight.judging.shares import Entered
from relight.store.derive.charges import OWN, Bill, Turn, read_bills

# calls that got no answer cost nothing, if their model has a price at all
FREE = f"select 1 from turn where {OWN} and calls = 0 and cost_nanos = 0 limit 1"
# a run of ours says what came of its last session, unless a person has said otherwise of it
SESSION = """
    select session.source, session.key, session.started_at, session.ended_at, session.model,
        iif(own.id is null, session.outcome, own.outcome),
        iif(own.id is null, session.outcome_evidence, own.outcome_evidence), session.score,
        job.full_name, job.provider
    from session
    left join run_attempt on run_attempt.session_id = session.id
    left join run on run.session_id = session.id or run.id = run_attempt.run_id
    left join job on job.id = run.job_id
    left join run as own on own.id = run.id and own.session_id = session.id
        and own.source = 'relight'
        and not exists (select 1 from label where label.session_id = session.id)
    where session.id = ?
    order by run.started_at desc limit 1
"""
SUCCESS = {"success": 1, "failure": 0}
UNSURE = ("partial", "unknown")

Row = dict[str, Any]


def derive_uses(
    database: sqlite3.Connection,
    root_id: int,
    entries: Sequence[tuple[Any, ...]],
    told: Sequence[Entered] = (),
) -> list[Row]:
    """The rows of one session with its sub-agents, for skills that came in or were told of."""
    source, key, started_at, ended_at, model, outcome, evidence, score, job, provider = (
        database.execute(SESSION, (root_id,)).fetchone()
    )
    reasons = msgspec.json.decode(evidence or "[]")
    bills = read_bills(database, root_id, entries, told, started_at, ended_at)
    costs = [_describe_cost(database, root_id, bill) for bill in bills]
    total = sum(bill.amounts["cost_nanos"] or 0 for bill in bills)
    # parts of a cost that is not wholly known say nothing of the session: its calls do
    by_cost = total > 0 and not any(status in UNSURE for status, _ in costs)
    rows = []
    for bill, (status, cost_source) in zip(bills, costs, strict=True):
        charge = bill.charge
        # unknown are tokens and costs; a call that was not made is known
        amounts = bill.amounts | {
            name: value or 0 for name, value in bill.amounts.items() if not name.endswith("_tokens")
        }
        share = (amounts["cost_nanos"] or 0) / total if by_cost else float(charge.weight)
        if status == "unknown":
            amounts["cost_nanos"] = None
        used_model, used_provider = _find_model(bill.turns, root_id) or (model, provider)
        rows.append(
            {
                "session_id": f"{source}:{key}",
                "root_id": root_id,
                "job_id": job or _scheduled_by(source, key),
                "skill_name": charge.name,
                "skill_version": charge.version,
                "entry": charge.entry,
                "invoked_at": charge.invoked_at,
                "completed_at": charge.completed_at,
                "model": used_model,
                "provider": used_provider,
                "duration_seconds": None
                if charge.milliseconds is None
                else charge.milliseconds / 1000,
                "cost_status": status,
                "cost_source": cost_source,
                "success": SUCCESS.get(outcome),
                "end_reason": reasons[0] if reasons else None,
                "quality_score": score,
                "share": share,
                **amounts,
            }
        )
    return rows


def _describe_cost(
    database: sqlite3.Connection, root_id: int, bill: Bill
) -> tuple[str, str | None]:
    """How sure a charge is, and who says so; `partial`: some of its calls have no price."""
    turns = bill.charged
    if not turns:
        is_free = database.execute(FREE, (root_id,)).fetchone() is not None
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
    if source != "relight" and key.startswith("cron_"):
        return f"{source}:{key.removeprefix('cron_').rsplit('_', 2)[0]}"
    return None
