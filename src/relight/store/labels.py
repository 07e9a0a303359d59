"""Labels of sessions, and the score weights that are fitted to them."""

import sqlite3

import msgspec
from msgspec import Struct

from relight.judging.scoring import Weights
from relight.redact import redact_text
from relight.store import Store
from relight.store.derive import outcomes, scores
from relight.store.derive.skills import uses

FITTED = "score_weights_fitted"
SET_META = """
    insert into meta (key, value) values (?, ?)
    on conflict (key) do update set value = excluded.value
"""


class LabelledSession(Struct, frozen=True):
    """A session whose outcome a person or a program reported."""

    id: int
    outcome: str
    title: str | None


def write_label(store: Store, session_id: int, outcome: str, why: str | None, at: int) -> None:
    """Record a person's label of a session, in place of an earlier one."""
    with store.transaction() as database:
        database.execute(
            "insert into label (session_id, outcome, why, labelled_at) values (?, ?, ?, ?)"
            " on conflict (session_id) do update set"
            " outcome = excluded.outcome, why = excluded.why, labelled_at = excluded.labelled_at",
            (session_id, outcome, why and redact_text(why, key=store.redaction_key), at),
        )
        uses.refresh(database, outcomes.refresh(database, {session_id}))


def read_labelled(store: Store) -> list[LabelledSession]:
    """Return the sessions with a reported outcome.

    Outcomes from test results are left out: tests are a feature of the score already.
    """
    return store.read(
        LabelledSession,
        "select session.id, coalesce(label.outcome, told_outcome) as outcome, title from session"
        " left join label on label.session_id = session.id"
        " where coalesce(label.outcome, told_outcome) in ('success', 'failure')"
        " order by session.id",
    )


def count_fitted(store: Store) -> int:
    """Return the number of labelled sessions at the last fit; 0 if there was none."""
    rows = store.query("select value from meta where key = ?", (FITTED,))
    return int(rows[0][0]) if rows else 0


def write_weights(database: sqlite3.Connection, weights: Weights | None, *, fitted: int) -> None:
    """Store the weights fitted to so many sessions, None for the shipped ones; score all again."""
    database.execute(SET_META, (FITTED, str(fitted)))
    if weights is None:
        database.execute("delete from meta where key = ?", (scores.KEY,))
    else:
        database.execute(SET_META, (scores.KEY, msgspec.json.encode(weights).decode()))
    scores.refresh(database, [found for (found,) in database.execute("select id from session")])
