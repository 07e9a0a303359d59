"""Failures that a final answer admits: statements about this run, anywhere in the answer.

No single word decides: "failed" may be the subject of the task, a quoted log, or an attempt before
the one that worked. Clauses are searched for cues, and the cues of the answer are added up. Cues
and weights are in `data/admissions.toml`.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from msgspec import Struct, convert

from relight.data import read_data

# the beginning and the end of a longer answer are read
_FIRST_CHARACTERS, _LAST_CHARACTERS = 4_000, 8_000
_CLAUSE_CHARACTERS = 600
_SHOWN_CHARACTERS = 200
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED_LINE = re.compile(r"^[ \t]*>.*$|^.*~~.*$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_QUOTED = re.compile(
    r"“[^”\n]{0,300}”|„[^“”\n]{0,300}[“”]|«[^»\n]{0,300}»|「[^」\n]{0,300}」"
    r"|\"[^\"\n]{0,300}\"|`[^`\n]+`"
)
# a line that goes on in the next one, as in text of 80 columns
_WRAPPED = re.compile(r"(?<=[\w,])\n(?=[a-z])")
_BREAK = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？])|\n+|\s+[–—]\s+"
    r"|,?\s+(?=(?:but|however|yet|although|though)\b)",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"^[\s>#|+-]*(?:\d+[.)]\s+)?|[\s|]+$")
_SHORTENED = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"\bcan't\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\bi'm\b", "i am"),
        (r"\b(it|that|there|here|what)'s\b", r"\1 is"),
        (r"'ve\b", " have"),
        (r"'re\b", " are"),
        (r"'d\b", " would"),
        (r"'ll\b", " will"),
    )
]
_ASSIGNED = re.compile(r"(?<=\w)=(?=\w)")
_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"\{([a-z]+)\}")


class Clause(Struct, frozen=True):
    """A clause as it was written, as patterns see it, and its words."""

    text: str
    plain: str
    words: frozenset[str]


class Cue(Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of statement, and what it weighs; every match contains one of `words`, if any."""

    name: str
    weight: int
    patterns: tuple[str, ...]
    words: frozenset[str] = frozenset()
    guards: tuple[str, ...] = ()
    is_first: bool = False
    is_subject: bool = False

    @property
    def is_claim(self) -> bool:
        """True if it says by itself that something failed; the others are added to claims."""
        return self.weight > 1

    def matches(self, clause: Clause) -> bool:
        return _compile(*self.patterns).search(clause.plain) is not None


class FoundCue(Struct, frozen=True):
    """A cue of an answer: its name, its weight, and the first clause that has it."""

    name: str
    weight: int
    clause: str


class AdmissionTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `admissions.toml`."""

    threshold: int
    subject: str
    words: dict[str, str]
    guards: dict[str, str]
    cue: tuple[Cue, ...]


@cache
def read_admission_table() -> AdmissionTable:
    """Return the content of `admissions.toml`, read at the first use."""
    return convert(tomllib.loads(read_data("admissions.toml")), AdmissionTable)


@cache
def _compile(*patterns: str) -> re.Pattern[str]:
    """One pattern for several; compiled when it is needed, since all of them take 50 ms."""
    words = read_admission_table().words
    return re.compile(_NAME.sub(lambda found: words[found[1]], "|".join(patterns)))


@lru_cache(maxsize=256)
def find_admission(answer: str, task: str | None = None) -> str | None:
    """Return the words of a final answer that say the run failed, if it has them.

    `task` is what was asked for: a report about failures is no failure.

    >>> find_admission("Backup log of today. The disk is full, so nothing was backed up.")
    'The disk is full, so nothing was backed up.'
    >>> find_admission("Yesterday the backup failed but today it is fine.")
    """
    cues = find_cues(answer, task)
    if sum(cue.weight for cue in cues) < read_admission_table().threshold:
        return None
    return max(cues, key=lambda cue: cue.weight).clause[:_SHOWN_CHARACTERS]


def find_cues(answer: str, task: str | None = None) -> list[FoundCue]:
    """Return the cues of an answer.

    Most answers have no claim of a failure: only then are hints and signs of success looked for.
    """
    table = read_admission_table()
    about_failures = bool(task and _compile(table.subject).search(task.lower()))
    clauses = list_clauses(answer)
    found: list[FoundCue] = []
    for are_claims in (True, False):
        for cue in table.cue:
            if cue.is_claim is are_claims and not (about_failures and cue.is_subject):
                some = clauses[:1] if cue.is_first else clauses
                if clause := next(_search(cue, some), None):
                    found.append(FoundCue(cue.name, cue.weight, clause))
        if not found:
            break
    return found


def _search(cue: Cue, clauses: list[Clause]) -> Iterator[str]:
    """The clauses in which a cue is found."""
    for clause in clauses:
        if cue.words and cue.words.isdisjoint(clause.words):
            continue
        if cue.matches(clause) and not _has_guard(clause, cue.guards):
            yield clause.text


def _has_guard(clause: Clause, names: Iterable[str]) -> bool:
    guards = read_admission_table().guards
    return any(_compile(guards[name]).search(clause.plain) for name in names)


def list_clauses(answer: str) -> list[Clause]:
    """Return the clauses of an answer, without what it quotes and without Markdown."""
    texts = list(_split(answer))
    plain = "\n".join(text[:_CLAUSE_CHARACTERS] for text in texts).lower()
    plain = _ASSIGNED.sub(": ", plain.replace("’", "'").replace("cannot", "can not"))
    if "'" in plain:
        for pattern, words in _SHORTENED:
            plain = pattern.sub(words, plain)
    return [
        Clause(text, line, frozenset(_WORD.findall(line)))
        for text, line in zip(texts, plain.split("\n"), strict=False)
    ]


def _split(answer: str) -> Iterator[str]:
    if len(answer) > _FIRST_CHARACTERS + _LAST_CHARACTERS:
        answer = f"{answer[:_FIRST_CHARACTERS]}\n{answer[-_LAST_CHARACTERS:]}"
    text = _LINK.sub(r"\1", _QUOTED_LINE.sub("", _FENCED.sub("\n", answer)))
    # in JSON every word is quoted
    text = text.replace('"', "") if text.lstrip()[:1] == "{" else _QUOTED.sub("_", text)
    for part in _BREAK.split(_WRAPPED.sub(" ", text.replace("*", ""))):
        if clause := _MARKUP.sub("", part).strip():
            yield clause
