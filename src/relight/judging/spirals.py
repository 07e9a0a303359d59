"""Spirals: the same failing call repeated, or repeated failures of one tool."""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

SPIRAL_MINIMUM = 3
_TOOL_MINIMUM = 5


class JudgedCall(Struct, frozen=True):
    """A tool call with its verdict, and its turn's tokens and cost.

    `is_harmless`: it only looked around. `is_share`: the turn itself is unknown, and these figures
    are the call's part of the known total.
    """

    tool: str
    fingerprint: str
    label: Literal["ok", "negative", "error", "unknown"]
    turn: int | None = None
    tokens: float | None = None
    cost_nanos: float | None = None
    is_harmless: bool = False
    is_share: bool = False


class Spiral(Struct, frozen=True):
    """A run of failing calls of one tool, and the cost of their turns.

    `positions` are those of its calls in the sequence, from `first` to `last`. Tokens and cost are
    sums of the known figures, None if there are none; `unknown_turns` counts turns without a known
    cost, `is_estimated` says that shares are among the sums.
    """

    tool: str
    kind: Literal["identical", "tool"]
    count: int
    first: int
    last: int
    tokens: int | None = None
    cost_nanos: int | None = None
    unknown_turns: int = 0
    is_estimated: bool = False
    positions: tuple[int, ...] = ()


def find_spirals(calls: Sequence[JudgedCall]) -> list[Spiral]:
    """Return the spirals in a session's calls, in order of their start; no call is in two.

    A tool's calls are followed past the calls of other tools, since agents read and look around
    between two equal failures; equal ones also past harmless calls of the same tool, since to many
    agents the shell is the only tool. Any other call that did not fail ends a run; a call without a
    verdict neither ends it nor counts.
    """
    identical = [run for run in _split_equal(calls) if len(run) >= SPIRAL_MINIMUM]
    spirals = [_make_spiral(calls, run, kind="identical") for run in identical]
    taken = {position for run in identical for position in run}
    for run in _split_runs(calls):
        rest = [position for position in run if position not in taken]
        if len(rest) >= _TOOL_MINIMUM:
            spirals.append(_make_spiral(calls, rest, kind="tool"))
    return sorted(spirals, key=lambda spiral: (spiral.first, spiral.last))


def find_open_spiral(calls: Sequence[JudgedCall]) -> Spiral | None:
    """Return the spiral that the calls end in: no call after it worked.

    A spiral that the agent left is no sign of failure: it found another way.
    """
    worked = max((at for at, call in enumerate(calls) if call.label == "ok"), default=-1)
    spirals = [spiral for spiral in find_spirals(calls) if spiral.last > worked]
    return max(spirals, key=lambda spiral: spiral.count, default=None)


def _split_equal(calls: Sequence[JudgedCall]) -> Iterable[list[int]]:
    """The positions of equal failing calls, with no other work by their tool in between."""
    open_runs: dict[str, dict[str, list[int]]] = {}
    for position, call in enumerate(calls):
        runs = open_runs.setdefault(call.tool, {})
        if call.label == "error":
            runs.setdefault(call.fingerprint, []).append(position)
        elif call.label != "unknown" and (call.fingerprint in runs or not call.is_harmless):
            ended = [call.fingerprint] if call.is_harmless else list(runs)
            yield from (runs.pop(fingerprint) for fingerprint in ended)
    for runs in open_runs.values():
        yield from runs.values()


def _split_runs(calls: Sequence[JudgedCall]) -> Iterable[list[int]]:
    """Positions of consecutive failures of each tool."""
    open_runs: dict[str, list[int]] = {}
    for position, call in enumerate(calls):
        if call.label == "error":
            open_runs.setdefault(call.tool, []).append(position)
        elif call.label != "unknown" and (run := open_runs.pop(call.tool, None)):
            yield run
    yield from open_runs.values()


def _make_spiral(
    calls: Sequence[JudgedCall], positions: list[int], *, kind: Literal["identical", "tool"]
) -> Spiral:
    turns: dict[object, JudgedCall] = {}
    for position in positions:
        call = calls[position]
        # parallel calls share their turn, which is paid for once
        is_alone = call.turn is None or call.is_share
        turns.setdefault(("alone", position) if is_alone else call.turn, call)
    tokens = [call.tokens for call in turns.values() if call.tokens is not None]
    costs = [call.cost_nanos for call in turns.values() if call.cost_nanos is not None]
    return Spiral(
        tool=calls[positions[0]].tool,
        kind=kind,
        count=len(positions),
        first=positions[0],
        last=positions[-1],
        tokens=round(sum(tokens)) if tokens else None,
        cost_nanos=round(sum(costs)) if costs else None,
        unknown_turns=len(turns) - len(costs),
        is_estimated=any(call.is_share for call in turns.values()),
        positions=tuple(positions),
    )
