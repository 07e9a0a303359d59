"""Validates the recorder's arguments: raises for bad numbers, accepts any payload.

A wrong number would spoil every sum, so the error names its parameter at once. The content of
messages, arguments and results is only stored, and may be anything.
"""

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

import msgspec

from relight.chat.tokens import read_openai_usage
from relight.checks import check_count, describe
from relight.errors import RelightError
from relight.judging.failures import classify_error
from relight.model import MOST_TOKENS, Cost, Failure, Usage
from relight.prices import MOST_USD, NANOS, reported_cost

# a longer call is a clock that jumped
LONGEST_MS = 30 * 86_400_000
LARGEST_CODE = 2**63 - 1
# by name: asyncio is not imported for the one of them that it has
INTERRUPTIONS = ("KeyboardInterrupt", "CancelledError", "GeneratorExit", "SystemExit")


def take_usage(usage: object, tokens: Mapping[str, object]) -> Usage:
    """Return tokens in disjoint buckets, from an OpenAI response's figures or single numbers."""
    if usage is None:
        return Usage(**{name: _take_tokens(f"{name}_tokens", n) for name, n in tokens.items()})
    if isinstance(usage, Usage):
        fields = msgspec.structs.asdict(usage)
        return Usage(**{name: _take_tokens(f"usage.{name}", n) for name, n in fields.items()})
    figures = _as_mapping(usage)
    if figures is None:
        raise RelightError(
            f"usage must be the figures of a response, not {describe(usage)}",
            'as {"prompt_tokens": 1200, "completion_tokens": 80}',
        )
    return read_openai_usage(figures)


def _take_tokens(name: str, value: object) -> int | None:
    return None if value is None else check_count(name, _as_int(value), most=MOST_TOKENS)


def take_cost(cost_usd: object, cost: object) -> Cost | None:
    """Return the cost of a call, given in dollars or as a `Cost`; None if it is unknown."""
    if cost_usd is not None:
        is_number = isinstance(cost_usd, int | float | str | Decimal)
        reported = reported_cost(cost_usd) if is_number else None  # type: ignore[arg-type]
        if reported is None or reported.nanos is None or isinstance(cost_usd, bool):
            raise RelightError(
                f"cost_usd must be dollars from 0 to {MOST_USD:,}, not {describe(cost_usd)}",
                "leave it out if it is unknown",
            )
        return reported
    if cost is None:
        return None
    if not isinstance(cost, Cost):
        raise RelightError(f"cost must be a Cost, not {describe(cost)}", "or give cost_usd")
    if cost.nanos is not None:
        check_count("cost.nanos", cost.nanos, most=MOST_USD * NANOS)
    return cost


def take_duration(name: str, value: object) -> int | None:
    """Return whole milliseconds; None if the value is impossible.

    A clock may be set back between two readings, which is not an error of the program.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RelightError(f"{name} must be milliseconds, not {describe(value)}")
    return round(value) if math.isfinite(value) and 0 <= value <= LONGEST_MS else None


def take_code(value: object) -> int | None:
    if value is None:
        return None
    return check_count("exit_code", _as_int(value), least=-LARGEST_CODE, most=LARGEST_CODE)


def _as_int(value: Any) -> object:
    """Return integers of other libraries as Python's."""
    is_foreign = not isinstance(value, int) and hasattr(value, "__index__")
    return value.__index__() if is_foreign else value


def take_text(name: str, value: object) -> str | None:
    """Return a name or a path as text that the database can hold."""
    if value is None:
        return None
    if not isinstance(value, str | PurePath):
        raise RelightError(f"{name} must be text, not {describe(value)}")
    return mend(str(value))


def take_id(value: object) -> str:
    """Return a session's id; if surrogates must be replaced, a hash keeps ids distinct.

    >>> take_id("mine"), take_id("\\ud800")
    ('mine', '?~4208783e927d0d68')
    """
    text = str(value)
    plain = mend(text)
    if plain == text:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    return f"{plain}~{blake2b(raw, digest_size=8).hexdigest()}"


def mend(text: str) -> str:
    """Return the text with lone surrogates replaced, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def take_failure(failure: object) -> Failure | None:
    if failure is None or isinstance(failure, Failure):
        return failure
    known = vars(failure).get("failure") if isinstance(failure, BaseException) else None
    return known if isinstance(known, Failure) else classify_error(failure)


def was_refused(failure: Failure) -> bool:
    """True if the endpoint refused the call, so that nothing is charged."""
    return isinstance(failure.code, int) and 400 <= failure.code < 500


def was_interrupted(error: BaseException) -> bool:
    """True if a program was interrupted, which says nothing about its outcome."""
    return any(base.__name__ in INTERRUPTIONS for base in type(error).__mro__)


def format_error(error: BaseException) -> str:
    """Return the type and message of a program's error, even if its `str` fails."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - the program's error must not become ours
        words = "its message cannot be read"
    return mend(f"{type(error).__name__}: {words}")


def take_message(name: str, message: object) -> dict[str, Any] | None:
    """Return a message as plain data, from a mapping or an SDK object."""
    if message is None:
        return None
    fields = _as_mapping(message)
    if fields is None:
        raise RelightError(
            f"{name} must be a message, not {describe(message)}",
            'as {"role": "assistant", "content": "…"}',
        )
    plain = make_plain(fields)
    return plain if isinstance(plain, dict) else {"content": plain}


def write_payload(value: object) -> str | None:
    """Return arguments or a result as text: JSON if possible."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    plain = make_plain(value)
    if isinstance(plain, str):
        return plain
    try:
        return msgspec.json.encode(plain).decode()
    except UnicodeEncodeError:
        return json.dumps(plain, ensure_ascii=False)


def make_plain(value: object) -> Any:
    """Return a value as plain data, or its `repr` if JSON cannot carry it."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_dump)
        msgspec.json.encode(plain)
    except UnicodeEncodeError:
        return plain  # surrogates are replaced when it is written
    except Exception:  # noqa: BLE001 - a payload may be circular, or raise when it is read
        return format_payload(value)
    return plain


def _dump(value: Any) -> Any:
    fields = _as_mapping(value)
    return format_payload(value) if fields is None else fields


def _as_mapping(value: Any) -> dict[Any, Any] | None:
    """Return the fields of a mapping or an SDK object; None for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    try:
        if callable(dump := getattr(value, "model_dump", None)):
            fields = dump(exclude_none=True)
            return fields if isinstance(fields, dict) else None
    except Exception:  # noqa: BLE001 - as above: then it is not such an object
        return None
    return None


def format_payload(value: object) -> str:
    """Return a value's `repr`, or its type if that fails."""
    try:
        return value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__}>"
