"""A session's time: one lane for the model, one for tools, one for waits, on one axis."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from relight.text import seconds, share
from relight.web.charts.chart import FOOT, Cell, Chart, Legend, frame
from relight.web.charts.svg import element, link_shapes, percent, text_element
from relight.web.reading.outline import PromptEntry, Span, StepSpans, merge_spans, sum_spans

LANE, BAR = 17.0, 11.0
PIECES = 360  # of the width: what is closer together is drawn as one
TICKS = 6
WAIT_SHARE = 0.03  # of the busy time that a wait takes at most in the drawing
MOST_ROWS = 100


class ShortenedTime:
    """A scale on which waits are shortened, so that they do not hide the rest."""

    def __init__(self, busy: Sequence[Span]) -> None:
        merged = list(merge_spans(busy, 0))
        self.begin = merged[0][0] if merged else 0
        limit = max(sum_spans(busy) * WAIT_SHARE, 1.0)
        self._starts: list[int] = []
        self._passed: list[float] = []
        passed, until = 0.0, self.begin
        for begin, end in merged:
            # a wait takes its part of the scale at its own pace
            self._add(until, passed)
            passed += min(begin - until, limit)
            self._add(begin, passed)
            passed += end - begin
            until = end
        self._add(until, passed)
        self.whole = max(passed, 1.0)
        self.seconds = (until - self.begin) / 1000

    @property
    def is_shortened(self) -> bool:
        """True if something is drawn shorter than it was."""
        return self.whole < self.seconds * 1000

    def _add(self, at: int, passed: float) -> None:
        self._starts.append(at)
        self._passed.append(passed)

    def share(self, at: float) -> float:
        """Return the place of a time, from 0 to 1."""
        place = bisect_right(self._starts, at) - 1
        if place < 0:
            return 0.0
        if place + 1 == len(self._starts):
            return 1.0
        begin, end = self._starts[place], self._starts[place + 1]
        part = (at - begin) / (end - begin) if end > begin else 0.0
        low, high = self._passed[place], self._passed[place + 1]
        return (low + (high - low) * part) / self.whole

    def find_time(self, share: float) -> float:
        """Return the time at a place, from 0 to 1."""
        wanted = share * self.whole
        place = min(bisect_right(self._passed, wanted) - 1, len(self._passed) - 2)
        low, high = self._passed[place], self._passed[place + 1]
        part = (wanted - low) / (high - low) if high > low else 0.0
        return self._starts[place] + (self._starts[place + 1] - self._starts[place]) * part


def draw_timeline(
    spans: StepSpans,
    prompts: Sequence[PromptEntry],
    *,
    link: Callable[[int], str],
    title: str = "Time",
) -> Chart | None:
    """Return the lanes of a session; None if nothing in it took time."""
    if not spans.model and not spans.tool:
        return None
    scale = ShortenedTime([*spans.model, *spans.tool])
    lanes = (
        ("model", "turn", spans.model),
        ("tools", "call", spans.tool),
        ("waiting", "wait", spans.waiting),
    )
    height = LANE * len(lanes) + 2
    drawn = list(_draw_axis(scale, height))
    sums = [sum_spans(own) for _, _, own in lanes]
    sums[0] += spans.summed_ms
    for number, (name, kind, own) in enumerate(lanes):
        y = LANE * number + (LANE - BAR) / 2
        drawn.append(text_element(name, class_="tick", x=-8.0, y=y + BAR - 2))
        drawn += _draw_spans(own, scale, y=y, kind=kind)
    drawn += _draw_spans(spans.failed, scale, y=LANE + (LANE - BAR) / 2, kind="broken")
    drawn += _draw_prompts(prompts, scale, height, link)
    # some agents do not record when a model began: its share is then unknown, not none
    whole = sum(sums) if sums[0] else 0
    figures = [
        f"{name} {seconds(own / 1000)}" + (f" ({share(own / whole)})" if whole else "")
        for (name, _, _), own in zip(lanes, sums, strict=True)
    ]
    if not sums[0]:
        figures[0] = "model: time unknown"
    elif spans.summed_ms:
        part = seconds(spans.summed_ms / 1000) if spans.model else "all"
        figures[0] += f", {part} of it at unknown times"
    legend = [
        Legend(words, kind) for words, kind in zip(figures, ("turn", "call", "wait"), strict=True)
    ]
    if spans.failed:
        legend.append(Legend("failed calls", "broken"))
    return Chart(
        title=title,
        svg=frame(drawn, f"{title}: {', '.join(figures)}", height),
        head=["prompt", "model", "tools", "waited before"],
        rows=[
            [
                Cell(f"step {one.step}", link(one.step)),
                Cell(seconds(one.model_ms / 1000) if spans.model else "–"),
                *(Cell(seconds(spent / 1000)) for spent in (one.tool_ms, one.waited_ms)),
            ]
            for one in prompts[:MOST_ROWS]
        ],
        legend=legend,
    )


def has_short_waits(spans: StepSpans) -> bool:
    """True if the lanes show waits, or other gaps, shorter than they were."""
    return ShortenedTime([*spans.model, *spans.tool]).is_shortened


def _draw_spans(
    spans: Sequence[Span], scale: ShortenedTime, *, y: float, kind: str
) -> Iterator[Markup]:
    """Yield the bars of a lane; at most some hundred, each wide enough to be seen."""
    places = ((scale.share(begin), scale.share(end)) for begin, end in spans)
    for begin, end in merge_spans(places, 1 / PIECES):
        width = max(end - begin, 0.7 / PIECES)
        left = min(begin, 1 - width)
        yield element("rect", class_=kind, x=percent(left), y=y, width=percent(width), height=BAR)


def _draw_axis(scale: ShortenedTime, height: float) -> Iterator[Markup]:
    yield element("line", class_="grid base", x2="100%", y1=height, y2=height)
    for number in range(TICKS + 1):
        share = number / TICKS
        x = percent(share)
        text = _write_elapsed((scale.find_time(share) - scale.begin) / 1000, scale.seconds)
        kind = "label start" if not number else "label end" if number == TICKS else "label"
        minor = " minor" if number % 2 else ""
        yield element("line", class_="grid", x1=x, x2=x, y1=0.0, y2=height)
        yield text_element(text, class_=f"{kind}{minor}", x=x, y=height + FOOT - 5)


def _write_elapsed(value: float, whole: float) -> str:
    """Return a time since the beginning; labels of a short session differ in parts of a second.

    >>> [_write_elapsed(75, whole) for whole in (80, 7200)], _write_elapsed(0.25, 1.5)
    (['1:15', '1:15'], '0.2s')
    """
    if whole < 2 * TICKS:
        return f"{value:.{2 if whole < 1 else 1}f}s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24}d {hours % 24}h"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _draw_prompts(
    prompts: Sequence[PromptEntry],
    scale: ShortenedTime,
    height: float,
    link: Callable[[int], str],
) -> Iterator[Markup]:
    """Yield an area for each prompt, which leads to its step."""
    known = [one for one in prompts if one.at is not None]
    places = [scale.share(one.at or 0) for one in known]
    for number, one in enumerate(known):
        left = places[number]
        right = places[number + 1] if number + 1 < len(known) else 1.0
        if right - left < 0.5 / PIECES:
            continue
        tip = "\n".join(
            [
                f"step {one.step}: {' '.join(one.name[:160].split())[:80]}",
                *([f"model {seconds(one.model_ms / 1000)}"] if one.model_ms else []),
                f"tools {seconds(one.tool_ms / 1000)}",
                *([f"waited {seconds(one.waited_ms / 1000)} before"] if one.waited_ms else []),
            ]
        )
        shapes = [
            element(
                "rect",
                class_="hit",
                x=percent(left),
                y=0.0,
                width=percent(right - left),
                height=height,
            ),
            element("line", class_="begin", x1=percent(left), x2=percent(left), y1=0.0, y2=height),
        ]
        yield link_shapes(shapes, tip, link(one.step))
