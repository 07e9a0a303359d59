"""What sessions of a run have spent."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from relight.ids import row_id
from relight.model import Usage
from relight.store import Store

FIGURES = """
    select sum(cost_nanos), coalesce(sum(unpriced_turns), 0), sum(input_tokens),
        sum(cache_read_tokens), sum(cache_write_tokens), sum(output_tokens)
    from session_day where root_id = ?
"""


class Figures(Struct, frozen=True, kw_only=True):
    """What was spent, with sub-agents; `cost_nanos` is None unless all of it is known."""

    cost_nanos: int | None = None
    known_nanos: int = 0
    usage: Usage | None = None


def add_figures(store: Store, sessions: Sequence[str]) -> Figures:
    """What these sessions spent in all."""
    return total_figures(_read_figures(store, name) for name in sessions)


def total_figures(parts: Iterable[Figures]) -> Figures:
    """The sum of several; of none at all nothing is known."""
    listed = list(parts)
    costs = [one.cost_nanos for one in listed if one.cost_nanos is not None]
    usages = [one.usage for one in listed if one.usage is not None]
    return Figures(
        cost_nanos=sum(costs) if listed and len(costs) == len(listed) else None,
        known_nanos=sum(one.known_nanos for one in listed),
        usage=Usage(
            input=_add(one.input for one in usages),
            cache_read=_add(one.cache_read for one in usages),
            cache_write=_add(one.cache_write for one in usages),
            output=_add(one.output for one in usages),
        )
        if usages
        else None,
    )


def _read_figures(store: Store, session: str) -> Figures:
    root = row_id("session", *session.split(":", 1))
    ((nanos, unpriced, *buckets),) = store.query(FIGURES, (root,))
    usage = Usage(*buckets)
    return Figures(
        cost_nanos=None if unpriced else nanos,
        known_nanos=nanos or 0,
        usage=usage if usage != Usage() else None,
    )


def _add(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
