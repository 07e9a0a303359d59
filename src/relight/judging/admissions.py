"""Failures that a final answer admits: statements about this run, anywhere in the answer.

No single word decides: "failed" may be the subject of the task, a quoted log, or an attempt before
the one that worked. Clauses are searched for cues and phrases, and their weights are added up. The
words are in `data/admissions.toml`; `./dev bench admissions --write` fits the weights.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from math import fsum

from msgspec import Struct

from relight.data import read_table
from relight.expressions import compile_later
from relight.model import hash_names

# the beginning and the end of a longer answer are read
_FIRST_CHARACTERS, _LAST_CHARACTERS = 4_000, 8_000
_CLAUSE_CHARACTERS = 600
_SHOWN_CHARACTERS = 200
# a cue that is found in more clauses than this counts no more
_MOST_CLAUSES = 2
# the longest gap that "~" stands for, in words
_GAP_WORDS = 5
_FENCED = compile_later(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED_LINE = compile_later(r"^[ \t]*>.*$|^.*~~.*$", re.MULTILINE)
_LINK = compile_later(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_QUOTED = compile_later(
    r"“[^”\n]{0,300}”|„[^“”\n]{0,300}[“”]|«[^»\n]{0,300}»|「[^」\n]{0,300}」"
    r"|\"[^\"\n]{0,300}\"|`[^`\n]+`"
)
# a line that goes on in the next one, as in text of 80 columns
_WRAPPED = compile_later(r"(?<=[\w,])\n(?=[a-z])")
_BREAK = compile_later(
    r"(?<=[.!?;])\s+|(?<=[。！？])|\n+|\s+[–—]\s+"
    r"|,?\s+(?=(?:but|however|yet|although|though)\b)",
    re.IGNORECASE,
)
_MARKUP = compile_later(r"^[\s>#|+-]*(?:\d+[.)]\s+)?|[\s|]+$")
_SHORTENED = [
    (compile_later(pattern), words)
    for pattern, words in (
        (r"\bcan't\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\bi'm\b", "i am"),
        (r"\b(it|that|there|here|what|where|everything)'s\b", r"\1 is"),
        (r"'ve\b", " have"),
        (r"'re\b", " are"),
        (r"'d\b", " would"),
        (r"'ll\b", " will"),
    )
]
_SHARE = compile_later(
    r"(?<![\w.,/:-])(\d[\d,.]*|zero|none)(?: ?/ ?| (?:out )?of (?:the |our |all )?)"
    r"(\d[\d,.]*)(?![\w/])"
)
_WORD = compile_later(r"#\w+|\[[ x]\]|[^\W\d_][\w'-]*|\d[\d.,:]*|[❌✘✗⛔🛑☐⬜✅✔%?]")


class Clause(Struct, frozen=True):
    """A clause as it was written, and its words as phrases have them."""

    text: str
    words: tuple[str, ...]


class Cue(Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of statement and its weight; `first` and `last` are added in these clauses.

    `is_subject`: it does not count if the task itself is about failures.
    """

    name: str
    weight: float = 0.0
    first: float = 0.0
    last: float = 0.0
    is_subject: bool = False
    phrases: tuple[str, ...] = ()
    characters: tuple[str, ...] = ()


class AdmissionTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `admissions.toml`."""

    threshold: float
    bias: float
    subject: str
    classes: dict[str, str]
    cue: tuple[Cue, ...]
    phrases: dict[str, float]


class Admission(Struct, frozen=True, array_like=True, gc=False):
    """The words of an answer that admit a failure, by what was asked for."""

    words: str | None
    # if the task itself is about failures
    words_on_failures: str | None

    def choose(self, task: str | None) -> str | None:
        """Return the words that count for a task."""
        if self.words == self.words_on_failures:
            return self.words
        is_subject = _is_about_failures(task, read_admission_table())
        return self.words_on_failures if is_subject else self.words


# by the hash of the answer
Admissions = Mapping[int, Admission]
# the first word, the second word, and what follows them, with the number of the cue
_Phrases = dict[str, dict[str, list[tuple[tuple[str, ...], int]]]]


class AdmissionIndex(Struct, frozen=True):
    """The table as it is searched: classes by word, and phrases by their first two words.

    `gaps` has the phrases with "~" between the two.
    """

    table: AdmissionTable
    classes: dict[str, frozenset[str]]
    phrases: _Phrases
    gaps: _Phrases
    characters: list[tuple[str, int]]


@cache
def read_admission_table() -> AdmissionTable:
    """Return the content of `admissions.toml`, read at the first use."""
    return read_table("admissions.toml", AdmissionTable)


@cache
def _read_index() -> AdmissionIndex:
    return make_index(read_admission_table())


def make_index(table: AdmissionTable) -> AdmissionIndex:
    """Return a table in the form that is searched."""
    classes: dict[str, set[str]] = {}
    for name, words in table.classes.items():
        for word in words.split():
            classes.setdefault(word, {word}).add(name)
    phrases: _Phrases = {}
    gaps: _Phrases = {}
    for number, cue in enumerate(table.cue):
        for phrase in cue.phrases:
            first, *rest = phrase.split()
            into = gaps if rest[:1] == ["~"] else phrases
            second, *rest = [name for name in rest[:1] if name != "~"] + rest[1:] or [""]
            into.setdefault(first, {}).setdefault(second, []).append((tuple(rest), number))
    characters = [(text, number) for number, cue in enumerate(table.cue) for text in cue.characters]
    by_word = {word: frozenset(names) for word, names in classes.items()}
    return AdmissionIndex(table, by_word, phrases, gaps, characters)


def find_admission(answer: str, task: str | None = None) -> str | None:
    """Return the words of a final answer that say the run failed, if it has them.

    `task` is what was asked for: a report about failures is no failure.

    >>> find_admission("Backup log of today. The disk is full, so nothing was backed up.")
    'The disk is full, so nothing was backed up.'
    >>> find_admission("Yesterday the backup failed but today it is fine.")
    """
    return admit(answer).choose(task)


def hash_answer(answer: str) -> int:
    """The name of an answer in `Admissions`."""
    return hash_names("answer", answer)


@lru_cache(maxsize=256)
def admit(answer: str) -> Admission:
    """Return the admission of a final answer, whatever its task is."""
    clauses, index = list_clauses(answer), _read_index()
    cues = [_match_cues(clause, index) for clause in clauses]
    found = _sum_up(clauses, _name_features(clauses, cues, index))
    subjects = {number for number, cue in enumerate(index.table.cue) if cue.is_subject}
    if all(subjects.isdisjoint(numbers) for numbers in cues):
        return Admission(found, found)
    others = [numbers - subjects for numbers in cues]
    return Admission(found, _sum_up(clauses, _name_features(clauses, others, index)))


def _sum_up(clauses: list[Clause], features: list[set[str]]) -> str | None:
    """The clause with the largest sum of weights, if the answer as a whole admits a failure."""
    weights = _read_weights()
    found = [names & weights.keys() for names in features]
    counts = count_features(found)
    # `fsum`: the sum must not depend on the order of a set, which differs between processes
    total = fsum([read_admission_table().bias, *(weights[one] * n for one, n in counts.items())])
    if not clauses or total < read_admission_table().threshold:
        return None
    sums = [fsum(weights[name] for name in names) for names in found]
    return clauses[sums.index(max(sums))].text[:_SHOWN_CHARACTERS]


@cache
def _read_weights() -> dict[str, float]:
    """The weights of the table by feature, as `list_features` names them."""
    table = read_admission_table()
    weights = dict(table.phrases)
    for cue in table.cue:
        weights[f"cue {cue.name}"] = cue.weight
        weights[f"first {cue.name}"] = cue.first
        weights[f"last {cue.name}"] = cue.last
    return weights


def list_features(
    clauses: list[Clause], task: str | None = None, *, index: AdmissionIndex | None = None
) -> list[set[str]]:
    """Return the features of each clause: `cue NAME`, `first NAME`, `last NAME`, its phrases."""
    index = index or _read_index()
    cues = [_match_cues(clause, index) for clause in clauses]
    if _is_about_failures(task, index.table):
        cues = [{one for one in some if not index.table.cue[one].is_subject} for some in cues]
    return _name_features(clauses, cues, index)


def _is_about_failures(task: str | None, table: AdmissionTable) -> bool:
    return bool(task and re.search(table.subject, task.lower()))


def _name_features(
    clauses: list[Clause], cues: list[set[int]], index: AdmissionIndex
) -> list[set[str]]:
    found = []
    for position, (clause, numbers) in enumerate(zip(clauses, cues, strict=True)):
        features = _list_phrases(clause.words)
        for name in (index.table.cue[number].name for number in numbers):
            features.add(f"cue {name}")
            if position == 0:
                features.add(f"first {name}")
            if position == len(clauses) - 1:
                features.add(f"last {name}")
        found.append(features)
    return found


def count_features(found: list[set[str]]) -> dict[str, int]:
    """Return how often each feature counts in an answer: a cue twice at most, a phrase once."""
    counts = dict.fromkeys(set().union(*found), 1)
    cues = Counter(name for names in found for name in names if name.startswith("cue "))
    return counts | {name: min(count, _MOST_CLAUSES) for name, count in cues.items()}


def _list_phrases(words: tuple[str, ...]) -> set[str]:
    """The words of a clause, and all that follow one another in pairs and threes."""
    ends = ("^", *words, "$")
    phrases = set(words)
    phrases.update(map(" ".join, pairwise(ends)))
    phrases.update(map(" ".join, zip(ends, ends[1:], ends[2:], strict=False)))
    return phrases


def _match_cues(clause: Clause, index: AdmissionIndex) -> set[int]:
    """The numbers of the cues that have a phrase in a clause."""
    words = (_find_symbols(word, index.classes) for word in clause.words)
    symbols = [frozenset("^"), *words, frozenset("$"), frozenset()]
    found: set[int] = set()
    for position, names in enumerate(symbols[:-1]):
        for name in names:
            if seconds := index.phrases.get(name):
                found.update(number for _, number in seconds.get("", ()))
                found.update(_follow(symbols, position + 1, seconds))
            if seconds := index.gaps.get(name):
                for end in range(position + 1, min(position + 2 + _GAP_WORDS, len(symbols))):
                    found.update(_follow(symbols, end, seconds))
    if not clause.text.isascii():
        found.update(number for text, number in index.characters if text in clause.text)
    return found


def _find_symbols(word: str, classes: dict[str, frozenset[str]]) -> frozenset[str]:
    """A word and its classes; ED is any other participle."""
    names = classes.get(word) or frozenset((word,))
    is_participle = word.endswith("ed") and len(word) > len("need")
    return names | {"ED"} if is_participle and not names & {"FAIL", "BLOCK"} else names


def _follow(
    symbols: list[frozenset[str]],
    position: int,
    seconds: dict[str, list[tuple[tuple[str, ...], int]]],
) -> Iterator[int]:
    """The cues with a phrase whose second word stands at a position, and the rest after it."""
    for second in symbols[position]:
        for rest, number in seconds.get(second, ()):
            if _stands(symbols, position + 1, rest):
                yield number


def _stands(symbols: list[frozenset[str]], position: int, rest: tuple[str, ...]) -> bool:
    """True if the rest of a phrase stands at a position; "~" is a gap of some words."""
    for number, name in enumerate(rest):
        if name == "~":
            ends = range(position, min(position + _GAP_WORDS + 1, len(symbols)))
            return any(_stands(symbols, end, rest[number + 1 :]) for end in ends)
        if position >= len(symbols) or name not in symbols[position]:
            return False
        position += 1
    return True


def list_clauses(answer: str) -> list[Clause]:
    """Return the clauses of an answer, without what it quotes and without Markdown."""
    texts = list(_split(answer))
    plain = "\n".join(text[:_CLAUSE_CHARACTERS] for text in texts).lower()
    plain = plain.replace("’", "'").replace("cannot", "can not")
    if "'" in plain:
        for pattern, words in _SHORTENED:
            plain = pattern.sub(words, plain)
    plain = _SHARE.sub(_name_share, plain)
    return [
        Clause(text, tuple(_name_number(word) for word in _WORD.findall(line)))
        for text, line in zip(texts, plain.split("\n"), strict=False)
    ]


def _name_share(found: re.Match[str]) -> str:
    """A share such as "3 of 40" as one word: `#all`, `#part` or `#none`."""
    some, whole = (number.strip(".,").replace(",", "") for number in found.groups())
    name = "#none" if some in ("0", "zero", "none") else "#all" if some == whole else "#part"
    return f" {name} "


def _name_number(word: str) -> str:
    """A word, and `#` for a number; zero and the HTTP statuses of a refusal stay."""
    is_named = not word[0].isdigit() or word == "0" or word in _read_index().classes
    return word if is_named else "#"


def _split(answer: str) -> Iterator[str]:
    if len(answer) > _FIRST_CHARACTERS + _LAST_CHARACTERS:
        answer = f"{answer[:_FIRST_CHARACTERS]}\n{answer[-_LAST_CHARACTERS:]}"
    text = _LINK.sub(r"\1", _QUOTED_LINE.sub("", _FENCED.sub("\n", answer)))
    # in JSON every word is quoted
    text = text.replace('"', "") if text.lstrip()[:1] == "{" else _QUOTED.sub("_", text)
    for part in _BREAK.split(_WRAPPED.sub(" ", text.replace("*", ""))):
        if clause := _MARKUP.sub("", part).strip():
            yield clause
