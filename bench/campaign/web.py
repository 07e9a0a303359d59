"""Strangers at the dashboard: half requests, slow clients, foreign names, hostile text.

`relight serve` runs as a process of its own; everything is on this machine.
"""

import http.client
import json
import os
import random
import re
import selectors
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlsplit

from bench.campaign.hostile import MARKUP
from bench.campaign.score import Clock, Score
from bench.campaign.stores import make_home
from bench.measure import relight
from relight.intake.recorder import record
from relight.reports.labels import label_session
from relight.reports.sessions import find_session
from relight.store import open_store
from relight.web.api import QUERIES
from relight.web.pages import PAGES
from relight.work.jobs.job import JobDefinition
from relight.work.jobs.registry import add_job

TOKEN = "a-token-of-the-campaign-4711"
ANSWER_SECONDS = 30.0
HALF_REQUESTS = (
    b"",
    b"G",
    b"GET / HTTP/1.1\r\nHost: ",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: y\r\n",
    b"POST /api/import HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{",
    b"\x16\x03\x01\x02\x00" * 20,
)
HOSTS = (
    "strange.invalid",
    "127.0.0.1.strange.invalid",
    "localhost.strange.invalid",
    "0",
    "[::2]",
    "",
)
ALLOWED_TAGS_MISSING = {"base", "object", "embed", "iframe", "applet"}


def run(folder: Path, dice: random.Random, clock: Clock) -> Score:
    score = Score("web", "hung", "leaked")
    home = make_hostile_home(folder / "home")
    with serving(home) as port:
        check_strangers(score, port)
        check_pages(score, port, dice, clock.part(0.4))
        check_half_requests(score, port, dice, clock.part(0.5))
    with serving(home, RELIGHT_TOKEN=TOKEN) as port:
        check_tokens(score, port)
    return score


def make_hostile_home(home: Path) -> Path:
    """A home whose names, titles, arguments and results are markup."""
    make_home(home)
    with open_store(home) as store:
        for number, text in enumerate(MARKUP):
            with record(store, f"s{number} {text}", model=f"m {text}", project=f"/p/{text}") as rec:
                rec.message("user", f"Do {text} now")
                call = {"id": "c1", "type": "function"}
                function = {"name": f"tool {text}", "arguments": json.dumps({"command": text})}
                message = {"role": "assistant", "content": text}
                message["tool_calls"] = [{**call, "function": function}]  # type: ignore[assignment]
                rec.turn(input_tokens=5, output_tokens=1, message=message)
                rec.tool_call(f"tool {text}", {"command": text}, text, call_id="c1", exit_code=1)
            label_session(store, find_session(store, rec.name), "failure", why=text)
            fields = {"name": f"job{number}", "schedule": "every 1d", "prompt": text}
            job = JobDefinition(**fields, runner="command", command=["true", text])  # type: ignore[arg-type]
            add_job(store, job, now=int(time.time() * 1000))
    return home


