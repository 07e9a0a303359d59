"""Mixtures of agents: the sessions whose turns were traced."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from relight.reports.filters import is_model
from relight.reports.narrowing import NoMatch, explain_no_match, list_given
from relight.times import day_reader, read_time
from relight.web.page import Context, View
from relight.work.moa import trace_report
from relight.work.moa.advisers import report_advisers

SHOWN = 50


def show(view: View) -> Context:
    """Return the newest traces, and the presets."""
    config = view.store.config
    rows = []
    found = list(islice(trace_report.find_traces(view.store), SHOWN))
    for trace in found:
        calls = [call for turn in trace.turns for call in trace_report.all_calls(turn)]
        if not is_trace_chosen(view, trace):
            continue
        cost, unpriced = trace_report.sum_call_costs(calls)
        last = trace.turns[-1] if trace.turns else {}
        rows.append(
            {
                "about": trace_report.find_task(trace.turns[0]) if trace.turns else None,
                "session": trace.session_id,
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
        "why": explain_no_trace(view, found) if found and not rows else None,
        "traces": rows,
        "presets": config.moa.presets,
        "is_saving": config.moa.save_traces,
        "folder": str(config.trace_folder),
        "advisers": report_advisers(view.store),
    }


def explain_no_trace(view: View, traces: Sequence[trace_report.TracedSession]) -> NoMatch:
    return explain_no_match(
        view.store,
        "trace",
        _list_given(view),
        lambda rest: sum(is_trace_chosen(view, trace, rest) for trace in traces),
    )


def _list_given(view: View) -> dict[str, Any]:
    return list_given(replace(view.chosen, source=None, project=None))


def is_trace_chosen(
    view: View, trace: trace_report.TracedSession, given: Mapping[str, Any] | None = None
) -> bool:
    """True if a trace matches the days and the model in the address, or those given."""
    given = _list_given(view) if given is None else given
    wanted, aliases = given.get("model", ""), view.store.config.models.aliases
    calls = (
        [call for turn in trace.turns for call in trace_report.all_calls(turn)] if wanted else []
    )
    if wanted and not any(is_model(str(one.get("model") or ""), wanted, aliases) for one in calls):
        return False
    at = read_time(trace.turns[-1].get("ts")) if trace.turns else None
    day = day_reader(view.store.timezone)(at)
    return day is None or given.get("since", "") <= day <= given.get("until", "~")
