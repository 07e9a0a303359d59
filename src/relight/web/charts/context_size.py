"""The context at each turn, against the model's window, with compactions and cache rebuilds."""

from collections.abc import Sequence

from relight.prices import context_window
from relight.reports.cache_rebuilds import describe_session
from relight.reports.trace import Step
from relight.stats.rates import Estimate
from relight.text import count, share
from relight.web.charts.chart import Chart
from relight.web.charts.curves import Series, draw_lines
from relight.web.reading.outline import is_sum

POINTS = 90
MOST_MARKS = 40  # of rebuilds, the largest ones
NEAR = 0.3  # of the window: a smaller context would be flat beside it


def draw_context(steps: Sequence[Step], *, height: float = 72.0) -> tuple[Chart, str] | None:
    """Return a chart of the context by turn and a sentence about its peak; None if unknown."""
    turns = [(at, step) for at, step in enumerate(steps) if read_context(step) is not None]
    if len(turns) < 3:
        return None
    sizes = [read_context(step) or 0 for _, step in turns]
    sellers = {(step.model, step.provider) for _, step in turns}
    known = {one: context_window(*one) for one in sellers}
    windows = [known[step.model, step.provider] for _, step in turns]
    peak = max(range(len(sizes)), key=sizes.__getitem__)
    window = windows[peak]
    is_near = window is not None and sizes[peak] >= NEAR * window
    compacted = [at for at, step in enumerate(steps) if step.kind == "compaction"]
    # the turn after each compaction
    marks = [next((n for n, (at, _) in enumerate(turns) if at > one), None) for one in compacted]
    rebuilt = {n: step.cache_rebuild for n, (_, step) in enumerate(turns) if step.cache_rebuild}
    costly = sorted(rebuilt, key=lambda n: -rebuilt[n].tokens)[:MOST_MARKS]
    drawn = {one for one in marks if one is not None} | set(costly)
    chosen = _choose(sizes, peak, sorted(drawn))
    notes = {n: one.sentence for n, one in rebuilt.items()}
    notes |= {n: f"compacted before\n{notes.get(n, '')}".strip() for n in marks if n is not None}
    lines = [Series(name="context", points=[Estimate(sizes[n], None, None) for n in chosen])]
    if is_near:
        limits = [windows[n] for n in chosen]
        line = [None if one is None else Estimate(one, None, None) for one in limits]
        lines.append(Series(name="window", points=line))
    chart = draw_lines(
        "Context by turn",
        lines,
        labels=[f"step {turns[n][1].step}" for n in chosen],
        formatter=count,
        notes=[notes.get(n, "") for n in chosen],
        marks=[place for place, n in enumerate(chosen) if n in drawn],
        height=height,
    )
    words = f"peak {count(sizes[peak])}"
    if window and sizes[peak] <= window:
        words += f", {share(sizes[peak] / window)} of the model's {count(window)}"
    elif window:
        words += f", more than the {count(window)} known for the model"
    if compacted:
        words += f" · compacted {len(compacted)} time{'s' if len(compacted) > 1 else ''}"
    if sentence := describe_session(steps):
        words += f" · {sentence}"
    return chart, words


def read_context(step: Step) -> int | None:
    """Return the tokens that a model read for a step; None if no single model call stands there."""
    if step.turns != 1 or is_sum(step) or step.input_tokens is None:
        return None
    return step.input_tokens + (step.cache_read_tokens or 0) + (step.cache_write_tokens or 0)


def _choose(sizes: Sequence[int], peak: int, marks: Sequence[int]) -> list[int]:
    """Return the turns that are drawn: even ones, the peak, and both sides of a compaction."""
    every = max(len(sizes) // POINTS, 1)
    sides = {at for mark in marks[:POINTS] for at in (mark - 1, mark) if at >= 0}
    return sorted({*range(0, len(sizes), every), len(sizes) - 1, peak, *sides})
