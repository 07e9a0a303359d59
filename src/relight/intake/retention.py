"""Deletion of sessions and tapes, with the texts that the search index needs to delete entries."""

from relight.intake.search_filling import derive_from
from relight.store import Store
from relight.store.keep import retention
from relight.store.keep.retention import Pruned, begin_pruning
from relight.store.team import read_target, read_tree


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
