"""The tool `web_fetch`: web pages as text, with limits on time and size.

Only public addresses are fetched. A page can ask a model to fetch the router's settings, a cloud
machine's keys or a local service. So each address is resolved before the request, also after
redirects, and the address of the peer is checked before the response is used: a name may resolve
differently the second time.
"""

import asyncio
import codecs
import re
import socket
from html.parser import HTMLParser
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Annotated
from urllib.request import getproxies, proxy_bypass

from msgspec import Meta, Struct

from relight.models.background import BackgroundTask, find_client
from relight.work.agent.context import ToolContext, ToolError, ToolResult, make_result

if TYPE_CHECKING:
    from httpx2 import URL, Request, Response

LIMIT_BYTES = 5_000_000
FETCH_SECONDS = 60.0
REDIRECTS = 10
SILENT = {"script", "style", "noscript", "template", "svg"}
BREAKING = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section"}
# encodings that Python knows and no page uses; some of them take forever
NO_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}

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
    text = decode_page(page.data, page.charset)
    fields = {
        "url": page.url,
        "status_code": page.status_code,
        "content_type": page.content_type,
        "text": read_html(text) if "html" in page.content_type else text,
        "truncated": page.is_cut,
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


def decode_page(data: bytes, charset: str | None) -> str:
    """Return a page as text; UTF-8 if it names no valid charset."""
    try:
        name = codecs.lookup(charset or "utf-8").name
        return data.decode("utf-8" if name in NO_CHARSETS else name, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._silent += tag in SILENT
        if tag in BREAKING:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT and self._silent > 0

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


def read_html(page: str) -> str:
    """Return the text of a page, without its markup.

    >>> read_html("<style>p {}</style><p>Hello <b>you</b></p>")
    'Hello you'
    """
    reader = _Text()
    # browsers treat a marked section as a comment; the parser fails on it
    reader.feed(page.replace("<![", "<! ["))
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line)
