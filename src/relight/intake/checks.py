"""What a program may tell the recorder: figures are checked at once, payloads taken as they are.

A wrong figure would spoil every sum it goes into, so it is refused where it is told, by the name of
its parameter. What a model or a tool said is only kept: whatever it is, it breaks nothing.
"""

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

import msgspec

from relight.chat.usage import read_openai_usage
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
    """Tokens in disjoint buckets, from an OpenAI answer's own figures or told one by one."""
    if usage is None:
        return Usage(**{name: _take_tokens(f"{name}_tokens", n) for name, n in tokens.items()})
    if isinstance(usage, Usage):
        fields = msgspec.structs.asdict(usage)
        return Usage(**{name: _take_tokens(f"usage.{name}", n) for name, n in fields.items()})
    figures = _as_mapping(usage)
    if figures is None:
        raise RelightError(
            f"usage must be the figures of an answer, not {describe(usage)}",
            'as {"prompt_tokens": 1200, "completion_tokens": 80}',
        )
    return read_openai_usage(figures)


def _take_tokens(name: str, value: object) -> int | None:
    return None if value is None else check_count(name, _as_int(value), most=MOST_TOKENS)


def take_cost(cost_usd: object, cost: object) -> Cost | None:
    """What the call cost, in dollars as told, or as Relight's own `Cost`."""
    if cost_usd is not None:
        is_number = isinstance(cost_usd, int | float | str | Decimal)
        told = reported_cost(cost_usd) if is_number else None  # type: ignore[arg-type]
        if told is None or told.nanos is None or isinstance(cost_usd, bool):
            raise RelightError(
                f"cost_usd must be dollars from 0 to {MOST_USD:,}, not {describe(cost_usd)}",
                "leave it out where it is not known",
            )
        return told
    if cost is None:
        return None
    if not isinstance(cost, Cost):
        raise RelightError(f"cost must be a Cost, not {describe(cost)}", "or give cost_usd")
    if cost.nanos is not None:
        check_count("cost.nanos", cost.nanos, most=MOST_USD * NANOS)
    return cost


def take_duration(name: str, value: object) -> int | None:
    """Whole milliseconds; what no clock can have meant is not known.

    A program's clock may be set back between two looks at it: that is no mistake of the program's.
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
    """The integers of other libraries as Python's own."""
    is_foreign = not isinstance(value, int) and hasattr(value, "__index__")
    return value.__index__() if is_foreign else value


def take_text(name: str, value: object) -> str | None:
    """A name or a path, as the database can hold it."""
    if value is None:
        return None
    if not isinstance(value, str | PurePath):
        raise RelightError(f"{name} must be text, not {describe(value)}")
    return mend(str(value))


def take_id(value: object) -> str:
    """A session's id; half characters, which the database cannot hold, are told apart by a hash.

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
    """The text without half characters, which no UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode()


def take_failure(failure: object) -> Failure | None:
    if failure is None or isinstance(failure, Failure):
        return failure
    known = vars(failure).get("failure") if isinstance(failure, BaseException) else None
    return known if isinstance(known, Failure) else classify_error(failure)


def was_refused(failure: Failure) -> bool:
    """Whether a call was turned away, so that nothing was used; any other may be charged."""
    return isinstance(failure.code, int) and 400 <= failure.code < 500


def was_interrupted(error: BaseException) -> bool:
    """Whether someone wished to leave, which says nothing of how the work went."""
    return any(base.__name__ in INTERRUPTIONS for base in type(error).__mro__)


def say_error(error: BaseException) -> str:
    """What a program failed with, in words; one that fails to tell breaks nothing."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - the program's error must not become ours
        words = "it cannot be told"
    return mend(f"{type(error).__name__}: {words}")


def take_message(name: str, message: object) -> dict[str, Any] | None:
    """A message as plain data, from a mapping or an object of the SDK."""
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
    """Arguments or a result as text: JSON where it can be."""
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
    """What JSON can carry of a value, its own words where that is nothing."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_dump)
        msgspec.json.encode(plain)
    except UnicodeEncodeError:
        return plain  # half characters are mended when it is written
    except Exception:  # noqa: BLE001 - a payload that goes round in circles, or breaks when looked at
        return say(value)
    return plain


def _dump(value: Any) -> Any:
    fields = _as_mapping(value)
    return say(value) if fields is None else fields


def _as_mapping(value: Any) -> dict[Any, Any] | None:
    """The fields of a mapping, of an object of the SDK, or of a Struct."""
    if isinstance(value, Mapping):
        return dict(value)
    try:
        if callable(dump := getattr(value, "model_dump", None)):
            fields = dump(exclude_none=True)
            return fields if isinstance(fields, dict) else None
    except Exception:  # noqa: BLE001 - as above: then it is no such object
        return None
    return None


def say(value: object) -> str:
    """A value in its own words, or at least what it is; one that fails to tell breaks nothing."""
    try:
        return value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__}>"
