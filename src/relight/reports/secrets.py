"""Secrets in an existing store: what today's rules find in what was recorded under older ones."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from relight.errors import DamagedTapeError
from relight.redact import find_secrets
from relight.store import Store
from relight.store.queries.health import read_cells
from relight.store.queries.sessions import read_name
from relight.store.write.tape import read_tape


class StoredSecret(Struct, frozen=True):
    """The number of secrets of one rule in a session; never the secret itself."""

    session_id: str | None
    rule: str
    found: int


class StoredSecrets(Struct, frozen=True):
    """All secrets that were found, by session and rule."""

    secrets: list[StoredSecret]


def find_stored_secrets(store: Store) -> list[StoredSecret]:
    """Return what today's rules find in tapes and cells, by session and rule."""
    counted = Counter(_find_all(store))
    rows = [
        StoredSecret(None if session is None else read_name(store, session).session, rule, number)
        for (session, rule), number in counted.items()
    ]
    return sorted(rows, key=lambda row: (row.session_id or "", row.rule))


def _find_all(store: Store) -> Iterator[tuple[int | None, str]]:
    for part in read_tape(store):
        with suppress(DamagedTapeError):  # it has no words that could be read
            for secret in find_secrets(b"\n".join(part.lines())):
                yield part.session_id, secret.rule
    for cell in read_cells(store):
        for secret in find_secrets(cell.text.encode("utf-8", "surrogatepass")):
            yield cell.session_id, secret.rule
