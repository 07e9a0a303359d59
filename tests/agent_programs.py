"""The newer agents for tests of the programs: packages, words, and a script of answers."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients import find_package, run_client
from relight.store import Store
from scripted import Reply, Server, call
from scripted_agents import GoogleServer

PROMPT = "Look around in the shop"
AGAIN, OTHERWISE = "Look once more", "Look elsewhere"
DELEGATED = "Find the oldest price"
TASK = {"description": "find a price", "prompt": DELEGATED}
MODEL = "scripted-model"
SIDE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@dataclass(frozen=True)
class Program:
    """An agent's package, its tools, and the words that run it once on a prompt."""

    name: str
    package: str
    shell: str
    read: str
    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    path: str = "path"
    prepare: Callable[[Path, str], None] = lambda home, url: None
    makes_shell: Callable[[str], dict[str, Any]] = lambda command: {
        "command": command,
        "description": "d",
    }
    makes_read: Callable[[str], dict[str, Any]] | None = None
    server: type[Server] = Server
    # the words that continue a session, with the option of the resume line, and that fork it
    again: tuple[str, ...] = ()
    fork: tuple[str, ...] = ()
    # the tool that starts a sub-agent, and its arguments
    delegate: tuple[str, dict[str, Any]] | None = None


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def local_model(url: str) -> dict[str, Any]:
    """A provider as OpenCode and Kilo configure it, with a price."""
    price = {"input": 2, "output": 10, "cache_read": 0.2, "cache_write": 2.5}
    model = {"cost": price, "limit": {"context": 128_000, "output": 8000}}
    options = {"baseURL": url, "apiKey": "sk-scripted"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {MODEL: model}}
    return {
        "provider": {"local": provider},
        "model": f"local/{MODEL}",
        "small_model": f"local/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
        "permission": {
            "*": "allow",
            "bash": "allow",
            "read": "allow",
            "external_directory": "allow",
        },
    }


def prepare_opencode(home: Path, url: str) -> None:
    write_json(home / "shop" / "opencode.json", local_model(url))


def prepare_kilo(home: Path, url: str) -> None:
    write_json(home / "shop" / "kilo.json", local_model(url))


def prepare_gemini(home: Path, url: str) -> None:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {}}}
    write_json(home / ".gemini" / "settings.json", settings)


def prepare_qwen(home: Path, url: str) -> None:
    write_json(home / ".qwen" / "settings.json", {"security": {"auth": {"selectedType": "openai"}}})


def prepare_pi(home: Path, url: str) -> None:
    price = {"input": 2, "output": 10, "cacheRead": 0.2, "cacheWrite": 2.5}
    model = {"id": MODEL, "name": MODEL, "reasoning": False, "input": ["text"], "cost": price}
    model |= {"contextWindow": 128_000, "maxTokens": 8000}
    provider = {"baseUrl": url, "apiKey": "sk-scripted", "api": "openai-completions"}
    models = {"providers": {"local": provider | {"models": [model]}}}
    write_json(home / ".pi" / "agent" / "models.json", models)


def prepare_cline(home: Path, url: str) -> None:
    program = str(find_package("cline", "cline@3.0.65"))
    words = ["auth", "-p", "openai-compatible", "-k", "sk-scripted", "-m", MODEL, "-b", url]
    run([program, *words], home, CLINE)


def prepare_droid(home: Path, url: str) -> None:
    model = {"model": MODEL, "id": "custom:scripted-0", "displayName": "scripted", "baseUrl": url}
    model |= {"apiKey": "sk-scripted", "provider": "generic-chat-completion-api"}
    write_json(home / ".factory" / "settings.json", {"customModels": [model]})


