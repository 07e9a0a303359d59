"""Reports of traced mixtures: what each model cost and took, and how far advisers agreed.

Relight's own traces are files, exact and unredacted. Those that another agent wrote are on the
tapes of its sessions, in the same form but for some fields: they have no times, an amount may be a
text, and an adviser's failure is only marked in its output.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.messages import read_text
from relight.errors import DamagedTapeError, MissingError
from relight.judging.failures import classify_error
from relight.reports.sessions import LAST
from relight.store import Store
from relight.store.queries.sessions import find_advised
from relight.store.write.tape import read_tape
from relight.times import read_time, write_time
from relight.work.moa.traces import trace_path

OWN = "relight:"
# how an adviser's failure begins where the trace has no field for it
FAILED = "[failed: "

# advisers that share fewer of their words are shown as disagreeing
DISAGREEING = 0.15


class TracedSession(Struct, frozen=True):
    """The traced turns of a session, and how many lines could not be read.

    `path` is the file of the traces; None for those on a tape.
    """

    session_id: str
    turns: list[dict[str, Any]]
    skipped: int
    path: Path | None = None


class TraceSummary(Struct, frozen=True, kw_only=True):
    """A traced session with the sums of its turns."""

    session_id: str
    file: str | None
    preset: Any
    turns: int
    last_at: str | None
    cost_usd: float | None
    unpriced_turns: int
    skipped_lines: int


class TraceList(Struct, frozen=True):
    """Traced sessions, newest first."""

    traces: list[TraceSummary]


class TracedModel(Struct, kw_only=True):
    """A model in one role: its calls, failures, cost and time, and how often it disagreed."""

    label: str
    role: str
    calls: int = 0
    failures: int = 0
    cost_usd: float | None = None
    unpriced_turns: int = 0
    # of the calls whose time is known
    duration_ms: int | None = None
    untimed_calls: int = 0
    disagreed: int = 0


class TraceReport(Struct, frozen=True, kw_only=True):
    """The turns of a trace, each with how far its advisers agreed, and sums by model."""

    session_id: str
    turns: list[dict[str, Any]]
    models: list[TracedModel]
    cost_usd: float | None
    unpriced_turns: int
    skipped_lines: int


def read_trace_file(path: Path, *, source: str = "") -> TracedSession:
    """Return the turns of a file; unreadable lines are skipped and counted."""
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    turns = [turn for line in lines if (turn := _read_turn(line))]
    name = str(turns[-1].get("session_id") or path.stem) if turns else path.stem
    return TracedSession(f"{source}{name}", turns, len(lines) - len(turns), path)


def _read_taped(store: Store, row: int, session_id: str) -> TracedSession:
    """The traced turns on a session's tape, among its other records; none if it is damaged."""
    try:
        lines = [line for part in read_tape(store, row) for line in part.lines()]
    except DamagedTapeError:
        lines = []
    found = [turn for line in lines if b'"references"' in line and (turn := _read_turn(line))]
    return TracedSession(session_id, found, 0)


def _read_turn(line: bytes) -> dict[str, Any] | None:
    """The turn in a line, with all fields of each call; None if it is not a traced turn."""
    try:
        turn = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(turn, dict) or not isinstance(turn.get("references"), list):
        return None
    acted = turn.get("aggregator")
    if not all(isinstance(one, dict) for one in [*turn["references"], acted or {}]):
        return None
    turn.pop("table", None)
    return turn | {
        "ts": write_time(read_time(turn.get("ts"))),
        "references": [_complete_call(one) for one in turn["references"]],
        "aggregator": _complete_call(acted) if acted else None,
    }


def _complete_call(call: dict[str, Any]) -> dict[str, Any]:
    """The call with the fields that only Relight writes; unknown ones are None."""
    said = call.get("output")
    failure, has_failed = call.get("failure"), isinstance(said, str) and said.startswith(FAILED)
    if has_failed and "failure" not in call:
        reason = str(said).removeprefix(FAILED).removesuffix("]")
        failure, said = {"kind": classify_error(reason).kind, "reason": reason}, None
    known = {"duration_ms": None, "cached": False, **call}
    cost = read_cost({**call, "failure": failure})
    return known | {"output": said, "cost_usd": cost, "failure": failure}


