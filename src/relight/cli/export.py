from typing import TYPE_CHECKING

import click

from relight.cli.options import (
    TypedFilter,
    current_store,
    filter_options,
    json_option,
    print_json,
    reading_command,
    wants_json,
)

if TYPE_CHECKING:
    from relight.intake.span_target import SpanSummary
    from relight.reports.export_files import ExportSummary

FORMATS = ("jsonl", "csv", "otlp")
TABLES = ("sessions", "turns", "calls")


@reading_command("export", example="relight export --format jsonl --since 30d sessions.jsonl")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    required=True,
    help="jsonl: a line for each session, with texts. csv: three tables of figures."
    " otlp: spans, sent to a collector.",
)
@click.option("--table", type=click.Choice(TABLES), help="With csv: only this one, as one file.")
@click.option("--content", is_flag=True, help="With otlp: send prompts, answers and results too.")
@click.option("--dry-run", is_flag=True, help="With otlp: count what would be sent, send nothing.")
@filter_options(since="all")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.argument("target", type=click.Path(allow_dash=True))
@json_option
def command(
    form: str,
    table: str | None,
    content: bool,
    dry_run: bool,
    typed: TypedFilter,
    force: bool,
    target: str,
) -> None:
    """Write sessions, turns and tool calls into files, redacted, or send them to a collector.

    TARGET is a file for jsonl and a folder for csv, which gets sessions.csv, turns.csv and
    calls.csv. `-` is standard output. Filters choose whole sessions, with their sub-agents. The
    lines of jsonl can be imported into another store with `relight import --source chat --from
    FILE`.

    For otlp TARGET is the address of a collector of OpenTelemetry, such as http://127.0.0.1:6006
    for Phoenix. Sessions are sent as spans, without words unless --content is given. The headers
    are those of OTEL_EXPORTER_OTLP_HEADERS.
    """
    if table and form != "csv":
        raise click.UsageError("--table goes with --format csv")
    if (content or dry_run) and form != "otlp":
        raise click.UsageError("--content and --dry-run go with --format otlp")
    if form == "otlp":
        if force:
            raise click.UsageError("--force replaces files: it does not go with --format otlp")
        send_export(target, typed, has_content=content, is_dry_run=dry_run)
    else:
        write(target, typed, form=form, table=table, force=force)


def write(target: str, typed: TypedFilter, *, form: str, table: str | None, force: bool) -> None:
    from relight.cli.progress import LateProgress
    from relight.reports.export_files import STANDARD_OUTPUT, export_sessions

    is_printed = target == STANDARD_OUTPUT
    if wants_json() and is_printed:
        raise click.UsageError("--json and the target - both print to standard output")
    if is_printed and form == "csv" and not table:
        raise click.UsageError("three tables cannot go to standard output: choose one with --table")
    with current_store() as store, LateProgress("exporting", count_sessions) as progress:
        done = export_sessions(
            store,
            target,
            typed.read(store),
            format=form,  # type: ignore[arg-type]
            table=table,  # type: ignore[arg-type]
            force=force,
            progress=progress.update,
        )
    if wants_json():
        print_json(done)
    else:
        click.echo(describe_export(done), err=is_printed)


def send_export(target: str, typed: TypedFilter, *, has_content: bool, is_dry_run: bool) -> None:
    from relight.cli.progress import LateProgress
    from relight.intake.span_target import check_target, export_spans, is_open

    if is_open(check_target(target)) and not is_dry_run:
        click.echo(f"warning: {target} is not encrypted: use https, or a tunnel", err=True)
    with current_store() as store, LateProgress("exporting", count_sessions) as progress:
        done = export_spans(
            store,
            target,
            typed.read(store),
            has_content=has_content,
            is_dry_run=is_dry_run,
            progress=progress.update,
        )
    if wants_json():
        print_json(done)
    else:
        click.echo(describe_sent(done))
    if done.rejected_spans:
        raise click.exceptions.Exit(1)


def count_sessions(number: int) -> str:
    from relight.text import plural

    return plural(number, "session")


def describe_export(done: "ExportSummary") -> str:
    """Return one line about an export, and one for what it lacks."""
    from relight.text import plural, size

    counts = [
        plural(done.sessions, "session", "sessions and sub-agents"),
        plural(done.turns, "row of turns", "rows of turns"),  # one may stand for several calls
        plural(done.tool_calls, "tool call"),
    ]
    lines = [f"exported {', '.join(counts)} ({size(done.bytes)})"]
    if done.silent_sessions:
        what = plural(done.silent_sessions, "session has", "sessions have")
        lines.append(f"{what} figures alone: the tape was pruned or cannot be read")
    if done.cut_sessions:
        what = plural(done.cut_sessions, "session has", "sessions have")
        lines.append(f"{what} shortened texts: an import reads lines of at most 64 MB")
    return "\n".join(lines)


def describe_sent(done: "SpanSummary") -> str:
    """Return one line about what was sent, and one for what was not."""
    from relight.text import clean, plural, size

    counts = [
        plural(done.sessions, "session"),
        plural(done.turns, "turn"),
        plural(done.tool_calls, "tool call"),
    ]
    how = f"{plural(done.spans, 'span')} in {plural(done.requests, 'request')}, {size(done.bytes)}"
    verb = "would send" if done.is_dry_run else "sent"
    lines = [f"{verb} {', '.join(counts)} to {done.target} ({how})"]
    if done.undated_sessions:
        lines.append(f"{plural(done.undated_sessions, 'session')} without any time: left out")
    if done.rejected_spans:
        lines.append(f"{plural(done.rejected_spans, 'span was', 'spans were')} rejected")
    lines += [f"the collector says: {clean(one)}" for one in done.problems]
    return "\n".join(lines)
