"""Scores of a workspace's own: its labelled sessions teach the weights, once there are enough."""

import msgspec

from relight.judging.features import read_table
from relight.judging.scoring import Example, Weights, refit
from relight.judging.scoring import read_weights as read_shipped
from relight.store import Store
from relight.store.derive import scores

# fitted again when so many more sessions are labelled than last time
GROWTH = 1.1
# Only what people or programs said: how tests went is a feature already, and would answer itself.
LABELLED = """
    select session.id, coalesce(label.outcome, told_outcome), title from session
    left join label on label.session_id = session.id
    where coalesce(label.outcome, told_outcome) in ('success', 'failure')
    order by session.id
"""
FITTED = "score_weights_fitted"


def read_weights(store: Store) -> Weights | None:
    """The weights fitted to this store's labelled sessions; None while those shipped hold."""
    with store.reading() as database:
        return scores.read_weights(database)


def refit_weights(store: Store) -> Weights | None:
    """Fit the weights to the labelled sessions if there are enough new ones; None if not.

    All sessions are then scored again, from what is counted of them already.
    """
    labelled = {found: (outcome, title) for found, outcome, title in store.query(LABELLED)}
    rows = store.query("select value from meta where key = ?", (FITTED,))
    least = max(read_table().minimum_examples, int(rows[0][0]) * GROWTH if rows else 0)
    if len(labelled) < least:
        return None
    with store.transaction() as database:
        measured = scores.read_measures(database, labelled)
        examples = [
            Example(measures.features, labelled[found][0] == "success", labelled[found][1] or "")
            for found, measures in measured
        ]
        weights = refit(examples)
        database.execute("insert or replace into meta values (?, ?)", (FITTED, str(len(labelled))))
        if weights == read_shipped():
            database.execute("delete from meta where key = ?", (scores.KEY,))
        else:
            text = msgspec.json.encode(weights).decode()
            database.execute("insert or replace into meta values (?, ?)", (scores.KEY, text))
        every = [found for (found,) in database.execute("select id from session")]
        scores.refresh(database, every)
    return weights
