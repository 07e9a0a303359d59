"""The cost of a branch, a commit or a path, from what sessions in a project's folder recorded."""

import os
import re
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict

from relight.errors import MissingError
from relight.reports.repository import find_commit, find_top, is_branch
from relight.store import Store
from relight.store.queries import git_costs as queries
from relight.store.queries.git_costs import CommitCall, GitCost

HASH = re.compile(r"[0-9a-f]{7,40}")
# git notes whole seconds, and a call's times are those of its records
NEAR_MS = 2000


class RefCost(GitCost, frozen=True, kw_only=True):
    """What a branch, a commit or a path cost.

    `commit` is the full hash of a commit, and `is_verified` is True if the project's repository
    has it. They are null for branches and paths.
    """

    ref: str
    kind: Literal["branch", "commit", "path"]
    project: str
    commit: str | None = None
    is_verified: bool | None = None


def read_cost(store: Store, ref: str, folder: Path) -> RefCost:
    """Return the cost of a branch, a commit or a path; raise if it is none of them.

    In this order: `./ref` is always a path.
    """
    folder = folder.resolve()
    top = find_top(folder)
    is_path = ref.startswith(("./", "../", "/")) or ref in (".", "..")
    if not is_path:
        if queries.is_recorded_branch(store, str(top), ref) or is_branch(top, ref):
            found = queries.sum_branch(store, str(top), ref)
            return RefCost(**asdict(found), ref=ref, kind="branch", project=str(top))
        if (cost := _read_commit(store, ref, top)) is not None:
            return cost
    path = Path(os.path.normpath(folder / ref))
    found = queries.sum_path(store, str(path))
    if not found.turns and not path.exists():
        raise MissingError(
            f"{ref!r} is no branch, commit or file that a session in {top} worked on",
            "name another folder with --project",
        )
    return RefCost(**asdict(found), ref=ref, kind="path", project=str(top))


def _read_commit(store: Store, ref: str, top: Path) -> RefCost | None:
    """The cost of a commit; zeros if the repository has it and no session made it."""
    known = find_commit(top, ref)
    full = known.hash if known else None
    if full is None and HASH.fullmatch(ref):
        hashes = [one for one in queries.find_commit_hashes(store, str(top)) if _is_same(one, ref)]
        full = max(hashes, key=len) if hashes else None
    if full is None:
        return None
    made = _find_call(store, top, full, known.committed_at * 1000 if known else None)
    cost = queries.sum_commit(store, made) if made else GitCost(0, 0, 0.0, 0.0, 0, 0, 0)
    return RefCost(
        **asdict(cost),
        ref=ref,
        kind="commit",
        project=str(top),
        commit=full,
        is_verified=known is not None,
    )


def _find_call(store: Store, top: Path, full: str, at_ms: int | None) -> CommitCall | None:
    """The call that made a commit: it printed the hash, or ran when the commit was made."""
    hashes = queries.find_commit_hashes(store, str(top))
    printed = {at for one, at in hashes.items() if _is_same(one, full)}
    calls = queries.find_commit_calls(store, str(top))
    for call in calls:
        if call.at in printed:
            return call
    quiet = [one for one in calls if not one.hash and at_ms is not None and _is_near(one, at_ms)]
    return quiet[0] if len(quiet) == 1 else None


def _is_same(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _is_near(call: CommitCall, at_ms: int) -> bool:
    end = call.at if call.finished_at is None else call.finished_at
    return call.at - NEAR_MS <= at_ms <= end + NEAR_MS
