"""Requests of this machine to the server that it has joined."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import msgspec

from relight.errors import RelightError
from relight.intake.http_line import (
    LOOPBACK,
    SECONDS,
    UNREACHABLE,
    Answer,
    HttpLine,
    name_reason,
    read_wait,
    split_address,
)
from relight.intake.wire import CONTENT, VERSION

VARIABLE = "RELIGHT_TEAM_TOKEN"


class ServerError(RelightError):
    """The server could not be reached, or refused a request."""


class BusyServerError(ServerError):
    """The server asks to wait."""

    def __init__(self, message: str, hint: str | None, wait_seconds: int) -> None:
        super().__init__(message, hint)
        self.wait_seconds = wait_seconds


class ChangedTargetError(ServerError):
    """The server has another store than the one this machine joined, or does not know it."""


class CopiedTargetError(ServerError):
    """Another home with this one's id has pushed: one is a copy of the other."""


class RefusedMessageError(ServerError):
    """The server does not take this message, such as one that is too large."""


class Line(HttpLine):
    """The connection of a machine, with its token."""

    def __init__(self, url: str, token: str, *, seconds: float = SECONDS) -> None:
        super().__init__(url, seconds=seconds)
        self._token = token

    def send(self, method: str, path: str, body: object = None, **headers: str) -> bytes:
        """Return the body of the response; raise what went wrong, in words."""
        given = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": CONTENT,
            "X-Relight-Wire": str(VERSION),
            **{f"X-Relight-{name}": text for name, text in headers.items()},
        }
        data = b"" if body is None else msgspec.msgpack.encode(body)
        try:
            answer = self.exchange(method, path, data, given)
        except UNREACHABLE as error:
            self.close()
            raise ServerError(
                f"{self._url} cannot be reached: {name_reason(error)}",
                "nothing is lost: the next push sends what is pending",
            ) from error
        if answer.status == 200:
            return answer.body
        self.close()
        raise self._explain(answer)

    def _explain(self, answer: Answer) -> ServerError:
        """Return the error of a refused request, with the server's own words."""
        said = _read_error(answer.body)
        message = str(said.get("error") or f"the server answered {answer.status}")[:300]
        hint = said.get("hint")
        match answer.status:
            case 401 | 403:
                is_known = answer.status == 403
                why = message if is_known else "it is unknown there, or was revoked"
                hint = "ask for a new one: relight member token NAME"
                return ServerError(f"{self._url} refused the token: {why}", hint)
            case 409 if "versions" in said:
                known = ", ".join(map(str, said["versions"]))
                return ServerError(
                    f"this Relight sends wire version {VERSION}, and the server takes {known}",
                    "update the older of the two; nothing is lost until then",
                )
            case 409 if "copied" in said:
                return CopiedTargetError(message, str(hint) if hint else None)
            case 404 | 409:
                return ChangedTargetError(message, str(hint) if hint else None)
            case 413 | 422:
                return RefusedMessageError(message, str(hint) if hint else None)
            case 429 | 503:
                seconds = read_wait(answer, 60)
                hint = f"nothing is lost: it is tried again in {seconds} s"
                return BusyServerError(f"the server is busy: {message}", hint, seconds)
            case 301 | 302 | 303 | 307 | 308:
                to = answer.headers.get("location", "")[:200]
                return ServerError(f"{self._url} leads to {to}", "join that address")
        return ServerError(message, str(hint) if hint else None)


def _read_error(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def check_url(url: str) -> str:
    """Return a server's address as it is stored; raise if a token would travel in the clear."""
    address, host = split_address(
        url, hint="such as https://relight.example.org", place="put the token into --token-file"
    )
    if address.startswith("http:") and host not in LOOPBACK:
        raise RelightError(
            f"{url} would send the token unencrypted",
            "use https, or a tunnel: ssh -L 7717:127.0.0.1:7717 SERVER",
        )
    return address


def find_token(token_file: str | None) -> str:
    """Return the token in a file, else in a variable; raise if there is none."""
    if token_file is None:
        token = os.environ.get(VARIABLE, "").strip()
        if not token:
            raise RelightError("there is no token", f"give --token-file FILE, or set {VARIABLE}")
        return check_token(token)
    from relight.locks import read_secret

    return check_token(read_secret(Path(token_file)))


def check_token(token: str) -> str:
    """Raise unless a token can stand in a header."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise RelightError("the token has characters that no token has", "copy it again")
    return token


def name_host() -> str:
    """Return this machine's name, as it is offered to the server."""
    return socket.gethostname().partition(".")[0] or "machine"
