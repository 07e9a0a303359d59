"""Messages that a server of the Model Context Protocol sends: JSON-RPC responses and results."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType


class Nothing(Struct, frozen=True):
    """A result without fields."""


class ToolHints(Struct, frozen=True, rename="camel"):
    """Properties of a tool that a client may rely on before it calls it."""

    read_only_hint: bool = True
    destructive_hint: bool = False
    idempotent_hint: bool = True
    open_world_hint: bool = False


class ToolOffer(Struct, frozen=True, rename="camel"):
    """A tool with the JSON schema of its arguments."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    annotations: ToolHints = ToolHints()


class ToolOffers(Struct, frozen=True):
    """The tools of a server."""

    tools: Sequence[ToolOffer]


class TextBlock(Struct, frozen=True, tag_field="type", tag="text"):
    """A text in the result of a call."""

    text: str


class CallAnswer(Struct, frozen=True, rename="camel"):
    """The result of a call, or the reason of its failure."""

    content: list[TextBlock]
    is_error: bool = False


class ServerName(Struct, frozen=True):
    """A server and its version."""

    name: str
    version: str


class Capabilities(Struct, frozen=True):
    """The parts of the protocol that the server has."""

    tools: Nothing = Nothing()


class Welcome(Struct, frozen=True, rename="camel"):
    """The result for a client that connects."""

    protocol_version: str
    capabilities: Capabilities
    server_info: ServerName
    instructions: str


class ProtocolProblem(Struct, frozen=True):
    """An error with its code in JSON-RPC."""

    code: int
    message: str


class RpcResponse(Struct, frozen=True, kw_only=True):
    """The response to a request: a result or an error."""

    jsonrpc: str = "2.0"
    id: object
    result: Struct | UnsetType = UNSET
    error: ProtocolProblem | UnsetType = UNSET
