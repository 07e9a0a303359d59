"""Deletion of sessions and tapes, and the texts of tapes that fill and clear the search index."""

from collections.abc import Sequence

from relight.intake.wire import parse_part
from relight.sources import is_source
from relight.store import Store, search_index
from relight.store.derive.search_text import TextRow, make_texts
from relight.store.keep import retention
from relight.store.keep.retention import Pruned, begin_pruning
from relight.store.search_index import DeriveTexts
from relight.store.team import read_target, read_tree
from relight.store.write.tape import read_part

# how much of the tape one import adds to the index of an older store: a second's work
FILL_BYTES = 64 << 20


def derive_from(store: Store) -> DeriveTexts:
    """Return a function that gives the texts of a part of the store's tape again."""

    def derive(part_id: int) -> Sequence[TextRow]:
        part = read_part(store, part_id)
        if part is None or part.is_figures or not is_source(part.source):
            return []
        try:
            parsed = parse_part(part)
        except Exception:  # noqa: BLE001 - a damaged tape or state may raise anything
            return []
        return make_texts(part.source, parsed.passages)

    return derive


def fill_index(store: Store, *, most_bytes: int = FILL_BYTES) -> None:
    """Index a portion of the tapes that are not in the search index yet, the newest first."""
    derive = derive_from(store)
    while most_bytes > 0 and search_index.read_below(store) is not None:
        with store.transaction() as database:
            part = search_index.find_newest_missing(database)
            if part is None:
                search_index.write_below(database, None)
                return
            search_index.add_texts(database, [(part.id, part.session_id, derive(part.id))])
            search_index.write_below(database, part.id)
            most_bytes -= part.raw_bytes


def prune(
    store: Store,
    *,
    now: int,
    tape_days: int | None,
    index_days: int | None,
    answer_days: int | None = None,
    dry_run: bool,
) -> Pruned:
    """Delete tapes and sessions older than these limits; see `store.keep.retention.prune`."""
    return retention.prune(
        store,
        derive_from(store),
        now=now,
        tape_days=tape_days,
        index_days=index_days,
        answer_days=answer_days,
        dry_run=dry_run,
    )


def prune_daily(store: Store, *, now: int) -> Pruned | None:
    """Prune as `[store]` says, unless that was done within a day; None if there is nothing to do.

    The time of the last one is in the store, so that several servers prune once.
    """
    wanted = store.config.store
    if wanted.retention_tape_days is None and wanted.retention_index_days is None:
        return None
    if not begin_pruning(store, now=now):
        return None
    return prune(
        store,
        now=now,
        tape_days=wanted.retention_tape_days,
        index_days=wanted.retention_index_days,
        dry_run=False,
    )


def forget(store: Store, session_id: int) -> int:
    """Delete one session with its sub-agents for good; return the number deleted.

    The server that this machine has joined forgets it at the next push.
    """
    there: list[int] = []
    if target := read_target(store):
        from relight.intake.wire import Naming

        naming = Naming(target.machine, target.share == "figures")
        there = [naming.find_session(one.source, one.key) for one in read_tree(store, session_id)]
    return retention.forget(store, session_id, derive_from(store), there=there)
