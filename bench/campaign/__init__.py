"""Kills, growing files, hostile input, secrets and strangers: what is lost, hung or leaked.

Each part is bounded by `--seconds` and random by `--seed`, which is printed: the same seed tries
the same inputs. Kills meet a program where the clock has it, so their moments differ.
"""

import argparse
import random
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from bench.campaign.score import Clock, Score, format_table

PARTS = {
    "kills": "imports, recorders, schedulers and migrations that are killed",
    "growth": "session files that are read while they are written",
    "fuzz": "mutated records, settings, schedules, texts and requests",
    "secrets": "planted secrets, and what of them reaches the disk",
    "web": "half requests, slow clients, foreign names and hostile text",
    "tools": "commands and pages that an agent's tools meet",
}
SHOWN_PROBLEMS = 12


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench campaign")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each part")
    parser.add_argument("--seed", type=int, help="a number that the inputs depend on")
    options = parser.parse_args(words)
    # commands that a shell started in the background ignore it, and would pass that on
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    scores = []
    for name in options.parts or PARTS:
        print(f"  {name}: {PARTS[name]} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            scores.append(run_part(name, Path(folder), seed=seed, seconds=options.seconds))
    return show(scores)


def run_part(name: str, folder: Path, *, seed: int, seconds: float) -> Score:
    """Return the score of one part, whose files are in `folder`."""
    dice = random.Random(f"{name} {seed}")
    score: Score = import_module(f"bench.campaign.{name}").run(folder, dice, Clock(seconds))
    return score


def show(scores: list[Score]) -> int:
    """Print what was found and the table; return 1 if anything was lost, twice, hung or leaked."""
    for score in scores:
        for line in score.notes:
            print(f"{score.part}: {line}")
    for score in scores:
        for line in score.problems[:SHOWN_PROBLEMS]:
            print(f"{score.part}: {line}")
        if len(score.problems) > SHOWN_PROBLEMS:
            print(f"{score.part}: … and {len(score.problems) - SHOWN_PROBLEMS} more")
    print("\n".join(["", *format_table(scores)]))
    return int(not all(score.is_clean for score in scores))
