"""`relight warm --install hermes` with the real Hermes: it loads the plugin, and then no more."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import build_warm
from clients import TOOLS, find_hermes
from relight.chat.blocks import TAG
from relight.warm.agents.hermes_package import find_python, read_packages
from scripted import Reply, Server

TASK = "The rounding of invoice totals is wrong, please fix the rounding in invoices"
CONFIG = """model: {{provider: custom, base_url: "{url}", api_key: sk-scripted,
  default: scripted-model, context_length: 131072}}
agent: {{api_max_retries: 1}}
security: {{allow_lazy_installs: false, tirith_enabled: false}}
"""


def copy_hermes(folder: Path) -> Path:
    """Hermes in a separate environment, which a test may change; its files are links."""
    program = find_hermes()
    subprocess.run(["cp", "-al", str(program.parent.parent), str(folder)], check=True)
    script = folder / "bin" / "hermes"
    lines = script.read_text().splitlines(keepends=True)
    script.unlink()
    script.write_text("".join([f"#!{folder}/bin/python\n", *lines[1:]]))
    script.chmod(0o755)
    return folder / "bin"


class Person:
    """Someone with a Hermes, a Relight, a uv and a separate home."""

    def __init__(self, home: Path) -> None:
        uv = shutil.which("uv") or shutil.which("uv", path=str(TOOLS / "uv" / "bin"))
        if uv is None:
            pytest.skip("there is no uv to install it with; `./dev` fetches one")
        path = [str(copy_hermes(home / "hermes")), str(Path(uv).parent), os.environ["PATH"]]
        self.home = home
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(path),
            "HOME": str(home),
            "HERMES_HOME": str(home / ".hermes"),
            "RELIGHT_HOME": str(home / "relight"),
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
        }

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode and "failed:" in done.stderr and "install" in words:
            pytest.skip(f"Relight could not be installed there: {done.stderr.strip()[-300:]}")
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def relight(self, *words: str) -> str:
        return self.run(sys.executable, "-m", "relight", *words)

    def packages(self) -> dict[str, str]:
        python = find_python(self.environment)
        assert python is not None
        return read_packages(python)


def test_hermes_loads_the_plugin_once_installed_and_is_as_before_once_removed(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path)
    before = person.packages()
    with build_warm.open_warm(tmp_path, hold_out=0.0) as store:
        build_warm.capture(store, "Fix the rounding in the invoices module", name="fix-rounding")
    chat = ("hermes", "chat", "-q", TASK, "-Q", "--yolo")
    with Server(lambda _: Reply("The rounding is right now.")) as server:
        config = tmp_path / ".hermes" / "config.yaml"
        config.parent.mkdir()
        config.write_text(CONFIG.format(url=server.base_url))
        written = config.read_text()
        shown = person.relight("warm", "--install", "hermes", "--yes")
        assert "+    - relight" in shown
        assert "and run: " in shown
        listed = person.run("hermes", "plugins", "list", "--plain", "--no-bundled")
        assert "relight" in listed
        assert "nothing to do" in person.relight("warm", "--install", "hermes", "--yes")
        assert before.items() <= person.packages().items()  # what Hermes had is as it was
        person.run(*chat)
        assert TAG in server.chats[-1].raw.decode()
        person.relight("warm", "--install", "hermes", "--remove", "--yes")
        person.run(*chat)
        assert TAG not in server.chats[-1].raw.decode()
    assert person.packages() == before
    assert config.read_text() == written
