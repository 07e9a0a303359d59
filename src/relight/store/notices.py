"""The table `notice`: notifications, each sent once, with a bounded number of tries."""

from collections.abc import Sequence

from msgspec import Struct

from relight.store import Store
from relight.store.sql import insert

SINCE = "notify_since"
INTERRUPTED = "it was interrupted"


class NoticeRow(Struct, frozen=True, kw_only=True):
    """A row of `notice` as it is first written."""

    kind: str
    key: str
    at: int
    body: str | None
    tries: int = 0
    next_try_at: int | None


class DueNotice(Struct, frozen=True):
    """A notification that this process has to send; `tries` counts this one."""

    kind: str
    key: str
    body: str
    tries: int


class NoticeCounts(Struct, frozen=True):
    """The number of notifications; `failed` and `error` are of those since the last one sent."""

    sent: int
    waiting: int
    failed: int
    error: str | None


def add_notices(store: Store, rows: Sequence[NoticeRow]) -> None:
    """Add notifications; those with a kind and key that are known already are left out."""
    if not rows:
        return
    with store.transaction() as database:
        insert(database, "notice", rows, on_conflict="on conflict do nothing")


def claim_notice(store: Store, *, now: int, waits_ms: Sequence[int]) -> DueNotice | None:
    """Return the oldest notification that is due, and leave it to this process for a while.

    `waits_ms` are the times after which a first, a second … try may be followed by another.
    """
    due = "next_try_at <= ? and body is not null"
    if not store.query(f"select 1 from notice where {due} limit 1", (now,)):
        return None  # no lock is needed to see that
    with store.transaction() as database:
        found = store.read(
            DueNotice,
            f"select kind, key, body, tries + 1 as tries from notice where {due}"
            " order by at, kind, key limit 1",
            (now,),
        )
        for one in found:
            next_at = now + waits_ms[one.tries - 1] if one.tries <= len(waits_ms) else None
            database.execute(
                "update notice set tries = ?, next_try_at = ?, error = ?"
                " where kind = ? and key = ?",
                (one.tries, next_at, INTERRUPTED, one.kind, one.key),
            )
    return found[0] if found else None


def set_sent(store: Store, notice: DueNotice, *, at: int) -> None:
    """Record that a notification was sent."""
    store.write(
        "update notice set sent_at = ?, next_try_at = null, body = null, error = null"
        " where kind = ? and key = ?",
        (at, notice.kind, notice.key),
    )


def set_failed(store: Store, notice: DueNotice, *, error: str) -> None:
    """Record why a try failed; after the last one the notification is given up."""
    store.write(
        "update notice set error = ?, body = case when next_try_at is null then null else body end"
        " where kind = ? and key = ?",
        (error, notice.kind, notice.key),
    )


def count_notices(store: Store) -> NoticeCounts:
    """Return how many notifications were sent, wait or failed."""
    return store.read(
        NoticeCounts,
        """
            with last as (select coalesce(max(sent_at), 0) as sent_at from notice),
            failed as (
                select notice.at, error from notice, last where error is not null
                    and notice.sent_at is null and notice.at > last.sent_at
            )
            select (select count(*) from notice where sent_at is not null) as sent,
                (select count(*) from notice where next_try_at is not null) as waiting,
                (select count(*) from failed) as failed,
                (select error from failed order by at desc limit 1) as error
        """,
    )[0]


def find_since(store: Store, *, otherwise: int) -> int:
    """Return the moment from which on failures are notified; fixed at the first call."""
    if (known := store.find_meta(SINCE)) is not None:
        return int(known)
    statement = "insert into meta (key, value) values (?, ?) on conflict do nothing"
    store.write(statement, (SINCE, str(otherwise)))
    return otherwise
