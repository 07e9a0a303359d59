"""The files of `deploy/` start what they say, with options that there are."""

import re
import shlex
from pathlib import Path

import pytest

from relight.cli.serve import command

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
