"""Pages as text, whatever they claim to be, and none from the user's own network."""

import itertools
import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from relight.models import background
from relight.work.agent import page_text
from relight.work.agent.context import ToolContext, ToolError, fit_json, make_context
from relight.work.agent.fetch import REDIRECTS, TEXT_BYTES, is_public, send_to
from relight.work.agent.page_text import decode_page, read_html
from relight.work.agent.tools import TOOLS, execute_call
from scripted import Reply, Server

PIECE = page_text._PIECE


def fetch(url: str, place: ToolContext) -> dict[str, Any]:
    result = execute_call(TOOLS, "web_fetch", json.dumps({"url": url}), context=place)
    told: dict[str, Any] = json.loads(result.text)
    return told


def open_place(folder: Path, *, allows_private: bool = True) -> ToolContext:
    return make_context(folder, timeout_seconds=20, allows_private=allows_private)


def html(page: bytes, charset: str = "utf-8") -> Reply:
    return Reply(body=page, headers={"Content-Type": f"text/html; charset={charset}"})


def test_a_page_is_fetched_as_text(tmp_path: Path) -> None:
    page = b"<html><script>x()</script><p>Hello <b>there</b></p></html>"
    with Server([], pages={"/page": html(page), "/plain": Reply(body=b'{"a": 1}')}) as server:
        told = fetch(server.page("/page"), open_place(tmp_path))
        plain = fetch(server.page("/plain"), open_place(tmp_path))
        gone = fetch(server.page("/gone"), open_place(tmp_path))
    assert (told["text"], told["status_code"], told["truncated"]) == ("Hello there", 200, False)
    assert plain["text"] == '{"a": 1}'
    assert gone["status_code"] == 404


@pytest.mark.parametrize(
    "charset", ["klingon", "undefined", "hex", "punycode", "unicode_escape", "utf-7", "", "\x7f"]
)
def test_a_charset_that_is_none_does_not_stop_the_page(tmp_path: Path, charset: str) -> None:
    with Server([], pages={"/page": html("<p>Grüße \\ud800".encode(), charset)}) as server:
        told = fetch(server.page("/page"), open_place(tmp_path))
    assert told["text"] == "Grüße \\ud800"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a <![foo[ b ]]> c", "a c"),
        ("a <![ <![CDATA[ b ]]> c", "a c"),
        ("a <![if IE]> b <![endif]> c", "a b c"),
        ("<p>open <b>for ever", "open for ever"),
        ("<svg><p>silent</svg>loud", "loud"),
        ("no end <", "no end <"),
        ("a < b <!-- <p>x</p> --> c<!-->d", "a < b cd"),
        ("x<SCRIPT>if (a<b) '</p>'</Script >y<style>a > b", "xy"),
        ("<a title='>' href=x/>q</a><svg/>r<?php x ?>s</ >t", "qrst"),
        (
            "&lt;&#x41;&#066;&#" + "1" * 9000 + ";&#" + "0" * 9000 + "67;",
            "<AB\N{REPLACEMENT CHARACTER}C",
        ),
    ],
)
def test_markup_of_any_kind_is_read(page: str, text: str) -> None:
    assert read_html(page).text == text


UNCLOSED = ["<a", "<a ", "<a b='", '<a b="', "<a=", "</a", "<!--", "<!--a--", "<![", "<!", "<?"]
UNCLOSED += ["<script>", "<script></script", "<style>a", "<svg>", "<", "&#1", "<p>", "\0"]


