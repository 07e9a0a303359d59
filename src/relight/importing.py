"""Find what is new in the agents' own files, read it, and record it."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from relight.model import Imported, Work
from relight.sources import SOURCES, find_source
from relight.store import Store
from relight.store.marks import read_marks, read_seen

Progress = Callable[[int, int], None]


def import_all(
    store: Store,
    *,
    sources: Sequence[str] = (),
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
    workers: int | None = None,
) -> list[Imported]:
    """Read whatever is new in the sources' folders, or in the one given, into the store."""
    environment = os.environ if environment is None else environment
    counts = {name: Imported(name) for name in sources or SOURCES}
    with hold_import(store, on_wait):
        work = [one for name in counts for one in find_work(store, name, folder, environment)]
        if work:
            # what it takes to read is loaded only when there is something to read
            from relight.intake import Intake
            from relight.scores import refit_weights

            taken = Intake(store, progress).take(work, workers or os.cpu_count() or 1)
            counts |= {one.source: one for one in taken}
            refit_weights(store)
    return list(counts.values())


@contextmanager
def hold_import(store: Store, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """One import at a time: the others wait, and then find nothing left to do."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there the marks alone keep two imports apart
        yield
        return
    with (store.config.home / "import.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait:
                on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_work(
    store: Store, name: str, folder: Path | None, environment: Mapping[str, str]
) -> Iterator[Work]:
    """The files of a source that have something new."""
    seen = read_seen(store, name)
    for origin in find_source(name).find(environment, folder):
        if origin != seen.get(origin.path):
            yield Work(name, origin, read_marks(store, name, origin.path).get(""))
