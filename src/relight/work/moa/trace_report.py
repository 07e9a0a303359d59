"""Reports of traced mixtures: what each model cost and took, and how far advisers agreed.

Hermes writes files of the same form as Relight, so any JSON is read.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.chat.messages import read_text
from relight.errors import MissingError
from relight.times import read_time, write_time
from relight.work.moa.traces import trace_path

# advisers that share fewer of their words are shown as disagreeing
DISAGREEING = 0.15


class TraceFile(Struct, frozen=True):
    """A file of traces: its turns, and how many lines could not be read."""

    path: Path
    turns: list[dict[str, Any]]
    skipped: int


class TraceSummary(Struct, frozen=True, kw_only=True):
    """A traced session with the sums of its turns."""

    session_id: Any
    file: str
    preset: Any
    turns: int
    last_at: str | None
    cost_usd: float | None
    unpriced_calls: int
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
    unpriced_calls: int = 0
    # of the calls whose time is known
    duration_ms: int | None = None
    untimed_calls: int = 0
    disagreed: int = 0


class TraceReport(Struct, frozen=True, kw_only=True):
    """The turns of a trace, each with how far its advisers agreed, and sums by model."""

    session_id: Any
    turns: list[dict[str, Any]]
    models: list[TracedModel]
    cost_usd: float | None
    unpriced_calls: int
    skipped_lines: int


def read_trace(path: Path) -> TraceFile:
    """Return the turns of a file; unreadable lines are skipped and counted."""
    turns, skipped = [], 0
    for line in path.read_bytes().split(b"\n"):
        if not line.strip():
            continue
        try:
            turn = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            skipped += 1
            continue
        if isinstance(turn, dict) and _has_calls(turn):
            turns.append(turn)
        else:
            skipped += 1
    return TraceFile(path, turns, skipped)


def _has_calls(turn: dict[str, Any]) -> bool:
    calls = turn.get("references")
    if not isinstance(calls, list):
        return False
    return all(isinstance(one, dict) for one in [*calls, turn.get("aggregator") or {}])


def find_traces(folder: Path) -> Iterator[TraceFile]:
    """Yield all traces, newest first."""
    try:
        paths = sorted(folder.glob("*.jsonl"), key=lambda one: (-one.stat().st_mtime, one.name))
    except OSError:
        return
    yield from map(read_trace, paths)


def find_trace(folder: Path, name: str) -> TraceFile:
    """Return the trace of a session, by its id or a unique prefix of it."""
    name = name.removeprefix("relight:")
    if (path := trace_path(folder, name)).exists():
        return read_trace(path)
    found = [
        trace
        for trace in find_traces(folder)
        if trace.turns and str(trace.turns[0].get("session_id")).startswith(name)
    ]
    hint = "`relight moa traces` lists them; [moa] save_traces = true saves them"
    if not found:
        raise MissingError(f"there is no trace of {name!r}", hint)
    if len(found) > 1:
        several = ", ".join(str(one.turns[0].get("session_id")) for one in found[:8])
        raise MissingError(f"{name!r} could be {several}", hint)
    return found[0]


def list_traces(folder: Path) -> list[TraceSummary]:
    """Return the traced sessions, newest first, each with the sums of its turns."""
    rows = []
    for trace in find_traces(folder):
        cost, unpriced = sum_call_costs(call for turn in trace.turns for call in all_calls(turn))
        last = trace.turns[-1] if trace.turns else {}
        rows.append(
            TraceSummary(
                session_id=last.get("session_id"),
                file=str(trace.path),
                preset=last.get("preset"),
                turns=len(trace.turns),
                last_at=write_time(read_time(last.get("ts"))),
                cost_usd=cost,
                unpriced_calls=unpriced,
                skipped_lines=trace.skipped,
            )
        )
    return rows


def report_trace(trace: TraceFile, number: int | None = None) -> TraceReport:
    """Return the turns of a trace, or one counted from 1, with how far the advisers agreed."""
    turns = trace.turns if number is None else trace.turns[number - 1 : number]
    if number is not None and not turns:
        raise MissingError(f"there is no turn {number}", f"there are {len(trace.turns)}")
    agreements = [compare_advice(turn) for turn in turns]
    cost, unpriced = sum_call_costs(call for turn in turns for call in all_calls(turn))
    return TraceReport(
        session_id=turns[0].get("session_id") if turns else None,
        turns=[
            {**turn, "agreement": agreement}
            for turn, agreement in zip(turns, agreements, strict=True)
        ],
        models=sum_models(turns, agreements),
        cost_usd=cost,
        unpriced_calls=unpriced,
        skipped_lines=trace.skipped,
    )


def was_charged(call: Mapping[str, Any]) -> bool:
    """True if a call can have cost anything: not cached, and not failed without output."""
    usage = call.get("usage") or {}
    has_tokens = isinstance(usage, Mapping) and usage.get("output_tokens") is not None
    return not call.get("cached") and (has_tokens or not call.get("failure"))


def read_cost(call: Mapping[str, Any]) -> float | None:
    """Return the cost of a call, which Hermes writes as text; None if it is unknown."""
    try:
        return float(call["cost_usd"])
    except (KeyError, TypeError, ValueError):
        return None


def read_milliseconds(call: Mapping[str, Any]) -> int | None:
    """Return the duration of a call; None if it is unknown, as in Hermes' traces."""
    spent = call.get("duration_ms")
    return round(spent) if isinstance(spent, int | float) and math.isfinite(spent) else None


def sum_call_costs(calls: Iterable[Mapping[str, Any]]) -> tuple[float | None, int]:
    """Return the sum of the known costs, None without any, and the number of unknown ones."""
    costs = [read_cost(call) for call in calls if was_charged(call)]
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
            cost = read_cost(call) if was_charged(call) else None
            row.cost_usd = (row.cost_usd or 0) + cost if cost is not None else row.cost_usd
            row.unpriced_calls += cost is None and was_charged(call)
            spent = read_milliseconds(call)
            row.duration_ms = row.duration_ms if spent is None else (row.duration_ms or 0) + spent
            row.untimed_calls += spent is None
            row.disagreed += agreed is not None and agreed < DISAGREEING
    return list(found.values())
