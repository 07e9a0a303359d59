from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import UNSET
from msgspec.structs import replace

from relight.cli.options import (
    TypedFilter,
    current_home,
    current_store,
    filter_options,
    format_options,
    print_json,
    print_no_match,
    reading_command,
    split_words,
    wants_json,
)
from relight.errors import RelightError, as_typed
from relight.reports import totals
from relight.reports.totals import ReportRow, ReportTotals, UsageReport
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.store.queries.sessions import has_sessions

if TYPE_CHECKING:
    from relight.reports.narrowing import NoMatch

NO_NAMES: Mapping[str, str] = {}
FIGURES = [name for name in ReportTotals.__struct_fields__ if name != "failed_turns"]
# figures that Markdown leaves out, or has last
DETAILS = ("cache_write_1h_tokens", "reasoning_tokens", "partial_turns", "wall_seconds")
MARKDOWN_COLUMNS = (*(name for name in FIGURES if name not in DETAILS), "wall_seconds")
# all other columns of Markdown are plain numbers
FORMATTED = (
    *("cost_usd", "included_usd", "cost_per_success_usd"),
    *("mean_tokens", "mean_cost_usd", "wall_seconds"),
)


@reading_command("report", example="relight report --by model,project --since 7d")
@click.option(
    "--by",
    default="day",
    metavar="KEYS",
    show_default=True,
    help=f"Comma-separated: {', '.join(totals.KEYS)}.",
)
@filter_options()
@click.option(
    "--sort",
    metavar="KEY",
    help="A key of --by, or a figure such as cost, sessions or tool_failures, largest first.",
)
@click.option(
    "--history",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Report from the months that `history export` wrote, not from the store.",
)
@click.option("--top", type=int, metavar="N", help="Only the first N rows; the rest as one.")
@format_options
def command(
    by: str,
    typed: TypedFilter,
    sort: str | None,
    top: int | None,
    history: Path | None,
    as_csv: bool,
    as_markdown: bool,
) -> None:
    """Show cost and usage by day, model, project and more.

    Days are in the store's time zone. Sub-agents count once, in their parents' sessions. Cost is
    at list price unless the agent recorded it; turns without a price are counted. Times are in
    their order, all else is sorted by cost.
    """
    keys = list(dict.fromkeys(split_words(by)))
    if not keys:
        raise click.UsageError(f"--by needs a key: {', '.join(totals.KEYS)}")
    with _open(history, keys) as store:
        chosen = (typed if history is None else _since_ever(typed)).read(store)
        found = totals.report(store, keys, chosen, sort=sort, top=top)
        why = None if found.rows or history else _explain(store, chosen)
        short = {} if wants_json() or as_csv or as_markdown else _shorten(store, found)
        has_any = bool(found.rows) or has_sessions(store)
    if wants_json():
        print_json(totals.put_keys_first(found))
    elif as_csv:
        print_report_csv(found)
    elif as_markdown:
        click.echo(markdown(found))
    elif found.rows:
        print_report(found, short)
    else:
        print_no_match(why, "nothing is recorded for this" if has_any else None)


def _since_ever(typed: TypedFilter) -> TypedFilter:
    """Return the options without a first day, unless one was typed."""
    from click.core import ParameterSource

    source = click.get_current_context().get_parameter_source("since")
    return typed if source is ParameterSource.COMMANDLINE else replace(typed, since="all")


def _open(history: Path | None, keys: Sequence[str]) -> Store:
    """Return the store, or a history as one."""
    if history is None:
        return current_store()
    if "skill" in keys:
        raise RelightError("a history has no skills", "report by another key")
    from relight.config import find_home, read_config
    from relight.store.history import open_history

    return open_history(read_config(find_home(current_home())), history)


def _explain(store: Store, chosen: Filter) -> "NoMatch | None":
    from relight.reports.narrowing import explain_no_session  # few reports are empty

    return explain_no_session(store, chosen)


def print_report_csv(found: UsageReport) -> None:
    from relight.text import make_csv

    more = {"session": "title", "job": "job_name"} if found.rows else {}
    titles = [title for key, title in more.items() if key in found.by]
    names = [*dict.fromkeys(found.by), *titles, *FIGURES]
    if found.total.failed_turns is not UNSET:
        names.append("failed_turns")
    rows = [[getattr(row, name) for name in names] for row in found.rows]
    click.echo(make_csv(names, rows), nl=False)


def markdown(found: UsageReport) -> str:
    """Return the report as a Markdown table, with the total in its last row."""
    from relight.reports.metrics import USAGE_METRICS
    from relight.text import make_markdown

    formatted = {one.name: one for one in USAGE_METRICS if one.name in FORMATTED}

    def list_figures(row: ReportTotals) -> list[object]:
        return [
            formatted[name].show(row) if name in formatted else getattr(row, name)
            for name in MARKDOWN_COLUMNS
        ]

    rows = [[*(_find_name(row, key) for key in found.by), *list_figures(row)] for row in found.rows]
    blank = [""] * (len(found.by) - 1)
    for title, figures in {"other": found.other, "total": found.total}.items():
        if figures is not None:
            rows.append([title, *blank, *list_figures(figures)])
    names = [*found.by, *MARKDOWN_COLUMNS]
    return make_markdown(names, rows, is_number=MARKDOWN_COLUMNS.__contains__)


