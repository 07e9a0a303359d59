"""One traced session: what each adviser of a turn saw and said, its cost and time."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from relight.chat.messages import read_calls, read_text
from relight.errors import MissingError, RelightError
from relight.text import cut_visible, seconds
from relight.web.charts.sparks import draw_span
from relight.web.page import Context, View, find_view_number
from relight.web.reading.markdown import render_markdown
from relight.work.moa import trace_report


def show(view: View) -> Context:
    """Return the turn that the address names, else the last."""
    try:
        trace = trace_report.find_trace(view.store, view.path["name"])
    except RelightError as error:
        raise MissingError(error.message, error.hint) from error
    turns = trace.turns
    number = min(find_view_number(view, "turn") or len(turns), max(len(turns), 1))
    agreements = [trace_report.compare_advice(turn) for turn in turns]
    cost, unpriced = trace_report.sum_call_costs(
        call for turn in turns for call in trace_report.all_calls(turn)
    )
    turn = turns[number - 1] if turns else None
    return {
        "name": trace.session_id,
        "about": trace_report.find_task(turns[0]) if turns else None,
        "number": number,
        "turns": len(turns),
        "turn": turn,
        "prompt": trace_report.find_prompt(turn) if turn else None,
        "calls": describe_calls(turn, agreements[number - 1]) if turn else [],
        "models": trace_report.sum_models(turns, agreements),
        "cost_usd": cost,
        "unpriced": unpriced,
        "skipped": trace.skipped,
        "cut": cut_visible,
        "read": render_markdown,
    }


def describe_calls(turn: Mapping[str, Any], agreement: Sequence[float | None]) -> list[Context]:
    """Return each call of a turn with its time span: advisers run at once, then one model acts."""
    acting = turn.get("aggregator")
    advised = max([0, *(trace_report.read_milliseconds(one) or 0 for one in turn["references"])])
    whole = max(advised + (trace_report.read_milliseconds(acting) or 0 if acting else 0), 1)
    rows = []
    for call, agreed in zip_longest(trace_report.all_calls(turn), agreement):
        is_acting = call is acting
        begin, took = advised if is_acting else 0, trace_report.read_milliseconds(call)
        spent = None if took is None else took / 1000
        failure = call.get("failure")
        usage = call.get("usage")
        rows.append(
            {
                "label": str(call.get("label") or call.get("model") or "unknown"),
                "role": "acts" if is_acting else "advises",
                "usage": usage if isinstance(usage, Mapping) else {},
                "cost_usd": None if call.get("cached") else trace_report.read_cost(call),
                "unpriced": 0 if call.get("cached") else int(trace_report.read_cost(call) is None),
                "seconds": spent,
                "is_cached": bool(call.get("cached")),
                "failure": failure if isinstance(failure, Mapping) else None,
                "agreed": agreed,
                "differs": agreed is not None and agreed < trace_report.DISAGREEING,
                "said": read_text(call.get("output")),
                "asked": [(one.tool, read_text(one.arguments)) for one in read_calls(call)],
                "saw": [
                    {"role": str(one.get("role")), "text": read_text(one.get("content"))}
                    for one in call.get("input_messages") or ()
                    if isinstance(one, Mapping)
                ],
                "bar": draw_span(
                    begin / whole,
                    (begin + took) / whole,
                    kind="broken" if failure else "call" if is_acting else "turn",
                    tip=f"{call.get('label')}: {seconds(spent)}",
                )
                if took is not None
                else "",
            }
        )
    return rows
