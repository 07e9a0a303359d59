"""A tab of a browser that keeps all that went wrong in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

Scheme = Literal["light", "dark"]
# a browser on a loaded machine takes seconds for a page
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)
# all else that axe could tell takes longer to send than to find
ONLY_VIOLATIONS = {"resultTypes": ["violations"]}
HEIGHTS = {1920: 1080, 1280: 900, 390: 844}
# what stands out at the side although its place does not scroll
WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > width + 1)
    .slice(0, 5).map((one) => one.outerHTML.slice(0, 120));
}"""


class Visit:
    """A page, and what it logged, broke and asked for outside of its own address."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.troubles: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("request", lambda request: self._watch(request.url))
        page.on("requestfailed", lambda request: self._mourn(request.url, request.failure))

    def _hear(self, message: object) -> None:
        kind, text = getattr(message, "type", ""), getattr(message, "text", "")
        if kind in ("error", "warning"):
            self.troubles.append(f"{kind}: {text}")

    def _watch(self, url: str) -> None:
        if not url.startswith(f"{self.address}/"):
            self.troubles.append(f"outside: {url}")

    def _mourn(self, url: str, why: str | None) -> None:
        if why != "net::ERR_ABORTED":  # the page was left before the answer came
            self.troubles.append(f"failed: {url}: {why}")

    def open(self, path: str) -> Page:
        response = self.page.goto(self.address + path)
        assert response is not None
        assert response.status == 200, f"{path}: {response.status}"
        return self.page

    def check(self) -> None:
        """Nothing went wrong, and nothing stands out at the side."""
        assert self.troubles == []
        wide = self.page.evaluate(WIDE)
        assert wide == [], f"{self.page.url}: {wide}"

    def check_access(self) -> None:
        """Everybody can use what is shown, by all the rules that axe knows."""
        found = Axe().run(self.page, options=ONLY_VIOLATIONS).response["violations"]
        told = [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]
        assert told == [], self.page.url


@contextmanager
def visiting(
    browser: Browser,
    address: str,
    *,
    width: int = 1280,
    scheme: Scheme = "light",
    with_script: bool = True,
) -> Iterator[Visit]:
    """A tab in a separate browser, without anything of other tabs."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHTS[width]},
        color_scheme=scheme,
        java_script_enabled=with_script,
        reduced_motion="reduce",
        timezone_id="UTC",
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield Visit(context.new_page(), address)
    finally:
        context.close()
