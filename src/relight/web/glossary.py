"""The words of Relight, for their page, for headings that show their meaning, and for docs/."""

from functools import cache

from msgspec import Struct

from relight.data import read_table


class GlossaryTerm(Struct, frozen=True, forbid_unknown_fields=True):
    """A word, its other forms, and its meaning in a sentence or two."""

    name: str
    text: str
    also: tuple[str, ...] = ()


@cache
def read_terms() -> tuple[GlossaryTerm, ...]:
    """Return the terms by their names."""
    terms = read_table("glossary.toml", dict[str, list[GlossaryTerm]])["terms"]
    return tuple(sorted(terms, key=lambda term: term.name))


@cache
def index_terms() -> dict[str, GlossaryTerm]:
    """Return each term by every form of its name."""
    return {name: term for term in read_terms() for name in (term.name, *term.also)}
