"""Averages over a million uses of skills, against the plainest sum over the same rows."""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.measure import judge, print_rows
from relight.reports.skills.averages import query_skill_ema
from relight.store import Store, open_store

NOW = "2026-11-15T12:00:00Z"
FIRST = 1_793_577_600_000  # 2026-11-02
DAYS, SKILLS, MODELS = 14, 200, 5
LIMIT = 2.0
WRITE = """
    insert into skill_invocations (skill_name, model, provider, invoked_at, day, success,
        cost_nanos, duration_seconds, cost_status, share, is_told, turns, partial_turns,
        unpriced_turns, included_nanos, tool_calls, tool_failures)
    values (?, ?, ?, ?, ?, ?, ?, ?, 'estimated', 1.0, 1, 1, 0, 0, 0, 0, 0)
"""
PLAIN = "select skill_name, model, count(*), {cost} from skill_invocations {where}"
PLAIN += " group by skill_name, model"
# the plain sum whichever way SQLite does it fastest
PLAINS = [
    PLAIN.format(cost="sum(cost_usd)", where="where day between '2026-11-02' and '2026-11-15'"),
    PLAIN.format(cost="sum(cost_usd)", where="not indexed"),
    PLAIN.format(
        cost="sum(cost_nanos) / 1e9", where="where day between '2026-11-02' and '2026-11-15'"
    ),
]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench skills")
    parser.add_argument("--uses", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5, help="runs of each; the best counts")
    options = parser.parse_known_args(words)[0]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "config.toml").write_text('timezone = "UTC"\n')
        with open_store(home) as store:
            with store.transaction() as database:
                database.executemany(WRITE, make_uses(options.uses))
            plain = min(time_best(options.runs, partial(store.query, one)) for one in PLAINS)
            ours = time_best(options.runs, lambda: query_skill_ema(store, now=NOW))
            check(store, options.uses)
    ratio = ours / plain
    print_rows(
        [
            ("what", "figure", "limit", ""),
            (f"count and sum by skill and model, {options.uses:,} uses", f"{plain:.3f} s", "", ""),
            ("query_skill_ema, 14 days", f"{ours:.3f} s", "", ""),
            ("averages / plain sum", f"{ratio:.2f} ×", f"{LIMIT:.0f} ×", judge(ratio, LIMIT)),
        ]
    )
    return int(ratio > LIMIT)


def make_uses(number: int) -> Iterator[tuple[Any, ...]]:
    dice = random.Random(4)
    for place in range(number):
        day = place * DAYS // number
        yield (
            f"skill-{dice.randrange(SKILLS)}",
            f"model-{dice.randrange(MODELS)}",
            dice.choice(("cloud", "cloud", "home")),
            FIRST + day * 86_400_000 + place % 86_400_000,
            f"2026-11-{day + 2:02}",
            dice.choice((1, 1, 1, 0, None)),
            dice.choice((None, dice.randrange(10**9))),
            dice.random() * 100,
        )


def time_best(runs: int, ask: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        ask()
        best = min(best, time.perf_counter() - started)
    return best


def check(store: Store, uses: int) -> None:
    rows = query_skill_ema(store, now=NOW)
    assert len(rows) == SKILLS * MODELS
    assert sum(row.sample_count for row in rows) == uses
