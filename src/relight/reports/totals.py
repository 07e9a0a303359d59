"""What it all came to: totals by day, model, project, tool and whatever else people ask by."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from msgspec import Struct

from relight.errors import RelightError
from relight.reports.filters import Filter, where
from relight.store import Store
from relight.store.derive.rollup import TOKENS
from relight.store.derive.scheduled import IS_NAMED_AFTER

SUMS = (
    "turns",
    "partial_turns",
    *TOKENS,
    "cost_nanos",
    "included_nanos",
    "unpriced_turns",
    "tool_calls",
    "tool_failures",
    "wall_ms",
    "failed_turns",
)
COUNTED = ("tool_calls", "tool_failures", "failed_turns")
ADDED = ("turns", "unpriced_turns", "tool_calls", "tool_failures", *TOKENS)
USED = SUMS[:-1]  # failed model calls are no turns
USAGE_KEYS = {
    "day": "day",
    "week": "week.week",
    "month": "substr(day, 1, 7)",
    "source": "source",
    "model": "model",
    "provider": "provider",
    "project": "project",
    "session": "root_id",
    "job": "job",
    "skill": "skill",
}
# what tells of calls, not of turns: tokens have no meaning for them
CALL_KEYS = {"tool": "tool", "failure": "kind"}
KEYS = (*USAGE_KEYS, *CALL_KEYS)


class Report(Struct, frozen=True):
    """Rows of figures by the keys asked for, and the total, which is counted for itself."""

    by: list[str]
    rows: list[dict[str, Any]]
    total: dict[str, Any]


def report(store: Store, by: Sequence[str] = ("day",), chosen: Filter | None = None) -> Report:
    """The figures by these keys, in the order of the keys; by none of them, the total alone."""
    for key in by:
        if key not in KEYS:
            raise RelightError(f"cannot report by {key!r}", f"the keys are {', '.join(KEYS)}")
    if "skill" in by and any(key in CALL_KEYS for key in by):
        raise RelightError(
            "a skill is charged with turns, not with single calls",
            "report by skill, and by tool or failure apart",
        )
    test, values = where(chosen or Filter())
    of_calls = any(key in CALL_KEYS for key in by)
    table = _choose_table(by)
    columns = [{**USAGE_KEYS, **CALL_KEYS}[key] for key in by]
    prefix, join = _week_table(store, table) if "week" in by else ("", "")
    sums = ", ".join(_sum(name, of_calls=of_calls) for name in SUMS if of_calls or name in USED)
    names = ", ".join(columns)
    in_order = f"group by {names} order by {names}" if by else ""
    rows = store.query(
        f"{prefix} select {names}{',' if by else ''} count(distinct root_id), {sums}"
        f" from {table} {join} {test} {in_order}",
        values,
    )
    if by:
        sessions = store.query(f"select count(distinct root_id) from {table} {test}", values)[0][0]
        total = (sessions, *_add_up([row[len(by) + 1 :] for row in rows]))
    else:
        total = rows[0]
    labels = _session_labels(store, table, test, values) if "session" in by else {}
    if by and by[0] == "session":
        order = {found: number for number, found in enumerate(labels)}
        rows.sort(key=lambda row: order.get(row[0], len(order)))
    shown = []
    for row in rows if by else ():
        keys = dict(zip(by, row, strict=False))
        if "session" in keys:
            keys |= labels.get(keys["session"], {"title": None})
        shown.append({**keys, **figures(row[len(by) :], of_calls=of_calls)})
    return Report(list(by), shown, figures(total, of_calls=of_calls))


def sum_costs(store: Store, by: str, chosen: Filter) -> list[dict[str, Any]]:
    """What a report by this key says of sessions and cost, for those who need no more."""
    test, values = where(chosen)
    rows = store.query(
        f"select {USAGE_KEYS[by]}, count(distinct root_id), sum(turns), sum(unpriced_turns),"
        f" sum(cost_nanos) from {USAGE} {test} group by 1 order by 1",
        values,
    )
    return [
        {
            by: key,
            "sessions": sessions,
            "cost_usd": nanos / 1e9 if is_priced(turns, unpriced, nanos) else None,
            "unpriced_turns": unpriced,
        }
        for key, sessions, turns, unpriced, nanos in rows
    ]


def find_first_day(store: Store, chosen: Filter) -> str | None:
    """The first day that has anything in it; what has no day is on none."""
    test, values = where(chosen)
    ((first,),) = store.query(f"select min(day) from {USAGE} {test}", values)
    # the word that stands for no day comes after every day
    return first if first and first[:1].isdigit() else None


def merge_rows(rows: Iterable[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Rows of a report by several keys as rows by one of them, without what does not add up."""
    merged: dict[str | None, dict[str, Any]] = {}
    for row in rows:
        whole = merged.setdefault(row[key], {key: row[key], "cost_usd": 0.0})
        for name in (*ADDED, "cost_usd"):
            if row[name] is not None:
                whole[name] = whole.get(name, 0) + row[name]
    for whole in merged.values():
        whole |= {name: whole.get(name) for name in ADDED}
        if not is_priced(whole["turns"], whole["unpriced_turns"], whole["cost_usd"]):
            whole["cost_usd"] = None
    return list(merged.values())


def is_priced(turns: int, unpriced_turns: int, cost: float) -> bool:
    """Whether a cost is known: a skill may be charged with part of a priced turn, and have only
    unpriced ones as its own."""
    return bool(unpriced_turns < turns or not turns or cost)


