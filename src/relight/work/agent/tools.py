"""The agent's tools: what a model may call, and how a call is executed."""

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from relight.chat.messages import describe_arguments
from relight.errors import RelightError
from relight.work.agent import fetch, file_tools
from relight.work.agent.context import (
    ToolContext,
    ToolError,
    ToolResult,
    make_error_result,
    make_result,
    run_limited,
)
from relight.work.processes import ProcessEnd


class Terminal(Struct, frozen=True):
    """Run a shell command in the working folder."""

    command: Annotated[str, Meta(description="the command line, for bash")]
    timeout_seconds: Annotated[float | None, Meta(description="how long it may take")] = None


class ExecuteCode(Struct, frozen=True):
    """Run Python code in a new process in the working folder; print what you want to see."""

    code: Annotated[str, Meta(description="a whole Python program")]
    timeout_seconds: Annotated[float | None, Meta(description="how long it may take")] = None


def run_terminal(arguments: Terminal, context: ToolContext) -> ToolResult:
    shell = shutil.which("bash") or "/bin/sh"
    command = [shell, "-c", arguments.command]
    return _format_end(run_limited(command, context, arguments.timeout_seconds))


def run_code(arguments: ExecuteCode, context: ToolContext) -> ToolResult:
    command = [sys.executable, "-X", "utf8", "-"]
    ended = run_limited(command, context, arguments.timeout_seconds, standard_input=arguments.code)
    return _format_end(ended)


def _format_end(ended: ProcessEnd) -> ToolResult:
    exit_code = 124 if ended.timed_out else ended.exit_code
    fields = {
        "output": ended.output,
        "exit_code": exit_code,
        "timed_out": ended.timed_out,
        "truncated": ended.is_cut,
    }
    return make_result(fields, exit_code=exit_code, timed_out=ended.timed_out)


class Tool(Struct, frozen=True):
    """A tool: its name, the type of its arguments, and its function.

    A tool that `is_quick` runs at once; the others run in threads, side by side.
    """

    name: str
    arguments: type[Any]
    do: Callable[[Any, ToolContext], ToolResult]
    is_quick: bool = False

    def describe(self) -> dict[str, Any]:
        """Return the tool as an entry of a request's `tools` list."""
        description, schema = describe_arguments(self.arguments)
        function = {"name": self.name, "description": description, "parameters": schema}
        return {"type": "function", "function": function}


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("execute_code", ExecuteCode, run_code),
        Tool("terminal", Terminal, run_terminal),
        Tool("read_file", file_tools.ReadFile, file_tools.read_file, is_quick=True),
        Tool("write_file", file_tools.WriteFile, file_tools.write_file, is_quick=True),
        Tool("patch", file_tools.Patch, file_tools.patch, is_quick=True),
        Tool("search_files", file_tools.SearchFiles, file_tools.search_files),
        Tool("web_fetch", fetch.WebFetch, fetch.web_fetch),
    )
}


def choose_tools(names: Iterable[str] | None) -> dict[str, Tool]:
    """Return the named tools, or all."""
    if names is None:
        return dict(TOOLS)
    chosen = {}
    for name in names:
        if name not in TOOLS:
            raise RelightError(f"there is no tool {name!r}", f"the tools are {', '.join(TOOLS)}")
        chosen[name] = TOOLS[name]
    return chosen


def execute_call(
    tools: Mapping[str, Tool], name: str, arguments: object, *, context: ToolContext
) -> ToolResult:
    """Return the result of one call; every error is a result that the model sees."""
    tool = tools.get(name)
    if tool is None:
        return make_error_result(f"there is no tool {name!r}", f"the tools are {', '.join(tools)}")
    try:
        return tool.do(_read_arguments(tool, arguments), context)
    except ToolError as error:
        return make_error_result(error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - any error of a tool is a result
        return make_error_result(f"{type(error).__name__}: {error}")


def _read_arguments(tool: Tool, arguments: object) -> Any:
    """Return the arguments as the tool's type; models write them as text, sometimes badly."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments or "{}")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ToolError(
                f"the arguments are not valid JSON: {error}", "write them as one JSON object"
            ) from error
    try:
        return msgspec.convert(arguments, tool.arguments, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(f"the arguments do not fit: {error}") from error
