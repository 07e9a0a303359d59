"""The dashboard on a store of a million turns: every page and address, alone, together, meanwhile.

One user alone forces every response to be made again, for some 30 days as pages begin with. Twenty
look at each answer for a second before they ask for the next, with the days that pages offer.
"""

import argparse
import http.client
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from bench.measure import best, judge, memory_of, print_rows, relight, run, tree, tree_of
from bench.web_store import find_store

USERS = 20
LOOKED_AT_SECONDS = 1.0
OFFERED = ("7d", "30d", "90d")
# in times an empty Python, which took 14 ms on the machine of the figures: 0.1, 0.4 and 1 s there
LIMITS = {"alone": 7, "together": 28, "meanwhile": 70}
FIRST_PAGE_SECONDS, IDLE_BYTES = 1.0, 90e6
STEPS, STEPS_SECONDS, PART_BYTES = 2000, 0.3, 300e3
IMPORTED_MB = 1000
Row = tuple[str, str, str, str]
# makes an address with the days chosen, by the name it has in the table
Addresses = dict[str, Callable[[random.Random, str], str]]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench web")
    parser.add_argument("--sessions", type=int, default=50_000)
    parser.add_argument("--asked", type=int, default=30, help="how often each is asked for alone")
    parser.add_argument("--only", help="only addresses with this in them")
    parser.add_argument("--alone", action="store_true", help="only one user, and no import")
    options = parser.parse_args(words)
    rows: list[Row] = [("what", "figure", "limit", "")]
    rows += measure_start()
    rows += measure_steps()
    home = find_store(options.sessions)
    with tempfile.TemporaryDirectory() as folder:
        # an import would change the store that is kept
        copy = Path(folder) / "home"
        shutil.copytree(home, copy)
        with serve(copy) as (address, _):
            addresses = find_addresses(address)
            chosen = {
                name: make
                for name, make in addresses.items()
                if not options.only or options.only in name
            }
            alone, floor = measure_alone(address, chosen, options.asked)
            if options.alone:
                rows += judge_times(floor, {"alone": alone})
            else:
                rows += measure_together(address, chosen, copy, alone=alone, floor=floor)
    print_rows(rows)
    return int(any(row[3] == "MISSED" for row in rows))


