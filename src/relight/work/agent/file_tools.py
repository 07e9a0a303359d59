"""File tools: read, write, patch and search files of the working folder."""

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from relight.work.agent.context import (
    ToolContext,
    ToolError,
    ToolResult,
    fit_json,
    make_result,
    run_limited,
)
from relight.work.agent.search import LINES

READ_BYTES = 2_000_000
PATCH_BYTES = 20_000_000
SEARCH_SECONDS = 30.0

Name = Annotated[str, Meta(description="a path below the working folder")]


class ReadFile(Struct, frozen=True):
    """Read a text file, whole or some of its lines."""

    path: Name
    first_line: Annotated[int, Meta(description="the first line wanted, from 1")] = 1
    lines: Annotated[int | None, Meta(description="how many lines")] = None


class WriteFile(Struct, frozen=True):
    """Write a file, new or in place of the old; folders are made as needed."""

    path: Name
    content: str


class Patch(Struct, frozen=True):
    """Replace a text in a file by another; the old text must be there exactly once."""

    path: Name
    old: Annotated[str, Meta(description="the text as it stands in the file")]
    new: str
    replace_all: Annotated[bool, Meta(description="replace it wherever it stands")] = False


class SearchFiles(Struct, frozen=True):
    """Search the lines of files for a regular expression, or file names with kind=name."""

    pattern: Annotated[str, Meta(description="a Python regular expression")]
    path: Name = "."
    glob: Annotated[str, Meta(description="only files of such names, as *.py")] = "*"
    kind: Annotated[Literal["content", "name"], Meta(description="what to search")] = "content"
    limit: Annotated[int, Meta(description="how many matches at most")] = 100


def read_file(arguments: ReadFile, context: ToolContext) -> ToolResult:
    path = _find_file(arguments.path, context)
    with path.open("rb") as file:
        data = file.read(READ_BYTES + 1)
    text = data[:READ_BYTES].decode("utf-8", "replace")
    if b"\0" in data[:4096]:
        raise ToolError(f"{arguments.path!r} is not a text file")
    lines = LINES.findall(text)
    first = max(arguments.first_line, 1)
    last = len(lines) if arguments.lines is None else first - 1 + max(arguments.lines, 0)
    wanted = "".join(lines[first - 1 : last])
    content = fit_json(wanted, READ_BYTES)
    fields = {
        "content": content,
        "total_lines": len(lines),
        "truncated": len(data) > READ_BYTES or len(content) < len(wanted),
    }
    return make_result(fields)


def write_file(arguments: WriteFile, context: ToolContext) -> ToolResult:
    path = context.resolve(arguments.path)
    if not path.is_file():
        _refuse(path, arguments.path)
    data = arguments.content.encode("utf-8", "replace")
    _write(path, data)
    return make_result({"success": True, "bytes_written": len(data)})


def patch(arguments: Patch, context: ToolContext) -> ToolResult:
    path = _find_file(arguments.path, context)
    with path.open("rb") as file:
        data = file.read(PATCH_BYTES + 1)
    _check_size(arguments.path, len(data))
    text = data.decode("utf-8", "surrogateescape")
    count = text.count(arguments.old) if arguments.old else 0
    if not count:
        raise ToolError(
            f"the old text is not in {arguments.path!r}", "read the file and copy the text exactly"
        )
    if count > 1 and not arguments.replace_all:
        raise ToolError(
            f"the old text is {count} times in {arguments.path!r}",
            "give more of the lines around it, or set replace_all",
        )
    # counted before it is made: a letter replaced by a page is a thousand times the file
    growth = len(arguments.new.encode("utf-8", "replace")) - len(arguments.old)
    _check_size(arguments.path, len(data) + count * growth)
    _write(path, text.replace(arguments.old, arguments.new).encode("utf-8", "surrogateescape"))
    return make_result({"success": True, "replaced": count})


def search_files(arguments: SearchFiles, context: ToolContext) -> ToolResult:
    """Search in a separate process: a pattern may take forever, and only a process can be ended."""
    folder = context.resolve(arguments.path)
    if not folder.exists():
        raise ToolError(f"there is no {arguments.path!r}")
    script = Path(__file__).with_name("search.py")
    words = [arguments.pattern, str(folder), arguments.glob, arguments.kind, str(arguments.limit)]
    command = [sys.executable, "-I", str(script), str(context.folder), *words]
    ended = run_limited(command, context, min(SEARCH_SECONDS, context.timeout_seconds))
    if ended.timed_out:
        raise ToolError("the search timed out", "use a simpler pattern or fewer files")
    if ended.exit_code:
        raise ToolError(ended.output.strip() or "the search failed")
    return ToolResult(text=ended.output.strip())


def _find_file(name: str, context: ToolContext) -> Path:
    path = context.resolve(name)
    if not path.is_file():
        _refuse(path, name)
        raise ToolError(f"File not found: {name}")
    return path


def _check_size(name: str, size: int) -> None:
    if size > PATCH_BYTES:
        raise ToolError(
            f"{name!r} is too large to patch: more than {PATCH_BYTES // 1_000_000} MB",
            "change it with a command, such as sed",
        )


def _refuse(path: Path, name: str) -> None:
    """Raise if the path is a folder, a pipe or a device."""
    if path.exists():
        raise ToolError(f"{name!r} is not a regular file")


def _write(path: Path, data: bytes) -> None:
    """Write to a temporary file and rename it, so that a crash leaves the old or the new file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        beside = path.with_name(f".relight-{secrets.token_hex(8)}")
        # the system applies the user's mask; reading the mask would change it
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            if mode is not None:
                beside.chmod(mode)
            beside.replace(path)
        except BaseException:  # also on Ctrl-C: no partial file is left behind
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ToolError(f"cannot write {path.name!r}: {error.strerror or error}") from error
