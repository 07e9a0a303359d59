"""The material of templates: a session's messages without secrets, and how it went."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.blocks import skip_injected
from relight.chat.shorten import clean_text
from relight.chat.validity import check_messages
from relight.errors import RelightError, describe, refuse
from relight.redact import redact
from relight.reports.transcript import read_transcript
from relight.store import Store
from relight.store.candidates import read_source_session


class Material(Struct, frozen=True, kw_only=True):
    """A session that a template can be made from: redacted, with what is known of its outcome."""

    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    outcome: str
    evidence: list[str]
    source_session: str | None = None
    project: str | None = None
    title: str | None = None


def read_material(store: Store, session_id: int) -> Material:
    """Return the material of a recorded session."""
    transcript = read_transcript(store, session_id)
    session = read_source_session(store, session_id)
    return Material(
        messages=redact_messages(store, transcript.messages),
        calls=transcript.calls,
        outcome=session.outcome or "unknown",
        evidence=msgspec.json.decode(session.outcome_evidence or "[]"),
        source_session=session.name,
        project=session.project,
        title=session.title,
    )


def take_material(
    store: Store,
    session_id: object,
    *,
    messages: Iterable[Mapping[str, Any]],
    calls: Iterable[Mapping[str, Any]] | None,
) -> Material:
    """Return the material of a session that a program passes, which need not be in the store."""
    own = list(skip_injected(check_messages(_check_list("messages", messages))))
    facts = [] if calls is None else _check_list("calls", calls)
    if not all(isinstance(call, Mapping) for call in facts):
        raise refuse("calls", "must be a list of objects", 'as {"call_id": …, "is_error": …}')
    return Material(
        messages=redact_messages(store, own),
        calls=[dict(call) for call in facts],
        outcome="unknown",
        evidence=[],
        source_session=None if session_id is None else clean_text(str(session_id)),
    )


def _check_list(name: str, values: Any) -> list[Any]:
    """Return the values as a list; raise if they are a text or an object."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise refuse(name, f"must be a list of OpenAI chat {name}, not {describe(values)}")
    return list(values)


def redact_messages(store: Store, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages without secrets, by today's rules."""
    try:
        data = b"\n".join(msgspec.json.encode(_make_plain(message)) for message in messages)
    except RecursionError as error:
        raise RelightError("the messages are nested too deeply") from error
    clean = redact(data, key=store.redaction_key)
    return [msgspec.json.decode(line) for line in clean.split(b"\n") if line]


def _make_plain(value: Any) -> Any:
    """Return a value as JSON can hold it; programs mix their own objects into messages."""
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {clean_text(str(name)): _make_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | AbstractSet):
        return [_make_plain(one) for one in value]
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError):
        return describe(value)
