"""The health of the record: unreadable lines, turns without a price, the database's integrity."""

from msgspec import Struct

from relight.store import Store


class UnreadableLine(Struct, frozen=True):
    """A line of an agent's file that could not be read."""

    file: str
    offset: int
    reason: str


class DatabaseHealth(Struct, frozen=True):
    """The database's integrity, `ok` if it is sound, its size and its schema."""

    integrity: str
    bytes: int
    schema: int


def count_unreadable(store: Store) -> int:
    """Return how many lines could not be read."""
    found: int = store.query("select count(*) from unreadable")[0][0]
    return found


def read_unreadable(store: Store, *, limit: int) -> list[UnreadableLine]:
    """Return the last lines that could not be read, newest first."""
    return store.read(
        UnreadableLine,
        "select path as file, position as offset, reason from unreadable"
        " join origin on origin.id = origin_id order by seen_at desc, path, position limit ?",
        (limit,),
    )


def count_unpriced(store: Store) -> dict[str, int]:
    """Return the turns without a price of each model that has any, most turns first."""
    rows = store.query(
        "select coalesce(model, 'unknown') as model, sum(unpriced_turns) as turns"
        " from session_day where unpriced_turns > 0 group by model order by turns desc"
    )
    return dict(rows)


def examine_database(store: Store) -> DatabaseHealth:
    """Return the database's health; reads all of it."""
    integrity = store.query("pragma quick_check(1)")[0][0]
    size = sum(
        path.stat().st_size
        for path in (store.path, store.path.with_name(store.path.name + "-wal"))
        if path.exists()
    )
    return DatabaseHealth(integrity, size, store.query("pragma user_version")[0][0])
