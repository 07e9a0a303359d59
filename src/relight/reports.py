"""What it all came to: totals by day, model, project, tool and whatever else people ask by."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from msgspec import Struct

from relight.errors import RelightError
from relight.sources import SOURCES
from relight.store import Store

TOKENS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
)
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
DEFAULT_SINCE = "30d"


class Report(Struct, frozen=True):
    """Rows of figures by the keys asked for, and the total, which is counted for itself."""

    by: list[str]
    rows: list[dict[str, Any]]
    total: dict[str, Any]


class Filter(Struct, frozen=True, kw_only=True):
    """Which part of the record a report is about; days are in the store's time zone."""

    since: str | None = None
    until: str | None = None
    source: str | None = None
    model: str | None = None
    project: str | None = None


def read_filter(
    store: Store,
    *,
    since: str = DEFAULT_SINCE,
    until: str | None = None,
    source: str | None = None,
    model: str | None = None,
    project: str | None = None,
    now: datetime | None = None,
) -> Filter:
    """A filter from what people type: `7d`, `all` or a date, and parts of names."""
    from zoneinfo import ZoneInfo

    if source is not None and source not in SOURCES:
        raise RelightError(f"there is no source {source!r}", f"there are {', '.join(SOURCES)}")
    today = (now or datetime.now(UTC)).astimezone(ZoneInfo(store.timezone)).date()
    return Filter(
        since=read_day(since, today=today),
        until=read_day(until, today=today) if until else None,
        source=source,
        model=model,
        project=project,
    )


def read_day(text: str, *, today: date) -> str | None:
    """A day from `2026-05-01`, or `7d`: the last seven days with today; None for `all`.

    >>> read_day("7d", today=date(2026, 11, 15))
    '2026-11-09'
    """
    if text == "all":
        return None
    try:
        if days := re.fullmatch(r"(\d{1,6})d", text):
            return (today - timedelta(days=max(int(days[1]) - 1, 0))).isoformat()
        return date.fromisoformat(text).isoformat()
    except (ValueError, OverflowError):
        raise RelightError(
            f"{text!r} is not a day", "write 2026-05-01, or 7d for the last seven days, or all"
        ) from None


def report(store: Store, by: Sequence[str] = ("day",), chosen: Filter | None = None) -> Report:
    """The figures by these keys, in the order of the keys."""
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
    sums = ", ".join(f"sum({name})" for name in SUMS if of_calls or name != "failed_turns")
    names = ", ".join(columns)
    rows = store.query(
        f"{prefix} select {names}, count(distinct root_id), {sums} from {table} {join} {test}"
        f" group by {names} order by {names}",
        values,
    )
    sessions = store.query(f"select count(distinct root_id) from {table} {test}", values)[0][0]
    total = [sessions, *_add_up([row[len(by) + 1 :] for row in rows])]
    labels = _session_labels(store) if "session" in by else {}
    if by and by[0] == "session":
        order = {found: number for number, found in enumerate(labels)}
        rows.sort(key=lambda row: order.get(row[0], len(order)))
    shown = []
    for row in rows:
        keys = dict(zip(by, row, strict=False))
        if "session" in keys:
            keys |= labels.get(keys["session"], {"title": None})
        shown.append({**keys, **figures(row[len(by) :], of_calls=of_calls)})
    return Report(list(by), shown, figures(total, of_calls=of_calls))


