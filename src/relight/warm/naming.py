"""A name for a template, from the words that tell its task from those of the others."""

import re
from pathlib import PurePath

from relight.chat.similarity import LIMIT, read_words
from relight.names import slug
from relight.store import Store
from relight.warm.nearest import read_calibration, read_rarities

SHORT = 8  # words: so short a task is its own name
TOLD, TOLD_LEAST = 5, 3
LENGTH = 40
COMMON = 0.1  # of all templates: a word that more of them hold tells little
# how people begin; a name is for lists and files, and nobody's own name belongs there
_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day))\b"
    r"(?: there| all| everyone| team)?[\s,.!:;–-]*",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:(?i:my (?:\w+ )?name(?: is|'s|’s)|name:)\s+\w+|(?i:i am|i'm|i’m)\s+[A-Z]\w+)"
    r"(?:[ -][A-Z]\w+){0,2}(?i:\s+and\b)?[\s,.!:;–-]*"
)
_WORD = re.compile(r"\w+")


def propose_name(store: Store, text: str, *, category: str, project: str | None) -> str:
    """A name from the words of a task; one that is taken gets a number when it is kept."""
    said = _PERSON.sub(" ", _GREETING.sub("", text[:LIMIT], count=1))
    words = said.split()
    if len(words) <= SHORT:
        name = slug(" ".join(words), limit=LENGTH)
    else:
        name = slug(" ".join(_find_telling(store, said)), limit=LENGTH)
    return name or slug(f"{category} {PurePath(project or '').name}", limit=LENGTH)


def _find_telling(store: Store, text: str) -> list[str]:
    """The first words that few templates hold; where there are none or one, the rarest.

    In running text a capital letter begins a sentence or a name, so such words are left out.
    """
    stems = {
        word: list(found)
        for word in _WORD.findall(text)
        if word.islower() and not any(map(str.isdigit, word)) and (found := read_words(word))
    }
    with store.reading() as database:
        most = COMMON * read_calibration(database).live
        known = read_rarities(database, {stem for found in stems.values() for stem in found})
    held = {
        word: min(known[stem].holding if stem in known else 0 for stem in found)
        for word, found in stems.items()
    }
    rare = [word for word in held if held[word] <= most]
    told = rare[:TOLD] if len(rare) > 1 else sorted(held, key=held.__getitem__)[:TOLD_LEAST]
    return [word for word in held if word in told]
