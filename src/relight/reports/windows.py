"""Windows of plans: five hours and a week, from turns, reports and limit messages.

A window that the agent reported is taken as it is. Other turns are put into blocks: a block begins
at the full hour (UTC) of its first turn and lasts five hours; the first turn after its end, or more
than five hours after the turn before, begins the next. Weeks begin on Monday in the store's zone.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from relight.model import WindowKind
from relight.store.queries.windows import HOUR_MS, WindowUse, find_hour

LENGTHS: dict[WindowKind, int] = {"5h": 5 * HOUR_MS, "week": 168 * HOUR_MS}
# reports on one window differ by this much in its end
SAME_END_MS = 600_000
# a rate over a shorter time says nothing
LEAST_MS = 900_000
# a smaller share of a window says little about the whole
LEAST_PERCENT = 5.0


class Fullness(Struct, frozen=True):
    """The use of a window at a moment, as the agent reported it.

    `is_message` is set if the agent said so when it refused a request.
    """

    at: int
    ends_at: int
    used_percent: float
    is_message: bool = False


class PlanWindow(Struct, frozen=True, kw_only=True):
    """A window with the turns in it, by hours; `report` is the last report on it."""

    kind: WindowKind
    started_at: int
    ends_at: int
    uses: tuple[WindowUse, ...] = ()
    report: Fullness | None = None
    hit_at: int | None = None

    @property
    def turns(self) -> int:
        return sum(use.turns for use in self.uses)

    @property
    def tokens(self) -> int:
        return sum(use.tokens for use in self.uses)

    @property
    def unpriced_turns(self) -> int:
        return sum(use.unpriced_turns for use in self.uses)

    @property
    def value_usd(self) -> float | None:
        """The worth at list price; None if no turn has a price."""
        return value_uses(self.uses)


class WindowSize(Struct, frozen=True):
    """The limit of a window, in dollars at list price or in tokens."""

    usd: float | None = None
    tokens: float | None = None

    def measure(self, window: PlanWindow) -> float | None:
        """Return how full a window is by this size, in percent."""
        value = window.value_usd
        if self.usd is not None:
            return None if value is None else 100 * value / self.usd
        return None if self.tokens is None else 100 * window.tokens / self.tokens


def value_uses(uses: Iterable[WindowUse]) -> float | None:
    """Return the worth of turns at list price in dollars; None if none has a price."""
    known = [use.nanos for use in uses if use.nanos is not None]
    return sum(known) / 1e9 if known else None


def find_blocks(turns: Sequence[WindowUse]) -> Iterator[PlanWindow]:
    """Yield the blocks of five hours that turns in their order are in."""

    def find_block(at: int) -> tuple[int, int]:
        started_at = at - at % HOUR_MS
        return started_at, started_at + LENGTHS["5h"]

    return _fill("5h", turns, find_block)


def find_fresh_start(turns: Sequence[WindowUse], after: int) -> int | None:
    """Return the index of the first turn after a pause of more than a block since `after`.

    Blocks depend on all turns before them, but not on those before such a pause. Of an hour only
    the first turn is known: its end counts.
    """
    before = after
    for place, turn in enumerate(turns):
        if turn.at - before > LENGTHS["5h"]:
            return place
        before = (find_hour(turn.at) + 1) * HOUR_MS
    return None


def find_weeks(turns: Sequence[WindowUse], timezone: str) -> Iterator[PlanWindow]:
    """Yield the calendar weeks that turns in their order are in."""
    return _fill("week", turns, lambda at: find_week(at, timezone))


def _fill(
    kind: WindowKind, turns: Sequence[WindowUse], find_span: Callable[[int], tuple[int, int]]
) -> Iterator[PlanWindow]:
    """Yield the windows that turns in their order are in; the first turn in each says its span."""
    inside: dict[tuple[int, int], list[WindowUse]] = {}
    span = (0, 0)
    for turn in turns:
        # a turn at the very end of a block is in it
        if turn.at >= span[1] + (kind == "5h"):
            span = find_span(turn.at)
        inside.setdefault(span, []).append(turn)
    for (started_at, ends_at), own in inside.items():
        yield PlanWindow(kind=kind, started_at=started_at, ends_at=ends_at, uses=tuple(own))


def find_week(at: int, timezone: str) -> tuple[int, int]:
    """Return the beginning and the end of the calendar week of a moment.

    A week in which clocks change has an hour more or less.

    >>> [moment % 86_400_000 // HOUR_MS for moment in find_week(1792918800000, "Europe/Berlin")]
    [22, 23]
    """
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(timezone)
    today = datetime.fromtimestamp(at / 1000, UTC).astimezone(zone).date()
    monday = today - timedelta(days=today.weekday())

    def begin(day: date) -> int:
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        return round(midnight.timestamp() * 1000)

    return begin(monday), begin(monday + timedelta(days=7))


def make_windows(
    kind: WindowKind,
    turns: Sequence[WindowUse],
    reports: Sequence[Fullness],
    *,
    hits: Sequence[int] = (),
    timezone: str,
) -> list[PlanWindow]:
    """Return all windows of a kind in the order they began.

    `hits` are moments of refusals that named no end: each belongs to the window it came in.
    """
    reported = merge_reports(kind, reports)
    starts = [window.started_at for window in reported]
    inside: list[list[WindowUse]] = [[] for _ in reported]
    others: list[WindowUse] = []
    for turn in turns:
        place = bisect_right(starts, turn.at) - 1
        if place >= 0 and turn.at < reported[place].ends_at:
            inside[place].append(turn)
        else:
            others.append(turn)
    known = [replace(window, uses=tuple(own)) for window, own in zip(reported, inside, strict=True)]
    found = find_blocks(others) if kind == "5h" else find_weeks(others, timezone)
    windows = sorted([*known, *found], key=lambda window: window.started_at)
    return [_note_hit(window, hits) for window in windows]


def _note_hit(window: PlanWindow, hits: Sequence[int]) -> PlanWindow:
    own = [at for at in hits if window.started_at <= at < window.ends_at]
    if not own or window.hit_at is not None:
        return window
    return replace(window, hit_at=own[0])


def merge_reports(kind: WindowKind, reports: Sequence[Fullness]) -> list[PlanWindow]:
    """Return one window for all reports that give nearly the same end, in the order they began."""
    groups: list[list[Fullness]] = []
    for report in sorted(reports, key=lambda one: one.ends_at):
        if groups and report.ends_at - groups[-1][0].ends_at <= SAME_END_MS:
            groups[-1].append(report)
        else:
            groups.append([report])
    windows = []
    for group in groups:
        last = max(group, key=lambda one: (one.at, one.used_percent))
        full = [one.at for one in group if one.used_percent >= 100]
        windows.append(
            PlanWindow(
                kind=kind,
                started_at=last.ends_at - LENGTHS[kind],
                ends_at=last.ends_at,
                report=last,
                hit_at=min(full, default=None),
            )
        )
    return windows


def find_current(windows: Sequence[PlanWindow], now: int) -> PlanWindow | None:
    """Return the window that is open now, the last one to begin if there are several."""
    inside = [window for window in windows if window.started_at <= now < window.ends_at]
    return inside[-1] if inside else None


class SizeEstimate(Struct, frozen=True):
    """The worth of a full window, derived from a window of which it is known."""

    usd: float
    window: PlanWindow


def estimate_size(windows: Sequence[PlanWindow], before: int | None = None) -> SizeEstimate | None:
    """Return the worth of a full window by the last one that a report or a refusal measured."""
    for window in reversed(windows):
        if before is not None and window.started_at >= before:
            continue
        measured = find_measure(window)
        if measured is None:
            continue
        at, percent = measured
        value = value_uses(use for use in window.uses if use.at <= at)
        if value:
            return SizeEstimate(100 * value / percent, window)
    return None


def find_measure(window: PlanWindow) -> tuple[int, float] | None:
    """Return the moment of a window at which its share was known, and the share in percent."""
    if window.hit_at is not None:
        return window.hit_at, 100.0
    report = window.report
    if report is None or report.used_percent < LEAST_PERCENT:
        return None
    return report.at, report.used_percent


class Projection(Struct, frozen=True):
    """The rate of a window's worth, and where it leads by the end at that rate."""

    usd_per_hour: float
    usd: float
    percent: float | None = None
    full_at: int | None = None


def project(window: PlanWindow, used_percent: float | None, now: int) -> Projection | None:
    """Return where an open window leads; None if no turn in it has a price.

    The rate is that since the window's first turn, so a pause lowers it. A week's is that since the
    week began: it has nights.
    """
    value = window.value_usd
    if value is None:
        return None
    began = window.uses[0].at if window.kind == "5h" else window.started_at
    elapsed = max(now - began, LEAST_MS)
    left = max(window.ends_at - now, 0)
    growth = left / elapsed
    rate = value * HOUR_MS / elapsed
    if used_percent is None:
        return Projection(rate, value * (1 + growth))
    percent = used_percent * (1 + growth)
    full_at = None
    if 0 < used_percent < 100 <= percent:
        full_at = now + round((100 - used_percent) / used_percent * elapsed)
    return Projection(rate, value * (1 + growth), percent, full_at)


def find_edges(windows: Iterable[PlanWindow], spans: Iterable[int]) -> set[int]:
    """Return the hours whose turns have to be known one by one.

    A window, or the moment at which its share was known, begins or ends in them; `spans` are
    further such moments.
    """
    moments = set(spans)
    for window in windows:
        moments |= {window.started_at, window.ends_at}
        if (measured := find_measure(window)) is not None:
            moments.add(measured[0])
    return {find_hour(at) for at in moments}
