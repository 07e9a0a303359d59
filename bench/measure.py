"""Time and memory of whole commands, and tables of what came out."""

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".tools" / "bench"


class Measured(NamedTuple):
    seconds: float
    peak_bytes: int
    cpu_seconds: float = 0.0


def run(
    command: Sequence[str | Path], environment: Mapping[str, str], *, with_memory: bool = False
) -> Measured:
    """Run a command to its end; memory and CPU time are summed over all of its processes."""
    before, started = os.times(), time.perf_counter()
    child = subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, sum(map(memory_of, tree_of(child.pid))))

    watcher = threading.Thread(target=watch)
    if with_memory:
        watcher.start()
    _, errors = child.communicate()
    spent = time.perf_counter() - started
    done.set()
    if with_memory:
        watcher.join()
    if child.returncode:
        raise RuntimeError(f"{command[0]} failed: {errors.decode()[-500:]}")
    after = os.times()
    cpu = after.children_user + after.children_system
    return Measured(spent, peak, cpu - before.children_user - before.children_system)


def best(times: int, action: Callable[[], Measured]) -> Measured:
    """The quickest of several runs, with the least CPU time and the largest memory seen."""
    runs = [action() for _ in range(times)]
    return Measured(
        min(one.seconds for one in runs),
        max(one.peak_bytes for one in runs),
        min(one.cpu_seconds for one in runs),
    )


def tree_of(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(found for child in children for found in tree_of(int(child)))]


def memory_of(pid: int) -> int:
    """Resident bytes of a process; pages it shares with others are counted in each."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def compile_sources() -> None:
    """As an installed Relight has it, whatever the environment says of writing bytecode."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "src")], check=True)


def relight(*words: str) -> list[str]:
    return [str(Path(sys.executable).parent / "relight"), *words]


def one_import(*words: str) -> list[str]:
    """An import with the options of `bench.one_import`."""
    return [sys.executable, "-m", "bench.one_import", *words]


def tree(megabytes: int, *, seed: int = 1) -> Path:
    """A generated tree of logs, made once and kept as long as its generator is the same."""
    sources = sorted(Path(__file__).parent.glob("*tree*.py"))
    made_by = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:8]
    folder = CACHE / f"tree-{megabytes}-{seed}-{made_by}"
    if not (folder / "truth.json").exists():
        print(f"generating {megabytes} MB of logs …", file=sys.stderr)
        size = ["--mb", str(megabytes), "--seed", str(seed)]
        generate_logs("generate", "--out", str(folder), *size)
    return folder


def generate_logs(*words: str) -> None:
    """Run the generator in a separate process: a child's peak memory includes its parent's."""
    command = [sys.executable, "-m", "bench.gen_sessions", *words]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def print_rows(rows: Sequence[tuple[str, str, str, str]]) -> None:
    """What was measured, the figure, the limit, and whether it is within it."""
    widths = [max(len(row[number]) for row in rows) for number in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def judge(figure: float, limit: float) -> str:
    return "ok" if figure <= limit else "MISSED"