class TracePlace(Struct, frozen=True):
    """A trace that was not read yet: its age for sorting, and its session if that is known."""

    order: tuple[float, str]
    read: Callable[[], TracedSession]
    session_id: str | None = None


def _list_places(store: Store) -> list[TracePlace]:
    """All traces, newest first: Relight's own files, and those on the tapes of other agents."""
    places = []
    with suppress(OSError):
        for path in store.config.trace_folder.glob("*.jsonl"):
            order = (-path.stat().st_mtime * 1000, path.name)
            places.append(TracePlace(order, partial(read_trace_file, path, source=OWN)))
    for one in find_advised(store):
        order = (-float(one.ended_at or 0), one.session_id)
        read = partial(_read_taped, store, one.id, one.session_id)
        places.append(TracePlace(order, read, one.session_id))
    return sorted(places, key=lambda place: place.order)


def find_traces(store: Store) -> Iterator[TracedSession]:
    """Yield all traces, newest first; a session whose tape was pruned has none."""
    for place in _list_places(store):
        trace = place.read()
        if trace.turns or trace.path:
            yield trace


def find_trace(store: Store, name: str) -> TracedSession:
    """Return the trace of a session, by its id, a unique prefix of it, or `last` and `last~2`."""
    own = trace_path(store.config.trace_folder, name.removeprefix(OWN))
    if own.exists():
        return read_trace_file(own, source=OWN)
    if (place := LAST.fullmatch(name)) and (
        newest := next(islice(find_traces(store), int(place[1] or 0), None), None)
    ):
        return newest
    places = [one for one in _list_places(store) if _is_named(one.session_id, name)]
    found = [one for one in (place.read() for place in places) if _is_named(one.session_id, name)]
    found = [one for one in found if one.turns or one.path]
    exact = [one for one in found if name in (one.session_id, one.session_id.partition(":")[2])]
    found = exact or found
    hint = "`relight moa traces` lists them; [moa] save_traces = true saves them"
    if not found:
        raise MissingError(f"there is no trace of {name!r}", hint)
    if len(found) > 1:
        several = ", ".join(one.session_id for one in found[:8])
        raise MissingError(f"{name!r} could be {several}", hint)
    return found[0]


def _is_named(session_id: str | None, name: str) -> bool:
    """True if a session may be meant: its id begins so, or is not known before it is read."""
    return session_id is None or any(
        one.startswith(name) for one in (session_id, session_id.partition(":")[2])
    )


def list_traces(store: Store) -> list[TraceSummary]:
    """Return the traced sessions, newest first, each with the sums of its turns."""
    rows = []
    for trace in find_traces(store):
        cost, unpriced = sum_call_costs(call for turn in trace.turns for call in all_calls(turn))
        last = trace.turns[-1] if trace.turns else {}
        rows.append(
            TraceSummary(
                session_id=trace.session_id,
                file=str(trace.path) if trace.path else None,
                preset=last.get("preset"),
                turns=len(trace.turns),
                last_at=last.get("ts"),
                cost_usd=cost,
                unpriced_turns=unpriced,
                skipped_lines=trace.skipped,
            )
        )
    return rows


def report_trace(trace: TracedSession, number: int | None = None) -> TraceReport:
    """Return the turns of a trace, or one counted from 1, with how far the advisers agreed."""
    turns = trace.turns if number is None else trace.turns[number - 1 : number]
    if number is not None and not turns:
        raise MissingError(f"there is no turn {number}", f"there are {len(trace.turns)}")
    agreements = [compare_advice(turn) for turn in turns]
    cost, unpriced = sum_call_costs(call for turn in turns for call in all_calls(turn))
    return TraceReport(
        session_id=trace.session_id,
        turns=[
            {**turn, "agreement": agreement}
            for turn, agreement in zip(turns, agreements, strict=True)
        ],
        models=sum_models(turns, agreements),
        cost_usd=cost,
        unpriced_turns=unpriced,
        skipped_lines=trace.skipped,
    )


