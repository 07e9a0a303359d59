"""Recording that never breaks what it records: a record that cannot be kept is counted.

The count is in the store, or, when that cannot be written, in a file of one line a miss beside it;
`relight doctor` shows both.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from relight.config import find_home
from relight.errors import RelightError
from relight.store import Store, open_store
from relight.times import write_time

FILE = "missed.log"
WAIT_SECONDS = 5.0
COUNT = """
    insert into meta values ('missed', '1')
    on conflict (key) do update set value = cast(cast(value as integer) + 1 as text)
"""

Kept = TypeVar("Kept")
logger = logging.getLogger("relight")


def record_safely(
    place: Store | str | Path | None,
    record: Callable[[Store], Kept],
    *,
    wait_seconds: float = WAIT_SECONDS,
) -> Kept | None:
    """What `record` gives for the store, or None and a miss counted, whatever went wrong.

    `place` is an open store, or the home folder of one. It waits only shortly for other writers:
    a job must not stand still because an import is running.
    """
    try:
        if isinstance(place, Store):
            with place.waiting(wait_seconds):
                return record(place)
        with open_store(place, wait_seconds=wait_seconds) as store:
            return record(store)
    except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
        logger.warning("a record was missed: %s", error)
        home = place.config.home if isinstance(place, Store) else find_home(place)
        count_miss(place if isinstance(place, Store) else None, home, str(error))
        return None


def count_miss(store: Store | None, home: Path, reason: str) -> None:
    """Count a record that could not be kept, in the store or in the file beside it."""
    try:
        if store is not None:
            with store.waiting(0), store.transaction() as database:
                database.execute(COUNT)
            return
    except RelightError:
        pass  # that is why there is a file
    try:
        line = f"{write_time(int(time.time() * 1000))} {' '.join(reason.split())}\n"
        with (home / FILE).open("a", encoding="utf-8", errors="replace") as file:
            file.write(line)
    except OSError as error:
        logger.warning("the miss could not be counted: %s", error)


def count_missed(store: Store) -> int:
    """How many records could not be kept so far."""
    rows = store.query("select value from meta where key = 'missed'")
    try:
        beside = (store.config.home / FILE).read_bytes().count(b"\n")
    except OSError:
        beside = 0
    return int(rows[0][0] if rows else 0) + beside
