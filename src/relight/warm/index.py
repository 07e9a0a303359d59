"""The word index of live templates: finds those that may be like a task among thousands.

Templates that share the rarest words of their tasks with a new one are found by the weights stored
when they were indexed. They are then compared by all words of their sessions (`likeness`), so the
result does not depend on when the index was built. A template that comes or goes changes its own
words only. The stored weights and the floor are recalculated when the number of templates has
changed by a quarter.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from relight.chat.shorten import clean_text
from relight.chat.similarity import Vector, rarity, weigh, weigh_words
from relight.store import Store, templates
from relight.store import template_words as table
from relight.store.sql import Connection
from relight.store.template_words import Calibration
from relight.warm import likeness

# an index of another form, from an earlier version of Relight, is rebuilt
FORM = 3
DRIFT = 0.25
# words are looked up from the rarest on, until this many rows would be read
POSTINGS = 20_000
# one word in common ("fix", "list") proves nothing, unless the tasks hold little else
FLOOR_ONE_WORD = 0.2
FLOOR_SHARE = 0.2
# the floor is measured on so many templates, among so many others
FLOOR_SAMPLE, FLOOR_OTHERS = 50, 300


def name_facet(kind: str, value: str = "") -> str:
    """Return the entry of the index for a property of a template; no word has a space in it.

    >>> name_facet("tool", "bash")
    'tool bash'
    """
    return clean_text(f"{kind} {value}")


def find_floor(calibration: Calibration, alike: likeness.Likeness, template_id: int) -> float:
    """Return the similarity that a template needs to be given."""
    if alike.similarity[template_id] >= FLOOR_ONE_WORD or len(alike.find_shared(template_id)) > 1:
        return calibration.floor
    return max(calibration.floor, FLOOR_ONE_WORD)


def drop_common(database: Connection, words: Vector) -> Vector:
    """Return the words of a task without those that most tasks hold."""
    holding = {word: one.holding for word, one in table.read_rarities(database, words).items()}
    common = likeness.find_common(words, holding, live=table.read_calibration(database).live)
    return {word: weight for word, weight in words.items() if word not in common}


def find_holders(database: Connection, kind: str, value: str) -> dict[int, float]:
    """Return the templates that have a facet, with its weight."""
    return table.sum_weights(database, [name_facet(kind, value)])


def find_lacking(database: Connection, tools: Collection[str]) -> dict[int, float]:
    """Return the templates that call any other tool than these, with the share of their tools."""
    known = table.read_facets(database, name_facet("tool"))
    return table.sum_weights(database, known - {name_facet("tool", one) for one in tools})


def find_candidates(
    database: Connection,
    words: Vector,
    *,
    limit: int,
    among: Collection[int] | None = None,
    group: Callable[[int], Hashable] = lambda _: None,
) -> list[int]:
    """Return the templates to compare with a task, at most `limit` of each group.

    They are those whose tasks share the rarest words with it, and the newest of the others if
    there is room.
    """
    allowed = templates.read_live_ids(database) if among is None else set(among)
    if len(allowed) <= limit:
        return sorted(allowed)
    known = table.read_rarities(database, words)
    then = {word: one.value for word, one in known.items()}
    task = weigh(words, then, unseen=rarity(table.read_calibration(database).documents, 0))
    rough = _rank_roughly(database, task, {word: one.holding for word, one in known.items()})
    near = [found for found in rough if found in allowed]
    return _take_first([*near, *sorted(allowed.difference(near), reverse=True)], limit, group)


def _take_first(ids: Iterable[int], limit: int, group: Callable[[int], Hashable]) -> list[int]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for one in ids:
        groups[group(one)].append(one)
    return [one for some in groups.values() for one in some[:limit]]


def _rank_roughly(database: Connection, task: Vector, holding: Mapping[str, int]) -> list[int]:
    """Return the templates that share the rarest words of a weighed task, nearest first."""
    taken: Vector = {}
    rows = 0
    for word in sorted((one for one in task if one in holding), key=lambda w: (-task[w], w)):
        if not taken or rows + holding[word] <= POSTINGS:
            taken[word] = task[word]
            rows += holding[word]
    return table.rank_by_words(database, taken)


def refresh_index(database: Connection, template_id: int) -> None:
    """Update the index after a template changed."""
    live = len(templates.read_live_ids(database))
    known = table.read_calibration(database)
    if known.form != FORM or abs(live - known.documents) > DRIFT * known.documents:
        rebuild_index(database)
        return
    table.delete_words(database, template_id)
    for text in templates.read_texts(database, template_id):
        words = weigh_words(text.task)
        unseen = rarity(known.documents, 0)
        table.count_template_words(database, words, unseen=unseen)
        then = {word: one.value for word, one in table.read_rarities(database, words).items()}
        table.insert_words(database, _list_rows(text, weigh(words, then, unseen=unseen)))
    table.write_calibration(database, replace(known, live=live))


def rebuild_index(database: Connection) -> None:
    """Index all live templates again, with today's rarities."""
    table.clear(database)
    _add_missing_words(database)
    texts = templates.read_texts(database)
    vectors = {text.id: weigh_words(text.task) for text in texts}
    holding = Counter(word for words in vectors.values() for word in words)
    rarities = {word: rarity(len(vectors), count) for word, count in holding.items()}
    weighed = {found: weigh(words, rarities, unseen=1.0) for found, words in vectors.items()}
    table.insert_words(
        database, (row for text in texts for row in _list_rows(text, weighed[text.id]))
    )
    table.insert_rarities(
        database,
        [table.RarityRow(word, rarities[word], holding[word]) for word in sorted(holding)],
    )
    floor = _calibrate_floor(database, vectors, holding)
    table.write_calibration(database, Calibration(len(texts), floor, len(texts), FORM))


