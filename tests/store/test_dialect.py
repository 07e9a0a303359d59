"""SQL text that depends on the engine."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from relight.store.sql import count_if, differs, flag, greatest, least, same


def evaluate(text: str, **values: Any) -> Any:
    with closing(sqlite3.connect(":memory:")) as database:
        return database.execute(f"select {text}", values).fetchone()[0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [((1, 2), (2, 1)), ((None, 2), (2, 2)), ((1, None), (1, 1)), ((None, None), (None, None))],
)
def test_the_larger_and_smaller_of_two_values_ignore_nulls(
    values: tuple[int | None, int | None], expected: tuple[int | None, int | None]
) -> None:
    named = dict(zip("ab", values, strict=True))
    found = (evaluate(greatest(":a", ":b"), **named), evaluate(least(":a", ":b"), **named))
    assert found == expected


def test_more_than_two_values_are_compared() -> None:
    assert evaluate(greatest(":a", ":b", ":c"), a=None, b=3, c=2) == 3
    assert evaluate(least(":a", ":b", ":c"), a=None, b=3, c=2) == 2


def test_two_nulls_are_the_same_and_one_differs_from_a_value() -> None:
    assert evaluate(same(":a", ":b"), a=None, b=None)
    assert not evaluate(differs(":a", ":b"), a=None, b=None)
    assert evaluate(differs(":a", ":b"), a=None, b=1)


def test_a_test_that_is_null_counts_as_false() -> None:
    assert evaluate(flag(":a = 1"), a=None) == 0
    assert evaluate(flag(":a = 1"), a=1) == 1
    assert evaluate(count_if(":a = 1"), a=None) == 0
