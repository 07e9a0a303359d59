from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, convert

from relight.cli.options import Answer, current_home, current_store, relight_group, wants_json
from relight.config import find_home, read_config

if TYPE_CHECKING:
    from relight.reports.totals import SessionStats
    from relight.work.moa.mixture import CallProgress
    from relight.work.moa.trace_report import TracedModel

REASON_CHARACTERS = 200
TEXT_CHARACTERS = 400


class AdviserReply(Struct, frozen=True):
    """The advice of one model, or why there is none."""

    label: str
    output: str | None
    failure: str | None
    duration_ms: int
    cached: bool


class MoaAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a preset to one question, with its advisers as the client shows them."""

    session_id: str
    preset: str
    answer: str
    references: list[AdviserReply]
    cost_usd: float | None
    unpriced_turns: int | None
    figures: "SessionStats"


class PresetLine(Struct, frozen=True):
    """A preset, with its models by their labels."""

    preset: str
    references: list[str]
    aggregator: str
    reference_timeout_seconds: float


class PresetList(Struct, frozen=True):
    """All presets, and whether turns are saved."""

    presets: list[PresetLine]
    save_traces: bool


@relight_group("moa", example='relight moa run review "Is this migration safe?"', alone="presets")
def command() -> None:
    """Ask several models, and let one act on their advice; see what each said and cost.

    A preset is a table [moa.presets.NAME] in config.toml with references, aggregator and
    reference_timeout_seconds; [moa] save_traces = true saves every turn in full.
    """


@command.plain("presets", example="relight moa presets --json")
def presets() -> Answer:
    """List the presets in config.toml."""
    from relight.work.moa.mixture import find_preset

    config = read_config(find_home(current_home()))
    found = [find_preset(config, name) for name in config.moa.presets]
    rows = [
        PresetLine(
            preset=one.name,
            references=[reference.label for reference in one.references],
            aggregator=one.aggregator.label,
            reference_timeout_seconds=one.reference_timeout_seconds,
        )
        for one in found
    ]
    yield PresetList(rows, config.moa.save_traces)
    if not rows:
        click.echo(f"no presets; add [moa.presets.NAME] to {config.home / 'config.toml'}")
        return
    for row in rows:
        click.echo(f"{row.preset}: {', '.join(row.references)} → {row.aggregator}")


@command.plain("run", example='relight moa run review "Is this migration safe?"')
@click.argument("preset")
@click.argument("prompt")
def run(preset: str, prompt: str) -> Answer:
    """Ask a preset one question, and record it.

    Standard error shows which models are called, and how long each took.
    """
    from relight.work.moa.openai_client import MoA

    with current_store() as store, MoA(preset, store=store) as client:
        if not wants_json():
            client.mixture.on_progress = _show_progress
        messages = [{"role": "user", "content": prompt}]
        answer = client.chat.completions.create(messages=messages)
        assert client.recorder is not None
        figures = client.recorder.stats()
        session_id = client.recorder.name
    text = answer.choices[0].message.content or ""
    yield MoaAnswer(
        session_id=session_id,
        preset=preset,
        answer=text,
        references=convert(answer.moa["references"], list[AdviserReply]),
        cost_usd=figures.cost_usd,
        unpriced_turns=figures.unpriced_turns,
        figures=figures,
    )
    from relight.cli import screen

    click.echo(screen.clean_lines(text))
    cost = screen.dollars(figures.cost_usd, unpriced=figures.unpriced_turns or 0)
    click.echo(f"{session_id} · {cost}", err=True)


def _show_progress(seen: "CallProgress") -> None:
    """Print a step of a call as a line on standard error."""
    from relight.cli import screen

    call = seen.call
    work = "advises" if call.role == "reference" else "acts on the advice"
    reason = screen.clean(seen.failure.reason)[:REASON_CHARACTERS] if seen.failure else ""
    if seen.step == "begins":
        state = f"{work} …"
    elif seen.step == "waits":
        state = f"{reason}; again in {seen.wait_seconds:.0f} s"
    else:
        state = (
            f"failed: {reason}" if reason else f"done in {screen.seconds(call.duration_ms / 1000)}"
        )
    click.echo(f"  {screen.clean(call.endpoint.label)}: {state}", err=True)


@command.reading("traces", example="relight moa traces")
def traces() -> Answer:
    """List the traced sessions of Relight and of agents, newest first."""
    from relight.text import plural
    from relight.work.moa.trace_report import TraceList, list_traces

    with current_store() as store:
        rows = list_traces(store)
    yield TraceList(rows)
    if not rows:
        click.echo("no traces; [moa] save_traces = true in config.toml saves them")
        return
    from relight.cli import screen

    costs = [screen.dollars(row.cost_usd, unpriced=row.unpriced_turns) for row in rows]
    screen.print_columns(
        screen.Words("session", [row.session_id for row in rows], is_name=True),
        screen.Words("preset", [str(row.preset or "") for row in rows]),
        screen.Column("turns", [screen.count(row.turns) for row in rows]),
        screen.Column("cost", costs),
    )
    for row in rows:
        if row.skipped_lines:
            lines = plural(row.skipped_lines, "unreadable line")
            screen.print_text(f"{row.session_id}: {lines}", style="yellow")


@command.reading("show", example="relight moa show 20261115-072852-d821dab5")
@click.argument("session")
@click.option("--turn", "number", type=click.IntRange(1), help="Only this turn, in full.")
def show(session: str, number: int | None) -> Answer:
    """Show what each model saw, said, cost and took, and where they disagreed.

    SESSION is a session's id, a unique prefix of it, `last`, or a trace file. The session may be
    one that an agent traced itself, such as Hermes.
    """
    from relight.text import plural
    from relight.work.moa.trace_report import find_trace, read_trace_file, report_trace

    if session.endswith(".jsonl") and Path(session).is_file():
        trace = read_trace_file(Path(session))
    else:
        with current_store() as store:
            trace = find_trace(store, session)
    report = report_trace(trace, number)
    yield report
    _print(report.turns, first=number or 1, is_whole=number is not None)
    _print_models(report.models)
    if trace.skipped:
        lines = plural(trace.skipped, "unreadable line was", "unreadable lines were")
        click.echo(f"{lines} skipped", err=True)


def _print(turns: Sequence[Mapping[str, Any]], *, first: int, is_whole: bool) -> None:
    from relight.cli import screen
    from relight.text import plural
    from relight.work.moa.trace_report import DISAGREEING, all_calls, find_prompt, read_milliseconds

    for number, turn in enumerate(turns, start=first):
        at = turn.get("ts") or "at an unknown time"
        title = f"turn {number} · {at} · preset {turn.get('preset')}"
        screen.print_text(title, style="bold")
        if prompt := find_prompt(turn):
            screen.print_text(_lay_out(prompt, "  > ", is_whole=is_whole))
        for call, agreed in zip_longest(all_calls(turn), turn["agreement"]):
            seen = len(call.get("input_messages") or ())
            facts = [str(call.get("label")), f"saw {plural(seen, 'message')}"]
            if (spent := read_milliseconds(call)) is not None:
                facts.append(screen.seconds(spent / 1000))
            if call.get("cached"):
                facts.append("from the cache")
            if agreed is not None and agreed < DISAGREEING:
                facts.append("differs from the others")
            screen.print_text("  " + " · ".join(facts))
            failure = call.get("failure")
            said = f"failed: {failure.get('reason')}" if failure else str(call.get("output") or "")
            asked = [
                str((one.get("function") or {}).get("name")) for one in call.get("tool_calls") or ()
            ]
            said += f" [calls {', '.join(asked)}]" if asked else ""
            if is_whole:
                for message in call.get("input_messages") or ():
                    text = f"{message.get('role')}: {message.get('content')}"
                    screen.print_text(indent(text, "    "))
            style = "red" if failure else "dim"
            screen.print_text(_lay_out(said, "    ", is_whole=is_whole), style=style)


def _lay_out(text: str, margin: str, *, is_whole: bool) -> str:
    """Return a text with a margin before each line; a long one is cut unless it is shown whole."""
    if not is_whole and len(text) > TEXT_CHARACTERS:
        text = f"{text[:TEXT_CHARACTERS].rstrip()} …"
    return indent(text, margin)


def _print_models(rows: "Sequence[TracedModel]") -> None:
    from relight.cli import screen

    failures = [screen.count(row.failures) for row in rows]
    costs = [screen.dollars(row.cost_usd, unpriced=row.unpriced_turns) for row in rows]
    screen.print_columns(
        screen.Words("model", [row.label for row in rows]),
        screen.Words("role", [row.role for row in rows]),
        screen.Column("calls", [screen.count(row.calls) for row in rows]),
        screen.Column("failed", failures, colour=screen.colour_failures),
        screen.Column("differed", [screen.count(row.disagreed) for row in rows]),
        screen.Column("time", [_format_time(row) for row in rows]),
        screen.Column("cost", costs),
    )


def _format_time(row: "TracedModel") -> str:
    from relight.cli import screen

    if row.duration_ms is None:
        return "unknown" if row.calls else screen.seconds(None)
    least = "≥" if row.untimed_calls else ""
    return f"{least}{screen.seconds(row.duration_ms / 1000)}"


@command.reading("advisers", example="relight moa advisers")
def advisers() -> Answer:
    """Show what each adviser cost, took and changed over all sessions, Hermes' included.

    What an adviser is worth is known only from sessions without it: [moa] mute_share mutes each in
    a share of the sessions, at random.
    """
    from relight.work.moa.advisers import report_advisers

    with current_store() as store:
        found = report_advisers(store)
    yield found
    if not found.advisers:
        click.echo("no adviser was asked yet")
        return
    from relight.cli import screen

    rows = found.advisers
    times = [
        "unknown" if one.mean_ms is None else screen.seconds(one.mean_ms / 1000) for one in rows
    ]
    differed = [
        f"{one.differed:,} of {one.compared:,}" if one.compared else "unknown" for one in rows
    ]
    failures = [screen.count(one.failures) for one in rows]
    costs = [screen.dollars(one.cost_usd, unpriced=one.unpriced_turns) for one in rows]
    screen.print_columns(
        screen.Words("adviser", [one.adviser for one in rows]),
        screen.Column("sessions", [screen.count(one.sessions) for one in rows]),
        screen.Column("calls", [screen.count(one.calls) for one in rows]),
        screen.Column("failed", failures, colour=screen.colour_failures),
        screen.Column("differed", differed),
        screen.Column("mean time", times),
        screen.Column("cost", costs),
    )
    for one in found.advisers:
        screen.print_text(one.sentence)
