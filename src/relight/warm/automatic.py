"""After an import: propose its best sessions as templates, and read sessions for lessons."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from relight.intake.importing import Imported, import_all
from relight.sources import list_sources
from relight.store import Store
from relight.store.candidates import SessionBar, postpone, take_due

if TYPE_CHECKING:
    from relight.warm.library import Template

BAR = SessionBar(least_calls=5, least_messages=20, failure_rate=0.05, recovered_rate=0.5)
# limits of the work after an import, and the time after which a quiet session is over
PROPOSED = 20
PROPOSE_SECONDS = 0.5
QUIET_MS = 3_600_000
TAPE_BYTES = 2_000_000  # compressed; longer sessions are left to `template auto`


def import_and_propose(store: Store, **options: Any) -> list[Imported]:
    """Import new records and propose the best sessions as candidates.

    Where sessions begin with Relight, what earlier ones stumbled over is read, for the lessons of
    the next. `options` are those of `import_all`.
    """
    result = import_all(store, **options)
    if result.touched:
        propose_candidates(store, result.touched)
        if store.config.lessons.give and store.has_rows("provision"):
            from relight.reports.lessons import read_new
            from relight.store.queries.filters import Filter

            ended = int(time.time() * 1000) - QUIET_MS
            read_new(store, Filter(), seconds=PROPOSE_SECONDS, ended_before=ended)
    return result.sources


def propose_candidates(
    store: Store,
    touched: Collection[int],
    *,
    now: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> "list[Template]":
    """Add imported sessions that clear the bar as candidates, or as the settings say.

    Number and time are limited, so that imports stay fast. Sessions that were left out for that,
    or that may still go on, are checked again after a later import.
    """
    mode = store.config.templates.auto
    if mode == "off":
        return []
    at = int(time.time() * 1000) if now is None else now
    ready = deque(
        take_due(
            store,
            touched,
            BAR,
            over_before=at - QUIET_MS,
            tape_bytes=TAPE_BYTES,
            complete=[one.name for one in list_sources().values() if one.is_complete],
        )
    )
    if not ready:
        return []
    # most imports end here: what makes templates is loaded only if a session clears the bar
    from relight.warm.candidates import make_candidates

    until = clock() + PROPOSE_SECONDS

    def take_in_time() -> Iterator[int]:
        while ready and clock() <= until:
            yield ready.popleft()

    made = make_candidates(store, take_in_time(), at=at, is_used=mode == "use", limit=PROPOSED)
    if ready:
        postpone(store, ready)
    return made
