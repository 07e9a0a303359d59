"""The skills that a session used, when, and the share of the session's spending of each.

If the log says which model calls were spent on which skill, that holds. Otherwise a skill has the
calls from its entry to the entry of the next one; skills that entered at one moment share alike.
Spending before the first entry, or at an unknown time, is spread in proportion, so that the shares
add up to exactly what the session spent.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

Amounts = tuple[int | None, ...]
"""The figures that were spent, in an order of the caller's; None is unknown."""

Use = tuple[str, str | None]
"""A skill's name, and how it entered."""

Groups = Mapping[tuple[int, ...], Sequence[int]]
"""Indexes into `spent` by the uses that they are charged to; () is all uses."""


class Entered(Struct, frozen=True, kw_only=True):
    """The entry of a skill into a session or one of its sub-agents."""

    session: int
    name: str
    entry: str | None
    at: int | None
    version: str | None = None


class SpentItem(Struct, frozen=True, kw_only=True):
    """Something to charge: a model call, or a tool call, which has no `turns`.

    `skill` is the one that the log itself charges. A lump is known only from a running total, and
    the time when it was spent is unknown.
    """

    session: int
    at: int | None
    amounts: Amounts
    turns: int = 0
    skill: str | None = None
    is_lump: bool = False


class Charge(Struct, frozen=True, kw_only=True):
    """The charge of one skill; `weight` is its part of the session's model calls.

    `own` are the indexes into `spent` charged to this skill alone or to a small group with it.
    """

    name: str
    entry: str | None
    version: str | None
    invoked_at: int | None
    completed_at: int | None
    weight: Fraction
    amounts: Amounts
    milliseconds: int | None
    own: list[int]


def charge_skills(
    entries: Sequence[Entered],
    spent: Sequence[SpentItem],
    *,
    parents: Mapping[int, int | None],
    root: int,
    started_at: int | None = None,
    ended_at: int | None = None,
) -> list[Charge]:
    """Return the charges of all that a session and its sub-agents spent, by skill.

    `parents` gives each session's parent up to the `root`, whose duration is shared: a sub-agent
    works under its parent's skill until it loads another.
    """
    uses = _list_uses(entries, spent)
    if not uses:
        return []
    timelines = _draw_timelines(entries, uses)
    groups = _find_groups(uses, spent, timelines, parents)
    by_log = any(one.skill is not None for one in spent)
    # the last answer comes from the skill at work when the session ends
    last: tuple[int, ...] = ()
    if ended_at is not None and not by_log:
        last = _find_owners(timelines, {}, root, ended_at)
    weights = _weigh(len(uses), groups, spent, last)
    shares = _share_amounts(groups, spent, weights)
    times = _share_time(uses, timelines.get(root), weights, by_log, started_at, ended_at)
    return [
        Charge(
            name=name,
            entry=entry,
            version=_find_version(entries, (name, entry)),
            invoked_at=_first_moment(entries, spent, (name, entry), started_at),
            completed_at=ended_at if number in last else _last_moment(number, groups, spent),
            weight=weights[number],
            amounts=tuple(figure[number] for figure in shares),
            milliseconds=times[number],
            own=sorted(p for owners, places in groups.items() if number in owners for p in places),
        )
        for number, (name, entry) in enumerate(uses)
    ]


def apportion(total: int, ideals: Sequence[Fraction]) -> list[int]:
    """Return whole numbers that add up to `total`, each the ideal one rounded down or up.

    The rest after rounding down goes to the largest remainders, the first of equals first.

    >>> apportion(10, [Fraction(10, 3)] * 3)
    [4, 3, 3]
    """
    whole = [ideal.__floor__() for ideal in ideals]
    order = sorted(range(len(ideals)), key=lambda n: (whole[n] - ideals[n], n))
    for number in order[: total - sum(whole)]:
        whole[number] += 1
    return whole


class _Timeline(Struct, frozen=True):
    """The moments at which skills entered one session, and the skills that entered at each."""

    times: list[int]
    owners: list[tuple[int, ...]]


def _list_uses(entries: Sequence[Entered], spent: Sequence[SpentItem]) -> list[Use]:
    """Every use in order of entry; a skill that only the log names has an unknown entry."""
    found = sorted(
        (one.at is not None, one.at or 0, one.name, one.entry or "", one.entry) for one in entries
    )
    uses = list(dict.fromkeys((name, entry) for _, _, name, _, entry in found))
    names = {name for name, _ in uses}
    unseen = dict.fromkeys(
        one.skill for one in spent if one.skill is not None and one.skill not in names
    )
    return [*uses, *((name, None) for name in sorted(unseen))]


def _draw_timelines(entries: Sequence[Entered], uses: Sequence[Use]) -> dict[int, _Timeline]:
    moments: dict[int, dict[int, set[int]]] = {}
    for one in entries:
        # a skill with an unknown entry was there from the start
        at = one.at if one.at is not None else -1
        number = uses.index((one.name, one.entry))
        moments.setdefault(one.session, {}).setdefault(at, set()).add(number)
    return {
        session: _Timeline(sorted(found), [tuple(sorted(found[at])) for at in sorted(found)])
        for session, found in moments.items()
    }


