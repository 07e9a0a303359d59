"""Windows of plans: blocks, weeks, what agents report, and where a rate leads."""

import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from relight.model import WindowKind
from relight.reports.windows import (
    Fullness,
    PlanWindow,
    WindowSize,
    estimate_size,
    find_blocks,
    find_current,
    find_edges,
    find_week,
    find_weeks,
    make_windows,
    merge_reports,
    project,
)
from relight.store.queries.windows import HOUR_MS, WindowUse, find_hour

MINUTE_MS = 60_000
DAY_MS = 24 * HOUR_MS


def moment(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def turn(at: int, *, usd: float | None = 1.0, tokens: int = 1000) -> WindowUse:
    nanos = None if usd is None else round(usd * 1e9)
    return WindowUse(at, tokens, nanos, unpriced_turns=int(usd is None))


def starts(windows: list[PlanWindow]) -> list[str]:
    return [
        datetime.fromtimestamp(one.started_at / 1000, UTC).isoformat(timespec="minutes")[:16]
        for one in windows
    ]


def blocks_of(*moments: int) -> list[PlanWindow]:
    return list(find_blocks([turn(at) for at in moments]))


def test_a_block_begins_at_the_full_hour_of_its_first_turn_and_lasts_five_hours() -> None:
    (block,) = blocks_of(moment("2026-11-15T09:47"), moment("2026-11-15T13:59"))
    assert starts([block]) == ["2026-11-15T09:00"]
    assert block.ends_at - block.started_at == 5 * HOUR_MS
    assert (block.turns, block.tokens, block.value_usd) == (2, 2000, 2.0)


def test_the_first_turn_after_a_block_begins_the_next_one_at_its_own_hour() -> None:
    found = blocks_of(
        moment("2026-11-15T09:47"),
        moment("2026-11-15T13:59"),
        moment("2026-11-15T14:00"),  # a turn at the very end is still inside
        moment("2026-11-15T14:01"),
        moment("2026-11-15T18:30"),
    )
    assert starts(found) == ["2026-11-15T09:00", "2026-11-15T14:00"]
    assert [one.turns for one in found] == [3, 2]


def test_a_pause_of_more_than_five_hours_begins_a_block_even_at_a_later_hour() -> None:
    found = blocks_of(moment("2026-11-15T09:10"), moment("2026-11-15T22:40"))
    assert starts(found) == ["2026-11-15T09:00", "2026-11-15T22:00"]


@pytest.mark.parametrize("night", ["2026-10-25", "2026-03-29"])
def test_blocks_are_the_same_in_a_night_in_which_clocks_change(night: str) -> None:
    begin = moment(f"{night}T00:30", "Europe/Berlin")
    found = blocks_of(*(begin + place * 40 * MINUTE_MS for place in range(12)))
    assert all(one.ends_at - one.started_at == 5 * HOUR_MS for one in found)
    assert [one.started_at % HOUR_MS for one in found] == [0, 0]
    assert sum(one.turns for one in found) == 12


@pytest.mark.parametrize(("day", "hours"), [("2026-10-22", 169), ("2026-03-26", 167)])
def test_a_week_in_which_clocks_change_has_an_hour_more_or_less(day: str, hours: int) -> None:
    (week,) = find_weeks([turn(moment(f"{day}T12:00"))], "Europe/Berlin")
    assert week.ends_at - week.started_at == hours * HOUR_MS
    local = datetime.fromtimestamp(week.started_at / 1000, ZoneInfo("Europe/Berlin"))
    assert (local.weekday(), local.hour, local.minute) == (0, 0, 0)


def test_each_turn_of_a_week_in_which_clocks_change_counts_once() -> None:
    begin = moment("2026-10-19T00:00", "Europe/Berlin")
    turns = [turn(begin + place * HOUR_MS) for place in range(169 + 168)]
    first, second = find_weeks(turns, "Europe/Berlin")
    assert (first.turns, second.turns) == (169, 168)
    assert first.ends_at == second.started_at


def test_weeks_follow_the_time_zone_of_the_store_and_blocks_do_not() -> None:
    late = moment("2026-11-15T23:30")  # Sunday in London, Monday in Tokyo
    (london,) = find_weeks([turn(late)], "Europe/London")
    (tokyo,) = find_weeks([turn(late)], "Asia/Tokyo")
    assert starts([london, tokyo]) == ["2026-11-09T00:00", "2026-11-15T15:00"]
    for zone in ("Europe/London", "Asia/Tokyo"):
        (block,) = make_windows("5h", [turn(late)], [], timezone=zone)
        assert starts([block]) == ["2026-11-15T23:00"]


def test_turns_recorded_while_the_clock_was_ahead_open_no_current_window() -> None:
    now = moment("2026-11-15T12:00")
    ahead = now + 9 * HOUR_MS
    windows = make_windows("5h", [turn(now - HOUR_MS), turn(ahead)], [], timezone="UTC")
    current = find_current(windows, now)
    assert current is not None
    assert starts([current]) == ["2026-11-15T11:00"]
    assert [one.turns for one in windows] == [1, 1]


def test_a_clock_set_back_inside_a_window_gives_no_negative_rate() -> None:
    now = moment("2026-11-15T12:00")
    (window,) = make_windows("5h", [turn(now + 20 * MINUTE_MS)], [], timezone="UTC")
    found = project(window, 10.0, now)
    assert found is not None
    assert found.usd_per_hour > 0
    assert (found.percent or 0) >= 10.0


def test_a_reported_window_is_taken_as_it_is() -> None:
    ends_at = moment("2026-11-15T14:20")
    turns = [turn(moment(f"2026-11-15T{clock}")) for clock in ("09:25", "14:10", "14:40")]
    report = Fullness(moment("2026-11-15T11:00"), ends_at, 42.0)
    reported, block = make_windows("5h", turns, [report], timezone="UTC")
    assert (reported.started_at, reported.ends_at) == (ends_at - 5 * HOUR_MS, ends_at)
    assert (reported.turns, reported.report) == (2, report)
    assert starts([block]) == ["2026-11-15T14:00"]
    assert block.report is None


def test_reports_that_differ_in_seconds_are_about_one_window_and_the_last_one_holds() -> None:
    ends_at = moment("2026-11-15T14:20")
    reports = [
        Fullness(ends_at - 2 * HOUR_MS, ends_at + MINUTE_MS, 31.0),
        Fullness(ends_at - 3 * HOUR_MS, ends_at, 12.0),
        Fullness(ends_at - 9 * HOUR_MS, ends_at - 6 * HOUR_MS, 80.0),
    ]
    earlier, window = merge_reports("5h", reports)
    assert (earlier.report, window.report) == (reports[2], reports[0])


def test_a_refusal_without_a_reset_time_belongs_to_the_window_it_came_in() -> None:
    now = moment("2026-11-15T12:00")
    hit = now + 10 * MINUTE_MS
    before, window = make_windows(
        "5h", [turn(now - DAY_MS), turn(now)], [], hits=[hit, hit + 1], timezone="UTC"
    )
    assert (before.hit_at, window.hit_at) == (None, hit)


def test_an_estimate_rests_on_the_last_window_that_was_measured() -> None:
    noon = moment("2026-11-10T12:00")
    report = Fullness(noon + HOUR_MS, noon + 5 * HOUR_MS, 40.0)
    turns = [
        turn(noon + 5, usd=2.0),
        turn(noon + 2 * HOUR_MS, usd=7.0),  # after the report
        turn(noon + 2 * DAY_MS, usd=1.0),
    ]
    windows = make_windows("5h", turns, [report], timezone="UTC")
    found = estimate_size(windows, before=windows[-1].started_at)
    assert found is not None
    assert found.usd == pytest.approx(5.0)
    assert WindowSize(usd=found.usd).measure(windows[-1]) == pytest.approx(20.0)
    assert estimate_size(windows, before=windows[0].started_at) is None


def test_a_small_share_of_a_window_says_nothing_about_the_whole() -> None:
    noon = moment("2026-11-10T12:00")
    report = Fullness(noon + HOUR_MS, noon + 5 * HOUR_MS, 1.0)
    windows = make_windows("5h", [turn(noon + 5)], [report], timezone="UTC")
    assert estimate_size(windows) is None


def test_a_rate_leads_to_the_end_of_the_window_and_to_the_moment_it_is_full() -> None:
    start = moment("2026-11-15T12:00")
    (window,) = make_windows("5h", [turn(start), turn(start + HOUR_MS)], [], timezone="UTC")
    now = start + 2 * HOUR_MS
    found = project(window, 50.0, now)
    assert found is not None
    assert (found.usd_per_hour, found.usd) == (1.0, 5.0)
    assert (found.percent, found.full_at) == (125.0, start + 4 * HOUR_MS)
    slow = project(window, 20.0, now)
    assert slow is not None
    assert (slow.percent, slow.full_at) == (50.0, None)


def test_the_rate_of_a_week_includes_its_nights_and_a_few_minutes_are_no_rate() -> None:
    monday = moment("2026-11-09T00:00")
    now = monday + 42 * HOUR_MS
    (week,) = make_windows("week", [turn(now - MINUTE_MS)], [], timezone="UTC")
    (block,) = make_windows("5h", [turn(now - MINUTE_MS)], [], timezone="UTC")
    of_week, of_block = project(week, None, now), project(block, None, now)
    assert of_week is not None
    assert of_block is not None
    assert of_week.usd_per_hour == pytest.approx(1 / 42)
    assert of_week.usd == pytest.approx(4.0)
    assert of_block.usd_per_hour == 4.0


def test_without_a_price_nothing_is_projected() -> None:
    start = moment("2026-11-15T12:00")
    (window,) = make_windows("5h", [turn(start, usd=None)], [], timezone="UTC")
    assert (window.value_usd, window.unpriced_turns) == (None, 1)
    assert project(window, None, start + HOUR_MS) is None


def by_hour(turns: list[WindowUse]) -> dict[int, list[WindowUse]]:
    """What the store has of turns: the sums of each hour."""
    hours: dict[int, list[WindowUse]] = {}
    for one in turns:
        hours.setdefault(find_hour(one.at), []).append(one)
    return {hour: [add(inside)] for hour, inside in hours.items()}


def add(turns: list[WindowUse]) -> WindowUse:
    known = [one.nanos for one in turns if one.nanos is not None]
    return WindowUse(
        turns[0].at,
        sum(one.tokens for one in turns),
        sum(known) if known else None,
        turns=len(turns),
        unpriced_turns=len(turns) - len(known),
    )


def figures(windows: list[PlanWindow]) -> list[tuple[object, ...]]:
    return [
        (one.started_at, one.ends_at, one.turns, one.tokens, one.value_usd, one.unpriced_turns)
        for one in windows
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
@pytest.mark.parametrize("seed", range(8))
def test_windows_made_of_hours_are_those_made_of_single_turns(seed: int, zone: str) -> None:
    dice = random.Random(seed)
    first = moment("2026-10-20T00:00", zone)
    # some turns are on the very edge of an hour
    moments = {first + dice.randrange(30 * DAY_MS) for _ in range(800)}
    moments |= {first + dice.randrange(30 * 24) * HOUR_MS for _ in range(200)}
    turns = [
        turn(at, usd=dice.choice((None, 0.25, 1.5)), tokens=dice.randint(1, 900))
        for at in sorted(moments)
    ]
    reports = [
        Fullness(at := first + dice.randrange(30 * DAY_MS), at + dice.randrange(5 * HOUR_MS), 40.0)
        for _ in range(12)
    ]
    hits = [first + dice.randrange(30 * DAY_MS) for _ in range(3)]
    kinds: tuple[WindowKind, ...] = ("5h", "week")
    for kind in kinds:
        weeks = [end for one in turns for end in find_week(one.at, zone)]
        edges = find_edges(merge_reports(kind, reports), [*hits, *weeks])
        mixed = [
            use
            for hour, sums in by_hour(turns).items()
            for use in (
                [one for one in turns if find_hour(one.at) == hour] if hour in edges else sums
            )
        ]
        assert len(mixed) < len(turns)
        single, summed = (
            make_windows(kind, uses, reports, hits=hits, timezone=zone) for uses in (turns, mixed)
        )
        assert figures(summed) == figures(single)
        for one in single:
            assert size(summed, one.started_at) == size(single, one.started_at)


def size(windows: list[PlanWindow], before: int) -> float | None:
    found = estimate_size(windows, before)
    return None if found is None else round(found.usd, 6)
