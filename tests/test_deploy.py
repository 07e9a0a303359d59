"""The files of `deploy/` start what they say, with options that there are."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import postgres
import serving
from relight.cli import COMMANDS
from relight.cli.serve import command
from relight.config import read_config
from terminal import run_relight

DEPLOY = Path(__file__).parent.parent / "deploy"
LINES = {
    "relight-team.service": r"^ExecStart=\S+/relight serve (.+)$",
    "compose.yaml": r"^    command: serve (.+)$",
}


NAME = "relight.example.org"


def read_words(file: str) -> list[str]:
    """Return the words after `relight serve` that a file starts it with."""
    found = re.search(LINES[file], (DEPLOY / file).read_text(), re.MULTILINE)
    assert found is not None
    return shlex.split(found[1].replace("${NAME:?the name of the server}", NAME))


def read_check() -> str:
    """Return the program by which Docker checks the server's health."""
    found = re.search(r"^        - (import urllib.+)$", (DEPLOY / "compose.yaml").read_text(), re.M)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("file", LINES)
def test_the_server_is_started_with_options_that_it_has(file: str) -> None:
    words = read_words(file)
    context = command.make_context("serve", words)
    assert context.params["is_team"] is True
    assert context.params["tls_proxy"] == NAME
    assert context.params["no_watch"] is True


def test_the_store_on_postgresql_is_migrated_before_it_is_served(tmp_path: Path) -> None:
    text = (DEPLOY / "compose.postgres.yaml").read_text()
    assert re.search(r"^    command: (\w+)$", text, re.MULTILINE)[1] == "migrate"  # type: ignore[index]
    assert "migrate" in COMMANDS
    assert "condition: service_completed_successfully" in text
    # both services have the settings, and their address the service's name
    assert text.count("./postgres.toml:/home/relight/data/config.toml") == 2
    shutil.copy(DEPLOY / "postgres.toml", tmp_path / "config.toml")
    url = read_config(tmp_path).store.url
    assert url == "postgresql://relight@postgres/relight"
    assert re.search(r"^  postgres:$", text, re.MULTILINE)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
@pytest.mark.parametrize("file", LINES)
def test_what_the_files_start_is_healthy_and_answers_its_members(
    tmp_path: Path, file: str, engine: str
) -> None:
    """The commands run as plain processes, without their containers."""
    environment = {**os.environ, "RELIGHT_HOME": str(tmp_path)}
    if engine == "postgres":
        url = postgres.find_server().make_empty()
        settings = (DEPLOY / "postgres.toml").read_text()
        (tmp_path / "config.toml").write_text(
            settings.replace("postgresql://relight@postgres/relight", url)
        )
        assert "made a new store" in run_relight(environment, "migrate").stdout
    words = [word if word != "7717" else "0" for word in read_words(file)]
    with serving.serve(tmp_path, *words) as (address, _):
        port = address.rstrip("/").rpartition(":")[2]
        check = read_check().replace("7717", port)
        subprocess.run([sys.executable, "-c", check], check=True)
        token = run_relight(environment, "member", "add", "anna").stdout.strip()
        # as the proxy sends it
        headers = {"Host": NAME, "X-Forwarded-Proto": "https", "Authorization": f"Bearer {token}"}
        asked = Request(f"http://127.0.0.1:{port}/api/overview", headers=headers)
        with urlopen(asked, timeout=60) as answer:
            assert json.load(answer)["total"]["sessions"] == 0


def test_behind_a_proxy_in_another_container_a_cookie_is_for_encrypted_connections_only(
    tmp_path: Path,
) -> None:
    words = [word if word != "7717" else "0" for word in read_words("compose.yaml")]
    # no address but this one is believed by itself
    believed = "10.0.0.1"
    with serving.serve(tmp_path, *words, FORWARDED_ALLOW_IPS=believed) as (address, _):
        port = address.rstrip("/").rpartition(":")[2]
        home = {**os.environ, "RELIGHT_HOME": str(tmp_path)}
        token = run_relight(home, "member", "add", "anna").stdout.strip()
        headers = {"Host": NAME, "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        with closing(HTTPConnection("127.0.0.1", int(port), timeout=60)) as connection:
            connection.request("POST", "/login", f"token={token}", headers)
            found = connection.getresponse()
            assert found.status == 303
            assert "secure" in found.headers["Set-Cookie"].lower()
            found.read()


def test_an_image_is_made_without_what_is_installed_or_kept_beside_the_source() -> None:
    ignored = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    assert {".venv", ".tools", ".git"} <= set(ignored)
    assert not {"src", "README.md", "pyproject.toml", "LICENSE", "NOTICE"} & set(ignored)
