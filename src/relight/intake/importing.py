"""Find what is new in the agents' files, read it, and record it."""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.locks import hold, make_folder, open_lock
from relight.model import Mark, Origin, row_id
from relight.sources import find_source, list_sources
from relight.store import Store, open_store, search_index
from relight.store.write.tape import read_aside, read_marks, read_seen

if TYPE_CHECKING:
    from threading import Thread

    from relight.intake.workers import Workers

# below this much new text, starting several worker processes costs more than they save: new
# interpreters load everything, forks have it
POOL_BYTES = 12 << 20
FORKED_POOL_BYTES = 3 << 20
# from this much on, freed memory is given back before workers are forked, which takes 2 ms
LARGE_BYTES = 64 << 20
# the number of glibc's setting in its <malloc.h>
M_ARENA_MAX = -8
# CPU time for one piece of a file, which takes a fraction of a second
PIECE_SECONDS = 60.0
LOCK_SECONDS = 0.02
# the compiled scan for secrets, in the home folder; it may be deleted
SCAN_FILE = "secrets.scan"
# by home, the thread that compiles the scan of one that this process has made
_compiling: dict[Path, "Thread"] = {}

Progress = Callable[[int, int], None]


class ImportRunningError(RelightError):
    """Another process is importing into this store."""


class Work(Struct, frozen=True):
    """A file with something new, and the mark up to which it has been read."""

    source: str
    origin: Origin
    mark: Mark | None

    @property
    def new_bytes(self) -> int:
        """The bytes of the file that have not been read yet."""
        return max(self.origin.size - (self.mark.offset if self.mark else 0), 0)


class Imported(Struct):
    """The counts of an import from one source."""

    source: str
    files: int = 0
    bytes: int = 0
    sessions_new: int = 0
    sessions_grown: int = 0
    unreadable: int = 0
    set_aside: int = 0


class ImportResult(Struct):
    """The result of an import: counts for each source, and the ids of the sessions it touched."""

    sources: list[Imported]
    touched: set[int]


def import_all(
    store: Store,
    *,
    sources: Sequence[str] = (),
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
    wait_seconds: float | None = None,
    found: Mapping[str, Sequence[Origin]] | None = None,
    workers: int | None = None,
    piece_seconds: float = PIECE_SECONDS,
) -> ImportResult:
    """Read everything new in the sources' folders, or in the given one; return the counts.

    `found` are the files by source if they are known: no others are looked for. Another import is
    waited for, with `wait_seconds` only so long: then it raises. A piece of a file that takes more
    than `piece_seconds` of CPU time is set aside.
    """
    environment = os.environ if environment is None else environment
    counts = {name: Imported(name) for name in sources or list_sources()}
    touched: set[int] = set()
    with hold_import(store, on_wait, wait_seconds=wait_seconds):
        compiling = _start_early(store)
        if store.config.backlog.is_dir():
            from relight.intake.live import take_backlogs

            take_backlogs(store)
        from relight.store.derive.pricing import refresh_aliases

        refresh_aliases(store)
        if found is None:
            work = [one for name in counts for one in find_work(store, name, folder, environment)]
        else:
            work = [one for name in counts for one in check_work(store, name, found.get(name, ()))]
        if work:
            with _start_workers(store, work, workers, piece_seconds, compiling) as pool:
                taken, touched = _take(store, work, pool, progress)
            counts |= {one.source: one for one in taken}
        elif compiling:
            compiling.join()
        if store.config.telemetry.is_dir():
            from relight.intake.spool import sweep

            sweep(store)
        if search_index.read_below(store) is not None:
            from relight.intake.retention import fill_index

            fill_index(store)
        if store.config.status_file.exists():
            from relight.intake.status import keep_status

            keep_status(store)
    if store.has_rows("score_due"):
        from relight.store.derive.scores import refresh_due

        refresh_due(store)
    # also what an import before did not come to
    if touched or store.has_rows("stale_day"):
        from relight.store.derive.rollup import add_up_days

        add_up_days(store)
    if store.has_rows("push_due"):
        from relight.intake.push import push_after_import

        push_after_import(store)
    if work:
        from relight.expressions import keep_compiled

        keep_compiled()
    return ImportResult(list(counts.values()), touched)


def make_home(home: Path) -> None:
    """Make a new home and its store in a fork, and load meanwhile what its first import needs.

    If the fork fails, the command opens the store as it opens any other, and reports the trouble.
    """
    from relight.intake.workers import can_fork_here, count_cores

    try:
        if home.exists() or not can_fork_here() or count_cores() == 1:
            return
        make_folder(home)
    except OSError:
        return
    maker = os.fork()
    if maker == 0:
        try:
            open_store(home).close()
        finally:
            os._exit(0)
    if compiling := _start_scan(home):
        _compiling[home] = compiling
    # what every import needs; tables are read where they are needed, by one file perhaps by none
    import_module("relight.intake.sealing")
    os.waitpid(maker, 0)


def _start_early(store: Store) -> "Thread | None":
    """Compile the scan of a new store on another core while files are found and modules loaded."""
    home = store.config.home
    if home in _compiling:
        return _compiling.pop(home)
    if (home / SCAN_FILE).exists():
        return None
    from relight.intake.workers import can_fork_here

    return _start_scan(home) if can_fork_here() else None


def _start_scan(home: Path) -> "Thread | None":
    """Load the scan for secrets from its file, or begin to compile it in a thread."""
    from relight.secret_shapes import read_shapes

    shapes, path = read_shapes(), home / SCAN_FILE
    return None if shapes.load_scan(path) else shapes.start_scan(path)


