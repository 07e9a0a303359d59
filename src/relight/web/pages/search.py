"""Search: what was said and done in all sessions, each hit leading to its step."""

from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.reports.search import Hit, find_hits
from relight.store import Store
from relight.store.queries.sessions import SessionOutcome, read_outcomes
from relight.web.page import Context, View

SHOWN, MOST_SHOWN = 50, 100  # all sessions of most words; more would be a long page


class HitGroup(Struct, frozen=True):
    """The hits of one session that stand together."""

    session_id: str
    title: str | None
    project: str | None
    outcome: SessionOutcome
    hits: list[Hit]


def show(view: View) -> Context:
    """Return the hits of the query in the address; a query that cannot match says why."""
    query = view.query.get("q", "").strip()
    empty: Context = {"query": query, "groups": [], "total": 0, "shown": 0, "more": 0}
    if not query:
        is_empty = not view.store.has_rows("session")
        return {**empty, "note": None, "trouble": None, "is_empty": is_empty}
    try:
        chosen = replace(view.chosen, since=None, until=None)
        is_all = view.query.get("all") == "hits"
        limit = MOST_SHOWN if is_all else SHOWN
        found = find_hits(view.store, query, chosen, limit=limit)
    except RelightError as error:
        trouble = f"{error.message}: {error.hint}" if error.hint else error.message
        return {**empty, "note": None, "trouble": trouble}
    return {
        "query": query,
        "groups": _group(view.store, found.hits),
        "total": found.total,
        "shown": len(found.hits),
        # fewer if they are in too many sessions to be read
        "more": 0 if is_all else min(found.total or 0, MOST_SHOWN) - len(found.hits),
        "note": found.note,
        "trouble": None,
    }


def _group(store: Store, hits: list[Hit]) -> list[HitGroup]:
    groups = []
    outcomes = read_outcomes(store, list({hit.session_id for hit in hits}))
    for session_id, some in groupby(hits, key=lambda hit: hit.session_id):
        shown = list(some)
        outcome = outcomes[session_id]
        groups.append(HitGroup(session_id, shown[0].title, shown[0].project, outcome, shown))
    return groups
