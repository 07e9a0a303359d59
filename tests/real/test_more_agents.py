"""The newer agents themselves, against a scripted model whose log is the truth, call by call.

They run with `./dev test --real tests/real/test_more_agents.py`, which installs them from npm.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import build
from clients import find_package, run_client
from relight.reports.listing import list_sessions
from relight.reports.sessions import find_session
from relight.reports.transcript import read_transcript
from relight.store import Store
from scripted import Reply, Server, call
from scripted_agents import GoogleServer
from terminal import Screen

pytestmark = pytest.mark.programs
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
        prompt, cached, told, thought = 1000 + 14 * number, 100 + number, 40 + number, number
        self.truth.append((prompt - cached, cached, told, thought))
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": told,
            "total_tokens": prompt + told,
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


def read_tokens(store: Store) -> list[tuple[int, ...]]:
    return store.query(
        "select input_tokens, cache_read_tokens, output_tokens from turn where calls > 0"
        " order by at, output_tokens"
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=[one.name for one in PROGRAMS])
def test_tokens_equal_the_servers_log_and_verdicts_the_truth(
    tmp_path: Path, program: Program
) -> None:
    script = Script(program)
    with program.server(script) as server:
        Started(program, tmp_path, server)
    assert len(script.truth) == 5
    with build.open_home(tmp_path) as store:
        found = next(
            one for one in build.import_home(store, tmp_path) if one.source == program.name
        )
        assert (found.sessions_new, found.unreadable) == (1, 0)
        truth = [(fresh, cached, told) for fresh, cached, told, _ in script.truth]
        if program.name in SUMS_ONLY:
            truth = [tuple(map(sum, zip(*truth, strict=True)))]  # type: ignore[list-item]
        assert read_tokens(store) == truth
        labels = store.query("select label from tool_call order by at, id")
        assert sorted(label for (label,) in labels) == ["error", "error", "ok", "ok", "ok"]
        messages = read_transcript(store, find_session(store, "last")).messages
        assert PROMPT in messages[0]["content"]
        assert messages[-1]["content"] == "Done."
        (row,) = list_sessions(store).sessions
        assert row.project == os.path.realpath(tmp_path / "shop")
        assert row.resume is not None


@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one.again or one.fork], ids=lambda program: program.name
)
def test_a_session_that_is_continued_and_forked_counts_each_call_once(
    tmp_path: Path, program: Program
) -> None:
    script = Script(program)
    with program.server(script) as server, build.open_home(tmp_path) as store:
        started = Started(program, tmp_path, server)
        build.import_home(store, tmp_path)
        (row,) = list_sessions(store).sessions
        session = row.session_id.partition(":")[2]
        if program.again:
            option = next(word for word in program.again if word.startswith("--"))
            started.run(program.again, session)
            build.import_home(store, tmp_path)
            assert sum_output(store) == sum(told for _, _, told, _ in script.truth)
            assert len(script.truth) >= 6  # Qwen Code also writes its memory
            assert len(list_sessions(store).sessions) == 1
            assert row.resume == f"cd {row.project} && {program.name} {option} {session}"
        if program.fork:
            started.run(program.fork, session)
            build.import_home(store, tmp_path)
            assert sum_output(store) == sum(told for _, _, told, _ in script.truth)
            kinds = store.query("select parent_kind from session where parent_kind is not null")
            assert kinds == [("fork",)]
            ((turns, calls),) = store.query("select sum(turns), sum(tool_calls) from session_day")
            assert (turns, calls) == (len(script.truth), 5)


def test_cline_continues_a_session_in_a_terminal_by_the_line_that_is_shown(tmp_path: Path) -> None:
    program = next(one for one in PROGRAMS if one.name == "cline")
    script = Script(program)
    with program.server(script) as server, build.open_home(tmp_path) as store:
        started = Started(program, tmp_path, server)
        build.import_home(store, tmp_path)
        (row,) = list_sessions(store).sessions
        own = Path(started.path).parent
        environment = make_environment(tmp_path) | started.variables
        environment["PATH"] = f"{own}:{environment['PATH']}"
        words = ["bash", "--norc", "-c", str(row.resume)]
        with ending_hub(tmp_path), Screen(words, environment, Path("/")) as screen:
            screen.wait_for(lambda: screen.has("Done."))
            screen.press(AGAIN)
            screen.wait_for(lambda: screen.has(AGAIN))
            time.sleep(0.5)  # keys that come together are taken for a text that was pasted
            screen.press("\r")
            screen.wait_for(lambda: len(script.truth) == 6)
            screen.wait_for(lambda: count_turns(store, tmp_path) == 6)
        asked = str(server.requests[-1].raw)
        assert PROMPT in asked
        assert AGAIN in asked
        assert sum_output(store) == sum(told for _, _, told, _ in script.truth)
        assert len(list_sessions(store).sessions) == 1


@contextmanager
def ending_hub(home: Path) -> Iterator[None]:
    """End the daemon that Cline leaves behind in a terminal."""
    yield
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes()
            if b"--cline-hub-daemon" in words and os.fsencode(home) in words:
                os.kill(int(path.parent.name), signal.SIGTERM)


def count_turns(store: Store, home: Path) -> int | None:
    build.import_home(store, home)
    return list_sessions(store).sessions[0].turns


def sum_output(store: Store) -> int:
    ((total,),) = store.query("select sum(output_tokens) from session_day")
    return int(total)


class DelegatingScript(Script):
    """A task that is given to a sub-agent, whose answer is the second of three."""

    def __call__(self, body: dict[str, Any]) -> Reply:
        # a sub-agent of Gemini CLI answers with a call of a tool
        self.answers_by_call = '"complete_task"' in json.dumps(body.get("tools"))
        return super().__call__(body)

    def _calls(self, number: int) -> list[dict[str, Any]]:
        assert self.program.delegate is not None
        tool, given = self.program.delegate
        if self.answers_by_call:
            return [call("complete_task", "call_1", result={"response": "It is from 2019."})]
        return [call(tool, "call_0", **given)] if number == 0 else []


@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one.delegate], ids=lambda program: program.name
)
def test_a_sub_agent_of_the_program_is_a_part_of_its_parent(
    tmp_path: Path, program: Program
) -> None:
    script = DelegatingScript(program)
    with program.server(script) as server:
        Started(program, tmp_path, server)
    assert len(script.truth) == 3  # the task, the sub-agent's answer, the answer
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        (row,) = list_sessions(store).sessions
        assert row.turns == 3
        assert sum_output(store) == sum(told for _, _, told, _ in script.truth)
        assert store.query("select parent_kind from session where parent_id is not null") == [
            ("subagent",)
        ]
