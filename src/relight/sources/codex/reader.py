"""Codex: `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, also `archived_sessions`.

Running totals restart, repeat, and are inherited, so only single responses are added up:
`token_usage_record` where the client writes it, else each `token_count` that moved the total.
`input_tokens` includes what was cached, `output_tokens` includes the reasoning.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from relight.chat.injected import strip_block
from relight.chat.usage import exclusive_usage
from relight.model import Ending, Origin, Parsed, Session, ToolCall, Turn, Usage
from relight.sources.codex.lines import (
    CALLS,
    HARNESS,
    RESULTS,
    Info,
    LineUsage,
    Payload,
    as_text,
    decode_line,
    find_arguments,
    find_spawner,
)
from relight.sources.codex.skills import find_read, find_written
from relight.sources.files import find_files
from relight.sources.reading import Reading, earliest, first_line, last_words, latest
from relight.times import read_time, uuid7_time

NAME = "codex"


class _State(Struct):
    """What a rollout's later lines depend on."""

    session: str | None = None
    born_at: int | None = None
    is_fork: bool = False
    is_replay: bool = False
    parent: str | None = None
    parent_kind: str | None = None
    model: str | None = None
    provider: str | None = None
    project: str | None = None
    has_records: bool = False
    last_total: LineUsage | None = None
    responses: int = 0
    last_role: str | None = None
    # since the last response: when its first item was written, and the calls it asks for
    began_at: int | None = None
    asked: list[str] = []
    # old clients write what a response used before its items: of which these then are
    leads: bool | None = None
    last_turn: str | None = None
    open_calls: list[ToolCall] = []


def find(environment: Mapping[str, str], folder: Path | None) -> Iterator[Origin]:
    """Rollouts in the folder given, else in Codex' own folders."""
    for root in [folder] if folder else folders(environment):
        for origin in find_files(root):
            if origin.trouble or "rollout-" in origin.path:
                yield origin


def folders(environment: Mapping[str, str]) -> list[Path]:
    home = Path(environment.get("HOME") or Path.home())
    root = Path(environment.get("CODEX_HOME") or home / ".codex").expanduser()
    return [root / "sessions", root / "archived_sessions"]