def measure_start() -> list[Row]:
    """From `relight serve` on a demo home to the whole first page, and what it then holds."""
    seconds, memory = [], 0
    with tempfile.TemporaryDirectory() as folder:
        run(relight("demo", "--keep", f"{folder}/demo"), {})
        for _ in range(5):
            began = time.perf_counter()
            with serve(Path(folder) / "demo" / "relight") as (address, process):
                ask(connect(address), "/")
                seconds.append(time.perf_counter() - began)
                for path in ("/sessions", "/skills", "/jobs", "/templates", "/failures"):
                    ask(connect(address), path)
                memory = max(memory, sum(map(memory_of, tree_of(process))))
    first = sorted(seconds)[len(seconds) // 2]
    return [
        (
            "demo: start to first page",
            f"{first:.2f} s",
            f"{FIRST_PAGE_SECONDS:.1f} s",
            judge(first, FIRST_PAGE_SECONDS),
        ),
        (
            "demo: memory after some pages",
            f"{memory / 1e6:.0f} MB",
            f"{IDLE_BYTES / 1e6:.0f} MB",
            judge(memory, IDLE_BYTES),
        ),
    ]


def measure_steps() -> list[Row]:
    """The server's time for a session of 2,000 steps, and the size of its first part."""
    messages: list[dict[str, object]] = []
    for number in range(STEPS // 4):
        edit = {"path": "a.py", "old_string": "x = 1\n" * 8, "new_string": "x = 2\n" * 9}
        function = {"name": "patch", "arguments": json.dumps(edit)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        answer = f"Part {number} is **done**:\n\n```py\nreturn round(x, 2)\n```\n"
        messages += [
            {"role": "user", "content": f"Look at part {number}"},
            {"role": "assistant", "content": answer, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": "ok\n" * 400},
            {"role": "assistant", "content": answer},
        ]
    with tempfile.TemporaryDirectory() as folder:
        home, path = Path(folder) / "home", Path(folder) / "a.jsonl"
        path.write_text(json.dumps({"id": "long", "model": "m", "messages": messages}) + "\n")
        words = ("--home", str(home), "import", "--source", "chat", "--from", str(path))
        run(relight(*words), {})
        with serve(home) as (address, _):
            connection = connect(address)
            size = len(ask(connection, "/sessions/chat:long"))
            times = [time_one(connection, "/sessions/chat:long", is_forced=True) for _ in range(15)]
    middle = sorted(times)[len(times) // 2]
    return [
        (
            f"a session of {STEPS:,} steps",
            f"{middle * 1000:.0f} ms",
            f"{STEPS_SECONDS * 1000:.0f} ms",
            judge(middle, STEPS_SECONDS),
        ),
        (
            "its first part",
            f"{size / 1000:.0f} KB",
            f"{PART_BYTES / 1000:.0f} KB",
            judge(size, PART_BYTES),
        ),
    ]


@contextmanager
def serve(home: Path) -> Iterator[tuple[str, int]]:
    """`relight serve` in a separate process: its address and process id."""
    command = relight("serve", "--home", str(home), "--port", "0", "--no-watch")
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip(), child.pid
    finally:
        child.terminate()
        child.communicate()


def connect(address: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(address).netloc, timeout=120)


def ask(connection: http.client.HTTPConnection, path: str, *, is_forced: bool = False) -> bytes:
    connection.request("GET", path, headers={"Cache-Control": "no-cache"} if is_forced else {})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} gave {answer.status}: {body[:300]!r}")
    return body


def find_addresses(address: str, connection: http.client.HTTPConnection | None = None) -> Addresses:
    """Every page and every address of the API, with names that are in this store."""
    connection = connection or connect(address)

    def names(path: str, rows: str, name: str) -> list[str]:
        found = json.loads(ask(connection, path))[rows]
        return [quote(str(one[name])) for one in found]

    sessions = names("/api/sessions?limit=300&search=fix", "sessions", "session_id")
    told = names("/api/sessions?since=all&limit=50&sort=tokens", "sessions", "session_id")
    jobs = names("/api/jobs", "jobs", "job")
    templates = names("/api/templates", "templates", "name")
    skills = sorted({*names("/api/skills/ema", "rows", "skill_name")})

    def plain(path: str) -> Callable[[random.Random, str], str]:
        return lambda _, days: f"{path}{'&' if '?' in path else '?'}since={days}"

    def fixed(path: str) -> Callable[[random.Random, str], str]:
        return lambda _, __: path

    def among(path: str, known: Sequence[str]) -> Callable[[random.Random, str], str]:
        return lambda dice, _: path.format(dice.choice(known))

    pages = [
        "/",
        "/sessions",
        "/failures",
        "/skills",
        "/jobs",
        "/templates",
        "/experiments",
        "/moa",
    ]
    addresses: Addresses = {path: plain(path) for path in pages}
    addresses |= {
        "/?chart=outcomes&by=project": plain("/?chart=outcomes&by=project"),
        "/?since=1d": fixed("/?since=1d"),
        "/sessions?sort=cost": plain("/sessions?sort=cost"),
        "/sessions?search=…": plain("/sessions?search=rounding+login"),
        "/sessions?model=…": plain("/sessions?model=opus"),
        "/sessions?failure=…": plain("/sessions?failure=timeout&tool=Bash"),
        "/sessions/…": among("/sessions/{}", sessions),
        "/sessions/… (long)": among("/sessions/{}", told),
        "/skills/…": among("/skills/{}", skills),
        "/jobs/…": among("/jobs/{}", jobs),
        "/templates/…": among("/templates/{}", templates),
        "/api/overview": plain("/api/overview"),
        "/api/report": plain("/api/report"),
        "/api/report?by=tool": plain("/api/report?by=tool"),
        "/api/report?by=day,model": plain("/api/report?by=day,model"),
        "/api/sessions": plain("/api/sessions"),
        "/api/sessions/…": among("/api/sessions/{}", sessions),
        "/api/sessions/…/steps": among("/api/sessions/{}/steps", told),
        "/api/failures": plain("/api/failures"),
        "/api/skills/stats": plain("/api/skills/stats"),
        "/api/skills/ema": fixed("/api/skills/ema"),
        "/api/skills/compare": among("/api/skills/compare?skill={}", skills),
        "/api/jobs": fixed("/api/jobs"),
        "/api/jobs/history": fixed("/api/jobs/history"),
        "/api/jobs/…": among("/api/jobs/{}", jobs),
        "/api/templates": fixed("/api/templates"),
        "/api/templates/…": among("/api/templates/{}", templates),
        "/api/templates/stats": fixed("/api/templates/stats"),
        "/api/experiments": fixed("/api/experiments"),
        "/api/moa/traces": fixed("/api/moa/traces"),
        "/api/live": fixed("/api/live"),
    }
    return addresses


def measure_alone(
    address: str, addresses: Addresses, asked: int
) -> tuple[dict[str, list[float]], float]:
    """The times of each address for one user alone, and the time of an empty Python."""
    floor = best(15, lambda: run([sys.executable, "-c", "pass"], {})).seconds
    alone: dict[str, list[float]] = {name: [] for name in addresses}
    dice = random.Random(5)
    connection = connect(address)
    for name, make in addresses.items():
        ask(connection, make(dice, "30d"))
        for _ in range(asked):
            path = make(dice, f"{dice.randint(20, 40)}d")
            alone[name].append(time_one(connection, path, is_forced=True))
    return alone, floor


def measure_together(
    address: str, addresses: Addresses, home: Path, *, alone: dict[str, list[float]], floor: float
) -> list[Row]:
    """What most wait at most, for each address: one user alone, twenty, twenty and an import."""
    together = ask_together(address, addresses, threading.Event(), rounds=1)
    environment = {"HOME": str(tree(IMPORTED_MB)), "RELIGHT_HOME": str(home), "TZ": "UTC"}
    over = threading.Event()
    meanwhile: dict[str, list[float]] = {}
    asking = threading.Thread(
        target=lambda: meanwhile.update(ask_together(address, addresses, over, rounds=None))
    )
    asking.start()
    imported = run(relight("import"), environment).seconds
    over.set()
    asking.join()
    times = {"alone": alone, "together": together, "meanwhile": meanwhile}
    rows = judge_times(floor, times)
    rows.append((f"import of {IMPORTED_MB} MB meanwhile", f"{imported:.1f} s", "", ""))
    return rows


def judge_times(floor: float, times: dict[str, dict[str, list[float]]]) -> list[Row]:
    """A row for each address: what most wait at most in each case, against its limit."""
    rows: list[Row] = []
    limits = [LIMITS[case] * floor for case in times]
    for name in times["alone"]:
        figures = [p95(found[name]) for found in times.values()]
        verdicts = {judge(*pair) for pair in zip(figures, limits, strict=True)}
        shown = " / ".join(f"{figure * 1000:.0f}" for figure in figures)
        limit = " / ".join(f"{limit * 1000:.0f}" for limit in limits)
        rows.append(
            (name, f"{shown} ms", f"{limit} ms", "MISSED" if "MISSED" in verdicts else "ok")
        )
    rows.append(("an empty Python", f"{floor * 1000:.0f} ms", "", ""))
    return rows


def ask_together(
    address: str, addresses: Addresses, over: threading.Event, *, rounds: int | None
) -> dict[str, list[float]]:
    """Twenty users, each going through all addresses in a different order."""
    spent: dict[str, list[float]] = {name: [] for name in addresses}

    def use(number: int) -> None:
        dice = random.Random(number)
        connection = connect(address)
        time.sleep(LOOKED_AT_SECONDS * number / USERS)
        done = 0
        while not over.is_set() and (rounds is None or done < rounds):
            for name in dice.sample(list(addresses), len(addresses)):
                path = addresses[name](dice, dice.choice(OFFERED))
                spent[name].append(time_one(connection, path))
                if over.wait(LOOKED_AT_SECONDS):
                    break
            done += 1

    users = [threading.Thread(target=use, args=(number,)) for number in range(USERS)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    return spent


def time_one(
    connection: http.client.HTTPConnection, path: str, *, is_forced: bool = False
) -> float:
    began = time.perf_counter()
    ask(connection, path, is_forced=is_forced)
    return time.perf_counter() - began


def p95(times: Sequence[float]) -> float:
    return sorted(times)[min(int(len(times) * 0.95), len(times) - 1)] if times else 0.0
