"""Addresses that `web_fetch` may reach: those of the public internet only.

A page can ask a model to fetch the router's settings, a cloud machine's keys or a local service.
So a name is looked up once, all its addresses must be public, and the request goes to one of these
very addresses: a second lookup could give another. A proxy looks up names itself, so it gets only
names that are public here as well.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

from relight.work.agent.context import ToolError

if TYPE_CHECKING:
    from httpx2 import URL

PRIVATE_HINT = "`relight run --allow-private-fetch` allows it"
# endings of names that no public name has; each network gives them its own meaning
INNER = {"internal", "local", "localhost", "localdomain", "corp", "home", "lan", "intranet"}
INNER |= {"private", "arpa"}
# IPv4 addresses written as IPv6
TRANSLATED = IPv6Network("64:ff9b::/96")
# not public, although Python's `is_global` says so (some of it depends on its version): translation
# within a network, IPv4 in outdated forms, site-local, documentation, segment routing, 6to4 relays
NOT_PUBLIC = tuple(
    map(
        ip_network,
        (
            *("64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96", "fec0::/10", "3fff::/20", "5f00::/16"),
            *("2001::/23", "2001:db8::/32", "100::/64", "192.88.99.0/24", "192.0.0.0/24"),
        ),
    )
)


async def find_public(url: "URL") -> list[str]:
    """Return the addresses of a URL's host; raise ToolError unless all of them are public."""
    host = url.raw_host.decode("ascii")
    check_host_name(host)
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, url.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        # a name that only the proxy knows may be anything
        hint = PRIVATE_HINT if find_proxy(url) else None
        raise ToolError(f"cannot fetch {url}: {host!r} is not found: {error}", hint) from error
    addresses = list(dict.fromkeys(str(peer[0]) for *_, peer in found))
    for address in addresses:
        if not is_public(address):
            name = host if host == address else f"{host} ({address})"
            raise ToolError(f"{name} is not a public address", PRIVATE_HINT)
    return addresses


def check_host_name(host: str) -> None:
    """Raise ToolError for a name that is not public: a single word, or an inner ending."""
    labels = host.lower().rstrip(".").split(".")
    is_inner = len(labels) == 1 or labels[-1] in INNER
    if is_inner and ":" not in host:
        raise ToolError(f"{host} is not a public address", PRIVATE_HINT)


def is_public(address: str) -> bool:
    """True if an address is public.

    >>> [is_public(one) for one in ("8.8.8.8", "127.0.0.1", "10.1.2.3", "169.254.169.254", "::1")]
    [True, False, False, False, False]
    >>> is_public("::ffff:192.168.1.1")
    False
    """
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inside = found.ipv4_mapped or found.sixtofour
        if inside is None and found in TRANSLATED:
            inside = IPv4Address(int(found) & 0xFFFFFFFF)
        found = inside or found
    is_listed = any(found in network for network in NOT_PUBLIC)
    return found.is_global and not found.is_multicast and not is_listed


def find_proxy(url: "URL") -> str | None:
    """Return the address of the proxy that the environment names for a URL."""
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(url.host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
