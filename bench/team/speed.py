"""Megabytes of records acknowledged in a second, and turns derived in a second of a core."""

import os
import time
from pathlib import Path

from bench.measure import judge, tree_of
from bench.team.engines import Engine
from bench.team.homes import TeamServer, make_machine, release, start_client, wait_ready
from relight.store import open_store

ACKNOWLEDGED_MB, DERIVED_TURNS = 60.0, 1500.0
# a push is decompressed, redacted again, compressed and written to two tables
FLOOR_LIMIT = 100.0
BATCH_BYTES = 1 << 20


def measure(
    folder: Path, engine: Engine, *, clients: int, megabytes: float
) -> list[tuple[str, str, str, str]]:
    """Push from several machines at once, and wait until everything is derived."""
    folder.mkdir()
    homes = [
        make_machine(folder / f"machine{number}", megabytes=megabytes, seed=number + 1)
        for number in range(clients)
    ]
    server = TeamServer(folder / "server", engine)
    server.start()
    try:
        for home in homes:
            server.join(home, home.name)
        raw, sizes = count_bytes(homes)
        floor = measure_floor(folder / "floor", sizes)
        processes = [start_client(home) for home in homes]
        wait_ready(processes)
        before = read_cpu(server.find_deriver())
        server_before = read_own_cpu(server)
        began = time.perf_counter()
        for process in processes:
            release(process)
        for process in processes:
            _, errors = process.communicate()
            assert process.returncode == 0, errors.decode()[-500:]
        spent = time.perf_counter() - began
        taken = read_own_cpu(server) - server_before
        while server.count_behind():
            time.sleep(0.05)
        derived = read_cpu(server.find_deriver()) - before
        behind = time.perf_counter() - began - spent
        with open_store(server.home) as store:
            ((turns,),) = store.query("select count(*) from turn")
    finally:
        server.stop()
    rate, ratio, speed = raw / 1e6 / spent, spent / floor, turns / derived
    return [
        (
            f"{raw / 1e6:.0f} MB of records from {clients} clients, acknowledged",
            f"{rate:.0f} MB/s",
            f"≥ {ACKNOWLEDGED_MB:.0f}",
            judge(ACKNOWLEDGED_MB, rate),
        ),
        (
            "… in a second of the server's core, whatever else runs",
            f"{raw / 1e6 / taken:.0f} MB",
            f"≥ {ACKNOWLEDGED_MB:.0f}",
            judge(ACKNOWLEDGED_MB, raw / 1e6 / taken),
        ),
        (
            f"… against the write and fsync of their {sum(sizes) / 1e6:.1f} MB as sent",
            f"{ratio:.0f} ×",
            f"{FLOOR_LIMIT:.0f} ×",
            judge(ratio, FLOOR_LIMIT),
        ),
        (
            f"{turns:,} turns derived, a second of a core",
            f"{speed:,.0f}",
            f"≥ {DERIVED_TURNS:,.0f}",
            judge(DERIVED_TURNS, speed),
        ),
        ("… after the last acknowledgement", f"{behind:.1f} s", "", ""),
    ]


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
