"""Labels of sessions, and the score weights that are fitted to them."""

from collections import Counter

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.judging.outcomes import find_signs, read_sign_table
from relight.judging.scoring import Weights
from relight.redact import redact_text
from relight.store import Store
from relight.store.derive import outcomes, scores
from relight.store.derive.skills import uses
from relight.store.sql import Connection, list_values, set_meta

FITTED = "score_weights_fitted"
# a person's labels only: the source's own outcome may rest on the same signs
LABELLED = "select session_id, outcome from label where outcome in ('success', 'failure')"


class SignPrecision(Struct, frozen=True):
    """The hits of a kind of sign among the sessions that the user has labelled."""

    kind: str
    points_to: str
    sessions: int
    right: int
    decides: bool


class UnlabelledSession(Struct, frozen=True):
    """A session of unknown outcome that a person could label."""

    id: int
    session_id: str
    title: str | None
    project: str | None
    started_at: int
    evidence: str | None
    answer: str | None


class GivenLabel(Struct, frozen=True):
    """The label of a session, with its reason."""

    outcome: str
    why: str | None


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


def clear_label(store: Store, session_id: int) -> None:
    """Remove a person's label of a session; the other evidence decides again."""
    with store.transaction() as database:
        database.execute("delete from label where session_id = ?", (session_id,))
        uses.refresh(database, outcomes.refresh(database, {session_id}))


def find_label(store: Store, session_id: int) -> GivenLabel | None:
    """Return the label of a session; None if it has none."""
    return store.find(GivenLabel, "select * from label where session_id = ?", (session_id,))


def count_labels(store: Store) -> int:
    """Return how many sessions a person has labelled as a success or a failure."""
    return len(store.query(LABELLED))


def find_unlabelled(store: Store, *, limit: int) -> list[UnlabelledSession]:
    """Return the sessions whose outcome nobody and nothing says, newest first."""
    return store.read(
        UnlabelledSession,
        "select session.id, source || ':' || key as session_id, title, project, started_at,"
        " outcome_evidence as evidence, answer from session"
        " where outcome = 'unknown' and root_id = session.id and started_at is not null"
        " and not exists (select 1 from label where label.session_id = session.id)"
        " order by started_at desc, session.id limit ?",
        (limit,),
    )


def measure_signs(store: Store) -> list[SignPrecision]:
    """Return how often each kind of sign was right about the labelled sessions."""
    with store.reading() as database:
        return _measure_signs(database)


def _measure_signs(database: Connection) -> list[SignPrecision]:
    table = read_sign_table()
    seen, right = Counter[str](), Counter[str]()
    for session_id, outcome in database.execute(LABELLED).fetchall():
        evidence = outcomes.read_evidence(database, session_id)
        signs = find_signs(evidence) if evidence else ()
        kinds = {one.kind for one in signs if one.kind is not None}
        seen.update(kinds)
        right.update(kind for kind in kinds if table.kinds[kind].points_to == outcome)
    return [
        SignPrecision(
            name,
            kind.points_to,
            seen[name],
            right[name],
            kind.is_proven or replace(kind, sessions=seen[name], right=right[name]).is_proven,
        )
        for name, kind in table.kinds.items()
    ]


def refresh_proven(store: Store) -> None:
    """Let the kinds of signs that the labels prove decide; judge all sessions again on a change."""
    with store.transaction() as database:
        proven = [one.kind for one in _measure_signs(database) if one.decides]
        if frozenset(proven) == outcomes.read_proven(database):
            return
        outcomes.write_proven(database, proven)
        sessions = list_values(database, "select id from session")
        uses.refresh(database, outcomes.refresh(database, sessions))


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
    return int(store.find_meta(FITTED) or 0)


def write_weights(database: Connection, weights: Weights | None, *, fitted: int) -> None:
    """Store the weights fitted to so many sessions, None for the shipped ones; score all again."""
    set_meta(database, FITTED, str(fitted))
    chosen = msgspec.json.encode(weights).decode() if weights is not None else None
    set_meta(database, scores.KEY, chosen)
    scores.refresh(database, list_values(database, "select id from session"))