def _sum(name: str, *, of_calls: bool) -> str:
    """A sum, or null where the figure has no meaning for calls."""
    return "null" if of_calls and name not in COUNTED else f"sum({name})"


def _add_up(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Sums of columns; of nothing known, None."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in SUMS)
    known = ([value for value in column if value is not None] for column in columns)
    return [sum(values) if values else None for values in known]


USAGE = "session_day"
# the job that each session was a run of, also by its name where a scheduler's ledger forgot the run
SCHEDULED = f"""
    left join run_attempt on run_attempt.session_id = told.root_id
    left join run on run.session_id = told.root_id or run.id = run_attempt.run_id
    left join (
        select session.id as session_id, job.id as job_id from job join session on {IS_NAMED_AFTER}
    ) as named on named.session_id = told.root_id and run.id is null
    left join job on job.id = coalesce(run.job_id, named.job_id)
"""
# the same with those jobs
JOBS = f"(select told.*, job.full_name as job from session_day as told {SCHEDULED})"
# the same with the skills that each session is charged to; one without any is in no skill's row
SKILL_SUMS = [name for name in SUMS if name not in ("cost_nanos", "wall_ms", "failed_turns")]
SKILLS = f"""(
    select day, source, project, root_id, model, provider, job, null as skill,
        {", ".join(SKILL_SUMS)}, cost_nanos, wall_ms
    from {JOBS}
    where root_id not in (select root_id from skill_invocations where root_id is not null)
    union all
    select day, session.source, session.project, skill.root_id, skill.model, provider, job_id,
        skill_name, {", ".join(f"charge.{name}" for name in SKILL_SUMS)},
        coalesce(charge.cost_nanos, 0) - charge.included_nanos,
        round(coalesce(charge.duration_seconds, 0) * 1000)
    from skill_invocations as skill
    join (
        select id, {", ".join(SKILL_SUMS)}, cost_nanos, duration_seconds from skill_invocations
        where id not in (select id from skill_charge)
        union all
        select id, {", ".join(SKILL_SUMS)}, cost_nanos, duration_seconds from skill_charge
    ) as charge on charge.id = skill.id
    left join session on session.id = skill.root_id
)"""
# the same from single calls, for keys that only they have
CALLS = """(
    select day, source, project, root_id, model, provider, tool, kind, tool_calls, tool_failures,
        failed_turns
    from call_day where {test}
)"""
# every tool there is, found by leaping from one to the next: to name them saves sorting their calls
TOOLS = """
    with recursive known (tool) as (
        select min(tool) from call_day where tool is not null
        union all
        select (select min(tool) from call_day where tool > known.tool) from known
        where known.tool is not null
    )
    select tool from known where tool is not null
"""
CALL_JOBS = f"(select told.*, job.full_name as job from {{table}} as told {SCHEDULED})"


def _choose_table(by: Sequence[str]) -> str:
    if any(key in CALL_KEYS for key in by):
        # calls that failed or whose answer was no and model calls that got none; or all calls
        table = CALLS.format(test="kind is not null" if "failure" in by else f"tool in ({TOOLS})")
        return CALL_JOBS.format(table=table) if "job" in by else table
    if "skill" in by:
        return SKILLS
    return JOBS if "job" in by else USAGE


def _week_table(store: Store, table: str) -> tuple[str, str]:
    """Days and their ISO weeks as a table, since no SQL for them works everywhere."""
    days = [day for (day,) in store.query(f"select distinct day from {table}")]
    pairs = ", ".join(f"('{day}', '{_week(day)}')" for day in days) or "('', '')"
    return f"with week (on_day, week) as (values {pairs})", "join week on week.on_day = day"


def _week(day: str) -> str:
    try:
        year, week, _ = date.fromisoformat(day).isocalendar()
    except ValueError:
        return day
    return f"{year}-W{week:02}"


def _session_labels(
    store: Store, table: str, test: str, values: Sequence[str]
) -> dict[int, dict[str, Any]]:
    """The name and title of every session a report finds, in the order they began."""
    rows = store.query(
        "select id, source || ':' || key, title from session"
        f" where id in (select root_id from {table} {test})"
        " order by started_at is null, started_at, id",
        values,
    )
    return {found: {"session": name, "title": title} for found, name, title in rows}


def figures(row: Sequence[Any], *, of_calls: bool = False) -> dict[str, Any]:
    """The figures of a row of sums: the number of sessions, then `SUMS`.

    Cost is unknown where no turn has a price; what has no meaning for calls is null for them.
    """
    sessions, sums = row[0], dict(zip(SUMS, row[1:], strict=False))
    shown: dict[str, Any] = {"sessions": sessions, "turns": sums["turns"]}
    if not of_calls:
        sums = {name: value or 0 if name not in TOKENS else value for name, value in sums.items()}
        shown["turns"] = sums["turns"]
    shown |= {name: sums[name] for name in TOKENS}
    is_known = not of_calls and is_priced(sums["turns"], sums["unpriced_turns"], sums["cost_nanos"])
    shown["cost_usd"] = sums["cost_nanos"] / 1e9 if is_known else None
    shown["included_usd"] = None if of_calls else sums["included_nanos"] / 1e9
    shown["unpriced_turns"] = sums["unpriced_turns"]
    shown["partial_turns"] = sums["partial_turns"]
    shown["tool_calls"] = sums["tool_calls"] or 0
    shown["tool_failures"] = sums["tool_failures"] or 0
    shown["wall_seconds"] = None if of_calls else sums["wall_ms"] / 1000
    if of_calls:
        shown["failed_turns"] = sums["failed_turns"] or 0
    return shown
