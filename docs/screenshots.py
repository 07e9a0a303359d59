"""Pictures of the dashboard on the demo, as a browser shows it: `python docs/screenshots.py`.

Needs chromium. The pictures are of few colours, so each is written with a palette.
"""

import os
import re
import struct
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import serving  # noqa: E402 - the tests' own
from chromium import ARGUMENTS, find_chromium  # noqa: E402
from relight.cli import TYPED  # noqa: E402
from visiting import Scheme, visiting  # noqa: E402

IMAGES = ROOT / "docs" / "images"
HEIGHT = 800
FREQUENT = 128
# a picture's name, the page, its scheme and width
PICTURES: tuple[tuple[str, str, Scheme, int], ...] = (
    ("overview", "/", "light", 1280),
    ("overview-dark", "/", "dark", 1280),
    ("session", "/sessions?source=claude-code&sort=turns&order=asc&outcome=success", "light", 1280),
    ("skill", "/skills/ticket-triage?half_life=5", "light", 1280),
    ("jobs", "/jobs", "light", 1280),
    ("failures", "/failures", "light", 1280),
    ("templates", "/templates", "light", 1280),
    ("experiments", "/experiments", "light", 1280),
    ("phone", "/", "dark", 390),
)


def main() -> None:
    program, why = find_chromium()
    if program is None:
        sys.exit(why)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = serving.make_home(Path(folder))
        # a demo does not watch the agents' folders, but the pictures are of a page that is live
        settings = home / "config.toml"
        settings.write_text(settings.read_text().replace("auto_import = false\n", ""))
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        # pages name the command as people type it, not this script's Python
        os.environ[TYPED] = "relight"
        with serving.serve(home, HOME=f"{folder}/nobody") as (address, _):
            for name, path, scheme, width in PICTURES:
                picture = take(browser, address.rstrip("/"), path, scheme=scheme, width=width)
                (IMAGES / f"{name}.png").write_bytes(shrink(picture))
        browser.close()


def take(browser: Browser, address: str, path: str, *, scheme: Scheme, width: int) -> bytes:
    with visiting(browser, address, width=width, scheme=scheme) as visit:
        page = visit.open(path)
        if width > 1000:
            page.set_viewport_size({"width": width, "height": HEIGHT})
        if path.startswith("/sessions?"):
            _open_session(page)
        page.locator("#live.on").wait_for()
        return page.screenshot()


def _open_session(page: Page) -> None:
    """The first of the list, scrolled to its steps, with one of its calls opened."""
    page.locator("tbody a[data-row]").first.click()
    page.locator("#steps").evaluate("one => window.scrollTo(0, one.offsetTop - 70)")
    page.locator("li.call summary").nth(1).click()
    page.mouse.move(5, 5)


def shrink(picture: bytes) -> bytes:
    """The same PNG with a palette of 256 colours."""
    width, height, size, rows = read_rows(picture)
    pixels = [row[at : at + 3] for row in rows for at in range(0, width * size, size)]
    palette, places = choose_palette(Counter(pixels))
    indexes = bytes(places[pixel] for pixel in pixels)
    lines = b"".join(b"\0" + indexes[at : at + width] for at in range(0, len(indexes), width))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(palette)),
            _chunk(b"IDAT", zlib.compress(lines, 9)),
            _chunk(b"IEND", b""),
        ]
    )


def choose_palette(counts: Counter[bytes]) -> tuple[list[bytes], dict[bytes, int]]:
    """256 colours and the nearest of them for each: the frequent ones, and those missed most."""
    palette = [colour for colour, _ in counts.most_common(FREQUENT)]
    nearest = {colour: _find_nearest(palette, colour) for colour in counts}
    while len(palette) < min(256, len(counts)):
        missed = max(counts, key=lambda one: nearest[one][0] * counts[one] ** 0.5)
        palette.append(missed)
        for colour, (far, _) in nearest.items():
            away = _measure(missed, colour)
            if away < far:
                nearest[colour] = (away, len(palette) - 1)
    return palette, {colour: place for colour, (_, place) in nearest.items()}


def _find_nearest(palette: list[bytes], colour: bytes) -> tuple[int, int]:
    return min((_measure(one, colour), place) for place, one in enumerate(palette))


def _measure(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def read_rows(picture: bytes) -> tuple[int, int, int, list[bytes]]:
    """Width, height, bytes a pixel and the rows of a PNG such as browsers write."""
    width, height, depth, colour = struct.unpack(">IIBB", picture[16:26])
    assert depth == 8
    size = {2: 3, 6: 4}[colour]
    data = b"".join(
        picture[found.end() : found.end() + struct.unpack(">I", found[1])[0]]
        for found in re.finditer(rb"(?s)(.{4})IDAT", picture)
    )
    raw, length = zlib.decompress(data), width * size
    rows, above = [], bytearray(length)
    for start in range(0, len(raw), length + 1):
        row = bytearray(raw[start + 1 : start + 1 + length])
        _undo(raw[start], row, above, size)
        rows.append(bytes(row))
        above = row
    return width, height, size, rows


def _undo(kind: int, row: bytearray, above: bytearray, size: int) -> None:
    """Take back what a row was filtered with, as the format says."""
    if not kind:
        return
    for at in range(len(row)):
        left = row[at - size] if at >= size else 0
        up = above[at]
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        else:
            corner = above[at - size] if at >= size else 0
            whole = left + up - corner
            guess = min((left, up, corner), key=lambda one: abs(whole - one))
        row[at] = (row[at] + guess) & 255


if __name__ == "__main__":
    main()
