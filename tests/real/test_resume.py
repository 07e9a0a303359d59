"""The agents themselves continue a session by the line that Relight shows for it."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import build
from clients import CODEX_SETTINGS, find_codex, find_hermes, run_client
from relight.reports.transcript import read_transcript
from scripted import Reply, Server
from scripted_agents import AgentServer
from terminal import Screen

# single words, which a full-screen program draws whole
FIRST, SECOND, ANSWER = "xylophone", "glockenspiel", "Understood."
PROJECT = '[projects."{folder}"]\ntrust_level = "trusted"\n'
HERMES = """
model: {{provider: custom, base_url: "{url}", api_key: sk-scripted, default: scripted-model,
  context_length: 131072}}
agent: {{api_max_retries: 1}}
security: {{allow_lazy_installs: false, tirith_enabled: false}}
"""


def answer(_: dict[str, Any]) -> Reply:
    return Reply(ANSWER, usage={"prompt_tokens": 12, "completion_tokens": 3})


def make_environment(home: Path, program: Path, **more: str) -> dict[str, str]:
    """A separate home, with the agent's program on the path as its users have it."""
    bin_folder = home / "bin"
    bin_folder.mkdir()
    (bin_folder / program.name).symlink_to(program)
    return {
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "HOME": str(home),
        "RELIGHT_HOME": str(home / "relight"),
        **more,
    }


def run(environment: Mapping[str, str], folder: Path, *words: str) -> str:
    return run_client(words, environment, folder)


def find_line(environment: Mapping[str, str], home: Path) -> str:
    """The line that Relight shows for the newest session."""
    return run(environment, home, sys.executable, "-m", "relight", "resume", "last", "--print")


def list_sessions(home: Path) -> dict[str, str]:
    """Every session that is recorded, with all that was said in it."""
    with build.open_home(home) as store:
        build.import_home(store, home)
        rows = store.query("select id, source || ':' || key from session where parent_id is null")
        return {name: json.dumps(read_transcript(store, row).messages) for row, name in rows}


def remembers(server: Server) -> bool:
    """True if a request has the second prompt, and the first before it."""
    words = (FIRST.encode(), SECOND.encode())
    return any(all(word in one.raw for word in words) for one in list(server.requests))


@pytest.fixture(autouse=True)
def ended(tmp_path: Path) -> Iterator[None]:
    """End what an agent leaves running, such as Codex' server for its next start."""
    yield
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(tmp_path).encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def continue_session(environment: Mapping[str, str], home: Path, server: Server) -> None:
    """Run the line in a terminal, type the second prompt, and wait for its record."""
    (name,) = list_sessions(home)
    line = find_line(environment, home).strip()
    assert line.startswith(f"cd {home} && ")
    with Screen(["bash", "--norc", "-c", line], environment, Path("/")) as screen:
        screen.wait_for(lambda: ANSWER in screen.shown)
        screen.press(SECOND)
        screen.wait_for(lambda: SECOND in screen.shown)
        time.sleep(0.5)  # keys that come together are taken for a text that was pasted
        screen.press("\r")
        screen.wait_for(lambda: remembers(server))
        screen.wait_for(lambda: list_sessions(home)[name].count(ANSWER) == 2)
    said = list_sessions(home)
    assert list(said) == [name]
    assert said[name].index(FIRST) < said[name].index(SECOND)


def test_codex_continues_the_session(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    with AgentServer(answer) as server:
        text = CODEX_SETTINGS.format(url=server.base_url, provider="scripted")
        text += PROJECT.format(folder=tmp_path)
        (tmp_path / ".codex" / "config.toml").write_text(text)
        environment = make_environment(tmp_path, find_codex(), SCRIPTED_KEY="k")
        run(environment, tmp_path, "codex", "exec", "--skip-git-repo-check", FIRST)
        continue_session(environment, tmp_path, server)


def test_hermes_continues_the_session(tmp_path: Path) -> None:
    hermes = tmp_path / ".hermes"
    hermes.mkdir()
    with Server(answer) as server:
        (hermes / "config.yaml").write_text(HERMES.format(url=server.base_url))
        environment = make_environment(
            tmp_path, find_hermes(), HERMES_HOME=str(hermes), HERMES_DISABLE_LAZY_INSTALLS="1"
        )
        run(environment, tmp_path, "hermes", "-z", FIRST)
        continue_session(environment, tmp_path, server)
