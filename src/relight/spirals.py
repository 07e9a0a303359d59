"""Spirals: the same failing call again and again, or one tool failing again and again."""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

_IDENTICAL_MINIMUM = 3
_TOOL_MINIMUM = 5


class JudgedCall(Struct, frozen=True):
    """What a spiral is made of: a tool call with its verdict, and its turn's tokens and cost."""

    tool: str
    fingerprint: str
    label: Literal["ok", "negative", "error", "unknown"]
    turn: int | None = None
    tokens: int | None = None
    cost_nanos: int | None = None


class Spiral(Struct, frozen=True):
    """A run of failing calls of one tool, and what the turns that made them burnt.

    `first` and `last` are positions in the sequence of calls. Tokens and cost are the sums of
    what is known, None if nothing is; `unknown_turns` says how many turns had no known cost.
    """

    tool: str
    kind: Literal["identical", "tool"]
    count: int
    first: int
    last: int
    tokens: int | None = None
    cost_nanos: int | None = None
    unknown_turns: int = 0


def find_spirals(calls: Sequence[JudgedCall]) -> list[Spiral]:
    """The spirals in a session's calls, in the order they began; no call is in two of them.

    A tool's calls are followed past the calls of other tools, since agents read and look around
    between two equal failures. A call that did not fail ends a run; one without a verdict
    neither ends it nor counts.
    """
    spirals: list[Spiral] = []
    for run in _split_runs(calls):
        rest: list[int] = []
        for group in _group_equal(run, calls):
            if len(group) >= _IDENTICAL_MINIMUM:
                spirals.append(_make_spiral(calls, group, kind="identical"))
            else:
                rest.extend(group)
        if len(rest) >= _TOOL_MINIMUM:
            spirals.append(_make_spiral(calls, rest, kind="tool"))
    return sorted(spirals, key=lambda spiral: (spiral.first, spiral.last))


def _split_runs(calls: Sequence[JudgedCall]) -> Iterable[list[int]]:
    """Positions of consecutive failures of each tool."""
    open_runs: dict[str, list[int]] = {}
    for position, call in enumerate(calls):
        if call.label == "error":
            open_runs.setdefault(call.tool, []).append(position)
        elif call.label != "unknown" and (run := open_runs.pop(call.tool, None)):
            yield run
    yield from open_runs.values()


def _group_equal(run: list[int], calls: Sequence[JudgedCall]) -> Iterable[list[int]]:
    group: list[int] = []
    for position in run:
        if group and calls[position].fingerprint != calls[group[-1]].fingerprint:
            yield group
            group = []
        group.append(position)
    yield group


def _make_spiral(
    calls: Sequence[JudgedCall], positions: list[int], *, kind: Literal["identical", "tool"]
) -> Spiral:
    turns: dict[object, JudgedCall] = {}
    for position in positions:
        call = calls[position]
        # calls made side by side share their turn, which is paid for once
        turns.setdefault(("alone", position) if call.turn is None else call.turn, call)
    tokens = [call.tokens for call in turns.values() if call.tokens is not None]
    costs = [call.cost_nanos for call in turns.values() if call.cost_nanos is not None]
    return Spiral(
        tool=calls[positions[0]].tool,
        kind=kind,
        count=len(positions),
        first=positions[0],
        last=positions[-1],
        tokens=sum(tokens) if tokens else None,
        cost_nanos=sum(costs) if costs else None,
        unknown_turns=len(turns) - len(costs),
    )
