"""Read requests to models; what an earlier request began with is compared, not read again."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from threading import Lock
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from relight.chat.messages import read_text
from relight.chat.requests import (
    SPACE,
    UNREADABLE,
    WireFormat,
    WireItem,
    WireRequest,
    find_format,
)

# the field of each format that is the conversation
FIELDS: dict[WireFormat, str] = {
    "chat": "messages",
    "responses": "input",
    "messages": "messages",
    "gemini": "contents",
}
# limits of the earlier conversations in memory: their size, that of a block, the blocks after one
REMEMBERED_BYTES = 32 << 20
BLOCK_BYTES = 16 << 10
MOST_BRANCHES = 32
OBJECT_END = ord("}")
_MODEL = re.compile(r"/models/([^/:]+):\w+$")


class _Body(Struct):
    """The fields of all four formats; a request has those of its format."""

    model: str | None = None
    messages: list[Raw] | None = None
    contents: list[Raw] | None = None
    input: Raw = Raw(b"")
    system: Any = None
    instructions: Any = None
    system_instruction: Any = None
    camel_instruction: Any = field(name="systemInstruction", default=None)
    previous_response_id: str | None = None
    conversation: Any = None


_decode = msgspec.json.Decoder(_Body).decode
_decode_input = msgspec.json.Decoder(list[Raw] | str | None).decode


class _Block(Struct):
    """Items that follow one another, and the blocks that came after them."""

    data: bytes = b""
    items: list[WireItem] = []
    # the part of `data` that is the first item, in which blocks after the same one differ
    first: bytes = b""
    following: list["_Block"] = []

    def extend(self, data: bytes, items: list[WireItem], *, first: int) -> None:
        """Remember items that follow this block, in it or in a new one; `first` is a size."""
        if self.items and not self.following and len(self.data) < BLOCK_BYTES:
            self.data += data
            self.items += items
        else:
            new = _Block(data, items, data[:first])
            self.following = [new, *self.following[: MOST_BRANCHES - 1]]

    def split(self, body: bytes, start: int, at: int) -> None:
        """Cut off the items that a body lacks at a place; it has the first."""
        size, count = len(self.first), 1
        for item in self.items[1:]:
            end = start + item.end - at
            if not body.startswith(self.data[size:end], at + size):
                break
            size, count = end, count + 1
        second = start + self.items[count].end - at
        rest = _Block(self.data[size:], self.items[count:], self.data[size:second], self.following)
        self.data, self.items, self.following = self.data[:size], self.items[:count], [rest]


class RequestReader:
    """Reads requests; the items that an earlier request began with are compared, not read again.

    To compare bytes takes a tenth of the time that it takes to parse or to hash them.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin without a conversation, as a fork must: a thread may have been reading one."""
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._heads: dict[WireFormat, list[bytes]] = {}
        self._roots: dict[WireFormat, _Block] = {}
        self._room = REMEMBERED_BYTES

    def read(self, path: str, body: bytes) -> WireRequest | None:
        """Return the request in a body; None if it is no request for an answer."""
        name = find_format(path)
        # not waited for: the garbage collector may call this while the same thread reads
        has_lock = self._lock.acquire(blocking=False)
        try:
            return self._read(name, path, body, can_remember=has_lock) if name else None
        except UNREADABLE:
            return None
        finally:
            if has_lock:
                self._lock.release()

    def _read(
        self, name: WireFormat, path: str, body: bytes, *, can_remember: bool
    ) -> WireRequest | None:
        head = self._find_head(name, body) if can_remember else None
        if head is not None:
            found, last = self._read_new(name, body, head)
            return _make_request(name, path, found, last=last, data=body, start=len(head))
        found = _decode(body)
        items = _list_items(name, found)
        if items is None:
            return None
        last = None
        for item in items:
            last = WireItem(last, (last.end if last else 0) + len(bytes(item)))
        return _make_request(name, path, found, last=last, data=b"".join(items), start=0)

    def _find_head(self, name: WireFormat, body: bytes) -> bytes | None:
        """Return a body's bytes up to its first item; None if it has no list of items."""
        heads = self._heads.setdefault(name, [])
        known = next((head for head in heads if body.startswith(head)), None)
        if known is not None:
            return known
        listed = _list_items(name, _decode(body))
        head = body[: body.find(listed[0])].rstrip(SPACE) if listed else b""
        try:
            emptied = getattr(_decode(head + b"]}"), FIELDS[name])
        except msgspec.MsgspecError:
            return None  # the same bytes stand in another place before
        if emptied not in ([], Raw(b"[]")):
            return None
        self._heads[name] = [head, *heads[: MOST_BRANCHES - 1]]
        return head

    def _read_new(
        self, name: WireFormat, body: bytes, head: bytes
    ) -> tuple[_Body, WireItem | None]:
        """Read the items that no earlier request has."""
        if self._room < 0:
            self._forget()
        block, begin = _follow(self._roots.setdefault(name, _Block()), body, len(head))
        # as if the conversation began with the first item that is new
        found = _decode(head + body[begin:].lstrip(SPACE).removeprefix(b","))
        last = block.items[-1] if block.items else None
        new, end = [], begin
        for raw in _list_items(name, found) or ():
            end = body.find(raw, end) + len(bytes(raw))
            last = WireItem(last, end - len(head))
            new.append(last)
        # only after an object is it certain that an item has ended
        if new and all(body[len(head) + item.end - 1] == OBJECT_END for item in new):
            block.extend(body[begin:end], new, first=len(head) + new[0].end - begin)
            self._room -= end - begin
        return found, last


def _follow(block: _Block, body: bytes, start: int) -> tuple[_Block, int]:
    """Return the last block that a body has too, and where it ends in the body."""
    at = start
    while True:
        for following in block.following:
            if body.startswith(following.first, at):
                break
        else:
            return block, at
        if not body.startswith(following.data, at):
            following.split(body, start, at)
        at += len(following.data)
        block = following


_reader = RequestReader()
read_request = _reader.read
renew_reader = _reader.renew


def _make_request(
    name: WireFormat, path: str, found: _Body, *, last: WireItem | None, data: bytes, start: int
) -> WireRequest:
    given = found.system_instruction or found.camel_instruction
    given = given.get("parts") if isinstance(given, Mapping) else given
    system = found.system or found.instructions or given
    return WireRequest(
        format=name,
        model=found.model or _find_model(path),
        last=last,
        data=data,
        start=start,
        system=read_text(system),
        follows=tuple(_list_followed(found)),
    )


@lru_cache(maxsize=64)
def _find_model(path: str) -> str | None:
    found = _MODEL.search(path.partition("?")[0])
    return found[1] if found else None


def _list_items(name: WireFormat, body: _Body) -> list[Raw] | None:
    match name:
        case "chat" | "messages":
            return body.messages
        case "gemini":
            return body.contents
    # a prompt that the server stores needs no input
    given: list[Raw] | str | None = _decode_input(body.input or b"[]")
    if isinstance(given, str):
        return [Raw(msgspec.json.encode({"role": "user", "content": given}))]
    return given


def _list_followed(body: _Body) -> Iterator[str]:
    if body.previous_response_id:
        yield body.previous_response_id
    known = body.conversation
    known = known.get("id") if isinstance(known, Mapping) else known
    if isinstance(known, str):
        yield known
