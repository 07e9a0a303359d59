"""The API's OpenAPI document, generated from its tables, parameters and response types.

`./dev docs` writes it to `openapi.json`, which the server serves: this module is not loaded there.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_type_hints

import msgspec

from relight.intake.wire import CONTENT as TEAM_TYPE
from relight.intake.wire import VERSIONS
from relight.web.actions import ACTIONS
from relight.web.api import QUERIES
from relight.web.guard import ErrorResponse
from relight.web.parameters import NoParameters
from relight.web.routes import SERVER_QUERIES
from relight.web.team import TEAM_ACTIONS

Schema = dict[str, Any]
INFO = {
    "title": "Relight",
    "version": "1",
    "summary": "What agents did and cost, on this machine.",
    "description": (
        "The JSON behind the dashboard of `relight serve`, in the shapes of the command line's"
        " --json. Times are ISO-8601 in UTC, money is dollars, and null is unknown, never zero."
        " An unknown parameter is an error. With a token set, send `Authorization: Bearer TOKEN`."
        " Not part of it: what machines of a team send each other (`/api/v1/…`, MessagePack), and"
        " the receiver of telemetry (`/v1/…` on its own port), which follows the document of OTLP."
    ),
    "license": {"name": "MIT"},
}
TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "The token that `relight serve` was started with, if any.",
}
SECRET = {
    "name": "X-Relight-Secret",
    "in": "header",
    "schema": {"type": "string"},
    "description": ("The secret of `/api/secret`. Not needed with a token in Authorization."),
}
TEAM_HEADERS: list[Schema] = [
    {
        "name": "X-Relight-Wire",
        "in": "header",
        "required": True,
        "schema": {"enum": [str(one) for one in VERSIONS]},
        "description": "The version of the messages. A machine's token has the scope `push`.",
    },
    {
        "name": "X-Relight-Machine",
        "in": "header",
        "schema": {"type": "string"},
        "description": "The id of the machine's own store; needed once it has joined.",
    },
]
PATH_DESCRIPTIONS = {
    "session": "`source:id`, the agent's own id, or a unique beginning of either; may have slashes."
}
ERRORS = {
    400: "A parameter is unknown, of the wrong type or out of bounds.",
    401: "A token is required.",
    403: "The request comes from another site, or lacks the secret.",
    404: "The thing named does not exist.",
    409: "The wire version, the server's store or the machine is another than the client expects.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "A part is damaged, or not of the level that the machine shares.",
    429: "The queue or the disk is full; Retry-After says when to send again.",
    503: "The database cannot be used.",
}
REFERENCE = "#/components/schemas/{name}"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one address."""

    path: str
    method: str
    function: Callable[..., Any]
    parameters: type[Any] = NoParameters
    body: type[Any] = NoParameters
    errors: tuple[int, ...]
    # an address of `relight serve --team`, for machines
    is_team: bool = False


def list_operations() -> Iterator[Operation]:
    for query in QUERIES:
        errors = (400, 404) if query.may_miss or "{" in query.path else (400,)
        yield Operation(
            path=query.path,
            method="get",
            function=query.read,
            parameters=query.parameters,
            errors=(*errors, 401, 403, 503),
        )
    for action in ACTIONS:
        yield Operation(
            path=action.path,
            method="post",
            function=action.act,
            body=action.body,
            errors=(400, 404, 401, 403, 413, 415, 503),
        )
    for path, read in SERVER_QUERIES.items():
        yield Operation(path=path, method="get", function=read, errors=(400, 401, 403, 503))
    for one in TEAM_ACTIONS:
        yield Operation(
            path=one.path,
            method=one.method.lower(),
            function=one.act,
            body=one.body,
            errors=(400, 401, 403, 404, 409, 413, 422, 429, 503),
            is_team=True,
        )


