"""The tool `web_fetch`: pages of public addresses as text, with limits on time and size.

A page can ask a model to fetch the router's settings, a cloud machine's keys or a local service.
So a name is looked up once, all its addresses must be public, and the request goes to one of these
very addresses: a second lookup could give another. A proxy looks up names itself, so it gets only
names that are public here as well. Redirects are followed in the same way.
"""

import asyncio
import re
import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Annotated
from urllib.request import getproxies, proxy_bypass

from msgspec import Meta, Struct

from relight.models.background import BackgroundTask, find_client, find_page_client
from relight.work.agent.context import ToolContext, ToolError, ToolResult, fit_json, make_result
from relight.work.agent.page_text import PageText, decode_page, read_html

if TYPE_CHECKING:
    from httpx2 import URL, Response

LIMIT_BYTES = 5_000_000
TEXT_BYTES = 1_000_000
FETCH_SECONDS = 60.0
REDIRECTS = 10
# how many addresses of a name are tried
ADDRESSES = 4
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


class WebFetch(Struct, frozen=True):
    """Fetch a page over HTTP and give its text."""

    url: Annotated[str, Meta(description="an http or https address")]


class FetchedPage(Struct, frozen=True):
    """A page as it was received."""

    url: str
    status_code: int
    content_type: str
    charset: str | None
    data: bytes
    is_cut: bool


def web_fetch(arguments: WebFetch, context: ToolContext) -> ToolResult:
    if not re.match(r"https?://[^/]", arguments.url, re.IGNORECASE):
        raise ToolError(f"{arguments.url!r} is not an http or https address")
    seconds = context.limit_seconds(FETCH_SECONDS)
    task = BackgroundTask(_fetch(arguments.url, seconds, allows_private=context.allows_private))
    with context.halt.ending_by(task.cancel):
        page = task.result.result()
    decoded = decode_page(page.data, page.charset)
    is_html = "html" in page.content_type
    found = read_html(decoded, context.check_time) if is_html else PageText(decoded)
    text = fit_json(found.text, TEXT_BYTES)
    fields = {
        "url": page.url,
        "status_code": page.status_code,
        "content_type": page.content_type,
        "text": text,
        "truncated": page.is_cut or found.is_cut or len(text) < len(found.text),
    }
    return make_result(fields, is_error=page.status_code >= 400)


async def _fetch(url: str, seconds: float, *, allows_private: bool) -> FetchedPage:
    import httpx2

    try:
        async with asyncio.timeout(seconds):
            place = httpx2.URL(url)
            for _ in range(REDIRECTS):
                if place.scheme not in ("http", "https"):
                    raise ToolError(f"cannot fetch {place}: it is not an http or https address")
                request = find_client().build_request("GET", place)
                if allows_private:
                    response = await find_client().send(request, stream=True)
                else:
                    response = await send_public(place)
                try:
                    if not response.has_redirect_location:
                        return await _read(place, response)
                    place = place.join(response.headers["location"])
                finally:
                    await response.aclose()
    except TimeoutError:
        raise ToolError(f"the request timed out after {seconds:.0f} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ToolError(f"cannot fetch {url}: {error}") from error
    raise ToolError(f"cannot fetch {url}: more than {REDIRECTS} redirects")


async def send_public(url: "URL") -> "Response":
    """Request a page from an address that was found public, or by its name from a proxy."""
    import httpx2

    addresses = await find_public(url)
    if proxy := find_proxy(url):
        client = find_page_client(proxy)
        return await client.send(client.build_request("GET", url), stream=True)
    *others, last = addresses[:ADDRESSES]
    for address in others:
        with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
            return await send_to(address, url)
    return await send_to(last, url)


async def send_to(address: str, url: "URL") -> "Response":
    """Request a page from this very address, under the name that its URL has."""
    client = find_page_client()
    request = client.build_request(
        "GET",
        url.copy_with(host=address.partition("%")[0]),
        headers={"Host": url.netloc.decode("ascii")},
        # the certificate must be that of the name
        extensions={"sni_hostname": url.raw_host.decode("ascii")},
    )
    return await client.send(request, stream=True)


async def _read(url: "URL", response: "Response") -> FetchedPage:
    data, is_cut = bytearray(), False
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > LIMIT_BYTES:
            is_cut = True
            break
    return FetchedPage(
        url=str(url),
        status_code=response.status_code,
        content_type=response.headers.get("content-type", ""),
        charset=response.charset_encoding,
        data=bytes(data[:LIMIT_BYTES]),
        is_cut=is_cut,
    )


async def find_public(url: "URL") -> list[str]:
    """Return the addresses of a URL's host; raise ToolError unless all of them are public."""
    host = url.raw_host.decode("ascii")
    labels = host.lower().rstrip(".").split(".")
    # a single word and a name with an inner ending are not public
    if (len(labels) == 1 or labels[-1] in INNER) and ":" not in host:
        raise ToolError(f"{host} is not a public address", PRIVATE_HINT)
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
