"""The lines that the guide of telemetry asks people to paste, with the programs themselves.

Each program runs with exactly those lines, against a scripted model; only the port is another one.
The environments of the four libraries have 210 MB, which is too much for every run of the tests.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import build
from clients import Claude, Codex, find_environment, run_client
from relight.store import open_store
from scripted import Logged, Reply, call
from scripted_agents import AgentServer, has_tool_results
from scripted_sdks import SPOKEN, SdkServer

pytestmark = pytest.mark.programs
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "telemetry.md"
ADDRESS = "http://127.0.0.1:4318"
# what a program imports beside what the guide installs
NEEDS = {
    "OpenAI SDK": "openai",
    "Anthropic SDK": "anthropic",
    "LangGraph and LangChain": "langgraph langchain-openai",
    "OpenAI Agents": "openai-agents",
}
PROGRAMS = {
    "OpenAI SDK": """
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="sk-x")
tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
said = [{"role": "user", "content": "please look"}]
answer = client.chat.completions.create(model="gpt-5.1", messages=said, tools=tools)
said += [answer.choices[0].message, {"role": "tool", "tool_call_id": "call_1", "content": "3"}]
print(client.chat.completions.create(model="gpt-5.1", messages=said).choices[0].message.content)
""",
    "Anthropic SDK": """
import anthropic, sys
client = anthropic.Anthropic(base_url=sys.argv[1], api_key="sk-ant-x")
said = [{"role": "user", "content": "please look"}]
more = {"model": "claude-sonnet-4-5", "max_tokens": 100}
answer = client.messages.create(messages=said, **more)
result = {"type": "tool_result", "tool_use_id": "call_1", "content": "3"}
said += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
print(client.messages.create(messages=said, **more).content[0].text)
""",
    "LangGraph and LangChain": """
import sys
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

@tool
def look(path: str) -> str:
    "Look"
    return "3"

model = ChatOpenAI(model="gpt-5.1", base_url=sys.argv[1] + "/v1", api_key="sk-x").bind_tools([look])
graph = StateGraph(MessagesState)
graph.add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([look]))
graph.add_edge(START, "ask")
graph.add_conditional_edges("ask", tools_condition)
graph.add_edge("tools", "ask")
print(graph.compile().invoke({"messages": ["please look"]})["messages"][-1].content)
""",
    "OpenAI Agents": """
import os, sys
os.environ |= {"OPENAI_BASE_URL": sys.argv[1] + "/v1", "OPENAI_API_KEY": "sk-x"}
from agents import Agent, Runner, function_tool

@function_tool
def look(path: str) -> str:
    return "3"

