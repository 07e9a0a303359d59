"""Mixtures of agents: the sessions whose turns were traced."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from relight.reports.filters import is_model
from relight.times import day_reader, read_time
from relight.web.page import Context, View
from relight.web.pages.mixture import find_task
from relight.work.moa.trace_report import (
    TraceFile,
    all_calls,
    find_traces,
    sum_call_costs,
)

SHOWN = 50


def show(view: View) -> Context:
    """Return the newest traces, and the presets."""
    config = view.store.config
    rows = []
    for trace in islice(find_traces(config.trace_folder), SHOWN):
        calls = [call for turn in trace.turns for call in all_calls(turn)]
        if not is_trace_chosen(view, trace, calls):
            continue
        cost, unpriced = sum_call_costs(calls)
        last = trace.turns[-1] if trace.turns else {}
        rows.append(
            {
                "about": find_task(trace.turns[0]) if trace.turns else None,
                "session": str(last.get("session_id") or trace.path.stem),
                "preset": last.get("preset"),
                "turns": len(trace.turns),
                "advisers": len(last.get("references") or ()),
                "failures": sum(bool(call.get("failure")) for call in calls),
                "last_at": last.get("ts"),
                "cost_usd": cost,
                "unpriced": unpriced,
                "skipped": trace.skipped,
            }
        )
    return {
        "traces": rows,
        "presets": config.moa.presets,
        "is_saving": config.moa.save_traces,
        "folder": str(config.trace_folder),
    }


def is_trace_chosen(view: View, trace: TraceFile, calls: Sequence[Mapping[str, Any]]) -> bool:
    """True if a trace matches the days and the model in the address."""
    wanted = view.filters.model
    if wanted and not any(
        is_model(str(call.get("model") or ""), wanted, view.store.config.models.aliases)
        for call in calls
    ):
        return False
    at = read_time(trace.turns[-1].get("ts")) if trace.turns else None
    day = day_reader(view.store.timezone)(at)
    since, until = view.chosen.since or "", view.chosen.until or "~"
    return day is None or since <= day <= until
