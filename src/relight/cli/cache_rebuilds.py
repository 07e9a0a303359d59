from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from relight.cli.options import (
    TypedFilter,
    current_store,
    filter_options,
    json_option,
    print_json,
    print_no_match,
    reading_command,
)

if TYPE_CHECKING:
    from relight.reports.cache_rebuilds import CacheReport
    from relight.reports.narrowing import NoMatch
    from relight.store import Store
    from relight.store.queries.filters import Filter

TEXT_ROWS = 10


@reading_command("cache", example="relight cache --since 7d")
@filter_options()
@click.option(
    "--limit",
    type=click.IntRange(0, 10_000),
    help="List at most so many rebuilds, the costliest first (default: 10, JSON 1000).",
)
@json_option
def command(typed: TypedFilter, limit: int | None, as_json: bool) -> None:
    """Show which turns rebuilt the prompt cache, why, and what each cost.

    A turn rebuilds the cache if it reads less from it than was cached before, and writes it again.
    The cause is a compaction, a switch of the model, a pause longer than the cache lives (5
    minutes, or an hour if it was written for an hour), or else a changed prefix. All amounts are
    list prices. Caches that a provider keeps by itself, such as OpenAI's, charge nothing for
    writing: they are left out.
    """
    from relight.reports.cache_rebuilds import MOST_REBUILDS, read_cache_report
    from relight.reports.sessions import shorten_names

    with current_store() as store:
        chosen = typed.read(store)
        if limit is None:
            limit = MOST_REBUILDS if as_json else TEXT_ROWS
        # a step's number needs the texts of its session, which take longer than all sums
        found = read_cache_report(store, chosen, limit=limit, with_steps=as_json)
        why = None if found.turns else _explain(store, chosen)
        short = shorten_names(store, [] if as_json else [one.session_id for one in found.rebuilds])
    if as_json:
        print_json(found)
    elif not found.turns:
        print_no_match(why)
    else:
        _print(found, short)


def _explain(store: "Store", chosen: "Filter") -> "NoMatch":
    from relight.reports.cache_rebuilds import read_cache_report
    from relight.reports.narrowing import explain_no_match, list_given, make_filter

    return explain_no_match(
        store,
        "turn that rebuilt the cache",
        list_given(chosen),
        lambda rest: read_cache_report(store, make_filter(rest), limit=0, with_steps=False).turns,
    )


def _print(found: "CacheReport", short: Mapping[str, str]) -> None:
    from relight.cli import screen
    from relight.reports.cache_rebuilds import describe_rebuilds

    for number, line in enumerate(describe_rebuilds(found)):
        screen.print_text(line, style="" if number else "bold")
    _print_causes(found)
    if found.pauses:
        rows = [
            [
                _name_length(one.from_seconds, one.to_seconds),
                screen.count(one.turns),
                screen.dollars(one.usd, unpriced=one.unpriced_turns),
            ]
            for one in found.pauses
        ]
        columns = [screen.Column("pause", is_number=False)]
        screen.print_table([*columns, screen.Column("turns"), screen.Column("cost")], rows)
    _print_days(found)
    _print_rebuilds(found, short)


def _print_causes(found: "CacheReport") -> None:
    from relight.cli import screen

    columns = [
        screen.Column("cause", is_number=False),
        screen.Column("turns"),
        screen.Column("tokens"),
        screen.Column("cost"),
        screen.Column("avoidable"),
    ]
    rows = [
        [
            one.cause.replace("_", " "),
            screen.count(one.turns),
            screen.count(one.tokens),
            screen.dollars(one.usd, unpriced=one.unpriced_turns),
            screen.dollars(one.avoidable_usd) if one.cause == "pause" else "",
        ]
        for one in found.causes
        if one.turns
    ]
    screen.print_table(columns, rows)


def _print_days(found: "CacheReport") -> None:
    from relight.cli import screen

    columns = [
        screen.Column("day", is_number=False, is_name=True),
        screen.Column("rebuilds"),
        screen.Column("cost"),
        screen.Column("pauses"),
        screen.Column("of"),
    ]
    rows = [
        [
            one.day,
            screen.count(one.turns),
            screen.dollars(one.usd, unpriced=one.unpriced_turns),
            screen.dollars(one.pauses_usd),
            screen.dollars(one.spent_usd),
        ]
        for one in found.days
        if one.turns
    ]
    screen.print_table(columns, rows)


def _print_rebuilds(found: "CacheReport", short: Mapping[str, str]) -> None:
    from relight.cli import screen
    from relight.errors import as_typed

    screen.print_text(as_typed("\ncostliest, for `relight show SESSION`"), style="bold")
    columns = [
        screen.Column("at", is_number=False, is_name=True),
        screen.Column("cause", is_number=False),
        screen.Column("after"),
        screen.Column("tokens"),
        screen.Column("cost"),
        screen.Column("session", is_number=False, is_name=True),
        screen.Column("title", is_number=False, is_spare=True, least=10, is_title=True),
    ]
    rows = [
        [
            (one.at or "unknown")[5:16].replace("T", " "),
            one.cause.replace("_", " "),
            screen.seconds(one.pause_seconds),
            screen.count(one.tokens),
            screen.dollars(one.usd),
            short.get(one.session_id, one.session_id),
            one.title or "",
        ]
        for one in found.rebuilds
    ]
    screen.print_table(columns, rows)
    if found.turns > len(rows):
        screen.print_text(f"… and {found.turns - len(rows):,} more: --limit N", style="dim")


def _name_length(first: int, last: int | None) -> str:
    """Return the name of a length of pauses.

    >>> [_name_length(300, 900), _name_length(3600, 14400), _name_length(14400, None)]
    ['5 to 15 min', '1 to 4 h', 'over 4 h']
    """
    scale, unit = (3600, "h") if first >= 3600 else (60, "min")
    if last is None:
        return f"over {first // scale} {unit}"
    return f"{first // scale} to {last // scale} {unit}"
