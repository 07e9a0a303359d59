"""The short names of models, and the cost of turns when they are recorded.

Prices looked up once are cached in the store. Every model's name is looked up when it is recorded.
If the rules or the user's aliases change, the next import or rebuild sums the sessions with changed
names again.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight import __version__
from relight.config import Settings
from relight.data import read_data
from relight.model import Cost, Turn, Usage
from relight.names import blake2b, find_model_name
from relight.prices import (
    UNKNOWN,
    PriceList,
    find_own_price,
    find_price,
    price_usage,
    read_lists_version,
)
from relight.store import Store
from relight.store.sql import Connection, insert, replacing
from relight.times import day_reader

if TYPE_CHECKING:
    from relight.store.write.sealed import Sealed, TurnRow

# the short name of the model in a column or expression
NAMED = "coalesce((select name from model_alias where model_alias.model = {0}), {0})"
SEEN = """
    select model from turn union select model from session union select model from job
    union select model from run union select model from skill_told
"""
# the sessions that a changed name is in, and their roots, which skills are charged by
CHANGED = """
    select session_id from turn where model in ({marks})
    union select id from session where model in ({marks})
    union select session.root_id from turn join session on session.id = turn.session_id
    where turn.model in ({marks})
"""
# uses that belong to no recorded session have the model of their fact
RECORDED = """(
    select told.model from skill_told as told
    where told.session_id = skill_invocations.session_id
        and told.skill_name = skill_invocations.skill_name
        and coalesce(told.entry, '') = coalesce(skill_invocations.entry, '')
)"""
RENAME_UNRECORDED = f"""
    update skill_invocations set model = {NAMED.format(RECORDED)}
    where root_id is null and {RECORDED} is not null
"""
RENAME_REBUILDS = f"""
    update cache_rebuild set model = (
        select {NAMED.format("turn.model")} from turn where turn.id = turn_id
    ) where session_id = ?
"""
KEY = "model_aliases"


class AliasRow(Struct, frozen=True):
    """A row of `model_alias`."""

    model: str
    name: str


def learn(
    database: Connection, models: Iterable[str | None], own: Mapping[str, str]
) -> dict[str | None, str]:
    """Record the short names of models; return those that differ from the full ones."""
    named = {one: find_model_name(one, own) for one in set(models) if one is not None}
    rows = [AliasRow(model, name) for model, name in named.items() if name != model]
    # most turns are on a known model: a live session writes no page more for it
    statement = "select 1 from model_alias where model = ? and name = ?"
    new = [one for one in rows if not database.execute(statement, (one.model, one.name)).fetchone()]
    insert(database, "model_alias", new, on_conflict=replacing(AliasRow, "model"))
    return {row.model: row.name for row in rows}


def refresh_aliases(store: Store) -> int:
    """Name all models by the present rules; return how many sessions were summed again."""
    own = store.config.models.aliases
    rules = msgspec.json.encode([read_data("models.toml"), own], order="sorted")
    version = blake2b(rules, digest_size=8).hexdigest()
    if store.query(f"select 1 from meta where key = '{KEY}' and value = ?", (version,)):
        return 0
    from relight.store.derive import rollup

    with store.transaction() as database:
        before = dict(database.execute("select model, name from model_alias").fetchall())
        models = [model for (model,) in database.execute(SEEN).fetchall()]
        database.execute("delete from model_alias")
        after = learn(database, models, own)
        # a name may have been learned by another process since its sessions were summed
        changed = [one for one in models if one in before or one in after]
        touched = _find_sessions(database, changed)
        rollup.refresh(database, touched)
        database.executemany(RENAME_REBUILDS, [(one,) for one in touched])
        if _has_skills(database):
            from relight.store.derive.skills import uses

            uses.refresh(database, touched)
            database.execute(RENAME_UNRECORDED)
        database.execute(
            f"insert into meta (key, value) values ('{KEY}', ?)"
            " on conflict (key) do update set value = excluded.value",
            (version,),
        )
    return len(touched)


def _find_sessions(database: Connection, models: list[str]) -> set[int]:
    found: set[int] = set()
    for start in range(0, len(models), 100):
        some = models[start : start + 100]
        marks = ", ".join("?" * len(some))
        rows = database.execute(CHANGED.format(marks=marks), some * CHANGED.count("{marks}"))
        found |= {session for (session,) in rows.fetchall()}
    return found


def _has_skills(database: Connection) -> bool:
    return database.execute("select 1 from skill_invocations limit 1").fetchone() is not None


# the tokens and the cost that a turn was recorded with, by its id
FindRecorded = Callable[[int], tuple[Usage, Cost] | None]


class PriceRow(Struct, frozen=True):
    """A row of `price`."""

    model: str
    provider: str
    prices: bytes | None
    list_version: str


class Pricer:
    """Prices turns by the source's figure, else the user's config, else the price lists.

    It knows no store, so worker processes do it. Settings with plans are for `Pricing`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lists: dict[tuple[str | None, str | None], PriceList | None] = {}

    def price_row(self, row: "TurnRow", source: str) -> "TurnRow":
        """Return the row of a turn at its cost; it has the one that the source states, if any."""
        given = Cost(row.cost_nanos, row.cost_status, row.cost_source)
        cost = self._price(row.id, row, given, source)
        return replace(row, cost_nanos=cost.nanos, cost_status=cost.status, cost_source=cost.source)

    def _price(
        self, _turn_id: int, turn: "Turn | TurnRow", given: Cost, _source: str | None
    ) -> Cost:
        if given.nanos is not None:
            return given
        return price_usage(
            turn.usage,
            self.find_list(turn.model, turn.provider),
            at=turn.at or 0,
            calls=max(turn.calls, 1),
            included=given.status == "included",
        )

    def find_list(self, model: str | None, provider: str | None) -> PriceList | None:
        """Return the prices of a model, which are looked up once."""
        names = (model, provider)
        if names not in self._lists:
            self._lists[names] = None if model is None else self._find_list(model, provider)
        return self._lists[names]

    def _find_list(self, model: str, provider: str | None) -> PriceList | None:
        return find_price(model, provider, config=self.settings)


