"""A session with all its sub-agents, and theirs."""

from collections.abc import Iterable, Mapping
from typing import Any

from relight.reports.totals import SUMS, figures
from relight.store import Store

# all of one family are below one root, which an index finds; `union` ends where a circle closes
FAMILY = """
    with recursive family (id, root) as (
        select id, root_id from session where id = ?1
        union
        select session.id, root from family
        join session on root_id = root and parent_id = family.id and parent_kind = 'subagent'
    )
"""
# what `sum_family` tells
FIGURES = (*figures([0] * len(SUMS)), "failed_turns")


def sum_family(
    store: Store, session_id: int, *, unwritten: Iterable[Mapping[str, int | None]] = ()
) -> dict[str, Any]:
    """The figures of a session and all below it, and of what is not in the store yet.

    Time is the session's own, in which theirs passes.
    """
    names = [name for name in SUMS if name != "failed_turns"]
    sums = ", ".join(f"sum({name})" for name in names if name != "wall_ms")
    with store.reading() as database:
        row = database.execute(
            f"{FAMILY} select 1, {sums},"
            " (select ended_at - started_at from session where id = ?1)"
            " from session_day where session_id in (select id from family)",
            (session_id,),
        ).fetchone()
        (failed,) = database.execute(
            f"{FAMILY} select count(*) from turn"
            " where session_id in (select id from family) and failure is not null",
            (session_id,),
        ).fetchone()
    found = dict(zip(names, row[1:], strict=True))
    for more in unwritten:
        for name, value in more.items():
            found[name] = found[name] if value is None else (found[name] or 0) + value
    return {**figures((1, *found.values())), "failed_turns": failed}
