"""How long commands take to start, as multiples of an empty Python in the same run."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import ROOT, judge, print_rows, relight, run, tree

INSTALL_LIMIT = 45e6


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench startup")
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"HOME": str(tree(10)), "RELIGHT_HOME": f"{folder}/home", "TZ": "UTC"}
        run(relight("import"), environment)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "relight --help": relight("--help"),
            "relight report --no-import": relight("report", "--since", "2026-10-01", "--no-import"),
            "relight report, nothing new": relight("report", "--since", "2026-10-01"),
            "relight report --json": relight("report", "--since", "2026-10-01", "--json"),
            "relight import, nothing new": relight("import"),
        }
        spent: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, command in commands.items():
                spent[name].append(run(command, environment).seconds)
        install = install_bytes(Path(folder))
    floor = median(spent["python -c pass"])
    limits = {
        "relight --help": 6,
        "relight report --no-import": 6,
        "relight report, nothing new": 12,
    }
    rows = [("what", "figure", "limit", "")]
    for name, times in spent.items():
        ratio = median(times) / floor
        limit = limits.get(name)
        verdict = judge(ratio, limit) if limit else ""
        shown = f"{limit} ×" if limit else ""
        rows.append((name, f"{median(times) * 1000:.0f} ms, {ratio:.1f} ×", shown, verdict))
    verdict = judge(install, INSTALL_LIMIT)
    rows.append(("core install, no bytecode", f"{install / 1e6:.1f} MB", "45 MB", verdict))
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def install_bytes(folder: Path) -> int:
    """What installing Relight with its dependencies takes on disk."""
    target = folder / "install"
    uv = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(target)]
    subprocess.run([*command, str(ROOT)], check=True)
    return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
