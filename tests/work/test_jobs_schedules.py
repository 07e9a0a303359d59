"""Slots against an oracle that looks at every quarter of an hour of the time zone itself."""

from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice, pairwise, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relight.errors import RelightError
from relight.times import format_moment
from relight.work.jobs.schedules import (
    count_missed_slots,
    find_grace_ms,
    find_last,
    find_next,
    read_schedule,
    read_span,
)

ZONES = ("Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Apia")
# Apia lost a day in 2011 and gave up summer time in 2021, São Paulo its own in 2019
YEARS = (2011, 2018, 2020, 2026)
HOUR, DAY = 3_600_000, 86_400_000
DENSE = 3000


class Fields:
    """A cron expression by what it allows, and the same as text."""

    def __init__(self, minutes: str, hours: str, days: str, weekdays: str) -> None:
        self.text = f"{minutes} {hours} {days} * {weekdays}"
        self.minutes, self.hours = expand(minutes, 0, 59), expand(hours, 0, 23)
        self.days = expand(days, 1, 31)
        self.weekdays = {number % 7 for number in expand(weekdays, 0, 7)}
        self.both_days = days.startswith("*") or weekdays.startswith("*")
        self.is_fixed = not minutes.startswith("*") and not hours.startswith("*")

    def allows(self, day: date) -> bool:
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_month and by_week if self.both_days else by_month or by_week


