"""The words of Relight, for their page, for headings that show their meaning, and for docs/."""

import tomllib
from functools import cache

import msgspec
from msgspec import Struct

from relight.data import read_data


class GlossaryTerm(Struct, frozen=True, forbid_unknown_fields=True):
    """A word, its other forms, and its meaning in a sentence or two."""

    name: str
    text: str
    also: tuple[str, ...] = ()


@cache
def read_terms() -> tuple[GlossaryTerm, ...]:
    """Return the terms by their names."""
    terms = tomllib.loads(read_data("glossary.toml"))["terms"]
    return tuple(sorted(msgspec.convert(terms, list[GlossaryTerm]), key=lambda term: term.name))


@cache
def index_terms() -> dict[str, GlossaryTerm]:
    """Return each term by every form of its name."""
    return {name: term for term in read_terms() for name in (term.name, *term.also)}
