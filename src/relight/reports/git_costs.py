"""The cost of a branch, a commit or a path, from what sessions in a project's folder recorded."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import asdict, replace

from relight.errors import MissingError, RelightError
from relight.reports.repository import find_commit, find_top, is_branch
from relight.store import Store
from relight.store.queries import git_costs as queries
from relight.store.queries.git_costs import CommitCall, GitCost

HASH = re.compile(r"[0-9a-f]{7,40}")
# git notes whole seconds, and a call's times are those of its records
NEAR_MS = 2000
# the branches that are named beside one that no session worked on
MOST_NAMED = 5


class RefCost(GitCost, frozen=True, kw_only=True):
    """The cost of a branch, a commit or a path.

    `commit` is the full hash of a commit, and `is_verified` is True if the project's repository
    has it. They are null for branches and paths. If no recorded turn belongs to it, its cost is
    unknown, and `note` says so.
    """

    ref: str
    kind: Literal["branch", "commit", "path"]
    project: str
    commit: str | None = None
    is_verified: bool | None = None
    note: str | None = None


def read_cost(store: Store, ref: str, folder: Path) -> RefCost:
    """Return the cost of a branch, a commit or a path; raise if it is none of them.

    In this order: `./ref` is always a path.
    """
    if not ref.strip():
        raise RelightError(
            "no name was given", "name a branch, a commit or a path; . is this folder"
        )
    folder = folder.resolve()
    top = find_top(folder)
    branches = queries.list_branches(store, str(top))
    is_path = ref.startswith(("./", "../", "/")) or ref in (".", "..")
    if not is_path:
        if ref in branches or is_branch(top, ref):
            note = f"no recorded session worked on it{_name_known(ref, branches)}"
            found = queries.sum_branch(store, str(top), ref)
            return _show(found, note, ref=ref, kind="branch", project=str(top))
        if (cost := _read_commit(store, ref, top)) is not None:
            return cost
    path = Path(os.path.normpath(folder / ref))
    found = queries.sum_path(store, str(path))
    if not found.turns and not path.exists():
        raise MissingError(
            f"{ref!r} is no branch, commit or file that a session in {top} worked on"
            + _name_known(ref, branches),
            "name another folder with --project",
        )
    note = "no recorded edit call changed it"
    return _show(found, note, ref=ref, kind="path", project=str(top))


def _show(cost: GitCost, note: str, **about: Any) -> RefCost:
    """Return a cost; unknown, with a note, if no recorded turn belongs to it."""
    if cost.turns:
        return RefCost(**asdict(cost), **about)
    return RefCost(**asdict(replace(cost, cost_usd=None)), **about, note=note)


def _name_known(ref: str, branches: Sequence[str]) -> str:
    """The words that name the branch nearest to a name, or else the latest ones."""
    from difflib import get_close_matches

    others = [one for one in branches if one != ref]
    if near := get_close_matches(ref, others, n=1):
        return f"; did you mean {near[0]!r}?"
    if not others:
        return "; no session on a branch is recorded here"
    return f"; branches of sessions here: {', '.join(others[:MOST_NAMED])}"


def _read_commit(store: Store, ref: str, top: Path) -> RefCost | None:
    """The cost of a commit; unknown if the repository has it and no session made it."""
    known = find_commit(top, ref)
    full = known.hash if known else None
    if full is None and HASH.fullmatch(ref):
        hashes = [one for one in queries.find_commit_hashes(store, str(top)) if _is_same(one, ref)]
        full = max(hashes, key=len) if hashes else None
    if full is None:
        return None
    made = _find_call(store, top, full, known.committed_at * 1000 if known else None)
    cost = queries.sum_commit(store, made) if made else GitCost(0, 0, 0.0, 0.0, 0, 0, 0)
    return _show(
        cost,
        "no recorded session made this commit",
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
