"""Parse and validate the parameters and body of a request, and the status of an error in it."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from relight.errors import MissingError, RelightError, StoreError
from relight.store.members import Member
from relight.web.guard import MEMBER

LARGEST_BODY = 65_536
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
T = TypeVar("T")


class RequestError(RelightError):
    """A request that is refused with a given status."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.status = status


def check_sees_all(request: Request) -> None:
    """Raise if a member sends the request who sees some projects only."""
    member: Member | None = request.scope.get(MEMBER)
    if member is not None and not member.sees_all:
        raise RequestError(
            403,
            "this is shown only to people who see everything",
            f"relight member allow {member.person} --all",
        )


def read_query(request: Request, kind: type[T]) -> T:
    """Return the query parameters as a Struct; raise if one is unknown or repeated."""
    values: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in values:
            raise RelightError(f"{name} is given twice", "give it once")
        values[name] = value
    return convert(values, kind)


def convert(values: Mapping[str, Any], kind: type[T]) -> T:
    """Return the values as a Struct; raise if one is unknown or invalid."""
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
    for name in values:
        if name not in names:
            known = f"known: {', '.join(names)}" if names else "there are none here"
            raise RelightError(f"there is no parameter {name!r}", known)
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        place = place.rstrip("`")
        message = text[:1].lower() + text[1:].replace("`", "")
        raise RelightError(f"{place}: {message}" if place else message) from error


def list_words(text: str) -> list[str]:
    """Return the words of a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def choose_status(error: Exception, *, is_program: bool) -> tuple[int, str, str | None]:
    """Return the status, message and hint of an error."""
    addresses = "/api/openapi.json" if is_program else "the navigation"
    match error:
        case RequestError():
            return error.status, error.message, error.hint
        case MissingError():
            return 404, error.message, error.hint
        case StoreError():
            return 503, error.message, error.hint
        case RelightError():
            return 400, error.message, error.hint
        case HTTPException(status_code=404):
            thing = "address" if is_program else "page"
            return 404, f"there is no such {thing}", f"{addresses} lists every {thing}"
        case HTTPException(status_code=405):
            return (
                405,
                "this method is not allowed here",
                f"{addresses} lists the methods of each address",
            )
        case HTTPException():
            return error.status_code, error.detail, None
        case _:
            return 500, "Relight could not build this page", "its terminal shows the error"


async def read_body(request: Request) -> tuple[dict[str, Any], bool]:
    """Return a body's fields, and True if a form sent it; an empty body has no fields."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise RequestError(
                413, "the request is too large", f"at most {LARGEST_BODY:,} bytes are accepted"
            )
    if kind == FORM:
        return _read_form(bytes(body)), True
    if not body:
        return {}, False
    if kind != JSON:
        raise RequestError(
            415, f"{kind or 'a body without a content type'} is not supported", f"send {JSON}"
        )
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RelightError(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RelightError("the body is not a JSON object", 'such as {"why": "old layout"}')
    return found, False


def _read_form(body: bytes) -> dict[str, Any]:
    try:
        # `parse_qsl` drops fields that were left empty
        return dict(parse_qsl(body.decode(), max_num_fields=50))
    except ValueError as error:
        raise RelightError(f"the form cannot be read: {error}") from error
