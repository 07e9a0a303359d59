"""The cost of turns when they are recorded; prices looked up once are cached in the store."""

import sqlite3
from collections.abc import Callable
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight import __version__
from relight.model import Cost, Turn, Usage
from relight.prices import PriceList, find_own_price, find_price, price_usage
from relight.store import Store
from relight.store.sql import insert, replacing
from relight.times import day_reader

# the tokens and the cost that a turn was recorded with, by its id
FindRecorded = Callable[[int], tuple[Usage, Cost] | None]


class PriceRow(Struct, frozen=True):
    """A row of `price`."""

    model: str
    provider: str
    prices: bytes | None
    list_version: str


class Pricing:
    """Prices turns by the source's figure, else the user's config, else the price lists.

    What a plan in the user's config pays for is included, at that price. A rebuild passes
    `find_recorded`, so that a turn with unchanged tokens keeps its cost.
    """

    def __init__(self, store: Store, find_recorded: FindRecorded | None = None) -> None:
        self.store = store
        self.find_recorded = find_recorded
        self._lists: dict[tuple[str | None, str | None], PriceList | None] = {}
        self._found: list[PriceRow] = []

    def price(self, turn_id: int, turn: Turn, *, source: str | None = None) -> Cost:
        """Return the cost of a turn; without its source no plan in the config pays for it."""
        if self.find_recorded and (recorded := self.find_recorded(turn_id)):
            usage, cost = recorded
            given = turn.cost.nanos if turn.cost else None
            if usage == turn.usage and given in (None, cost.nanos):
                return cost
        return self.include(self._price(turn), source, turn.provider, at=turn.at)

    def include(
        self, cost: Cost, source: str | None, provider: str | None, *, at: int | None
    ) -> Cost:
        """Return a cost as included if a plan in the user's config pays for such a call."""
        plan = self.store.config.plans.get(source or "")
        if plan is None or cost.status not in ("reported", "estimated"):
            return cost
        is_included = plan.covers(provider, self._read_day(at))
        return replace(cost, status="included") if is_included else cost

    @cached_property
    def _read_day(self) -> Callable[[int | None], str | None]:
        return day_reader(self.store.timezone)

    def _price(self, turn: Turn) -> Cost:
        given = turn.cost
        if given is not None and given.nanos is not None:
            return given
        names = (turn.model, turn.provider)
        if names not in self._lists:
            self._lists[names] = self._find_list(turn.model, turn.provider)
        return price_usage(
            turn.usage,
            self._lists[names],
            at=turn.at or 0,
            calls=max(turn.calls, 1),
            included=given is not None and given.status == "included",
        )

    def _find_list(self, model: str | None, provider: str | None) -> PriceList | None:
        if model is None:
            return None
        # the user's prices are never cached: they may change tomorrow
        if own := find_own_price(model, self.store.config.prices):
            return own
        row = self.store.query(
            "select prices, list_version from price where model = ? and provider = ?",
            (model, provider or ""),
        )
        version = list_version()
        if cached := [prices for prices, known in row if known == version]:
            prices = cached[0]
            return None if prices is None else msgspec.json.decode(prices, type=PriceList)
        found = find_price(model, provider)
        prices = None if found is None else msgspec.json.encode(found)
        self._found.append(PriceRow(model, provider or "", prices, version))
        return found

    def write_found(self, database: sqlite3.Connection) -> None:
        """Cache the prices looked up since, so that the next import need not look them up."""
        replaces = replacing(PriceRow, "model", "provider")
        insert(database, "price", self._found, on_conflict=replaces)
        self._found.clear()


@cache
def list_version() -> str:
    """Return the version of the price lists: an upgrade looks prices up again.

    Read from the folder that the installer leaves: `importlib.metadata` alone takes 40 ms to load.
    """
    spec = find_spec("genai_prices")
    places = (
        Path(spec.origin).parent.parent.glob("genai_prices-*.dist-info")
        if spec and spec.origin
        else ()
    )
    return " ".join(["relight", __version__, *(place.stem for place in places)])
