"""Recording that never breaks what it records: a record that cannot be kept is counted.

The count is in the store; when that cannot be written, in a file of one line a miss beside it; when
the disk is full or read-only, in such a file among the system's temporary ones; and when there is
no place at all, in this process until there is. `relight doctor` shows them all.
"""

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from relight.config import find_home
from relight.store import Store, open_store
from relight.times import write_time

FILE = "missed.log"
WAIT_SECONDS = 5.0
COUNT = """
    insert into meta values ('missed', ?1)
    on conflict (key) do update set value = cast(cast(value as integer) + ?1 as text)
"""

Kept = TypeVar("Kept")
logger = logging.getLogger("relight")
# how many misses no file took yet, by home
_unwritten: dict[Path, int] = {}
_lock = threading.Lock()


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
                kept = record(place)
        else:
            with open_store(place, wait_seconds=wait_seconds) as store:
                kept = record(store)
    except Exception as error:  # noqa: BLE001 - a recorder must never break what it records
        reason = _describe(error)
        logger.warning("a record was missed: %s", reason)
        count_miss(place if isinstance(place, Store) else None, _find_home(place), reason)
        return None
    if _unwritten:
        _write_down(_find_home(place), 0, "a miss of earlier, when nothing could be written")
    return kept


def count_miss(store: Store | None, home: Path, reason: str, *, number: int = 1) -> None:
    """Count records that could not be kept, in the store or wherever they can be counted."""
    if store is not None and _count_inside(store, number):
        return
    _write_down(home, number, reason)


def _count_inside(store: Store, number: int) -> bool:
    try:
        with store.waiting(0), store.transaction() as database:
            database.execute(COUNT, (str(number),))
    except Exception:  # noqa: BLE001 - that is why there are files
        return False
    return True


def _write_down(home: Path, number: int, reason: str) -> None:
    """A line for each of so many misses, and for those that are still to be written."""
    line = f"{write_time(int(time.time() * 1000))} {' '.join(reason.split())}\n"
    with _lock:
        number += _unwritten.pop(home, 0)
        if number and not any(_append(path, line * number) for path in _list_files(home)):
            _unwritten[home] = number
            logger.warning("%d misses could not be written down yet", number)


def count_missed(store: Store) -> int:
    """How many records could not be kept so far, as far as anyone could count them."""
    home = store.config.home
    rows = store.query("select value from meta where key = 'missed'")
    found = int(rows[0][0] if rows else 0) + _unwritten.get(home, 0)
    for path in _list_files(home):
        try:
            found += path.read_bytes().count(b"\n")
        except OSError:
            continue
    return found


def _list_files(home: Path) -> Iterator[Path]:
    """Beside the store; else in folders that may lie on another disk."""
    yield home / FILE
    name = blake2b(str(home.absolute()).encode("utf-8", "replace"), digest_size=6).hexdigest()
    folders = [os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{_user()}"]
    with suppress(OSError):
        folders.append(tempfile.gettempdir())
    for folder in dict.fromkeys(folders):
        yield Path(folder) / f"relight-{_user()}-{name}-{FILE}"


def _append(path: Path, lines: str) -> bool:
    """Whether the lines are in the file now: one that is ours, and no link to another."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        number = os.open(path, flags, 0o600)
        with os.fdopen(number, "a", encoding="utf-8", errors="replace") as file:
            if os.fstat(number).st_uid != _user():
                return False
            file.write(lines)
    except (OSError, ValueError):
        return False
    return True


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _find_home(place: Any) -> Path:
    """The home that is meant; where nothing sensible is, the user's own, which doctor looks at."""
    if isinstance(place, Store):
        return place.config.home
    for one in (place, None):
        try:
            return find_home(one)
        except Exception:  # noqa: BLE001 - whatever nonsense was given
            continue
    return Path(".relight")


def _describe(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error that cannot even be shown is an error all the same
        return type(error).__name__
