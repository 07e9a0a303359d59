"""The likeness of a task to templates: by what they were asked, said, ran and saw.

The texts of two tasks seldom share words. A task's file names and symbols do stand in the commands
and results of sessions that worked on the same thing, so a template keeps the words of its whole
session in four fields, and how often it did what. The measurements are in decision 9.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping

from msgspec import Struct

from relight.chat.similarity import Vector, rarity, weigh
from relight.store.templates import TemplateWords

FIELDS = {
    "user": "its task",
    "assistant": "its answers",
    "commands": "its commands",
    "results": "its results",
}
# with fewer templates, how many hold a word says little about how much it distinguishes
FEW = 20
TRACE = 0.01
# how much more the nearest count for what such tasks take
POWER = 1.5
_DIGITS = 9  # of a similarity; the rest depends on the order of summation


class _Field:
    """One field of several templates: the weights of its words, and the lengths of the vectors."""

    def __init__(self, vectors: Mapping[int, Vector]) -> None:
        self.vectors = vectors
        held: Counter[str] = Counter()
        for words in vectors.values():
            held.update(words.keys())
        # a word that all have distinguishes none, but of a few templates nobody knows; it keeps a
        # trace, without which a task that is the same as all others would be like none
        less = 1 - TRACE if len(vectors) >= FEW else 0.0
        worth = [rarity(len(vectors), number) - less for number in range(len(vectors) + 1)]
        self.rarities = {word: worth[number] for word, number in held.items()}
        self.unseen = worth[0]
        self._lengths: dict[int, float] = {}

    def weigh(self, task: Vector) -> Vector:
        return weigh(task, self.rarities, unseen=self.unseen)

    def multiply(self, weighed: Vector, found: int) -> Vector:
        """Return what each word that a template shares with a weighed task adds to the cosine."""
        words = self.vectors[found]
        shared = weighed.keys() & words.keys()
        if not shared:
            return {}
        length = self._lengths.get(found)
        if length is None:
            rarities = self.rarities
            squares = [(weight * rarities[word]) ** 2 for word, weight in words.items()]
            length = self._lengths[found] = math.sqrt(math.fsum(squares))
        if not length:
            return {}
        return {word: weighed[word] * words[word] * self.rarities[word] / length for word in shared}


class Likeness(Struct, frozen=True):
    """The similarity of templates to a task: the mean of the cosines of four fields."""

    similarity: dict[int, float]
    # by field, the words of the task, weighed
    task: dict[str, Vector]
    fields: dict[str, _Field]

    def find_shared(self, found: int) -> list[tuple[str, str]]:
        """Return the words that a template shares with the task and their field, heaviest first."""
        parts = sorted(
            (-part, word, name)
            for name, field in self.fields.items()
            for word, part in field.multiply(self.task[name], found).items()
            if part > 0
        )
        heaviest: dict[str, str] = {}
        for _, word, name in parts:
            heaviest.setdefault(word, name)
        return list(heaviest.items())


class WordComparison:
    """Templates whose words are compared with tasks."""

    def __init__(self, templates: Mapping[int, TemplateWords]) -> None:
        self._fields = {
            name: _Field({found: getattr(one, name) for found, one in templates.items()})
            for name in FIELDS
        }
        self._templates = templates

    def compare(self, words: Vector) -> Likeness:
        """Return how like a task with these words each template is."""
        sums = dict.fromkeys(self._templates, 0.0)
        task = {name: field.weigh(words) for name, field in self._fields.items()}
        for name, field in self._fields.items():
            for found in sums:
                sums[found] += math.fsum(field.multiply(task[name], found).values())
        similarity = {found: round(total / len(FIELDS), _DIGITS) for found, total in sums.items()}
        return Likeness(similarity, task, self._fields)

    def expect_actions(self, alike: Mapping[int, float]) -> dict[int, float]:
        """Return how near each template's actions are to those that its likes expect of a task.

        The actions of all are averaged, weighed by their likeness to the task: a template that
        does what such tasks usually take is of more use than the nearest text.
        """
        held = Counter(word for found in alike for word in self._templates[found].actions)
        rarities = {word: rarity(len(alike), number) for word, number in held.items()}
        actions = {
            found: weigh(self._templates[found].actions, rarities, unseen=1.0) for found in alike
        }
        weights = {found: value**POWER for found, value in alike.items()}
        total = math.fsum(weights.values())
        expected: Vector = {}
        for found, words in actions.items():
            share = weights[found] / total if total else 1 / len(alike)
            for word, weight in words.items() if share else ():
                expected[word] = expected.get(word, 0.0) + share * weight
        values = {
            found: math.fsum(weight * expected.get(word, 0.0) for word, weight in words.items())
            for found, words in actions.items()
        }
        return {found: round(value, _DIGITS) for found, value in values.items()}


def find_common(words: Collection[str], holding: Mapping[str, int], *, live: int) -> set[str]:
    """Return the words that at least half of all tasks hold: the message of a harness."""
    if live < FEW:
        return set()
    common = {word for word in words if 2 * holding.get(word, 0) >= live}
    return set() if len(common) == len(words) else common
