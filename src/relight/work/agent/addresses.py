"""Which addresses a page may be fetched from: a model must not reach into its user's network.

A page can tell a model to fetch the router's settings, a cloud machine's keys or a service that
listens on this machine only. So each address is looked up before it is asked, on the way through
redirects too, and the other end is looked at again before a word of the answer is passed on: a
name may mean something else the second time.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

from relight.work.agent.results import ToolError

if TYPE_CHECKING:
    from httpx2 import URL, Response

HINT = "`relight run --allow-private-fetch` allows it"
# addresses of the old kind in the clothes of the new
TRANSLATED = IPv6Network("64:ff9b::/96")


async def check_address(url: "URL") -> None:
    """Refuse an address that is not public, whatever it is called."""
    host = url.raw_host.decode("ascii")
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, url.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        if _is_proxied(url):
            return  # only the proxy knows this name
        raise ToolError(f"cannot fetch {url}: {host!r} is not found: {error}") from error
    for *_, place in found:
        _refuse_private(host, str(place[0]))


def check_peer(response: "Response") -> None:
    """Refuse an answer that came from elsewhere than was looked up."""
    stream = response.extensions.get("network_stream")
    peer = stream.get_extra_info("server_addr") if stream is not None else None
    if peer and not _is_proxied(response.url):
        _refuse_private(response.url.host, str(peer[0]))


def _refuse_private(host: str, address: str) -> None:
    if not is_public(address):
        told = host if host == address else f"{host} ({address})"
        raise ToolError(f"{told} is not a public address, and is not fetched from", HINT)


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet.

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
    return found.is_global and not found.is_multicast


def _is_proxied(url: "URL") -> bool:
    """Whether a proxy stands between, which is asked in place of the address."""
    proxies = getproxies()
    return bool(proxies.get(url.scheme) or proxies.get("all")) and not proxy_bypass(url.host)
