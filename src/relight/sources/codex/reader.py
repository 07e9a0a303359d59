"""Codex: `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, also `archived_sessions`.

Running totals restart, repeat, and are inherited, so only single responses are added up:
`token_usage_record` where the client writes it, else each `token_count` that moved the total.
`input_tokens` includes what was cached, `output_tokens` includes the reasoning.
"""

from collections.abc import Iterator

from msgspec import field
from msgspec.structs import replace

from relight.chat.usage import FoundUsage, exclusive_usage
from relight.model import Cost, Ending, Origin, Session, ToolCall, Turn
from relight.sources.codex.lines import (
    CALLS,
    HARNESS,
    RESULTS,
    Payload,
    TokenInfo,
    TokenUsage,
    as_text,
    decode_line,
    find_arguments,
    find_limits,
    find_read,
    find_spawner,
    find_written,
    is_included,
)
from relight.sources.events import (
    Attributed,
    Called,
    Compacted,
    Event,
    Measured,
    Returned,
    Said,
    earliest,
    failed_turn,
    latest,
)
from relight.sources.reading import ReaderState, StatefulReader, first_line
from relight.sources.sessions import see
from relight.times import read_time, uuid7_time

# the turn of what a fork repeats: its parent's, whose key the fork does not know
REPLAYED = "replayed"


class RolloutState(ReaderState):
    """The facts that a rollout's later lines depend on."""

    born_at: int | None = None
    is_fork: bool = False
    is_replay: bool = False
    parent: str | None = None
    parent_kind: str | None = None
    model: str | None = None
    provider: str | None = None
    project: str | None = None
    has_records: bool = False
    # True if the login was one of a plan at the last call; its record reports it after the usage
    is_planned: bool = False
    last_response: Turn | None = None
    last_total: TokenUsage | None = None
    responses: int = 0
    last_role: str | None = None
    # when the model was asked last; None once it has answered, failed or was interrupted
    asked_at: int | None = None
    # True for clients that record the beginning of each task
    has_tasks: bool = False
    # since the last response: the time of its first item, and the calls it asks for, of which some
    # may have their results already
    began_at: int | None = None
    asked_calls: list[ToolCall] = field(default_factory=list)
    # True for old clients, which write a response's usage before its items
    leads: bool | None = None
    last_turn: str | None = None


