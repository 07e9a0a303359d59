"""Full-text search over what was said and done, each hit with the very step that it is from.

The index gives the sessions that match. Their traces give the steps and the snippets, so that a
text which is no longer on the tape is never shown. How many traces a search reads is limited.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal

from msgspec import Struct

from relight.chat.messages import read_object
from relight.errors import RelightError, as_typed
from relight.redact import redact_cell
from relight.reports.conversation import Item
from relight.reports.filters import read_filter
from relight.reports.narrowing import explain_no_match, list_given, make_filter
from relight.reports.search_query import Matcher, SearchText, Term, parse_query
from relight.reports.trace import read_numbered
from relight.sources.events import RESULT_CHARACTERS
from relight.store import Store
from relight.store.derive.search_text import KINDS, split_call
from relight.store.queries import group_rows
from relight.store.queries.filters import Filter
from relight.store.queries.sessions import FoundSession, read_facts
from relight.store.search_index import FoundTexts, find_matching, find_missing_share, has_match
from relight.text import join_words
from relight.times import write_time

HitKind = Literal["prompt", "answer", "call", "result"]
# a prompt says what a session is about; a result often quotes a file that has nothing to do with it
WEIGHTS = {"prompt": 4.0, "answer": 2.0, "call": 2.0, "result": 1.0}
# a session counts half as much as one that is so much newer
HALF_LIFE_MS = 30 * 86_400_000
# how many hits of one session stand before those of the next
SESSION_HITS = 3
MOST_HITS = 200
# how many traces one search reads at most: enough for a page of hits, few enough to stay quick
MOST_TRACES = 60
NAMED_TERMS = 5  # in the reason why nothing was found


class Hit(Struct, frozen=True):
    """A text that matches a query, and the step of the session that it is in."""

    session_id: str
    step: int
    kind: HitKind
    at: str | None
    tool: str | None
    title: str | None
    project: str | None
    snippet: str


class FoundStep(Struct, frozen=True):
    """A step with a text that matches; only those that are shown get a snippet."""

    step: int
    kind: HitKind
    item: Item
    text: SearchText
    facts: FoundSession

    def write(self, store: Store, matcher: Matcher) -> Hit:
        """Return the hit as it is shown: words, and paths that are not among them; no secrets."""
        text = self.text
        paths = (path for path in text.paths.split("\n") if path not in text.words)
        shown = matcher.write_snippet("\n".join(filter(None, [text.words, *paths])))
        # a sub-agent has the title of the session that it works for
        root = None if self.facts.title else read_facts(store, self.facts.root_id)
        return Hit(
            session_id=self.facts.session,
            step=self.step,
            kind=self.kind,
            at=write_time(self.item.at),
            tool=self.item.tool,
            title=self.facts.title or (root.title if root else None),
            project=self.facts.project,
            snippet=redact_cell(shown, key=store.redaction_key),
        )


class SearchResult(Struct, frozen=True):
    """Hits, the best first, and the number of all texts that match, null if it is not known.

    `note` says why there are no hits, or what is not in the index yet.
    """

    hits: list[Hit]
    total: int | None
    note: str | None = None


class RankedSession(Struct, frozen=True):
    """A session with matching texts; `score` is that of the best of them."""

    id: int
    score: float
    kinds: frozenset[str]


def search(
    store: Store,
    query: str,
    *,
    since: str = "all",
    until: str | None = None,
    source: str | None = None,
    model: str | None = None,
    project: str | None = None,
    tool: str | None = None,
    failed: bool = False,
    limit: int = 20,
    now: datetime | None = None,
) -> list[Hit]:
    """Return the texts that match a query, best first; `failed` is for failed tool calls only.

    A query has words (all must be in one text), "a phrase", prefix*, -without, path:… and tool:….
    """
    chosen = read_filter(
        store, since=since, until=until, source=source, model=model, project=project, now=now
    )
    return find_hits(store, query, chosen, tool=tool, failed=failed, limit=limit).hits


def find_hits(
    store: Store,
    query: str,
    chosen: Filter,
    *,
    tool: str | None = None,
    failed: bool = False,
    limit: int = 20,
) -> SearchResult:
    """Return the hits of a query in this part of the record, with their number."""
    if not 1 <= limit <= MOST_HITS:
        raise RelightError(
            f"limit must be 1 to {MOST_HITS}, got {limit}", "narrow the query instead"
        )
    terms = parse_query(f'{query} tool:"{tool}"' if tool and not query.strip() else query)
    if tool:
        terms += [one for one in parse_query(f'tool:"{tool}"') if one not in terms]
    found = find_matching(store, terms, chosen)
    if failed:
        found = [one for one in found if KINDS[one.kind] in ("call", "result")]
    ranked = rank_sessions(found)
    matcher = Matcher(terms)
    groups, is_whole = _read_groups(store, ranked, matcher, failed=failed, limit=limit)
    hits = [found.write(store, matcher) for found in _choose(groups, limit)]
    if failed:
        total = sum(map(len, groups)) if is_whole else None
    else:
        total = sum(one.texts for one in found)
    note = _note_missing(store)
    if not hits:
        note = " · ".join(filter(None, [_explain(store, terms, chosen, failed=failed), note]))
    return SearchResult(hits, total, note)


def rank_sessions(found: Iterable[FoundTexts]) -> list[RankedSession]:
    """Return the sessions, best first: those with matching prompts, and recent ones.

    A session's age counts from the newest of them, so that the order does not depend on the clock.
    """
    found = list(found)
    newest = max((one.started_at or 0 for one in found), default=0)
    ranked = []
    for session_id, some in group_rows(found, lambda one: one.session_id).items():
        age = newest - (some[0].started_at or 0)
        kinds = frozenset(KINDS[one.kind] for one in some)
        score = max(map(WEIGHTS.__getitem__, kinds)) * 0.5 ** (age / HALF_LIFE_MS)
        ranked.append(RankedSession(session_id, score, kinds))
    return sorted(ranked, key=lambda one: (-one.score, one.id))


def _read_groups(
    store: Store,
    ranked: Sequence[RankedSession],
    matcher: Matcher,
    *,
    failed: bool,
    limit: int,
) -> tuple[list[list[FoundStep]], bool]:
    """Return the hits of the best sessions; False if sessions were left that may have more."""
    groups: list[list[FoundStep]] = []
    enough = 0
    for one in islice(ranked, MOST_TRACES):
        hits = _find_steps(store, one, matcher, failed=failed)
        if hits:
            groups.append(hits)
            enough += min(len(hits), SESSION_HITS)
        if enough >= limit and not failed:
            break
    return groups, len(ranked) <= MOST_TRACES


def _choose(groups: Sequence[Sequence[FoundStep]], limit: int) -> list[FoundStep]:
    """Return the first hits of each session; if they are too few, the others as well."""
    taken = [min(len(hits), SESSION_HITS) for hits in groups]
    spare = limit - sum(taken)
    for number, hits in enumerate(groups):
        more = min(max(spare, 0), len(hits) - taken[number])
        taken[number] += more
        spare -= more
    chosen = [hit for hits, count in zip(groups, taken, strict=True) for hit in hits[:count]]
    return chosen[:limit]


def _find_steps(
    store: Store, ranked: RankedSession, matcher: Matcher, *, failed: bool
) -> list[FoundStep]:
    """Return the hits of one session, prompts first; none if its tape has gone meanwhile."""
    numbered = read_numbered(store, ranked.id)
    errors = {number for number, call in numbered.calls.items() if call.label == "error"}
    found = [
        FoundStep(step, kind, item, text, numbered.facts)
        for step, item in enumerate(numbered.items, start=1)
        if not failed or item.call in errors
        for kind, text in _list_texts(item, ranked.kinds, matcher)
        if matcher.matches(text)
    ]
    return sorted(found, key=lambda one: (-WEIGHTS[one.kind], one.step))


def _list_texts(
    item: Item, kinds: Container[str], matcher: Matcher
) -> Iterator[tuple[HitKind, SearchText]]:
    """Yield the texts of a step that the index has, of these kinds; most others are left out."""
    if item.kind == "prompt" and "prompt" in kinds:
        yield "prompt", SearchText("\n".join(filter(None, [item.text, item.injected])))
    elif item.kind == "answer" and "answer" in kinds:
        yield "answer", SearchText(item.text or "")
    elif item.kind == "call":
        if "call" in kinds and matcher.may_match(item.arguments or ""):
            words, paths = split_call(read_object(item.arguments))
            yield "call", SearchText("\n".join(words), "\n".join(paths), item.tool)
        if "result" in kinds and item.result:
            yield "result", SearchText(item.result[:RESULT_CHARACTERS], "", item.tool)


def _explain(store: Store, terms: Sequence[Term], chosen: Filter, *, failed: bool) -> str:
    """Return the reason why nothing was found."""
    wanted = [one for one in terms if not one.is_excluded]
    unknown = [one.describe() for one in wanted if not has_match(store, [one])]
    if unknown:
        rest = len(unknown) - NAMED_TERMS
        more = [f"{rest} more"] if rest > 0 else []
        return f"no text has {join_words([*unknown[:NAMED_TERMS], *more], 'or')}"
    if not has_match(store, wanted):
        return "each of these is found, but no single text has all of them"
    if not has_match(store, terms):
        return "every text that matches has a word that the query excludes"
    if failed and find_matching(store, terms, chosen):
        return "none of the calls that match failed"

    def count(given: Mapping[str, str]) -> int:
        return sum(one.texts for one in find_matching(store, terms, make_filter(given)))

    return explain_no_match(store, "matching text", list_given(chosen), count).text


def _note_missing(store: Store) -> str | None:
    share = find_missing_share(store)
    if not share:
        return None
    return as_typed(
        f"{max(share, 0.01):.0%} of the records are not in the search index yet:"
        " each import adds more, `relight rebuild` adds all"
    )