def _find_groups(
    uses: Sequence[Use],
    spent: Sequence[SpentItem],
    timelines: Mapping[int, _Timeline],
    parents: Mapping[int, int | None],
) -> Groups:
    named = {one.skill for one in spent if one.skill is not None}
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, one in enumerate(spent):
        owners: tuple[int, ...] = ()
        if one.skill is not None:
            owners = tuple(n for n, use in enumerate(uses) if use[0] == one.skill)
        elif one.at is not None and not one.is_lump:
            found = _find_owners(timelines, parents, one.session, one.at)
            # a skill that the log names has only the turns it is named with
            owners = tuple(n for n in found if uses[n][0] not in named)
        groups.setdefault(owners, []).append(place)
    return groups


def _find_owners(
    timelines: Mapping[int, _Timeline],
    parents: Mapping[int, int | None],
    session: int | None,
    at: int,
) -> tuple[int, ...]:
    """The skills at work at a moment; the call that loads a skill is not yet part of it."""
    while session is not None:
        if timeline := timelines.get(session):
            place = bisect_left(timeline.times, at) - 1
            if place >= 0:
                return timeline.owners[place]
        session = parents.get(session)
    return ()


def _weigh(
    number: int,
    groups: Groups,
    spent: Sequence[SpentItem],
    last: tuple[int, ...],
) -> list[Fraction]:
    """Each use's part of the model calls; if only lumps are known, of the moments of work.

    An agent that logs no single calls still records when it called its tools, and when it ended.
    """
    calls = _collect(number, {o: sum(spent[p].turns for p in ps) for o, ps in groups.items()})
    if not sum(calls):
        moments = {
            owners: len({(spent[p].session, spent[p].at) for p in places})
            for owners, places in groups.items()
        }
        moments[last] = moments.get(last, 0) + 1
        calls = _collect(number, moments)
    if not sum(calls):
        calls = [Fraction(1)] * number
    return [part / sum(calls) for part in calls]


def _collect(number: int, parts: Mapping[tuple[int, ...], int]) -> list[Fraction]:
    found = [Fraction(0)] * number
    for owners, value in parts.items():
        for owner in owners:
            found[owner] += Fraction(value, len(owners))
    return found


def _add(amounts: Sequence[Amounts]) -> Amounts:
    """Sums of the known figures; None where no figure is known."""
    return tuple(
        sum(known) if (known := [value for value in column if value is not None]) else None
        for column in zip(*amounts, strict=True)
    )


def _share_amounts(
    groups: Groups, spent: Sequence[SpentItem], weights: Sequence[Fraction]
) -> list[list[int | None]]:
    """The shares of each figure, by use."""
    parts = {
        owners: _add([spent[place].amounts for place in places])
        for owners, places in groups.items()
    }
    total = _add(list(parts.values()))
    return [
        _share_figure(total[figure], {o: part[figure] for o, part in parts.items()}, weights)
        for figure in range(len(total))
    ]


def _share_figure(
    total: int | None,
    parts: Mapping[tuple[int, ...], int | None],
    weights: Sequence[Fraction],
) -> list[int | None]:
    if not total:
        return [total] * len(weights)
    ideals = _collect(len(weights), {o: part or 0 for o, part in parts.items() if o})
    rest = parts.get(()) or 0
    return list(apportion(total, [ideal + rest * weights[n] for n, ideal in enumerate(ideals)]))


def _share_time(
    uses: Sequence[Use],
    timeline: _Timeline | None,
    weights: Sequence[Fraction],
    by_log: bool,
    started_at: int | None,
    ended_at: int | None,
) -> list[int | None]:
    """The session's time from one skill's entry to the next, if all entered the root."""
    if started_at is None or ended_at is None:
        return [None] * len(uses)
    total = max(ended_at - started_at, 0)
    parts: dict[tuple[int, ...], int | None] = {(): total}
    if timeline and not by_log and len({n for some in timeline.owners for n in some}) == len(uses):
        times = [min(max(at, started_at), ended_at) for at in timeline.times]
        parts = {(): times[0] - started_at}
        for owners, at, until in zip(timeline.owners, times, [*times[1:], ended_at], strict=True):
            parts[owners] = (parts.get(owners) or 0) + until - at
    return _share_figure(total, parts, weights)


def _find_version(entries: Sequence[Entered], use: Use) -> str | None:
    known = [
        (one.at or 0, one.version)
        for one in entries
        if (one.name, one.entry) == use and one.version is not None
    ]
    return max(known)[1] if known else None


def _first_moment(
    entries: Sequence[Entered], spent: Sequence[SpentItem], use: Use, started_at: int | None
) -> int | None:
    own = [one.at for one in entries if (one.name, one.entry) == use]
    own = own or [one.at for one in spent if one.skill == use[0]]
    return min((at for at in own if at is not None), default=started_at)


def _last_moment(number: int, groups: Groups, spent: Sequence[SpentItem]) -> int | None:
    own = [spent[place].at for owners, some in groups.items() if number in owners for place in some]
    return max((at for at in own if at is not None), default=None)
