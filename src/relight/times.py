"""Times as agents write them, as Unix milliseconds and calendar days."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from relight.errors import RelightError, describe, refuse

QUARTER_HOUR_MS = 900_000
# the year 9999: from 1970 to there a moment has a day in every zone
LATEST_MS = 253_370_764_800_000
# as people type them; eight digits are a date, 20261115
SECONDS = re.compile(r"(?!\d{8}$)\d{1,10}(\.\d+)?", re.ASCII)


def find_zone(name: str) -> tzinfo:
    """Return the time zone of that name; that of most servers needs no `zoneinfo`, 3 ms to load."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def read_time(value: object) -> int | None:
    """Return Unix milliseconds from ISO-8601 text or Unix seconds; None if it is not a time.

    No agent is older than 1970: times before it, or after the year 9998, are not accepted.

    >>> read_time("2026-11-15T03:12:00.218Z")
    1794712320218
    >>> read_time(1794712320.5)
    1794712320500
    >>> read_time("yesterday") is None
    True
    """
    at = None
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            at = round(moment.timestamp() * 1000)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            at = round(value * 1000)
    except (ValueError, OverflowError):
        pass
    return at if at is not None and 0 <= at < LATEST_MS else None


def take_time(name: str, value: object) -> int:
    """Return Unix milliseconds of the parameter `name`; raise if it is not a time.

    >>> take_time("now", datetime(2026, 11, 15, 3, 12, tzinfo=UTC))
    1794712320000
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        at = read_time(value.timestamp())
    else:
        at = read_time(value)
    if at is None:
        raise refuse(
            name,
            f"must be a time from 1970 to 9998, not {describe(value)}",
            "give an aware datetime, ISO-8601 text such as 2026-11-15T09:00:00Z or 20261115,"
            " or Unix seconds",
        )
    return at


def read_typed(text: str, *, timezone: str) -> str | float | datetime:
    """Return a typed time for `take_time`: digits are Unix seconds, but eight are a date.

    >>> read_typed("1794712320.5", timezone="UTC")
    1794712320.5
    >>> read_typed("20261115", timezone="Asia/Tokyo").isoformat()
    '2026-11-15T00:00:00+09:00'
    """
    if SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment if moment.tzinfo else moment.replace(tzinfo=find_zone(timezone))


def write_time(at: int | None) -> str | None:
    """Return ISO-8601 in UTC, as all JSON shows it.

    >>> write_time(1794712320218)
    '2026-11-15T03:12:00.218Z'
    """
    if at is None:
        return None
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def format_moment(at: int, timezone: str) -> str:
    """A moment as local time in a time zone.

    >>> format_moment(1794712320000, "Europe/Berlin")
    'Sun 2026-11-15 04:12 CET'
    """
    moment = datetime.fromtimestamp(at / 1000, UTC).astimezone(find_zone(timezone))
    seconds = ":%S" if moment.second else ""
    return moment.strftime(f"%a %Y-%m-%d %H:%M{seconds} %Z")


def format_minute(at: str | None, timezone: str) -> str:
    """A stored moment as local time to the minute, for tables; `never` if there is none.

    >>> format_minute("2026-11-15T03:12:40.218Z", "Europe/Berlin"), format_minute(None, "UTC")
    ('Sun 2026-11-15 04:12 CET', 'never')
    """
    moment = read_time(at)
    return "never" if moment is None else format_moment(moment // 60_000 * 60_000, timezone)


def check_timezone(name: str, place: str = "") -> None:
    """Raise if there is no such time zone; `place` is where it is named."""
    try:
        find_zone(name)
    except (ValueError, OSError, LookupError) as error:
        hint = 'name one such as "Europe/Berlin" or "UTC"'
        raise RelightError(f"{place}timezone {name!r} is not known", hint) from error


@lru_cache(maxsize=8)
def day_reader(timezone: str) -> Callable[[int | None], str | None]:
    """Return a function that gives the calendar day of a moment in `timezone`.

    Clocks change at quarter hours everywhere, so the result is cached for each quarter.
    """
    zone = find_zone(timezone)

    @lru_cache(maxsize=65536)
    def day_of_quarter(quarter: int) -> str | None:
        try:
            moment = datetime.fromtimestamp(quarter * QUARTER_HOUR_MS / 1000, zone)
        except (ValueError, OverflowError, OSError):
            return None
        return moment.date().isoformat()

    def read_day(at: int | None) -> str | None:
        return None if at is None else day_of_quarter(at // QUARTER_HOUR_MS)

    return read_day


def uuid7_time(name: str) -> int | None:
    """Return the moment inside a UUIDv7, whose first 48 bits are Unix milliseconds.

    >>> uuid7_time("01a1dd31-17d7-7420-9fbf-d960215b41b5")
    1794712344535
    """
    if len(name) == 36 and name[14] == "7":
        try:
            return read_time(int(name[:8] + name[9:13], 16) / 1000)
        except ValueError:
            pass
    return None