def read_cost(call: Mapping[str, Any]) -> float | None:
    """Return the cost of a call, which may be a text; None if it is unknown.

    A call that was refused before any answer costs nothing.
    """
    try:
        return float(call["cost_usd"])
    except (KeyError, TypeError, ValueError):
        failure = call.get("failure")
        reason = failure.get("reason") if isinstance(failure, Mapping) else None
        return 0.0 if reason and classify_error(str(reason)).is_refusal else None


def read_milliseconds(call: Mapping[str, Any]) -> int | None:
    """Return the duration of a call; None if it is unknown."""
    spent = call.get("duration_ms")
    return round(spent) if isinstance(spent, int | float) and math.isfinite(spent) else None


def sum_call_costs(calls: Iterable[Mapping[str, Any]]) -> tuple[float | None, int]:
    """Return the sum of the known costs, None without any, and the number of unknown ones."""
    costs = [read_cost(call) for call in calls if not call.get("cached")]
    known = [cost for cost in costs if cost is not None]
    return (sum(known) if known else None), len(costs) - len(known)


def compare_advice(turn: Mapping[str, Any]) -> list[float | None]:
    """Return the share of words, 0 to 1, that each adviser has in common with the others.

    A word counts once, however often it occurs; None if there is nothing to compare.
    """
    words = [
        set(re.findall(r"\w{3,}", str(one.get("output") or "").lower()))
        if not one.get("failure")
        else set()
        for one in turn["references"]
    ]
    agreed: list[float | None] = []
    for place, own in enumerate(words):
        others = [other for at, other in enumerate(words) if at != place and other]
        shares = [len(own & other) / len(own | other) for other in others if own]
        agreed.append(sum(shares) / len(shares) if shares else None)
    return agreed


def find_task(turn: Mapping[str, Any]) -> str | None:
    """Return the first line of the user's first message to the acting model."""
    texts = _list_prompts(turn.get("aggregator"))
    return texts[0].partition("\n")[0] if texts else None


def find_prompt(turn: Mapping[str, Any]) -> str | None:
    """Return the user's last message, without the advice below it that only the acting model got.

    Advisers saw it without advice, but with results of tools as if the user had sent them.
    """
    acted = _list_prompts(turn.get("aggregator"))
    seen = {text for call in turn.get("references") or () for text in _list_prompts(call)}
    for text in reversed(acted):
        if asked := max((one for one in seen if text.startswith(one)), key=len, default=""):
            return asked
    return acted[-1] if acted and not seen else None


def _list_prompts(call: object) -> list[str]:
    """Return the texts of the user's messages that a call was sent."""
    messages = call.get("input_messages") if isinstance(call, Mapping) else None
    texts = (
        read_text(one.get("content"))
        for one in messages or ()
        if isinstance(one, Mapping) and one.get("role") == "user"
    )
    return [text for text in texts if text.strip()]


def all_calls(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calls of a turn; the acting model's, if there is one, is last."""
    acted = turn.get("aggregator")
    return [*turn["references"], *([acted] if acted else [])]


def sum_models(
    turns: Sequence[Mapping[str, Any]], agreements: Sequence[Sequence[float | None]]
) -> list[TracedModel]:
    """Return the sums of each model in each of its roles."""
    found: dict[tuple[str, str], TracedModel] = {}
    for turn, agreement in zip(turns, agreements, strict=True):
        for call, agreed in zip_longest(all_calls(turn), agreement):
            role = "aggregator" if call is turn.get("aggregator") else "reference"
            label = str(call.get("label") or call.get("model") or "unknown")
            row = found.setdefault((role, label), TracedModel(label=label, role=role))
            if call.get("cached"):
                continue
            row.calls += 1
            row.failures += bool(call.get("failure"))
            cost = read_cost(call)
            row.cost_usd = (row.cost_usd or 0) + cost if cost is not None else row.cost_usd
            row.unpriced_turns += cost is None
            spent = read_milliseconds(call)
            row.duration_ms = row.duration_ms if spent is None else (row.duration_ms or 0) + spent
            row.untimed_calls += spent is None
            row.disagreed += agreed is not None and agreed < DISAGREEING
    return list(found.values())
