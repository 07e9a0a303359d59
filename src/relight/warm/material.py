"""What a template is made of: a session's messages, redacted, and how it ended."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.injected import skip_injected
from relight.chat.shorten import clean_text
from relight.chat.validity import check_messages
from relight.checks import describe, refuse
from relight.errors import RelightError
from relight.redact import redact
from relight.reports.sessions import find_session
from relight.reports.transcript import read_transcript
from relight.store import Store


class Material(Struct, frozen=True, kw_only=True):
    """A session as a template can be made of it: redacted, with what is known of how it ended."""

    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    outcome: str
    evidence: list[str]
    source_session: str | None = None
    project: str | None = None
    title: str | None = None


def read_material(store: Store, session_id: str | int) -> Material:
    """What a recorded session offers for a template."""
    if not isinstance(session_id, int):
        session_id = find_session(store, clean_text(str(session_id)))
    talk = read_transcript(store, session_id)
    row = store.query(
        "select source || ':' || key, project, title, outcome, outcome_evidence from session"
        " where id = ?",
        (session_id,),
    )[0]
    return Material(
        messages=redact_messages(store, talk.messages),
        calls=talk.calls,
        outcome=row[3] or "unknown",
        evidence=msgspec.json.decode(row[4] or "[]"),
        source_session=row[0],
        project=row[1],
        title=row[2],
    )


def take_material(
    store: Store,
    session_id: object,
    *,
    messages: Iterable[Mapping[str, Any]],
    calls: Iterable[Mapping[str, Any]] | None,
) -> Material:
    """What a program tells of a session that need not be in the store."""
    own = list(skip_injected(check_messages(_list("messages", messages))))
    facts = [] if calls is None else _list("calls", calls)
    if not all(isinstance(call, Mapping) for call in facts):
        raise refuse("calls", "must be a list of objects", 'as {"call_id": …, "is_error": …}')
    return Material(
        messages=redact_messages(store, own),
        calls=[dict(call) for call in facts],
        outcome="unknown",
        evidence=[],
        source_session=None if session_id is None else clean_text(str(session_id)),
    )


def _list(name: str, values: Any) -> list[Any]:
    """What is given as a list, be it one or not; a text or an object is none."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise refuse(name, f"must be a list of OpenAI chat {name}, not {describe(values)}")
    return list(values)


def redact_messages(store: Store, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages with secrets taken out, by today's rules."""
    try:
        data = b"\n".join(msgspec.json.encode(_make_plain(message)) for message in messages)
    except RecursionError as error:
        raise RelightError("the messages are nested too deep to be read") from error
    clean = redact(data, key=store.redaction_key)
    return [msgspec.json.decode(line) for line in clean.split(b"\n") if line]


def _make_plain(value: Any) -> Any:
    """A value as JSON can hold it: programs put objects of their own beside what they were told."""
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
