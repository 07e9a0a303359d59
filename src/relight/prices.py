"""The cost of a turn, and the source of its price.

The lists of genai-prices are a table, `data/price_lists.json`, which `./dev docs` writes: loading
the library takes 200 ms. Models are found in it by the library's own rules. Rates are whole
nano-dollars per million tokens and a cost is rounded once, so sums never drift.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from relight.data import read_data, read_table
from relight.model import Cost, Usage
from relight.names import find_model_name, is_private

if TYPE_CHECKING:
    from relight.config import Settings

Source: TypeAlias = Literal["endpoint", "config", "prices.toml", "genai-prices"]
LISTS = "price_lists.json"
MTOK = 1_000_000
NANOS = 10**9
# limit of one call: a larger figure is an error, and sums would not fit
MOST_USD = 1_000_000
UNKNOWN = Cost(None, "unknown", None)
_RATES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_BEDROCK = re.compile(r"^(?:.*/)?(?:[a-z-]+\.)?[a-z0-9]+\.(?=[a-z])")  # us.anthropic.claude-…
_COMPACT_DATE = re.compile(r"-(20\d{6})(?=[-:]|$)")


class Rates(Struct, frozen=True):
    """Nano-dollars per million tokens, for calls with more than `above` tokens of prompt."""

    input: int | None = None  # None: the list has no price for that side of a call
    output: int | None = None
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    above: int = -1


class Price(Struct, frozen=True):
    """The price of a model in one list: from a moment on, or between two minutes of the UTC day."""

    source: Source
    tiers: tuple[Rates, ...]  # for long prompts first; a call pays one tier for all its tokens
    since: int | None = None
    day_minutes: tuple[int, int] | None = None


class MatchRule(Struct, frozen=True, array_like=True):
    """A test of a name: it equals, begins with, ends with, contains or matches, or a list of tests.

    >>> MatchRule("|", [MatchRule("=", "gpt-5"), MatchRule("^", "gpt-5-")]).accepts("gpt-5-mini")
    True
    """

    kind: str  # one of `= ^ $ ~ /`, or `|` and `&` with a list
    value: "str | list[MatchRule]"

    def accepts(self, name: str) -> bool:
        value = self.value
        if isinstance(value, list):
            tests = (rule.accepts(name) for rule in value)
            return any(tests) if self.kind == "|" else all(tests)
        if self.kind == "=":
            return name == value
        if self.kind == "^":
            return name.startswith(value)
        if self.kind == "$":
            return name.endswith(value)
        return value in name if self.kind == "~" else bool(re.search(value, name))


class ListedRates(Struct, frozen=True, array_like=True):
    """Rates as a list has them, for prompts above so many tokens."""

    above: int
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None
    cache_write_1h: int | None


class ListedPrice(Struct, frozen=True, array_like=True):
    tiers: list[ListedRates]
    since: int | None
    day_minutes: tuple[int, int] | None


class ListedModel(Struct, frozen=True, array_like=True):
    id: str
    rule: MatchRule
    context_window: int | None
    prices: list[ListedPrice]  # none if tokens alone do not make the price


class Seller(Struct, frozen=True, array_like=True, dict=True):
    """A provider: rules for its own names and for the models it is known by, and its models.

    These are decoded when one is looked for: most processes need those of two providers.
    """

    id: str
    address: str  # an expression for its API's URL
    names: MatchRule | None
    makes: MatchRule | None
    fallbacks: list[str]  # sellers in whose lists its other models are
    listed: msgspec.Raw  # its models

    @cached_property
    def models(self) -> list[ListedModel]:
        return msgspec.json.decode(self.listed, type=list[ListedModel])

    def find_own(self, name: str) -> ListedModel | None:
        return next((model for model in self.models if model.rule.accepts(name)), None)


class PriceLists(Struct, frozen=True, array_like=True):
    """The lists of one version of genai-prices."""

    version: str
    sellers: list[Seller]

    def find_model(self, name: str, provider: str) -> tuple[Seller, ListedModel] | None:
        """Return a model of a provider (a name or a URL); without a provider, one of its maker."""
        if provider == "litellm":  # a gateway, which names the provider before the model
            before, _, after = name.partition("/")
            is_known = before and after and self._find_named(before)
            provider, name = (before, after) if is_known else ("", name)
        seller = self._find_seller(provider, name)
        found = seller and (self._match(seller, name) or self._match(seller, _write_dashes(name)))
        return (seller, found) if seller and found else None

    def _find_seller(self, provider: str, name: str) -> Seller | None:
        if "://" in provider:
            return next((one for one in self.sellers if re.match(one.address, provider)), None)
        if provider:
            return self._find_named(provider)
        return next((one for one in self.sellers if one.makes and one.makes.accepts(name)), None)

    def _find_named(self, provider: str) -> Seller | None:
        by_id = next((one for one in self.sellers if one.id == provider), None)
        alike = (one for one in self.sellers if one.names and one.names.accepts(provider))
        return by_id or next(alike, None)

    def _match(self, seller: Seller, name: str) -> ListedModel | None:
        others = (self._find_named(one) for one in seller.fallbacks)
        every = (one.find_own(name) for one in (seller, *others) if one)
        return next((model for model in every if model), None)


PriceList: TypeAlias = tuple[Price, ...]  # of those valid at the time of a call the last applies
FREE: PriceList = (Price("config", (Rates(0, 0),)),)


def price_usage(
    usage: Usage, prices: PriceList | None, *, at: int, calls: int = 1, included: bool = False
) -> Cost:
    """The cost of some tokens at a time, or an unknown cost; never a guess and never a false zero.

    `calls` is how many model calls the usage adds up: tiers go by the prompt of one call, so a
    session's total is judged by its average call. `included` marks what a subscription covers.
    """
    fresh, output = usage.input, usage.output
    if fresh is None or output is None:
        return Cost(0, "estimated", "config") if prices == FREE else UNKNOWN
    read, write = usage.cache_read or 0, usage.cache_write or 0
    prompt = fresh + read + write
    if not prices:
        return UNKNOWN if prompt or output else Cost(0, "estimated", None)
    price, rates = _choose_rates(prices, at=at, prompt=prompt, calls=calls)
    if (rates.input is None and prompt) or (rates.output is None and output):
        return UNKNOWN
    hour = min(usage.cache_write_1h or 0, write)
    total = fresh * (rates.input or 0) + read * rates.cache_read + output * (rates.output or 0)
    total += (write - hour) * rates.cache_write + hour * rates.cache_write_1h
    nanos, rest = divmod(total, MTOK)
    nanos += rest + (nanos & 1) > MTOK // 2  # half goes to the even side
    if nanos > MOST_USD * NANOS:
        return UNKNOWN
    return Cost(nanos, "included" if included else "estimated", price.source)


def reported_cost(
    usd: float | str | Decimal, *, status: Literal["reported", "estimated"] = "reported"
) -> Cost:
    """The cost that the source itself states; unknown if it is not an amount of money."""
    try:
        amount = Decimal(str(usd))
        if not 0 <= amount <= MOST_USD:
            return UNKNOWN
    except (ArithmeticError, ValueError):
        return UNKNOWN
    return Cost(round(amount * NANOS), status, "source")


def charged_cost(usd: float | None) -> Cost | None:
    """Return the cost that an agent states; None for zero, which stands for an unknown price."""
    return reported_cost(usd) if usd else None


def find_price(
    model: str | None, provider: str | None = None, *, config: "Settings | None" = None
) -> PriceList | None:
    """The price of a model: from the user's config, else `prices.toml`, else genai-prices."""
    if config and (own := find_own_price(model, provider, config)):
        return own
    return _find_listed(_spell_model(model), (provider or "").strip().lower())


