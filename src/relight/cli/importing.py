import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from relight.cli.options import (
    current_home,
    current_store,
    json_option,
    print_json,
    relight_command,
    wants_json,
)
from relight.config import find_home
from relight.errors import RelightError, as_typed
from relight.intake.importing import Imported, make_home
from relight.sources import SOURCES, find_added, find_source, list_sources
from relight.store import Store
from relight.store.candidates import count_proposed
from relight.store.keep.migrate import find_old_rules
from relight.text import clean_lines, join_words, plural, size
from relight.warm.automatic import import_and_propose

if TYPE_CHECKING:
    from relight.intake.watching import WatchReport

WAITING = "another import is running; waiting for it …"


class ImportReport(Struct, frozen=True):
    """An import as `--json` prints it."""

    sources: list[Imported]
    candidates: int
    seconds: float


class SourceChoice(click.Choice[str]):
    """A source's name; other packages are searched only for a name that is not built in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            self.choices = tuple(list_sources())
        return super().convert(value, param, ctx)


@relight_command("import", example="relight import --source codex --from ~/old/.codex/sessions")
@click.option(
    "--source", "sources", multiple=True, type=SourceChoice(list(SOURCES)), help="Only this one."
)
@click.option(
    "--from", "folder", type=click.Path(path_type=Path), help="Read this file or folder instead."
)
@click.option("--watch", is_flag=True, help="Keep reading as sessions grow, until interrupted.")
@json_option
def command(sources: Sequence[str], folder: Path | None, watch: bool) -> None:
    """Read new records from the agents' own files.

    Finds the sessions of {titles} in their usual folders ({variables} are honoured). Nothing is
    imported twice. A chat file has one session of OpenAI messages per line; name it with
    --source chat --from FILE.
    """
    if folder is not None:
        if len(sources) != 1:
            raise click.UsageError("--from needs exactly one --source, which names the format")
        if not folder.exists():
            raise RelightError(f"there is no {folder}", "check the path given with --from")
        folder = folder.absolute()
    for source in map(find_source, () if folder else sources):
        if source.needs_path:
            raise click.UsageError(f"{source.title} have no usual folder: name one with --from")
    for warning in find_added().warnings:
        click.echo(f"warning: {warning}", err=True)
    make_home(find_home(current_home()))
    with current_store() as store:
        for note in find_old_rules(store):
            click.echo(f"warning: {note}", err=True)
        _import_once(store, sources, folder, as_json=wants_json(), is_quiet=watch)
    if watch:
        _watch(sources, folder, as_json=wants_json())


_AGENTS = [source for source in SOURCES.values() if source.homes]
_VARIABLES = [name for one in _AGENTS for name in (one.variable, one.sessions_variable) if name]
command.help = (command.help or "").format(
    titles=join_words([source.title for source in _AGENTS]),
    variables=join_words(list(dict.fromkeys(_VARIABLES))),
)


def _import_once(
    store: Store, sources: Sequence[str], folder: Path | None, *, as_json: bool, is_quiet: bool
) -> None:
    started = time.monotonic()
    if sys.stderr.isatty():
        from relight.cli.progress import progress_bar

        with progress_bar("importing") as progress:
            done = import_and_propose(
                store, sources=sources, folder=folder, progress=progress, on_wait=_report_waiting
            )
    else:
        done = import_and_propose(store, sources=sources, folder=folder, on_wait=_report_waiting)
    from relight.store.alarms import needs_a_look

    if store.config.notify.to or needs_a_look(store):
        from relight.work.notices import notify_news

        notify_news(store)
    is_empty = folder and not any(find_source(sources[0]).find(os.environ, folder))
    if is_empty and not (is_quiet or as_json):
        click.echo(f"no session of {sources[0]} was found in {folder}")
        return
    _print(store, done, time.monotonic() - started, as_json=as_json, is_quiet=is_quiet)


def _watch(sources: Sequence[str], folder: Path | None, *, as_json: bool) -> None:
    """Import what is new as it is written, until interrupted."""
    from relight.intake.watching import Watcher, open_watched
    from relight.work.notices import import_and_notify

    home = current_home()
    printed: set[str] = set()

    def report(found: "WatchReport") -> None:
        if found.state == "live":
            printed.clear()
        line = found.note and f"error: {found.note}"
        if found.state == "waiting":
            line = WAITING
        if line and line not in printed:
            printed.add(line)
            click.echo(clean_lines(line), err=True)

    Watcher(
        lambda: open_watched(home),
        import_and_notify,
        report=report,
        on_import=partial(_print, as_json=as_json, is_quiet=True),
        sources=sources,
        folder=folder,
    ).watch()


def _print(
    store: Store, done: Sequence[Imported], spent: float, *, as_json: bool, is_quiet: bool
) -> None:
    """Print what an import read; if it is quiet, only if there was something."""
    if is_quiet and not any(one.bytes or one.unreadable or one.set_aside for one in done):
        return
    candidates = count_proposed(store, since=round((time.time() - spent) * 1000))
    if as_json:
        print_json(ImportReport(list(done), candidates, round(spent, 3)))
        return
    click.echo(summarise(done, spent))
    if candidates:
        some = "1 good session is now a candidate for a template"
        if candidates > 1:
            some = f"{candidates} good sessions are now candidates for templates"
        click.echo(as_typed(f"{some}: `relight template list --candidates`"))


def summarise(done: Sequence[Imported], spent: float) -> str:
    """Return one line for each source with something new."""
    lines = []
    for one in done:
        if one.bytes or one.unreadable or one.set_aside:
            news = f"{one.sessions_new:,} new, {one.sessions_grown:,} grown"
            lines.append(f"{one.source}: {news} ({size(one.bytes)})")
        if one.unreadable:
            what = plural(one.unreadable, "unreadable line")
            lines.append(as_typed(f"  {what}: see `relight doctor`"))
        if one.set_aside:
            what = plural(one.set_aside, "piece")
            lines.append(as_typed(f"  {what} set aside: see `relight doctor`"))
    return "\n".join([*lines, f"imported in {spent:.1f} s"] if lines else ["nothing new"])


def _report_waiting() -> None:
    click.echo(WAITING, err=True)