def expand(field: str, lowest: int, highest: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        ends = (lowest, highest) if span == "*" else (int(first), int(last or first))
        found |= set(range(ends[0], ends[1] + 1, int(step or 1)))
    return found


def field(lowest: int, highest: int) -> st.SearchStrategy[str]:
    numbers = st.integers(lowest, highest)
    spans = st.tuples(numbers, numbers).map(lambda ends: f"{min(ends)}-{max(ends)}")
    lists = st.lists(numbers, min_size=1, max_size=4).map(lambda some: ",".join(map(str, some)))
    return st.one_of(st.just("*"), st.integers(2, 30).map(lambda n: f"*/{n}"), lists, spans)


FIELDS = st.builds(Fields, field(0, 59), field(0, 23), field(1, 28) | st.just("*"), field(0, 7))


@cache
def read_quarters(zone: str, year: int) -> list[tuple[int, date, int]]:
    """Each quarter hour of two years: its UTC minute, the day and the minute its clocks show."""
    start = datetime(year, 1, 1, tzinfo=UTC)
    quarters = []
    for number in range(int(timedelta(days=731) / timedelta(minutes=15))):
        wall = (start + timedelta(minutes=15 * number)).astimezone(ZoneInfo(zone))
        utc_minute = int(start.timestamp()) // 60 + 15 * number
        quarters.append((utc_minute, wall.date(), wall.hour * 60 + wall.minute))
    return quarters


@cache
def find_changes(zone: str, year: int) -> list[tuple[int, int]]:
    """A day and a half on both sides of each clock change, and one stretch without any."""
    quarters = read_quarters(zone, year)
    moments = [
        after * 60_000
        for (before, day, was), (after, next_day, wall) in pairwise(quarters)
        if (next_day - day).days * 1440 + wall - was != after - before
    ]
    moments.append(quarters[9000][0] * 60_000)
    return [(moment - 36 * HOUR, moment + 36 * HOUR) for moment in moments]


class Quarter(NamedTuple):
    """A quarter hour: its UTC minute, the minute its clocks show, and what they did before it."""

    utc_minute: int
    wall: int
    # False if the clocks showed this time before
    is_new: bool
    # the last minute before clocks jumped here, and the last that they left out
    jump: tuple[tuple[date, int], tuple[date, int]] | None


@cache
def read_days(zone: str, year: int) -> list[tuple[date, list[Quarter]]]:
    """The quarter hours of two years by the day that clocks show; the same for every schedule."""
    days: list[tuple[date, list[Quarter]]] = []
    reached: tuple[date, int] | None = None
    for utc_minute, day, wall in read_quarters(zone, year):
        if not days or days[-1][0] != day:
            days.append((day, []))
        end = (day, wall + 14)
        is_new = reached is None or end > reached
        before = (day, wall - 1) if wall else (day - timedelta(days=1), 1439)
        has_jumped = is_new and reached is not None and reached < before
        jump = (reached, before) if has_jumped and reached is not None else None
        days[-1][1].append(Quarter(utc_minute, wall, is_new, jump))
        if is_new:
            reached = end
    return days


def find_slots(fields: Fields, zone: str, year: int) -> list[int]:
    """What cron does: by real time with a `*`, else once for every time of the calendar."""
    allowed = sorted(hour * 60 + minute for hour in fields.hours for minute in fields.minutes)
    by_quarter: dict[int, list[int]] = {}
    for minute in allowed:
        by_quarter.setdefault(minute // 15, []).append(minute)
    slots: list[int] = []
    for day, quarters in read_days(zone, year):
        is_allowed = fields.allows(day)
        if not is_allowed and not any(one.jump for one in quarters):
            continue
        for utc_minute, wall, is_new, jump in quarters:
            if jump and fields.is_fixed and times_between(fields, allowed, *jump):
                # the clock jumped: what lies between is due as soon as it has
                slots.append(utc_minute)
            minutes = by_quarter.get(wall // 15)
            if minutes and is_allowed and (is_new or not fields.is_fixed):
                slots += [utc_minute + one - wall for one in minutes]
    return [slot * 60_000 for slot in dict.fromkeys(slots)]


def times_between(
    fields: Fields, allowed: list[int], seen: tuple[date, int], reached: tuple[date, int]
) -> list[tuple[date, int]]:
    day, found = seen[0], []
    while day <= reached[0]:
        if fields.allows(day):
            found += [(day, one) for one in allowed if seen < (day, one) <= reached]
        day += timedelta(days=1)
    return found


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=20)
@given(fields=FIELDS, year=st.sampled_from(YEARS), ask=st.integers(0, 730 * DAY))
@example(fields=Fields("30", "2", "*", "*"), year=2026, ask=0)
@example(fields=Fields("*/20", "0", "*", "*"), year=2018, ask=0)
@example(fields=Fields("*/20", "0-3", "1-28", "0"), year=2018, ask=0)
@example(fields=Fields("0,30", "0", "30", "5"), year=2011, ask=0)
@example(fields=Fields("*", "*", "*", "*"), year=2011, ask=0)
def test_over_two_years_each_slot_comes_once(
    zone: str, fields: Fields, year: int, ask: int
) -> None:
    begin = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1000 + DAY
    end = begin + 729 * DAY
    # the day before and after are only there for what the clocks do
    expected = [slot for slot in find_slots(fields, zone, year) if begin < slot < end]
    schedule = read_schedule(fields.text, timezone=zone, made_at=0)
    # the many slots of a dense one are looked at where clocks change
    spans = [(begin, end)] if len(expected) < DENSE else find_changes(zone, year)
    for first, last in spans:
        told = list(takewhile(last.__gt__, schedule.slots(first)))
        assert told == [slot for slot in expected if first < slot < last]
    # asked at any moment the next one is the same, also within a repeated hour
    moment = min(begin + ask, end)
    later = expected[bisect_right(expected, moment) :]
    assert not later or find_next(schedule, moment) == later[0]
    earlier = expected[: bisect_right(expected, moment)]
    if earlier:
        assert find_last(schedule, due=earlier[0], now=moment) == earlier[-1]


def test_a_moment_inside_a_repeated_hour_finds_only_what_is_to_come() -> None:
    schedule = read_schedule("30 2 * * *", timezone="Europe/Berlin", made_at=0)
    # 02:15 for the second time, on the day that clocks are set back
    second = datetime(2026, 10, 25, 1, 15, tzinfo=UTC)
    found = find_next(schedule, int(second.timestamp()) * 1000)
    assert found is not None
    assert format_moment(found, "Europe/Berlin") == "Mon 2026-10-26 02:30 CET"


@given(period=st.integers(1, 40 * 86400), made=st.integers(0, 2**41), ask=st.integers(0, 2**42))
def test_every_so_often_is_counted_from_when_the_job_was_made(
    period: int, made: int, ask: int
) -> None:
    schedule = read_schedule(f"every {period}s", timezone="Asia/Kolkata", made_at=made)
    slot = find_next(schedule, ask)
    assert slot is not None
    assert slot > max(ask, made // 1000 * 1000)
    assert (slot - made // 1000 * 1000) % (period * 1000) == 0
    assert slot - max(ask, made // 1000 * 1000) <= period * 1000
    assert find_last(schedule, due=slot, now=slot + period * 5000 + 1) == slot + period * 5000
    assert count_missed_slots(schedule, due=slot, last=slot + period * 5000, limit=100) == 5
    assert count_missed_slots(schedule, due=slot, last=slot + period * 5000, limit=3) == 3


@pytest.mark.parametrize(
    ("text", "words", "times"),
    [
        ("every 30m", "every 30 minutes", ["Sun 2026-11-15 04:42 CET", "Sun 2026-11-15 05:12 CET"]),
        ("every 1 day", "every day", ["Mon 2026-11-16 04:12 CET", "Tue 2026-11-17 04:12 CET"]),
        ("daily 07:00", "every day at 07:00", ["Sun 2026-11-15 07:00 CET"]),
        ("weekdays 8:30", "Monday to Friday at 08:30", ["Mon 2026-11-16 08:30 CET"]),
        ("weekends 10:00", "every Saturday and Sunday at 10:00", ["Sun 2026-11-15 10:00 CET"]),
        ("monthly 31 09:00", "on the 31st day of every month at 09:00", []),
        ("weekly Wed 09:00", "every Wednesday at 09:00", ["Wed 2026-11-18 09:00 CET"]),
        ("monthly last 18:00", "on the last day of every month at 18:00", []),
        ("@hourly", "at the start of every hour", ["Sun 2026-11-15 05:00 CET"]),
        ("*/15 9-17 * * MON-FRI", None, ["Mon 2026-11-16 09:00 CET", "Mon 2026-11-16 09:15 CET"]),
        ("2027-03-28 02:30", "once, at Sun 2027-03-28 03:30 CEST", ["Sun 2027-03-28 03:30 CEST"]),
        ("2027-01-31T18:00Z", "once, at Sun 2027-01-31 19:00 CET", ["Sun 2027-01-31 19:00 CET"]),
    ],
)
def test_a_schedule_is_described_in_words_with_its_times(
    text: str, words: str | None, times: list[str]
) -> None:
    now = 1794712320000
    schedule = read_schedule(text, timezone="Europe/Berlin", made_at=now)
    assert words is None or schedule.words == words
    slots = islice(schedule.slots(now), len(times))
    found = [format_moment(slot, "Europe/Berlin") for slot in slots]
    assert found == times


@pytest.mark.parametrize(
    "text",
    ["", "every", "every 0m", "every 3x", "every 400d", "daily 25:00", "weekly foo 09:00",
     "tomorrow", "61 * * * *", "* * *", "0 0 30 2 *", "monthly 40 09:00", "0 0 0 * * *",
     "2026-13-01"],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_with_examples(text: str) -> None:
    with pytest.raises(RelightError) as told:
        read_schedule(text, timezone="UTC", made_at=0)
    assert "daily 07:00" in (told.value.hint or "")


def test_grace_is_half_the_period_between_two_minutes_and_two_hours() -> None:
    def grace(text: str) -> int:
        schedule = read_schedule(text, timezone="UTC", made_at=0)
        slot = find_next(schedule, 0)
        assert slot is not None
        return find_grace_ms(schedule, slot)

    assert grace("every 1m") == 120_000
    assert grace("every 30m") == 15 * 60_000
    assert grace("hourly") == HOUR // 2
    assert grace("daily 07:00") == 2 * HOUR
    assert grace("2027-01-31T18:00Z") == 2 * HOUR


@pytest.mark.parametrize("text", ["", "x", "0", "-5m", "1 fortnight"])
def test_a_duration_must_be_one(text: str) -> None:
    assert read_span("90") == read_span("1.5m") == 90
    with pytest.raises(RelightError):
        read_span(text)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("9999-12-31 23:59", "America/St_Johns"),
        ("9999-12-31 23:59", "UTC"),
        ("0001-01-01 00:00", "Asia/Kolkata"),
        ("0001-01-01T00:00+14:00", "UTC"),
        ("0000-01-01 00:00", "UTC"),
        ("10000-01-01 00:00", "UTC"),
    ],
)
def test_a_moment_at_the_end_of_time_is_refused_in_words(text: str, zone: str) -> None:
    with pytest.raises(RelightError, match=r"outside the years|cannot be parsed"):
        read_schedule(text, timezone=zone, made_at=0)


def test_the_last_year_of_schedules_has_a_name_in_every_zone() -> None:
    once = read_schedule("9998-12-31 23:59", timezone="America/St_Johns", made_at=0)
    (slot,) = once.slots(0)
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
        assert format_moment(slot, zone)
