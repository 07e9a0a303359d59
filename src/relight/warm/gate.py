"""Which templates a session may begin with at all, before any likeness is weighed."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from relight.checks import describe
from relight.errors import RelightError
from relight.judging.kinds import CATEGORIES
from relight.names import tool_name
from relight.warm.library import LIVE, Template, check_words
from relight.warm.nearest import find_holders, name_facet, read_facets

# the share of a template's tools that the session must have
TOOLS_SHARE = 0.9
_ROUNDING = 1e-9


class Gate(Struct, frozen=True):
    """What a template must have: a category, tags, and no tools that the session lacks."""

    category: str | None
    tags: frozenset[str]
    tools: frozenset[str] | None

    def find_allowed(self, database: sqlite3.Connection) -> set[int] | None:
        """The live templates that are let in; None where all are."""
        facets = [name_facet("tag", tag) for tag in self.tags]
        if self.category is not None:
            facets.append(name_facet("category", self.category))
        sets = [set(find_holders(database, [facet])) for facet in facets]
        if lacking := self._find_lacking(database):
            everyone = database.execute(f"select id from template where {LIVE}")
            sets.append({found for (found,) in everyone} - lacking)
        return set.intersection(*sets) if sets else None

    def _find_lacking(self, database: sqlite3.Connection) -> set[int]:
        """Those that call too much of what the session has not; mostly there are none."""
        if self.tools is None:
            return set()
        present = {name_facet("tool", tool) for tool in self.tools}
        held = find_holders(database, read_facets(database, "tool") - present)
        return {one for one, share in held.items() if share > 1 - TOOLS_SHARE + _ROUNDING}

    def explain(self, template: Template) -> str | None:
        """Why a template is not let in; None if nothing here keeps it out."""
        if self.category not in (None, template.category):
            return f"its category is {template.category}, not {self.category}"
        if missing := sorted(self.tags.difference(template.tags)):
            return f"it has no tag {', '.join(missing)}"
        lacking = sorted(set(template.tools) - (self.tools or set()))
        most = (1 - TOOLS_SHARE + _ROUNDING) * len(template.tools)
        if self.tools is not None and len(lacking) > most:
            return f"it calls {', '.join(lacking)}, which the session lacks"
        return None


def make_gate(*, category: str | None, tags: Sequence[str], tools: Sequence[object] | None) -> Gate:
    if category is not None and category not in CATEGORIES:
        raise RelightError(f"there is no category {category!r}", f"use {', '.join(CATEGORIES)}")
    check_words(tags=tags)
    return Gate(category, frozenset(tags), read_tools(tools))


def read_tools(tools: Collection[object] | None) -> frozenset[str] | None:
    """The tools that a session has, named as seeds name them; None where that is not known.

    Taken are names, and the lists of tools that programs send to OpenAI and Anthropic.

    >>> sorted(read_tools(["functions.bash", {"type": "function", "function": {"name": "read"}}]))
    ['functions_bash', 'read']
    """
    if tools is None:
        return None
    if isinstance(tools, str | Mapping) or not isinstance(tools, Collection):
        raise RelightError(f"tools must be a list of words, not {describe(tools)}")
    return frozenset(tool_name(_read_name(tool)) for tool in tools)


def _read_name(tool: object) -> str:
    name = tool
    if isinstance(tool, Mapping):
        function = tool.get("function")
        name = (function if isinstance(function, Mapping) else tool).get("name")
    if not isinstance(name, str):
        raise RelightError(
            f"tools must be a list of names, not of {describe(tool)}",
            'a name, or a tool as the APIs take it: {"type": "function", "function": {"name": …}}',
        )
    return name
