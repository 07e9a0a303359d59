"""Pages of the web as text, with limits on time and size."""

import asyncio
import re
from html.parser import HTMLParser
from typing import Annotated

from msgspec import Meta, Struct

from relight import background
from relight.agent.results import Place, Result, ToolError, tell
from relight.connections import find_client

LIMIT_BYTES = 5_000_000
FETCH_SECONDS = 60.0
SILENT = {"script", "style", "noscript", "template", "svg"}
BREAKING = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section"}


class WebFetch(Struct, frozen=True):
    """Fetch a page over HTTP and give its text."""

    url: Annotated[str, Meta(description="an http or https address")]


def web_fetch(arguments: WebFetch, place: Place) -> Result:
    if not re.match(r"https?://[^/]", arguments.url, re.IGNORECASE):
        raise ToolError(f"{arguments.url!r} is not an http or https address")
    return background.run(_fetch(arguments.url, place.limit_seconds(FETCH_SECONDS)))


async def _fetch(url: str, seconds: float) -> Result:
    import httpx2

    data, truncated = b"", False
    try:
        async with (
            asyncio.timeout(seconds),
            find_client().stream("GET", url, follow_redirects=True) as response,
        ):
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > LIMIT_BYTES:
                    data, truncated = data[:LIMIT_BYTES], True
                    break
    except TimeoutError:
        raise ToolError(f"the request timed out after {seconds:.0f} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ToolError(f"cannot fetch {url}: {error}") from error
    kind = response.headers.get("content-type", "")
    text = data.decode(response.charset_encoding or "utf-8", "replace")
    fields = {
        "url": str(response.url),
        "status_code": response.status_code,
        "content_type": kind,
        "text": read_html(text) if "html" in kind else text,
        "truncated": truncated,
    }
    return tell(fields, is_error=response.status_code >= 400)


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
    reader.feed(page)
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line)
