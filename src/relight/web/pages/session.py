"""One session: its steps, texts, cost and outcome."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from itertools import accumulate
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from relight.chat.messages import read_arguments
from relight.errors import RelightError, as_typed
from relight.reports.failures import number_spirals
from relight.reports.sessions import find_session, read_head
from relight.reports.steps import StepPage, read_placed_steps
from relight.reports.transcript import CallText, Text, Wording, read_wording
from relight.stats.rates import Estimate
from relight.store import Store
from relight.store.queries.steps import CallStep, SessionTurn, TurnStep, read_family_turns
from relight.store.write.tape import count_bytes
from relight.text import cut_visible, dollars, seconds
from relight.times import read_time
from relight.web.charts.chart import Chart
from relight.web.charts.curves import Series, draw_lines
from relight.web.charts.sparks import draw_span
from relight.web.page import Context, View

STEPS = 200
POINTS = 60
MOST_TURNS = 5000  # for which a curve is drawn
PAUSE_MS = 20_000  # longer pauses are shortened to this in the bars
# the arguments that say what a call is about, by their names in agents' tools
SUBJECTS = (
    *("command", "cmd", "pattern", "query", "file_path", "path", "notebook_path", "url"),
    *("skill", "name", "description", "prompt", "input"),
)
MOST_BYTES = 6_000_000  # of tape; sessions with more show only their figures


class ShownStep(Struct, frozen=True, kw_only=True):
    """A turn, a call or a text after the last of them, with its words and its place in time."""

    turn: TurnStep | None = None
    call: CallStep | None = None
    text: Text | None = None
    row: int = 0
    before: Sequence[Text] = ()
    said: Sequence[Text] = ()
    words: CallText | None = None
    subject: str = ""
    is_in_spiral: bool = False
    bar: Markup | None = None
    offset: float | None = None
    took: float | None = None
    so_far: float | None = None
    unpriced: int = 0
    is_other_model: bool = False


def show(view: View) -> Context:
    """Return one page of the session's steps, and its facts and figures."""
    store = view.store
    session_id = find_session(store, view.path["name"])
    found = read_head(store, session_id)
    page, rows = read_placed_steps(store, session_id, after=view.query.get("after"), limit=STEPS)
    wording, silence = find_wording(store, session_id)
    spirals = number_spirals(store, session_id).keys() if found.spirals else set()
    rest = wording.rest if wording and page.next is None else []
    has_curve = (found.figures.turns or 0) <= MOST_TURNS
    return {
        "one": found,
        "steps": add_rest(list(show_steps(page, rows, wording, spirals)), rest),
        "silence": silence,
        "next": page.next,
        "curve": draw_curve(store, session_id) if has_curve else None,
        "cut": cut_visible,
    }


def add_rest(steps: Sequence[ShownStep], rest: Sequence[Text]) -> list[ShownStep]:
    """Return the steps with the texts after the last of them.

    If the only step is the session's total, and nothing was said in it, it comes last.
    """
    said = [ShownStep(text=text) for text in rest]
    is_total = [step.turn.usage_status for step in steps if step.turn] == ["reconciled"]
    if is_total and len(steps) == 1 and not steps[0].before and not steps[0].said:
        return [*said, *steps]
    return [*steps, *said]


def find_wording(store: Store, session_id: int) -> tuple[Wording | None, str | None]:
    """Return the session's texts, or the reason why they are not shown."""
    if count_bytes(store, session_id) > MOST_BYTES:
        hint = as_typed("`relight show` has its figures")
        return None, f"The record is too large to be shown here; {hint}."
    try:
        return read_wording(store, session_id), None
    except RelightError as error:
        return None, f"{error.message}: {error.hint}" if error.hint else error.message


def show_steps(
    page: StepPage,
    rows: Sequence[int],
    wording: Wording | None,
    spirals: Set[int],
) -> Iterator[ShownStep]:
    """Yield the steps of a page with their texts, times and the cost so far."""
    spans = list(_find_spans(page.steps, rows, wording))
    clock = ActiveTime([span for span in spans if span is not None])
    so_far, is_known = page.cost_before_usd or 0.0, page.cost_before_usd is not None
    unpriced = page.unpriced_before
    model = None
    for step, row, span in zip(page.steps, rows, spans, strict=True):
        words = _find_words(step, row, wording) | _place_in_time(step, span, clock)
        if isinstance(step, CallStep):
            yield ShownStep(call=step, **words, is_in_spiral=row in spirals)
            continue
        so_far += _read_spent(step) or 0.0
        is_known = is_known or step.cost_usd is not None
        unpriced += step.cost_usd is None
        yield ShownStep(
            turn=step,
            **words,
            so_far=so_far if is_known else None,
            unpriced=unpriced,
            is_other_model=step.model != model,
        )
        model = step.model


