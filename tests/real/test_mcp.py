"""Claude Code and Codex themselves ask Relight over MCP and know its skill; models get both."""

import json
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import build
from clients import Claude, Codex
from relight.cli.mcp.open_record import NOTICE
from relight.cli.mcp.tools import TOOLS
from scripted import Reply, call
from scripted_agents import AgentServer, has_tool_results

READING = sorted(name for name, tool in TOOLS.items() if tool.is_reading)
QUERY = {"query": "rounding"}
# the beginning of the skill's description, which agents show their models
SKILL = "Ask Relight, the record of earlier agent sessions"


@pytest.fixture
def server_words(tmp_path: Path) -> list[str]:
    """The words that start the server, with a session in the folder that the agents work in."""
    folder = tmp_path / "shop"
    folder.mkdir()
    build.write_claude(tmp_path, [one | {"cwd": str(folder)} for one in build.claude_session()])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
    words = ["-m", "relight", "mcp", "--no-import", "--home", str(tmp_path / "relight")]
    return [sys.executable, *words]


def find_result(server: AgentServer) -> str:
    """The requests after a tool has answered, as text."""
    (asked,) = [one for one in server.asked if has_tool_results(one)]
    return json.dumps(asked.get("messages") or asked["input"])


def test_claude_code_lists_the_tools_and_its_model_gets_the_result(
    tmp_path: Path, server_words: list[str]
) -> None:
    def answer(request: dict[str, Any]) -> Reply:
        names = [tool["name"] for tool in request.get("tools") or ()]
        if "mcp__relight__search_sessions" in names and not has_tool_results(request):
            return Reply(
                "", [call("mcp__relight__search_sessions", f"toolu_{uuid4().hex}", **QUERY)]
            )
        return Reply("It was fixed before.")

    with AgentServer(answer) as server:
        claude = Claude(tmp_path, server.root_url)
        claude.folder = tmp_path / "shop"
        claude.environment["ENABLE_TOOL_SEARCH"] = "false"  # else tools are listed on request
        # else it asks its model before a server that starts slowly has named its tools
        claude.environment["MCP_CONNECTION_NONBLOCKING"] = "false"
        claude.environment["MCP_CONNECT_TIMEOUT_MS"] = "60000"
        claude.run(str(claude.program), "mcp", "add", "relight", "--", *server_words)
        claude.relight("skills", "install", "claude-code", "--yes")
        words = ("--allowedTools", "mcp__relight__search_sessions")
        assert claude.ask("Fix the rounding", *words)["result"] == "It was fixed before."
        names = [tool["name"] for tool in server.asked[-1]["tools"]]
        own = sorted(name.removeprefix("mcp__relight__") for name in names if "relight" in name)
        assert own == READING
        result = find_result(server)
    assert NOTICE in result
    assert build.CLAUDE_SESSION in result
    assert SKILL in result


def test_codex_lists_the_tools_and_its_model_gets_the_result(
    tmp_path: Path, server_words: list[str]
) -> None:
    def answer(request: dict[str, Any]) -> Reply:
        if has_tool_results(request):
            return Reply("It was fixed before.")
        asked = call("search_sessions", f"call_{uuid4().hex}", **QUERY)
        asked["function"]["namespace"] = "mcp__relight"
        return Reply("", [asked])

    with AgentServer(answer) as server:
        codex = Codex(tmp_path, server.base_url)
        codex.folder = tmp_path / "shop"
        codex.run(str(codex.program), "mcp", "add", "relight", "--", *server_words)
        codex.relight("skills", "install", "codex", "--yes")
        codex.ask("Fix the rounding")
        (own,) = [tool for tool in server.asked[-1]["tools"] if tool.get("name") == "mcp__relight"]
        assert sorted(tool["name"] for tool in own["tools"]) == READING
        result = find_result(server)
    assert NOTICE in result
    assert build.CLAUDE_SESSION in result
    assert SKILL in result