def _start_workers(
    store: Store,
    work: list[Work],
    most: int | None,
    piece_seconds: float,
    compiling: "Thread | None",
) -> "Workers":
    """Return several worker processes if there is much to read, else one."""
    from relight.intake.workers import Workers, can_fork_here, count_cores

    can_fork = compiling is not None or can_fork_here()
    size = sum(one.new_bytes for one in work if not find_source(one.source).fetch)
    least = FORKED_POOL_BYTES if can_fork else POOL_BYTES
    count = (most or count_cores()) if size > least else 1
    if can_fork:
        from relight.intake.sealing import load_rules

        # loaded here, the rules are there in each fork
        load_rules(store, compiling or _start_scan(store.config.home), is_shared=count > 1)
        if size >= LARGE_BYTES:
            _free_memory()
    return Workers(count, "relight.intake.sealing:answer_task", message_seconds=piece_seconds)


def _free_memory() -> None:
    """Return freed memory to the system, where the C library can, and let threads share the rest.

    The thread that compiled the scan leaves megabytes, which each worker would inherit.
    """
    # another library than glibc, or a Python without ctypes
    with suppress(AttributeError, ImportError, OSError, TypeError):
        from ctypes import CDLL

        library = CDLL(None)
        library.mallopt(M_ARENA_MAX, 1)
        library.malloc_trim(0)


def _take(
    store: Store, work: list[Work], pool: "Workers", progress: Progress | None
) -> tuple[list[Imported], set[int]]:
    """Read and record; the modules for it are loaded only if there is something to read."""
    from relight.intake.sealing import Intake
    from relight.store.derive.scores import has_labels

    intake = Intake(store, pool, progress)
    taken = intake.take(work)
    if has_labels(store):
        from relight.reports.labels import refit_weights

        refit_weights(store)
    return taken, intake.touched


@contextmanager
def hold_import(
    store: Store,
    on_wait: Callable[[], None] | None = None,
    *,
    wait_seconds: float | None = None,
) -> Iterator[None]:
    """Allow one import at a time: others wait, and then find nothing left to do.

    With `wait_seconds` they wait only so long, and raise `ImportRunningError`.
    """
    with open_lock(store.config.home / "import.lock") as lock:
        if not hold(lock.fileno(), waits=False):
            if on_wait:
                on_wait()
            if wait_seconds is None:
                hold(lock.fileno())
            else:
                _hold_soon(lock.fileno(), wait_seconds)
        yield


def _hold_soon(lock: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not hold(lock, waits=False):
        if time.monotonic() >= until:
            raise ImportRunningError("another import is running", "try again when it is done")
        time.sleep(LOCK_SECONDS)


def has_news(store: Store, environment: Mapping[str, str] | None = None) -> bool:
    """True if the store may import unasked, and would find something to read; takes no lock.

    Trouble counts as news: the import reports it.
    """
    if not store.can_write:
        return False
    return finds_news(store, os.environ if environment is None else environment)


def misses_news(store: Store) -> bool:
    """True if there is something to read that the store cannot take: it can only be read."""
    return not store.can_write and finds_news(store, os.environ)


def finds_news(store: Store, environment: Mapping[str, str]) -> bool:
    """True if commands import unasked and there is something to read, or trouble with it."""
    if not store.config.auto_import:
        return False
    try:
        if any(store.config.backlog.glob("*.jsonl")):
            return True
        names = list_sources()
        return any(True for name in names for _ in find_work(store, name, None, environment))
    except Exception:  # noqa: BLE001 - whatever a file contains, the store can be read
        return True


def find_work(
    store: Store, name: str, folder: Path | None, environment: Mapping[str, str]
) -> Iterator[Work]:
    """Yield the files of a source that have something new."""
    seen = read_seen(store, name)
    aside = read_aside(store)
    for origin in find_origins(name, folder, environment, received=store.config.telemetry):
        found = seen.get(origin.path) or seen.get(str(row_id("origin", name, origin.path)))
        is_known = found == origin  # nearly all of many thousand files
        is_new = not is_known and (found is None or origin != replace(found, path=origin.path))
        if _is_wanted(store, name, origin, aside=aside, is_new=is_new):
            mark = None if found is None else read_marks(store, name, origin.path).get("")
            yield Work(name, origin, mark)


def find_origins(
    name: str, folder: Path | None, environment: Mapping[str, str], *, received: Path | None
) -> Iterator[Origin]:
    """Yield the files of a source: in its own folders, and what was received as telemetry."""
    yield from find_source(name).find(environment, folder)
    if folder is None and received is not None and (received / name).is_dir():
        from relight.sources.files import find_files

        yield from find_files(received / name)


def check_work(store: Store, name: str, origins: Sequence[Origin]) -> Iterator[Work]:
    """Yield the files among these that have something new."""
    aside = read_aside(store)
    for origin in origins:
        mark = read_marks(store, name, origin.path).get("")
        is_new = origin != (mark and Origin(origin.path, mark.size, mark.modified_ns, mark.inode))
        if _is_wanted(store, name, origin, aside=aside, is_new=is_new):
            yield Work(name, origin, mark)


def _is_wanted(
    store: Store, name: str, origin: Origin, *, aside: Collection[int], is_new: bool
) -> bool:
    """True if a file has something new; one that was set aside is read again by its own rule."""
    if aside and row_id("origin", name, origin.path) in aside:
        from relight.intake.setting_aside import is_wanted

        return is_wanted(store, name, origin, is_changed=is_new)
    return is_new
