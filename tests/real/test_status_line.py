"""Claude Code itself with Relight's status line: what it shows, and what it reports."""

import json
import os
import pty
import re
import select
import signal
import time
from pathlib import Path
from typing import Any

import build
from clients import Claude
from scripted import Reply
from scripted_agents import AgentServer

WAIT_SECONDS = 90


class Screen:
    """The interactive program on a terminal; its output is read as it comes."""

    def __init__(self, claude: Claude, *words: str) -> None:
        self.text = ""
        environment = {**claude.environment, "TERM": "xterm-256color", "COLUMNS": "160"}
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(claude.home)
            os.execve(claude.program, [str(claude.program), *words], environment)

    def wait_for(self, pattern: str) -> None:
        """Wait for a text without its spaces: the program moves the cursor across them."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not re.search(pattern, plain(self.text)):
            assert time.monotonic() < deadline, plain(self.text)[-3000:]
            self.read()

    def read(self) -> None:
        ready, _, _ = select.select([self.terminal], [], [], 0.2)
        if ready:
            self.text += os.read(self.terminal, 1 << 16).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


def plain(text: str) -> str:
    """The text of a screen without spaces, and without what moves the cursor or colours it."""
    text = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-_])", "", text)
    return re.sub(r"\s", "", text)


def answer(request: dict[str, Any]) -> Reply:
    resets = int(time.time()) // 60 * 60 + 7200
    headers = {
        "anthropic-ratelimit-unified-status": "allowed",
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-reset": str(resets),
        "anthropic-ratelimit-unified-5h-utilization": "0.42",
        "anthropic-ratelimit-unified-5h-reset": str(resets),
        "anthropic-ratelimit-unified-7d-utilization": "0.18",
        "anthropic-ratelimit-unified-7d-reset": str(resets + 3 * 86400),
    }
    usage = {"prompt_tokens": 12000, "completion_tokens": 300, "total_tokens": 12300}
    return Reply("The rounding is right now.", usage=usage, headers=headers)


def prepare(claude: Claude) -> None:
    """Answer the questions that the program asks a new user, who has a login with a plan."""
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    settings = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "projects": {str(claude.home): trusted},
    }
    (claude.home / ".claude.json").write_text(json.dumps(settings))
    del claude.environment["ANTHROPIC_API_KEY"]
    claude.environment["CLAUDE_CODE_OAUTH_TOKEN"] = "sk-ant-oat01-scripted"


def test_claude_code_shows_the_line_and_its_limits_are_recorded(tmp_path: Path) -> None:
    with AgentServer(answer) as server:
        claude = Claude(tmp_path, server.root_url)
        prepare(claude)
        claude.relight("statusline", "--install", "--yes")
        screen = Screen(claude)
        try:
            screen.wait_for(r"\$0\.00")
            screen.type("Is the rounding right?\r")
            screen.wait_for("Theroundingisrightnow")
            screen.wait_for(r"5h42%\dh\d\dm·week18%·ctx1%")
        finally:
            screen.close()
        build.wait_for(lambda: read_reported(claude) == {"5h": 42.0, "week": 18.0})
        claude.relight("statusline", "--remove", "--yes")
    assert not (tmp_path / ".claude" / "settings.json").exists()


def read_reported(claude: Claude) -> dict[str, float]:
    """The windows that the next import has recorded from the status line."""
    claude.relight("import")
    windows = json.loads(claude.relight("limits", "--json"))["windows"]
    return {one["kind"]: one["used_percent"] for one in windows if one["basis"] == "reported"}
