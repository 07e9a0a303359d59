"""The tools that an agent may call over MCP: each is a thin question to the read side."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from relight.chat.messages import describe_arguments
from relight.cli.mcp import tool_shapes as shapes
from relight.cli.mcp.messages import ToolHints, ToolOffer
from relight.cli.mcp.project_scope import Scope
from relight.errors import MissingError, RelightError
from relight.reports.listing import list_sessions
from relight.reports.sessions import read_head
from relight.reports.totals import ReportTotals, report
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.store.queries.listing import Listing
from relight.store.queries.sessions import read_name, read_outcomes

S = TypeVar("S", bound=Struct)

SHOWN_CAUSES = 5
SHOWN_ROWS = 20
SHOWN_CALLS = 10
SHOWN_TEMPLATES = 3
AGENT_LABEL = "by an agent: "


def pick_fields(shape: type[S], *sources: object, **more: Any) -> S:
    """Return a Struct with the fields that these objects have."""
    known = {
        name: getattr(source, name)
        for source in sources
        for name in shape.__struct_fields__
        if hasattr(source, name)
    }
    return shape(**known | more)


def search_sessions(
    store: Store, scope: Scope, asked: shapes.SearchSessions
) -> shapes.ToolResultPage:
    from relight.reports.search import find_hits

    chosen = scope.read_filter(store, asked.since, until=asked.until, source=asked.source)
    if not (asked.query.strip() or asked.tool):
        if asked.failed_calls:
            raise RelightError("failed_calls needs a query or a tool", "or call what_failed")
        wanted = Listing(outcome=asked.outcome, limit=asked.limit)
        page = list_sessions(store, chosen, wanted)
        found = [pick_fields(shapes.ToolSession, one) for one in page.sessions]
        note = None if found else "no such session is recorded here"
        return shapes.ToolResultPage(sessions=found, total=page.count, note=note)
    result = find_hits(
        store, asked.query, chosen, tool=asked.tool, failed=asked.failed_calls, limit=asked.limit
    )
    outcomes = read_outcomes(store, list({one.session_id for one in result.hits}))
    hits = [pick_fields(shapes.ToolHit, one, outcomes[one.session_id]) for one in result.hits]
    if asked.outcome:
        hits = [one for one in hits if one.outcome == asked.outcome]
        return shapes.ToolResultPage(hits=hits, note="only the best hits were looked through")
    # the note of an empty result counts what other projects have
    note = result.note if hits else "nothing matches here; try fewer words, or prefix*"
    return shapes.ToolResultPage(hits=hits, total=result.total, note=note)


def read_session(store: Store, scope: Scope, asked: shapes.ReadSession) -> shapes.ToolSessionPart:
    from relight.reports.trace import cut_part, read_trace

    found = scope.find_session(store, asked.session_id)
    head, trace = read_head(store, found), read_trace(store, found)
    if asked.only_errors:
        after = [one for one in trace.steps if one.label == "error" and one.step >= asked.step]
        steps = after[: asked.limit]
        following = after[asked.limit].step if len(after) > asked.limit else None
    else:
        part = cut_part(trace, step=asked.step, limit=asked.limit)
        steps, following = part.steps, part.next
    return pick_fields(
        shapes.ToolSessionPart,
        head.figures,
        head,
        total_steps=len(trace.steps),
        # a command says what its arguments would say again
        steps=[
            pick_fields(shapes.ToolStep, one, **{"arguments": None} if one.command else {})
            for one in steps
        ],
        next=following,
        silence=trace.silence,
    )


def what_failed(store: Store, scope: Scope, asked: shapes.WhatFailed) -> shapes.ToolFailures:
    from relight.reports.failures import read_failures

    chosen = scope.read_filter(store, asked.since, until=asked.until)
    found = read_failures(store, chosen)
    calls = [one for one in found.failures if asked.tool in (None, one.tool)]
    spirals = [one for one in found.spirals if asked.tool in (None, one.tool)]
    return shapes.ToolFailures(
        failed=found.failed,
        causes=list(found.causes[:SHOWN_CAUSES]),
        newest=list(found.runs[:SHOWN_CAUSES]),
        failed_calls=list(calls[:SHOWN_CALLS]),
        repeated=list(spirals[:SHOWN_CAUSES]),
    )


def cost(store: Store, scope: Scope, asked: shapes.AskCost) -> object:
    if asked.ref is not None:
        from relight.reports.git_costs import read_cost

        _check_inside(scope, asked.ref)
        try:
            return read_cost(store, asked.ref, scope.start)
        except MissingError as error:
            hint = "name a branch, a commit or a file of this project; by=branch lists branches"
            raise MissingError(error.message, hint) from error
    chosen = scope.read_filter(store, asked.since, until=asked.until)
    found = report(store, [asked.by], chosen, top=SHOWN_ROWS)
    rows = [_show_cost(one, key=one.key(asked.by)) for one in found.rows]
    other = _show_cost(found.other) if found.other else None
    total = _show_cost(found.total)
    return pick_fields(
        shapes.ToolCostReport, found, by=asked.by, total=total, rows=rows, other=other
    )


def _show_cost(figures: "ReportTotals", key: str | None = None) -> shapes.ToolCost:
    title = getattr(figures, "title", None)
    return pick_fields(shapes.ToolCost, figures, key=key, title=title or None)


def _check_inside(scope: Scope, ref: str) -> None:
    """Raise for a path outside of the project; any other name is looked for inside of it."""
    path = (scope.start / ref).resolve()
    if scope.folders and not any(path.is_relative_to(one) for one in map(Path, scope.folders)):
        raise RelightError(f"{ref!r} is outside of this project", "name a path inside of it")


def similar_task(store: Store, scope: Scope, asked: shapes.SimilarTask) -> shapes.ToolLikeness:
    from relight.reports.listing import find_similar
    from relight.warm.choice import rank_templates
    from relight.warm.injection import render_template

    alike = find_similar(store, asked.task, Filter(folders=scope.folders))
    sessions = [pick_fields(shapes.ToolSession, one, similarity=value) for one, value in alike]
    project = scope.folders[0] if scope.folders else str(scope.start)
    choices = [
        one
        for one in rank_templates(store, asked.task, project=project)
        if one.is_above_floor and scope.has(one.template.project)
    ]
    templates = [
        shapes.ToolTemplate(
            name=one.template.name,
            task=one.template.task,
            outcome=one.template.outcome,
            session_id=one.template.source_session,
            reasons=one.reasons,
            example=None if number else render_template(one.template),
        )
        for number, one in enumerate(choices[:SHOWN_TEMPLATES])
    ]
    return shapes.ToolLikeness(sessions, templates)


def label(store: Store, scope: Scope, asked: shapes.LabelSession) -> shapes.ToolLabel:
    from relight.reports.labels import label_session
    from relight.store.labels import find_label

    found = scope.find_session(store, asked.session_id)
    earlier = find_label(store, found)
    if earlier is not None and not (earlier.why or "").startswith(AGENT_LABEL):
        raise RelightError(
            f"a person labelled this session: {earlier.outcome}", "only a person may change that"
        )
    label_session(store, found, asked.outcome, why=f"{AGENT_LABEL}{asked.why}")
    return shapes.ToolLabel(read_name(store, found).session, asked.outcome)


class RecordTool(Struct, frozen=True):
    """A tool: the type of its arguments, its function, and whether it only reads."""

    name: str
    arguments: type[Any]
    do: Callable[[Store, Scope, Any], object]
    is_reading: bool = True

    def describe(self) -> ToolOffer:
        """Return the tool as an entry of the protocol's `tools/list`."""
        hints = ToolHints(read_only_hint=self.is_reading)
        return ToolOffer(self.name, *describe_arguments(self.arguments), hints)

    def read(self, arguments: object) -> Any:
        """Return the arguments as the tool's type; models write numbers as texts."""
        given = arguments
        if isinstance(arguments, dict):
            given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return msgspec.convert(given, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            names = ", ".join(self.arguments.__struct_fields__)
            raise RelightError(f"the arguments do not fit: {error}", f"they are {names}") from error


TOOLS = {
    tool.name: tool
    for tool in (
        RecordTool("search_sessions", shapes.SearchSessions, search_sessions),
        RecordTool("read_session", shapes.ReadSession, read_session),
        RecordTool("what_failed", shapes.WhatFailed, what_failed),
        RecordTool("cost", shapes.AskCost, cost),
        RecordTool("similar_task", shapes.SimilarTask, similar_task),
        RecordTool("label", shapes.LabelSession, label, is_reading=False),
    )
}
