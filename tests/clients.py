"""Real agents for tests, each in a separate environment under `.tools`, made once and kept."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parent.parent / ".tools"
HERMES = "hermes-agent==0.19.0"
# gives a request no id, marks no branch, and stores no text that a plugin added
OLD_HERMES = "hermes-agent==0.14.0"
CLAUDE = "@anthropic-ai/claude-code@2.1.325"
CODEX = "@openai/codex@0.166.0"
INSTALL_SECONDS = 600
# of Codex at a scripted endpoint; tables may follow
CODEX_SETTINGS = """
model = "gpt-5.1-codex"
model_provider = "{provider}"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.{provider}]
name = "Scripted"
base_url = "{url}"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


def run_client(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, *, seconds: float = 180
) -> str:
    """What a program printed that ended well, without anything on its standard input."""
    done = subprocess.run(
        words,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def find_hermes() -> Path:
    """Hermes' own command; a test that cannot have it is skipped, with the reason."""
    return find_program("hermes", HERMES)


def find_old_hermes() -> Path:
    """The command of an earlier version of Hermes, in a separate environment."""
    return find_environment("old-hermes", OLD_HERMES) / "hermes"


def find_claude() -> Path:
    """Claude Code's own command; a test that cannot have it is skipped, with the reason."""
    return find_package("claude", CLAUDE)


def find_codex() -> Path:
    """Codex' own command; a test that cannot have it is skipped, with the reason."""
    return find_package("codex", CODEX)


def find_program(name: str, requirement: str) -> Path:
    return find_environment(name, requirement) / name


def find_environment(name: str, *requirements: str) -> Path:
    """The folder of the programs of an environment with these packages of Python's."""
    folder = TOOLS / name
    stamp = folder / "relight-stamp"
    wanted = " ".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        install(folder, requirements)
        stamp.write_text(wanted)
    return folder / "bin"


def find_package(name: str, package: str) -> Path:
    """The command of a package of npm's, in a separate folder."""
    folder = TOOLS / name
    stamp = folder / "relight-stamp"
    if not stamp.exists() or stamp.read_text() != package:
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip(f"there is no npm to install {package} with")
        folder.mkdir(parents=True, exist_ok=True)
        words = ["install", "--prefix", str(folder), "--no-audit", "--no-fund"]
        run_installer([npm, "--loglevel=error", *words, package], package)
        stamp.write_text(package)
    return folder / "node_modules" / ".bin" / name


def install(folder: Path, requirements: Sequence[str]) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(TOOLS / "uv" / "bin"))
    if uv is None:
        pytest.skip("there is no uv to install it with; `./dev` fetches one")
    python = str(folder / "bin" / "python")
    for words in (
        ["venv", "--clear", "--python", sys.executable, str(folder)],
        ["pip", "install", "--python", python, *requirements],
    ):
        run_installer([uv, "--quiet", *words], requirements[0])


def run_installer(command: list[str], requirement: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=TOOLS.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{requirement} could not be installed in {INSTALL_SECONDS} s")
    if done.returncode:
        pytest.skip(f"{requirement} could not be installed: {done.stderr.strip()[-300:]}")


class Client:
    """A real program with a separate home, which talks to a scripted model."""

    def __init__(self, program: Path, home: Path, **variables: str) -> None:
        self.program = program
        self.home = self.folder = home
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "RELIGHT_HOME": str(home / "relight"),
            **variables,
        }

    def run(self, *words: str) -> str:
        return run_client(words, self.environment, self.folder)

    def relight(self, *words: str) -> str:
        return self.run(sys.executable, "-m", "relight", *words)


class Claude(Client):
    """Claude Code."""

    def __init__(self, home: Path, url: str) -> None:
        super().__init__(
            find_claude(),
            home,
            ANTHROPIC_BASE_URL=url,
            ANTHROPIC_API_KEY="sk-ant-scripted",
            DISABLE_TELEMETRY="1",
            DISABLE_AUTOUPDATER="1",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        )

    def ask(self, prompt: str, *words: str) -> Any:
        told = ("-p", prompt, "--output-format", "json", "--allowedTools", "Bash", *words)
        return json.loads(self.run(str(self.program), *told))


class Codex(Client):
    """Codex."""

    def __init__(self, home: Path, url: str) -> None:
        super().__init__(find_codex(), home, SCRIPTED_KEY="x")
        self.settings = home / ".codex" / "config.toml"
        self.settings.parent.mkdir()
        self.settings.write_text(CODEX_SETTINGS.format(url=url, provider="scripted"))

    def ask(self, prompt: str, *words: str) -> str:
        """The id of the session in which the prompt was answered; words continue another one."""
        told = (str(self.program), "exec", "--json", "--skip-git-repo-check", *words, prompt)
        events = [json.loads(line) for line in self.run(*told).splitlines()]
        (started,) = [one for one in events if one["type"] == "thread.started"]
        return str(started["thread_id"])

    def trust_hooks(self) -> None:
        """Trust all hooks as a person does in `/hooks`: by the hashes that Codex itself names."""
        who = {"clientInfo": {"name": "test", "version": "1"}}
        command = [str(self.program), "app-server"]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, env=self.environment, cwd=self.home, **pipes) as server:
            assert server.stdin
            assert server.stdout
            for number, (method, parameters) in enumerate(
                (("initialize", who), ("hooks/list", {"cwds": [str(self.home)]}))
            ):
                asked = {"id": number, "method": method, "params": parameters}
                print(json.dumps(asked), file=server.stdin, flush=True)
                found = next(one for one in map(json.loads, server.stdout) if "result" in one)
            server.stdin.close()
        states = "".join(
            f'[hooks.state.{json.dumps(hook["key"])}]\ntrusted_hash = "{hook["currentHash"]}"\n'
            for hook in found["result"]["data"][0]["hooks"]
        )
        self.settings.write_text(f"{self.settings.read_text()}{states}")
