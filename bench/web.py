"""The dashboard on a store of a million turns: every page and address, alone, together, meanwhile.

One user alone forces every response to be made again, for some 30 days as pages begin with. Twenty
look at each answer for a second before they ask for the next, with the days that pages offer.
"""

import argparse
import http.client
import json
import random
import re
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
from relight.web.api import QUERIES
from relight.web.pages import PAGES
from relight.web.routes import SERVER_QUERIES

USERS = 20
LOOKED_AT_SECONDS = 1.0
OFFERED = ("7d", "30d", "90d")
# in times an empty Python, which took 14 ms on the machine of the figures: 0.1, 0.4 and 1 s there
LIMITS = {"alone": 7, "together": 28, "meanwhile": 70}
# a store of ten million turns is that of a team
LARGE_SESSIONS, LARGE_SECONDS = 500_000, 0.15
FIRST_PAGE_SECONDS, IDLE_BYTES = 1.0, 90e6
STEPS, STEPS_SECONDS, PART_BYTES = 2000, 0.3, 300e3
IMPORTED_MB = 1000
# the longest period by day, the longest of those that pages offer, and a whole year by week
LIST_DAYS, LIST_BYTES = ("45d", "90d", "all"), 100e3
Row = tuple[str, str, str, str]
# names in a path, from the first to the last
PLACEHOLDER = re.compile(r"\{.+\}")
# parameters without which an address cannot be read
REQUIRED = {
    "/search": "q=stream+session",
    "/api/search": "q=stream+session",
    "/api/skills/compare": "skill=skill-1",
}
# addresses with parameters that lead to other queries
VARIANTS = (
    "/?chart=outcomes&by=project",
    "/?chart=tokens&by=source",
    "/failures?by=category,position",
    "/sessions?sort=cost",
    "/sessions?search=rounding+login",
    "/sessions?model=opus",
    "/sessions?failure=timeout&tool=Bash",
    "/api/report?by=tool",
    "/api/report?by=day,model",
    "/api/limits?history=true",
)
# makes an address with the days chosen, by the name it has in the table
Addresses = dict[str, Callable[[random.Random, str], str]]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench web")
    parser.add_argument(
        "--sessions", type=int, default=50_000, help=f"of 20 turns; {LARGE_SESSIONS} for a team"
    )
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
            addresses, lacking = find_addresses(address)
            chosen = {
                name: make
                for name, make in addresses.items()
                if not options.only or options.only in name
            }
            alone, floor = measure_alone(address, chosen, options.asked)
            rows += measure_sizes(address, chosen)
            if options.alone:
                limit = LIMITS["alone"] * floor
                if options.sessions >= LARGE_SESSIONS:
                    limit = LARGE_SECONDS
                rows += judge_times(floor, {"alone": alone}, [limit])
                every = p95([one for own in alone.values() for one in own])
                rows.append(
                    (
                        "95 of 100 requests to all addresses",
                        f"{every * 1000:.0f} ms",
                        f"{limit * 1000:.0f} ms",
                        judge(every, limit),
                    )
                )
            else:
                rows += measure_together(address, chosen, copy, alone=alone, floor=floor)
    rows += [(name, "", "", "nothing of its kind in this store") for name in lacking]
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


def find_addresses(
    address: str, connection: http.client.HTTPConnection | None = None, *, sees_all: bool = True
) -> tuple[Addresses, list[str]]:
    """Every page and every address of the API that reads, with names that are in this store.

    They come from the tables of pages and queries, so that a new one is measured too. Beside them
    are those that lack a name: the store has none of their kind. A person who does not see
    everything is refused some of them, which are left out.
    """
    names = find_names(connection or connect(address), sees_all=sees_all)
    addresses: Addresses = {}
    lacking = []
    pages = [page for page in PAGES if sees_all or not page.is_of_server]
    queries = [query for query in QUERIES if sees_all or not query.is_of_server]
    every = [(page.path, "since" not in page.ignores) for page in pages]
    every += [(query.path, "since" in query.parameters.__struct_fields__) for query in queries]
    every += [(path, False) for path in SERVER_QUERIES]
    every += [(path, True) for path in VARIANTS]
    for path, has_days in every:
        shown, fields = PLACEHOLDER.sub("…", path), PLACEHOLDER.findall(path)
        kind = path.removeprefix("/api").strip("/").partition("/")[0]
        known = (names.get(path) or names.get(kind, [])) if fields else []
        given = REQUIRED.get(path, "")
        if fields and not known:
            lacking.append(shown)
        else:
            addresses[shown] = make_address(path, known, given, has_days=has_days)
    return addresses, lacking


def make_address(
    path: str, known: Sequence[str], given: str, *, has_days: bool
) -> Callable[[random.Random, str], str]:
    """Return the function that writes an address with one of the names and these days."""

    def make(dice: random.Random, days: str) -> str:
        found = PLACEHOLDER.sub(dice.choice(known), path) if known else path
        query = "&".join(part for part in (given, f"since={days}" if has_days else "") if part)
        return f"{found}{'&' if '?' in found else '?'}{query}" if query else found

    return make


def find_names(connection: http.client.HTTPConnection, *, sees_all: bool) -> dict[str, list[str]]:
    """Names of things in this store, by the first word of their addresses or by a whole path."""

    def read(path: str, rows: str, name: str) -> list[str]:
        found = json.loads(ask(connection, path))[rows]
        return [quote(str(one[name])) for one in found]

    hits = json.loads(ask(connection, "/api/search?q=test&limit=50"))["hits"]
    skills = sorted({*read("/api/skills/ema", "rows", "skill_name")})
    return {
        "sessions": read("/api/sessions?limit=300&search=fix", "sessions", "session_id"),
        "/api/sessions/{session:path}/steps": read(
            "/api/sessions?since=all&limit=50&sort=tokens", "sessions", "session_id"
        ),
        "/words/{text}/{name:path}": [
            f"{one['step']}.text/{quote(one['session_id'])}"
            for one in hits
            if one["kind"] in ("prompt", "answer")
        ],
        "jobs": read("/api/jobs", "jobs", "job"),
        "templates": read("/api/templates", "templates", "name"),
        "skills": skills,
        "experiments": read("/api/experiments/list", "experiments", "name"),
        "moa": read("/api/moa/traces", "traces", "session_id") if sees_all else [],
    }


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


def measure_sizes(address: str, addresses: Addresses) -> list[Row]:
    """The sizes of every page that is not about a single thing, the largest first."""
    connection, dice = connect(address), random.Random(5)
    sizes = {
        name: [len(ask(connection, make(dice, days))) for days in LIST_DAYS]
        for name, make in addresses.items()
        if not name.startswith("/api/") and "…" not in name
    }
    return [
        (
            f"{name}: size with {', '.join(LIST_DAYS)}",
            f"{' / '.join(f'{size / 1000:.0f}' for size in own)} KB",
            f"{LIST_BYTES / 1000:.0f} KB",
            judge(max(own), LIST_BYTES),
        )
        for name, own in sorted(sizes.items(), key=lambda one: -max(one[1]))
    ]


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
    rows = judge_times(floor, times, [LIMITS[case] * floor for case in times])
    rows.append((f"import of {IMPORTED_MB} MB meanwhile", f"{imported:.1f} s", "", ""))
    return rows


def judge_times(
    floor: float, times: dict[str, dict[str, list[float]]], limits: Sequence[float]
) -> list[Row]:
    """A row for each address: what most wait at most in each case, against its limit."""
    rows: list[Row] = []
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