def _add_missing_words(database: Connection) -> None:
    """Read the words of templates that an earlier Relight made from their seeds."""
    if not (found := templates.read_wordless(database)):
        return
    from relight.warm import words

    for one in found:
        read = words.read_words(one.seed, task=one.task)
        templates.write_words(database, one.id, one.version, read)


def heal(store: Store) -> None:
    """Rebuild the index if it is missing, as it is after a session was forgotten.

    A store that can only be read keeps the one that it has.
    """
    with store.reading() as database:
        is_whole = table.read_calibration(database).form == FORM
    if not is_whole and store.can_write and templates.has_templates(store):
        with store.transaction() as database:
            rebuild_index(database)


def _list_rows(text: templates.TemplateText, weighed: Vector) -> list[table.WordRow]:
    """Return the index rows of a template: its weighed words, and its facets."""
    entries = weighed | _find_facets(text)
    return [table.WordRow(word, text.id, weight) for word, weight in entries.items()]


def _find_facets(text: templates.TemplateText) -> Vector:
    """Return the properties of a template beside its words; its tools share a weight of one."""
    facets = {name_facet("tool", tool): 1 / len(text.tools) for tool in text.tools}
    facets |= {name_facet("tag", tag): 1.0 for tag in text.tags}
    agent = (text.source_session or "").partition(":")[0]
    if not agent and text.provenance:  # an imported template's file names the agent
        agent = text.provenance.get("source") or ""
    facets |= {name_facet("category", text.category): 1.0, name_facet("agent", agent): 1.0}
    return facets | {name_facet("project", text.project or ""): 1.0}


def _calibrate_floor(
    database: Connection, tasks: Mapping[int, Vector], holding: Mapping[str, int]
) -> float:
    """Return the similarity that four templates of five find among the others."""
    if len(tasks) < likeness.FEW:
        return table.FLOOR_DEFAULT
    some = _spread(sorted(tasks), FLOOR_OTHERS)
    comparison = likeness.WordComparison(templates.read_words(database, some))
    best = []
    for found in _spread(some, FLOOR_SAMPLE):
        common = likeness.find_common(tasks[found], holding, live=len(tasks))
        task = {word: one for word, one in tasks[found].items() if word not in common}
        alike = comparison.compare(task).similarity
        best.append(max((one for other, one in alike.items() if other != found), default=0.0))
    return sorted(best)[int(FLOOR_SHARE * len(best))]


def _spread(ids: Sequence[int], number: int) -> Sequence[int]:
    """Return at most so many of some ids, evenly spread."""
    return ids[:: -(-len(ids) // number)]
