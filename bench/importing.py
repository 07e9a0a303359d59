"""Import and report of generated trees, against agentsview and ccusage in the same run."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import peers
from bench.measure import Measured, best, generate_logs, judge, print_rows, relight, run, tree
from relight.names import find_model_name

MEMORY_LIMIT = 200e6
SIZE_LIMIT = 0.35
# 60 ms where an empty Python takes 12
LOOK_LIMIT = 5
Row = tuple[str, str, str, str]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench import")
    parser.add_argument("--mb", type=int, nargs="+", default=[100, 1000], help="sizes of trees")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the best counts")
    options = parser.parse_args(words)
    rows: list[Row] = [("what", "figure", "limit", "")]
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in options.mb:
            limit = 0.4 if megabytes <= 100 else 0.25
            rows += measure_tree(Path(folder), megabytes, limit, options.runs)
        rows += compare_reports(Path(folder), options.mb, options.runs)
        rows += measure_look(Path(folder), max(options.mb), options.runs)
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def measure_tree(folder: Path, megabytes: int, limit: float, runs: int) -> list[Row]:
    source = tree(megabytes)
    home = folder / f"home-{megabytes}"
    environment = {"HOME": str(source), "RELIGHT_HOME": str(home), "TZ": "UTC"}

    def import_cold() -> Measured:
        shutil.rmtree(home, ignore_errors=True)
        return run(relight("import"), environment)

    sync = find_sync(folder, source)
    # turn by turn, so that both see the same noise; of a minute once is enough
    others = runs if megabytes <= 100 else 1
    pairs = [(import_cold(), sync() if sync and at < others else None) for at in range(runs)]
    ours = min(pair[0].seconds for pair in pairs)
    shutil.rmtree(home)
    memory = run(relight("import"), environment, with_memory=True).peak_bytes
    log_bytes = sum(path.stat().st_size for path in source.rglob("*.jsonl"))
    database_bytes = sum(path.stat().st_size for path in home.glob("relight.db*"))
    name = f"{megabytes} MB"
    rows = [
        (f"{name}: cold import", f"{ours:.2f} s", "", ""),
        (
            f"{name}: peak memory, all processes",
            f"{memory / 1e6:.0f} MB",
            f"{MEMORY_LIMIT / 1e6:.0f} MB",
            judge(memory, MEMORY_LIMIT),
        ),
        (
            f"{name}: database / logs",
            f"{database_bytes / log_bytes:.1%}",
            f"{SIZE_LIMIT:.0%}",
            judge(database_bytes / log_bytes, SIZE_LIMIT),
        ),
        (f"{name}: report equals the truth", *check_truth(source, environment)),
    ]
    theirs = min((other.seconds for _, other in pairs if other), default=None)
    if theirs is None:
        rows.append((f"{name}: cold / agentsview sync", "no agentsview to be had", "", "skipped"))
    else:
        figure = f"{ours / theirs:.2f} × {theirs:.1f} s"
        verdict = judge(ours / theirs, limit)
        rows.append((f"{name}: cold / agentsview sync", figure, f"{limit} ×", verdict))
    return rows + compare_ccusage(source, environment, name, runs)


def find_sync(folder: Path, source: Path) -> Callable[[], Measured] | None:
    """What reads the same logs with agentsview into an empty database, if it can be had."""
    program = peers.find_agentsview()
    if program is None:
        return None
    data = folder / "agentsview"
    environment = {
        "HOME": str(source),
        "AGENTSVIEW_DATA_DIR": str(data),
        "AGENTSVIEW_NO_DAEMON": "1",
    }

    def sync() -> Measured:
        shutil.rmtree(data, ignore_errors=True)
        return run([program, "sync"], environment)

    return sync


def compare_ccusage(source: Path, environment: dict[str, str], name: str, runs: int) -> list[Row]:
    """Import and report after one file grew, and with nothing new, against a whole scan."""
    program = peers.find_ccusage()
    if program is None:
        return [(f"{name}: grown / ccusage daily", "no ccusage to be had", "", "skipped")]
    theirs = best(runs, lambda: run([program, "daily", "--json", "--offline"], environment))

    def import_and_report() -> Measured:
        one = run(relight("import", "--json"), environment)
        two = run(relight("report", "--json"), environment)
        return Measured(one.seconds + two.seconds, 0)

    def import_grown() -> Measured:
        generate_logs("append", "--out", str(source))
        return import_and_report()

    rows = []
    for label, action, limit in (
        ("one file grew", import_grown, 0.3),
        ("nothing new", import_and_report, 0.2),
    ):
        ours = best(runs, action)
        ratio = ours.seconds / theirs.seconds
        figure = f"{ours.seconds:.2f} s, {ratio:.2f} × {theirs.seconds:.2f} s"
        is_large = name.startswith("1000")
        verdict = judge(ratio, limit) if is_large else ""
        text = f"{limit} ×" if is_large else ""
        rows.append((f"{name}: import + report, {label} / ccusage", figure, text, verdict))
    rows.append((f"{name}: report still equals the truth", *check_truth(source, environment)))
    return rows


def compare_reports(folder: Path, sizes: list[int], runs: int) -> list[Row]:
    """A report by day costs the same from a large store as from a small one."""
    small = tree(10)
    environment = {"HOME": str(small), "RELIGHT_HOME": str(folder / "home-10"), "TZ": "UTC"}
    run(relight("import"), environment)
    large = {**environment, "RELIGHT_HOME": str(folder / f"home-{max(sizes)}")}
    words = relight("report", "--by", "day", "--since", "all")
    # turn by turn, so that both see the same noise
    pairs = [(run(words, environment).seconds, run(words, large).seconds) for _ in range(runs * 7)]
    ratio = min(pair[1] for pair in pairs) / min(pair[0] for pair in pairs)
    figure = f"{ratio:.2f} ×"
    return [(f"report by day, {max(sizes)} MB / 10 MB store", figure, "1.2 ×", judge(ratio, 1.2))]


def measure_look(folder: Path, megabytes: int, runs: int) -> list[Row]:
    """What the look for news adds to a command that reads, against an empty Python."""
    environment = {
        "HOME": str(tree(megabytes)),
        "RELIGHT_HOME": str(folder / f"home-{megabytes}"),
        "TZ": "UTC",
    }
    report = relight("report", "--json")
    commands = [report, [*report, "--no-import"], [sys.executable, "-c", "pass"]]
    # turn by turn, so that all see the same noise
    times = [[run(one, environment).seconds for one in commands] for _ in range(runs * 7)]
    fresh, stale, empty = (min(column) for column in zip(*times, strict=True))
    figure = f"{(fresh - stale) * 1000:.0f} ms, {(fresh - stale) / empty:.1f} ×"
    verdict = judge((fresh - stale) / empty, LOOK_LIMIT)
    return [(f"{megabytes} MB: look for news / empty Python", figure, f"{LOOK_LIMIT} ×", verdict)]


def check_truth(source: Path, environment: dict[str, str]) -> tuple[str, str, str]:
    """How many days and models the report has right to the token, the limit, and the verdict."""
    import os

    words = relight("report", "--by", "day,model", "--since", "all", "--json")
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, check=True)
    found = {(row["day"], row["model"]): row for row in json.loads(done.stdout)["rows"]}
    truth = json.loads((source / "truth.json").read_text())
    right = wanted = 0
    for kind in ("claude", "codex"):
        for day, models in truth[kind]["days"].items():
            for model, used in models.items():
                row = found.pop((day, find_model_name(model)), {})
                wanted += 1
                cached = used["cache_read"] if kind == "claude" else used["cached_input"]
                fresh = used["input"] if kind == "claude" else used["input_total"] - cached
                right += (
                    row.get("turns") == used["requests"]
                    and row.get("output_tokens") == used["output"]
                    and row.get("cache_read_tokens") == cached
                    and row.get("input_tokens") == fresh
                )
    # a call that was cut off after midnight has a row, and no tokens
    extra = sum(1 for row in found.values() if row["turns"] or row["total_tokens"])
    figure = f"{right} of {wanted} rows" + (f", {extra} too many" if extra else "")
    return figure, "exact", "MISSED" if extra or right < wanted else "ok"
