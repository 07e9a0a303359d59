"""Sessions: searched, filtered and sorted, one page at a time."""

from typing import Any

from msgspec.structs import asdict

from relight.judging.kinds import CATEGORIES
from relight.model import OUTCOMES
from relight.reports.listing import list_sessions
from relight.reports.narrowing import explain_no_session
from relight.store.queries.listing import SORTS, Listing
from relight.web.filters import WITHIN
from relight.web.page import Context, View, find_view_number

SHOWN = 50


def show(view: View) -> Context:
    """Return one page of the sessions that match the address."""
    sort = view.query.get("sort", "started")
    is_ascending = view.query.get("order") == "asc"
    within: dict[str, Any] = {name: view.query.get(name) or None for name in WITHIN}
    if within["version"]:
        within["version"] = find_view_number(view, "version")
    wanted = Listing(
        search=view.filters.search or None,
        sort=sort,
        is_ascending=is_ascending,
        after=view.query.get("after"),
        limit=SHOWN,
        **within,
    )
    found = list_sessions(view.store, view.chosen, wanted)
    is_empty = not found.sessions and wanted.after is None
    return {
        **asdict(found),
        "why": explain_no_session(view.store, view.chosen, wanted) if is_empty else None,
        "sort": sort,
        "is_ascending": is_ascending,
        "sorts": {name: _sort_link(view, name, sort, is_ascending) for name in SORTS},
        "within": {name: value for name, value in within.items() if value},
        "named": ("skill", "job"),
        "outcomes": OUTCOMES,
        "categories": CATEGORIES,
    }


def _sort_link(view: View, name: str, sort: str, is_ascending: bool) -> str:
    """Return the link of a column's heading: the current column reverses its order."""
    is_reversed = name == sort and not is_ascending
    return view.here(sort=name if name != "started" else None, order="asc" if is_reversed else None)
