"""The health of the record: unreadable lines, turns without a price, the database's integrity."""

from msgspec import Struct

from relight.errors import StoreError
from relight.store import Store
from relight.times import write_time

# the length of the key that each store makes for itself
KEY_BYTES = 32


class UnreadableLine(Struct, frozen=True):
    """A line of an agent's file that could not be read."""

    file: str
    offset: int
    reason: str


class SetAsidePiece(Struct, frozen=True):
    """A piece of a file that no worker process could read, and the version that tried last.

    `part` is the session inside a database, None in a file of one session.
    """

    file: str
    part: str | None
    offset: int
    reason: str
    tries: int
    version: str
    seen_at: str


class DatabaseHealth(Struct, frozen=True):
    """The database's integrity, `ok` if it is sound, its size and its schema.

    The integrity is None if it was not checked.
    """

    integrity: str | None
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


def read_set_aside_pieces(store: Store) -> list[SetAsidePiece]:
    """Return the pieces that are set aside, newest first."""
    return store.read(
        SetAsidePiece,
        "select path as file, case when part <> '' then part end as part, position as offset,"
        " reason, tries, version, seen_at from set_aside join origin on origin.id = origin_id"
        " order by seen_at desc, path, position",
        formats={"seen_at": write_time},
    )


def count_unpriced(store: Store) -> int:
    """Return the number of calls without a known cost."""
    return int(store.query("select coalesce(sum(unpriced_turns), 0) from usage_day")[0][0])


# texts that come from agents and people, with the session that each belongs to
CELLS = """
    select id as session_id, coalesce(title, '') || ' ' || coalesce(project, '') || ' '
        || coalesce(answer, '') || ' ' || coalesce(outcome_evidence, '') as text from session
    union all
    select session_id, why from label where why is not null
    union all
    select session_id, failure_text from turn where failure_text is not null
    union all
    select session_id, evidence from tool_call where evidence is not null
"""


class CellText(Struct, frozen=True):
    """Text in the cells of the index and of facts, and its session."""

    session_id: int | None
    text: str


def read_cells(store: Store) -> list[CellText]:
    """Return the texts in the database that could hold a secret, tapes apart."""
    return store.read(CellText, CELLS)


def examine_database(store: Store, *, is_whole: bool = True) -> DatabaseHealth:
    """Return the database's health; `is_whole` reads all of it, a second for 100 MB."""
    size, schema = store.read_size(), store.read_schema()
    if not is_whole:
        return DatabaseHealth(_find_bad_settings(store), size, schema)
    return DatabaseHealth(find_damage(store) or "ok", size, schema)


def find_damage(store: Store) -> str | None:
    """Return the first damage that a check of all pages and indexes finds; None if there is none.

    Tapes have their own checksums.
    """
    try:
        return store.find_damage() or _find_bad_settings(store)
    except StoreError as error:
        return error.message


def _find_bad_settings(store: Store) -> str | None:
    """Return which of the store's own two settings is damaged; no check of SQLite sees it."""
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(store.timezone)
    except (LookupError, ValueError, OSError, TypeError):
        return "its time zone is unknown"
    try:
        is_whole = len(store.redaction_key) == KEY_BYTES
    except (LookupError, ValueError, TypeError):
        is_whole = False
    return None if is_whole else "its redaction key is not whole"