def read(lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed:
    """What these lines of one rollout say, going on from `state`."""
    reader = _Reader(msgspec.json.decode(state, type=_State) if state else _State())
    reader.reading.read_lines(lines, reader.read_line)
    return reader.finish()


class _Reader:
    def __init__(self, state: _State) -> None:
        self.state = state
        self.reading = Reading(state.open_calls)
        # of the file's own records, told to its session once
        self.first_at: int | None = None
        self.last_at: int | None = None

    def finish(self) -> Parsed:
        if self.state.session is not None:
            self._see(self.first_at)
            self._see(self.last_at)
        self.state.open_calls = list(self.reading.open_calls.values())
        return self.reading.finish(self.state.session, msgspec.json.encode(self.state))

    def read_line(self, data: bytes) -> None:
        line = decode_line(data)
        if line.payload is not None:
            self._read_record(line.type, line.payload, read_time(line.timestamp))

    def _read_record(self, kind: str, payload: Payload, at: int | None) -> None:
        state = self.state
        if kind == "session_meta":
            self._read_meta(payload)
        if state.session is None:
            return
        if payload.turn_id and (kind == "turn_context" or payload.type == "task_started"):
            self._watch_replay(payload.turn_id)
        if kind == "turn_context":
            state.model = payload.model or state.model
        if kind == "event_msg" and payload.type == "token_count":
            self._read_token_count(payload.info, at)
        if state.is_replay:
            return
        self.first_at, self.last_at = earliest(self.first_at, at), latest(self.last_at, at)
        if kind == "token_usage_record" and payload.usage:
            state.has_records = True
            self._read_response(payload.response_id, payload.usage, at)
        elif kind == "response_item":
            self._read_item(payload, at)
        elif kind == "event_msg":
            self._read_event(payload, at)

    def _read_meta(self, payload: Payload) -> None:
        """Only the first one is the file's own; a fork may repeat its parent's after it."""
        state = self.state
        if state.session is not None or payload.id is None:
            return
        state.session = payload.id
        state.born_at = uuid7_time(payload.id)
        state.is_fork = payload.forked_from_id is not None
        state.project = payload.cwd
        state.provider = payload.model_provider
        state.parent = payload.forked_from_id
        state.parent_kind = "fork" if state.is_fork else None
        if spawner := find_spawner(payload):
            state.parent, state.parent_kind = spawner, "subagent"
        self._see(None, version=payload.cli_version)

    def _see(
        self,
        at: int | None,
        *,
        version: str | None = None,
        title: str | None = None,
        ending: Ending | None = None,
        answer: str | None = None,
    ) -> None:
        state = self.state
        self.reading.see_session(
            Session(
                key=state.session or "",
                parent=state.parent,
                parent_kind=state.parent_kind,  # type: ignore[arg-type]
                project=state.project,
                title=title,
                model=state.model,
                version=version,
                started_at=at,
                ended_at=at,
                ending=ending,
                prompted_at=at if ending == "prompt" else None,
                answer=last_words(answer),
            )
        )

    def _watch_replay(self, turn_id: str) -> None:
        """A fork repeats its parent's records: those of turns begun before the file was born."""
        began_at = uuid7_time(turn_id)
        if self.state.is_fork and began_at is not None and self.state.born_at is not None:
            self.state.is_replay = began_at < self.state.born_at

    def _read_token_count(self, info: Info | None, at: int | None) -> None:
        state = self.state
        if info is None or info.total_token_usage is None:
            return
        is_repeat = info.total_token_usage == state.last_total
        state.last_total = info.total_token_usage
        if not is_repeat and not state.has_records and not state.is_replay:
            self._read_response(None, info.last_token_usage or info.total_token_usage, at)

    def _read_response(self, response_id: str | None, used: LineUsage, at: int | None) -> None:
        state, reading = self.state, self.reading
        state.responses += 1
        key = response_id or f"{state.session}#{state.responses}"
        if state.leads is None:
            state.leads = response_id is None and state.began_at is None
        reading.see_turn(
            Turn(
                key=key,
                session=state.session or "",
                at=at if state.leads else earliest(state.began_at, at),
                model=state.model,
                provider=state.provider,
                usage=exclusive_usage(
                    used.input_tokens,
                    used.cached_input_tokens,
                    used.output_tokens,
                    cache_write=used.cache_write_input_tokens,
                    reasoning=used.reasoning_output_tokens,
                ),
            )
        )
        for name in state.asked:
            if call := reading.calls.get(name) or reading.open_calls.get(name):
                reading.calls[name] = msgspec.structs.replace(call, turn=key)
                if name in reading.open_calls:
                    reading.open_calls[name] = reading.calls[name]
        state.asked, state.began_at, state.last_turn = [], None, key

    def _read_item(self, payload: Payload, at: int | None) -> None:
        if payload.type in CALLS or payload.type == "reasoning" or payload.role == "assistant":
            self.state.began_at = earliest(self.state.began_at, at)
        if payload.type in CALLS:
            self._read_call(payload, at)
        elif payload.type in RESULTS and payload.call_id:
            self._see(at, ending="result")
            self._hear("tool")
            output = as_text(payload.output)
            for entry in find_read(self.reading.open_calls.get(payload.call_id), output):
                self.reading.see_skill(entry)
            self.reading.close_call(payload.call_id, finished_at=at, result=output)
        elif payload.type == "message":
            texts = [part.text for part in payload.content or () if part.text]
            if payload.role == "assistant":
                self._see(at, ending="answer", answer="\n".join(texts))
                self._hear("assistant", "\n".join(texts))
            elif payload.role == "user" and texts and not texts[0].startswith(HARNESS):
                self._see(at, title=first_line(texts[0]), ending="prompt")
                self._hear("user", strip_block("\n".join(texts)))
            elif payload.role == "user":
                for entry in find_written(self.state.session or "", texts, at):
                    self.reading.see_skill(entry)

    def _hear(self, role: Literal["user", "assistant", "tool"], text: str | None = None) -> None:
        """Count a message; words and calls in a row are one answer."""
        is_new = role != "assistant" or self.state.last_role != "assistant"
        self.state.last_role = role
        self.reading.hear(self.state.session or "", role, text, is_new=is_new)

    def _read_call(self, payload: Payload, at: int | None) -> None:
        key = payload.call_id or payload.id or f"{self.state.session}@{at}"
        self._see(at, ending="call")
        self._hear("assistant")
        self.reading.open_call(
            ToolCall(
                key=key,
                session=self.state.session or "",
                turn=self.state.last_turn if self.state.leads else None,
                tool=payload.name or payload.type.removesuffix("_call"),
                at=at,
                arguments=find_arguments(payload),
            )
        )
        if not self.state.leads:
            self.state.asked.append(key)
        if payload.type == "web_search_call" and payload.status == "completed":
            self.reading.close_call(key, finished_at=at)

    def _read_event(self, payload: Payload, at: int | None) -> None:
        item = payload.item
        if payload.type == "item_completed" and item and item.type == "CommandExecution":
            if call := self.reading.open_calls.get(item.id):
                spent = item.duration
                self.reading.open_calls[item.id] = msgspec.structs.replace(
                    call,
                    exit_code=item.exit_code,
                    duration_ms=spent.secs * 1000 + spent.nanos // 1_000_000 if spent else None,
                )
        elif payload.type in ("error", "stream_error") and payload.message:
            self._see(at, ending="api_error")
            self._read_failure(payload.message, at)
        elif payload.type == "turn_aborted":
            self._see(at, ending="interrupted")

    def _read_failure(self, text: str, at: int | None) -> None:
        from relight.judging.failures import classify_error

        self.reading.see_turn(
            Turn(
                key=f"{self.state.session}!{at}",
                session=self.state.session or "",
                at=at,
                model=self.state.model,
                provider=self.state.provider,
                calls=0,
                usage=Usage(0, 0, 0, 0),
                failure=classify_error(text).kind,
                failure_text=text[:500],
            )
        )
