"""Machines that push to a server: speed against a floor, kills, and many machines."""

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.campaign.score import Score
from bench.measure import judge, print_rows
from bench.team import jobs, kills, pages, speed, trouble
from bench.team.engines import open_engine
from bench.team.rows import compare_engines

Rows = list[tuple[str, str, str, str]]
PARTS = ("speed", "rows", "machines", "kills", "jobs", "trouble")
# filling the tables takes some minutes and 10 GB
NAMED_ONLY = ("pages",)
# links, sessions and other names that differ in their values only
MOST = 3


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench team")
    parser.add_argument(
        "parts",
        nargs="*",
        choices=[*PARTS, *NAMED_ONLY, []],
        help=f"all by default but {', '.join(NAMED_ONLY)}, which runs only if named",
    )
    parser.add_argument("--engine", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--mb", type=float, default=24.0, help="of records on each machine")
    parser.add_argument("--turns", type=int, default=10_000_000, help="that pages are read of")
    parser.add_argument("--only", help="of pages: only addresses with this in them")
    parser.add_argument("--asked", type=int, default=20, help="how often for each page")
    parser.add_argument("--tree-mb", type=float, default=100.0, help="that both engines import")
    parser.add_argument("--machines", type=int, default=16)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--job-kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(words)
    parts = chosen.parts or PARTS
    dice = random.Random(chosen.seed)
    rows: Rows = [("what", "figure", "limit", "")]
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name, open_engine(chosen.engine) as engine:
        folder = Path(name)
        rows.append(("engine", engine.name, "", ""))
        if "speed" in parts:
            own = folder / "speed"
            rows += speed.measure(own, engine, clients=chosen.clients, megabytes=chosen.mb)
        if "rows" in parts and engine.can_die:
            score = Score("rows", "lost", "twice", "differ")
            compare_engines(score, folder / "rows", engine, megabytes=chosen.tree_mb, most=MOST)
            rows += describe("rows and readings, and those of SQLite", score, problems)
            rows += [("…", note, "", "") for note in score.notes]
        if "machines" in parts:
            score = Score("machines", "lost", "twice")
            kills.compare_machines(score, folder / "machines", chosen.machines, dice, engine)
            rows += describe(f"{chosen.machines} machines, and all of it on one", score, problems)
        if "kills" in parts:
            score = Score("kills", "lost", "twice", "hung")
            kills.kill_pushes(score, folder / "kills", dice, engine, kills=chosen.kills)
            rows += describe(f"{score.counts['tried']} kills in mid-push", score, problems)
            rows += [("… signals", note, "", "") for note in score.notes]
        if "jobs" in parts:
            score = Score("jobs", "lost", "twice", "hung")
            jobs.share_slots(
                score,
                folder / "jobs",
                dice,
                engine,
                slots=chosen.slots,
                workers=chosen.workers,
                kills=chosen.job_kills,
            )
            what = f"{chosen.slots} slots, {chosen.workers} workers on two hosts"
            rows += describe(what, score, problems)
            rows += [("…", note, "", "") for note in score.notes]
        if "trouble" in parts:
            score = Score("trouble", "lost", "twice", "silent")
            trouble.meet_trouble(score, folder / "trouble", engine, seed=dice.randrange(10**6))
            rows += describe(f"{score.counts['tried']} kinds of trouble", score, problems)
            rows += [("…", note, "", "") for note in score.notes]
        if "pages" in parts and engine.can_die:
            rows += pages.measure(turns=chosen.turns, only=chosen.only, asked=chosen.asked)
    print_rows(rows)
    for problem in problems:
        print(problem)
    return int(any(row[3] == "MISSED" for row in rows))


def describe(what: str, score: Score, problems: list[str]) -> Rows:
    """The rows of a part's score; its problems are printed below the table."""
    problems += score.problems
    counts: Sequence[tuple[str, int]] = [
        (column, count) for column, count in score.counts.items() if column != "tried"
    ]
    return [(f"{what}: {name}", str(count), "0", judge(count, 0)) for name, count in counts]
