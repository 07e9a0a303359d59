"""Search: the size of its index, what it adds to an import, and how soon hits are shown."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.labelled import read_sessions
from bench.measure import Measured, best, judge, one_import, print_rows, run, tree
from relight.reports.search import find_hits
from relight.store import Store, open_store
from relight.store.queries.filters import Filter

SIZE_LIMIT, CPU_LIMIT = 0.15, 0.10
# on the machine of the figures an empty Python takes 14 ms, and 100 ms are seven of them
FIRST_LIMIT = 7.0
QUERIES = (
    "error",
    "error retry",
    '"error retry"',
    "src/error/retry.py",
    "naïve",
    "ledg* -retry",
    "path:src/cache.py",
    'tool:bash "token cache"',
    "zebra",
)
Row = tuple[str, str, str, str]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench search")
    parser.add_argument("--mb", type=int, default=1000, help="size of the tree")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the best counts")
    parser.add_argument("--data", type=Path, help="folder of recorded sessions, also measured")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        rows: list[Row] = [("what", "figure", "limit", "")]
        if options.data:
            chats = ("--source", "chat", "--from", str(write_chats(Path(folder), options.data)))
            rows += measure_index(Path(folder), Path(folder), options.runs, "recorded", chats)
        name = f"{options.mb} MB"
        rows += measure_index(Path(folder), tree(options.mb), options.runs, name)
        rows += measure_hits(Path(folder) / "with", options.runs)
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def write_chats(folder: Path, data: Path) -> Path:
    """Write recorded sessions as a chat file."""
    chats = folder / "chats.jsonl"
    with chats.open("w") as out:
        for file in sorted(data.glob("*.jsonl.gz")):
            for number, one in enumerate(read_sessions(file)):
                line = {"id": f"{file.name}/{number}", "messages": one.messages}
                out.write(f"{json.dumps(line)}\n")
    return chats


def measure_index(
    folder: Path, source: Path, runs: int, name: str, chosen: Sequence[str] = ()
) -> list[Row]:
    """The import with and without the index, turn by turn: both see the same noise.

    The limits are those of the generated tree, which is imported if nothing is chosen.
    """
    spent: dict[str, list[float]] = {"with": [], "without": []}
    for _ in range(runs):
        for kind, command in (
            ("without", one_import("--without-search", *chosen)),
            ("with", one_import(*chosen)),
        ):
            home = folder / kind
            shutil.rmtree(home, ignore_errors=True)
            environment = {"HOME": str(source), "RELIGHT_HOME": str(home), "TZ": "UTC"}
            spent[kind].append(run(command, environment).cpu_seconds)
    sizes = {kind: (folder / kind / "relight.db").stat().st_size for kind in spent}
    grown = sizes["with"] / sizes["without"] - 1
    seconds = {kind: min(some) for kind, some in spent.items()}
    slower = seconds["with"] / seconds["without"] - 1
    cpu = f"+{slower:.1%} of {seconds['without']:.2f} s"
    if chosen:
        return [
            (f"{name}: database", f"+{grown:.1%}", "", ""),
            (f"{name}: CPU of import", cpu, "", ""),
        ]
    return [
        (f"{name}: database", f"+{grown:.1%}", f"+{SIZE_LIMIT:.0%}", judge(grown, SIZE_LIMIT)),
        (f"{name}: CPU of import", cpu, f"+{CPU_LIMIT:.0%}", judge(slower, CPU_LIMIT)),
    ]


def measure_hits(home: Path, runs: int) -> list[Row]:
    """The time until the first hit and until a page of hits, against an empty Python."""
    floor = best(runs * 5, lambda: run([sys.executable, "-c", "pass"], {})).seconds
    rows = []
    with open_store(home) as store:
        for query in QUERIES:
            first = best(runs, partial(time_query, store, query, 1)).seconds
            page = best(runs, partial(time_query, store, query, 20)).seconds
            figure = f"{first * 1000:.0f} ms, {first / floor:.1f} × an empty Python"
            verdict = judge(first / floor, FIRST_LIMIT)
            rows.append((f"first hit: {query}", figure, f"{FIRST_LIMIT:.0f} ×", verdict))
            rows.append((f"20 hits: {query}", f"{page * 1000:.0f} ms", "", ""))
    return rows


def time_query(store: Store, query: str, limit: int) -> Measured:
    began = time.perf_counter()
    find_hits(store, query, Filter(), limit=limit)
    return Measured(time.perf_counter() - began, 0)
