"""Tokens of a model call in disjoint buckets, from the figures of any API or SDK.

`data/usage.toml` has the shapes. A figure that is not understood is unknown, never zero, and makes
the usage partial.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from relight.data import read_table
from relight.errors import describe
from relight.model import BUCKETS, MOST_TOKENS, Usage

# the names of nested fields, from the outside in
Path: TypeAlias = tuple[str, ...]
# one figure: the sum of these fields
Figure: TypeAlias = tuple[Path, ...]


class UsageShape(Struct, frozen=True):
    """A row of `data/usage.toml`: the figures that may hold each bucket."""

    name: str
    includes_cache: bool
    buckets: dict[str, tuple[Figure, ...]]
    marks: tuple[Path, ...] = ()


class FoundUsage(Struct, frozen=True):
    """Usage as far as it was understood, and the reasons if something was not.

    It is `partial`, a lower bound, if a figure is unknown.
    """

    usage: Usage = Usage()
    problems: tuple[str, ...] = ()

    @property
    def status(self) -> Literal["final", "partial"]:
        is_known = self.usage.input is not None and self.usage.output is not None
        return "final" if is_known and not self.problems else "partial"


def read_usage(given: object) -> FoundUsage:
    """Return the usage in a mapping or object of any known shape; never raise.

    >>> read_usage({"prompt_tokens": 12, "completion_tokens": 3}).usage
    Usage(input=12, cache_read=0, cache_write=0, output=3, cache_write_1h=None, reasoning=None)
    >>> read_usage({"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 3}).usage
    Usage(input=2, cache_read=10, cache_write=0, output=3, cache_write_1h=None, reasoning=None)
    >>> read_usage({"words": 12}).problems
    ("usage has no token counts that Relight knows: {'words': 12}",)
    """
    names = [name for name in _list_names() if _get(given, name) is not None]
    best: dict[str, list[object]] = {}
    shape = None
    for one in _choose_shapes(frozenset(names)):
        found = {name: _find_all(given, figures) for name, figures in one.buckets.items()}
        found = {name: values for name, values in found.items() if values}
        if len(found) > len(best):
            best, shape = found, one
    if shape is None:
        problem = f"usage has no token counts that Relight knows: {describe(given)}"
        return FoundUsage(problems=(problem,))
    problems: list[str] = []
    counts: dict[str, int | None] = {}
    for name, values in best.items():
        numbers = [read_count(value) for value in values]
        known = [number for number in numbers if number is not None]
        counts[name] = max(known) if len(known) == len(numbers) else None
        if counts[name] is None:
            problems.append(f"{name}_tokens cannot be {describe(values[0])}")
    # a wrong figure is unknown; an absent one of the cache is 0
    for name in ("cache_read", "cache_write"):
        counts.setdefault(name, 0 if counts.get("input") is not None else None)
    usage = Usage(**counts)
    if shape.includes_cache:
        usage = _take_out_cache(usage)
        if usage.input is None and counts.get("input") is not None and not problems:
            problems.append("usage has more cached tokens than input tokens")
    if _is_more(usage.cache_write_1h, usage.cache_write) or _is_more(usage.reasoning, usage.output):
        problems.append("usage has a part that is larger than its whole")
    return FoundUsage(usage, tuple(problems))


def counted_usage(usage: Usage) -> Usage:
    """Return the usage, or an unknown one if all of it is zero.

    Every call has input: agents write zeros if the server did not count.

    >>> counted_usage(Usage(input=0, output=0))
    Usage(input=None, cache_read=None, cache_write=None, output=None, cache_write_1h=None, \
reasoning=None)
    """
    return usage if any(astuple(usage)) else Usage()


def exclusive_usage(
    prompt: int | None,
    cached: int | None,
    output: int | None,
    *,
    cache_write: int | None = None,
    reasoning: int | None = None,
) -> Usage:
    """Return disjoint buckets from the OpenAI convention, where the prompt includes cached tokens.

    A prompt smaller than what was cached of it is unknown.

    >>> exclusive_usage(1200, 200, 34, reasoning=5)
    Usage(input=1000, cache_read=200, cache_write=0, output=34, cache_write_1h=None, reasoning=5)
    """
    if prompt is None:
        return Usage(output=output, reasoning=reasoning)
    return _take_out_cache(
        Usage(
            input=prompt,
            cache_read=cached or 0,
            cache_write=cache_write or 0,
            output=output,
            reasoning=reasoning,
        )
    )


def _take_out_cache(usage: Usage) -> Usage:
    """Return the usage with its input reduced by the cached tokens; unknown if that cannot be."""
    read, write = usage.cache_read, usage.cache_write
    if usage.input is None or read is None or write is None or read + write > usage.input:
        return msgspec.structs.replace(usage, input=None)
    return msgspec.structs.replace(usage, input=usage.input - read - write)


def _is_more(part: int | None, whole: int | None) -> bool:
    return part is not None and whole is not None and part > whole


def read_count(value: Any) -> int | None:
    """Return a number of tokens, also from other libraries' integers; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        number = value.__index__()
    except Exception:  # noqa: BLE001 - a foreign object may raise anything
        return None
    return number if isinstance(number, int) and 0 <= number <= MOST_TOKENS else None


def _find_all(given: object, figures: tuple[Figure, ...]) -> list[object]:
    """Return the value of each figure that is present; a bad part instead of its sum."""
    values: list[object] = []
    for paths in figures:
        parts = [part for path in paths if (part := _find(given, path)) is not None]
        counts = [count for part in parts if (count := read_count(part)) is not None]
        if len(counts) < len(parts):
            values += [part for part in parts if read_count(part) is None]
        elif parts:
            values.append(sum(counts))
    return values


def _find(given: object, path: Path) -> object:
    for name in path:
        given = _get(given, name)
    return given


def _get(given: Any, name: str) -> Any:
    """Return a field of a mapping or object; None if there is none."""
    if given is None:
        return None
    try:
        is_mapping = isinstance(given, dict | Mapping)
        return given.get(name) if is_mapping else getattr(given, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign object may raise anything
        return None


@cache
def _list_names() -> tuple[str, ...]:
    """Return the outer names of all fields in all shapes."""
    every = {
        path[0]
        for shape in _read_shapes()
        for figures in shape.buckets.values()
        for paths in (*figures, shape.marks)
        for path in paths
    }
    return tuple(sorted(every))


@lru_cache(maxsize=64)
def _choose_shapes(names: frozenset[str]) -> tuple[UsageShape, ...]:
    """Return the shapes that can hold any of these outer names, reduced to these."""
    chosen = []
    for shape in _read_shapes():
        if shape.marks and not any(path[0] in names for path in shape.marks):
            continue
        reduced = {
            bucket: tuple(
                kept for paths in figures if (kept := tuple(p for p in paths if p[0] in names))
            )
            for bucket, figures in shape.buckets.items()
        }
        buckets = {bucket: figures for bucket, figures in reduced.items() if figures}
        if buckets:
            chosen.append(msgspec.structs.replace(shape, buckets=buckets))
    return tuple(chosen)


@cache
def _read_shapes() -> tuple[UsageShape, ...]:
    return tuple(
        UsageShape(
            name=row["name"],
            includes_cache=row["includes_cache"],
            buckets={
                name: tuple(_split(figure) for figure in row[name])
                for name in BUCKETS
                if name in row
            },
            marks=tuple(tuple(mark.split(".")) for mark in row.get("marks", ())),
        )
        for row in read_table("usage.toml", dict[str, Any])["shape"]
    )


def _split(figure: str) -> Figure:
    return tuple(tuple(path.strip().split(".")) for path in figure.split("+"))
