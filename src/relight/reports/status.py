"""The figures that a status line adds to its agent's: today, windows, recent sessions."""

import time
from datetime import UTC, datetime

from msgspec import Struct

from relight.model import WindowKind
from relight.reports.limits import Basis, read_limits_report
from relight.store import Store
from relight.store.queries import take_fields
from relight.store.queries.costs import sum_costs
from relight.store.queries.filters import Filter, find_day_start
from relight.store.queries.windows import read_recent_sessions
from relight.times import read_time

DAY_MS = 86_400_000
SESSIONS = 30
# how long an agent's provider keeps a prompt, by the price that was paid for it
CACHE_MS = {"hour": 3_600_000, "minutes": 300_000}


class StatusMoney(Struct, frozen=True):
    """An amount, what plans paid for beside it, and the model calls without a price."""

    cost_usd: float | None
    included_usd: float
    unpriced_turns: int


class StatusSession(Struct, frozen=True):
    """A recent session: its cost, the tokens of its context, and when its cache is dropped."""

    cost: StatusMoney
    context_tokens: int | None
    cache_until: int | None


class StatusWindow(Struct, frozen=True):
    """An open window of an agent's plan."""

    source: str
    account: str | None
    kind: WindowKind
    ends_at: int
    used_percent: float | None
    basis: Basis
    value_usd: float | None


class StatusSummary(Struct, frozen=True):
    """The summary that imports keep for status lines. Times are Unix milliseconds."""

    made_at: int
    day_ends_at: int
    today: StatusMoney
    windows: list[StatusWindow]
    # by the agent's own id
    sessions: dict[str, StatusSession]
    currency: str
    rate: float


def read_status(store: Store, *, now: int | None = None) -> StatusSummary:
    """Return what status lines show of this store."""
    now = int(time.time() * 1000) if now is None else now
    day = datetime.fromtimestamp(now / 1000, UTC).astimezone(store.zone).date().isoformat()
    rows = sum_costs(store, "source", Filter(since=day, until=day))
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    today = StatusMoney(
        cost_usd=sum(known) if known or not rows else None,
        included_usd=sum(row.included_usd for row in rows),
        unpriced_turns=sum(row.unpriced_turns for row in rows),
    )
    windows = [
        StatusWindow(
            **take_fields(one, StatusWindow, but=["ends_at"]), ends_at=read_time(one.ends_at) or 0
        )
        for one in read_limits_report(store, now=now).windows
    ]
    return StatusSummary(
        made_at=now,
        day_ends_at=find_day_start(day, store.timezone, later_days=1),
        today=today,
        windows=windows,
        sessions=_read_sessions(store, now),
        currency=store.config.display.currency,
        rate=store.config.display.rate or 1.0,
    )


def _read_sessions(store: Store, now: int) -> dict[str, StatusSession]:
    found = {}
    for one in read_recent_sessions(store, since=now - DAY_MS, limit=SESSIONS):
        lifetime = CACHE_MS["hour" if one.cached_for_hour else "minutes"]
        is_cached = one.last_at is not None and one.cached_for_hour is not None
        found[one.key] = StatusSession(
            cost=StatusMoney(one.cost_usd, one.included_usd, one.unpriced_turns),
            context_tokens=one.context_tokens,
            cache_until=(one.last_at or 0) + lifetime if is_cached else None,
        )
    return found
