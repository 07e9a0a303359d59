"""What an endpoint itself asks for its models, where its `/models` answer says so."""

import asyncio
import time
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from relight.connections import find_client, headers_of
from relight.prices import MTOK, NANOS, Price, PriceList, Rates

KEPT_SECONDS = 3600.0
WAIT_SECONDS = 5.0
LIMIT_BYTES = 8 << 20
# the names of OpenRouter's list, which other servers have taken over: dollars a token, as text
RATES = {
    "input": "prompt",
    "output": "completion",
    "cache_read": "input_cache_read",
    "cache_write": "input_cache_write",
}

_offers: dict[str, tuple[float, dict[str, PriceList]]] = {}
_asking: dict[str, "asyncio.Task[dict[str, PriceList]]"] = {}


async def find_offer(base_url: str, model: str, *, key_variable: str | None) -> PriceList | None:
    """The endpoint's own price for a model; an endpoint is asked once an hour, and never twice."""
    kept = _offers.get(base_url)
    if kept is None or kept[0] < time.monotonic():
        if base_url not in _asking:
            _asking[base_url] = asyncio.ensure_future(_ask(base_url, key_variable))
        await asyncio.shield(_asking[base_url])
        kept = _offers[base_url]
    return kept[1].get(model)


async def _ask(base_url: str, key_variable: str | None) -> dict[str, PriceList]:
    import httpx2

    offers: dict[str, PriceList] = {}
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            client = find_client()
            url = f"{base_url.rstrip('/')}/models"
            async with client.stream("GET", url, headers=headers_of(key_variable)) as response:
                data = b""
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > LIMIT_BYTES:
                        break
        if response.status_code == 200:
            offers = read_offers(data)
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError):
        pass  # an endpoint without such a list is an ordinary one
    finally:
        _offers[base_url] = (time.monotonic() + KEPT_SECONDS, offers)
        _asking.pop(base_url, None)
    return offers


def read_offers(data: bytes) -> dict[str, PriceList]:
    """Prices by model from a `/models` answer.

    >>> told = b'{"data": [{"id": "m", "pricing": {"prompt": "0.000001", "completion": "2e-6"}}]}'
    >>> read_offers(told)["m"][0].tiers[0].output
    2000000000
    """
    try:
        listed = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    rows = listed.get("data") if isinstance(listed, dict) else None
    offers: dict[str, PriceList] = {}
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or not isinstance(row.get("pricing"), dict):
            continue
        if rates := _read_rates(row["pricing"]):
            offers[str(row.get("id"))] = (Price("endpoint", (rates,)),)
    return offers


def _read_rates(pricing: dict[str, Any]) -> Rates | None:
    nanos = {}
    for rate, name in RATES.items():
        try:
            amount = Decimal(str(pricing[name]))
        except (KeyError, InvalidOperation):
            continue
        if not amount.is_finite() or amount < 0:  # -1 means: it depends
            return None
        nanos[rate] = round(amount * NANOS * MTOK)
    if "input" not in nanos or "output" not in nanos:
        return None
    nanos.setdefault("cache_read", nanos["input"])
    nanos.setdefault("cache_write", nanos["input"])
    return Rates(**nanos, cache_write_1h=nanos["cache_write"])
