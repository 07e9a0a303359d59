"""Megabytes of records acknowledged in a second, and turns derived in a second of a core."""

import os
import time
from pathlib import Path
from typing import NamedTuple

from bench.measure import judge, tree_of
from bench.team.engines import Engine
from bench.team.homes import (
    CLIENT,
    SENDER,
    TeamServer,
    copy_home,
    make_machine,
    release,
    start_client,
    wait_ready,
)
from relight.store import open_store

ACKNOWLEDGED_MB, DERIVED_TURNS = 60.0, 1500.0
# a push is decompressed, redacted again, compressed and written to two tables
FLOOR_LIMIT = 100.0
BATCH_BYTES = 1 << 20


class Pushed(NamedTuple):
    """A run of several clients: seconds of the clock, and of the processors by who used them."""

    seconds: float
    behind_seconds: float
    turns: int
    clients: float
    server: float
    deriver: float
    database: float


def measure(
    folder: Path, engine: Engine, *, clients: int, megabytes: float
) -> list[tuple[str, str, str, str]]:
    """Push from several machines at once, and wait until everything is derived.

    Once their messages are ready before the clock starts, so that the server alone is measured,
    and once by `relight push`, which reads them from its store and strikes them out there.
    """
    folder.mkdir()
    homes = [
        make_machine(folder / f"machine{number}", megabytes=megabytes, seed=number + 1)
        for number in range(clients)
    ]
    raw, sizes = count_bytes(homes)
    floor = measure_floor(folder / "floor", sizes)
    copies = [copy_home(home, folder / f"copy-{home.name}") for home in homes]
    ready = push_all(folder / "ready", engine, homes, SENDER)
    whole = push_all(folder / "whole", engine, copies, CLIENT)
    megabytes = raw / 1e6
    rate, ratio = megabytes / ready.seconds, ready.seconds / floor
    speed = ready.turns / ready.deriver
    used = f"{ready.clients:.2f}, {ready.server:.2f}, {ready.database:.2f} s"
    return [
        (
            f"{megabytes:.0f} MB of records in ready messages from {clients} clients, acknowledged",
            f"{rate:.0f} MB/s",
            f"≥ {ACKNOWLEDGED_MB:.0f}",
            judge(ACKNOWLEDGED_MB, rate),
        ),
        (
            "… in a second of the server's core, whatever else runs",
            f"{megabytes / ready.server:.0f} MB",
            f"≥ {ACKNOWLEDGED_MB:.0f}",
            judge(ACKNOWLEDGED_MB, megabytes / ready.server),
        ),
        (
            f"… against the write and fsync of their {sum(sizes) / 1e6:.1f} MB as sent",
            f"{ratio:.0f} ×",
            f"{FLOOR_LIMIT:.0f} ×",
            judge(ratio, FLOOR_LIMIT),
        ),
        ("… CPU of clients, server, and database with what it derives meanwhile", used, "", ""),
        (
            "… by `relight push` from the stores of the machines",
            f"{megabytes / whole.seconds:.0f} MB/s",
            "",
            "",
        ),
        (
            f"{ready.turns:,} turns derived, a second of a core",
            f"{speed:,.0f}",
            f"≥ {DERIVED_TURNS:,.0f}",
            judge(DERIVED_TURNS, speed),
        ),
        ("… after the last acknowledgement", f"{ready.behind_seconds:.1f} s", "", ""),
    ]


def push_all(folder: Path, engine: Engine, homes: list[Path], program: str) -> Pushed:
    """Let clients push to a new server until everything is derived."""
    server = TeamServer(folder, engine)
    server.start()
    try:
        for home in homes:
            server.join(home, home.name)
        processes = [start_client(home, program=program) for home in homes]
        wait_ready(processes)
        deriver = read_cpu(server.find_deriver())
        own, database = read_own_cpu(server), read_cpu(engine.list_processes())
        children = os.times()
        began = time.perf_counter()
        prepared = sum(read_one_cpu(process.pid) for process in processes)
        for process in processes:
            release(process)
        for process in processes:
            _, errors = process.communicate()
            assert process.returncode == 0, errors.decode()[-500:]
        spent = time.perf_counter() - began
        ended = os.times()
        own, database = read_own_cpu(server) - own, read_cpu(engine.list_processes()) - database
        used = ended.children_user + ended.children_system
        used -= children.children_user + children.children_system + prepared
        while server.count_behind():
            time.sleep(0.05)
        behind = time.perf_counter() - began - spent
        deriver = read_cpu(server.find_deriver()) - deriver
        with open_store(server.home) as store:
            ((turns,),) = store.query("select count(*) from turn")
    finally:
        server.stop()
    return Pushed(spent, behind, turns, used, own, deriver, database)


def count_bytes(homes: list[Path]) -> tuple[int, list[int]]:
    """The bytes of all records, and the sizes of the messages that carry them compressed."""
    raw, sizes = 0, [0]
    for home in homes:
        with open_store(home) as store:
            for size, sent in store.query("select raw_bytes, length(records) from tape_part"):
                raw += size
                sizes[-1] += sent
                if sizes[-1] >= BATCH_BYTES:
                    sizes.append(0)
    return raw, [size for size in sizes if size]


def measure_floor(path: Path, sizes: list[int]) -> float:
    """Seconds to write as many bytes to a file, with an fsync for each message."""
    content = os.urandom(max(sizes))
    began = time.perf_counter()
    with path.open("wb") as file:
        for size in sizes:
            file.write(content[:size])
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - began


def read_own_cpu(server: TeamServer) -> float:
    """Seconds of processor time of the server without its deriver."""
    assert server.process is not None
    return read_one_cpu(server.process.pid, with_children=False)


def read_cpu(processes: list[int]) -> float:
    """Seconds of processor time of processes and of their children that have ended."""
    found = {one for process in processes for one in tree_of(process)}
    return sum(read_one_cpu(pid) for pid in found)


def read_one_cpu(pid: int, *, with_children: bool = True) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(map(int, words[11 : 15 if with_children else 13]))
    return ticks / os.sysconf("SC_CLK_TCK")