agent = Agent(name="Helper", model="gpt-5.1", tools=[look])
print(Runner.run_sync(agent, "please look").final_output)
""",
}


class NumberingServer(SdkServer):
    """Gives each answer its own long id, as the servers of models do."""

    def take(self, logged: Logged) -> Reply:
        reply = super().take(logged)
        own = rb'"id": "\g<1>%024d"' % len(self.requests)
        body = re.sub(rb'"id": "(chatcmpl-|msg_|resp_)[^"]*"', own, reply.body or b"")
        return replace(reply, body=body)


def read_paste(title: str) -> str:
    """The lines of a chapter of the guide."""
    _, found, rest = GUIDE.read_text().partition(f"\n## {title}\n")
    assert found, title
    paste = re.search(r"```\w+\n(.*?)```", rest, re.DOTALL)
    assert paste is not None
    return paste[1]


def read_variables(paste: str, address: str) -> dict[str, str]:
    """What the lines export, with the address of a receiver on another port."""
    lines = [shlex.split(line)[1:] for line in paste.splitlines() if line.startswith("export ")]
    given = dict(word.split("=", 1) for words in lines for word in words)
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": address} | {
        name: value.replace(ADDRESS, address) for name, value in given.items()
    }


@contextmanager
def collect(home: Path) -> Iterator[str]:
    """The address of `relight collect`; what it received is on disk when it ends."""
    command = [sys.executable, "-m", "relight", "collect", "--port", "0"]
    environment = {**os.environ, "HOME": str(home), "RELIGHT_HOME": str(home / "relight")}
    pipe: Any = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipe) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1].rstrip("/")
        finally:
            server.terminate()


def install_paste(title: str, paste: str) -> Path:
    """The folder of the programs of an environment with what the guide installs."""
    line = next(one for one in paste.splitlines() if one.startswith("pip install "))
    packages = (*line.split()[2:], *NEEDS[title].split())
    return find_environment(packages[0], *packages)


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_with_the_lines_of_the_guide_has_the_tokens_and_calls_of_the_server(
    tmp_path: Path, title: str
) -> None:
    paste = read_paste(title)
    folder = install_paste(title, paste)
    program = tmp_path / "agent.py"
    program.write_text(PROGRAMS[title])
    build.open_home(tmp_path).close()
    with collect(tmp_path) as address, NumberingServer() as server:
        plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_PROXY": "*"}
        words = shlex.split(paste.splitlines()[-1])
        words[words.index("python") :] = ["python", str(program), server.root_url]
        environment = plain | read_variables(paste, address)
        environment["PATH"] = f"{folder}:{environment['PATH']}"
        words[0] = str(folder / words[0])
        assert SPOKEN in run_client(words, environment, tmp_path)
        asked = len(server.requests)
    assert asked == 2
    with open_store(tmp_path / "relight") as store:
        build.import_home(store, tmp_path)
        found = store.query(
            "select count(*), sum(coalesce(input_tokens, 0) + coalesce(cache_read_tokens, 0)),"
            " sum(output_tokens) from turn where calls = 1"
        )
        assert found == [(asked, asked * 120, asked * 30)]
        assert store.query("select source, count(*) from session group by source") == [("otlp", 1)]
        assert store.query("select tool, label from tool_call") == [("look", "ok")]


def answer(body: dict[str, Any]) -> Reply:
    """A command in the first answer, and words in the second."""
    usage = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}
    if has_tool_results(body):
        return Reply("Done.", usage=usage)
    tools = [one.get("name") for one in body.get("tools") or ()]
    if "Bash" in tools:
        return Reply("Next.", [call("Bash", "toolu_01", command="echo hi")], usage=usage)
    return Reply("Next.", [call("shell_command", "call_1", command="echo hi")], usage=usage)


def check_joined(home: Path, source: str, asked: int) -> int:
    """Read telemetry and files: each call is one turn, with its time from telemetry.

    Return how many turns have a time to the first token.
    """
    with open_store(home / "relight") as store:
        build.import_home(store, home)
        ((*found, first),) = store.query(
            "select count(*), sum(output_tokens), count(duration_ms), count(first_token_ms)"
            " from turn join session on session.id = session_id where source = ? and calls = 1",
            (source,),
        )
        assert found == [asked, asked * 30, asked]
        return int(first)


def test_claude_codes_telemetry_fills_its_own_record(tmp_path: Path) -> None:
    build.open_home(tmp_path).close()
    with collect(tmp_path) as address, AgentServer(answer) as server:
        claude = Claude(tmp_path, server.root_url)
        del claude.environment["DISABLE_TELEMETRY"]
        claude.environment |= read_variables(read_paste("Claude Code"), address)
        claude.ask("Say hi")
        asked = len(server.asked)
    assert check_joined(tmp_path, "claude-code", asked) == asked


def test_codexs_telemetry_fills_its_own_record(tmp_path: Path) -> None:
    build.open_home(tmp_path).close()
    with collect(tmp_path) as address, AgentServer(answer) as server:
        codex = Codex(tmp_path, server.base_url)
        paste = read_paste("Codex").replace(ADDRESS, address)
        codex.settings.write_text(f"{codex.settings.read_text()}\n{paste}")
        codex.ask("Say hi")
        asked = len(server.asked)
    check_joined(tmp_path, "codex", asked)
