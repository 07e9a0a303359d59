"""Recording that never breaks what it records: a record that cannot be written is counted.

The count is in the store, or in a file beside it with one line for each miss while the store cannot
be written. `relight doctor` shows both.
"""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from relight.config import find_home
from relight.locks import make_folder, open_private
from relight.store import Store, open_store
from relight.text import to_text
from relight.times import write_time

FILE = "missed.log"
WAIT_SECONDS = 5.0
COUNT = """
    insert into meta (key, value) values ('missed', :number)
    on conflict (key) do update
        set value = cast(cast(meta.value as bigint) + cast(excluded.value as bigint) as text)
"""

R = TypeVar("R")
logger = logging.getLogger("relight")


def record_safely(
    place: Store | str | Path | None,
    record: Callable[[Store], R],
    *,
    wait_seconds: float = WAIT_SECONDS,
) -> R | None:
    """Return the result of `record` for the store; on any error count a miss and return None.

    `place` is an open store, or the home folder of one. It waits only briefly for other writers:
    an import must not hold up a job.
    """
    try:
        if isinstance(place, Store):
            with place.waiting(wait_seconds):
                return record(place)
        with open_store(place, wait_seconds=wait_seconds) as store:
            return record(store)
    except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
        reason = to_text(error, fallback=type(error).__name__)
        logger.warning("a record was missed: %s", reason)
        count_miss(place if isinstance(place, Store) else None, _find_home(place), reason)
        return None


def count_miss(store: Store | None, home: Path, reason: str, *, number: int = 1) -> None:
    """Count records that could not be written, in the store or else in the file beside it."""
    if store is not None and _count_inside(store, number):
        return
    line = f"{write_time(int(time.time() * 1000))} {' '.join(reason.split())}\n"
    if not _append(home / FILE, line * number):
        logger.warning("%d missed records could not be counted", number)


def _count_inside(store: Store, number: int) -> bool:
    try:
        with store.waiting(0):
            store.write(COUNT, {"number": str(number)})
    except Exception:  # noqa: BLE001 - the file beside the store is for this
        return False
    return True


def count_missed(store: Store) -> int:
    """Return the number of missed records counted so far."""
    found = int(store.find_meta("missed") or 0)
    try:
        return found + (store.config.home / FILE).read_bytes().count(b"\n")
    except OSError:
        return found


def _append(path: Path, lines: str) -> bool:
    """Append lines to a file that only its owner may read; False if it fails or is a link."""
    flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        make_folder(path.parent)
        number = open_private(path, flags)
        with os.fdopen(number, "a", encoding="utf-8", errors="replace") as file:
            file.write(lines)
    except (OSError, ValueError):
        return False
    return True


def _find_home(place: Any) -> Path:
    """Return the home that is meant; the user's home if the argument makes no sense."""
    if isinstance(place, Store):
        return place.config.home
    for one in (place, None):
        try:
            return find_home(one)
        except Exception:  # noqa: BLE001 - whatever was passed
            continue
    return Path(".relight")
