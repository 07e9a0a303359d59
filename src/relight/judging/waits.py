"""The wait that the other side asks for, read from its headers or its text."""

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from relight.judging.error_text import decode_text

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def read_wait_headers(headers: Mapping[Any, Any], now: float | None = None) -> float | None:
    """Return the seconds of `Retry-After`, a number or a date."""
    lowered = {
        decode_text(name).lower(): decode_text(value).strip() for name, value in headers.items()
    }
    if (seconds := _read_seconds(lowered.get("retry-after-ms"))) is not None:
        return seconds / 1000
    after = lowered.get("retry-after")
    if (seconds := _read_seconds(after)) is not None:
        return seconds
    if after and (at := _read_date(after)) is not None:
        return _count_seconds(at, now)
    return None


def read_wait_text(
    text: str,
    *,
    spans: Iterable[re.Pattern[str]],
    clocks: Iterable[re.Pattern[str]],
    now: float | None = None,
) -> float | None:
    """Return the seconds that a text asks to wait: a span, or the time until a moment."""
    for pattern in spans:
        if found := pattern.search(text):
            parts = [float(text) * UNITS[unit] for unit, text in found.groupdict().items() if text]
            if parts:
                return sum(parts)
    for pattern in clocks:
        if found := pattern.search(text):
            with suppress(ValueError, OverflowError, OSError, LookupError):
                return _count_seconds(_read_moment(found.groupdict(), now), now)
    return None


def _read_seconds(text: str | None) -> float | None:
    if text and re.fullmatch(r"\d+(?:\.\d*)?", text):
        return float(text)
    return None


def _read_date(text: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _read_moment(parts: Mapping[str, str | None], now: float | None) -> float:
    """Return Unix seconds of a moment; a time of day is the next one, and a day without a year."""
    if epoch := parts.get("epoch"):
        return float(epoch)
    if iso := parts.get("iso"):
        return datetime.fromisoformat(iso.replace(" UTC", "+00:00")).astimezone().timestamp()
    zone = _find_zone(parts.get("zone"))
    today = datetime.fromtimestamp(time.time() if now is None else now, zone)
    hour = int(parts["hour"] or 0) % 12 + (12 if (parts["half"] or "").lower() == "p" else 0)
    at = today.replace(hour=hour, minute=int(parts["minute"] or 0), second=0, microsecond=0)
    if month := parts.get("month"):
        year = int(parts["year"] or today.year)
        at = at.replace(
            year=year, month=MONTHS.index(month.lower()) + 1, day=int(parts["day"] or 1)
        )
        if parts["year"] is None and at < today - timedelta(days=1):
            at = at.replace(year=year + 1)
    elif at < today:
        at += timedelta(days=1)
    # local times without a zone are this machine's, also after its clocks change
    return (at if zone else at.replace(tzinfo=None)).timestamp()


def _find_zone(name: str | None) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name) if name else None


def _count_seconds(at: float, now: float | None) -> float:
    return max(0.0, at - (time.time() if now is None else now))
