"""Redaction of tapes that were recorded under older rules."""

from contextlib import suppress

from relight.errors import DamagedTapeError
from relight.redact import find_secret_values, read_own_secrets, redact
from relight.store import Store
from relight.store.write.tape import compress, decompress


def redact_tapes(store: Store) -> None:
    """Apply today's redaction rules to tapes recorded under older ones, a session at a time."""
    for session_id in store.list_values("select distinct session_id from tape_part"):
        statement = "select id, records from tape_part where session_id = ? and is_figures = 0"
        parts = store.query(statement, (session_id,))
        tapes = {}
        for part_id, records in parts:
            with suppress(DamagedTapeError):  # there are no words to be found in it
                tapes[part_id] = decompress(records)
        known = read_own_secrets().union(*map(find_secret_values, tapes.values()))
        for part_id, lines in tapes.items():
            redacted = redact(lines, key=store.redaction_key, known=known)
            if redacted != lines:
                values = (compress(redacted), part_id)
                store.write("update tape_part set records = ? where id = ?", values)
