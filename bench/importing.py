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
from bench.measure import (
    Measured,
    best,
    generate_logs,
    judge,
    one_import,
    print_rows,
    relight,
    run,
    tree,
)
from relight.intake.workers import count_cores
from relight.names import find_model_name
from relight.text import plural

# by the size of the tree in MB: times of agentsview for a cold import without search (`bench
# search` has its cost), and times of ccusage for one file that grew
COLD_LIMITS = {10: 0.5, 100: 0.32, 1000: 0.19}
GROWN_LIMITS = {100: 1.2, 1000: 0.25}
# CPU seconds for each GB, without search; the start of a small import outweighs the rest
CPU_LIMIT, MAIN_CPU_LIMIT = 23.0, 4.2
MEMORY_BYTES, WORKER_BYTES = 110e6, 40e6
SIZE_LIMIT = 0.35
# 60 ms where an empty Python takes 12
LOOK_LIMIT = 5
Row = tuple[str, str, str, str]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench import")
    parser.add_argument("--mb", type=int, nargs="+", default=[10, 100, 1000], help="sizes of trees")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the best counts")
    options = parser.parse_args(words)
    rows: list[Row] = [("what", "figure", "limit", "")]
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in options.mb:
            rows += measure_tree(Path(folder), megabytes, options.runs)
            rows += measure_workers(Path(folder), megabytes, options.runs)
        rows += compare_reports(Path(folder), options.mb, options.runs)
        rows += measure_look(Path(folder), max(options.mb), options.runs)
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def measure_tree(folder: Path, megabytes: int, runs: int) -> list[Row]:
    source = tree(megabytes)
    home = folder / f"home-{megabytes}"
    environment = {"HOME": str(source), "RELIGHT_HOME": str(home), "TZ": "UTC"}

    def import_cold(words: list[str]) -> Measured:
        shutil.rmtree(home, ignore_errors=True)
        return run(words, environment)

    sync = find_sync(folder, source)
    # turn by turn, so that all see the same noise; of a minute once is enough
    others = runs if megabytes <= 100 else 1
    ours, plain, theirs = [], [], []
    for at in range(runs):
        plain.append(import_cold(one_import("--without-search")).seconds)
        ours.append(import_cold(relight("import")).seconds)
        if sync and at < others:
            theirs.append(sync().seconds)
    shutil.rmtree(home)
    memory = run(relight("import"), environment, with_memory=True).peak_bytes
    memory_limit = MEMORY_BYTES + WORKER_BYTES * count_cores()
    database_bytes = sum(path.stat().st_size for path in home.glob("relight.db*"))
    size = database_bytes / count_bytes(source)
    name = f"{megabytes} MB"
    rows = [
        (f"{name}: cold import, without search", f"{min(plain):.2f} s", "", ""),
        (f"{name}: cold import", f"{min(ours):.2f} s", "", ""),
        (
            f"{name}: peak memory, all processes",
            f"{memory / 1e6:.0f} MB",
            f"{memory_limit / 1e6:.0f} MB",
            judge(memory, memory_limit),
        ),
        (f"{name}: database / logs", f"{size:.1%}", f"{SIZE_LIMIT:.0%}", judge(size, SIZE_LIMIT)),
        (f"{name}: report equals the truth", *check_truth(source, environment)),
    ]
    if not theirs:
        rows.append((f"{name}: cold / agentsview sync", "no agentsview to be had", "", "skipped"))
        return rows + compare_ccusage(source, environment, megabytes, runs)
    limit = COLD_LIMITS.get(megabytes)
    for what, seconds, least in (
        ("cold without search / agentsview sync", min(plain), limit),
        ("cold / agentsview sync", min(ours), None),
    ):
        ratio = seconds / min(theirs)
        figure = f"{ratio:.2f} × {min(theirs):.2f} s"
        rows.append((f"{name}: {what}", figure, *limit_ratio(ratio, least)))
    return rows + compare_ccusage(source, environment, megabytes, runs)


def measure_workers(folder: Path, megabytes: int, runs: int) -> list[Row]:
    """CPU seconds of all processes and of the one that writes, by the number of workers."""
    source = tree(megabytes)
    home, cpu = folder / "workers", folder / "cpu"
    environment = {"HOME": str(source), "RELIGHT_HOME": str(home), "TZ": "UTC"}
    rows: list[Row] = []
    for count in (1, 2):
        found = []
        for _ in range(runs):
            words = one_import("--without-search", f"--workers={count}", f"--cpu={cpu}")
            found.append((run(words, environment), float(cpu.read_text())))
            shutil.rmtree(home)
        size = count_bytes(source) / 1e9
        every = min(one.cpu_seconds for one, _ in found) / size
        main = min(seconds for _, seconds in found) / size
        is_judged = megabytes >= 1000 and count > 1
        label = f"{megabytes} MB, {plural(count, 'worker')}"
        figure = f"{every:.1f} s/GB in {min(one.seconds for one, _ in found):.2f} s"
        limits = (CPU_LIMIT, MAIN_CPU_LIMIT) if is_judged else (None, None)
        rows.append((f"{label}: CPU of all processes", figure, *limit_figure(every, limits[0])))
        figure = f"{main:.1f} s/GB"
        rows.append((f"{label}: CPU of the main process", figure, *limit_figure(main, limits[1])))
    return rows


def count_bytes(source: Path) -> int:
    return sum(path.stat().st_size for path in source.rglob("*.jsonl"))


def limit_ratio(ratio: float, limit: float | None) -> tuple[str, str]:
    return ("", "") if limit is None else (f"{limit} ×", judge(ratio, limit))


def limit_figure(figure: float, limit: float | None) -> tuple[str, str]:
    return ("", "") if limit is None else (f"{limit} s/GB", judge(figure, limit))


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


def compare_ccusage(
    source: Path, environment: dict[str, str], megabytes: int, runs: int
) -> list[Row]:
    """A report after one file grew, and with nothing new, against a whole scan."""
    program, name = peers.find_ccusage(), f"{megabytes} MB"
    if program is None:
        return [(f"{name}: grown / ccusage daily", "no ccusage to be had", "", "skipped")]
    theirs = best(runs, lambda: run([program, "daily", "--json", "--offline"], environment))

    def report() -> Measured:
        # a report imports what is new before it answers: one command, as the other's
        return run(relight("report", "--since", "all", "--json"), environment)

    def report_grown() -> Measured:
        generate_logs("append", "--out", str(source))
        return report()

    rows = []
    for label, action, limit in (
        ("one file grew", report_grown, GROWN_LIMITS.get(megabytes)),
        ("nothing new", report, 0.2 if megabytes >= 1000 else None),
    ):
        ours = best(runs, action)
        ratio = ours.seconds / theirs.seconds
        figure = f"{ours.seconds:.2f} s, {ratio:.2f} × {theirs.seconds:.2f} s"
        what = f"{name}: report with its import, {label} / ccusage"
        rows.append((what, figure, *limit_ratio(ratio, limit)))
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

    words = relight("report", "--by", "day,model", "--since", "all", "--json", "--no-import")
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
