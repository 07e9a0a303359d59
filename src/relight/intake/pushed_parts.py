"""Parts of the tape and outcomes of sessions, as a machine sends them."""

from collections.abc import Callable
from typing import Any

from relight.errors import DamagedTapeError
from relight.intake.wire import Naming, SentOutcome, SentPart, hide_place, make_figures
from relight.store import Store
from relight.store.team import DueOutcome, DuePart
from relight.store.write.tape import read_part

JUDGED = ("outcome", "points_to", "task_type", "category", "score")


def make_part(
    store: Store, due: DuePart, naming: Naming, note: Callable[[str], None]
) -> SentPart | None:
    """Return a part as it is sent; None if it is gone or cannot be read, which is noted.

    Where names are hidden, it has figures instead of words.
    """
    part = read_part(store, due.id)
    if part is None:
        return None
    key = store.redaction_key
    common: dict[str, Any] = {
        "source": due.source,
        "session": naming.hide(due.session),
        "generation": due.generation,
        "position": due.position,
        "recorded_at": due.recorded_at,
        "raw_bytes": due.raw_bytes,
    }
    if not naming.hides:
        return SentPart(
            **common,
            path=due.path,
            part=due.part,
            modified_ns=due.modified_ns,
            state=part.state,
            records=part.records,
        )
    try:
        figures = make_figures(part, naming, key=key, timezone=store.timezone)
    except DamagedTapeError as error:
        note(error.message)
        return None
    except Exception as error:  # noqa: BLE001 - one part must not stop the others
        note(f"a part of {due.source} cannot be read: {type(error).__name__}")
        return None
    return SentPart(
        **common,
        path=hide_place(due.path, key),
        part=hide_place(due.part, key) if due.part else "",
        records=figures,
        is_figures=True,
    )


def make_outcome(due: DueOutcome, naming: Naming) -> SentOutcome:
    """Return a session's outcome as it is sent."""
    return SentOutcome(
        source=due.source,
        session=naming.hide(due.session),
        is_label=bool(due.is_label),
        **{name: getattr(due, name) for name in JUDGED},
    )