class Pricing(Pricer):
    """Prices turns that are recorded, and caches prices in the store.

    What a plan in the user's config pays for is included, at its price. A rebuild passes
    `find_recorded`, so that a turn with unchanged tokens keeps its cost.
    """

    def __init__(self, store: Store, find_recorded: FindRecorded | None = None) -> None:
        super().__init__(store.config)
        self.store = store
        self.find_recorded = find_recorded
        self._found: list[PriceRow] = []

    def price(self, turn_id: int, turn: Turn, *, source: str | None = None) -> Cost:
        """Return the cost of a turn; without its source no plan in the config pays for it."""
        return self._price(turn_id, turn, turn.cost or UNKNOWN, source)

    def price_piece(self, piece: "Sealed") -> list["TurnRow"]:
        """Return the rows of a piece's turns at their costs, which a worker may have found."""
        from relight.store.write.sealed import list_turns

        if not piece.is_priced:
            return [self.price_row(row, piece.source) for row in list_turns(piece)]
        for names in {(row.model, row.provider) for row in piece.turn_rows if not _is_given(row)}:
            self.find_list(*names)  # for the cache
        return piece.turn_rows

    def _price(self, turn_id: int, turn: "Turn | TurnRow", given: Cost, source: str | None) -> Cost:
        if self.find_recorded and (recorded := self.find_recorded(turn_id)):
            before, cost = recorded
            if before == turn.usage and given.nanos in (None, cost.nanos):
                return cost
        cost = super()._price(turn_id, turn, given, source)
        return self.include(cost, source, turn.provider, at=turn.at)

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

    def _find_list(self, model: str, provider: str | None) -> PriceList | None:
        # the user's prices are never cached: they may change tomorrow
        if own := find_own_price(model, provider, self.store.config):
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

    def write_found(self, database: Connection) -> None:
        """Cache the prices looked up since, so that the next import need not look them up."""
        replaces = replacing(PriceRow, "model", "provider")
        insert(database, "price", self._found, on_conflict=replaces)
        self._found.clear()


def find_price_settings(config: Settings) -> Settings | None:
    """Return what workers need to price turns; None if plans may pay for them."""
    if config.plans:
        return None
    is_free = config.local_models_are_free
    return Settings(prices=config.prices, models=config.models, local_models_are_free=is_free)


def _is_given(row: "TurnRow") -> bool:
    """True if the source states the cost of a turn."""
    return row.cost_source == "source"


@cache
def list_version() -> str:
    """Return the version of the price lists: an upgrade looks prices up again."""
    return f"relight {__version__} genai_prices-{read_lists_version()}"
