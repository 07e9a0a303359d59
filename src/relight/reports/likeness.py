"""Sessions whose task is similar to a new one."""

from relight.chat.similarity import cosine, rarity, weigh, weigh_words
from relight.reports.listing import ListedSession, list_sessions
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.store.queries.listing import Listing

# the newest sessions, which are compared
COMPARED = 500
SHOWN = 5
# below this, texts share a common word by chance
LEAST = 0.1


def find_similar(
    store: Store, task: str, chosen: Filter, *, limit: int = SHOWN
) -> list[tuple[ListedSession, float]]:
    """Return the sessions whose title is most similar to a task, with the similarity.

    A session's title is what it was asked first. Words that many titles have count less.
    """
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
