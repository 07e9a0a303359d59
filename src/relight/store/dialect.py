"""SQL that engines write differently, as functions that return its text; today for SQLite.

Everything else in Relight's statements is portable: `case` instead of `iif`, `on conflict` instead
of `insert or …`, `nulls first` or `nulls last` for a sorted column that can be null.
"""


def greatest(*values: str) -> str:
    """The largest of these values that are not null; null only if all are.

    >>> greatest("at", "?")
    'max(coalesce(at, ?), coalesce(?, at))'
    """
    return _choose("max", values)


def least(*values: str) -> str:
    """The smallest of these values that are not null; null only if all are."""
    return _choose("min", values)


def same(first: str, second: str) -> str:
    """True if both are equal or both are null: `is not distinct from`.

    >>> same("model", ":model")
    'model is :model'
    """
    return f"{first} is {second}"


def differs(first: str, second: str) -> str:
    """True if the values are unequal, or only one of them is null: `is distinct from`."""
    return f"{first} is not {second}"


def count_if(test: str) -> str:
    """The number of rows that pass a test, 0 if none does.

    >>> count_if("label = 'error'")
    "count(case when label = 'error' then 1 end)"
    """
    return f"count(case when {test} then 1 end)"


def flag(test: str) -> str:
    """1 if a test is true, else 0, also where it is null."""
    return f"case when {test} then 1 else 0 end"


def _choose(function: str, values: tuple[str, ...]) -> str:
    """A scalar `max` or `min`, which in SQLite is null as soon as one value is."""
    turned = [values[place:] + values[:place] for place in range(len(values))]
    known = [f"coalesce({', '.join(some)})" for some in turned]
    return f"{function}({', '.join(known)})"
