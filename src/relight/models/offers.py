"""Prices and context windows that an endpoint reports in its `/models` list."""

import asyncio
import time
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from relight.models.background import find_client
from relight.models.endpoints import read_key_headers
from relight.prices import MTOK, NANOS, Price, PriceList, Rates

CACHED_SECONDS = 3600.0
WAIT_SECONDS = 5.0
LIMIT_BYTES = 8 << 20
# names from OpenRouter's list, which other servers copy: dollars per token, as text
RATES = {
    "input": "prompt",
    "output": "completion",
    "cache_read": "input_cache_read",
    "cache_write": "input_cache_write",
}

# names of the context window at OpenRouter and Together, vLLM, LM Studio, Groq and Mistral
WINDOWS = (
    "context_length",
    "max_model_len",
    "max_context_length",
    "context_window",
)

_windows: dict[str, dict[str, int]] = {}
_offers: dict[str, tuple[float, dict[str, PriceList]]] = {}
_pending: dict[str, "asyncio.Task[dict[str, PriceList]]"] = {}


def request_offer(base_url: str, *, key_variable: str | None) -> None:
    """Start to fetch an endpoint's prices beside a call, at most once an hour."""
    cached = _offers.get(base_url)
    is_due = cached is None or cached[0] < time.monotonic()
    if is_due and _find_pending(base_url) is None:
        _pending[base_url] = asyncio.ensure_future(_fetch(base_url, key_variable))


async def find_offer(base_url: str, model: str, *, key_variable: str | None) -> PriceList | None:
    """Return the endpoint's price for a model, if it lists one."""
    request_offer(base_url, key_variable=key_variable)
    if (pending := _find_pending(base_url)) is not None:
        await asyncio.shield(pending)
    return _offers[base_url][1].get(model)


def _find_pending(base_url: str) -> "asyncio.Task[dict[str, PriceList]] | None":
    """Return the running fetch; in a fork, the parent's belongs to no loop and is ignored."""
    pending = _pending.get(base_url)
    is_ours = pending is not None and pending.get_loop() is asyncio.get_running_loop()
    return pending if is_ours else None


async def find_context_window(base_url: str, model: str, *, key_variable: str | None) -> int | None:
    """Return a model's context window in tokens, if the endpoint reports it."""
    await find_offer(base_url, model, key_variable=key_variable)
    return _windows.get(base_url, {}).get(model)


async def _fetch(base_url: str, key_variable: str | None) -> dict[str, PriceList]:
    offers: dict[str, PriceList] = {}
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            client = find_client()
            url = f"{base_url.rstrip('/')}/models"
            async with client.stream(
                "GET", url, headers=read_key_headers(key_variable)
            ) as response:
                data = b""
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > LIMIT_BYTES:
                        break
        if response.status_code == 200:
            offers = read_offers(data)
            _windows[base_url] = read_windows(data)
    except Exception:  # noqa: BLE001 - most endpoints have no such list
        pass
    finally:
        _offers[base_url] = (time.monotonic() + CACHED_SECONDS, offers)
        _pending.pop(base_url, None)
    return offers


def read_offers(data: bytes) -> dict[str, PriceList]:
    """Return prices by model from a `/models` response.

    >>> data = b'{"data": [{"id": "m", "pricing": {"prompt": "0.000001", "completion": "2e-6"}}]}'
    >>> read_offers(data)["m"][0].tiers[0].output
    2000000000
    """
    offers: dict[str, PriceList] = {}
    for row in _read_rows(data):
        pricing = row.get("pricing")
        if isinstance(pricing, dict) and (rates := _read_rates(pricing)):
            offers[str(row.get("id"))] = (Price("endpoint", (rates,)),)
    return offers


def read_windows(data: bytes) -> dict[str, int]:
    """Return context windows by model from a `/models` response.

    >>> read_windows(b'{"data": [{"id": "m", "max_model_len": 32768}, {"id": "n"}]}')
    {'m': 32768}
    """
    windows: dict[str, int] = {}
    for row in _read_rows(data):
        sizes = [row.get(name) for name in WINDOWS]
        known = [size for size in sizes if isinstance(size, int) and size > 0]
        if known:
            windows[str(row.get("id"))] = known[0]
    return windows


def _read_rows(data: bytes) -> list[dict[str, Any]]:
    try:
        listed = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    rows = listed.get("data") if isinstance(listed, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _read_rates(pricing: dict[str, Any]) -> Rates | None:
    nanos = {}
    for rate, name in RATES.items():
        try:
            amount = Decimal(str(pricing[name]))
        except (KeyError, InvalidOperation):
            continue
        # -1 means that it depends; and no token costs a dollar
        if not amount.is_finite() or not 0 <= amount < 1:
            return None
        nanos[rate] = round(amount * NANOS * MTOK)
    if "input" not in nanos or "output" not in nanos:
        return None
    nanos.setdefault("cache_read", nanos["input"])
    nanos.setdefault("cache_write", nanos["input"])
    return Rates(**nanos, cache_write_1h=nanos["cache_write"])
