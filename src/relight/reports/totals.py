"""Totals of the record by day, model, project, tool and the other keys of a report."""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from math import inf
from operator import attrgetter
from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType, defstruct
from msgspec.structs import asdict, fields, replace

from relight.errors import ParameterError, RelightError
from relight.model import TOKENS, WHOLE_TOKENS, TokenCounts
from relight.store import Store
from relight.store.queries import totals as queries
from relight.store.queries.filters import Filter
from relight.store.queries.sums import GroupSums, SessionCounts, UsageSums
from relight.store.queries.totals import CALL_KEYS, SUMS, USAGE_KEYS, SessionName

KEYS = (*USAGE_KEYS, *CALL_KEYS)
MOST_KEYS = 12
TIMES = ("day", "week", "month")


class ReportFigures(Struct, frozen=True, kw_only=True):
    """The figures of a report; None is unknown, or has no meaning for calls of tools."""

    sessions: int
    turns: int | None
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    included_usd: float | None
    unpriced_turns: int | None
    partial_turns: int | None
    tool_calls: int
    tool_failures: int
    wall_seconds: float | None
    failed_turns: int | UnsetType = UNSET


class SessionStats(TokenCounts, frozen=True):
    """The figures of a session that is being recorded, with its sub-agents'; None is unknown.

    `unwritten` is the number of events that are not in the database yet.
    """

    session_id: str
    model: str | None
    provider: str | None
    started_at: str | None = None
    ended_at: str | None = None
    unwritten: int = 0
    sessions: int | None = None
    turns: int | None = None
    total_tokens: int | None = None
    cost_usd: float | None = None
    included_usd: float | None = None
    unpriced_turns: int | None = None
    partial_turns: int | None = None
    tool_calls: int | None = None
    tool_failures: int | None = None
    wall_seconds: float | None = None
    failed_turns: int | UnsetType = UNSET


class ReportTotals(ReportFigures, frozen=True, kw_only=True):
    """The figures of a report with the outcomes of its sessions and means of a session.

    `cost_per_success_usd` is the cost of the sessions whose outcome is known, for each that
    succeeded: a session without an outcome says nothing about it.
    """

    successes: int
    failures: int
    unknown: int
    cost_per_success_usd: float | None
    mean_tokens: float | None
    mean_cost_usd: float | None


# what rows may be sorted by: the figures, short names of some, and the headings of tables
SORTS = {
    **{name: name for name in ReportTotals.__struct_fields__},
    "cost": "cost_usd",
    "tokens": "total_tokens",
}


class ReportRow(ReportTotals, frozen=True):
    """The figures of one group; only the keys of its report are set, with a session's title or a
    job's name.
    """

    day: str | UnsetType | None = UNSET
    week: str | UnsetType | None = UNSET
    month: str | UnsetType | None = UNSET
    source: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    provider: str | UnsetType | None = UNSET
    project: str | UnsetType | None = UNSET
    session: str | UnsetType | None = UNSET
    job: str | UnsetType | None = UNSET
    skill: str | UnsetType | None = UNSET
    branch: str | UnsetType | None = UNSET
    agent_version: str | UnsetType | None = UNSET
    machine: str | UnsetType | None = UNSET
    person: str | UnsetType | None = UNSET
    tool: str | UnsetType | None = UNSET
    failure: str | UnsetType | None = UNSET
    title: str | UnsetType | None = UNSET
    job_name: str | UnsetType | None = UNSET

    def key(self, name: str) -> str | None:
        """The value of one of the report's keys."""
        value: str | None = getattr(self, name)
        return value


class UsageReport(Struct, frozen=True, kw_only=True):
    """Figures by the keys of a report, and their total, in which a session counts once.

    `since` and `until` are days, null without a bound. `other` are the rows that `top` left out,
    as one; null if there are none.
    """

    by: list[str]
    since: str | None
    until: str | None
    rows: list[ReportRow]
    other: ReportTotals | None = None
    total: ReportTotals


def put_keys_first(found: UsageReport) -> UsageReport:
    """Return a report whose rows begin with its keys, in the order of the question."""
    # no class can be written for it: the question decides on the order of the fields
    types = {one.name: one.type for one in fields(ReportRow)}
    names = list(dict.fromkeys((*found.by, *types)))
    keyed_row = defstruct("KeyedRow", [(name, types[name]) for name in names], frozen=True)
    read = attrgetter(*names)
    return replace(found, rows=[keyed_row(*read(row)) for row in found.rows])


