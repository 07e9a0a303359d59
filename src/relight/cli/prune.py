import time
from collections.abc import Callable
from functools import partial

import click
from msgspec import Struct

from relight.cli.options import (
    Answer,
    Function,
    confirm,
    current_store,
    relight_command,
    yes_option,
)
from relight.errors import as_typed


class PruneReport(Struct, frozen=True):
    """The dropped records, or those to be dropped, as `--json` prints them."""

    tapes: int
    bytes: int
    sessions: int
    answers: int
    dry_run: bool
    waiting: int


DEFAULT_TAPE_DAYS = 90
Decorator = Callable[[Function], Function]


def days_option(word: str, name: str, things: str, default: str = "none") -> Decorator:
    return click.option(
        word,
        name,
        type=click.IntRange(0),
        metavar="DAYS",
        help=f"Drop {things} that ended longer ago (default: {default}).",
    )


@relight_command("prune", example="relight prune --tapes 90 --dry-run")
@days_option("--tapes", "tape_days", "tapes of sessions", "retention_tape_days, else 90")
@days_option("--index", "index_days", "whole sessions", "retention_index_days, else none")
@days_option("--answers", "answer_days", "files with answers of jobs' runs")
@click.option("--dry-run", is_flag=True, help="Only show what would be dropped.")
@yes_option
def command(
    tape_days: int | None,
    index_days: int | None,
    answer_days: int | None,
    dry_run: bool,
) -> Answer:
    """Drop old tapes, old sessions and old answers.

    Tapes are the redacted originals and most of the store's size. Without its tape a session keeps
    its figures, but cannot be shown in full or rebuilt. The index is small: keep it long. The
    defaults are settings of [store] in config.toml, by which a team's server prunes once a day.
    """
    from relight.intake.retention import prune
    from relight.text import plural, size

    with current_store() as store:
        wanted = store.config.store
        if tape_days is None:
            tape_days = wanted.retention_tape_days or DEFAULT_TAPE_DAYS
        drop = partial(
            prune,
            store,
            now=int(time.time() * 1000),
            tape_days=tape_days,
            index_days=wanted.retention_index_days if index_days is None else index_days,
            answer_days=answer_days,
        )
        found = drop(dry_run=True)
        total = f"{plural(found.tapes, 'tape part')} ({size(found.tape_bytes)}),"
        total += f" {plural(found.sessions, 'session')} and {plural(found.answers, 'answer')}"
        if not dry_run and (found.tapes or found.sessions or found.answers):
            confirm(f"drop {total}?")
            drop(dry_run=False)
    counts = (found.tapes, found.tape_bytes, found.sessions, found.answers)
    yield PruneReport(*counts, dry_run, found.waiting)
    click.echo(f"{'would drop' if dry_run else 'dropped'} {total}")
    if found.waiting:
        kept = plural(found.waiting, "old session stays", "old sessions stay")
        click.echo(as_typed(f"{kept} until the server has it all: relight push"))