class CodexReader(StatefulReader[RolloutState]):
    """Reads the lines of one rollout."""

    state_type = RolloutState

    def __init__(self, origin: Origin, state: bytes = b"") -> None:
        super().__init__(origin, state)
        # of the file's own records, for its session
        self.first_at: int | None = None
        self.last_at: int | None = None

    def finish(self) -> Iterator[Event]:
        if self.state.session is not None:
            yield self._see(self.first_at)
            yield self._see(self.last_at)

    def read_line(self, data: bytes) -> Iterator[Event]:
        line = decode_line(data)
        payload, kind, state = line.payload, line.type, self.state
        if payload is None:
            return
        at = read_time(line.timestamp)
        if kind == "session_meta":
            yield from self._read_meta(payload)
        if state.session is None:
            return
        if payload.turn_id and (kind == "turn_context" or payload.type == "task_started"):
            self._watch_replay(payload.turn_id)
        if kind == "turn_context":
            state.model = payload.model or state.model
        if kind == "event_msg" and payload.type == "token_count":
            if payload.rate_limits is not None:
                state.is_planned = is_included(payload.rate_limits)
                if not state.is_replay:
                    yield from find_limits(payload.rate_limits, state.session, at)
            yield from self._read_token_count(payload.info, at)
        if state.is_replay and not self.is_conversation:
            return
        self.first_at, self.last_at = earliest(self.first_at, at), latest(self.last_at, at)
        if payload.type == "task_started" and not state.is_replay:
            state.has_tasks = True
            yield from self._read_unanswered()
        if kind == "token_usage_record" and payload.usage and not state.is_replay:
            state.has_records = True
            yield from self._read_response(payload.response_id, payload.usage, at)
        elif kind == "response_item":
            yield from self._read_item(payload, at)
        elif kind == "event_msg":
            yield from self._read_event(payload, at)
        elif kind == "compacted":
            yield Compacted(state.session, at, payload.message)

    def _read_meta(self, payload: Payload) -> Iterator[Session]:
        """The file's own session: only the first record, as a fork may repeat its parent's."""
        state = self.state
        if state.session is not None or payload.id is None:
            return
        self.owner = state.session = payload.id
        state.born_at = uuid7_time(payload.id)
        state.is_fork = payload.forked_from_id is not None
        state.project = payload.cwd
        state.provider = payload.model_provider
        state.parent = payload.forked_from_id
        state.parent_kind = "fork" if state.is_fork else None
        if spawner := find_spawner(payload):
            state.parent, state.parent_kind = spawner, "subagent"
        branch = payload.git.get("branch") if isinstance(payload.git, dict) else None
        branch = branch if isinstance(branch, str) else None
        yield self._see(None, version=payload.cli_version, branch=branch)

    def _see(
        self,
        at: int | None,
        ending: Ending | None = None,
        *,
        branch: str | None = None,
        version: str | None = None,
        title: str | None = None,
        answer: str | None = None,
    ) -> Session:
        state = self.state
        shown = Session(
            key=state.session or "",
            parent=state.parent,
            parent_kind=state.parent_kind,  # type: ignore[arg-type]
            project=state.project,
            branch=branch,
            title=title,
            model=state.model,
            version=version,
            answer=answer,
        )
        return see(shown, at, ending)

    def _watch_replay(self, turn_id: str) -> None:
        """Note whether a fork repeats its parent's records: turns begun before the file was."""
        began_at = uuid7_time(turn_id)
        if self.state.is_fork and began_at is not None and self.state.born_at is not None:
            self.state.is_replay = began_at < self.state.born_at

    def _read_token_count(self, info: TokenInfo | None, at: int | None) -> Iterator[Event]:
        state = self.state
        if info is None or info.total_token_usage is None:
            return
        is_repeat = info.total_token_usage == state.last_total
        state.last_total = info.total_token_usage
        if not is_repeat and not state.has_records and not state.is_replay:
            used = info.last_token_usage or info.total_token_usage
            yield from self._read_response(None, used, at)
        if state.is_planned and state.last_response is not None and not state.is_replay:
            yield replace(state.last_response, cost=Cost(None, "included", "source"))
        state.last_response = None

    def _read_response(
        self, response_id: str | None, used: TokenUsage, at: int | None
    ) -> Iterator[Event]:
        state = self.state
        state.responses += 1
        state.asked_at = None
        key = response_id or f"{state.session}#{state.responses}"
        if state.leads is None:
            state.leads = response_id is None and state.began_at is None
        usage = exclusive_usage(
            used.input_tokens,
            used.cached_input_tokens,
            used.output_tokens,
            cache_write=used.cache_write_input_tokens,
            reasoning=used.reasoning_output_tokens,
        )
        turn = state.last_response = Turn(
            key=key,
            session=state.session or "",
            at=at if state.leads else earliest(state.began_at, at),
            model=state.model,
            provider=state.provider,
            usage=usage,
            usage_status=FoundUsage(usage).status,
        )
        yield turn
        if state.asked_calls:
            yield Attributed(state.asked_calls, key)
        state.asked_calls, state.began_at, state.last_turn = [], None, key

    def _read_item(self, payload: Payload, at: int | None) -> Iterator[Event]:
        is_answer = payload.type == "reasoning" or payload.role == "assistant"
        if (is_answer or payload.type in CALLS) and not self.state.is_replay:
            self.state.began_at = earliest(self.state.began_at, at)
            self.state.asked_at = None
        if payload.type in CALLS:
            yield from self._read_call(payload, at)
        elif payload.type in RESULTS and payload.call_id:
            yield self._see(at, ending="result")
            output = as_text(payload.output)
            yield from find_read(self.open_calls.get(payload.call_id), output)
            self.state.last_role = "tool"
            self._ask(at)
            yield Returned(self.state.session or "", payload.call_id, at, output)
        elif payload.type == "message":
            texts = [part.text for part in payload.content or () if part.text]
            if payload.role == "assistant":
                text = "\n".join(texts)
                yield self._see(at, ending="answer", answer=text)
                yield self._say(text, at)
            elif payload.role == "user":
                yield from self._read_prompt(texts, at)

    def _read_prompt(self, texts: list[str], at: int | None) -> Iterator[Event]:
        session = self.state.session or ""
        own = [text for text in texts if not text.startswith(HARNESS)]
        if own:
            if not self.state.has_tasks:
                yield from self._read_unanswered()
            self._ask(at)
            yield self._see(at, "prompt", title=first_line(own[0]))
            self.state.last_role = "user"
            yield Said(session, "user", "\n".join(own), at=at)
        if len(own) < len(texts):
            yield from find_written(session, texts, at)

    def _ask(self, at: int | None) -> None:
        if not self.state.is_replay:
            self.state.asked_at = at

    def _read_unanswered(self) -> Iterator[Turn]:
        """The request that no record answers, though the session went on: Codex records no failure.

        What it cost is unknown. The last request of a session is found by its ending.
        """
        state = self.state
        if state.asked_at is not None:
            yield Turn(
                key=f"{state.session}!{state.asked_at}",
                session=state.session or "",
                at=state.asked_at,
                model=state.model,
                provider=state.provider,
                calls=0,
                usage_status="partial",
                failure="no_answer",
                failure_text="no response to this request is recorded",
            )
        state.asked_at = None

    def _say(self, text: str | None, at: int | None) -> Said:
        """Words of a model; words and calls in a row are counted as one answer."""
        is_new = self.state.last_role != "assistant"
        self.state.last_role = "assistant"
        turn = self._find_turn()
        return Said(self.state.session or "", "assistant", text, turn, is_new, at)

    def _find_turn(self) -> str | None:
        """The turn that an item belongs to; None if its usage comes after it."""
        if self.state.is_replay:
            return REPLAYED
        return self.state.last_turn if self.state.leads else None

    def _read_call(self, payload: Payload, at: int | None) -> Iterator[Event]:
        session = self.state.session or ""
        key = payload.call_id or payload.id or f"{session}@{at}"
        is_search = payload.type == "web_search_call"
        yield self._see(at, ending="call")
        yield self._say(None, at)
        call = ToolCall(
            key=key,
            session=session,
            turn=self._find_turn(),
            tool=payload.name or payload.type.removesuffix("_call"),
            at=at,
            # a search is done by the provider, which reports no result
            finished_at=at if payload.status == "completed" and is_search else None,
            arguments=find_arguments(payload),
        )
        yield Called(call, payload.call_id or payload.id or "")
        if not self.state.leads and not self.state.is_replay:
            self.state.asked_calls.append(call)

    def _read_event(self, payload: Payload, at: int | None) -> Iterator[Event]:
        item = payload.item
        if payload.type == "item_completed" and item and item.type == "CommandExecution":
            spent = item.duration
            milliseconds = spent.secs * 1000 + spent.nanos // 1_000_000 if spent else None
            yield Measured(self.state.session or "", item.id, item.exit_code, milliseconds)
        elif payload.type in ("error", "stream_error") and payload.message:
            self.state.asked_at = None
            yield self._see(at, ending="api_error")
            yield failed_turn(
                f"{self.state.session}!{at}",
                self.state.session or "",
                payload.message,
                at=at,
                model=self.state.model,
                provider=self.state.provider,
            )
        elif payload.type == "turn_aborted":
            self.state.asked_at = None
            yield self._see(at, ending="interrupted")
