"""The number of the rules that the index was derived by.

Better rules reach earlier sessions only by a rebuild. A store without the number was derived before
the rules had one.
"""

import sqlite3

from relight.errors import as_typed
from relight.store import Store

# one more whenever a rule changes figures or outcomes that are already recorded
RULES = 2
KEY = "rules"
CHANGED = "the rules have changed since this was derived: run `relight rebuild`"


def note_rules(database: sqlite3.Connection) -> None:
    """Note that the whole index is derived by the present rules."""
    database.execute(
        "insert into meta (key, value) values (?, ?)"
        " on conflict (key) do update set value = excluded.value",
        (KEY, str(RULES)),
    )


def find_old_rules(store: Store) -> list[str]:
    """Return the advice to rebuild if something was derived by earlier rules."""
    rows = store.query("select value from meta where key = ?", (KEY,))
    is_old = not rows or int(rows[0][0]) < RULES
    return [as_typed(CHANGED)] if is_old and store.has_rows("tape_part") else []
