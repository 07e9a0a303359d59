"""The tool `web_fetch`: web pages as text, with limits on time and size.

Only public addresses are fetched. A page can ask a model to fetch the router's settings, a cloud
machine's keys or a local service. So each address is resolved before the request, also after
redirects, and the address of the peer is checked before the response is used: a name may resolve
differently the second time.
"""

import asyncio
import re
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Annotated
from urllib.request import getproxies, proxy_bypass

from msgspec import Meta, Struct

from relight.models.background import BackgroundTask, find_client
from relight.work.agent.context import (
    ToolContext,
    ToolError,
    ToolResult,
    fit_json,
    make_result,
)
from relight.work.agent.page_text import PageText, decode_page, read_html

if TYPE_CHECKING:
    from httpx2 import URL, Request, Response

LIMIT_BYTES = 5_000_000
TEXT_BYTES = 1_000_000
FETCH_SECONDS = 60.0
REDIRECTS = 10

PRIVATE_HINT = "`relight run --allow-private-fetch` allows it"
# IPv4 addresses written as IPv6
TRANSLATED = IPv6Network("64:ff9b::/96")


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
            request: Request | None = find_client().build_request("GET", url)
            for _ in range(REDIRECTS):
                assert request is not None
                if not allows_private:
                    await check_address(request.url)
                response = await find_client().send(request, stream=True, follow_redirects=False)
                try:
                    if not allows_private:
                        check_peer(response)
                    request = response.next_request
                    if request is None:
                        return await _read(response)
                finally:
                    await response.aclose()
    except TimeoutError:
        raise ToolError(f"the request timed out after {seconds:.0f} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ToolError(f"cannot fetch {url}: {error}") from error
    raise ToolError(f"cannot fetch {url}: more than {REDIRECTS} redirects")


async def _read(response: "Response") -> FetchedPage:
    data, is_cut = bytearray(), False
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > LIMIT_BYTES:
            is_cut = True
            break
    return FetchedPage(
        url=str(response.url),
        status_code=response.status_code,
        content_type=response.headers.get("content-type", ""),
        charset=response.charset_encoding,
        data=bytes(data[:LIMIT_BYTES]),
        is_cut=is_cut,
    )


async def check_address(url: "URL") -> None:
    """Raise ToolError if a host resolves to an address that is not public."""
    host = url.raw_host.decode("ascii")
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, url.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        if _is_proxied(url):
            return  # only the proxy knows this name
        raise ToolError(f"cannot fetch {url}: {host!r} is not found: {error}") from error
    for *_, peer in found:
        _check_public(host, str(peer[0]))


def check_peer(response: "Response") -> None:
    """Raise ToolError if a response came from an address that is not public."""
    stream = response.extensions.get("network_stream")
    peer = stream.get_extra_info("server_addr") if stream is not None else None
    if peer and not _is_proxied(response.url):
        _check_public(response.url.host, str(peer[0]))


def _check_public(host: str, address: str) -> None:
    if not is_public(address):
        name = host if host == address else f"{host} ({address})"
        raise ToolError(f"{name} is not a public address", PRIVATE_HINT)


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
    return found.is_global and not found.is_multicast


def _is_proxied(url: "URL") -> bool:
    """True if a proxy makes the request."""
    proxies = getproxies()
    return bool(proxies.get(url.scheme) or proxies.get("all")) and not proxy_bypass(url.host)