@contextmanager
def serving(home: Path, **variables: str) -> Iterator[int]:
    """`relight serve`: its port."""
    environment = {name: value for name, value in os.environ.items() if name != "RELIGHT_TOKEN"}
    child = subprocess.Popen(
        relight("serve", "--home", str(home), "--port", "0"),
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert child.stdout is not None
        found = re.search(r"http://\S+", child.stdout.readline())
        assert found is not None
        yield urlsplit(found[0]).port or 0
    finally:
        child.terminate()
        child.communicate(timeout=60)


def fetch(
    port: int,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[int, dict[str, str], str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)) as client:
        client.request(method, path, body, dict(headers or {}))
        answer = client.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, named, answer.read().decode("utf-8", "replace")


class Markup(HTMLParser):
    """What a browser would run or load of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ALLOWED_TAGS_MISSING or (tag == "script" and not dict(attrs).get("src")):
            self.found.append(tag)
        for name, value in attrs:
            is_link = name in ("href", "src", "action", "formaction")
            if name.startswith("on") or (name == "http-equiv" and value == "refresh"):
                self.found.append(f"{tag} {name}")
            elif is_link and re.match(r"\s*(?:javascript:|//|https?:|x$)", value or ""):
                self.found.append(f"{tag} {name}={value}")


def find_active(page: str) -> list[str]:
    """Return what of a page would run, load from elsewhere, or send the reader away."""
    parser = Markup()
    parser.feed(page)
    return parser.found


def check_pages(score: Score, port: int, dice: random.Random, clock: Clock) -> None:
    """Every page with hostile names in its path and parameters, and every page that lists them."""
    names = [f"relight:s{number} {text}" for number, text in enumerate(MARKUP)]
    jobs = [f"job{number}" for number in range(len(MARKUP))]
    paths = [page.path for page in PAGES] + [query.path for query in QUERIES]
    first = [path for path in paths if "{" not in path]
    for number in clock.rounds():
        path = first[number] if number < len(first) else dice.choice(paths)
        path = path.replace("{text}", "title")
        path = re.sub(r"\{[^}]+\}", lambda _: quote(dice.choice([*names, *jobs, *MARKUP])), path)
        words = {"search": dice.choice(MARKUP), "model": f"m {dice.choice(MARKUP)}"}
        query = (
            ""
            if number < len(first)
            else f"?{'&'.join(f'{k}={quote(v)}' for k, v in words.items())}"
        )
        score.counts["tried"] += 1
        try:
            status, headers, text = fetch(port, f"{path}{query}")
        except OSError as error:
            score.add("hung", f"{path}: {type(error).__name__}")
            continue
        is_page = headers.get("content-type", "").startswith("text/html")
        if status >= 500:
            score.add("leaked", f"{path}{query} is answered {status}")
        if is_page and (found := find_active(text)):
            score.add("leaked", f"{path}{query} holds {found[:3]}")
        if is_page and "default-src" not in headers.get("content-security-policy", ""):
            score.add("leaked", f"{path} has no policy for its content")
        if not is_page and headers.get("x-content-type-options") != "nosniff":
            score.add("leaked", f"{path} may be taken for a page")


def check_strangers(score: Score, port: int) -> None:
    """Foreign names of this machine, foreign pages, and requests without the page's secret."""
    own = f"127.0.0.1:{port}"
    for host in HOSTS:
        status, _, text = fetch(port, "/", headers={"Host": f"{host}:{port}" if host else ""})
        score.check(status >= 400 and "relight:s" not in text, "leaked", f"Host {host!r}: {status}")
    _, _, page = fetch(port, "/")
    shown = re.search(r'name="relight-secret" content="([^"]+)"', page)
    secret = shown[1] if shown else ""
    body = json.dumps({"outcome": "success"}).encode()
    forged: list[dict[str, str]] = [
        {},
        {"X-Relight-Secret": "wrong"},
        {"X-Relight-Secret": secret, "Origin": "http://strange.invalid"},
        {"X-Relight-Secret": secret, "Origin": "null"},
        {"X-Relight-Secret": secret, "Sec-Fetch-Site": "cross-site"},
    ]
    for headers in forged:
        given = {"Content-Type": "application/json", "Host": own, **headers}
        path = "/api/jobs/job0/pause"
        status, _, _ = fetch(port, path, method="POST", headers=given, body=body)
        score.check(status >= 400, "leaked", f"POST with {sorted(headers)} is answered {status}")


def check_half_requests(score: Score, port: int, dice: random.Random, clock: Clock) -> None:
    """Many requests that do not end: whole ones are answered meanwhile, and the others closed."""
    for number in clock.rounds(most=2):
        clients = []
        for _ in range(300):
            client = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
            client.sendall(dice.choice(HALF_REQUESTS))
            clients.append(client)
        for _ in range(5):
            score.counts["tried"] += 1
            with score.within(ANSWER_SECONDS, "a page beside half requests"):
                try:
                    fetch(port, "/api/sessions")
                except OSError as error:
                    score.add("hung", f"beside half requests: {type(error).__name__}")
        score.counts["tried"] += len(clients)
        open_ones = wait_closed(clients) if number == 0 else 0
        score.add("hung", "half requests are never closed", open_ones)
        for client in clients:
            client.close()


def wait_closed(clients: list[socket.socket], *, seconds: float = 60.0) -> int:
    """Wait until the server has closed the connections; return how many are still open."""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for client in clients:
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < deadline:
            for key, _ in selector.select(timeout=1.0):
                client = key.fileobj  # type: ignore[assignment]
                try:
                    is_open = bool(client.recv(65_536))
                except OSError:
                    is_open = False
                if not is_open:
                    selector.unregister(client)
        return len(selector.get_map())


def check_tokens(score: Score, port: int) -> None:
    """With a token, nothing is shown without it, and wrong ones are slowed down."""
    for path in ("/", "/sessions", "/api/sessions", "/api/doctor", f"/api/sessions?token={TOKEN}"):
        status, _, text = fetch(port, path)
        is_closed = status in (303, 401, 403) or "relight:s" not in text
        score.check(is_closed, "leaked", f"{path} without a token: {status}")
    status, _, _ = fetch(port, "/api/sessions", headers={"Authorization": f"Bearer {TOKEN}"})
    score.check(status == 200, "hung", f"the right token is answered {status}")
    for wrong in ("", "x", TOKEN[:-1], f"{TOKEN}x"):
        status, _, _ = fetch(port, "/api/sessions", headers={"Authorization": f"Bearer {wrong}"})
        score.check(status in (401, 403, 429), "leaked", f"a wrong token is answered {status}")