@pytest.mark.parametrize("piece", UNCLOSED)
def test_the_work_on_a_page_grows_as_the_page_does(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No character is read by two steps, whatever is left unclosed."""
    page, steps = piece * 5000, list[tuple[int, int]]()

    class Counting:
        def match(self, text: str, position: int) -> "re.Match[str] | None":
            found = PIECE.match(text, position)
            if found:
                steps.append(found.span())
            return found

    monkeypatch.setattr(page_text, "_PIECE", Counting())
    read_html(page)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(steps))
    assert all(start < end for start, end in steps)


@pytest.mark.parametrize("piece", UNCLOSED)
def test_a_step_on_an_unclosed_page_does_not_go_back(piece: str) -> None:
    # a step that went back for each of a million characters would take hours
    read_html(piece * (1_000_000 // len(piece)))


def test_the_reading_of_a_page_ends_with_the_run(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    pieces = 0

    def check() -> None:
        nonlocal pieces
        pieces += page_text.PIECES
        if pieces == 3 * page_text.PIECES:
            place.halt.end_all()
        place.check_time()

    with pytest.raises(ToolError, match="over"):
        read_html("<p>" * 100_000, check)
    assert pieces == 3 * page_text.PIECES
    with pytest.raises(ToolError, match="over"):
        make_context(tmp_path, deadline=time.monotonic()).check_time()


@pytest.mark.parametrize("kind", ["text/html", "application/octet-stream"])
@pytest.mark.parametrize("byte", [b"\0", b"\xff", b'"', b"a"])
def test_a_result_is_no_longer_than_its_limit(tmp_path: Path, kind: str, byte: bytes) -> None:
    reply = Reply(body=byte * 3_000_000, headers={"Content-Type": kind})
    with Server([], pages={"/": reply}) as server:
        arguments = json.dumps({"url": server.page("/")})
        result = execute_call(TOOLS, "web_fetch", arguments, context=open_place(tmp_path))
    assert TEXT_BYTES - 10 <= len(result.text.encode()) <= TEXT_BYTES + 1000
    assert json.loads(result.text)["truncated"]


def test_a_text_is_cut_where_its_json_is_too_long() -> None:
    assert fit_json("a" * 10, 10) == "a" * 10
    assert fit_json("\0" * 10, 13) == "\0\0"
    assert fit_json("aä\0b", 8) == "aä"
    assert fit_json("\0", 5) == ""


def test_text_is_read_in_its_own_charset() -> None:
    assert decode_page("Grüße".encode("latin-1"), "iso-8859-1") == "Grüße"
    assert decode_page("雪".encode("shift_jis"), "Shift_JIS") == "雪"


PRIVATE = [
    "http://127.0.0.1:{port}/",
    "http://localhost:{port}/",
    "http://127.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0:{port}/",
    "http://[::1]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://192.168.1.1/",
]


@pytest.mark.parametrize("url", PRIVATE)
def test_pages_of_the_users_own_network_are_refused_by_any_name(tmp_path: Path, url: str) -> None:
    with Server([], pages={"/": Reply(body=b"secret")}) as server:
        port = server.page("").rpartition(":")[2]
        told = fetch(url.format(port=port), open_place(tmp_path, allows_private=False))
        assert server.requests == []
    assert "not a public address" in told["error"]
    assert "--allow-private-fetch" in told["hint"]


def test_a_redirect_is_followed_where_it_may_lead_and_refused_where_not(tmp_path: Path) -> None:
    pages = {
        "/start": Reply(status=302, headers={"Location": "/end"}),
        "/end": html(b"<p>arrived"),
        "/round": Reply(status=302, headers={"Location": "/round"}),
        "/file": Reply(status=302, headers={"Location": "file:///etc/passwd"}),
    }
    with Server([], pages=pages) as server:
        place = open_place(tmp_path)
        told = fetch(server.page("/start"), place)
        assert (told["text"], told["url"]) == ("arrived", server.page("/end"))
        assert "more than 10 redirects" in fetch(server.page("/round"), place)["error"]
        assert "cannot fetch" in fetch(server.page("/file"), place)["error"]
        assert sum(one.path == "/round" for one in server.requests) == REDIRECTS


def test_a_name_that_changes_its_address_after_the_check_gains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lookup gives a public address, each later one this machine."""
    # a sinkhole of the internet's own, which answers nobody's pages
    found = iter(["192.175.48.1"])
    lookups = []

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        lookups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(found, "127.0.0.1"), port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    place = make_context(tmp_path, deadline=time.monotonic() + 0.5)
    with Server([], pages={"/": Reply(body=b"secret")}) as server:
        port = server.page("").rpartition(":")[2]
        told = fetch(f"http://rebinding.example.com:{port}/", place)
        assert server.requests == []
    assert "error" in told
    assert [name for name in lookups if "rebinding" in name] == ["rebinding.example.com"]


def test_a_page_is_requested_from_the_address_given_under_its_own_name() -> None:
    async def request(url: str) -> int:
        response = await send_to("127.0.0.1", httpx2.URL(url))
        try:
            return response.status_code
        finally:
            await response.aclose()

    with Server([], pages={"/a?b=c": Reply(body=b"x")}) as server:
        port = server.page("").rpartition(":")[2]
        url = f"http://pages.example.com:{port}/a?b=c"
        assert background.run_coroutine(request(url)) == 200
        (logged,) = server.requests
    assert logged.headers["Host"] == f"pages.example.com:{port}"


@pytest.mark.parametrize(
    "host",
    [
        *("metadata.google.internal", "intranet.corp", "printer.local", "printer.local.", "router"),
        *("ROUTER.LAN", "nas.home", "wpad.localdomain", "a.localhost", "1.0.0.10.in-addr.arpa"),
        "only-the-proxy-knows.invalid",
    ],
)
@pytest.mark.parametrize("has_proxy", [True, False])
def test_no_proxy_is_asked_for_a_name_that_may_be_an_inner_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, has_proxy: bool
) -> None:
    with Server([], pages={f"http://{host}/": Reply(body=b"secret")}) as proxy:
        if has_proxy:
            monkeypatch.setenv("http_proxy", proxy.page(""))
            monkeypatch.setenv("no_proxy", "")
        told = fetch(f"http://{host}/", open_place(tmp_path, allows_private=False))
        assert proxy.requests == []
    assert "is not a public address" in told["error"] or "is not found" in told["error"]
    assert "--allow-private-fetch" in told.get("hint", "") or not has_proxy


def test_a_proxy_gets_a_name_whose_addresses_are_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        address = "192.175.48.1" if "example" in host else host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    url = "http://pages.example.com/"
    with Server([], pages={url: Reply(body=b"by proxy")}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.page(""))
        monkeypatch.setenv("no_proxy", "")
        told = fetch(url, open_place(tmp_path, allows_private=False))
    assert (told["text"], told["url"]) == ("by proxy", url)


def test_a_name_that_is_not_found_is_reported(tmp_path: Path) -> None:
    place = open_place(tmp_path, allows_private=False)
    assert "is not found" in fetch("http://nobody.invalid/", place)["error"]


def test_a_server_that_says_nothing_is_left_when_time_is_over(tmp_path: Path) -> None:
    place = make_context(tmp_path, allows_private=True, deadline=time.monotonic() + 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        told = fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/", place)
    assert "timed out" in told["error"]
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True),
        ("2606:4700:4700::1111", True),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("64:ff9b::a00:1", False),
        ("2002:c0a8:101::", False),
        ("255.255.255.255", False),
        ("64:ff9b:1::a00:1", False),
        ("::10.0.0.1", False),
        ("::8.8.8.8", False),
        ("::ffff:0:10.0.0.1", False),
        ("fec0::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("2001::1", False),
        ("192.88.99.1", False),
        ("192.88.98.1", True),
        ("64:ff9b::808:808", True),
    ],
)
def test_only_addresses_of_the_public_internet_are_public(address: str, expected: bool) -> None:
    assert is_public(address) is expected