# a page asks for the same few models again and again, and each test reads hundreds of rules
@lru_cache(maxsize=1000)
def _find_listed(names: tuple[str, ...], seller: str) -> PriceList | None:
    rows = tuple(
        _price_row(row, names[0], source="prices.toml")
        for row in _read_sheet()["price"]
        if any(fnmatchcase(name, pattern) for name in names for pattern in row["models"])
        and (not seller or row["provider"] in seller)
    )
    if rows and rows[0].since is None:  # a dated row continues the list of genai-prices
        return rows
    info = _find_model(names, seller)
    return (_price_model(info, names[0]) if info else ()) + rows or None


def find_own_price(model: str | None, provider: str | None, config: "Settings") -> PriceList | None:
    """The price of a model in the user's config: of its full name, else of the reports' name.

    A local model without one is free if the config says so.
    """
    own: dict[str, Any] = {name.lower(): row for name, row in config.prices.items()}
    for name in (*_spell_model(model), find_model_name(model or "").lower()) if own else ():
        if name in own:
            return (_price_row(own[name], name, source="config"),)
    return FREE if config.local_models_are_free and is_local_model(model, provider) else None


def is_local_model(model: str | None, provider: str | None) -> bool:
    """True if the provider is a server on this machine or its network: by name or by address.

    >>> is_local_model("qwen3:8b", "ollama"), is_local_model("qwen3:8b", "http://192.168.1.7/v1")
    (True, True)
    >>> is_local_model("qwen3-coder:480b-cloud", "ollama"), is_local_model("qwen3:8b", "groq")
    (False, False)
    """
    seller, local = (provider or "").strip().lower(), _read_sheet()["local"]
    if any(fnmatchcase((model or "").lower(), pattern) for pattern in local["hosted_models"]):
        return False
    return is_local_address(seller) if "://" in seller else seller in local["providers"]


@lru_cache(maxsize=64)  # each model call asks, for the same few addresses
def is_local_address(address: str) -> bool:
    """True if the host of a URL is this machine or on its network; no name is looked up.

    >>> is_local_address("http://[::1]:8080/v1"), is_local_address("http://8.8.8.8/v1")
    (True, False)
    """
    host = address.partition("://")[2].partition("/")[0].rpartition("@")[2].lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if any(fnmatchcase(host, pattern) for pattern in _read_sheet()["local"]["hosts"]):
        return True
    if "." not in host and ":" not in host:
        return bool(host)  # a name without a domain: localhost, or a machine beside this one
    return is_private(host)


