"""The similarity of two texts: TF-IDF cosine over words, without any dependency.

On real sessions it chose as well as a 90 MB embedding model. Names in code count whole and in
pieces, so that `parse_invoice` matches "invoices".
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

Vector = dict[str, float]

LIMIT = 8000  # characters: the beginning says what a task is about
_WORD = re.compile(r"\w+")
# scripts without spaces between words; a pair of characters stands for a word there
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_STOP = frozenset(
    """a about after all also am an and any are as at be because been before being but by can could
    did do does doing don down for from further had has have having he her here hers him his how i
    if in into is it its itself just let like make may me more most my need no nor not now of off
    on once only or other our out over own please s same she should so some such t than that the
    their them then there these they this those through to too under until up us use using very
    want was we were what when where which while who why will with would you your""".split()  # noqa: SIM905 - prose reads better than a hundred quotes
)
_ENDINGS = ("ing", "ed", "es", "s", "e")


def weigh_words(text: str, *, limit: int = LIMIT) -> Vector:
    """Return the words of a text with their weights; each repetition adds less.

    >>> sorted(weigh_words("Fixing the parse_invoice bug"))
    ['bug', 'fix', 'invoic', 'pars', 'parse_invoice']
    """
    counts = Counter(word for word, _ in _split(text[:limit]))
    return {word: 1 + math.log(count) for word, count in counts.items()}


def name_words(text: str) -> dict[str, str]:
    """Return the words that `weigh_words` finds in a text, as they are first written there.

    >>> name_words("Fixing invoices, fix all")
    {'fix': 'fixing', 'invoic': 'invoices'}
    """
    names: dict[str, str] = {}
    for word, written in _split(text[:LIMIT]):
        names.setdefault(word, written)
    return names


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a text without stop words: stemmed, and as they are written."""
    for word in _WORD.findall(text):
        lowered = word.lower()
        if _UNSPACED.search(word):
            yield from ((pair, pair) for pair in map("".join, pairwise(lowered)))
            continue
        pieces = [piece.lower() for piece in _PIECE.findall(word)]
        if len(pieces) > 1:
            yield lowered, lowered
        yield from ((stem(one), one) for one in pieces if one not in _STOP and len(one) > 1)


def stem(word: str) -> str:
    """Return a word without its commonest endings; light, since a wrong stem hides a match.

    >>> [stem(word) for word in ("invoice", "invoices", "failed", "class", "rounding")]
    ['invoic', 'invoic', 'fail', 'class', 'round']
    """
    if word.endswith("ss"):
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def rarity(documents: int, holding: int) -> float:
    """Return the weight of a word that so many documents contain; rare words weigh most."""
    return math.log((1 + documents) / (1 + holding)) + 1


def weigh(words: Vector, rarities: Mapping[str, float], *, unseen: float) -> Vector:
    """Return words weighed by rarity, as a vector of length one."""
    weighed = {word: weight * rarities.get(word, unseen) for word, weight in words.items()}
    length = math.sqrt(math.fsum(weight * weight for weight in weighed.values()))
    return {word: weight / length for word, weight in weighed.items()} if length else {}


def cosine(a: Vector, b: Vector) -> float:
    """Return the similarity of two vectors, from 0 to 1.

    >>> cosine({"a": 1.0}, {"a": 2.0, "b": 0.0})
    1.0
    """
    if len(a) > len(b):
        a, b = b, a
    product = math.fsum(weight * b[word] for word, weight in a.items() if word in b)
    lengths = math.prod(math.sqrt(math.fsum(w * w for w in one.values())) for one in (a, b))
    return min(1.0, product / lengths) if lengths else 0.0
