"""One session: what happened step by step, what was said, what it cost, what came of it."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from relight.chat.messages import read_arguments
from relight.errors import RelightError
from relight.reports.sessions import find_session, read_session
from relight.reports.steps import read_steps, read_turns
from relight.reports.wording import Text, Wording, read_wording
from relight.stats.rates import Estimate
from relight.store import Store
from relight.store.write.tape import count_bytes
from relight.text import cut_visible, dollars, seconds
from relight.times import read_time
from relight.web.charts.chart import Chart
from relight.web.charts.lines import Series, draw_lines
from relight.web.charts.sparks import draw_span
from relight.web.page import View

STEPS = 200
POINTS = 60
MOST_TURNS = 5000  # of which a curve is drawn
PAUSE_MS = 20_000  # more than this of a pause is left out of the bars
# what tells most of a call, by the names that agents' tools give it
TELLING = (
    *("command", "cmd", "pattern", "query", "file_path", "path", "notebook_path", "url"),
    *("skill", "name", "description", "prompt", "input"),
)
MOST_BYTES = 6_000_000  # of tape that is read for a page; of more there are only the figures
Step = dict[str, Any]


def show(view: View) -> dict[str, Any]:
    """A page of the session's steps, and all else that is known of it."""
    store = view.store
    session_id = find_session(store, view.path["name"])
    found = read_session(store, session_id, with_steps=False)
    page = read_steps(store, session_id, after=view.query.get("after"), limit=STEPS, with_rows=True)
    wording, silence = find_wording(store, session_id)
    rest = wording.rest if wording and page["next"] is None else []
    return {
        "one": found,
        "steps": add_rest(list(tell_steps(page, wording, found["spirals"])), rest),
        "silence": silence,
        "next": page["next"],
        "curve": draw_curve(store, session_id) if found["figures"]["turns"] <= MOST_TURNS else None,
        "cut": cut_visible,
    }


def add_rest(steps: list[Step], rest: Sequence[Text]) -> list[Step]:
    """The steps with what was said after the last of them.

    Where the session's total is the only step there is, and nobody spoke in it, it stands last.
    """
    said = [{"step": "said", "before": [], "text": text} for text in rest]
    is_total = [step.get("usage_status") for step in steps] == ["reconciled"]
    if is_total and not steps[0]["before"] and not steps[0]["said"]:
        return said + steps
    return steps + said


def find_wording(store: Store, session_id: int) -> tuple[Wording | None, str | None]:
    """What was said, or why that is not shown."""
    if count_bytes(store, session_id) > MOST_BYTES:
        return None, "The record is too large to be shown here; `relight show` has its figures."
    try:
        return read_wording(store, session_id), None
    except RelightError as error:
        return None, f"{error.message}: {error.hint}" if error.hint else error.message


def tell_steps(
    page: dict[str, Any], wording: Wording | None, spirals: Sequence[dict[str, Any]]
) -> Iterator[Step]:
    """The steps of a page with their words, their place in time and the cost so far."""
    steps: list[Step] = page["steps"]
    spans = list(_find_spans(steps, wording))
    clock = ActiveTime([span for span in spans if span is not None])
    so_far, is_known = page["cost_before_usd"] or 0.0, page["cost_before_usd"] is not None
    unpriced = page["unpriced_before"]
    model = None
    for step, span in zip(steps, spans, strict=True):
        told = step | _find_words(step, wording) | {"spiral": None, "bar": None, "offset": None}
        took = step["duration_ms"]
        if step["step"] == "turn":
            so_far += step["cost_usd"] or 0.0
            is_known = is_known or step["cost_usd"] is not None
            # a call of the model that failed is no turn, and has no price to be known
            unpriced += step["cost_usd"] is None and step["calls"] > 0
            told |= {"so_far": so_far if is_known else None, "unpriced": unpriced}
            told["is_other_model"] = step["model"] != model
            model = step["model"]
        else:
            told["spiral"] = next((one for one in spirals if _is_in(step, one)), None)
            if took is None and span is not None and step["finished_at"]:
                took = span[1] - span[0]
        told["took"] = None if took is None else took / 1000
        if span is not None:
            told["offset"] = (span[0] - clock.begin) / 1000
            is_bad = step.get("failure") or step.get("label") == "error"
            told["bar"] = draw_span(
                clock.share(span[0]),
                clock.share(span[1]),
                kind="broken" if is_bad else step["step"],
                tip=f"{step.get('tool') or step.get('model')}, {seconds(told['took'])}",
            )
        yield told


def _find_words(step: Step, wording: Wording | None) -> dict[str, Any]:
    """What was said before, in and by a step."""
    if wording is None:
        return {"before": [], "said": [], "words": None}
    kind, row = step["step"], step["row"]
    words = wording.calls.get(row) if kind == "call" else None
    return {
        "before": wording.before.get((kind, row), []),
        "said": wording.turns.get(row, []) if kind == "turn" else [],
        "words": words,
        "asked": tell_arguments(words.arguments.text) if words else "",
    }


def tell_arguments(text: str) -> str:
    """The one argument that says what a call is about, else all of them.

    >>> tell_arguments('{"command": "ls -l", "timeout": 3}')
    'ls -l'
    """
    fields = read_arguments(text[:20_000]) or {}
    told = next((fields[name] for name in TELLING if fields.get(name)), None)
    if isinstance(told, list):
        return " ".join(map(str, told))
    return told if isinstance(told, str) else text


def _find_spans(steps: Sequence[Step], wording: Wording | None) -> Iterator[tuple[int, int] | None]:
    """When each step began and ended.

    A turn is written down when it is answered. Where nobody measured it, the model was busy since
    the step before, unless a person spoke in between.
    """
    last: int | None = None
    for step in steps:
        at = read_time(step["at"])
        if at is None:
            yield None
            continue
        begin, end = at, at
        if step["step"] == "call":
            end = max(read_time(step["finished_at"]) or at, at)
        elif step["duration_ms"] is not None:
            begin = at - step["duration_ms"]
        elif last is not None and not (wording and wording.before.get(("turn", step["row"]))):
            begin = min(last, at)
        yield begin, end
        last = max(end, last or end)


class ActiveTime:
    """A clock that hardly moves while nothing happens, so that a pause does not hide the rest."""

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
        """How much of all activity has passed by then, from 0 to 1."""
        place = max(bisect_right(self._starts, at) - 1, 0)
        return min((self._passed[place] + at - self._starts[place]) / self._whole, 1.0)


def _is_in(step: Step, spiral: dict[str, Any]) -> bool:
    if step["tool"] != spiral["tool"] or step["label"] != "error" or step["at"] is None:
        return False
    return bool(spiral["first_at"] <= step["at"] <= spiral["last_at"])


def draw_curve(store: Store, session_id: int) -> Chart | None:
    """The cost running up, turn by turn."""
    costs = [turn["cost_usd"] for turn in read_turns(store, session_id).values()]
    if sum(cost is not None for cost in costs) < 3:
        return None
    sums, total = [], 0.0
    for cost in costs:
        total += cost or 0.0
        sums.append(total)
    every = max(len(sums) // POINTS, 1)
    chosen = sorted({*range(0, len(sums), every), len(sums) - 1})
    return draw_lines(
        "Cost running up",
        [Series(name="so far", points=[Estimate(sums[n], None, None) for n in chosen])],
        labels=[f"turn {n + 1}" for n in chosen],
        formatter=dollars,
        height=110,
    )