def report(
    store: Store,
    by: Sequence[str] = ("day",),
    chosen: Filter | None = None,
    *,
    sort: str | None = None,
    top: int | None = None,
) -> UsageReport:
    """Return the figures by these keys; without keys, only the total.

    Rows are in the order of `sort`: a key, or a figure with the largest first. Without it times
    are in their order, and all else by cost. With `top` only so many rows stay, those with the
    highest cost if nothing else is asked; the rest is `other`, and the total stays the total.
    """
    _check_keys(by, sort, top)
    chosen = chosen or Filter()
    groups = queries.sum_groups(store, by, chosen)
    is_of_calls = any(key in CALL_KEYS for key in by)
    if not by:
        total = _make_totals(groups, _count(groups[0]), is_of_calls=False)
        return UsageReport(by=[], since=chosen.since, until=chosen.until, rows=[], total=total)
    sessions = queries.name_sessions(store, by, chosen) if "session" in by else []
    began = {one.id: place for place, one in enumerate(sessions)}
    groups = sort_groups(groups, by, sort=sort, is_ranked=top is not None, began=began)
    rest = groups[top:] if top else []
    total = _make_totals(groups, queries.count_sessions(store, by, chosen), is_of_calls=is_of_calls)
    other = None
    if rest:
        keys = {tuple(one.keys.values()) for one in rest}
        counts = queries.count_in_groups(store, by, chosen, keys)
        other = _make_totals(rest, counts, is_of_calls=is_of_calls)
    names = {one.id: one for one in sessions}
    jobs = queries.name_jobs(store) if "job" in by else {}
    rows = []
    for one in groups[: len(groups) - len(rest)]:
        figures = _make_totals([one], _count(one), is_of_calls=is_of_calls)
        rows.append(ReportRow(**asdict(figures) | _name_keys(one.keys, names, jobs)))
    return UsageReport(
        by=list(by), since=chosen.since, until=chosen.until, rows=rows, other=other, total=total
    )


def sort_groups(
    groups: Sequence[GroupSums],
    by: Sequence[str],
    *,
    sort: str | None,
    is_ranked: bool,
    began: Mapping[int, int],
) -> list[GroupSums]:
    """Return the groups in the order of a key or figure; `began` is the order of sessions.

    Ranked groups are sorted by a figure even if their keys are times.
    """

    def read_key(one: GroupSums, key: str) -> tuple[bool, Any]:
        value = one.keys[key]
        if key == "session":
            return value not in began, began.get(cast(int, value), 0)
        return value is not None, value or ""

    is_of_calls = any(key in CALL_KEYS for key in by)
    read = _find_reader(sort or "cost_usd", is_of_calls=is_of_calls)

    def read_figure(one: GroupSums) -> float:
        figures = _make_totals([one], _count(one), is_of_calls=is_of_calls)
        if sort is None and is_of_calls:
            return -(figures.tool_calls + (one.sums.failed_turns or 0))
        value = read(figures)
        return -value if isinstance(value, int | float) else inf

    if sort in by:
        return sorted(groups, key=lambda one: read_key(one, cast(str, sort)))
    is_plain = sort is None and not is_ranked
    times = list(takewhile(TIMES.__contains__, by)) if is_plain else []
    if is_plain and any(key in TIMES for key in by[len(times) :]):
        return list(groups)
    return sorted(
        groups, key=lambda one: (*(read_key(one, key) for key in times), read_figure(one))
    )


def _find_reader(name: str, *, is_of_calls: bool) -> Callable[[ReportTotals], Any]:
    """Return the function that reads a figure by its name or by its heading in tables."""
    if name in SORTS:
        return attrgetter(SORTS[name])
    from relight.reports.metrics import list_metrics

    found = (one.read for one in list_metrics(is_of_calls=is_of_calls) if one.title == name)
    return next(found, attrgetter("cost_usd"))


def _name_keys(
    keys: Mapping[str, str | int | None],
    sessions: Mapping[int, SessionName],
    jobs: Mapping[str, str],
) -> dict[str, Any]:
    """Return the keys of a row with a session's name and title, and a job's name.

    The records of some skills belong to no session.
    """
    named: dict[str, Any] = dict(keys)
    if "session" in keys:
        found = sessions.get(cast(int, keys["session"]))
        named |= {"session": found and found.session, "title": found and found.title}
    if "job" in keys:
        named["job_name"] = jobs.get(cast(str, keys["job"]), keys["job"])
    return named


