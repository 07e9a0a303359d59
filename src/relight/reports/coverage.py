"""How success rates are shown: counts are the number, and a share only if enough is known."""

MINIMUM_KNOWN = 5
MINIMUM_SHARE = 0.3


def find_rate(successes: int, known: int, total: int | None = None) -> float | None:
    """Return the share of successes; None if too few outcomes are known, or too small a part.

    >>> find_rate(24, 30), find_rate(0, 1), find_rate(9, 10, 100)
    (0.8, None, None)
    """
    whole = known if total is None else total
    if known < MINIMUM_KNOWN or known < MINIMUM_SHARE * whole:
        return None
    return successes / known


def count_known(successes: int, known: int) -> str:
    """Return successes among known outcomes, as the number that people read first.

    >>> count_known(24, 30), count_known(0, 0)
    ('24 of 30', '–')
    """
    return f"{successes:,} of {known:,}" if known else "–"
