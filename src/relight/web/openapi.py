"""The API's OpenAPI document, generated from its tables, parameters and response types.

`./dev docs` writes it to `openapi.json`, which the server serves: this module is not loaded there.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_type_hints

import msgspec

from relight.web.actions import ACTIONS
from relight.web.api import QUERIES
from relight.web.parameters import NoParameters
from relight.web.routes import SERVER_QUERIES, ErrorResponse

INFO = {
    "title": "Relight",
    "version": "1",
    "summary": "What agents did and cost, on this machine.",
    "description": (
        "The JSON behind the dashboard of `relight serve`, in the shapes of the command line's"
        " --json. Times are ISO-8601 in UTC, money is dollars, and null is unknown, never zero."
        " An unknown parameter is an error. With a token set, send `Authorization: Bearer TOKEN`."
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
PATH_DESCRIPTIONS = {
    "session": "`source:id`, the agent's own id, or a unique beginning of either; may have slashes."
}
ERRORS = {
    400: "A parameter is unknown, of the wrong type or out of bounds.",
    401: "A token is required.",
    403: "The request comes from another site, or lacks the secret.",
    404: "The thing named does not exist.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    503: "The database cannot be used.",
}
REFERENCE = "#/components/schemas/{name}"
Schema = dict[str, Any]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one address."""

    path: str
    method: str
    function: Callable[..., Any]
    parameters: type[Any] = NoParameters
    body: type[Any] = NoParameters
    errors: tuple[int, ...]


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


def build_document() -> Schema:
    """Return the whole document."""
    operations = list(list_operations())
    bodies = {one.body for one in operations if one.body is not NoParameters}
    returned = [get_type_hints(one.function)["return"] for one in operations]
    (error, *responses), components = msgspec.json.schema_components(
        [ErrorResponse, *returned], ref_template=REFERENCE
    )
    _, sent = msgspec.json.schema_components(
        sorted(bodies, key=lambda body: body.__name__), ref_template=REFERENCE
    )
    for schema in components.values():
        tighten_response(schema)
    for schema in sent.values():
        schema["additionalProperties"] = False
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
            "schemas": {name: drop_title(one) for name, one in (components | sent).items()},
        },
    }


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


def drop_title(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}


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
    if one.method == "post":
        parameters.append(SECRET)
    if parameters:
        found["parameters"] = parameters
    if one.body is not NoParameters:
        schema = {"$ref": REFERENCE.format(name=one.body.__name__)}
        fields = msgspec.structs.fields(one.body)
        found["requestBody"] = {
            "required": any(field.required for field in fields),
            "content": {"application/json": {"schema": schema}},
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
