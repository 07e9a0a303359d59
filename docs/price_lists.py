"""The price lists of genai-prices as the table that Relight comes with, `data/price_lists.json`."""

import datetime as clock
from collections.abc import Iterator
from decimal import Decimal
from importlib.metadata import version
from typing import Any

import msgspec
from genai_prices.data import providers
from genai_prices.types import ConditionalPrice, ModelInfo, StartDateConstraint

from relight.prices import (
    NANOS,
    ListedModel,
    ListedPrice,
    ListedRates,
    MatchRule,
    PriceLists,
    Seller,
)

KINDS = {
    "equals": "=",
    "starts_with": "^",
    "ends_with": "$",
    "contains": "~",
    "regex": "/",
    "or_": "|",
    "and_": "&",
}
RATES = ListedRates.__struct_fields__[1:]


def write_lists() -> str:
    """Return the table, each model on a line, so that an upgrade of the library can be read."""
    lists = PriceLists(version("genai-prices"), [_list_seller(one) for one in providers])
    return "".join(_write_lines(lists))


def _write_lines(lists: PriceLists) -> Iterator[str]:
    encode = msgspec.json.Encoder(order="deterministic").encode
    yield f"[{encode(lists.version).decode()},[\n"
    for seller in lists.sellers:
        *head, _ = msgspec.structs.astuple(seller)
        yield f"{encode(head).decode()[:-1]},[\n"
        yield ",\n".join(encode(model).decode() for model in seller.models)
        yield "]],\n" if seller is not lists.sellers[-1] else "]]\n"
    yield "]]\n"


def _list_seller(found: Any) -> Seller:
    return Seller(
        id=found.id,
        address=found.api_pattern,
        names=_make_rule(found.provider_match),
        makes=_make_rule(found.model_match),
        fallbacks=found.fallback_model_providers or [],
        listed=msgspec.Raw(msgspec.json.encode([_list_model(one) for one in found.models])),
    )


def _list_model(info: ModelInfo) -> ListedModel:
    rule = _make_rule(info.match)
    assert rule is not None
    return ListedModel(info.id, rule, info.context_window, _list_prices(info))


def _make_rule(found: Any) -> MatchRule | None:
    if found is None:
        return None
    ((field, value),) = vars(found).items()
    if isinstance(value, list):
        rules = [rule for one in value if (rule := _make_rule(one))]
        return MatchRule(KINDS[field], rules)
    return MatchRule(KINDS[field], value if field == "regex" else value.lower())


def _list_prices(info: ModelInfo) -> list[ListedPrice]:
    """The prices of a model; none when tokens alone do not make the price."""
    prices = []
    listed = info.prices
    for each in listed if isinstance(listed, list) else [ConditionalPrice(prices=listed)]:
        if each.prices.requests_kcount or each.prices.output_reasoning_mtok:
            return []  # Perplexity also charges for searches, which no agent reports
        usd = {rate: getattr(each.prices, f"{rate}_mtok") for rate in RATES}
        starts = {tier.start for value in usd.values() for tier in getattr(value, "tiers", ())}
        steps = sorted(starts | {-1}, reverse=True)
        tiers = [
            ListedRates(step, *(_find_nanos(usd[rate], step) for rate in RATES)) for step in steps
        ]
        since, minutes, when = None, None, each.constraint
        if isinstance(when, StartDateConstraint):
            start_of_day = clock.datetime.combine(when.start_date, clock.time(), clock.UTC)
            since = round(start_of_day.timestamp() * 1000)
        elif when:
            start, end = when.start_time, when.end_time
            minutes = (start.hour * 60 + start.minute, end.hour * 60 + end.minute)
        prices.append(ListedPrice(tiers, since, minutes))
    return prices if any(one.tiers[0].input or one.tiers[0].output for one in prices) else []


def _find_nanos(value: Any, above: int) -> int | None:
    """The nano-dollars per million tokens that a call with so long a prompt pays."""
    reached = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= above]
    price = reached[-1] if reached else getattr(value, "base", value)
    return None if price is None else round(Decimal(str(price)) * NANOS)
