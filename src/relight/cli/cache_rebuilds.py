from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from relight.cli.options import (
    Answer,
    TypedFilter,
    current_store,
    filter_options,
    print_no_match,
    reading_command,
    wants_json,
)
from relight.errors import as_typed
from relight.store import Store
from relight.store.queries.filters import Filter

if TYPE_CHECKING:
    from relight.reports.cache_rebuilds import CacheReport
    from relight.reports.narrowing import NoMatch

TEXT_ROWS = 10


@reading_command("cache", example="relight cache --since 7d")
@filter_options()
@click.option(
    "--limit",
    type=click.IntRange(0, 10_000),
    help="List at most so many rebuilds, the costliest first (default: 10, JSON 1000).",
)
def command(typed: TypedFilter, limit: int | None) -> Answer:
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
            limit = MOST_REBUILDS if wants_json() else TEXT_ROWS
        # a step's number needs the texts of its session, which take longer than all sums
        found = read_cache_report(store, chosen, limit=limit, with_steps=wants_json())
        yield found
        why = None if found.turns else _explain(store, chosen)
        short = shorten_names(store, [one.session_id for one in found.rebuilds])
    if found.turns:
        _print(found, short)
    else:
        print_no_match(why)


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
    if pauses := found.pauses:
        costs = [screen.dollars(one.usd, unpriced=one.unpriced_turns) for one in pauses]
        lengths = [_name_length(one.from_seconds, one.to_seconds) for one in pauses]
        turns = [screen.count(one.turns) for one in pauses]
        turned, cost = screen.Column("turns", turns), screen.Column("cost", costs)
        screen.print_columns(screen.Words("pause", lengths), turned, cost)
    _print_days(found)
    _print_rebuilds(found, short)


def _print_causes(found: "CacheReport") -> None:
    from relight.cli import screen

    rows = [one for one in found.causes if one.turns]
    costs = [screen.dollars(one.usd, unpriced=one.unpriced_turns) for one in rows]
    avoidable = [screen.dollars(one.avoidable_usd) if one.cause == "pause" else "" for one in rows]
    screen.print_columns(
        screen.Words("cause", [one.cause.replace("_", " ") for one in rows]),
        screen.Column("turns", [screen.count(one.turns) for one in rows]),
        screen.Column("tokens", [screen.count(one.tokens) for one in rows]),
        screen.Column("cost", costs),
        screen.Column("avoidable", avoidable),
    )


def _print_days(found: "CacheReport") -> None:
    from relight.cli import screen

    rows = [one for one in found.days if one.turns]
    costs = [screen.dollars(one.usd, unpriced=one.unpriced_turns) for one in rows]
    screen.print_columns(
        screen.Words("day", [one.day for one in rows], is_name=True),
        screen.Column("rebuilds", [screen.count(one.turns) for one in rows]),
        screen.Column("cost", costs),
        screen.Column("pauses", [screen.dollars(one.pauses_usd) for one in rows]),
        screen.Column("of", [screen.dollars(one.spent_usd) for one in rows]),
    )


def _print_rebuilds(found: "CacheReport", short: Mapping[str, str]) -> None:
    from relight.cli import screen

    screen.print_text(as_typed("\ncostliest, for `relight show SESSION`"), style="bold")
    rows = found.rebuilds
    names = [short.get(one.session_id, one.session_id) for one in rows]
    titles = [one.title or "" for one in rows]
    screen.print_columns(
        screen.Words("at", [screen.minute(one.at) for one in rows], is_name=True),
        screen.Words("cause", [one.cause.replace("_", " ") for one in rows]),
        screen.Column("after", [screen.seconds(one.pause_seconds) for one in rows]),
        screen.Column("tokens", [screen.count(one.tokens) for one in rows]),
        screen.Column("cost", [screen.dollars(one.usd) for one in rows]),
        screen.Words("session", names, is_name=True),
        screen.Words("title", titles, is_spare=True, least=10, is_title=True),
    )
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
