"""One session: its steps, texts, time, cost and outcome."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from relight.reports.listing import ListedSession, SessionPage, list_sessions
from relight.reports.sessions import SessionHead, find_session, read_head
from relight.reports.trace import Step, Trace, read_trace
from relight.sources.resume import resume_line
from relight.stats.rates import Estimate
from relight.store import Store
from relight.store.candidates import find_own_template
from relight.store.queries.listing import Listing
from relight.store.queries.steps import TurnCost, read_family_costs, read_test_runs
from relight.store.write.tape import count_bytes
from relight.text import dollars, find_digits
from relight.times import read_time
from relight.warm.gate import find_refusal, refuse_repetition
from relight.web.charts.chart import Chart
from relight.web.charts.context_size import draw_context
from relight.web.charts.curves import Series, draw_lines
from relight.web.charts.timeline import draw_timeline, has_short_waits
from relight.web.page import Context, View, find_view_number
from relight.web.reading.outline import MOST_PROMPTS, find_spans, make_outline
from relight.web.reading.shown_steps import (
    StepChoice,
    StepPart,
    choose_steps,
    count_kinds,
    cut_chosen,
    is_error,
    is_prompt,
    list_tools,
)
from relight.web.reading.step_rows import SpiralRow, StepRow, fold_spirals, make_rows

POINTS = 60
MOST_TURNS = 5000  # for which a curve is drawn
BESIDE, NEWER = 40, 8  # sessions in the list at the side, and how many of them are newer
MOST_BYTES = 24_000_000  # of tape; sessions with more show only their figures


def show(view: View) -> Context:
    """Return a part of the session's steps, and its facts, figures and charts.

    With `nested` or `only` in the address it is a fragment, which a script puts into a page: the
    steps of a sub-agent below the step of another session, or the texts of one step.
    """
    store = view.store
    session_id = find_session(store, view.path["name"])
    trace = read_trace(store, session_id, has_texts=count_bytes(store, session_id) <= MOST_BYTES)
    head = read_head(store, session_id)
    nested, only = find_view_number(view, "nested"), find_view_number(view, "only")
    if only is not None:
        part = cut_chosen([one for one in trace.steps if one.step == only], step=None, part=None)
    else:
        choice = read_choice(view)
        number = None if nested is not None else find_view_number(view, "part")
        step = None if nested is not None else find_view_number(view, "step")
        part = cut_chosen(choose_steps(trace.steps, choice), step=step, part=number)
    context = _show_part(view, head, trace, part)
    if nested is not None or only is not None:
        return {
            **context,
            "is_fragment": True,
            "prefix": f"{nested}-" if nested else "",
            "only": only,
        }
    return {**context, **_show_whole(view, head, trace, part), "is_fragment": False, "prefix": ""}


def read_choice(view: View) -> StepChoice:
    """Return the steps that the address asks for."""
    query = view.query
    return StepChoice(query.get("kind", ""), query.get("tool", ""), query.get("find", "").strip())


def _show_part(view: View, head: SessionHead, trace: Trace, part: StepPart) -> Context:
    """Return the rows of a part."""
    choice = read_choice(view)
    rows = list(
        make_rows(
            part.steps,
            begin=next((at for one in trace.steps if (at := read_time(one.at))), None),
            children={child.session_id: child for child in head.children},
            project=head.project,
            find=choice.find,
        )
    )
    shown: Sequence[StepRow | SpiralRow] = rows
    if choice.is_any and "only" not in view.query:
        shown = list(fold_spirals(rows, head.spirals))
    return {
        "one": head,
        "rows": shown,
        "part": part,
        "cost_digits": find_digits(one.running_cost_usd for one in trace.steps),
        "at": lambda step: make_step_link(view, step),
        "more": lambda step: view.filters.link(view.address, only=step),
    }


def _show_whole(view: View, head: SessionHead, trace: Trace, part: StepPart) -> Context:
    """Return what stands around the steps: outline, charts, filters, the list of sessions."""
    store, steps = view.store, trace.steps
    session_id = find_session(store, view.path["name"])
    runs = read_test_runs(store, session_id)
    tests = {trace.calls[call]: found for call, found in runs.items() if call in trace.calls}
    outline = make_outline(steps, tests)
    linked = {step.child_session_id for step in steps if step.child_session_id}
    last = part.steps[-1].step if part.steps else len(steps)
    before, after = steps[: part.steps[0].step - 1 if part.steps else 0], steps[last:]
    spans = find_spans(steps)
    timeline = draw_timeline(spans, outline, link=lambda step: make_step_link(view, step))
    has_curve = (head.figures.turns or 0) <= MOST_TURNS
    return {
        "silence": trace.silence,
        "total": len(steps),
        "choice": read_choice(view),
        "kinds": count_kinds(steps),
        "tools": list_tools(steps),
        "outline": outline[:MOST_PROMPTS],
        "more_prompts": max(len(outline) - MOST_PROMPTS, 0),
        "timeline": timeline,
        "has_short_waits": has_short_waits(spans),
        "context": draw_context(steps),
        "curve": draw_curve(store, session_id) if has_curve else None,
        "other_children": [one for one in head.children if one.session_id not in linked],
        "jumps": {
            "next-prompt": _find_link(view, after, is_prompt),
            "next-error": _find_link(view, after, is_error),
            "last-prompt": _find_link(view, reversed(before), is_prompt),
            "last-error": _find_link(view, reversed(before), is_error),
        },
        **_judge_template(store, session_id, head),
        "resume": resume_line(
            head.source, head.id, head.project, is_part=head.parent_kind == "subagent"
        ),
        "beside": list_beside(view, head),
    }


def list_beside(view: View, head: SessionHead) -> list[ListedSession]:
    """Return the newest sessions, or those around this one if it is not among them."""

    def read(limit: int, after: int | None = None, *, is_ascending: bool = False) -> SessionPage:
        cursor = None if after is None else f"{after}_0"
        listing = Listing(limit=limit, after=cursor, is_ascending=is_ascending)
        return list_sessions(view.store, view.chosen, listing)

    newest = read(BESIDE).sessions
    began = read_time(head.started_at)
    if began is None or any(one.session_id == head.session for one in newest):
        return newest
    newer = read(NEWER, began + 1, is_ascending=True).sessions
    older = read(BESIDE - NEWER, began + 1).sessions
    return [*reversed(newer), *older] if older else newest


def _judge_template(store: Store, session_id: int, head: SessionHead) -> Context:
    """Return why the session makes no template, and whether it would if it had succeeded."""
    refusal = find_refusal(store, session_id, head.session)
    own = None if refusal else find_own_template(store, session_id)
    is_unknown = refusal is not None and head.outcome == "unknown"
    return {
        "refusal": refuse_repetition(own) if own else refusal,
        "own_template": own,
        "may_succeed": is_unknown
        and not find_refusal(store, session_id, head.session, outcome="success"),
    }


def make_step_link(view: View, step: int) -> str:
    """Return the address of a step, which works wherever its part begins."""
    return f"{view.filters.link(view.address, step=step)}#step-{step}"


def _find_link(view: View, steps: Iterable[Step], fits: Callable[[Step], bool]) -> str | None:
    """Return the address of the first of the steps that fits."""
    found = next((step for step in steps if fits(step)), None)
    return make_step_link(view, found.step) if found else None


def _read_spent(turn: TurnCost) -> float | None:
    """The cost of a turn; what a plan paid for is not spent."""
    return 0.0 if turn.cost_status == "included" else turn.cost_usd


def draw_curve(store: Store, session_id: int) -> Chart | None:
    """Return a chart of the accumulated cost with sub-agents; it ends at the session's figures."""
    turns = read_family_costs(store, session_id)
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
        height=72,
    )
