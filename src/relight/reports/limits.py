"""The use of the windows of plans: the current ones, and the earlier ones."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from relight.config import LimitSettings
from relight.model import WindowKind
from relight.reports import windows as pure
from relight.reports.plan_worth import PlanValue, read_plans
from relight.reports.windows import Fullness, PlanWindow, WindowSize
from relight.sources import Source, list_sources
from relight.store import Store
from relight.store.limits import read_limits
from relight.store.queries import windows as queries
from relight.store.queries.windows import HOUR_MS, LimitMessage, WindowUse
from relight.times import format_moment, write_time

Basis = Literal["reported", "set", "estimated"]
WEEKLY = re.compile(r"\b(?:week(?:ly)?|opus|sonnet)\b", re.IGNORECASE)
MINUTE_MS = 60_000
NO_LIMIT = "no limit is known"


class LimitWindow(Struct, frozen=True, kw_only=True):
    """A window of a plan: what was used in it, how full it is, and where that leads.

    `value_usd` is the worth at list price. `rests_on` says what `used_percent` rests on. A window
    that is over has no rate and no projection. `limit_at` is when the window would be full.
    """

    source: str
    account: str | None
    kind: WindowKind
    started_at: str | None
    ends_at: str | None
    turns: int
    tokens: int
    value_usd: float | None
    unpriced_turns: int
    used_percent: float | None
    basis: Basis
    rests_on: str
    reported_at: str | None
    burn_usd_per_hour: float | None
    projected_usd: float | None
    projected_percent: float | None
    limit_at: str | None
    limit_hit_at: str | None
    is_current: bool


class LimitsReport(Struct, frozen=True):
    """The windows of plans, the current ones first, then from the newest on, and their worth."""

    windows: list[LimitWindow]
    plans: list[PlanValue]


class AccountRecord(Struct, frozen=True):
    """The facts about one account: turns, reports and refusals, in their order."""

    account: str | None
    uses: list[WindowUse]
    # the moment of a turn that surely begins a block
    fresh: int
    reports: dict[WindowKind, list[Fullness]]
    hits: dict[WindowKind, list[int]]


def read_limits_report(
    store: Store,
    *,
    now: int | None = None,
    history_since: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> LimitsReport:
    """Return the windows that are open now, and those that ended after `history_since`."""
    now = int(time.time() * 1000) if now is None else now
    environment = os.environ if environment is None else environment
    current: list[LimitWindow] = []
    earlier: list[tuple[int, LimitWindow]] = []
    for source in find_limited(store):
        for known in _read_accounts(store, source, now, history_since, environment=environment):
            for kind in pure.LENGTHS:
                every = _make_windows(store, known, kind)
                measured = [one for one in every if pure.find_measure(one) is not None]
                is_open = pure.find_current(every, now)
                if is_open is not None:
                    current.append(_show(store, source, known, is_open, measured, now=now))
                for window in every if history_since is not None else ():
                    if window is not is_open and window.ends_at > (history_since or 0):
                        shown = _show(store, source, known, window, measured, now=None)
                        earlier.append((window.started_at, shown))
    earlier.sort(key=lambda one: -one[0])
    windows = [*current, *(shown for _, shown in earlier)]
    return LimitsReport(windows, read_plans(store, now=now))


def find_limited(store: Store) -> list[Source]:
    """Return the sources whose plans have windows, and those for which the user set a limit."""
    return [
        source
        for source in list_sources().values()
        if source.has_windows or source.name in store.config.limits
    ]


def _make_windows(store: Store, known: AccountRecord, kind: WindowKind) -> list[PlanWindow]:
    uses = [one for one in known.uses if kind == "week" or one.at >= known.fresh]
    return pure.make_windows(
        kind, uses, known.reports[kind], hits=known.hits[kind], timezone=store.timezone
    )


def _read_accounts(
    store: Store,
    source: Source,
    now: int,
    history_since: int | None,
    *,
    environment: Mapping[str, str],
) -> list[AccountRecord]:
    """Return the record of each account of a source; one account if no file separates them."""
    since = min(now, now if history_since is None else history_since) - pure.LENGTHS["week"]
    name = source.name
    homes = _find_homes(source, environment)
    by_session = bool(homes)
    hours, start, fresh = _read_hours(store, name, since, by_session=by_session)
    messages = queries.read_limit_messages(store, name, start)
    reports = read_limits(store, name, start)
    if not (hours or messages or reports):
        return []
    accounts = _find_accounts(store, source, start, homes) if homes else {}
    found = []
    names: list[str | None] = [*sorted({*accounts.values()})]
    for account in names or [None]:

        def is_own(session_id: int | None, account: str | None = account) -> bool:
            return accounts.get(session_id) == account

        full: dict[WindowKind, list[Fullness]] = {kind: [] for kind in pure.LENGTHS}
        hits: dict[WindowKind, list[int]] = {kind: [] for kind in pure.LENGTHS}
        for one in reports:
            if is_own(one.session_id):
                full[one.kind].append(Fullness(one.at, one.ends_at, one.used_percent))
        for message in messages:
            if is_own(message.session_id):
                _take_message(message, full, hits)
        edges = _find_edges(store, full, hits, hours=hours)
        single = queries.read_single_turns(store, name, sorted(edges), by_session=by_session)
        own = [
            use
            for hour, inside in hours.items()
            for use in single.get(hour, inside)
            if is_own(use.session_id)
        ]
        found.append(AccountRecord(account, own, fresh, full, hits))
    return found


def _read_hours(
    store: Store, source: str, since: int, *, by_session: bool
) -> tuple[dict[int, list[WindowUse]], int, int]:
    """Return the turns from a week before `since` by hour, from when, and the first of a block.

    After a pause a block begins. Without one, blocks follow from the first of all. Turns in a
    window that was reported are in no block: with such windows everything is read.
    """
    start = since - pure.LENGTHS["week"]
    hours = queries.read_hours(store, source, start, by_session=by_session)
    uses = [use for inside in hours.values() for use in inside]
    first = queries.find_first_turn(store, source)
    if not uses or first is None or start <= first:
        return hours, start, 0
    place = pure.find_fresh_start(uses, start)
    if place is not None and (place == 0 or uses[place].at <= since):
        return hours, start, uses[place].at
    if by_session or read_limits(store, source, 0) or queries.read_limit_messages(store, source, 0):
        return queries.read_hours(store, source, first, by_session=by_session), first, 0
    return hours, start, queries.find_block_start(store, source, start)


def _find_edges(
    store: Store,
    full: Mapping[WindowKind, list[Fullness]],
    hits: Mapping[WindowKind, list[int]],
    *,
    hours: Mapping[int, object],
) -> set[int]:
    """Return the hours with turns in which a window begins or ends, or its share was known."""
    reported = [one for kind in full for one in pure.merge_reports(kind, full[kind])]
    moments = [at for own in hits.values() for at in own]
    if hours:
        at, last = min(hours) * HOUR_MS, (max(hours) + 1) * HOUR_MS
        while at <= last:
            _, at = pure.find_week(at, store.timezone)
            moments.append(at)
    return pure.find_edges(reported, moments) & hours.keys()


def _take_message(
    message: LimitMessage,
    full: Mapping[WindowKind, list[Fullness]],
    hits: Mapping[WindowKind, list[int]],
) -> None:
    """Add a refusal: with its reset time as a report on a full window, else as a moment."""
    from relight.judging.failures import find_retry_after

    wait = find_retry_after(message.text, now=message.at / 1000)
    ends_at = None if wait is None else message.at + round(wait * 1000)
    is_weekly = bool(WEEKLY.search(message.text))
    if ends_at is not None and ends_at - message.at > pure.LENGTHS["5h"]:
        is_weekly = True
    kind: WindowKind = "week" if is_weekly else "5h"
    if ends_at is None:
        hits[kind].append(message.at)
    else:
        ends_at = (ends_at + MINUTE_MS // 2) // MINUTE_MS * MINUTE_MS
        full[kind].append(Fullness(message.at, ends_at, 100.0, is_message=True))


def _find_homes(source: Source, environment: Mapping[str, str]) -> list[str]:
    """Return the homes of a source's accounts, if its variable names several.

    Nothing else on disk separates accounts: each login has its own home, which names it.
    """
    if "," not in environment.get(source.variable or "", "") or not source.has_many_homes:
        return []
    return [str(home) for home in source.find_homes(environment)]


def _find_accounts(
    store: Store, source: Source, since: int, homes: Sequence[str]
) -> dict[int | None, str]:
    """Return the account of each session: the home that its file is in."""
    found: dict[int | None, str] = {}
    for session_id, path in queries.read_session_paths(store, source.name, since):
        own = [home for home in homes if Path(path).is_relative_to(home)]
        if own:
            found[session_id] = max(own, key=len)
    return found


def _show(
    store: Store,
    source: Source,
    known: AccountRecord,
    window: PlanWindow,
    measured: Sequence[PlanWindow],
    *,
    now: int | None,
) -> LimitWindow:
    """Return a window for people and programs; without `now` one that is over.

    `measured` are the windows of its kind of which the share was known at a moment.
    """
    percent, basis, rests_on = _measure(store, source, window, measured)
    ahead = None if now is None else pure.project(window, percent, now)
    if ahead and basis == "reported" and percent is not None and percent >= 100:
        # the agent refuses more until the window ends
        ahead = replace(ahead, usd=window.value_usd or 0.0, percent=percent)
    return LimitWindow(
        source=source.name,
        account=known.account,
        kind=window.kind,
        started_at=write_time(window.started_at),
        ends_at=write_time(window.ends_at),
        turns=window.turns,
        tokens=window.tokens,
        value_usd=window.value_usd,
        unpriced_turns=window.unpriced_turns,
        used_percent=percent,
        basis=basis,
        rests_on=rests_on,
        reported_at=write_time(window.report.at) if window.report else None,
        burn_usd_per_hour=ahead.usd_per_hour if ahead else None,
        projected_usd=ahead.usd if ahead else None,
        projected_percent=ahead.percent if ahead else None,
        limit_at=write_time(ahead.full_at) if ahead else None,
        limit_hit_at=write_time(window.hit_at),
        is_current=now is not None,
    )


def _measure(
    store: Store, source: Source, window: PlanWindow, measured: Sequence[PlanWindow]
) -> tuple[float | None, Basis, str]:
    """Return how full a window is, on what kind of evidence, and that evidence in words."""
    zone = store.timezone
    if window.hit_at is not None and (window.report is None or window.report.is_message):
        return 100.0, "reported", f"refused at {format_moment(window.hit_at, zone)}"
    if window.report is not None:
        when = format_moment(window.report.at, zone)
        return window.report.used_percent, "reported", f"reported at {when}"
    settings = store.config.limits.get(source.name)
    if settings and (allowed := find_set_size(settings, window.kind)):
        return allowed.measure(window), "set", "a limit set in config.toml"
    estimate = pure.estimate_size(measured, before=window.started_at)
    if estimate is None:
        return None, "estimated", NO_LIMIT
    when = format_moment(estimate.window.started_at, zone)
    percent = WindowSize(usd=estimate.usd).measure(window)
    return percent, "estimated", f"what the window of {when} allowed, at list price"


def find_set_size(settings: LimitSettings, kind: WindowKind) -> WindowSize | None:
    """Return what the user set for a window: dollars before tokens."""
    usd, tokens = (
        (settings.five_hour_usd, settings.five_hour_tokens)
        if kind == "5h"
        else (settings.week_usd, settings.week_tokens)
    )
    if usd is not None:
        return WindowSize(usd=usd)
    return None if tokens is None else WindowSize(tokens=tokens)
