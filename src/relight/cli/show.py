from typing import TYPE_CHECKING

import click

from relight.cli.options import current_store, json_option, print_json, reading_command

if TYPE_CHECKING:
    from relight.reports.sessions import SessionReport
    from relight.reports.totals import ReportFigures
    from relight.store.queries.sessions import ChildSession
    from relight.store.queries.steps import SessionCall, SessionTurn

TEXT_ROWS = 200


@reading_command("show", example="relight show claude-code:f5e83048")
@click.argument("session")
@json_option
def command(session: str, as_json: bool) -> None:
    """Show one session: turns, tool calls, failures.

    SESSION is `source:id` as printed, the agent's own id, or a unique beginning of either.
    """
    from relight.reports.sessions import find_session, read_session
    from relight.store.derive.scores import refresh_due

    with current_store() as store:
        refresh_due(store)
        found = read_session(store, find_session(store, session))
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: "SessionReport") -> None:
    from relight.cli import screen
    from relight.cli.failures import describe_spiral

    figures = found.figures
    screen.print_text(found.title or "(no title)", style="bold")
    screen.print_text(f"{found.session} · {found.project or 'no project'}", style="dim")
    screen.print_text(
        f"{(found.started_at or 'unknown start')[:16].replace('T', ' ')} UTC,"
        f" {screen.seconds(figures.wall_seconds)} · {found.model or 'unknown model'} ·"
        f" {_format_cost(figures)} · outcome {found.outcome}"
    )
    if found.category is not None:
        screen.print_text(f"{found.category} ({found.task_type})")
    fresh = None
    if figures.input_tokens is not None:
        fresh = figures.input_tokens + (figures.cache_write_tokens or 0)
    calls = "1 tool call" if figures.tool_calls == 1 else f"{figures.tool_calls} tool calls"
    screen.print_text(
        f"{figures.turns} turns · {screen.count(fresh)} in,"
        f" {screen.count(figures.cache_read_tokens)} cached,"
        f" {screen.count(figures.output_tokens)} out · {calls}, {figures.tool_failures} failed"
    )
    if figures.partial_turns:
        screen.print_text(
            f"{figures.partial_turns} turns are partial: output is a lower bound", style="dim"
        )
    if shared := sum(turn.is_shared for turn in found.turns):
        screen.print_text(
            f"shared turns below: {shared}; another session has them too, and counts them",
            style="dim",
        )
    if found.parent:
        screen.print_text(f"{found.parent_kind} of {found.parent}")
    for child in found.children:
        title = (child.title or "")[:50]
        cost = _format_cost(child)
        screen.print_text(f"  {child.kind}: {child.session} {cost} {title}")
    for evidence in found.evidence:
        screen.print_text(f"  {evidence}", style="dim")
    for spiral in found.spirals:
        screen.print_text(f"  spiral: {describe_spiral(spiral)}")
    _print_steps(found)


def _format_cost(figures: "ReportFigures | ChildSession") -> str:
    from relight.cli import screen

    unpriced, included = figures.unpriced_turns or 0, figures.included_usd
    return screen.dollars(figures.cost_usd, unpriced=unpriced, included=included)


def _print_steps(found: "SessionReport") -> None:
    """Print turns and tool calls in the order they happened."""
    from relight.cli import screen

    steps = [(turn.at or "", 0, _turn_cells(turn)) for turn in found.turns]
    steps += [(call.at or "", 1, _call_cells(call)) for call in found.tool_calls]
    steps.sort(key=lambda step: step[:2])
    columns = [
        screen.Column("at", is_number=False),
        screen.Column("what", is_number=False),
        screen.Column("tokens out"),
        screen.Column("cost"),
        screen.Column("verdict", is_number=False),
    ]
    screen.print_table(columns, [cells for _, _, cells in steps[:TEXT_ROWS]])
    if len(steps) > TEXT_ROWS:
        screen.print_text(f"… {len(steps) - TEXT_ROWS} more steps: --json shows all", style="dim")


def _turn_cells(turn: "SessionTurn") -> list[str]:
    from relight.cli import screen

    what = turn.model or "unknown model"
    if turn.calls > 1:
        what += f" × {turn.calls}"
    notes = [turn.failure or "", turn.role or ""]
    notes += ["shared"] if turn.is_shared else []
    notes += [turn.usage_status] if turn.usage_status != "final" else []
    notes += ["included"] if turn.cost_status == "included" else []
    return [
        (turn.at or "")[11:19],
        what,
        screen.count(turn.output_tokens),
        screen.dollars(turn.cost_usd),
        " ".join(note for note in notes if note),
    ]


def _call_cells(call: "SessionCall") -> list[str]:
    verdict = call.label or "unknown"
    if call.label in ("error", "negative") and call.reason:
        verdict += f": {call.reason}"
    return [(call.at or "")[11:19], f"  └ {call.tool}", "", "", verdict[:44]]
