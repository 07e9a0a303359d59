"""The real command in a separate process, as a person or a script runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Run = subprocess.CompletedProcess[str]


def run_relight(environment: Mapping[str, str], *words: str, given: str | None = None) -> Run:
    return subprocess.run(
        [sys.executable, "-m", "relight", *words],
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


class Cli:
    """`relight` with a separate home, whose days are UTC."""

    def __init__(self, home: Path) -> None:
        self.home = home
        store = home / "relight"
        store.mkdir()
        (store / "config.toml").write_text('timezone = "UTC"\n')
        own = {"HOME": str(home), "RELIGHT_HOME": str(store), "COLUMNS": "80"}
        self.environment = {**os.environ, **own}
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME"):
            self.environment.pop(name, None)

    def run(self, *words: str, given: str | None = None) -> Run:
        return run_relight(self.environment, *words, given=given)

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