def _place_in_time(
    step: TurnStep | CallStep, span: tuple[int, int] | None, clock: "ActiveTime"
) -> dict[str, Any]:
    """Return a step's start, its duration and a bar for both."""
    took = step.duration_ms
    if isinstance(step, CallStep) and took is None and span is not None and step.finished_at:
        took = span[1] - span[0]
    seconds_taken = None if took is None else took / 1000
    if span is None:
        return {"took": seconds_taken}
    is_call = isinstance(step, CallStep)
    is_bad = step.label == "error" if isinstance(step, CallStep) else step.failure
    name = step.tool if isinstance(step, CallStep) else step.model
    bar = draw_span(
        clock.share(span[0]),
        clock.share(span[1]),
        kind="broken" if is_bad else "call" if is_call else "turn",
        tip=f"{name}, {seconds(seconds_taken)}",
    )
    return {"took": seconds_taken, "offset": (span[0] - clock.begin) / 1000, "bar": bar}


def _find_words(step: TurnStep | CallStep, row: int, wording: Wording | None) -> dict[str, Any]:
    """Return the texts before and in a step."""
    if wording is None:
        return {"row": row}
    if isinstance(step, TurnStep):
        before, said = wording.before.get(("turn", row), []), wording.turns.get(row, [])
        return {"row": row, "before": before, "said": said}
    words = wording.calls.get(row)
    return {
        "row": row,
        "before": wording.before.get(("call", row), []),
        "words": words,
        "subject": find_subject(words.arguments.text) if words else "",
    }


def find_subject(text: str) -> str:
    """Return the argument that says what a call is about, else all arguments.

    >>> find_subject('{"command": "ls -l", "timeout": 3}')
    'ls -l'
    """
    fields = read_arguments(text[:20_000]) or {}
    found = next((fields[name] for name in SUBJECTS if fields.get(name)), None)
    if isinstance(found, list):
        return " ".join(map(str, found))
    return found if isinstance(found, str) else text


def _find_spans(
    steps: Sequence[TurnStep | CallStep], rows: Sequence[int], wording: Wording | None
) -> Iterator[tuple[int, int] | None]:
    """Yield the begin and end of each step.

    A turn is recorded when its response arrives. If its duration is unknown, the model was busy
    since the step before, unless a person spoke in between.
    """
    last: int | None = None
    for step, row in zip(steps, rows, strict=True):
        at = read_time(step.at)
        if at is None:
            yield None
            continue
        begin, end = at, at
        if isinstance(step, CallStep):
            end = max(read_time(step.finished_at) or at, at)
        elif step.duration_ms is not None:
            begin = at - step.duration_ms
        elif last is not None and not (wording and wording.before.get(("turn", row))):
            begin = min(last, at)
        yield begin, end
        last = max(end, last or end)


class ActiveTime:
    """A clock that shortens pauses, so that they do not hide the rest."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self.begin = min((begin for begin, _ in spans), default=0)
        self._starts: list[int] = []
        self._passed: list[float] = []
        passed, until = 0.0, self.begin
        for begin, end in sorted(spans):
            if begin > until or not self._starts:
                passed += min(begin - until, PAUSE_MS)
                self._starts.append(begin)
                self._passed.append(passed)
                until = begin
            if end > until:
                passed += end - until
                until = end
        self._whole = max(passed, 1.0)

    def share(self, at: int) -> float:
        """Return the share of all activity that has passed by then."""
        place = max(bisect_right(self._starts, at) - 1, 0)
        return min((self._passed[place] + at - self._starts[place]) / self._whole, 1.0)


def _read_spent(turn: SessionTurn) -> float | None:
    """The cost of a turn; what a plan paid for is not spent."""
    return 0.0 if turn.cost_status == "included" else turn.cost_usd


def draw_curve(store: Store, session_id: int) -> Chart | None:
    """Return a chart of the accumulated cost with sub-agents; it ends at the session's figures."""
    turns = read_family_turns(store, session_id)
    # of a session that a plan pays for, its worth
    is_spent = any(_read_spent(turn) for turn in turns)
    costs = [_read_spent(turn) if is_spent else turn.cost_usd for turn in turns]
    if sum(cost is not None for cost in costs) < 3:
        return None
    sums = list(accumulate(cost or 0.0 for cost in costs))
    numbers = list(accumulate(turn.calls for turn in turns))
    every = max(len(sums) // POINTS, 1)
    chosen = sorted({*range(0, len(sums), every), len(sums) - 1})
    return draw_lines(
        "Cost running up" if is_spent else "Worth at list price running up",
        [Series(name="so far", points=[Estimate(sums[n], None, None) for n in chosen])],
        labels=[f"turn {numbers[n]}" for n in chosen],
        formatter=dollars,
        height=110,
    )
