"""Judging tool calls: how fast, and how often right on labelled sessions.

`--data DIR` names a folder of `*.jsonl` (or `.jsonl.gz`) files in the `chat` format: one session
a line, with `messages`, and `calls`: what the environment knows of each. A call is bad if its
`error` (or `is_error`) says so; without these, if its `exit_code` is not 0 or it `timed_out`.
"""

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relight.judging.verdicts import judge_call

TARGET_PER_SECOND = 20_000
CALLS = 6_000
SIZES = (300, 900, 2_000, 2_000, 2_200, 4_000, 8_000)  # median 2 KB

CODE = "".join(
    f"{n:4d}      def read_{n}(self, rows):  # raises ValueError if rows failed\n"
    for n in range(120)
)
LOG = "".join(f"2026-01-01 12:00:{n % 60:02d} INFO worker {n} done in 0.{n}s\n" for n in range(160))
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/app/job.py", line 4, in <module>\n'
    "    main()\nValueError: no rows\n"
)


def main(argv: list[str]) -> int:
    """Print the speed on one core and, with `--data`, precision and recall by file."""
    parser = argparse.ArgumentParser(prog="bench verdicts")
    parser.add_argument("--data", type=Path, help="folder of labelled sessions")
    folder: Path | None = parser.parse_known_args(argv)[0].data
    rate = measure_speed(make_mix(random.Random(7)))
    verdict = "reached" if rate >= TARGET_PER_SECOND else "MISSED"
    print(f"{rate:>10,.0f} calls judged a second on one core, median result 2 KB", end="")
    print(f" (target {TARGET_PER_SECOND:,}: {verdict})")
    if folder is None:
        print("agreement with labelled sessions needs --data DIR (see the head of this file)")
        return 0
    files = sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.jsonl.gz")])
    if not files:
        print(f"no *.jsonl in {folder}")
        return 1
    print(f"\n{'file':32} {'evidence':10} {'calls':>8} {'bad':>7} {'P':>7} {'R':>7} {'F1':>7}")
    for file in files:
        for what, counts in count_agreement(read_labelled(file)).items():
            print(f"{file.name[:32]:32} {what:10} {show_counts(*counts)}")
    return 0


def make_mix(chance: random.Random) -> list[tuple[str, object, str, int | None]]:
    """Calls as a coding agent makes them: mostly readers, scripts and tests, some JSON tools."""
    calls: list[tuple[str, object, str, int | None]] = []
    for n in range(CALLS):
        size = chance.choice(SIZES)
        body = (CODE if chance.random() < 0.5 else LOG) * 2
        body = body[:size]
        script = f"cat > t{n}.py <<'EOF'\n{CODE[:600]}\nEOF\npython t{n}.py"
        shapes: list[tuple[str, object, str, int | None]] = [
            ("bash", {"command": f"cd /app && sed -n '1,{n}p' src/app.py"}, body, None),
            ("bash", {"command": f"cat src/app_{n}.py"}, body, 0),
            ("bash", {"command": f"pytest tests/test_{n}.py -x 2>&1 | tail -30"}, body, None),
            ("bash", {"command": f"python run_{n}.py --fast"}, body, None),
            ("bash", {"command": script}, body + TRACEBACK, 1),
            ("Read", {"file_path": f"/app/{n}.py"}, body, None),
            (
                "terminal",
                json.dumps({"command": f"grep -rn 'error {n}' src | head -20"}),
                json.dumps({"output": body, "exit_code": 0, "error": None}),
                None,
            ),
            ("lookup", {"id": n}, json.dumps({"id": n, "rows": [LOG[:60]] * (size // 64)}), None),
            (
                "exec_command",
                json.dumps({"cmd": f"git diff HEAD~{n} && ls"}),
                f"Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\n{body}",
                None,
            ),
        ]
        calls.append(shapes[n % len(shapes)])
    return calls


def measure_speed(calls: list[tuple[str, object, str, int | None]]) -> float:
    """Calls judged a second of processor time, the best of three passes."""
    best = 0.0
    for _ in range(3):
        started = time.process_time()
        for tool, arguments, result, exit_code in calls:
            judge_call(tool, arguments, result, exit_code=exit_code)
        best = max(best, len(calls) / (time.process_time() - started))
    return best


def read_labelled(file: Path) -> Iterator[tuple[str, object, object, dict[str, Any]]]:
    """Each call of a file's sessions that has a label: tool, arguments, result, label."""
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        for line in lines:
            session = json.loads(line)
            if not isinstance(session, dict):
                continue
            labels = {label["call_id"]: label for label in session.get("calls") or []}
            asked: dict[str, tuple[str, object]] = {}
            for message in session.get("messages") or []:
                for call in message.get("tool_calls") or []:
                    asked[call["id"]] = (call["function"]["name"], call["function"]["arguments"])
                call_id = message.get("tool_call_id")
                if message.get("role") == "tool" and call_id in asked and call_id in labels:
                    yield *asked[call_id], message.get("content"), labels[call_id]


def count_agreement(
    calls: Iterable[tuple[str, object, object, dict[str, Any]]],
) -> dict[str, tuple[int, int, int, int]]:
    """True and false positives, misses and calls: from the text alone, and with the exit code.

    A call is called bad where the verdict is error or negative: an exit code that is not 0 says
    both of a search without a match and of a command that could not run.
    """
    counts = {"text only": [0, 0, 0, 0], "exit code": [0, 0, 0, 0]}
    for tool, arguments, result, label in calls:
        code, timed_out = label.get("exit_code"), label.get("timed_out")
        is_error = label.get("error", label.get("is_error"))
        if code is None and timed_out is None and is_error is None:
            continue
        is_bad = bool(code or timed_out) if is_error is None else bool(is_error)
        given: dict[str, dict[str, Any]] = {"text only": {}}
        if code is not None or timed_out:
            given["exit code"] = {"exit_code": code, "timed_out": timed_out}
        for what, known in given.items():
            called_bad = judge_call(tool, arguments, result, **known).label in ("error", "negative")
            row = counts[what]
            row[0] += called_bad and is_bad
            row[1] += called_bad and not is_bad
            row[2] += is_bad and not called_bad
            row[3] += 1
    return {what: (a, b, c, d) for what, (a, b, c, d) in counts.items() if d}


def show_counts(hits: int, false_alarms: int, misses: int, calls: int) -> str:
    """One row of figures."""
    precision = hits / (hits + false_alarms) if hits + false_alarms else 0.0
    recall = hits / (hits + misses) if hits + misses else 0.0
    f1 = 2 * hits / (2 * hits + false_alarms + misses) if hits + misses + false_alarms else 0.0
    return f"{calls:8,} {hits + misses:7,} {precision:7.3f} {recall:7.3f} {f1:7.3f}"
