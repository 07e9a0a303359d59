"""The sessions that run now, in place on a terminal."""

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from relight.cli.options import Answer, current_home, current_store, reading_command
from relight.store import Store, open_reader

if TYPE_CHECKING:
    from relight.cli.screen import Column
    from relight.reports.running import RunningSession, RunningSessions

LEAST_SECONDS = 1.0
# the share of a core that looks, imports and drawing may take together
SHARE = 0.02


@reading_command("top", example="relight top")
@click.option("--once", is_flag=True, help="Print the sessions once.")
def command(once: bool) -> Answer:
    """Show the sessions that run now: last step, context, cost and rate, and spirals.

    A session runs if its record grew in the last 5 minutes, or if a call of it has had no result
    for less than 30. The display is renewed every second, and less often if that would take more
    than a fiftieth of a core; Ctrl-C ends it. Without a terminal it is printed once.
    """
    from relight.reports.running import read_running_sessions

    with current_store() as store:
        found = read_running_sessions(store)
        yield found
        rows = _list_rows(store, found)
    if once or not sys.stdout.isatty():
        _print(found, rows)
    else:
        _follow()


def _follow() -> None:
    """Show the sessions in place until interrupted, and import what is new meanwhile."""
    from relight.cli.progress import live_view
    from relight.intake.watching import Watcher, WatchReport, open_watched
    from relight.reports.running import read_running_sessions
    from relight.warm.automatic import import_and_propose

    home = current_home()
    state = WatchReport("live")

    def note(found: WatchReport) -> None:
        nonlocal state
        state = found

    watcher = Watcher(lambda: open_watched(home), import_and_propose, report=note)
    with open_watched(home) as store:
        config = store.config
    with open_reader(config) as store, live_view() as show:
        while True:
            began = _spent_seconds()
            watcher.look()
            found = read_running_sessions(store)
            trouble = state.note if state.state == "failing" else None
            show(_list_columns(), _list_rows(store, found), _summarise(found, trouble))
            time.sleep(max(LEAST_SECONDS, (_spent_seconds() - began) / SHARE))


def _spent_seconds() -> float:
    """The CPU time of this process and of the workers that it waited for."""
    return sum(os.times()[:4])


def _print(found: "RunningSessions", rows: list[list[str]]) -> None:
    from relight.cli import screen

    if found.sessions:
        screen.print_table(_list_columns(), rows)
    screen.print_text(_summarise(found, None), style="dim")


def _list_columns() -> "list[Column]":
    from relight.cli.screen import Column

    return [
        Column("agent", is_number=False, is_spare=True, drop=2),
        Column("session", is_number=False),
        Column("project", is_number=False),
        Column("model", is_number=False, is_spare=True, drop=1),
        Column("last step", is_number=False),
        Column("ago"),
        Column("context"),
        Column("cost"),
        Column("per hour"),
    ]


def _list_rows(store: "Store", found: "RunningSessions") -> list[list[str]]:
    from relight.reports.sessions import shorten_names

    short = shorten_names(store, [one.session_id for one in found.sessions])
    return [_make_row(one, short[one.session_id]) for one in found.sessions]


def _make_row(one: "RunningSession", name: str) -> list[str]:
    from relight.cli import screen

    context = screen.count(one.context_tokens)
    if one.context_share is not None:
        context += f" {one.context_share:.0%}"
    return [
        one.source,
        name.partition(":")[2] or name,
        screen.last_folder(one.project),
        one.model or "",
        f"! {one.spiral}" if one.spiral else one.step,
        screen.seconds(one.idle_seconds),
        context,
        screen.format_cost(one),
        screen.dollars(one.usd_per_hour, digits=2),
    ]


def _summarise(found: "RunningSessions", trouble: str | None) -> str:
    from relight.cli import screen
    from relight.text import plural

    number = len(found.sessions)
    if trouble:
        return f"not live: {trouble}"
    if not number:
        return "no session runs now"
    rate = screen.dollars(sum(one.usd_per_hour for one in found.sessions), digits=2)
    return f"{plural(number, 'session runs', 'sessions run')}, {rate} per hour"
