"""`relight serve`: its address first, on this machine alone unless a token is set."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import build
import serving

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    build.write_claude(folder, build.claude_session())
    with build.open_home(folder) as store:
        build.import_home(store, folder)
        return store.config.home


def run(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "relight", "serve", "--home", str(home), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_first_line_is_an_address_that_answers(home: Path) -> None:
    with serving.serve(home) as (address, _):
        assert urlsplit(address).hostname == "127.0.0.1"
        with urllib.request.urlopen(address) as answer:
            assert b"<title>Overview" in answer.read()
        with urllib.request.urlopen(f"{address}api/sessions?since=all") as answer:
            assert len(json.loads(answer.read())["sessions"]) == 1


def test_a_home_that_is_not_there_yet_is_served_empty(tmp_path: Path) -> None:
    home = tmp_path / "new"
    running = serving.serve(home, "--home", str(home))
    with running as (address, _), urllib.request.urlopen(address) as answer:
        assert f"relight --home {home} import".encode() in answer.read()


def test_the_second_line_says_how_to_end_it(home: Path) -> None:
    command = [sys.executable, "-m", "relight", "serve", "--home", str(home), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(2)]
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=120)
    assert lines[0].startswith(b"http://127.0.0.1:")
    assert lines[1] == b"Ctrl-C ends it\n"
    assert child.returncode == 130


def test_open_opens_the_address_in_the_browser(home: Path, tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    os.mkfifo(opened)
    browser.write_text(f'#!/bin/sh\necho "$1 ($RELIGHT_COMMAND)" > "{opened}"\n')
    browser.chmod(0o755)
    command = "./dev run"
    with serving.serve(home, "--open", BROWSER=str(browser), RELIGHT_COMMAND=command) as (
        address,
        _,
    ):
        # programs that it starts do not inherit the name of the command
        assert opened.read_text() == f"{address} ()\n"


def test_pages_name_the_command_that_started_the_server(tmp_path: Path) -> None:
    home = tmp_path / "new"
    given = ("--home", str(home))
    with serving.serve(home, *given, RELIGHT_COMMAND="./dev run") as (address, _):
        with urllib.request.urlopen(address) as answer:
            assert b"<code>./dev run --home " in answer.read()
        with pytest.raises(urllib.error.HTTPError) as found:
            urllib.request.urlopen(f"{address}sessions/codex:none")
        assert b"`./dev run " in found.value.read()


def test_a_port_that_is_taken_is_reported_with_what_to_do(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = run(home, "--port", str(taken.getsockname()[1]))
    assert told.returncode == 1
    assert "Address already in use\n" in told.stderr
    assert "hint: name another with --port" in told.stderr


def write_token(folder: Path, token: str, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(f"{token}\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--host", "0.0.0.0"], "no token is set"),
        (["--host", "0.0.0.0", "--token-file", "short"], "shorter than 16 characters"),
        (["--host", "nosuch.invalid", "--token-file", TOKEN], "not an address of this machine"),
    ],
)
def test_other_machines_are_not_served_by_accident(
    home: Path, tmp_path: Path, words: list[str], error: str
) -> None:
    for number, word in enumerate(words):
        if number and words[number - 1] == "--token-file":
            words = [*words[:number], str(write_token(tmp_path, word)), *words[number + 1 :]]
    told = run(home, *words, "--port", "0")
    assert (told.returncode, told.stdout) == (1, "")
    assert error in told.stderr


def test_with_a_token_other_machines_are_served_who_have_it(home: Path) -> None:
    with serving.serve(home, "--host", "0.0.0.0", RELIGHT_TOKEN=TOKEN) as (address, _):
        port = urlsplit(address).port
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {TOKEN}"}, 200)):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/api/report", headers=headers)
            answer = connection.getresponse()
            assert (answer.status, TOKEN.encode() in answer.read()) == (status, False)
            connection.close()


def test_the_token_may_stand_in_a_file_for_its_owner_alone(home: Path, tmp_path: Path) -> None:
    path = write_token(tmp_path, TOKEN)
    with serving.serve(home, "--token-file", str(path)) as (address, _):
        for token, status in (("", 401), (TOKEN, 200)):
            connection = http.client.HTTPConnection(urlsplit(address).netloc)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request("GET", "/api/live", headers=headers)
            assert connection.getresponse().status == status
            connection.close()
    told = run(home, "--token-file", str(write_token(tmp_path, TOKEN, 0o644)))
    assert (told.returncode, "hint: run: chmod 600" in told.stderr) == (1, True)


def test_a_token_is_not_taken_from_the_command_line(home: Path) -> None:
    told = run(home, "--token", TOKEN)
    assert (told.returncode, "No such option" in told.stderr) == (2, True)


def test_half_requests_without_end_keep_nobody_out_and_fill_no_log(
    home: Path, tmp_path: Path
) -> None:
    """With 100 descriptors, 300 clients that never finish their request."""
    errors = tmp_path / "errors"
    few = ["prlimit", "--nofile=100"]
    with serving.serve(home, through=few, errors=errors) as (address, _):
        half = [
            socket.create_connection(("127.0.0.1", urlsplit(address).port or 0)) for _ in range(300)
        ]
        for one in half:
            with suppress(OSError):  # the server has closed some
                one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with urllib.request.urlopen(f"{address}api/live", timeout=60) as answer:
            assert answer.status == 200
        for one in half:
            one.close()
    assert errors.read_text().count("\n") <= 1


def test_the_token_may_stand_in_the_settings(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "config.toml").write_text(f'[serve]\ntoken = "{TOKEN}"\nhosts = ["box.lan"]\n')
    with serving.serve(folder) as (address, _):
        connection = http.client.HTTPConnection(urlsplit(address).netloc)
        connection.request("GET", "/api/live", headers={"Host": "box.lan"})
        assert connection.getresponse().status == 401
        connection.close()


def test_serving_loads_nothing_that_it_does_not_need(home: Path) -> None:
    """What a server holds all day: no prices, no HTTP client, no tables for terminals."""
    script = """
import json, sys
from starlette.types import Message
from relight.web.app import create_app
import asyncio

app = create_app(sys.argv[1])

async def ask(path):
    async def receive():
        return {"type": "http.request", "body": b""}
    async def send(message):
        assert message.get("status", 200) == 200, message
    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"",
             "headers": headers, "server": ("localhost", 1), "scheme": "http"}
    await app(scope, receive, send)

for path in ("/", "/sessions", "/failures", "/skills", "/jobs", "/templates", "/api/report"):
    asyncio.run(ask(path))
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(home)], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    unwanted = {"genai_prices", "httpx2", "rich", "pydantic", "tenacity", "click", "cronsim"}
    assert not loaded & unwanted
