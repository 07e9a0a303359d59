"""The agent's tools: what a model may call, and how a call of one is carried out."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from relight.errors import RelightError
from relight.work.agent import files, processes, web
from relight.work.agent.results import Place, Result, ToolError, tell_error


class Tool(Struct, frozen=True):
    """A tool by its name: the type of its arguments, and the function that does it.

    One that `is_quick` is done at once; the others get a thread, to run side by side.
    """

    name: str
    arguments: type[Any]
    do: Callable[[Any, Place], Result]
    is_quick: bool = False

    def describe(self) -> dict[str, Any]:
        """The tool as a request's `tools` list has it."""
        _, parts = msgspec.json.schema_components([self.arguments])
        schema = dict(parts[self.arguments.__name__])
        schema.pop("title", None)
        told = {
            "name": self.name,
            "description": schema.pop("description", ""),
            "parameters": schema,
        }
        return {"type": "function", "function": told}


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("execute_code", processes.ExecuteCode, processes.run_code),
        Tool("terminal", processes.Terminal, processes.run_terminal),
        Tool("read_file", files.ReadFile, files.read_file, is_quick=True),
        Tool("write_file", files.WriteFile, files.write_file, is_quick=True),
        Tool("patch", files.Patch, files.patch, is_quick=True),
        Tool("search_files", files.SearchFiles, files.search_files),
        Tool("web_fetch", web.WebFetch, web.web_fetch),
    )
}


def choose_tools(names: Iterable[str] | None) -> dict[str, Tool]:
    """The tools named, or all."""
    if names is None:
        return dict(TOOLS)
    chosen = {}
    for name in names:
        if name not in TOOLS:
            raise RelightError(f"there is no tool {name!r}", f"the tools are {', '.join(TOOLS)}")
        chosen[name] = TOOLS[name]
    return chosen


def carry_out(tools: Mapping[str, Tool], name: str, arguments: object, *, place: Place) -> Result:
    """Do one call; whatever is wrong with it is told to the model, and ends nothing."""
    tool = tools.get(name)
    if tool is None:
        return tell_error(f"there is no tool {name!r}", f"the tools are {', '.join(tools)}")
    try:
        return tool.do(_read_arguments(tool, arguments), place)
    except ToolError as error:
        return tell_error(error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - whatever a page or a file does to a tool is a result
        return tell_error(f"{type(error).__name__}: {error}")


def _read_arguments(tool: Tool, arguments: object) -> Any:
    """The arguments as the tool's type; a model writes them as text, and not always well."""
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