def _check_keys(by: Sequence[str], sort: str | None, top: int | None) -> None:
    for key in by:
        if key not in KEYS:
            raise RelightError(f"cannot report by {key!r}", f"the keys are {', '.join(KEYS)}")
    if len(by) > MOST_KEYS:
        raise RelightError(f"a report has at most {MOST_KEYS} keys, got {len(by)}")
    if "skill" in by and any(key in CALL_KEYS for key in by):
        raise RelightError(
            "a skill is charged with turns, not with single calls",
            "report by skill, and by tool or failure apart",
        )
    if sort is not None and sort not in SORTS and sort not in by:
        from relight.reports.metrics import list_metrics

        headings = [one.title for one in list_metrics(is_of_calls=not {*by}.isdisjoint(CALL_KEYS))]
        if sort not in headings:
            names = ", ".join([*by, *headings])
            more = "or a figure of --json, such as mean_cost_usd"
            raise RelightError(f"cannot sort by {sort!r}", f"sort by {names}, {more}")
    if top is not None and top < 1:
        raise ParameterError(f"top must be at least 1, got {top}", names=["top"])


def _count(one: GroupSums) -> SessionCounts:
    return SessionCounts(one.sums.sessions, one.outcomes.successes, one.outcomes.failures)


def _make_totals(
    groups: Sequence[GroupSums], counts: SessionCounts, *, is_of_calls: bool
) -> ReportTotals:
    """Return the figures of groups together, with this number of sessions."""
    sums = _add_up([one.sums for one in groups], counts.sessions)
    figures = make_figures(sums, is_of_calls=is_of_calls)
    rated = [one.outcomes for one in groups]
    turns = sum(one.turns or 0 for one in rated)
    unpriced = sum(one.unpriced_turns or 0 for one in rated)
    nanos = sum(one.cost_nanos or 0 for one in rated)
    is_known = counts.successes and not is_of_calls and is_priced(turns, unpriced, nanos)
    mean_tokens = mean_cost = None
    if counts.sessions and not is_of_calls:
        tokens, cost = figures.total_tokens, figures.cost_usd
        mean_tokens = None if tokens is None else tokens / counts.sessions
        mean_cost = None if cost is None else cost / counts.sessions
    return ReportTotals(
        **asdict(figures),
        successes=counts.successes,
        failures=counts.failures,
        unknown=counts.sessions - counts.successes - counts.failures,
        cost_per_success_usd=nanos / 1e9 / counts.successes if is_known else None,
        mean_tokens=mean_tokens,
        mean_cost_usd=mean_cost,
    )


def _add_up(rows: Sequence[UsageSums], sessions: int) -> UsageSums:
    """Return the sums of all rows, with this number of sessions; None if no row has a value."""
    totals = {}
    for name in SUMS:
        known = [value for row in rows if (value := getattr(row, name)) is not None]
        totals[name] = sum(known) if known else None
    return UsageSums(sessions=sessions, **totals)


def make_figures(sums: UsageSums, *, is_of_calls: bool = False) -> ReportFigures:
    """Return the figures of a row of sums.

    The cost is unknown if no turn has a price. For calls of tools, all figures of turns are None.
    """
    turns, unpriced = sums.turns, sums.unpriced_turns
    cost_usd = included_usd = wall_seconds = total_tokens = None
    if not is_of_calls:
        turns, unpriced = turns or 0, unpriced or 0
        known = [value for name in WHOLE_TOKENS if (value := getattr(sums, name)) is not None]
        nanos = sums.cost_nanos or 0
        total_tokens = sum(known) if known or not (turns or nanos) else None
        cost_usd = nanos / 1e9 if is_priced(turns, unpriced, nanos) else None
        included_usd = (sums.included_nanos or 0) / 1e9
        # the time of a session counts once: for its first day, and the model that began it
        wall_seconds = sums.wall_ms / 1000 if sums.wall_ms else None
    return ReportFigures(
        sessions=sums.sessions,
        turns=turns,
        **{name: getattr(sums, name) for name in TOKENS},
        total_tokens=total_tokens,
        cost_usd=cost_usd,
        included_usd=included_usd,
        unpriced_turns=unpriced,
        partial_turns=sums.partial_turns if is_of_calls else sums.partial_turns or 0,
        tool_calls=sums.tool_calls or 0,
        tool_failures=sums.tool_failures or 0,
        wall_seconds=wall_seconds,
        failed_turns=(sums.failed_turns or 0) if is_of_calls else UNSET,
    )


def is_priced(turns: int, unpriced_turns: int, cost: float) -> bool:
    """True if a cost is known, or at least a part of it.

    Failed calls are no turns, but may be unpriced. A skill can be charged with part of another's
    priced turn while its own turns have no price.
    """
    return bool(unpriced_turns < turns or not unpriced_turns or cost)
