"""Sessions as spans of OpenTelemetry's GenAI conventions, named by `data/telemetry.toml`.

A session with its sub-agents is one trace: a span for each of them, below it one for each model
call and each tool call. The ids are hashes of Relight's own, so a span that is sent again is the
same span. Without content a span has numbers, times and names only, as `--share figures` does.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from relight.chat.exported import ExportedCall, ExportedMessage, ExportedSession, ExportedTurn
from relight.model import BUCKETS
from relight.names import cut_project
from relight.reports.export import limit_text, read_session_tables, write_session_line
from relight.sources.otlp.encoding import CLIENT, AttributeValue, SentSpan
from relight.sources.otlp.names import SpanKind, name_fact, name_kind, read_table
from relight.store import Store
from relight.times import read_time

# a longer text is cut: collectors refuse requests of some megabytes
MOST_TEXT = 20_000
SERVICE, SERVICE_VERSION = "service.name", "service.version"
# facts that a span has under the same name as the field of its turn
TURN_FACTS = ("provider", "role")


class Talk(Struct):
    """The messages of one model call: those since the answer before it, and its own answer."""

    asked: list[ExportedMessage] = []
    answered: list[ExportedMessage] = []


class Frame(Struct, frozen=True):
    """A session whose spans are made, and the session at the top of its trace."""

    session: ExportedSession
    root: str
    has_content: bool
    began: int
    ended: int

    @property
    def name(self) -> str:
        return self.session.session_id

    @property
    def is_top(self) -> bool:
        return self.name == self.root


def read_record(store: Store, session_id: int, *, has_content: bool) -> ExportedSession:
    """Return a session to export, redacted; its messages only if they are wanted."""
    if has_content:
        return msgspec.json.decode(write_session_line(store, session_id).line, type=ExportedSession)
    tables = read_session_tables(store, session_id)
    return ExportedSession(
        **asdict(tables.facts), figures=tables.figures, turns=tables.turns, calls=tables.calls
    )


def describe_program(session: ExportedSession) -> dict[str, AttributeValue]:
    """Return the attributes of the program that made a session: its agent."""
    version = {SERVICE_VERSION: session.version} if session.version else {}
    return {SERVICE: session.source, **version}


def make_spans(session: ExportedSession, root: str, *, has_content: bool) -> Iterator[SentSpan]:
    """Yield the spans of a session; `root` names the session that it belongs to.

    A record without a time is dated by its session, and left out if that has none either.
    """
    times = list(_list_times(session))
    if not times:
        return
    frame = Frame(session, root, has_content, min(times), max(times))
    talks, rest = _sort_messages(session.messages)
    yield _make_session_span(frame, rest)
    for turn in session.turns:
        yield _make_turn_span(frame, turn, talks.get(turn.turn_id))
    asked = [one for message in session.messages for one in message.tool_calls or ()]
    arguments = {one.id: one.function.arguments for one in asked}
    results = {one.tool_call_id: one.content for one in session.messages if one.tool_call_id}
    for call in session.calls:
        words = (arguments.get(call.call_id), results.get(call.call_id))
        yield _make_tool_span(frame, call, words)


def _list_times(session: ExportedSession) -> Iterator[int]:
    texts = [session.started_at, session.ended_at]
    texts += [turn.at for turn in session.turns]
    texts += [text for call in session.calls for text in (call.at, call.finished_at)]
    for text in texts:
        if (at := read_time(text)) is not None:
            yield at


def _hash(size: int, *parts: str) -> str:
    return blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=size).hexdigest()


def _make_span(
    frame: Frame, about: SpanKind, facts: Mapping[str, AttributeValue | None], **fields: Any
) -> SentSpan:
    """A span of a session with the facts that are known."""
    sign, value = name_kind(about)
    session = frame.session
    project = session.project if frame.has_content else cut_project(session.project)
    shared: dict[str, AttributeValue | None] = {
        "session": frame.root,
        "exported_from": frame.root,
        "agent_name": session.source,
        "agent_id": None if frame.is_top else frame.name,
        "project": project,
    }
    known = {name: one for name, one in (shared | dict(facts)).items() if one is not None}
    attributes = {sign: value, **{name_fact(name): one for name, one in known.items()}}
    return SentSpan(trace=_hash(16, frame.root), attributes=attributes, **fields)


def _make_session_span(frame: Frame, rest: Talk) -> SentSpan:
    session = frame.session
    is_failed = session.outcome == "failure"
    facts: dict[str, AttributeValue | None] = {
        "agent_version": session.version,
        "request_model": session.model,
        "outcome": session.outcome,
        "category": session.category,
        "error": session.outcome if is_failed else None,
    }
    words = ""
    if frame.has_content:
        words = "; ".join(session.outcome_evidence)
        facts |= {"title": session.title, **_write_talk(rest)}
    return _make_span(
        frame,
        read_table().work,
        facts,
        span=_hash(8, frame.name),
        parent="" if frame.is_top else _hash(8, session.parent_session_id or frame.root),
        name=f"invoke_agent {session.source}",
        start=frame.began * 1_000_000,
        end=frame.ended * 1_000_000,
        is_failed=is_failed,
        status_text=words if is_failed else "",
    )


def _make_turn_span(frame: Frame, turn: ExportedTurn, talk: Talk | None) -> SentSpan:
    at = read_time(turn.at) or frame.ended
    is_included = turn.cost_status == "included"
    facts: dict[str, AttributeValue | None] = {
        **_write_tokens(turn),
        **{name: getattr(turn, name) for name in TURN_FACTS},
        "model": turn.model,
        "request_model": turn.model,
        "calls": None if turn.calls == 1 else turn.calls,
        "usage_status": turn.usage_status,
        # a plan has paid for an included call: nothing was charged for it
        "cost_usd": 0.0 if is_included and turn.cost_usd is not None else turn.cost_usd,
        "included_usd": turn.cost_usd if is_included else None,
        "cost_status": turn.cost_status,
        "first_token_seconds": None if turn.first_token_ms is None else turn.first_token_ms / 1000,
        "error": turn.failure,
        **(_write_talk(talk) if talk and frame.has_content else {}),
    }
    reason = turn.failure_text if frame.has_content else turn.failure
    return _make_span(
        frame,
        read_table().call,
        facts,
        span=_hash(8, frame.name, turn.turn_id),
        parent=_hash(8, frame.name),
        name=f"chat {turn.model}" if turn.model else "chat",
        kind=CLIENT,
        start=at * 1_000_000,
        end=(at + (turn.duration_ms or 0)) * 1_000_000,
        is_failed=turn.failure is not None,
        status_text=reason or "",
    )


def _write_tokens(turn: ExportedTurn) -> dict[str, AttributeValue | None]:
    """The buckets as the conventions have them: the input includes what was cached."""
    found = {name: getattr(turn, column) for name, column in BUCKETS.items()}
    if found["input"] is not None:
        found["input"] += (found["cache_read"] or 0) + (found["cache_write"] or 0)
    return found


def _make_tool_span(
    frame: Frame, call: ExportedCall, words: tuple[str | None, str | None]
) -> SentSpan:
    spent = call.duration_ms or 0
    end = read_time(call.finished_at)
    start = read_time(call.at) or (frame.ended if end is None else end - spent)
    end = max(start, start + spent if end is None or spent else end)
    is_failed = call.label == "error"
    facts: dict[str, AttributeValue | None] = {
        "tool": call.tool or None,
        "tool_call": call.call_id,
        "verdict": call.label,
        "error": (call.failure_kind or "error") if is_failed else None,
    }
    reason = call.failure_kind
    if frame.has_content:
        reason = call.reason
        facts |= {"tool_input": limit_text(words[0], MOST_TEXT)}
        facts |= {"tool_output": limit_text(words[1], MOST_TEXT)}
    return _make_span(
        frame,
        read_table().tool,
        facts,
        span=_hash(8, frame.name, call.call_id),
        parent=_hash(8, frame.name),
        name=f"execute_tool {call.tool}",
        start=start * 1_000_000,
        end=end * 1_000_000,
        is_failed=is_failed,
        status_text=(reason or "") if is_failed else "",
    )


def _sort_messages(messages: list[ExportedMessage]) -> tuple[dict[str, Talk], Talk]:
    """The messages of each model call; and the first prompt and last answer of the session.

    A call has what is new since the one before it: with the whole conversation, each call of a
    long session would repeat it. What belongs to no call is with the session.
    """
    talks: dict[str, Talk] = {}
    waiting: list[ExportedMessage] = []
    for message in messages:
        if message.role != "assistant" or message.turn_id is None:
            waiting.append(message)
            continue
        talk = talks.setdefault(message.turn_id, Talk(asked=waiting))
        talk.answered.append(message)
        waiting = []
    prompts = [one for one in messages if one.role == "user"][:1]
    answers = [one for one in messages if one.role == "assistant" and one.content][-1:]
    return talks, Talk(prompts, answers) if talks else Talk(waiting, [])


def _write_talk(talk: Talk) -> dict[str, AttributeValue | None]:
    asked = [{"role": one.role, "parts": list(_write_parts(one))} for one in talk.asked]
    answered = [_write_answer(talk.answered)] if talk.answered else []
    return {
        "input_messages": msgspec.json.encode(asked).decode() if asked else None,
        "output_messages": msgspec.json.encode(answered).decode() if answered else None,
    }


def _write_answer(messages: list[ExportedMessage]) -> dict[str, Any]:
    """One answer of a model, which agents record in several messages."""
    parts = [part for one in messages for part in _write_parts(one)]
    has_calls = any(one.tool_calls for one in messages)
    return {
        "role": "assistant",
        "parts": parts,
        "finish_reason": "tool_call" if has_calls else "stop",
    }


def _write_parts(message: ExportedMessage) -> Iterator[dict[str, Any]]:
    text = limit_text(message.content, MOST_TEXT)
    if message.role == "tool":
        yield {"type": "tool_call_response", "id": message.tool_call_id, "response": text or ""}
    elif text:
        yield {"type": "text", "content": text}
    for call in message.tool_calls or ():
        given = limit_text(call.function.arguments, MOST_TEXT)
        yield {
            "type": "tool_call",
            "id": call.id,
            "name": call.function.name,
            "arguments": _read_arguments(given),
        }


def _read_arguments(text: str | None) -> Any:
    """The arguments as an object; as text if they are not an object."""
    try:
        found = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return text
    return found if isinstance(found, dict) else text
