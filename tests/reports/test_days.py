from datetime import date

import pytest

from relight.errors import RelightError
from relight.reports.filters import DAY_WORDS, read_day

SUNDAY = date(2026, 11, 15)


@pytest.mark.parametrize(
    ("typed", "first", "last"),
    [
        ("2026-05-01", "2026-05-01", "2026-05-01"),
        ("20260501", "2026-05-01", "2026-05-01"),
        ("today", "2026-11-15", "2026-11-15"),
        ("Yesterday", "2026-11-14", "2026-11-14"),
        ("sunday", "2026-11-15", "2026-11-15"),
        ("monday", "2026-11-09", "2026-11-09"),
        ("SATURDAY", "2026-11-14", "2026-11-14"),
        ("1d", "2026-11-15", "2026-11-15"),
        ("0d", "2026-11-15", "2026-11-15"),
        ("7d", "2026-11-09", "2026-11-09"),
        ("1w", "2026-11-09", "2026-11-09"),
        ("2w", "2026-11-02", "2026-11-02"),
        ("month", "2026-11-01", "2026-11-30"),
        ("year", "2026-01-01", "2026-12-31"),
        ("all", None, None),
    ],
)
def test_a_day_is_read_as_people_type_it(typed: str, first: str | None, last: str | None) -> None:
    assert read_day(typed, today=SUNDAY) == first
    assert read_day(typed, today=SUNDAY, is_last=True) == last


def test_every_word_for_a_day_is_a_day_on_every_date() -> None:
    for today in (date(2024, 2, 29), date(2026, 12, 31), date(2026, 1, 1), date(2026, 1, 31)):
        for word in DAY_WORDS:
            first = read_day(word, today=today) or ""
            last = read_day(word, today=today, is_last=True) or ""
            assert first <= today.isoformat()
            assert first <= last


@pytest.mark.parametrize("typed", ["", "banana", "7", "d", "-7d", "٣d", "999999w", "2026-13-01"])
def test_what_is_no_day_is_an_error_that_says_what_is(typed: str) -> None:
    with pytest.raises(RelightError, match="is not a day") as raised:
        read_day(typed, today=SUNDAY)
    assert "yesterday" in (raised.value.hint or "")