def print_report(found: UsageReport, short: Mapping[str, str] = NO_NAMES) -> None:
    """Print the report as a table for eighty columns, with notes on how to read it."""
    from relight.cli import screen
    from relight.reports.metrics import list_metrics

    is_of_calls = found.total.turns is None
    keys = [screen.Words(key, is_name=key in WHOLE, least=NAME_CHARACTERS) for key in found.by]
    if "session" in found.by:
        keys.append(screen.Words("title", is_title=True))
    hidden = set() if found.total.included_usd else {"included_usd"}
    if "session" in found.by:  # each row is one session
        hidden |= {"sessions", "mean_tokens", "mean_cost_usd"}
    # a kind of failure has failed calls only, and tools make no model calls
    hidden |= {"failure_rate"} if "failure" in found.by else {"failed_turns"}
    shown = [one for one in list_metrics(is_of_calls=is_of_calls) if one.name not in hidden]
    columns = [
        *keys,
        *[
            screen.Column(
                one.title,
                is_spare=one.name in SPARE,
                drop=SPARE.get(one.name, 0),
                colour=screen.colour_state,
            )
            for one in shown
        ],
    ]
    largest = max((_weight(row) for row in found.rows), default=0)
    with_bar = found.by in (["day"], ["week"], ["month"])
    if with_bar:
        columns.append(screen.Column("", is_number=False, style="cyan"))
    rows = []
    for row in found.rows:
        names = [
            short.get(str(row.key(key))) or name_key(key, _find_name(row, key)) for key in found.by
        ]
        if "session" in found.by:
            names.append(str(row.title or ""))
        bar = [screen.bar(_weight(row), largest)] if with_bar else []
        rows.append([*names, *[one.show(row) for one in shown], *bar])
    blank = [""] * (len(keys) - 1)
    if found.other is not None:
        figures = [one.show(found.other) for one in shown]
        rows.append(["(other)", *blank, *figures, *([""] if with_bar else [])])
    sums = [one.show(found.total) for one in shown]
    screen.print_table(columns, rows, total=["total", *blank, *sums, *([""] if with_bar else [])])
    for note in notes(found):
        screen.print_text(note, style="dim")


WHOLE = ("day", "week", "month", "session")
NAME_CHARACTERS = 24  # of a name that no column takes the room of
# the columns that a narrow table leaves out, the highest number first
SPARE = {
    "mean_tokens": 9,
    "wall_seconds": 8,
    "mean_cost_usd": 7,
    "total_tokens": 6,
    "cache_read_tokens": 5,
    "input_tokens": 4,
    "failed_turns": 3,
    "failure_rate": 2,
    "cost_per_success_usd": 1,
    "output_tokens": 0,
}


def _weight(row: ReportRow) -> float:
    """Return the length of a bar: cost at list price, or output if nothing has a price."""
    return (row.cost_usd or 0) + (row.included_usd or 0) or (row.output_tokens or 0) * 1e-9


def _find_name(row: ReportRow, key: str) -> object:
    """Return the value of a key as people know it: a job by its name."""
    return row.job_name if key == "job" else row.key(key)


def name_key(key: str, value: object) -> str:
    """Return a key in short form; `--json` has it whole."""
    text = "unknown" if value is None else str(value)
    if key in ("skill", "job") and value is None:
        return f"(no {key})"
    if key == "project":
        return "/".join(text.rsplit("/", 2)[-2:])
    return text


def _shorten(store: Store, found: UsageReport) -> dict[str, str]:
    """Return short names of the sessions in a report by session."""
    if "session" not in found.by:
        return {}
    from relight.reports.sessions import shorten_names

    return shorten_names(store, [str(row.session) for row in found.rows])


def notes(found: UsageReport) -> list[str]:
    """Return what a reader must know: missing prices, lower bounds, included costs."""
    from relight.reports.coverage import show_coverage
    from relight.text import dollars

    lines = []
    total = found.total
    if total.unpriced_turns:
        hint = (
            "1 model call has no known cost and is not in the sum (≥): its model has no price"
            " (`relight doctor` names it), or it was cut off"
            if total.unpriced_turns == 1
            else f"{total.unpriced_turns:,} model calls have no known cost and are not in the sum"
            " (≥): their model has no price (`relight doctor` names it), or they were cut off"
        )
        lines.append(as_typed(hint))
    if total.partial_turns:
        share = total.partial_turns / (found.total.turns or 1)
        lines.append(
            f"{'under 1%' if share < 0.01 else f'{share:.0%}'} of turns are partial: the agent"
            " logged only a lower bound of their output, or telemetry had no count of cached tokens"
            " (then their cost is an upper bound)"
        )
    if total.included_usd:
        lines.append(
            f"included: {dollars(total.included_usd, digits=2)} at list price, paid by a plan,"
            " not in the cost"
        )
    if found.by == ["day"]:
        known = total.successes + total.failures
        lines.append(show_coverage(total.successes, known, total.sessions))
        lines.append(
            "failed: share of tool calls that could not do what they were asked;"
            " ok: sessions that succeeded, of those whose outcome is known; per ok: what those of"
            " known outcome cost, for each that succeeded"
        )
    return lines
