"""Validates the recorder's arguments: raises for bad values, accepts any payload.

A wrong number would spoil every sum. The error names its parameter; the recorder logs it, counts a
miss and records the event without the value. The content of messages, arguments and results is only
stored, and may be anything.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from decimal import Decimal
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec

from relight.chat.answers import read_answer
from relight.chat.usage import FoundUsage, read_count, read_usage
from relight.errors import RelightError, check_choice, check_count, describe
from relight.judging.failures import classify_error
from relight.model import MOST_TOKENS, OUTCOMES, Cost, Failure, OutcomeName, Usage
from relight.prices import MOST_USD, reported_cost

T = TypeVar("T", Cost, Failure)
# a longer call is a clock that jumped
LONGEST_MS = 30 * 86_400_000
LARGEST_CODE = 2**63 - 1
# by name: asyncio is not imported for the one of them that it has
INTERRUPTIONS = ("KeyboardInterrupt", "CancelledError", "GeneratorExit", "SystemExit")


def take_usage(usage: object, tokens: Mapping[str, object]) -> FoundUsage:
    """Return tokens in disjoint buckets, from the figures of a response or from single numbers."""
    if usage is not None:
        return read_usage(usage)
    counts, problems = {}, []
    for name, value in tokens.items():
        counts[name] = None if value is None else read_count(value)
        if value is not None and counts[name] is None:
            problems.append(
                f"{name}_tokens must be a whole number from 0 to {MOST_TOKENS:,},"
                f" not {describe(value)}"
            )
    return FoundUsage(Usage(**counts), tuple(problems))


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
    return _check_struct("cost", cost, Cost)


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


def take_place(value: object) -> int | None:
    return None if value is None else check_count("place", _as_int(value))


def take_flag(value: object) -> bool | None:
    return None if value is None else bool(value)


def take_outcome(value: object) -> OutcomeName | None:
    if value is None:
        return None
    check_choice("outcome", value, OUTCOMES)
    return next(one for one in OUTCOMES if one == value)


def _as_int(value: Any) -> object:
    """Return integers of other libraries, and of subclasses, as Python's."""
    if isinstance(value, int):
        return value if isinstance(value, bool) else int.__int__(value)
    return value.__index__() if hasattr(value, "__index__") else value


def take_text(name: str, value: object) -> str | None:
    """Return a name or a path as text that the database can hold; None for an empty one."""
    if value is None:
        return None
    if not isinstance(value, str | PurePath):
        raise RelightError(f"{name} must be text, not {describe(value)}")
    return mend(str(value)) or None


def take_id(value: object) -> str | None:
    """Return a session's id, None for none; a hash keeps ids with surrogates distinct.

    >>> take_id("mine"), take_id("\\ud800")
    ('mine', '?~4208783e927d0d68')
    """
    text = "" if value is None else str(value)
    plain = mend(text)
    if plain == text:
        return plain or None
    raw = text.encode("utf-8", "surrogatepass")
    return f"{plain}~{blake2b(raw, digest_size=8).hexdigest()}"


def mend(text: str) -> str:
    """Return the text with lone surrogates replaced, which UTF-8 cannot encode."""
    return str.encode(text, "utf-8", "replace").decode()


def take_failure(failure: object) -> Failure | None:
    if failure is None:
        return None
    known = vars(failure).get("failure") if isinstance(failure, BaseException) else failure
    return (
        _check_struct("failure", known, Failure)
        if isinstance(known, Failure)
        else classify_error(failure)
    )


def _check_struct(name: str, value: object, kind: type[T]) -> T:
    """Return one of Relight's values with its unchecked fields made sound."""
    if not isinstance(value, kind):
        raise RelightError(f"{name} must be a {kind.__name__}, not {describe(value)}")
    try:
        return msgspec.convert(msgspec.structs.asdict(value), kind)
    except msgspec.ValidationError as error:
        raise RelightError(f"{name} is not valid: {error}") from error


def has_begun(message: Mapping[str, Any] | None, first_token_ms: object) -> bool:
    """True if a failed call had begun to answer: such a call is charged, whatever its failure."""
    said = message or {}
    return first_token_ms is not None or bool(said.get("content") or said.get("tool_calls"))


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


def take_message(message: object) -> dict[str, Any] | None:
    """Return a model's answer as a chat message, from text, plain data or an SDK's objects."""
    if message is None:
        return None
    is_data = isinstance(message, str | Mapping | list | tuple)
    fields = message if is_data else _read_fields(message)
    answer = None if fields is None else read_answer(make_plain(fields, _dump_fields))
    if answer is None:
        raise RelightError(
            f"message has no text or calls that Relight knows: {describe(message)}",
            'as {"role": "assistant", "content": "…"}',
        )
    return answer


def write_payload(value: object) -> str | None:
    """Return arguments or a result as text: JSON if possible."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    plain = make_plain(value)
    if isinstance(plain, str):
        return plain
    try:
        return msgspec.json.encode(plain).decode()
    except UnicodeEncodeError:
        return json.dumps(plain, ensure_ascii=False)


def make_plain(value: object, dump: Callable[[Any], Any] | None = None) -> Any:
    """Return a value as plain data, or its `repr` if JSON cannot carry it."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=dump or _dump)
        msgspec.json.encode(plain)
    except UnicodeEncodeError:
        return plain  # surrogates are replaced when it is written
    except Exception:  # noqa: BLE001 - a payload may be circular, or raise when it is read
        return format_payload(value)
    return plain


def _dump(value: Any) -> Any:
    """Return the fields of a mapping or an SDK object; the `repr` of anything else."""
    fields = _as_mapping(value)
    return _make_simple(value) if fields is None else fields


def _dump_fields(value: Any) -> Any:
    """Return the fields of any object; the `repr` of one without fields."""
    fields = None if isinstance(value, str | int | float) else _read_fields(value)
    return _make_simple(value) if fields is None else fields


def _make_simple(value: Any) -> Any:
    """Return a number or a text of a subclass as Python's own; the `repr` of anything else."""
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else format_payload(value)


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


def _read_fields(value: Any) -> dict[Any, Any] | None:
    """Return the fields of a mapping or object of any kind; None for one without fields."""
    if (fields := _as_mapping(value)) is not None:
        return fields
    try:
        if is_dataclass(value) or isinstance(value, msgspec.Struct):
            plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_dump_fields)
            return plain if isinstance(plain, dict) else None
        return dict(vars(value)) or None
    except Exception:  # noqa: BLE001 - as above
        return None


def format_payload(value: object) -> str:
    """Return a value's `repr`, or its type if that fails."""
    try:
        # of a subclass, such as LangChain's, the text itself: JSON takes no other
        return str.__str__(value if isinstance(value, str) else repr(value))
    except Exception:  # noqa: BLE001 - as above
        return f"<{type(value).__name__}>"
