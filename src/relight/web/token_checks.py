"""Checks of tokens: a client that sends wrong ones waits, over all of its connections."""

import asyncio
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

PAUSE_SECONDS = 0.5
MOST_WAITING = 10
MOST_CLIENTS = 1000


class TokenChecks:
    """The time from which each client may try its next token.

    The check itself waits, not its answer: otherwise a client would take silence for "wrong" and
    try many tokens at once. A client that sent no wrong token never waits.
    """

    def __init__(self) -> None:
        self._free_at: dict[str, float] = {}

    async def check(self, address: str | None, is_right: Callable[[], bool]) -> bool | None:
        """True if the token is right; None if too many wrong ones of this client are pending."""
        client = name_client(address)
        wait_seconds = self.reserve(client, time.monotonic())
        if wait_seconds is None:
            return None
        if wait_seconds:
            await asyncio.sleep(wait_seconds)
        if is_right():
            return True
        self.punish(client, time.monotonic())
        return False

    def reserve(self, client: str, now: float) -> float | None:
        """Return the seconds to wait before a check; None if too many checks wait already."""
        free_at = self._free_at.get(client, 0.0)
        if free_at <= now:
            return 0.0
        if free_at - now > PAUSE_SECONDS * MOST_WAITING:
            return None
        self._free_at[client] = free_at + PAUSE_SECONDS
        return free_at - now

    def punish(self, client: str, now: float) -> None:
        """Let the client's next check wait."""
        if len(self._free_at) >= MOST_CLIENTS:
            self._free_at = {name: at for name, at in self._free_at.items() if at > now}
        self._free_at[client] = max(self._free_at.get(client, 0.0), now + PAUSE_SECONDS)


def name_client(address: str | None) -> str:
    """Return the client of an address; one machine may have a whole /64 of IPv6.

    >>> name_client("2001:db8:1:2:3::4"), name_client("10.0.0.1")
    ('2001:db8:1:2', '10.0.0.1')
    """
    try:
        found = ip_address(address or "")
    except ValueError:
        return address or ""
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return ":".join(part.lstrip("0") or "0" for part in found.exploded.split(":")[:4])
    return str(found)
