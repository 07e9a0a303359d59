"""Schedules as people write them, and their slots in time. Pure: no clock is read here."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from zoneinfo import ZoneInfo

from msgspec import Struct

from relight.errors import RelightError
from relight.times import format_moment

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
UNIT_NAMES = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week"}
WEEKDAYS = {"sunday": 0, "monday": 1, "tuesday": 2, "wednesday": 3, "thursday": 4}
WEEKDAYS |= {"friday": 5, "saturday": 6}
WEEKDAYS |= {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
# the days of schedules that name a time of day, as cron writes them
EACH = {"daily": "*", "weekdays": "1-5", "weekends": "6,0"}
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
ORDINALS = {"1": "st", "2": "nd", "3": "rd"}
# minutes that divide an hour, as cronsim writes them
PERIODS = {"second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6}
PERIODS |= {"10th": 10, "12th": 12, "15th": 15, "20th": 20, "30th": 30}
SHORTEST_GRACE_MS, LONGEST_GRACE_MS = 120_000, 7_200_000
LONGEST_PERIOD_SECONDS = 366 * 86400
YEARS = range(1970, 9999)
# how far back the last slot is searched for, in growing steps
WINDOWS_SECONDS = (120, 3600, 86400, 32 * 86400, 367 * 86400, 30 * 367 * 86400)
HINT = (
    'write "every 30m", "daily 07:00", "weekdays 08:30", "weekly mon 09:00", "monthly 1 09:00",'
    ' a cron expression such as "*/15 9-17 * * mon-fri", or one time such as "2027-01-31 18:00"'
)


class Every(Struct, frozen=True):
    """A fixed period of real time, counted from `anchor`."""

    period_ms: int
    anchor: int
    words: str

    def slots(self, after: int) -> Iterator[int]:
        """The slots later than a moment, in order."""
        slot = self.anchor + max((after - self.anchor) // self.period_ms + 1, 1) * self.period_ms
        while True:
            yield slot
            slot += self.period_ms


class Once(Struct, frozen=True):
    """One moment."""

    at: int
    words: str

    def slots(self, after: int) -> Iterator[int]:
        if self.at > after:
            yield self.at


class Cron(Struct, frozen=True):
    """The minutes of a cron expression in a time zone, on clock changes as cron does it.

    A job at a fixed time runs once a day whatever the clocks do: at the first moment after a gap,
    at the first of two equal times. One that has `*` as its minutes or hours goes by real time.
    """

    expression: str
    timezone: str
    words: str

    def slots(self, after: int) -> Iterator[int]:
        from cronsim import CronSim

        moment = datetime.fromtimestamp(after // 1000, UTC).astimezone(ZoneInfo(self.timezone))
        found = CronSim(self.expression, moment)
        last = after
        for listed in found:
            real = listed.astimezone(UTC).astimezone(listed.tzinfo)
            if listed.replace(tzinfo=None) != real.replace(tzinfo=None):
                # on a day whose clock skips midnight, cronsim lists a time that does not exist
                is_due = real.minute in found.minutes and real.hour in found.hours
                if not (is_due and real.month in found.months and found.match_day(real.date())):
                    continue
            # in a repeated hour, the first of two equal times may be past already
            if (slot := int(real.timestamp()) * 1000) > last:
                last = slot
                yield slot


Schedule = Every | Once | Cron


def read_schedule(text: str, *, timezone: str, made_at: int) -> Schedule:
    """Parse a schedule; `made_at` is where the count of `every …` begins."""
    words = text.lower().split()
    match words:
        case ["every", *span]:
            return _read_every(" ".join(span), made_at)
        case [macro] if macro in MACROS:
            return _read_cron(MACROS[macro], text, timezone)
        case ["hourly"]:
            return _read_cron(MACROS["@hourly"], text, timezone)
        case [days, clock] if days in EACH:
            return _read_cron(f"{_clock(clock, text)} * * {EACH[days]}", text, timezone)
        case ["weekly", day, clock] if day in WEEKDAYS:
            return _read_cron(f"{_clock(clock, text)} * * {WEEKDAYS[day]}", text, timezone)
        case ["monthly", day, clock] if re.fullmatch(r"\d\d?|last", day):
            day = "L" if day == "last" else day
            return _read_cron(f"{_clock(clock, text)} {day} * *", text, timezone)
        case [_, _, _, _, _]:
            return _read_cron(" ".join(words), text, timezone)
    return _read_once(text, timezone)


def _read_every(span: str, made_at: int) -> Every:
    """`30m`, `30minutes`, and `minute` alone."""
    parts = re.fullmatch(r"(\d{0,8}) ?(s|m|h|d|w|sec|min|second|minute|hour|day|week)s?", span)
    seconds = int(parts[1] or 1) * UNITS[parts[2][0]] if parts else 0
    if not 0 < seconds <= LONGEST_PERIOD_SECONDS:
        raise RelightError(f"a job cannot run every {span or '…'}", HINT)
    return Every(seconds * 1000, made_at // 1000 * 1000, f"every {format_span(seconds)}")


def _clock(text: str, schedule: str) -> str:
    """`07:00` as the first two fields of a cron expression."""
    clock = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
    if clock is None:
        raise RelightError(f"{text!r} in the schedule {schedule!r} is not a time of day", HINT)
    return f"{int(clock[2])} {int(clock[1])}"


def _read_cron(expression: str, text: str, timezone: str) -> Cron:
    from cronsim import CronSim, CronSimError

    try:
        parsed = CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
        words = reword(parsed.explain())
        next(parsed)
    except CronSimError as error:
        why = str(error).lower()
        raise RelightError(f"the schedule {text!r} cannot be parsed: {why}", HINT) from None
    except StopIteration:
        raise RelightError(f"the schedule {text!r} is never due", HINT) from None
    return Cron(expression, timezone, words)


def reword(words: str) -> str:
    """Return cronsim's words for a schedule in plainer ones, the days before the time.

    >>> reword("At 07:00 every day"), reword("At 04:15 on Monday, Wednesday, and Friday")
    ('every day at 07:00', 'every Monday, Wednesday and Friday at 04:15')
    >>> reword("Every 15th minute from 09:00 through 17:59 on Monday through Friday")
    'every 15 minutes from 09:00 to 17:59 on Monday to Friday'
    """
    # it says 21th
    words = re.sub(r"(?<!1)([123])th\b", lambda one: one[1] + ORDINALS[one[1]], words)
    words = words.replace(", and ", " and ").replace(" through ", " to ")
    words = words[:1].lower() + words[1:]
    if clock := re.fullmatch(r"at ([\d:]+(?:(?:, | and )[\d:]+)*) ((?:every|on|in) .+)", words):
        days = re.sub(r"^on (?=[A-Z][a-z]+day to )", "", clock[2])
        days = re.sub(r"^on (?=[A-Z][a-z]+day\b)", "every ", days)
        return f"{days} at {clock[1]}"
    period = re.match(r"every (\w+) minute(?: of every hour)?(?!\w)", words)
    if period and period[1] in PERIODS:
        return f"every {PERIODS[period[1]]} minutes{words[period.end() :]}"
    return words


def _read_once(text: str, timezone: str) -> Once:
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(timezone))
        at = round(moment.timestamp()) * 1000
    except (ValueError, OverflowError):
        raise RelightError(f"the schedule {text!r} cannot be parsed", HINT) from None
    if moment.year not in YEARS:  # the first and the last day of time have no name in some zones
        years = f"{YEARS[0]} to {YEARS[-1]}"
        raise RelightError(f"the schedule {text!r} is outside the years {years}", HINT)
    return Once(at, f"once, at {format_moment(at, timezone)}")


def find_next(schedule: Schedule, after: int) -> int | None:
    """The first slot after a moment; None if it was the last."""
    return next(schedule.slots(after), None)


def find_last(schedule: Schedule, *, due: int, now: int) -> int:
    """The last slot up to `now`, at least `due`, which is one."""
    if isinstance(schedule, Every):
        return max(due, now - (now - schedule.anchor) % schedule.period_ms)
    for seconds in WINDOWS_SECONDS:
        start = max(due, now - seconds * 1000)
        last = start if start == due else None
        for slot in schedule.slots(start):
            if slot > now:
                break
            last = slot
        if last is not None:
            return last
    return due


def count_missed_slots(schedule: Schedule, *, due: int, last: int, limit: int) -> int:
    """The number of slots from `due` on before `last`, at most `limit`."""
    missed = 0
    for slot in chain([due], schedule.slots(due)):
        if slot >= last or missed == limit:
            break
        missed += 1
    return missed


def find_grace_ms(schedule: Schedule, slot: int) -> int:
    """The grace of a late slot: half the time to the next one, from 2 minutes to 2 hours."""
    following = find_next(schedule, slot)
    if following is None:
        return LONGEST_GRACE_MS
    return min(max((following - slot) // 2, SHORTEST_GRACE_MS), LONGEST_GRACE_MS)


def read_span(text: str) -> float:
    """Seconds from `90`, `90s`, `10m`, `2h` or `1d`.

    >>> read_span("10m")
    600.0
    """
    span = re.fullmatch(r"(\d{1,8}(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower())
    if span is None or not float(span[1]):
        raise RelightError(f"{text!r} is not a duration", "write 90s, 10m, 2h or 1d")
    return float(span[1]) * UNITS[span[2] or "s"]


def format_span(seconds: int) -> str:
    """A span of time in words.

    >>> format_span(1800), format_span(3600), format_span(5400)
    ('30 minutes', 'hour', '90 minutes')
    """
    unit = next(key for key in ("w", "d", "h", "m", "s") if seconds % UNITS[key] == 0)
    number = seconds // UNITS[unit]
    return UNIT_NAMES[unit] if number == 1 else f"{number} {UNIT_NAMES[unit]}s"
