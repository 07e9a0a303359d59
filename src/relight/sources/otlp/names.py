"""The names of attributes in telemetry, from `data/telemetry.toml`."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct

from relight import data
from relight.chat.usage import read_count
from relight.model import Usage

Attributes = Mapping[str, Any]


class KindSign(Struct, frozen=True):
    """An attribute that says what a span is about, and the values that mean this kind."""

    name: str
    values: list[str]


class SpanKind(Struct, frozen=True):
    """The signs of a kind of span."""

    kinds: list[KindSign]
    counts: list[str] = []
    events: list[str] = []


class FlatMessages(Struct, frozen=True):
    """The beginnings of the names of messages whose parts are attributes."""

    input: str
    output: str


class TelemetryAgent(Struct, frozen=True, kw_only=True):
    """An agent whose files are read as well, and the scopes of its telemetry."""

    source: str
    scopes: list[str]
    ignored: list[str] = []
    # the wanted records, each with attributes of which it needs one
    events: dict[str, list[str]]


class TelemetryTable(Struct, frozen=True):
    """The whole of `data/telemetry.toml`."""

    marks: list[str]
    dropped: list[str]
    call: SpanKind
    tool: SpanKind
    work: SpanKind
    names: dict[str, list[str]]
    tokens: dict[str, list[str]]
    flat_messages: list[FlatMessages]
    message_events: dict[str, str]
    agent: list[TelemetryAgent]
    dear_writes: list[str]
    response_ids: list[str]
    hidden: list[str]


@cache
def read_table() -> TelemetryTable:
    """Return the table, checked."""
    return data.read_table("telemetry.toml", TelemetryTable)


@lru_cache(maxsize=4096)
def find_agent(scope: str) -> str | None:
    """Return the source of the agent that this scope belongs to."""
    for agent in read_table().agent:
        if scope.startswith(tuple(agent.scopes)):
            return agent.source
    return None


@lru_cache(maxsize=4096)
def is_ignored(scope: str) -> bool:
    """True if the records of this scope are dropped unread."""
    return any(scope.startswith(tuple(one.ignored)) for one in read_table().agent if one.ignored)


def is_needed(source: str, name: str, attributes: Attributes) -> bool:
    """True if a record of an agent says something that its files may lack."""
    for agent in read_table().agent:
        if agent.source == source:
            needed = agent.events.get(name)
            return needed is not None and (not needed or any(one in attributes for one in needed))
    return False


def name_fact(name: str) -> str:
    """Return the name under which a fact is written.

    >>> name_fact("provider"), name_fact("cache_read")
    ('gen_ai.provider.name', 'gen_ai.usage.cache_read.input_tokens')
    """
    table = read_table()
    return (table.tokens.get(name) or table.names[name])[0]


def name_kind(kind: SpanKind) -> tuple[str, str]:
    """Return the attribute and the value that say what a written span is about."""
    return kind.kinds[0].name, kind.kinds[0].values[0]


def find_value(attributes: Attributes, name: str) -> Any:
    """Return the first value under one of the names of a fact; None if there is none.

    >>> find_value({"gen_ai.system": "openai"}, "provider")
    'openai'
    """
    for one in read_table().names[name]:
        if (value := attributes.get(one)) not in (None, ""):
            return value
    return None


def find_text(attributes: Attributes, name: str) -> str | None:
    """Return the first text under one of the names of a fact; a number becomes text."""
    value = find_value(attributes, name)
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) else None


def read_number(value: Any) -> float | None:
    """Return a number, also from text; None for anything else and for what is not finite.

    >>> read_number("926"), read_number(True), read_number("nan")
    (926.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e18 else None


def read_tokens(value: Any) -> int | None:
    """Return a number of tokens, also from text; None for anything else."""
    number = read_number(value)
    return None if number is None else read_count(number)


def find_usage(attributes: Attributes) -> Usage:
    """Return the tokens of a call; a bucket that the record lacks is unknown."""
    found = {
        bucket: _find_tokens(attributes, names) for bucket, names in read_table().tokens.items()
    }
    read, write, prompt = found["cache_read"], found["cache_write"], found["input"]
    cached = (read or 0) + (write or 0)
    # the prompt includes what was cached; without that count all of it is priced as new
    is_sound = prompt is not None and cached <= prompt
    found["input"] = prompt - cached if prompt is not None and is_sound else None
    return Usage(**found)


def is_bound(usage: Usage, *names: str | None) -> bool:
    """True if a count is missing that changes the cost; `names` are the model and its provider.

    Without the tokens read from a cache, all are priced as new. Only some providers charge more
    for tokens written to a cache.
    """
    if usage.input is None or usage.output is None or usage.cache_read is None:
        return True
    dear = read_table().dear_writes
    return usage.cache_write is None and any(
        one in name.lower() for name in names if name for one in dear
    )


def _find_tokens(attributes: Attributes, names: Iterable[str]) -> int | None:
    for name in names:
        if (value := attributes.get(name)) is not None:
            return read_tokens(value)
    return None


def is_call(attributes: Attributes, name: str, *, is_log: bool) -> bool:
    """True if a record is about one model call."""
    if is_log:
        return name in read_table().call.events
    return _has_kind(attributes, read_table().call)


def is_tool(attributes: Attributes) -> bool:
    """True if a span is the execution of a tool."""
    return _has_kind(attributes, read_table().tool)


def _has_kind(attributes: Attributes, kind: SpanKind) -> bool:
    found = [sign for sign in kind.kinds if sign.name in attributes]
    if found:
        return any(attributes[sign.name] in sign.values for sign in found)
    return any(name in attributes for name in kind.counts)


@lru_cache(maxsize=4096)
def is_dropped(name: str) -> bool:
    """True for an attribute that is not stored: of messages, and what nothing needs."""
    table = read_table()
    flat = [f"{one}." for row in table.flat_messages for one in (row.input, row.output)]
    whole = [*table.names["input_messages"], *table.names["output_messages"]]
    whole += [*table.names["output_value"], "input.value"]
    return name.startswith((*table.dropped, *flat)) or name in whole
