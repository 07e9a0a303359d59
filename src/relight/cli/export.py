from pathlib import Path
from typing import TYPE_CHECKING

import click

from relight.cli.filters import TypedFilter, filter_options
from relight.cli.options import current_store, json_option, print_json, reading_command

if TYPE_CHECKING:
    from relight.reports.export_files import ExportSummary

FORMATS = ("jsonl", "csv")
TABLES = ("sessions", "turns", "calls")


@reading_command("export", example="relight export --format jsonl --since 30d sessions.jsonl")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    required=True,
    help="jsonl: a line for each session, with texts. csv: three tables of figures.",
)
@click.option("--table", type=click.Choice(TABLES), help="With csv: only this one, as one file.")
@filter_options(since="all")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.argument("target", type=click.Path(path_type=Path, allow_dash=True))
@json_option
def command(
    form: str, table: str | None, typed: TypedFilter, force: bool, target: Path, as_json: bool
) -> None:
    """Write sessions, turns and tool calls into files, redacted.

    TARGET is a file for jsonl and a folder for csv, which gets sessions.csv, turns.csv and
    calls.csv. `-` is standard output. Filters choose whole sessions, with their sub-agents. The
    lines of jsonl can be imported into another store with `relight import --source chat --from
    FILE`.
    """
    from relight.cli.news import LateProgress
    from relight.reports.export_files import STANDARD_OUTPUT, export_sessions

    is_printed = str(target) == STANDARD_OUTPUT
    if as_json and is_printed:
        raise click.UsageError("--json and the target - both print to standard output")
    if table and form != "csv":
        raise click.UsageError("--table goes with --format csv")
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
    if as_json:
        print_json(done)
    else:
        click.echo(describe(done), err=is_printed)


def count_sessions(number: int) -> str:
    from relight.text import plural

    return plural(number, "session")


def describe(done: "ExportSummary") -> str:
    """Return one line about an export, and one for what it lacks."""
    from relight.text import plural, size

    counts = [
        plural(done.sessions, "session"),
        plural(done.turns, "turn"),
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
