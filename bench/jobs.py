"""Jobs: a thousand due at once among schedulers that get killed, and ten thousand that wait."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.measure import ROOT, judge, memory_of, print_rows, relight, tree_of
from relight.config import Config
from relight.store import Store, open_store
from relight.store.queries.runs import read_runs
from relight.work.jobs.job import JobDefinition, JobResult, JobRun
from relight.work.jobs.registry import add_job, add_jobs

DAY_MS = 86_400_000
NOOP = """
import sys
from relight.work.jobs.scheduler import Scheduler
from relight.store import open_store
with open_store(sys.argv[1]) as store:
    Scheduler(store, max_parallel=4, execute="bench.jobs:do_nothing").run()
"""


def do_nothing(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    """A run that only leaves a line behind, so that what was done twice would show."""
    file = os.open(config.home / "ran.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{job.name}\n".encode())
    os.close(file)
    return JobResult(status="completed", outcome="success", evidence=["nothing was to be done"])


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench jobs")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="how long an idle one is watched"
    )
    options = parser.parse_args(words)
    rows = [("what", "figure", "limit", "")]
    with tempfile.TemporaryDirectory() as folder:
        rows += run_due(Path(folder) / "due", options.jobs)
        rows += watch_idle(Path(folder) / "idle", options.waiting, options.seconds)
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def run_due(home: Path, count: int) -> list[tuple[str, str, str, str]]:
    """All due at once, three schedulers, one of them killed and restarted every second."""
    now = int(time.time() * 1000)
    with open_store(home) as store:
        jobs = [_make_job(f"job-{number}", "every 1d") for number in range(count)]
        add_jobs(store, jobs, now=now - DAY_MS)
        steady = [_start(home), _start(home)]
        victim, kills = _start(home), 0
        killed_at = time.monotonic()
        while _count_ended(store) < count:
            time.sleep(0.02)
            if time.monotonic() - killed_at >= 1:
                victim.kill()
                victim.wait()
                victim, killed_at, kills = _start(home), time.monotonic(), kills + 1
        for scheduler in (*steady, victim):
            scheduler.send_signal(signal.SIGTERM)
        victim.wait()
        failed = sum(bool(scheduler.wait()) for scheduler in steady)
        runs = read_runs(store)
        begun = [at for (at,) in store.query("select started_at from run order by 1")]
    ran = (home / "ran.txt").read_text().splitlines()
    spent = (begun[-1] - begun[0]) / 1000
    unknown = [run.job for run in runs if run.outcome == "unknown"]
    silent = {run.job for run in runs} - {*ran, *unknown}
    twice = len(ran) - len(set(ran)) + len(runs) - len({run.job for run in runs})
    per_second = count / spent
    return [
        (
            f"{count} jobs due at once, runs begun",
            f"{per_second:.0f} a second",
            "50",
            judge(-per_second, -50),
        ),
        ("… kills of one scheduler meanwhile", str(kills), "", ""),
        ("… run twice", str(twice), "0", judge(twice, 0)),
        (
            "… without a run in the history",
            str(count - len(runs)),
            "0",
            judge(count - len(runs), 0),
        ),
        ("… told as done and not done", str(len(silent)), "0", judge(len(silent), 0)),
        ("… cut short by a kill, told as unknown", str(len(unknown)), "", ""),
        ("… schedulers that ended badly", str(failed), "0", judge(failed, 0)),
    ]


def watch_idle(home: Path, count: int, seconds: float) -> list[tuple[str, str, str, str]]:
    """What a scheduler with nothing to do takes, and how late it then is."""
    now = int(time.time() * 1000)
    with open_store(home) as store:
        jobs = [_make_job(f"job-{number}", "every 1d") for number in range(count)]
        add_jobs(store, jobs, now=now - DAY_MS // 2)
        with _running(relight("scheduler", "--home", str(home))) as scheduler:
            time.sleep(3)
            before, started = _cpu_seconds(scheduler.pid), time.monotonic()
            time.sleep(seconds)
            share = (_cpu_seconds(scheduler.pid) - before) / (time.monotonic() - started)
            memory = sum(map(memory_of, tree_of(scheduler.pid)))
            own = _make_job("soon", "every 5s", runner="command", command=["true"])
            add_job(store, own, now=int(time.time() * 1000))
            while len(runs := read_runs(store, "soon")) < 4 or runs[0].status == "running":
                time.sleep(0.05)
            rows = store.query(
                "select started_at - scheduled_for from run where started_at is not null"
            )
    late = max(found for (found,) in rows) / 1000
    return [
        (f"idle with {count} jobs", f"{share:.2%} of a core", "1%", judge(share, 0.01)),
        ("… memory, all its processes", f"{memory / 1e6:.0f} MB", "60 MB", judge(memory, 60e6)),
        ("… a due job begins after its slot", f"{late * 1000:.0f} ms", "1000 ms", judge(late, 1)),
    ]


def _make_job(name: str, schedule: str, **fields: Any) -> JobDefinition:
    return JobDefinition(
        name=name, schedule=schedule, prompt="Do nothing.", **{"model": "none", **fields}
    )


def _start(home: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", NOOP, str(home)], env=environment)


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _count_ended(store: Store) -> int:
    rows = store.query("select count(*) from run where status not in ('claimed', 'running')")
    return int(rows[0][0])


def _cpu_seconds(pid: int) -> float:
    """What a process and those it started have spent of a core so far."""
    ticks = 0
    for one in tree_of(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
