"""Labels of sessions by a person, which override all other evidence, and what they teach.

With enough labels the score's weights are fitted to them, and kinds of signs that they prove begin
to decide.
"""

import time

from msgspec import Struct

from relight.chat.messages import read_entries
from relight.errors import RelightError
from relight.judging.features import read_scoring_table
from relight.judging.outcomes import read_sign_table
from relight.judging.scoring import Example, Weights, read_default_weights, refit
from relight.model import OUTCOMES
from relight.reports.sessions import find_session
from relight.reports.transcript import read_transcript
from relight.store import Store, labels
from relight.store.derive import scores

# the weights are fitted again when so many times more sessions are labelled
GROWTH = 1.1
CLEAR = "clear"
# signs are measured again after so many labels
EVERY = 5


class Labelling(Struct, frozen=True):
    """The number of labels, and how many more are needed to fit scores and to prove a sign.

    `next_sign` is the one that needs the fewest; None if no label has one.
    """

    labels: int
    until_scores: int
    until_signs: int
    next_sign: str | None


def label_session(
    store: Store,
    session_id: int | str,
    outcome: str,
    *,
    why: str | None = None,
    now: int | None = None,
) -> None:
    """Record a person's label of a session, in place of an earlier one; `clear` removes it.

    A session is named by its row, or as in `find_session`.
    """
    if isinstance(session_id, str):
        session_id = find_session(store, session_id)
    if outcome not in (*OUTCOMES, CLEAR):
        choices = ", ".join((*OUTCOMES, CLEAR))
        raise RelightError(f"{outcome!r} is not an outcome", f"use one of {choices}")
    if outcome == CLEAR:
        labels.clear_label(store, session_id)
    else:
        at = int(time.time() * 1000) if now is None else now
        labels.write_label(store, session_id, outcome, why, at)
    refit_weights(store)
    count = labels.count_labels(store)
    if count >= read_sign_table().least_sessions and count % EVERY == 0:
        labels.refresh_proven(store)


def read_labelling(store: Store) -> Labelling:
    """Return the number of labels, and how many more are needed until they teach something."""
    count = labels.count_labels(store)
    known = len(labels.read_labelled(store))
    least = read_sign_table().least_sessions
    signs = [one for one in labels.measure_signs(store) if one.sessions < least and not one.decides]
    nearest = max(signs, key=lambda one: one.sessions, default=None)
    return Labelling(
        count,
        max(read_scoring_table().minimum_examples - known, 0),
        least - nearest.sessions if nearest else 0,
        nearest.kind if nearest and nearest.sessions else None,
    )


def read_last_prompt(store: Store, session_id: int) -> str | None:
    """Return the user's last message; None if its records are gone."""
    try:
        messages = read_transcript(store, session_id).messages
    except RelightError:
        return None
    entries = (one for one in reversed(read_entries(messages)) if one.role == "user")
    return next((one.text for one in entries if one.text), None)


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
