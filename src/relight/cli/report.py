from collections.abc import Sequence

import click

from relight.cli.options import current_store, json_option, print_json, relight_command
from relight.reports import filters, totals
from relight.reports.totals import Report

SHORT_NAME, LONG_NAME = 13, 36
MARKDOWN_COLUMNS = (
    "sessions",
    "turns",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "cost_usd",
    "unpriced_turns",
    "tool_calls",
    "tool_failures",
)


@relight_command("report", example="relight report --by model,project --since 7d")
@click.option(
    "--by", default="day", metavar="KEYS", help=f"Comma-separated: {', '.join(totals.KEYS)}."
)
@click.option("--since", default=filters.DEFAULT_SINCE, metavar="D", help="2026-05-01, 7d or all.")
@click.option("--until", metavar="D", help="The last day, as 2026-05-31 or 7d.")
@click.option("--source", metavar="S", help="Only this source.")
@click.option("--model", metavar="M", help="Only models with this in their name.")
@click.option("--project", metavar="P", help="Only projects with this in their folder.")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table.")
def command(
    by: str,
    since: str,
    until: str | None,
    source: str | None,
    model: str | None,
    project: str | None,
    as_json: bool,
    as_csv: bool,
    as_markdown: bool,
) -> None:
    """Show cost and usage by day, model, project and more.

    Days are in the store's time zone. Sub-agents count once, in their parents' sessions. Cost is
    at list price unless the agent recorded it; turns without a price are counted.
    """
    if as_json + as_csv + as_markdown > 1:
        raise click.UsageError("choose one of --json, --csv and --markdown")
    keys = [key.strip() for key in by.split(",") if key.strip()]
    if not keys:
        raise click.UsageError(f"--by needs a key: {', '.join(totals.KEYS)}")
    with current_store() as store:
        chosen = filters.read_filter(
            store, since=since, until=until, source=source, model=model, project=project
        )
        found = totals.report(store, keys, chosen)
        has_any = bool(found.rows) or bool(store.query("select 1 from session limit 1"))
    if as_json:
        print_json(found)
    elif as_csv:
        print_csv(found)
    elif as_markdown:
        click.echo(markdown(found))
    elif found.rows:
        print_report(found)
    else:
        limits = {"--until": until, "--source": source, "--model": model, "--project": project}
        given = ", ".join(name for name, value in limits.items() if value)
        tries = [] if since == "all" else ["try --since all"]
        tries += [f"leave out {given}"] if given else []
        hint = ", or ".join(tries) if has_any else "run `relight import`, or try `relight demo`"
        click.echo(f"nothing recorded there; {hint}")


def print_csv(found: Report) -> None:
    import csv
    import sys

    names = list(found.rows[0]) if found.rows else [*found.by, *found.total]
    # titles are untrusted: no escape sequences, and no spreadsheet formulas
    rows = [{name: _make_safe(value) for name, value in row.items()} for row in found.rows]
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    sys.stdout.flush()


