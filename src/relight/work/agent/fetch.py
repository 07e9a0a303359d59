"""The tool `web_fetch`: web pages as text, with limits on time and size.

Only public addresses are fetched, also after redirects (`addresses`).
"""

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from relight.models.background import BackgroundTask, find_client, find_page_client
from relight.work.agent.addresses import find_proxy, find_public
from relight.work.agent.context import (
    ToolContext,
    ToolError,
    ToolResult,
    fit_json,
    make_result,
)
from relight.work.agent.page_text import PageText, decode_page, read_html

if TYPE_CHECKING:
    from httpx2 import URL, Response

LIMIT_BYTES = 5_000_000
TEXT_BYTES = 1_000_000
FETCH_SECONDS = 60.0
REDIRECTS = 10
# how many addresses of a name are tried
ADDRESSES = 4


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
