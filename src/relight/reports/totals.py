"""Totals of the record by day, model, project, tool and the other keys of a report."""

from collections.abc import Iterable, Sequence
from typing import cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from relight.errors import RelightError
from relight.model import TOKENS, WHOLE_TOKENS
from relight.store import Store
from relight.store.queries import totals as queries
from relight.store.queries.filters import Filter
from relight.store.queries.totals import (
    CALL_KEYS,
    SUMS,
    USAGE_KEYS,
    GroupSums,
    SessionName,
    UsageSums,
)

KEYS = (*USAGE_KEYS, *CALL_KEYS)


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
    cost_usd: float | None
    included_usd: float | None
    unpriced_turns: int | None
    partial_turns: int | None
    tool_calls: int
    tool_failures: int
    wall_seconds: float | None
    failed_turns: int | UnsetType = UNSET

    @property
    def tokens(self) -> int:
        """All tokens, each counted once."""
        return sum(getattr(self, name) or 0 for name in WHOLE_TOKENS)


class ReportRow(ReportFigures, frozen=True):
    """The figures of one group; only the keys of its report are set, and a session's title."""

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
    tool: str | UnsetType | None = UNSET
    failure: str | UnsetType | None = UNSET
    title: str | UnsetType | None = UNSET

    def key(self, name: str) -> str | None:
        """The value of one of the report's keys."""
        value: str | None = getattr(self, name)
        return value


class UsageReport(Struct, frozen=True):
    """Figures by the keys of a report, and their total, in which a session counts once."""

    by: list[str]
    rows: list[ReportRow]
    total: ReportFigures


class MergedRow(Struct, frozen=True, kw_only=True):
    """The figures of one model, project or source that add up over other keys."""

    name: str | None
    turns: int
    tokens: int
    cost_usd: float | None
    included_usd: float
    unpriced_turns: int
    tool_calls: int
    tool_failures: int

    @property
    def worth_usd(self) -> float:
        """The cost at list price, with what a plan paid for."""
        return (self.cost_usd or 0.0) + self.included_usd


def report(store: Store, by: Sequence[str] = ("day",), chosen: Filter | None = None) -> UsageReport:
    """Return the figures by these keys, ordered by them; without keys, only the total."""
    _check_keys(by)
    chosen = chosen or Filter()
    groups = queries.sum_groups(store, by, chosen)
    if not by:
        return UsageReport([], [], make_figures(groups[0].sums))
    is_of_calls = any(key in CALL_KEYS for key in by)
    total = _add_up([one.sums for one in groups], queries.count_sessions(store, by, chosen))
    if "session" in by:
        groups = _name_sessions(groups, queries.name_sessions(store, by, chosen), by)
    return UsageReport(
        by=list(by),
        rows=[
            ReportRow(**asdict(make_figures(one.sums, is_of_calls=is_of_calls)) | one.keys)
            for one in groups
        ],
        total=make_figures(total, is_of_calls=is_of_calls),
    )


def _check_keys(by: Sequence[str]) -> None:
    for key in by:
        if key not in KEYS:
            raise RelightError(f"cannot report by {key!r}", f"the keys are {', '.join(KEYS)}")
    if "skill" in by and any(key in CALL_KEYS for key in by):
        raise RelightError(
            "a skill is charged with turns, not with single calls",
            "report by skill, and by tool or failure apart",
        )


def _name_sessions(
    groups: Sequence[GroupSums], sessions: Sequence[SessionName], by: Sequence[str]
) -> list[GroupSums]:
    """Return the groups with names and titles; sessions as first key come in the order they began.

    The records of some skills belong to no session.
    """
    places = {one.id: place for place, one in enumerate(sessions)}
    found = [(places.get(cast(int, one.keys["session"])), one) for one in groups]
    if by[0] == "session":
        found.sort(key=lambda pair: len(places) if pair[0] is None else pair[0])
    return [
        GroupSums(
            {
                **one.keys,
                "session": None if place is None else sessions[place].session,
                "title": None if place is None else sessions[place].title,
            },
            one.sums,
        )
        for place, one in found
    ]


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
    cost_usd = included_usd = wall_seconds = None
    if not is_of_calls:
        turns, unpriced = turns or 0, unpriced or 0
        nanos = sums.cost_nanos or 0
        cost_usd = nanos / 1e9 if is_priced(turns, unpriced, nanos) else None
        included_usd = (sums.included_nanos or 0) / 1e9
        wall_seconds = (sums.wall_ms or 0) / 1000
    return ReportFigures(
        sessions=sums.sessions,
        turns=turns,
        **{name: getattr(sums, name) for name in TOKENS},
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


def merge_rows(rows: Iterable[ReportRow], key: str) -> list[MergedRow]:
    """Return the rows of a report by several keys as rows by one of them.

    Figures that do not add up, such as the number of sessions, are left out.
    """
    groups: dict[str | None, list[ReportRow]] = {}
    for row in rows:
        groups.setdefault(row.key(key), []).append(row)
    return [_merge(name, own) for name, own in groups.items()]


def _merge(name: str | None, rows: Sequence[ReportRow]) -> MergedRow:
    turns = sum(row.turns or 0 for row in rows)
    unpriced = sum(row.unpriced_turns or 0 for row in rows)
    cost = sum((row.cost_usd for row in rows if row.cost_usd is not None), 0.0)
    return MergedRow(
        name=name,
        turns=turns,
        tokens=sum(row.tokens for row in rows),
        cost_usd=cost if is_priced(turns, unpriced, cost) else None,
        included_usd=sum((row.included_usd or 0.0 for row in rows), 0.0),
        unpriced_turns=unpriced,
        tool_calls=sum(row.tool_calls for row in rows),
        tool_failures=sum(row.tool_failures for row in rows),
    )
