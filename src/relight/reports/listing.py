"""Lists of sessions, a page at a time."""

import re

from msgspec import Struct

from relight.errors import ParameterError, RelightError
from relight.sources.resume import resume_line
from relight.store import Store
from relight.store.queries import listing as queries
from relight.store.queries import take_fields
from relight.store.queries.filters import Filter
from relight.store.queries.listing import COUNTED, SORTS, Listing, ListingRow, SessionLine
from relight.text import make_line

LARGEST_PAGE = 500
CURSOR = re.compile(r"([0-9]{1,19})_(-?[0-9]{1,19})")
MOST = 2**63 - 1  # the largest number of a database
# the newest sessions, which are compared
COMPARED = 500
SHOWN = 5
# below this, texts share a common word by chance
LEAST = 0.1


class ListedSession(SessionLine, frozen=True):
    """A session of a list as every face shows it.

    `resume` is the shell line that continues it in its agent, null if the agent cannot.
    """

    resume: str | None


class SessionPage(Struct, frozen=True):
    """A page of sessions; `count` is of all pages, and `next` the cursor of the next page.

    `is_more` says that there are more than `count`.
    """

    sessions: list[ListedSession]
    count: int
    is_more: bool
    next: str | None


def list_sessions(
    store: Store, chosen: Filter | None = None, listing: Listing | None = None
) -> SessionPage:
    """Return a page of sessions; sub-agents are counted in their parents' unless asked for."""
    wanted = listing or Listing()
    if wanted.sort not in SORTS:
        raise RelightError(f"cannot sort by {wanted.sort!r}", f"there are {', '.join(SORTS)}")
    if not 1 <= wanted.limit <= LARGEST_PAGE:
        raise RelightError(f"a page has 1 to {LARGEST_PAGE} sessions", "ask for several pages")
    after = None if wanted.after is None else _read_cursor(wanted.after)
    asked = queries.select_sessions(store, chosen or Filter(), wanted)
    in_days = queries.count_in_days(store, asked)
    rows: list[ListingRow] = []
    if asked.quick:
        rows = queries.read_page(store, wanted, asked, after, way="quick")
    if len(rows) <= wanted.limit:
        # a scan soon meets one of many sessions; few are found faster by looking each of them up
        is_few = in_days is not None and in_days <= COUNTED and not asked.rest
        way = "lookup" if is_few else "scan"
        rows = queries.read_page(store, wanted, asked, after, way=way)
    has_more = len(rows) > wanted.limit
    shown = rows[: wanted.limit]
    count = len(rows)
    if has_more or after is not None:
        is_counted = in_days is not None and not asked.rest
        count = (in_days or 0) if is_counted else queries.count_listed(store, asked)
    return SessionPage(
        sessions=[_make_listed(row) for row in shown],
        count=min(count, COUNTED),
        is_more=count > COUNTED,
        next=f"{shown[-1].place}_{shown[-1].root_id}" if has_more else None,
    )


def find_similar(
    store: Store, task: str, chosen: Filter, *, limit: int = SHOWN
) -> list[tuple[ListedSession, float]]:
    """Return the sessions whose title is most similar to a task, with the similarity.

    A session's title is what it was asked first. Words that many titles have count less.
    """
    from relight.chat.similarity import cosine, rarity, weigh, weigh_words

    sessions = list_sessions(store, chosen, Listing(limit=COMPARED)).sessions
    titles = [weigh_words(one.title or "") for one in sessions]
    holding: dict[str, int] = {}
    for words in titles:
        for word in words:
            holding[word] = holding.get(word, 0) + 1
    number = len(titles)
    rarities = {word: rarity(number, count) for word, count in holding.items()}
    wanted = weigh(weigh_words(task), rarities, unseen=rarity(number, 0))
    alike = [cosine(wanted, weigh(words, rarities, unseen=0.0)) for words in titles]
    ranked = sorted(zip(sessions, alike, strict=True), key=lambda one: -one[1])
    return [(one, round(value, 3)) for one, value in ranked[:limit] if value >= LEAST]


def name_outcome(outcome: str, points_to: str | None) -> str:
    """Return an outcome as a word; one that signs only point to has a question mark.

    >>> name_outcome("success", None), name_outcome("unknown", "failure")
    ('success', 'failure?')
    """
    return f"{points_to}?" if outcome == "unknown" and points_to else outcome


def _make_listed(row: ListingRow) -> ListedSession:
    is_part = row.parent_session_id is not None
    line = resume_line(row.source, row.key, row.project, is_part=is_part)
    return ListedSession(**take_fields(row, SessionLine), resume=line)


def _read_cursor(text: str) -> tuple[int, int]:
    """Return the place and root id after which a page begins."""
    found = CURSOR.fullmatch(text)
    if found is None:
        raise ParameterError(
            f"after must be the `next` of a page, got {make_line(text, 40)!r}",
            "leave it out to begin with the first page",
            names=("after",),
        )
    value, root_id = (max(min(int(one), MOST), -MOST) for one in found.groups())
    return value, root_id
