"""Slots of the server's jobs, claimed by schedulers on two hosts that are killed again and again.

One host's clock is an hour ahead. Each slot has one result, and none was begun twice. Only
processes that this module started are signalled.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from bench.campaign.score import Score
from bench.campaign.stores import Process, make_home
from bench.measure import ROOT, tree_of
from bench.team.engines import Engine
from bench.team.homes import TeamServer
from relight.store import Store, open_store
from relight.work.jobs.job import JobDefinition
from relight.work.jobs.registry import add_jobs

DAY_MS = 86_400_000
LEASE_MS = 3_000
HOSTS = {"right": 0, "ahead": 3600}
# writes its line before the result: what was begun twice would show
SCHEDULER = """
import sys, time
import relight.work.jobs.remote as remote
remote.POLL_MS, remote.TROUBLE_MS, remote.HEARTBEAT_MS = 50, 200, 500
from relight.work.jobs.scheduler import Scheduler
from relight.store import open_store
home, size, ahead = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
with open_store(home) as store:
    store.config.jobs.for_team = True
    clock = lambda: time.time() + ahead
    Scheduler(store, max_parallel=size, execute="bench.jobs:do_nothing", clock=clock).run()
"""


def share_slots(
    score: Score,
    folder: Path,
    dice: random.Random,
    engine: Engine,
    *,
    slots: int,
    workers: int,
    kills: int,
) -> None:
    """All slots are due at once; the schedulers of two hosts claim them at the server."""
    folder.mkdir()
    server = TeamServer(folder / "server", engine, lease_ms=LEASE_MS)
    server.start()
    homes = {name: make_home(folder / name) for name in HOSTS}
    with open_store(server.home) as store:
        jobs = [
            JobDefinition(
                name=f"job-{number}", schedule="every 1d", prompt="-", model="none", place="any"
            )
            for number in range(slots)
        ]
        add_jobs(store, jobs, now=int(time.time() * 1000) - DAY_MS)
    for name, home in homes.items():
        server.join(home, name, scopes=("push", "claim"))
    began = time.monotonic()
    alive = {name: start(homes[name], name, workers // 2) for name in HOSTS}
    killed = 0
    try:
        with open_store(server.home) as store:
            while (ended := count_ended(store)) < slots:
                if time.monotonic() - began > 120 + slots:
                    score.add("hung", "slots without a result", slots - ended)
                    break
                if killed < kills and ended >= slots * (killed + 1) // (kills + 2):
                    name = dice.choice(list(HOSTS))
                    alive[name] = strike(alive[name], homes[name], name, dice, size=workers // 2)
                    killed += 1
                time.sleep(0.02)
            spent = time.monotonic() - began
            check_slots(score, store, homes, slots)
    finally:
        for process in alive.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        server.stop()
    score.counts["tried"] += slots
    score.notes.append(f"{killed} kills, {slots / spent:.0f} slots a second")


def start(home: Path, host: str, size: int) -> Process:
    words = [sys.executable, "-c", SCHEDULER, str(home), str(size), str(HOSTS[host])]
    return subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def strike(process: Process, home: Path, host: str, dice: random.Random, *, size: int) -> Process:
    """Kill one worker of a scheduler, or all of it and start it again."""
    found = tree_of(process.pid)[1:]
    if found and dice.random() < 0.5:
        with suppress(ProcessLookupError):
            os.kill(dice.choice(found), signal.SIGKILL)
        return process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return start(home, host, size)


def count_ended(store: Store) -> int:
    rows = store.query("select count(*) from run where status not in ('claimed', 'running')")
    return int(rows[0][0])


def check_slots(score: Score, store: Store, homes: dict[str, Path], slots: int) -> None:
    """One run for each slot, begun at most once, and done if its result says so."""
    runs = store.query("select job.name, status from run join job on job.id = run.job_id")
    names = Counter(name for name, _ in runs)
    score.add("lost", "slots have no run", slots - len(names))
    score.add("twice", "slots have more than one run", names.total() - len(names))
    ran: Counter[str] = Counter()
    for home in homes.values():
        file = home / "ran.txt"
        ran.update(file.read_text().split() if file.exists() else [])
    score.add("twice", "slots were begun more than once", ran.total() - len(ran))
    done = {name for name, status in runs if status == "completed"}
    score.add("lost", "slots are reported as done and were not", len(done - set(ran)))
    states = dict(sorted(Counter(status for _, status in runs).items()))
    score.notes.append(f"results: {states}")
