"""Windows of plans: the speed of the status line and of `limits`, and blocks against ccusage."""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import judge, print_rows, relight, run, tree
from bench.peers import find_ccusage
from bench.startup import median

STATUS_LIMIT = 10
GIVEN = {
    "session_id": "bench",
    "model": {"display_name": "Opus 4.6"},
    "cost": {"total_cost_usd": 1.25},
    "context_window": {"used_percentage": 37},
    "rate_limits": {"five_hour": {"used_percentage": 42, "resets_at": 4_000_000_000}},
}


class Spent(NamedTuple):
    wall: float
    cpu: float


class Block(NamedTuple):
    """A block of either program: its beginning, turns, tokens and worth."""

    started_at: str
    turns: int
    tokens: int
    usd: float


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench limits")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--mb", type=int, default=1000, help="the size of the tree")
    parser.add_argument("--ccusage", type=Path, help="its program, if it is not to be installed")
    options = parser.parse_args(words)
    logs = tree(options.mb)
    rows = [("what", "figure", "limit", "")]
    with tempfile.TemporaryDirectory() as folder:
        environment = {"HOME": str(logs), "RELIGHT_HOME": f"{folder}/home", "TZ": "UTC"}
        imported = run(relight("import"), environment).seconds
        rows.append((f"import of {options.mb} MB", f"{imported:.1f} s", "", ""))
        rows += measure_status(environment, options.runs)
        rows += measure_limits(environment)
        own = read_blocks(environment)
    peer = read_peer(options.ccusage or find_ccusage(), logs)
    if peer is None:
        rows.append(("blocks against ccusage", "it cannot be installed", "", ""))
    else:
        rows += compare(own, peer)
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def measure_status(environment: Mapping[str, str], runs: int) -> list[tuple[str, str, str, str]]:
    """The status line against an empty Python in the same run, with a fresh summary."""
    home = environment["RELIGHT_HOME"]
    spend(relight("statusline", "--refresh"), environment)
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "relight statusline": relight("statusline"),
    }
    spent: dict[str, list[Spent]] = {name: [] for name in commands}
    for _ in range(runs):
        # a lock that was just tried: the line is measured, not the import it may start
        Path(home, "statusline.lock").write_text("tried")
        for name, command in commands.items():
            spent[name].append(spend(command, environment))
    floor = spent["python -c pass"]
    rows = []
    for field in Spent._fields:
        figure, least = (
            median([getattr(one, field) for one in some])
            for some in (spent["relight statusline"], floor)
        )
        ratio = figure / least
        shown = f"{figure * 1000:.0f} ms, {ratio:.1f} ×"
        limit = f"{STATUS_LIMIT} ×"
        rows.append((f"statusline, {field} time", shown, limit, judge(ratio, STATUS_LIMIT)))
    return rows


def spend(command: Sequence[str], environment: Mapping[str, str]) -> Spent:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        command,
        env={**os.environ, **environment},
        input=json.dumps(GIVEN).encode(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(wall, cpu)


def measure_limits(environment: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    rows = []
    for more in ([], ["--history", "--since", "all"]):
        command = relight("limits", "--no-import", *more)
        best = min(run(command, environment).seconds for _ in range(3))
        rows.append((f"relight limits {' '.join(more)}".strip(), f"{best * 1000:.0f} ms", "", ""))
    return rows


def read_blocks(environment: Mapping[str, str]) -> list[Block]:
    command = relight("limits", "--no-import", "--history", "--since", "all", "--json")
    found = read_json(command, environment)
    return sorted(
        Block(one["started_at"], one["turns"], one["tokens"], one["value_usd"] or 0.0)
        for one in found["windows"]
        if (one["source"], one["kind"]) == ("claude-code", "5h")
    )


def read_peer(program: Path | None, logs: Path) -> list[Block] | None:
    if program is None:
        return None
    environment = {"HOME": str(logs), "TZ": "UTC", "CLAUDE_CONFIG_DIR": str(logs / ".claude")}
    found = read_json([str(program), "blocks", "--json", "--offline"], environment)
    return sorted(
        Block(one["startTime"], one["entries"], one["totalTokens"], one["costUSD"])
        for one in found["blocks"]
        if not one["isGap"]
    )


def read_json(command: Sequence[str], environment: Mapping[str, str]) -> Any:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def compare(own: Sequence[Block], peer: Sequence[Block]) -> list[tuple[str, str, str, str]]:
    """The blocks of both: which begin at the same hour, and whose figures are the same."""
    theirs = {one.started_at: one for one in peer}
    ours = {one.started_at: one for one in own}
    both = [(ours[at], theirs[at]) for at in sorted(ours.keys() & theirs.keys())]
    same_turns = sum(a.turns == b.turns for a, b in both)
    same_tokens = sum(a.tokens == b.tokens for a, b in both)
    same_worth = sum(abs(a.usd - b.usd) <= 0.005 * max(a.usd, b.usd, 0.01) for a, b in both)
    rows = [
        ("blocks of Relight, of ccusage", f"{len(ours)}, {len(theirs)}", "", ""),
        ("  that begin at the same hour", str(len(both)), "", ""),
        ("  with the same turns, tokens", f"{same_turns}, {same_tokens}", "", ""),
        ("  worth the same, within 0.5 %", str(same_worth), "", ""),
    ]
    for name, some in (("Relight", own), ("ccusage", peer)):
        figures = f"{sum(one.turns for one in some):,} turns, {sum(one.tokens for one in some):,} "
        rows.append(
            (f"  all of {name}", f"{figures}tokens, ${sum(one.usd for one in some):,.2f}", "", "")
        )
    for a, b in [pair for pair in both if pair[0][1:3] != pair[1][1:3]][:5]:
        rows.append(
            (
                f"  {a.started_at}",
                f"{a.turns} and {b.turns} turns, {a.tokens:,} and {b.tokens:,} tokens",
                "",
                "",
            )
        )
    for at in sorted(ours.keys() ^ theirs.keys())[:5]:
        whose = "Relight" if at in ours else "ccusage"
        rows.append((f"  {at}", f"of {whose} alone", "", ""))
    return rows
