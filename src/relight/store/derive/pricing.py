"""What turns cost when they are recorded; prices once looked up are kept in the store."""

import sqlite3
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from relight import __version__
from relight.model import Cost, Turn, Usage
from relight.prices import PriceList, find_own_price, find_price, price_usage
from relight.store import Store

# by turn: the tokens it was recorded with, then its cost
Kept = Callable[[int], tuple[Usage, Cost] | None]


class Pricing:
    """Prices turns in the order: the source's own figure, the user's config, the price lists.

    `kept` tells the tokens and cost a turn was recorded with: a rebuild does not reprice what it
    reads alike.
    """

    def __init__(self, store: Store, kept: Kept | None = None) -> None:
        self.store = store
        self.kept = kept
        self._lists: dict[tuple[str | None, str | None], PriceList | None] = {}
        self._found: list[tuple[str, str, bytes | None, str]] = []

    def price(self, turn_id: int, turn: Turn) -> Cost:
        told = turn.cost
        if told is not None and told.nanos is not None:
            return told
        if self.kept and (kept := self.kept(turn_id)) and kept[0] == turn.usage:
            return kept[1]
        names = (turn.model, turn.provider)
        if names not in self._lists:
            self._lists[names] = self._find_list(turn.model, turn.provider)
        return price_usage(
            turn.usage,
            self._lists[names],
            at=turn.at or 0,
            calls=max(turn.calls, 1),
            included=told is not None and told.status == "included",
        )

    def _find_list(self, model: str | None, provider: str | None) -> PriceList | None:
        if model is None:
            return None
        # the user's own are never kept: they may be others tomorrow
        if own := find_own_price(model, self.store.config.prices):
            return own
        row = self.store.query(
            "select prices, list_version from price where model = ? and provider = ?",
            (model, provider or ""),
        )
        version = list_version()
        if row and row[0][1] == version:
            blob = row[0][0]
            return None if blob is None else msgspec.json.decode(blob, type=PriceList)
        found = find_price(model, provider)
        blob = None if found is None else msgspec.json.encode(found)
        self._found.append((model, provider or "", blob, version))
        return found

    def keep_found(self, database: sqlite3.Connection) -> None:
        """Keep what was looked up since, so that the next import need not."""
        database.executemany("insert or replace into price values (?, ?, ?, ?)", self._found)
        self._found.clear()


@cache
def list_version() -> str:
    """The version of the price lists, so that an upgrade is asked again.

    Read off the folder that the installer leaves: `importlib.metadata` alone takes 40 ms to load.
    """
    spec = find_spec("genai_prices")
    places = (
        Path(spec.origin).parent.parent.glob("genai_prices-*.dist-info")
        if spec and spec.origin
        else ()
    )
    return " ".join(["relight", __version__, *(place.stem for place in places)])