def _add_up(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Sums of columns; of nothing known, None."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in SUMS)
    known = ([value for value in column if value is not None] for column in columns)
    return [sum(values) if values else None for values in known]


USAGE = "session_day"
# the same with the job that each session was a run of
JOBS = """(
    select session_day.*, job.source || ':' || job.key as job from session_day
    left join run on run.session_id = session_day.root_id
    left join job on job.id = run.job_id
)"""
# the same with the skills that each session is charged to; one without any is in no skill's row
SKILLS = f"""(
    select day, source, project, root_id, model, provider, job, null as skill,
        {", ".join(name for name in SUMS if name != "failed_turns")}
    from {JOBS}
    where root_id not in (select root_id from skill_invocations where root_id is not null)
    union all
    select day, session.source, session.project, skill_invocations.root_id,
        skill_invocations.model, provider, job_id, skill_name, turns, partial_turns, input_tokens,
        cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
        reasoning_tokens, coalesce(cost_nanos, 0) - included_nanos, included_nanos, unpriced_turns,
        tool_calls, tool_failures, round(coalesce(duration_seconds, 0) * 1000)
    from skill_invocations
    left join session on session.id = skill_invocations.root_id
)"""
# the same columns from single calls, for keys that only they have
NO_USAGE = ", ".join(
    f"null as {name}"
    for name in SUMS
    if name not in ("tool_calls", "tool_failures", "failed_turns")
)
CALLS = f"""
    select coalesce(tool_call.day, 'unknown') as day, session.source, session.project,
        session.root_id, coalesce(turn.model, session.model) as model, turn.provider,
        job.source || ':' || job.key as job, tool_call.tool, tool_call.kind, {NO_USAGE},
        1 as tool_calls, case when tool_call.label = 'error' then 1 else 0 end as tool_failures,
        0 as failed_turns
    from tool_call
    join session on session.id = tool_call.session_id
    left join turn on turn.id = tool_call.turn_id
    left join run on run.session_id = session.root_id
    left join job on job.id = run.job_id
"""
# calls that failed or whose answer was no, and model calls that got none
FAILURES = f"""
    {CALLS} where tool_call.kind is not null
    union all
    select coalesce(turn.day, 'unknown'), session.source, session.project, session.root_id,
        turn.model, turn.provider, job.source || ':' || job.key, null, turn.failure, {NO_USAGE},
        0, 0, 1
    from turn
    join session on session.id = turn.session_id
    left join run on run.session_id = session.root_id
    left join job on job.id = run.job_id
    where turn.failure is not null
"""


def _choose_table(by: Sequence[str]) -> str:
    if "failure" in by:
        return f"({FAILURES})"
    if "tool" in by:
        return f"({CALLS})"
    if "skill" in by:
        return SKILLS
    return JOBS if "job" in by else USAGE


def where(chosen: Filter) -> tuple[str, list[str]]:
    """The test and its values for what a filter takes, over columns of these names."""
    tests, values = [], []
    for test, value in (
        ("day >= ?", chosen.since),
        ("day <= ?", chosen.until),
        ("source = ?", chosen.source),
        ("model like ? escape '\\'", _part(chosen.model)),
        ("project like ? escape '\\'", _part(chosen.project)),
    ):
        if value is not None:
            tests.append(test)
            values.append(value)
    return f"where {' and '.join(tests)}" if tests else "", values


def _part(text: str | None) -> str | None:
    if text is None:
        return None
    escaped = re.sub(r"([%_\\])", r"\\\1", text)
    return f"%{escaped}%"


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


def _session_labels(store: Store) -> dict[int, dict[str, Any]]:
    """Every root session's name and title, in the order they began."""
    rows = store.query(
        "select id, source || ':' || key, title from session where id = root_id"
        " order by started_at is null, started_at, id"
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
    is_priced = not of_calls and (sums["unpriced_turns"] < sums["turns"] or not sums["turns"])
    shown["cost_usd"] = sums["cost_nanos"] / 1e9 if is_priced else None
    shown["included_usd"] = None if of_calls else sums["included_nanos"] / 1e9
    shown["unpriced_turns"] = sums["unpriced_turns"]
    shown["partial_turns"] = sums["partial_turns"]
    shown["tool_calls"] = sums["tool_calls"] or 0
    shown["tool_failures"] = sums["tool_failures"] or 0
    shown["wall_seconds"] = None if of_calls else sums["wall_ms"] / 1000
    if of_calls:
        shown["failed_turns"] = sums["failed_turns"] or 0
    return shown
