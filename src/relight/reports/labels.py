"""A person's word on how a session went: it wins over all other evidence."""

import time

from relight.errors import RelightError
from relight.model import OutcomeName
from relight.reports.weights import refit_weights
from relight.store import Store
from relight.store.derive import outcomes
from relight.store.derive.skills import uses

NAMES: tuple[OutcomeName, ...] = ("success", "failure", "unknown")


def label_session(
    store: Store, session_id: int, outcome: str, *, why: str | None = None, now: int | None = None
) -> None:
    """Keep a person's verdict on a session, in place of an earlier one."""
    if outcome not in NAMES:
        raise RelightError(f"{outcome!r} is not an outcome", f"say one of {', '.join(NAMES)}")
    at = int(time.time() * 1000) if now is None else now
    with store.transaction() as database:
        database.execute(
            "insert or replace into label values (?, ?, ?, ?)", (session_id, outcome, why, at)
        )
        uses.refresh(database, outcomes.refresh(database, {session_id}))
    refit_weights(store)