def context_window(model: str | None, provider: str | None = None) -> int | None:
    """The tokens of prompt that a model takes; `[1m]` is Claude Code's name for a long window."""
    if model and model.lower().endswith("[1m]"):
        return 1_000_000
    info = _find_model(_spell_model(model), (provider or "").strip().lower())
    return info.context_window if info else None


def find_rates(prices: PriceList, *, at: int, prompt: int) -> Rates:
    """The rates of one call at a time, with so many tokens of prompt."""
    return _choose_rates(prices, at=at, prompt=prompt, calls=1)[1]


def _choose_rates(prices: PriceList, *, at: int, prompt: int, calls: int) -> tuple[Price, Rates]:
    price = prices[0] if len(prices) == 1 else _choose_price(prices, at)
    for rates in price.tiers:
        if prompt > rates.above * calls:
            break
    return price, rates


def _choose_price(prices: PriceList, at: int) -> Price:
    now = at // 60_000 % 1440
    for price in reversed(prices):
        start, end = price.day_minutes or (0, 1440)
        is_now = start <= now < end if start <= end else not end <= now < start
        if is_now and (price.since is None or price.since <= at):
            return price
    return prices[0]


def _spell_model(model: str | None) -> tuple[str, ...]:
    """The names to look a model up by, as written first; none for `<synthetic>` and its like."""
    written = (model or "").strip().lower()
    if not written or written.startswith("<"):
        return ()
    name = re.sub(r"\[\w*\]$", "", written).removeprefix("models/")
    spellings = [written, name, name.rsplit("/", 1)[-1], _BEDROCK.sub("", name)]
    return tuple(dict.fromkeys(spellings + [name.removesuffix("-latest") for name in spellings]))


def _find_model(names: tuple[str, ...], seller: str) -> ListedModel | None:
    """The model in its seller's own list, else in its maker's.

    Open models cost something else at each seller, and nothing on one's own machine: the maker's
    list stands in for a named seller's only where a model has one price everywhere.
    """
    for place in ["aws", seller, ""] if names and _BEDROCK.match(names[0]) else [seller, ""]:
        for name in names:
            if (found := read_lists().find_model(name, place)) is None:
                continue
            is_sold = place or found[0].id in _read_sheet()["one_price_vendors"]
            if is_sold or (not seller and ":" not in name):  # deepseek-r1:8b is a local build
                return found[1]
    return None


def _price_model(found: ListedModel, name: str) -> PriceList:
    """The prices of a listed model, with the rates that its list leaves out."""
    prices = []
    for each in found.prices:
        tiers = []
        for tier in each.tiers:
            nanos = {rate: known for rate in _RATES if (known := getattr(tier, rate)) is not None}
            tiers.append(_fill_rates(nanos, name, above=tier.above))
        prices.append(Price("genai-prices", tuple(tiers), each.since, each.day_minutes))
    return tuple(prices)


def _price_row(row: Mapping[str, Any], name: str, *, source: Source) -> Price:
    usd = {rate: row.get(f"{rate}_usd_per_mtok") for rate in _RATES}
    nanos = {
        rate: round(Decimal(str(price)) * NANOS) for rate, price in usd.items() if price is not None
    }
    since = round(row["since"].timestamp() * 1000) if "since" in row else None
    return Price(source, (_fill_rates(nanos, name, above=-1),), since)


def _fill_rates(nanos: dict[str, int], name: str, *, above: int) -> Rates:
    """The rates in nano-dollars; a cached token without its own costs what a fresh one does."""
    fresh = nanos.get("input", 0)
    for maker, times in _read_sheet()["one_hour_cache_write_times_input"].items():
        if maker in name and "cache_write" in nanos:
            nanos.setdefault("cache_write_1h", fresh * times)
    nanos.setdefault("cache_read", fresh)
    nanos.setdefault("cache_write_1h", nanos.setdefault("cache_write", fresh))
    return Rates(above=above, **nanos)


def _write_dashes(name: str) -> str:
    """A name with its compact date as lists write it: gateways give `gpt-5.2-20251211`.

    >>> _write_dashes("gpt-5.2-20251211"), _write_dashes("gpt-5.2-20251399")
    ('gpt-5.2-2025-12-11', 'gpt-5.2-20251399')
    """

    def divide(found: re.Match[str]) -> str:
        try:
            return f"-{date.fromisoformat(found[1])}"
        except ValueError:
            return found[0]

    return _COMPACT_DATE.sub(divide, name)


@cache
def read_lists() -> PriceLists:
    """The lists that Relight comes with."""
    return msgspec.json.decode(read_data(LISTS), type=PriceLists)


def read_lists_version() -> str:
    """The version of genai-prices whose lists these are; it comes first in their file."""
    return read_data(LISTS).split('"', 2)[1]


@cache
def _read_sheet() -> dict[str, Any]:
    sheet = read_table("prices.toml", dict[str, Any])
    for row in sheet["price"]:
        if "since" in row:
            row["since"] = datetime.fromisoformat(row["since"])
    return sheet