DROID = ("exec", "-m", "custom:scripted-0", "--skip-permissions-unsafe")
CLINE = {"CLINE_SESSION_BACKEND_MODE": "local"}
PROGRAMS = [
    Program(
        "copilot",
        "@github/copilot@1.0.102",
        shell="bash",
        read="view",
        words=("-p", PROMPT, "--allow-all-tools"),
        again=("--resume", "{id}", "-p", AGAIN, "--allow-all-tools"),
        delegate=("task", TASK | {"agent_type": "general-purpose", "name": "finder"}),
        variables={
            "COPILOT_PROVIDER_BASE_URL": "{url}",
            "COPILOT_PROVIDER_API_KEY": "sk-scripted",
            "COPILOT_MODEL": MODEL,
            "COPILOT_OFFLINE": "true",
        },
    ),
    Program(
        "opencode",
        "opencode-ai@1.18.33",
        shell="bash",
        read="read",
        words=("run", PROMPT),
        again=("run", "--session", "{id}", AGAIN),
        fork=("run", "--session", "{id}", "--fork", OTHERWISE),
        delegate=("task", TASK | {"subagent_type": "general"}),
        path="filePath",
        prepare=prepare_opencode,
    ),
    Program(
        "kilo",
        "@kilocode/cli@7.7.7",
        shell="bash",
        read="read",
        words=("run", PROMPT, "--auto"),
        again=("run", "--session", "{id}", AGAIN, "--auto"),
        fork=("run", "--session", "{id}", "--fork", OTHERWISE, "--auto"),
        delegate=("task", TASK | {"subagent_type": "general"}),
        path="filePath",
        prepare=prepare_kilo,
    ),
    Program(
        "gemini",
        "@google/gemini-cli@0.61.0",
        shell="run_shell_command",
        read="read_file",
        words=("-p", PROMPT, "--yolo", "-m", "gemini-2.5-pro", "--skip-trust"),
        again=("--resume", "{id}", "-p", AGAIN, "-m", "gemini-2.5-pro", "--skip-trust"),
        delegate=("invoke_agent", {"agent_name": "generalist", "prompt": DELEGATED}),
        variables={
            "GEMINI_API_KEY": "scripted",
            "GOOGLE_GEMINI_BASE_URL": "{root}",
            "GEMINI_TELEMETRY_ENABLED": "false",
        },
        path="file_path",
        prepare=prepare_gemini,
        server=GoogleServer,
    ),
    Program(
        "qwen",
        "@qwen-code/qwen-code@0.15.10",
        shell="run_shell_command",
        read="read_file",
        words=("-p", PROMPT, "--yolo", "--output-format", "json"),
        again=("--resume", "{id}", "-p", AGAIN, "--yolo", "--output-format", "json"),
        delegate=("agent", TASK | {"subagent_type": "general-purpose"}),
        variables={"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "{url}", "OPENAI_MODEL": MODEL},
        path="file_path",
        prepare=prepare_qwen,
    ),
    Program(
        "pi",
        "@mariozechner/pi-coding-agent@0.73.1",
        shell="bash",
        read="read",
        words=("-p", "--provider", "local", "--model", MODEL, PROMPT),
        again=("--session", "{id}", "-p", "--provider", "local", "--model", MODEL, AGAIN),
        fork=("--fork", "{id}", "-p", "--provider", "local", "--model", MODEL, OTHERWISE),
        prepare=prepare_pi,
    ),
    Program(
        "cline",
        "cline@3.0.65",
        shell="run_commands",
        read="read_files",
        words=("--auto-approve", "true", PROMPT),
        delegate=("spawn_agent", {"systemPrompt": "You find prices.", "task": DELEGATED}),
        variables=CLINE,
        prepare=prepare_cline,
        makes_shell=lambda command: {"commands": [command]},
        makes_read=lambda path: {"files": [{"path": path}]},
    ),
    Program(
        "droid",
        "droid@0.215.0",
        shell="Execute",
        read="Read",
        words=(*DROID, PROMPT),
        # `exec --session-id` ends with 1 and no word without a login; a fork does not
        fork=(*DROID, "--fork", "{id}", OTHERWISE),
        variables={"FACTORY_API_KEY": "fk-scripted"},
        path="file_path",
        prepare=prepare_droid,
        makes_shell=lambda command: {
            "command": command,
            "summary": "s",
            "riskLevelReason": "none",
            "riskLevel": "low",
        },
    ),
]
SUMS_ONLY = {"droid"}


def run(words: list[str], home: Path, variables: Mapping[str, str]) -> str:
    plain = {"TERM": "dumb", "CI": "1", "NO_COLOR": "1"}
    environment = make_environment(home) | plain | dict(variables)
    return run_client(words, environment, home / "shop")


def make_environment(home: Path) -> dict[str, str]:
    node = Path(shutil.which("node") or "/usr/bin/node").parent
    return {"PATH": f"{node}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}


class Script:
    """Five answers with calls, each with other tokens; calls beside the task have their own."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.truth: list[tuple[int, int, int, int]] = []
        self.side = 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        if not body.get("tools"):
            self.side += 1
            return Reply("A short title", usage=SIDE)
        number = len(self.truth)
        prompt, cached, output, thought = 1000 + 14 * number, 100 + number, 40 + number, number
        self.truth.append((prompt - cached, cached, output, thought))
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
        return Reply("Done." if number > 3 else "Next.", self._calls(number), usage=usage)

    def _calls(self, number: int) -> list[dict[str, Any]]:
        program = self.program
        commands = [["echo hi"], ["echo oops >&2; exit 3"], [], ["echo a", "echo b"]]
        if number > 3:
            return []
        if number == 2:
            path = "/nonexistent/file.txt"
            given = program.makes_read(path) if program.makes_read else {program.path: path}
            return [call(program.read, f"call_{number}_0", **given)]
        return [
            call(program.shell, f"call_{number}_{place}", **program.makes_shell(command))
            for place, command in enumerate(commands[number])
        ]


class Started:
    """A program that was run once, with the server that it talks to."""

    def __init__(self, program: Program, home: Path, server: Server) -> None:
        self.path = str(find_package(program.name, program.package))
        self.home = home
        (home / "shop").mkdir(parents=True)
        url = server.base_url
        program.prepare(home, url)
        root = url.removesuffix("/v1")
        self.variables = {
            name: one.format(url=url, root=root) for name, one in program.variables.items()
        }
        self.run(program.words)

    def run(self, words: Sequence[str], session: str = "") -> None:
        given = [word.replace("{id}", session) for word in words]
        run([self.path, *given], self.home, self.variables)


def sum_output(store: Store) -> int:
    ((total,),) = store.query("select sum(output_tokens) from session_day")
    return int(total)
