"""The time zone of a store's calendar days, which can be changed: all days are derived again."""

from msgspec import Struct

from relight.store import Store
from relight.store.derive import rollup
from relight.store.sql import Connection, list_values, make_id_table
from relight.times import QUARTER_HOUR_MS, day_reader

# the tables whose rows have a day, and the moment that it is of; roll-ups are added up from them
DATED = {"turn": "at", "tool_call": "at", "skill_invocations": "invoked_at", "cache_rebuild": "at"}
# clocks change at quarter hours everywhere
QUARTERS = " union ".join(
    f"select {moment} / {QUARTER_HOUR_MS} as quarter from {table} where {moment} is not null"
    for table, moment in DATED.items()
)


class TimezoneChange(Struct, frozen=True):
    """The time zone of a store, the one before, and the jobs that go by it."""

    timezone: str
    before: str
    jobs: list[str]


def change_timezone(store: Store, timezone: str) -> None:
    """Derive the days of everything recorded again, in another time zone."""
    with store.transaction() as database:
        database.execute("update meta set value = ? where key = 'timezone'", (timezone,))
        _write_days(database, timezone)
        for table, moment in DATED.items():
            day = f"(select day from quarter_day where id = {moment} / {QUARTER_HOUR_MS})"
            database.execute(f"update {table} set day = {day} where {moment} is not null")
        database.execute("drop table quarter_day")
        rollup.refresh(database, set(list_values(database, "select id from session")))
    store.reread()


def _write_days(database: Connection, timezone: str) -> None:
    """Fill a temporary table with the day of every quarter of an hour in which something was."""
    read_day = day_reader(timezone)
    make_id_table(database, "quarter_day", ", day text")
    quarters = list_values(database, QUARTERS)
    database.executemany(
        "insert into quarter_day (id, day) values (?, ?)",
        [(quarter, read_day(quarter * QUARTER_HOUR_MS)) for quarter in quarters],
    )
