"""The files of `deploy/` start what they say, with options that there are."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from relight.cli import COMMANDS
from relight.cli.serve import command
from relight.config import read_config

DEPLOY = Path(__file__).parent.parent / "deploy"
LINES = {
    "relight-team.service": r"^ExecStart=\S+/relight serve (.+)$",
    "compose.yaml": r"^    command: serve (.+)$",
}


@pytest.mark.parametrize(("file", "pattern"), LINES.items())
def test_the_server_is_started_with_options_that_it_has(file: str, pattern: str) -> None:
    found = re.search(pattern, (DEPLOY / file).read_text(), re.MULTILINE)
    assert found is not None
    words = shlex.split(found[1].replace("${NAME:?the name of the server}", "relight.example.org"))
    context = command.make_context("serve", words)
    assert context.params["is_team"] is True
    assert context.params["tls_proxy"] == "relight.example.org"
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
