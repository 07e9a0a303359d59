"""Join a server and leave it; what this machine shares with it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.intake.team_client import CopiedTargetError, Line, check_url, find_token
from relight.intake.wire import Joined, JoinRequest, Share
from relight.locks import hold, open_lock
from relight.reports.filters import is_in_project
from relight.store import Store
from relight.store.team import (
    TeamTarget,
    count_due,
    drop_target,
    read_own_id,
    read_push_marks,
    read_target,
    renew_own_id,
    write_mark,
    write_target,
)
from relight.store.write.pushed import DeriveBacklog, read_backlog
from relight.times import write_time


class DeriveStatus(Struct, frozen=True):
    """Parts that machines pushed here and that wait to be derived, or cannot be."""

    behind: int
    # since when the first of them waits
    behind_seconds: float
    failed: int


class TeamStatus(Struct, frozen=True, kw_only=True):
    """The server that this machine pushes to, if any, and the result of the last push.

    `pushed_here` is known on a server.
    """

    joined: bool
    url: str | None = None
    share: str | None = None
    machine: str | None = None
    pending: int = 0
    last_push_at: str | None = None
    behind: int | None = None
    trouble: str | None = None
    pushed_here: DeriveStatus | None = None


class PushRunningError(RelightError):
    """Another process is pushing."""


def join(
    store: Store,
    url: str,
    *,
    token_file: str | None,
    share: Share,
    name: str,
    only: Sequence[str] = (),
    never: Sequence[str] = (),
    labels: Sequence[str] = (),
    line: Line | None = None,
) -> tuple[TeamTarget, bool]:
    """Join a server; return the target, and whether everything is to be sent."""
    url = check_url(url)
    line = line or Line(url, find_token(token_file))
    with hold_push(store), closing(line):
        own_id = read_own_id(store)
        found = join_as_own(line, store, name=name, share=share, labels=labels)
        is_copy = read_own_id(store) != own_id
        before = read_target(store)
        target = TeamTarget(
            url=url,
            store_id=found.store_id,
            machine=found.machine,
            name=name,
            share=share,
            only=list(only),
            never=list(never),
            token_file=token_file,
            labels=list(labels),
            joined_at=int(time.time() * 1000),
        )
        # what a copy's original has acknowledged is there already
        is_known = is_copy and before is not None and before.store_id == found.store_id
        is_new = not is_known and (before is None or _list_aims(before) != _list_aims(target))
        if before is not None and not is_new:
            target = replace(target, joined_at=before.joined_at, pushed_at=before.pushed_at)
        write_target(store, target, is_new=is_new)
    return target, is_new


@contextmanager
def hold_push(store: Store, *, waits: bool = True) -> Iterator[None]:
    """Allow one push, join or leave at a time; raise if another one runs, or wait for it."""
    with open_lock(store.config.home / "push.lock") as lock:
        if not hold(lock.fileno(), waits=waits):
            raise PushRunningError("another push is running", "it sends everything")
        yield


def _list_aims(target: TeamTarget) -> tuple[Any, ...]:
    return (target.store_id, target.machine, target.share, target.only, target.never)


def join_as_own(
    line: Line,
    store: Store,
    *,
    name: str,
    share: Share,
    labels: Sequence[str] = (),
    is_copy: bool = False,
) -> Joined:
    """Send this machine's name and what it shares to the server; return its response.

    A copy of another machine's home, which had its id until now, gets its own id first.
    """
    first = read_own_id(store)
    if is_copy:
        renew_own_id(store)
    request = JoinRequest(
        store_id=read_own_id(store),
        name=name,
        share=share,
        marks=read_push_marks(store),
        labels=list(labels),
        copied_from=first if is_copy else None,
    )
    try:
        answer = line.send("POST", "/api/v1/join", request)
    except CopiedTargetError:
        if is_copy:
            raise
        return join_as_copy(line, store, name=name, share=share, labels=labels)
    found = msgspec.json.decode(answer, type=Joined)
    write_mark(store, found.store_id, found.mark)
    return found


join_as_copy = partial(join_as_own, is_copy=True)


def leave(store: Store, *, forget: bool, line: Line | None = None) -> int | None:
    """Leave the server; with `forget` it removes what this machine sent.

    Return the number of sessions that are gone there; None if it was not asked.
    """
    target = need_target(store)
    gone = None
    with hold_push(store):
        if forget:
            line = line or Line(target.url, find_token(target.token_file))
            with closing(line):
                marks = " ".join(read_push_marks(store).get(target.store_id, []))
                own_id = read_own_id(store)
                answer = line.send("DELETE", "/api/v1/machine", Machine=own_id, Marks=marks)
            gone = int(msgspec.json.decode(answer, type=dict[str, int])["sessions"])
        drop_target(store)
    return gone


def need_target(store: Store) -> TeamTarget:
    """Return the server that this machine has joined; raise if there is none."""
    target = read_target(store)
    if target is None:
        raise RelightError(
            "this machine has joined no server", "relight join URL --token-file FILE"
        )
    return target


def describe_backlog(backlog: DeriveBacklog, now: float) -> DeriveStatus:
    """Return how far a server is behind at this moment."""
    waited = 0.0 if backlog.since is None else max(now - backlog.since / 1000, 0.0)
    return DeriveStatus(backlog.parts, round(waited, 1), backlog.failed)


def read_status(store: Store) -> TeamStatus:
    """Return whether this machine pushes, what is pending, and what others pushed here."""
    target = read_target(store)
    has_machines = store.has_rows("machine")
    here = describe_backlog(read_backlog(store), time.time()) if has_machines else None
    if target is None:
        return TeamStatus(joined=False, pushed_here=here)
    return TeamStatus(
        joined=True,
        url=target.url,
        share=target.share,
        machine=target.name,
        pending=count_due(store),
        last_push_at=write_time(target.pushed_at),
        behind=target.behind,
        trouble=target.trouble,
        pushed_here=here,
    )


def find_shared(target: TeamTarget, project: str | None) -> bool | None:
    """True if a project is shared; None if that is not known yet."""
    if not (target.only or target.never):
        return True
    if project is None:
        return None
    if any(is_in_project(project, one) for one in target.never):
        return False
    return not target.only or any(is_in_project(project, one) for one in target.only)