def build_document() -> Schema:
    """Return the whole document."""
    operations = list(list_operations())
    returned = [get_type_hints(one.function)["return"] for one in operations]
    (error, *responses), components = msgspec.json.schema_components(
        [ErrorResponse, *returned], ref_template=REFERENCE
    )
    sent = list_bodies(one.body for one in operations if not one.is_team)
    for schema in components.values():
        tighten_response(schema)
    for schema in sent.values():
        schema["additionalProperties"] = False
    # a machine may send a field that this version does not know
    sent |= list_bodies(one.body for one in operations if one.is_team)
    paths: Schema = {}
    for one, response in zip(operations, responses, strict=True):
        path = one.path.replace(":path", "")
        paths.setdefault(path, {})[one.method] = describe_operation(one, response)
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": TOKEN},
            "responses": {
                str(status): describe_response(text, error) for status, text in ERRORS.items()
            },
            "schemas": {
                name: {key: value for key, value in schema.items() if key != "title"}
                for name, schema in (components | sent).items()
            },
        },
    }


def list_bodies(kinds: Iterable[type[Any]]) -> Schema:
    """Return the schemas of bodies, and of the shapes in them, by name."""
    bodies = {kind for kind in kinds if kind is not NoParameters}
    ordered = sorted(bodies, key=lambda body: body.__name__)
    return dict(msgspec.json.schema_components(ordered, ref_template=REFERENCE)[1])


def tighten_response(schema: Schema) -> None:
    """Require every field that is always written: only UNSET ones are left out."""
    if "properties" not in schema:
        return
    required = set(schema["required"])
    for name, field in schema["properties"].items():
        merge_types(field)
        if "default" in field:
            del field["default"]
            required.add(name)
        if name == "at" or name.endswith("_at"):
            field["format"] = "date-time"
    schema["required"] = [name for name in schema["properties"] if name in required]
    schema["additionalProperties"] = False


def merge_types(field: Schema) -> None:
    """Write a choice between plain types, such as text or null, as a list of them."""
    choices = field.get("anyOf", ())
    if choices and all(set(one) == {"type"} for one in choices):
        del field["anyOf"]
        field["type"] = [one["type"] for one in choices]


def describe_operation(one: Operation, response: Schema) -> Schema:
    summary, _, description = (inspect.getdoc(one.function) or "").partition("\n\n")
    first, *rest = one.function.__name__.split("_")
    found: Schema = {
        "operationId": first + "".join(map(str.capitalize, rest)),
        "summary": summary,
    }
    if description:
        found["description"] = " ".join(description.split())
    parameters = [*path_parameters(one.path), *query_parameters(one.parameters)]
    if one.is_team:
        parameters += TEAM_HEADERS
    elif one.method == "post":
        parameters.append(SECRET)
    if parameters:
        found["parameters"] = parameters
    if one.body is not NoParameters:
        schema = {"$ref": REFERENCE.format(name=one.body.__name__)}
        fields = msgspec.structs.fields(one.body)
        found["requestBody"] = {
            "required": any(field.required for field in fields),
            "content": {TEAM_TYPE if one.is_team else "application/json": {"schema": schema}},
        }
    found["responses"] = {
        "200": describe_response("Found." if one.method == "get" else "Done.", response),
        **{str(status): {"$ref": f"#/components/responses/{status}"} for status in one.errors},
    }
    return found


def describe_response(text: str, schema: Schema) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def path_parameters(path: str) -> Iterable[Schema]:
    for name in re.findall(r"{(\w+)", path):
        found: Schema = {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        if name in PATH_DESCRIPTIONS:
            found["description"] = PATH_DESCRIPTIONS[name]
        yield found


def query_parameters(kind: type[Any]) -> Iterable[Schema]:
    """Yield the fields of a Struct as query parameters."""
    _, components = msgspec.json.schema_components([kind])
    found = components[kind.__name__]
    for name, schema in found["properties"].items():
        parameter: Schema = {"name": name, "in": "query", "schema": schema}
        if name in found["required"]:
            parameter["required"] = True
        if "description" in schema:
            parameter["description"] = schema.pop("description")
        if schema.get("default") == "":
            del schema["default"]
        if schema.pop("style", None):
            # a text for the server, a list for its clients
            del schema["maxLength"]
            schema["type"] = "array"
            if "default" in schema:
                schema["default"] = schema["default"].split(",")
            parameter |= {"style": "form", "explode": False}
        yield parameter


def format_document() -> str:
    """Return the document as the text of `openapi.json`."""
    text = msgspec.json.format(msgspec.json.encode(build_document()), indent=2)
    return text.decode() + "\n"