def _make_safe(value: object) -> object:
    if not isinstance(value, str):
        return value
    from relight.cli.screen import clean

    text = clean(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def markdown(found: Report) -> str:
    """Return the report as a Markdown table, with the total in its last row."""
    names = [*found.by, *MARKDOWN_COLUMNS]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    def cell(row: dict[str, object], name: str) -> str:
        value = row[name]
        if name == "cost_usd":
            return _cost(row)
        text = "–" if value is None else str(value)
        return text.replace("|", "\\|").replace("\n", " ")

    rules = ["---"] * len(found.by) + ["---:"] * len(MARKDOWN_COLUMNS)
    rows = [line([cell(row, name) for name in names]) for row in found.rows]
    total = ["total", *[""] * (len(found.by) - 1)]
    total += [cell(found.total, name) for name in MARKDOWN_COLUMNS]
    return "\n".join([line(names), line(rules), *rows, line(total)])


def print_report(found: Report) -> None:
    """Print the report as a table for eighty columns, with notes on its figures."""
    from relight.cli import screen

    of_calls = found.total["turns"] is None
    keys = [screen.Column(key, is_number=False, is_name=key in WHOLE) for key in found.by]
    if "session" in found.by:
        keys.append(screen.Column("title", is_number=False))
    figures = _call_figures if of_calls else _usage_figures
    largest = max((_weight(row) for row in found.rows), default=0)
    with_bar = found.by in (["day"], ["week"], ["month"])
    headings = CALL_HEADINGS if of_calls else USAGE_HEADINGS
    first = 1 if "session" in found.by else 0  # every row is one session
    last = -1 if of_calls and "failure" not in found.by else None  # model calls have no tool
    shown = slice(first, last)
    columns = [*keys, *[screen.Column(name, is_spare=name in SPARE) for name in headings[shown]]]
    if with_bar:
        columns.append(screen.Column("", is_number=False, style="cyan"))
    rows = []
    short = shorten([str(row["session"]) for row in found.rows]) if "session" in found.by else {}
    for row in found.rows:
        names = [short.get(row[key]) or _name(key, row[key]) for key in found.by]
        if "session" in found.by:
            names.append(row["title"] or "")
        bar = [screen.bar(_weight(row), largest)] if with_bar else []
        rows.append([*names, *figures(row)[shown], *bar])
    blank = [""] * (len(keys) - 1)
    total = ["total", *blank, *figures(found.total)[shown], *([""] if with_bar else [])]
    screen.print_table(columns, rows, total=total)
    for note in notes(found):
        screen.print_text(note, style="dim")


CALL_HEADINGS = ["sess.", "tool calls", "failed", "share", "model calls failed"]
USAGE_HEADINGS = ["sess.", "turns", "input", "cached", "output", "cost", "failed"]
WHOLE = ("day", "week", "month", "session")
SPARE = ("input", "cached", "output", "model calls failed")


def _cost(row: dict[str, object]) -> str:
    from relight.cli.screen import dollars

    return dollars(_number(row["cost_usd"]), unpriced=int(_number(row["unpriced_turns"]) or 0))


def _usage_figures(row: dict[str, object]) -> list[str]:
    from relight.cli.screen import count

    fresh = _number(row["input_tokens"]) or 0
    fresh += _number(row["cache_write_tokens"]) or 0
    return [
        count(_number(row["sessions"])),
        count(_number(row["turns"])),
        count(None if row["input_tokens"] is None else fresh),
        count(_number(row["cache_read_tokens"])),
        count(_number(row["output_tokens"])),
        _cost(row),
        _share(row),
    ]


def _call_figures(row: dict[str, object]) -> list[str]:
    from relight.cli.screen import count

    calls, failures = _number(row["tool_calls"]), _number(row["tool_failures"])
    figures = [count(_number(row["sessions"])), count(calls), count(failures), _share(row)]
    return [*figures, count(_number(row["failed_turns"]))]


def _share(row: dict[str, object]) -> str:
    calls, failures = _number(row["tool_calls"]) or 0, _number(row["tool_failures"]) or 0
    return f"{failures / calls:.1%}" if calls else "–"


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _weight(row: dict[str, object]) -> float:
    """Return the length of a bar: cost, or output if nothing has a price."""
    return _number(row["cost_usd"]) or (_number(row["output_tokens"]) or 0) * 1e-9


def _name(key: str, value: object) -> str:
    """Return a key in short form; `--json` has it whole."""
    text = "unknown" if value is None else str(value)
    if key in ("skill", "job") and value is None:
        return f"(no {key})"
    if key == "project":
        return "/".join(text.rsplit("/", 2)[-2:])
    return text


def shorten(sessions: Sequence[str]) -> dict[str, str]:
    """Return unique beginnings of sessions' names, unless they would be too long.

    >>> list(shorten(["hermes:cron_4d9a61c07b3e_0815", "hermes:cron_4d9a61c07b3e_0923"]).values())
    ['hermes:cron_4d9a61c07b3e_08', 'hermes:cron_4d9a61c07b3e_09']
    """
    for length in range(SHORT_NAME, LONG_NAME + 1):
        short = {name: name[: name.find(":") + 1 + length] for name in sessions}
        if len({*short.values()}) == len(short):
            break
    return short


def notes(found: Report) -> list[str]:
    """Return notes on the figures: what is missing from them, and what is a lower bound."""
    lines = []
    total = found.total
    if total["unpriced_turns"]:
        lines.append(
            f"{total['unpriced_turns']:,} of {total['turns']:,} turns have no known price and are"
            " not in the cost (≥); `relight doctor` names their models"
        )
    if total["partial_turns"]:
        share = total["partial_turns"] / total["turns"]
        lines.append(
            f"{'under 1%' if share < 0.01 else f'{share:.0%}'} of turns are partial: the agent"
            " logged only a lower bound of their output"
        )
    if total["included_usd"]:
        lines.append(
            f"${total['included_usd']:,.2f} more at list price was included in a subscription"
        )
    if found.by == ["day"] and "tool_calls" in total:
        lines.append("failed: share of tool calls that failed")
    return lines
