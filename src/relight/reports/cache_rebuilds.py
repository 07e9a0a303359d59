"""Rebuilds of the prompt cache: which turns paid for their context again, why, and what it cost.

All amounts are at list price, also those that a plan paid for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from relight.prices import MTOK, find_rates
from relight.reports.trace import Step, StepRebuild, read_numbered
from relight.store import Store
from relight.store.derive.pricing import Pricing
from relight.store.queries import cache_rebuilds as queries
from relight.store.queries.cache_rebuilds import LENGTHS, DaySpend, Rebuild, RebuildSums
from relight.store.queries.filters import Filter, find_day_start
from relight.store.sql import read_usd
from relight.text import dollars, plural
from relight.times import write_time

CAUSES = ("pause", "model_switch", "compaction", "prefix_changed")
MOST_REBUILDS = 1000


class CacheCause(Struct, frozen=True):
    """The rebuilds of one cause; `usd` is what writing cost, null if no rebuild has a price."""

    cause: str
    turns: int
    tokens: int
    usd: float | None
    avoidable_usd: float | None
    unpriced_turns: int


class PauseLength(Struct, frozen=True):
    """The rebuilds after pauses longer than one time and at most as long as another."""

    from_seconds: int
    to_seconds: int | None
    turns: int
    usd: float | None
    unpriced_turns: int


class RebuiltDay(Struct, frozen=True):
    """The cost of a day, of its rebuilds, and of those after pauses."""

    day: str
    spent_usd: float
    turns: int
    usd: float
    pauses_usd: float
    unpriced_turns: int


class OneHourCache(Struct, frozen=True):
    """The saving if everything had been cached for one hour instead of five minutes.

    `saved_usd` is what the pauses of at most an hour cost more than a read, less what all other
    writes would have cost more: below zero, a 1-hour cache costs more. Null if a price is missing.
    """

    turns: int
    shortest_seconds: float | None
    longest_seconds: float | None
    saved_usd: float | None


class CacheRebuild(StepRebuild, frozen=True, kw_only=True):
    """One turn that rebuilt the cache, in its session."""

    session_id: str
    title: str | None
    step: int | None
    at: str | None
    avoidable_usd: float | None


class CacheReport(Struct, frozen=True, kw_only=True):
    """The rebuilds of some days: by cause, day and length of pause, and the costliest ones.

    `included_usd` is the part of `spent_usd` that a plan paid for. `turns` counts all rebuilds,
    of which `rebuilds` may hold only some.
    """

    since: str | None
    until: str | None
    spent_usd: float
    included_usd: float
    unpriced_turns: int
    turns: int
    rebuilt_usd: float | None
    avoidable_usd: float | None
    causes: list[CacheCause]
    pauses: list[PauseLength]
    one_hour: OneHourCache
    days: list[RebuiltDay]
    rebuilds: list[CacheRebuild]


def read_cache_report(
    store: Store, chosen: Filter, *, limit: int = MOST_REBUILDS, with_steps: bool = True
) -> CacheReport:
    """Return the rebuilds of a part of the record; numbers of steps need the sessions' texts."""
    sums = queries.sum_rebuilds(store, chosen)
    spend = queries.sum_spend(store, chosen)
    rebuilds = queries.list_rebuilds(store, chosen, limit=limit) if limit else []
    steps = _find_steps(store, rebuilds) if with_steps else {}
    causes = [_sum_cause(cause, [one for one in sums if one.cause == cause]) for cause in CAUSES]
    return CacheReport(
        since=chosen.since,
        until=chosen.until,
        spent_usd=sum(one.spent_nanos for one in spend) / 1e9,
        included_usd=sum(one.included_nanos for one in spend) / 1e9,
        unpriced_turns=sum(one.unpriced_turns for one in spend),
        turns=sum(one.turns for one in sums),
        rebuilt_usd=_add_usd(one.write_nanos for one in sums),
        avoidable_usd=_add_usd(one.avoidable_nanos for one in sums),
        causes=sorted(causes, key=lambda one: -(one.usd or 0)),
        pauses=_sum_lengths([one for one in sums if one.cause == "pause"]),
        one_hour=_compare_one_hour(store, spend, [one for one in sums if one.is_short]),
        days=_sum_days(spend, sums),
        rebuilds=[_show(one, steps.get(one.turn_id)) for one in rebuilds],
    )


