"""Parts of a message in the form of Google's API, as Gemini CLI and Qwen Code record them."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from relight.sources.reading import write_value

SHELL = "run_shell_command"
EXIT_CODE = re.compile(r"^Exit Code: (-?\d{1,9})$", re.MULTILINE)
# what the client puts in a person's place
CONTEXT = (
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI.",
    "This is the Qwen Code.",
)


class PartCall(Struct):
    id: str | None = None
    name: str = ""
    args: Any = None


class PartResponse(Struct):
    id: str | None = None
    name: str = ""
    response: Any = None

    @property
    def text(self) -> str | None:
        """The tool's words: its error, else its output, else all that it returned."""
        found = self.response
        if isinstance(found, dict):
            for name in ("error", "output"):
                if isinstance(text := found.get(name), str):
                    return text
        return write_value(found)

    @property
    def exit_code(self) -> int | None:
        """The exit code of a shell command, which stands in its output alone."""
        found = EXIT_CODE.search(self.text or "") if self.name == SHELL else None
        return int(found[1]) if found else None


class MessagePart(Struct):
    text: str | None = None
    thought: bool | None = None
    functionCall: PartCall | None = None
    functionResponse: PartResponse | None = None


def join_texts(parts: str | Iterable[MessagePart | str] | None) -> str:
    """The words of a message, without thoughts."""
    if isinstance(parts, str):
        return parts
    return "\n".join(
        one if isinstance(one, str) else one.text or ""
        for one in parts or ()
        if isinstance(one, str) or (one.text and not one.thought)
    )


def find_responses(parts: str | Iterable[MessagePart | str] | None) -> Iterator[PartResponse]:
    """The results of calls among the parts of a message."""
    if isinstance(parts, str):
        return
    for one in parts or ():
        if isinstance(one, MessagePart) and one.functionResponse is not None:
            yield one.functionResponse


def is_context(text: str) -> bool:
    """True for words that the client itself put before a person's."""
    return text.lstrip().startswith(CONTEXT)
