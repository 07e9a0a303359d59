"""A watch over the agents' folders: what is new is imported within a second or two.

Files are polled. The newest ones and their folders are looked at twice a second; all files as often
as takes a fiftieth of a core, which is every 1.5 seconds on 1 GB of logs.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from heapq import nlargest
from pathlib import Path
from typing import Literal

from msgspec import Struct

from relight.config import find_home, read_config
from relight.errors import RelightError
from relight.intake.importing import Imported, ImportRunningError, find_origins
from relight.model import Origin
from relight.sources import Source, find_source, list_sources
from relight.store import Store, open_store
from relight.store.changes import identify

LOOK_SECONDS = 0.5
# the share of a core that looks at all files may take
LOOK_SHARE = 0.02
RECENT_FILES = 200
# everything is imported again this often: files that could not be read, and events left behind
WHOLE_SECONDS = 60.0
RETRY_SECONDS = 5.0
# another import is waited for this long before it is reported
LOCK_SECONDS = 0.5

WatchState = Literal["live", "reading", "waiting", "failing"]
Signature = tuple[int, int]


class WatchReport(Struct, frozen=True):
    """The state of a watch after a look, or during an import.

    `live`: everything found was read. `waiting`: another import runs. `failing`: see `note`.
    """

    state: WatchState
    note: str | None = None
    done_bytes: int = 0
    total_bytes: int = 0


class Watcher:
    """Looks at the agents' files, and imports those that changed.

    `opened` opens the store for one import, and `take` is `import_and_notify`. `report` gets the
    state after each look, `on_import` the counts and seconds of each import. `received` is the
    folder of telemetry.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Store]],
        take: Callable[..., list[Imported]],
        *,
        report: Callable[[WatchReport], None],
        on_import: Callable[[Store, list[Imported], float], None] | None = None,
        sources: Sequence[str] = (),
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        received: Path | None = None,
    ) -> None:
        self._opened = opened
        self._take = take
        self._report = report
        self._on_import = on_import
        self._sources = [find_source(name) for name in sources or list_sources()]
        self._folder = folder
        self._received = received
        self._environment = os.environ if environment is None else environment
        # the files of each source as they were when last imported
        self._seen: dict[str, dict[str, Origin]] = {}
        # the newest files and their folders
        self._recent: dict[str, Signature] = {}
        self._all_at = self._whole_at = self._try_at = float("-inf")

    def watch(self, pause: Callable[[float], object] = time.sleep) -> None:
        """Look again and again, until interrupted."""
        while True:
            self.look()
            pause(LOOK_SECONDS)

    def look(self) -> None:
        """Look once, at the newest files or at all if that is due, and import what changed."""
        now = time.monotonic()
        if now < self._try_at:
            return
        is_whole = now >= self._whole_at
        if not is_whole and now < self._all_at and not self._has_recent_change():
            self._report(WatchReport("live"))
            return
        found = self._find_all()
        changed = self._compare(found)
        if (is_whole or changed) and not self._import(None if is_whole else changed):
            return
        if is_whole:
            self._whole_at = now + WHOLE_SECONDS
        # what changed since `found` is found by the next look
        self._seen = found
        self._recent = self._choose_recent()
        self._report(WatchReport("live"))

    def _find_all(self) -> dict[str, dict[str, Origin]]:
        began = time.thread_time()
        found = {
            source.name: {
                one.path: one
                for one in find_origins(
                    source.name, self._folder, self._environment, received=self._received
                )
            }
            for source in self._sources
        }
        spent = time.thread_time() - began
        self._all_at = time.monotonic() + max(LOOK_SECONDS, spent / LOOK_SHARE)
        return found

    def _compare(self, found: dict[str, dict[str, Origin]]) -> dict[str, list[Origin]]:
        """Return the files of each source that are not as they were, if there are any."""
        changed = {}
        for name, files in found.items():
            seen = self._seen.get(name, {})
            if new := [one for path, one in files.items() if seen.get(path) != one]:
                changed[name] = new
        return changed

    def _choose_recent(self) -> dict[str, Signature]:
        """Return the newest files, and the folders that new ones would be in."""
        files = (one for files in self._seen.values() for one in files.values())
        newest = nlargest(RECENT_FILES, files, key=lambda one: one.modified_ns)
        recent: dict[str, Signature] = {}
        roots = {str(root) for source in self._sources for root in self._find_roots(source)}
        for one in newest:
            is_plain = one.path.endswith(".jsonl")
            recent[one.path] = (one.size, one.modified_ns) if is_plain else sign(one.path)
            if not is_plain:
                recent[f"{one.path}-wal"] = sign(f"{one.path}-wal")
            place = one.path
            while place not in roots and (above := os.path.dirname(place)) != place:  # noqa: PTH120
                place = above
                if place in recent:
                    break
                recent[place] = sign(place)
        return recent

    def _find_roots(self, source: Source) -> list[Path]:
        if self._folder:
            return [self._folder]
        received = [self._received / source.name] if self._received else []
        return [*source.find_folders(self._environment), *received]

    def _has_recent_change(self) -> bool:
        return any(sign(path) != known for path, known in self._recent.items())

    def _import(self, changed: dict[str, list[Origin]] | None) -> bool:
        """Import these files, or everything; return False, after a report, if that failed."""
        began = time.monotonic()
        reported_at = began

        def show(done: int, total: int) -> None:
            nonlocal reported_at
            if time.monotonic() - reported_at >= LOOK_SECONDS:
                reported_at = time.monotonic()
                self._report(WatchReport("reading", done_bytes=done, total_bytes=total))

        try:
            self._report(WatchReport("reading"))
            with self._opened() as store:
                done = self._take(
                    store,
                    sources=[source.name for source in self._sources],
                    folder=self._folder,
                    environment=self._environment,
                    found=changed,
                    progress=show,
                    wait_seconds=LOCK_SECONDS,
                )
                if self._on_import:
                    self._on_import(store, done, time.monotonic() - began)
        except ImportRunningError:
            self._report(WatchReport("waiting"))
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the watch goes on
            from relight.intake.sealing import describe_error

            self._report(WatchReport("failing", describe_error(error)))
            self._try_at = time.monotonic() + RETRY_SECONDS
            return False
        return True


def open_watched(home: str | Path | None) -> Store:
    """Return the store for one import of a watch; raise if it is gone: no new one is made."""
    config = read_config(find_home(home))
    identify(config)
    store = open_store(home)
    if not store.can_write:
        store.close()
        raise RelightError(
            f"{config.home} can only be read", "run it as a user who may write there"
        )
    return store


def sign(path: str) -> Signature:
    """Return what differs after a write to a file or into a folder."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for many files, twice a second
    except OSError:
        return -1, 0
    return found.st_size, found.st_mtime_ns