def describe_rebuilds(found: CacheReport) -> list[str]:
    """Return the report in sentences: what rebuilds and pauses cost, and a 1-hour cache."""
    if not found.turns:
        return []
    spent = dollars(found.spent_usd, unpriced=found.unpriced_turns)
    price = " at list price" if found.included_usd else ""
    unpriced = sum(one.unpriced_turns for one in found.causes)
    rebuilt = dollars(found.rebuilt_usd, unpriced=unpriced)
    rebuilds = f"{plural(found.turns, 'turn')} rebuilt the cache"
    if found.rebuilt_usd is None:
        return [f"{rebuilds}; no price of a model is known"]
    lines = [f"{rebuilds} for {rebuilt} of {spent}{price}"]
    pauses = next(one for one in found.causes if one.cause == "pause")
    if pauses.turns and pauses.usd is not None:
        lines.append(
            f"pauses cost {dollars(pauses.usd, unpriced=pauses.unpriced_turns)} of {spent}"
        )
    hour = found.one_hour
    if hour.turns and hour.saved_usd is not None and hour.shortest_seconds is not None:
        first = int(hour.shortest_seconds // 60)
        last = max(-int(-(hour.longest_seconds or 0) // 60), first + 1)
        saved = hour.saved_usd
        would = f"saved {dollars(saved)}" if saved >= 0 else f"cost {dollars(-saved)} more"
        lines.append(
            f"{hour.turns} of {pauses.turns} were pauses of {first} to {last} minutes:"
            f" a 1-hour cache would have {would}"
        )
    return lines


def describe_session(steps: Iterable[Step]) -> str | None:
    """Return a sentence about a session's rebuilds; None if it has none."""
    found = [one.cache_rebuild for one in steps if one.cache_rebuild is not None]
    if not found:
        return None
    known = [one.usd for one in found if one.usd is not None]
    cost = dollars(sum(known) if known else None, unpriced=len(found) - len(known))
    return f"cache rebuilt {plural(len(found), 'time')}, {cost}"


def _add_usd(nanos: Iterable[int | None]) -> float | None:
    """The sum of what is known: nothing adds up to zero, and unknown amounts to None."""
    every = list(nanos)
    known = [one for one in every if one is not None]
    return sum(known) / 1e9 if known or not every else None


def _sum_cause(cause: str, sums: Sequence[RebuildSums]) -> CacheCause:
    return CacheCause(
        cause=cause,
        turns=sum(one.turns for one in sums),
        tokens=sum(one.tokens for one in sums),
        usd=_add_usd(one.write_nanos for one in sums),
        avoidable_usd=_add_usd(one.avoidable_nanos for one in sums),
        unpriced_turns=sum(one.unpriced_turns for one in sums),
    )


def _sum_lengths(pauses: Sequence[RebuildSums]) -> list[PauseLength]:
    found = []
    for first, last in zip(LENGTHS, (*LENGTHS[1:], None), strict=True):
        some = [one for one in pauses if one.minutes == first]
        if some:
            found.append(
                PauseLength(
                    from_seconds=first * 60,
                    to_seconds=None if last is None else last * 60,
                    turns=sum(one.turns for one in some),
                    usd=_add_usd(one.write_nanos for one in some),
                    unpriced_turns=sum(one.unpriced_turns for one in some),
                )
            )
    return found


def _sum_days(spend: Sequence[DaySpend], sums: Sequence[RebuildSums]) -> list[RebuiltDay]:
    days: dict[str, tuple[list[DaySpend], list[RebuildSums]]] = {}
    for one in spend:
        days.setdefault(one.day, ([], []))[0].append(one)
    for rebuilt in sums:
        days.setdefault(rebuilt.day, ([], []))[1].append(rebuilt)
    return [
        RebuiltDay(
            day=day,
            spent_usd=sum(one.spent_nanos for one in spent) / 1e9,
            turns=sum(one.turns for one in some),
            usd=_add_usd(one.write_nanos for one in some) or 0.0,
            pauses_usd=_add_usd(one.write_nanos for one in some if one.cause == "pause") or 0.0,
            unpriced_turns=sum(one.unpriced_turns for one in some),
        )
        for day, (spent, some) in sorted(days.items())
    ]


def _compare_one_hour(
    store: Store, spend: Sequence[DaySpend], short: Sequence[RebuildSums]
) -> OneHourCache:
    """Compare with a cache of one hour: what it saves, less its more expensive writes."""
    if not short:
        return OneHourCache(0, None, None, None)
    saved = sum(one.avoidable_nanos or 0 for one in short)
    is_known = not any(one.unpriced_turns for one in short)
    pricing = Pricing(store)
    # what a cache of one hour would have kept is not written a second time
    again = Counter[tuple[str, str | None]]()
    for one in short:
        again[one.day, one.model] += one.tokens
    for used in spend:
        if used.short_tokens <= 0:
            continue
        prices = pricing.find_list(used.full_model, used.provider)
        if not prices:
            is_known = False
            break
        rates = find_rates(prices, at=find_day_start(used.day, store.timezone), prompt=0)
        extra = rates.cache_write_1h - rates.cache_write
        saved -= round((used.short_tokens - again[used.day, used.model]) * extra / MTOK)
    return OneHourCache(
        turns=sum(one.turns for one in short),
        shortest_seconds=min(one.shortest_ms for one in short) / 1000,
        longest_seconds=max(one.longest_ms for one in short) / 1000,
        saved_usd=saved / 1e9 if is_known else None,
    )


def _find_steps(store: Store, rebuilds: Sequence[Rebuild]) -> Mapping[int, int]:
    """Return the step of each turn that rebuilt the cache; its session is read once."""
    found: dict[int, int] = {}
    wanted: dict[int, list[int]] = {}
    for one in rebuilds:
        wanted.setdefault(one.session_id, []).append(one.turn_id)
    for session_id, turns in wanted.items():
        numbered = read_numbered(store, session_id)
        places = {id(item): number for number, item in enumerate(numbered.items, start=1)}
        for turn in turns:
            if (item := numbered.owners.get(turn)) is not None and id(item) in places:
                found[turn] = places[id(item)]
    return found


def _show(one: Rebuild, step: int | None) -> CacheRebuild:
    return CacheRebuild(
        session_id=one.session,
        title=one.title,
        step=step,
        at=write_time(one.at),
        cause=one.cause,
        pause_seconds=one.pause_ms / 1000,
        tokens=one.tokens,
        usd=read_usd(one.write_nanos),
        avoidable_usd=read_usd(one.avoidable_nanos),
    )
