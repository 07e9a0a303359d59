"""Pages of the web as text, with limits on time and size, and from public addresses only."""

import asyncio
import codecs
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from relight.models.background import Work
from relight.models.connections import find_client
from relight.work.agent.addresses import check_address, check_peer
from relight.work.agent.results import Place, Result, ToolError, tell

if TYPE_CHECKING:
    from httpx2 import Request, Response

LIMIT_BYTES = 5_000_000
FETCH_SECONDS = 60.0
REDIRECTS = 10
SILENT = {"script", "style", "noscript", "template", "svg"}
BREAKING = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section"}
# what Python takes for text and no page is written in; some of them take forever
NO_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}


class WebFetch(Struct, frozen=True):
    """Fetch a page over HTTP and give its text."""

    url: Annotated[str, Meta(description="an http or https address")]


class Page(Struct, frozen=True):
    """What came over the wire."""

    url: str
    status_code: int
    content_type: str
    charset: str | None
    data: bytes
    is_cut: bool


def web_fetch(arguments: WebFetch, place: Place) -> Result:
    if not re.match(r"https?://[^/]", arguments.url, re.IGNORECASE):
        raise ToolError(f"{arguments.url!r} is not an http or https address")
    seconds = place.limit_seconds(FETCH_SECONDS)
    fetching = Work(_fetch(arguments.url, seconds, allows_private=place.allows_private))
    with place.halt.ending_by(fetching.cancel):
        page = fetching.over.result()
    text = decode(page.data, page.charset)
    fields = {
        "url": page.url,
        "status_code": page.status_code,
        "content_type": page.content_type,
        "text": read_html(text) if "html" in page.content_type else text,
        "truncated": page.is_cut,
    }
    return tell(fields, is_error=page.status_code >= 400)


async def _fetch(url: str, seconds: float, *, allows_private: bool) -> Page:
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
    raise ToolError(f"cannot fetch {url}: it leads on and on, {REDIRECTS} times")


async def _read(response: "Response") -> Page:
    data, is_cut = bytearray(), False
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > LIMIT_BYTES:
            is_cut = True
            break
    return Page(
        url=str(response.url),
        status_code=response.status_code,
        content_type=response.headers.get("content-type", ""),
        charset=response.charset_encoding,
        data=bytes(data[:LIMIT_BYTES]),
        is_cut=is_cut,
    )


def decode(data: bytes, charset: str | None) -> str:
    """Bytes as text; where the page names no charset that is one, it is taken for UTF-8."""
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
    """The words of a page, without its markup.

    >>> read_html("<style>p {}</style><p>Hello <b>you</b></p>")
    'Hello you'
    """
    reader = _Text()
    # a marked section is a comment to browsers, and more than the parser bears
    reader.feed(page.replace("<![", "<! ["))
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line)
