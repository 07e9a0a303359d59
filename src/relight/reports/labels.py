"""Labels of sessions by a person, which override all other evidence, and the scores they teach."""

import time

from relight.errors import RelightError
from relight.judging.features import read_scoring_table
from relight.judging.scoring import Example, Weights, read_default_weights, refit
from relight.model import OUTCOMES
from relight.store import Store, labels
from relight.store.derive import scores

# the weights are fitted again when so many times more sessions are labelled
GROWTH = 1.1


def label_session(
    store: Store, session_id: int, outcome: str, *, why: str | None = None, now: int | None = None
) -> None:
    """Record a person's label of a session, in place of an earlier one."""
    if outcome not in OUTCOMES:
        raise RelightError(f"{outcome!r} is not an outcome", f"use one of {', '.join(OUTCOMES)}")
    at = int(time.time() * 1000) if now is None else now
    labels.write_label(store, session_id, outcome, why, at)
    refit_weights(store)


def read_fitted_weights(store: Store) -> Weights | None:
    """Return the weights fitted to this store's labels; None while the shipped ones apply."""
    with store.reading() as database:
        return scores.read_weights(database)


def refit_weights(store: Store) -> Weights | None:
    """Fit the weights to the labelled sessions; None if there are too few new ones.

    All sessions are then scored again, from their stored features.
    """
    labelled = {one.id: one for one in labels.read_labelled(store)}
    least = max(read_scoring_table().minimum_examples, labels.count_fitted(store) * GROWTH)
    if len(labelled) < least:
        return None
    with store.transaction() as database:
        examples = [
            Example(
                measures.features, labelled[found].outcome == "success", labelled[found].title or ""
            )
            for found, measures in scores.read_measures(database, labelled)
        ]
        weights = refit(examples)
        fitted = None if weights == read_default_weights() else weights
        labels.write_weights(database, fitted, fitted=len(labelled))
    return weights
