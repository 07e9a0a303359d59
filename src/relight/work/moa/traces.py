"""Full-turn traces of mixtures: what each model received, byte for byte, and what it said.

One JSON line a turn in a file a session. They are not redacted: their worth is that they are
exact, so only the user may read them.
"""

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from relight.errors import MissingError
from relight.locks import hold
from relight.names import file_name

# advisers that share fewer of their words are shown as disagreeing
DISAGREEING = 0.15

_lock = threading.Lock()


class Trace(Struct, frozen=True):
    """A file of traces: its turns, and how many lines could not be read."""

    path: Path
    turns: list[dict[str, Any]]
    skipped: int


def trace_path(folder: Path, session_id: str) -> Path:
    """The file of a session's traces, wherever its id seems to lead."""
    return folder / file_name(session_id, ending=".jsonl")


def write_trace(folder: Path, session_id: str, record: Mapping[str, Any]) -> None:
    """Append a turn with one write under a lock, so that turns of many writers never mix.

    A line that a crash left without its end is closed first, so that only it is lost.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    line = msgspec.json.encode(record) + b"\n"
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    with _lock:
        file = os.open(trace_path(folder, session_id), flags, 0o600)
        try:
            hold(file)
            size = os.lseek(file, 0, os.SEEK_END)
            if size:
                os.lseek(file, size - 1, os.SEEK_SET)
                line = line if os.read(file, 1) == b"\n" else b"\n" + line
            written = os.write(file, line)
            while written < len(line):  # a disk that is nearly full, or more than 2 GB
                written += os.write(file, line[written:])
        finally:
            os.close(file)


def read_trace(path: Path) -> Trace:
    """The turns of a file; a torn line is passed over and counted."""
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
    return Trace(path, turns, skipped)


def _has_calls(turn: dict[str, Any]) -> bool:
    calls = turn.get("references")
    if not isinstance(calls, list):
        return False
    return all(isinstance(one, dict) for one in [*calls, turn.get("aggregator") or {}])


def find_traces(folder: Path) -> Iterator[Trace]:
    """All files of traces, the newest first."""
    try:
        paths = sorted(folder.glob("*.jsonl"), key=lambda one: (-one.stat().st_mtime, one.name))
    except OSError:
        return
    yield from map(read_trace, paths)


def find_trace(folder: Path, name: str) -> Trace:
    """The trace of a session, by its id or the unique beginning of one."""
    name = name.removeprefix("relight:")
    if (path := trace_path(folder, name)).exists():
        return read_trace(path)
    found = [
        trace
        for trace in find_traces(folder)
        if trace.turns and str(trace.turns[0].get("session_id")).startswith(name)
    ]
    hint = "`relight moa traces` lists them; [moa] save_traces = true keeps them"
    if not found:
        raise MissingError(f"there is no trace of {name!r}", hint)
    if len(found) > 1:
        several = ", ".join(str(one.turns[0].get("session_id")) for one in found[:8])
        raise MissingError(f"{name!r} could be {several}", hint)
    return found[0]


def list_traces(folder: Path) -> list[dict[str, Any]]:
    """The traced sessions, the newest first, each with what its turns came to."""
    rows = []
    for trace in find_traces(folder):
        cost, unpriced = sum_costs(call for turn in trace.turns for call in all_calls(turn))
        last = trace.turns[-1] if trace.turns else {}
        rows.append(
            {
                "session_id": last.get("session_id"),
                "file": str(trace.path),
                "preset": last.get("preset"),
                "turns": len(trace.turns),
                "last_at": last.get("ts"),
                "cost_usd": cost,
                "unpriced_calls": unpriced,
                "skipped_lines": trace.skipped,
            }
        )
    return rows


def tell_trace(trace: Trace, number: int | None = None) -> dict[str, Any]:
    """The turns of a trace, all or one counted from 1, with how far the advisers agreed."""
    turns = trace.turns if number is None else trace.turns[number - 1 : number]
    if number is not None and not turns:
        raise MissingError(f"there is no turn {number}", f"there are {len(trace.turns)}")
    agreements = [compare_advice(turn) for turn in turns]
    cost, unpriced = sum_costs(call for turn in turns for call in all_calls(turn))
    return {
        "session_id": turns[0].get("session_id") if turns else None,
        "turns": [
            {**turn, "agreement": agreement}
            for turn, agreement in zip(turns, agreements, strict=True)
        ],
        "models": summarise(turns, agreements),
        "cost_usd": cost,
        "unpriced_calls": unpriced,
        "skipped_lines": trace.skipped,
    }


def was_charged(call: Mapping[str, Any]) -> bool:
    """Whether a call can have cost anything: not from the cache, and not failed without a word."""
    usage = call.get("usage") or {}
    has_tokens = isinstance(usage, Mapping) and usage.get("output_tokens") is not None
    return not call.get("cached") and (has_tokens or not call.get("failure"))


def read_cost(call: Mapping[str, Any]) -> float | None:
    """What a call cost; Hermes writes it as text."""
    try:
        return float(call["cost_usd"])
    except (KeyError, TypeError, ValueError):
        return None


def sum_costs(calls: Iterable[Mapping[str, Any]]) -> tuple[float | None, int]:
    """The known costs together, None if none is known; and how many are not."""
    costs = [read_cost(call) for call in calls if was_charged(call)]
    known = [cost for cost in costs if cost is not None]
    return (sum(known) if known else None), len(costs) - len(known)


def compare_advice(turn: Mapping[str, Any]) -> list[float | None]:
    """How far each adviser agrees with the others of a turn, 0 to 1: the words they share.

    A word counts once however often it is said; None where there is nothing to compare.
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


def all_calls(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The calls of a turn, the acting model's last, if it was asked."""
    acted = turn.get("aggregator")
    return [*turn["references"], *([acted] if acted else [])]


def summarise(
    turns: Sequence[Mapping[str, Any]], agreements: Sequence[Sequence[float | None]]
) -> list[dict[str, Any]]:
    """Each model with its role: calls, failures, cost, time, and how often it differed."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for turn, agreement in zip(turns, agreements, strict=True):
        for call, agreed in zip_longest(all_calls(turn), agreement):
            role = "aggregator" if call is turn.get("aggregator") else "reference"
            label = str(call.get("label") or call.get("model") or "unknown")
            row = found.setdefault(
                (role, label),
                {
                    "label": label,
                    "role": role,
                    "calls": 0,
                    "failures": 0,
                    "cost_usd": None,
                    "unpriced_calls": 0,
                    "duration_ms": 0,
                    "disagreed": 0,
                },
            )
            row["calls"] += not call.get("cached")
            row["failures"] += bool(call.get("failure")) and not call.get("cached")
            cost = read_cost(call) if was_charged(call) else None
            row["cost_usd"] = (row["cost_usd"] or 0) + cost if cost is not None else row["cost_usd"]
            row["unpriced_calls"] += cost is None and was_charged(call)
            row["duration_ms"] += 0 if call.get("cached") else call.get("duration_ms") or 0
            row["disagreed"] += agreed is not None and agreed < DISAGREEING
    return list(found.values())
