"""Jobs whose work is a line in a file, and schedulers as separate processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relight.config import Config
from relight.store import Store
from relight.work.jobs.job import JobDefinition, JobResult, JobRun
from relight.work.jobs.registry import add_jobs
from relight.work.jobs.run import execute_run

RAN = "ran.txt"
DONE = JobResult(status="completed", outcome="success", evidence=["it was done"])
CODE = """
import sys
from relight.work.jobs.scheduler import Scheduler
from relight.store import open_store
home, execute, most, once = sys.argv[1:]
with open_store(home) as store:
    Scheduler(store, max_parallel=int(most), execute=execute).run(once=once == "once")
"""


def make_job(name: str, **fields: Any) -> JobDefinition:
    defaults = {"schedule": "daily 07:00", "prompt": "Do it.", "model": "m", "timezone": "UTC"}
    return JobDefinition(name=name, **{**defaults, **fields})


def add_due(store: Store, count: int, **fields: Any) -> list[str]:
    """Jobs that are due now, and then not for a day."""
    names = [f"job-{number}" for number in range(count)]
    now = int(time.time() * 1000)
    jobs = [make_job(name, **{"schedule": "every 1d", **fields}) for name in names]
    add_jobs(store, jobs, now=now - 86_400_000)
    return names


def append(home: Path, line: str) -> None:
    """Add a line to the file that all runs share; a short write is whole or not at all."""
    file = os.open(home / RAN, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def read_ran(home: Path) -> list[str]:
    path = home / RAN
    return path.read_text().splitlines() if path.exists() else []


def note(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    append(config.home, job.name)
    return DONE


def note_slowly(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    append(config.home, job.name)
    time.sleep(0.05)
    return DONE


def look(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    """What others see of a run while it is being done."""
    words = [
        sys.executable,
        "-m",
        "relight",
        "job",
        "history",
        "--json",
        "--home",
        str(config.home),
    ]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (config.home / "seen.json").write_text(told)
    return DONE


def die(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    append(config.home, job.name)
    if job.prompt == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return DONE


def linger(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    """A run that ends only on a signal, and then reports it."""
    append(config.home, "begin")
    try:
        deadline = time.monotonic() + 60
        while not (config.home / "go.txt").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    except SystemExit:
        append(config.home, "put away")
        raise
    append(config.home, "end")
    return DONE


def put_away_slowly(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    """A run that ends slowly after a signal."""
    append(config.home, "begin")
    try:
        while not (config.home / "go.txt").exists():
            time.sleep(0.02)
    except SystemExit:
        time.sleep(1.5)
        append(config.home, "put away")
        raise
    return DONE


def work(
    store: Store, job: JobDefinition, run: JobRun, *, config: Config, clock: Callable[[], float]
) -> JobResult:
    """The real thing, with agents that keep their files in this home."""
    own = {"PATH": os.environ["PATH"], "HOME": str(config.home)}
    return execute_run(store, job, run, config=config, clock=clock, environment=own)


def start_scheduler(
    home: Path, execute: str, *, max_parallel: int = 4, once: bool = False
) -> subprocess.Popen[bytes]:
    words = [str(home), f"build_jobs:{execute}", str(max_parallel), "once" if once else "on"]
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *words], env={**os.environ, "PYTHONPATH": paths}
    )
