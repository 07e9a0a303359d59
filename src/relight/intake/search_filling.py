"""The texts of tapes, read again: for the search index, which is filled and cleared by them."""

from collections.abc import Sequence

from relight.intake.wire import parse_part
from relight.sources import is_source
from relight.store import Store, search_index
from relight.store.derive.search_text import TextRow, make_texts
from relight.store.search_index import DeriveTexts
from relight.store.write.tape import read_part

# how much of the tape one import adds to the index of an older store: a second's work
FILL_BYTES = 64 << 20


def derive_from(store: Store) -> DeriveTexts:
    """Return a function that gives the texts of a part of the store's tape again."""

    def derive(part_id: int) -> Sequence[TextRow]:
        part = read_part(store, part_id)
        if part is None or part.is_figures or not is_source(part.source):
            return []
        try:
            parsed = parse_part(part)
        except Exception:  # noqa: BLE001 - a damaged tape or state may raise anything
            return []
        return make_texts(part.source, parsed.passages)

    return derive


def fill_index(store: Store, *, most_bytes: int = FILL_BYTES) -> None:
    """Index a portion of the tapes that are not in the search index yet, the newest first."""
    derive = derive_from(store)
    while most_bytes > 0 and search_index.read_below(store) is not None:
        with store.transaction() as database:
            part = search_index.find_newest_missing(database)
            if part is None:
                search_index.write_below(database, None)
                return
            search_index.add_texts(database, [(part.id, part.session_id, derive(part.id))])
            search_index.write_below(database, part.id)
            most_bytes -= part.raw_bytes
