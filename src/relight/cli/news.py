"""New records of the agents, imported before a command reads."""

from typing import TYPE_CHECKING

import click

from relight.errors import as_typed
from relight.intake.importing import ImportRunningError
from relight.store import Store
from relight.text import clean_lines, plural

if TYPE_CHECKING:
    from relight.intake.importing import Imported

# another import is waited for so long that a short look for news ends; a long one is not waited for
IMPORT_SECONDS = 0.25
WRITER_SECONDS = 1.0  # for another writer of the database


def refresh(store: Store) -> None:
    """Take in what is new, or print that a home that can only be read misses something."""
    from relight.intake.importing import has_news, misses_news

    if has_news(store):
        take_news(store)
    elif misses_news(store):
        _print("this home can only be read: what is new is missing here")


def take_news(store: Store) -> "list[Imported]":
    """Read what is new in the agents' files and return the counts; if it fails, print why.

    The caller answers from the store in any case. Ctrl-C ends the import, not the command: all
    that was recorded before stays, and the next import continues there.
    """
    try:
        return _import(store)
    except ImportRunningError:
        _print("another import is running: this is what it has recorded so far")
    except KeyboardInterrupt:
        _print("import interrupted: what was not read yet is missing here")
    except Exception as error:  # noqa: BLE001 - whatever a file contains, the store can be read
        reason = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
        _print(f"warning: not everything new was read: {reason}")
    return []


def _import(store: Store) -> "list[Imported]":
    from relight.cli.progress import LateProgress
    from relight.store.alarms import needs_a_look
    from relight.store.queries.health import count_unreadable
    from relight.warm.automatic import import_and_propose

    with LateProgress() as progress, store.waiting(WRITER_SECONDS):
        before = count_unreadable(store)
        done = import_and_propose(store, progress=progress.update, wait_seconds=IMPORT_SECONDS)
        # a file that cannot be opened is tried again each time, and reported only once
        lines = count_unreadable(store) - before
    if store.config.notify.to or needs_a_look(store):
        from relight.work.notices import notify_news

        notify_news(store)
    if lines > 0:
        _print(
            as_typed(
                f"warning: {plural(lines, 'new line')} could not be read: see `relight doctor`"
            )
        )
    if any(one.set_aside for one in done):
        _print(as_typed("warning: a part of a file takes too long: see `relight doctor`"))
    return done


def _print(line: str) -> None:
    click.echo(clean_lines(line), err=True)
