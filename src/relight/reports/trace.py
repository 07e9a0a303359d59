"""The numbered steps of a session: prompts, answers, calls with results, compactions and pauses.

One reading for `relight show`, the session page, search and the API. Texts come from the tape,
verdicts and costs from the index. Steps are numbered from 1 without gaps. A session that grows at
its end keeps the numbers of its steps; only sums that the agent keeps for the whole session stand
after the last step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.errors import MissingError, RelightError
from relight.model import TOKENS, TokenCounts
from relight.reports.call_subjects import find_child, find_subject
from relight.reports.conversation import Conversation, Item, StepKind, arrange
from relight.reports.sessions import SessionReport, find_session, read_session
from relight.reports.spirals import number_spirals
from relight.reports.transcript import find_facts, read_records
from relight.sources import find_source
from relight.store import Store
from relight.store.queries import steps
from relight.store.queries.cache_rebuilds import read_session_rebuilds
from relight.store.queries.sessions import FoundSession
from relight.store.queries.steps import TraceCall, TraceTurn
from relight.store.sql import read_usd
from relight.text import count, dollars, seconds
from relight.times import write_time

# A longer wait for a person outlives the prompt cache of most providers: the next turn pays for the
# whole context again. Shorter ones are part of a conversation.
PAUSE_MS = 5 * 60_000
MOST_STEPS = 1000
OUTLINE_CHARACTERS = 200
# the columns of a turn that a step has as they are
COPIED = ("cost_status", "is_shared", "usage_status", "first_token_ms", *TOKENS)


REBUILT = {
    "pause": "after a pause of {}",
    "model_switch": "by another model, {} after the last",
    "compaction": "after a compaction",
    "prefix_changed": "with a changed prefix, {} after the last turn",
}


class StepRebuild(Struct, frozen=True, kw_only=True):
    """A rebuild of the prompt cache; `pause_seconds` is the time since the turn before."""

    cause: str
    pause_seconds: float
    tokens: int
    usd: float | None

    @property
    def sentence(self) -> str:
        """Cause, tokens and cost in words."""
        cause = REBUILT[self.cause].format(seconds(self.pause_seconds))
        return f"cache rebuilt {cause}: {count(self.tokens)} tokens, {dollars(self.usd)}"


class Step(TokenCounts, frozen=True):
    """One step of a session.

    `text` is what a person typed or a model said, `injected` what the agent, a hook or Relight put
    into a prompt. A model call that said nothing stands at its first tool call, or is an answer
    without a text. `cost_usd` is what the step adds to the session's cost: 0 for a turn that
    another session counts (`is_shared`) or that a plan pays for (`included_usd`), null if unknown
    or if no model call stands here. `duration_ms` is the call's time, or the model's for an answer;
    `model_ms` is always the model's.
    """

    step: int
    kind: StepKind
    at: str | None = None
    ended_at: str | None = None
    text: str | None = None
    injected: str | None = None
    model: str | None = None
    provider: str | None = None
    role: str | None = None
    tool: str | None = None
    command: str | None = None
    path: str | None = None
    arguments: str | None = None
    result: str | None = None
    label: str | None = None
    failure_kind: str | None = None
    reason: str | None = None
    evidence: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    model_ms: int | None = None
    first_token_ms: int | None = None
    # how many model calls the figures are of: 0 for a failed one, null if none stands here
    turns: int | None = None
    cost_usd: float | None = None
    cost_status: str | None = None
    included_usd: float | None = None
    is_shared: bool = False
    running_cost_usd: float | None = None
    running_unpriced_turns: int = 0
    usage_status: str | None = None
    child_session_id: str | None = None
    # the number of the spiral that the call is part of
    spiral: int | None = None
    # set if the model call wrote again what was cached before
    cache_rebuild: StepRebuild | None = None


class Trace(Struct, frozen=True):
    """All steps of a session; `silence` says why its texts are missing, if they are.

    `calls` gives the step of each call's row.
    """

    session_id: str
    steps: list[Step]
    silence: str | None
    calls: dict[int, int]


class TracePart(Struct, frozen=True):
    """Steps of a session from `first` on; `next` and `previous` are the first steps of others."""

    session_id: str
    steps: list[Step]
    total: int
    first: int
    previous: int | None
    next: int | None
    silence: str | None


class SessionTrace(SessionReport, frozen=True, kw_only=True):
    """A session with everything: figures, turns, tool calls, and its steps with all texts."""

    steps: list[Step]
    silence: str | None


def read_session_trace(store: Store, session_id: int) -> SessionTrace:
    """Return all that is known of a session."""
    trace = read_trace(store, session_id)
    known = asdict(read_session(store, session_id))
    return SessionTrace(**known, steps=trace.steps, silence=trace.silence)


class Numbered(Struct, frozen=True):
    """The items of a session in order; the first is step 1.

    `calls` are the rows of its calls by id, `turns` those of its model calls, and `owners` the
    items that stand for them.
    """

    facts: FoundSession
    items: list[Item]
    turns: list[TraceTurn]
    calls: dict[int, TraceCall]
    owners: Mapping[int, Item]
    silence: str | None


def read_numbered(store: Store, session_id: int, *, has_texts: bool = True) -> Numbered:
    """Return what happened in a session without the figures of each step, in half the time."""
    facts = find_facts(store, session_id)
    turns = steps.read_trace_turns(store, session_id)
    calls = steps.read_trace_calls(store, session_id)
    known_turns = {turn.id for turn in turns}
    conversation = Conversation(facts.source, facts.own_id, known_turns, ending=facts.ending)
    silence = None
    try:
        if not has_texts:
            raise RelightError(
                "the record is too large to be shown here", "`relight show` reads it"
            )
        lines = read_records(store, session_id, facts)
        for event in find_source(facts.source).read_events(lines, facts.own_id):
            conversation.take(event)
    except RelightError as error:
        silence = f"{error.message}: {error.hint}" if error.hint else error.message
    items, owners = arrange(conversation, turns, calls)
    known = {call.id: call for call in calls}
    copied = [one.call for one in items if one.call is not None and one.call not in known]
    known |= {call.id: call for call in steps.find_trace_calls(store, copied)}
    return Numbered(facts, _add_pauses(items, known), turns, known, owners, silence)


def read_trace(store: Store, session_id: int | str, *, has_texts: bool = True) -> Trace:
    """Return the steps of a session with all their texts, or without any.

    A session is named by its row, or as in `find_session`.
    """
    if isinstance(session_id, str):
        session_id = find_session(store, session_id)
    numbered = read_numbered(store, session_id, has_texts=has_texts)
    items = numbered.items
    spirals = number_spirals(store, session_id)
    builder = _Builder(numbered.turns, numbered.calls, numbered.owners, spirals)
    made = [builder.make(number, item) for number, item in enumerate(items, start=1)]
    _mark_rebuilds(store, session_id, made, builder.turns)
    return Trace(
        session_id=numbered.facts.session,
        steps=_link_children(made, steps.read_subagents(store, session_id)),
        silence=numbered.silence,
        calls={one.call: n for n, one in enumerate(items, start=1) if one.call is not None},
    )


def read_part(store: Store, session_id: int, *, step: int = 1, limit: int = 200) -> TracePart:
    """Return the part of a session that begins with a step."""
    return cut_part(read_trace(store, session_id), step=step, limit=limit)


def cut_part(trace: Trace, *, step: int = 1, limit: int = 200) -> TracePart:
    """Return a part of a trace that was read."""
    if not 1 <= limit <= MOST_STEPS:
        raise RelightError(f"a part has 1 to {MOST_STEPS} steps, got {limit}", "read several parts")
    total = len(trace.steps)
    if not 1 <= step <= max(total, 1):
        raise MissingError(f"there is no step {step} in that session", f"it has {total} steps")
    end = step - 1 + limit
    return TracePart(
        session_id=trace.session_id,
        steps=trace.steps[step - 1 : end],
        total=total,
        first=step,
        previous=max(step - limit, 1) if step > 1 else None,
        next=end + 1 if end < total else None,
        silence=trace.silence,
    )


def shorten(step: Step, limit: int = OUTLINE_CHARACTERS) -> Step:
    """Return a step with the beginnings of its texts."""
    texts = {name: getattr(step, name) for name in ("text", "injected", "arguments", "result")}
    cut = {name: text[:limit] for name, text in texts.items() if text and len(text) > limit}
    return replace(step, **cut) if cut else step


def _add_pauses(items: Sequence[Item], calls: Mapping[int, TraceCall]) -> list[Item]:
    """Return the items with each long wait for a person before the prompt that ended it."""
    found: list[Item] = []
    end: int | None = None
    for item in items:
        if item.kind == "prompt" and item.at and end and item.at - end > PAUSE_MS:
            found.append(Item("pause", end, ended_at=item.at))
        if item.call is not None and (call := calls.get(item.call)):
            item.at = call.at if item.at is None else item.at
            item.ended_at = call.finished_at
        if item.at is not None:
            end = max(end or 0, item.at, item.ended_at or 0)
        found.append(item)
    return found


class _Builder:
    """Makes steps in order, with the cost so far and the time of the step before."""

    def __init__(
        self,
        turns: Sequence[TraceTurn],
        calls: Mapping[int, TraceCall],
        owners: Mapping[int, Item],
        spirals: Mapping[int, int],
    ) -> None:
        self._rows = {turn.id: turn for turn in turns}
        self._calls, self._owners, self._spirals = calls, owners, spirals
        self._nanos = self._unpriced = 0
        self._end: int | None = None
        self.turns: dict[int, int] = {}

    def make(self, number: int, item: Item) -> Step:
        fields: dict[str, Any] = {}
        turn = None if item.turn is None else self._rows.get(item.turn)
        if turn is not None:
            fields |= {"model": turn.model, "provider": turn.provider, "role": turn.role}
            if self._owners.get(turn.id) is item:
                self.turns[turn.id] = number
                fields |= self._spend(turn, item)
        if item.kind == "call":
            fields |= self._judge(item)
        elif item.kind == "pause" and item.at and item.ended_at:
            fields["duration_ms"] = item.ended_at - item.at
        self._end = max(item.at or 0, item.ended_at or 0, self._end or 0) or None
        is_known = not self._unpriced or self._nanos
        return Step(
            step=number,
            kind=item.kind,
            at=write_time(item.at),
            ended_at=write_time(item.ended_at),
            text=item.text,
            injected=item.injected,
            tool=item.tool,
            arguments=item.arguments,
            result=item.result,
            running_cost_usd=self._nanos / 1e9 if is_known else None,
            running_unpriced_turns=self._unpriced,
            **fields,
        )

    def _spend(self, turn: TraceTurn, item: Item) -> dict[str, Any]:
        """The figures of a model call, added to the sums so far."""
        is_included = turn.cost_status == "included"
        nanos = turn.cost_nanos
        if turn.is_shared or (is_included and nanos is not None):
            nanos = 0
        self._nanos += nanos or 0
        if nanos is None:
            is_failed = turn.calls == 0 and turn.usage_status != "reconciled"
            self._unpriced += 1 if is_failed else turn.calls
        spent = turn.duration_ms
        if spent is None and turn.is_spoken:
            spent = _measure(self._end, item.at)  # a response is recorded when it arrives
        fields: dict[str, Any] = {name: getattr(turn, name) for name in COPIED}
        fields |= {
            "turns": turn.calls,
            "cost_usd": None if nanos is None else nanos / 1e9,
            "included_usd": (turn.cost_nanos or 0) / 1e9 if is_included else None,
            "model_ms": spent,
        }
        if item.kind == "answer":
            fields["duration_ms"] = spent
        if turn.failure:
            failed = {"failure_kind": turn.failure, "reason": turn.failure_text}
            fields |= {"label": "error", **failed}
        return fields

    def _judge(self, item: Item) -> dict[str, Any]:
        """The command or path of a call, and its verdict."""
        subject = find_subject(item.tool or "", item.arguments)
        fields: dict[str, Any] = {"command": subject.command, "path": subject.path}
        call = None if item.call is None else self._calls.get(item.call)
        if call is None:
            return fields
        spent = call.duration_ms
        if spent is None:
            spent = _measure(call.at, call.finished_at)
        return fields | {
            "label": call.label,
            "failure_kind": call.kind,
            "reason": call.reason,
            "evidence": call.evidence,
            "exit_code": call.exit_code,
            "duration_ms": spent,
            "spiral": self._spirals.get(call.place),
        }


def _measure(begin: int | None, end: int | None) -> int | None:
    """Return the time between two records; unknown if they have the same time, or none.

    Some agents give all records of a session one time.
    """
    return end - begin if begin is not None and end is not None and end > begin else None


def _link_children(made: list[Step], children: Sequence[steps.SubAgent]) -> list[Step]:
    """Return the steps, each call that started a sub-agent with its session."""
    taken: set[int] = set()
    for child in children:
        found = find_child(child, made, taken)
        if found is not None:
            taken.add(found)
            made[found] = replace(made[found], child_session_id=child.session_id)
    return made


def _mark_rebuilds(
    store: Store, session_id: int, made: list[Step], turns: Mapping[int, int]
) -> None:
    """Note at the steps of turns that they rebuilt the prompt cache."""
    for one in read_session_rebuilds(store, session_id):
        if (number := turns.get(one.turn_id)) is not None:
            rebuilt = StepRebuild(
                cause=one.cause,
                pause_seconds=one.pause_ms / 1000,
                tokens=one.tokens,
                usd=read_usd(one.write_nanos),
            )
            made[number - 1] = replace(made[number - 1], cache_rebuild=rebuilt)
