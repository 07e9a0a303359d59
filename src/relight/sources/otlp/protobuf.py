"""Protobuf's wire format: the fields of one message, and the values of attributes.

Telemetry needs three of the format's types: varint, 64 bits and length-delimited. A field that is
not asked for is skipped unread.
"""

from collections.abc import Iterator
from struct import pack, unpack_from
from typing import Any, Literal, overload

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MOST_DEPTH = 32
# the first byte of the fields of a pair, and of a value that is a text or a whole number
TEXT_NAME, VALUE, TEXT, NUMBER = 0x0A, 0x12, 0x0A, 0x18
Value = int | bytes


def read_wire_fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield the number, the wire type and the value of each field; raise ValueError if it is cut.

    A value of 64 or 32 bits is an unsigned number: the caller knows what it means.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = _read_varint(data, at, end)
        kind = key & 7
        value: Value
        if kind == BYTES:
            size, at = _read_varint(data, at, end)
            if size > end - at:
                raise ValueError("a field is longer than its message")
            value = data[at : at + size]
            at += size
        elif kind == VARINT:
            value, at = _read_varint(data, at, end)
        elif kind == FIXED64:
            value, at = _read_fixed(data, at, end, size=8), at + 8
        elif kind == FIXED32:
            value, at = _read_fixed(data, at, end, size=4), at + 4
        else:
            raise ValueError(f"wire type {kind} is unknown")
        if key >> 3 == 0:
            raise ValueError("a field has the number 0")
        yield key >> 3, kind, value


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        if byte < 128 and not shift:
            return byte, at
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")
    raise ValueError("the message ends inside a number")


def _read_fixed(data: bytes, at: int, end: int, *, size: Literal[4, 8]) -> int:
    if end - at < size:
        raise ValueError("the message ends inside a number")
    return int.from_bytes(data[at : at + size], "little")


@overload
def expect(value: Value, kind: type[bytes]) -> bytes: ...
@overload
def expect(value: Value, kind: type[int]) -> int: ...
def expect(value: Value, kind: type[bytes] | type[int]) -> Value:
    """Return the value; raise if the field has another type than its message says."""
    if not isinstance(value, kind):
        raise ValueError(f"a field is not of type {kind.__name__}")
    return value


def read_text(value: Value) -> str:
    return expect(value, bytes).decode("utf-8", "replace")


def read_any(data: bytes, depth: int = 0) -> Any:
    """Return the value of an `AnyValue` message: text, bool, number, list, mapping or None."""
    if depth > MOST_DEPTH:
        raise ValueError("a value is nested too deeply")
    found: Any = None
    for number, _, value in read_wire_fields(data):
        if number == 1:
            found = read_text(value)
        elif number == 2:
            found = bool(expect(value, int))
        elif number == 3:
            whole = expect(value, int)
            found = whole - 2**64 if whole >= 2**63 else whole
        elif number == 4:
            (found,) = unpack_from("<d", expect(value, int).to_bytes(8, "little"))
        elif number == 5:
            found = [
                read_any(expect(one, bytes), depth + 1)
                for place, _, one in read_wire_fields(expect(value, bytes))
                if place == 1
            ]
        elif number == 6:
            found = {}
            for place, _, one in read_wire_fields(expect(value, bytes)):
                if place == 1:
                    name, held = read_pair(expect(one, bytes), depth + 1)
                    found[name] = held
        elif number == 7:
            found = expect(value, bytes).hex()
    return found


def read_pair(data: bytes, depth: int = 0) -> tuple[str, Any]:
    """Return the name and the value of a `KeyValue` message."""
    if (usual := _read_usual_pair(data)) is not None:
        return usual
    name, value = "", b""
    for number, _, found in read_wire_fields(data):
        if number == 1:
            name = read_text(found)
        elif number == 2:
            value = expect(found, bytes)
    return name, read_any(value, depth)


def _read_usual_pair(data: bytes) -> tuple[str, Any] | None:
    """Return a pair as nearly all are written, in a fifth of the time; None for any other.

    That is a short name, followed by a text or a whole number that fills the rest.
    """
    end = len(data)
    if end < 6 or data[0] != TEXT_NAME or data[1] > 127:
        return None
    place = 2 + data[1]
    if place + 4 > end or data[place] != VALUE:
        return None
    size, at = _read_varint(data, place + 1, end)
    if at + size != end or size < 2:
        return None
    kind = data[at]
    if kind not in (TEXT, NUMBER):
        return None
    value: Any
    size, at = _read_varint(data, at + 1, end)
    if kind == TEXT and at + size == end:
        value = data[at:].decode("utf-8", "replace")
    elif kind == NUMBER and at == end and size < 2**63:
        value = size  # a larger one is negative
    else:
        return None
    return data[2:place].decode("utf-8", "replace"), value


def write_varint(value: int) -> bytes:
    """Return a whole number as it is written; a negative one as 64 bits."""
    value &= 2**64 - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def write_number(number: int, value: int) -> bytes:
    """Return a field with a whole number."""
    return write_varint(number << 3 | VARINT) + write_varint(value)


def write_fixed(number: int, value: int) -> bytes:
    """Return a field with 64 bits."""
    return write_varint(number << 3 | FIXED64) + value.to_bytes(8, "little")


def write_bytes(number: int, data: bytes) -> bytes:
    """Return a field with bytes, a text or a message."""
    return write_varint(number << 3 | BYTES) + write_varint(len(data)) + data


def write_text(number: int, text: str) -> bytes:
    """Return a field with a text; nothing for an empty one, which a reader takes for it."""
    data = text.encode("utf-8", "replace")
    return write_bytes(number, data) if data else b""


def write_pair(name: str, value: str | bool | int | float) -> bytes:
    """Return a `KeyValue` message."""
    if isinstance(value, str):
        held = write_bytes(1, value.encode("utf-8", "replace"))
    elif isinstance(value, bool):
        held = write_number(2, value)
    elif isinstance(value, int):
        held = write_number(3, value)
    else:
        held = write_varint(4 << 3 | FIXED64) + pack("<d", value)
    return write_text(1, name) + write_bytes(2, held)
