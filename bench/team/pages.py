"""Pages and addresses of a server with ten million turns, as two of its people read them."""

import http.client
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.measure import judge
from bench.team.engines import PostgresEngine
from bench.team.homes import TeamServer
from bench.team.year import fill
from bench.web import Addresses, find_addresses, p95, time_one
from bench.web_store import FRESH_SECONDS
from relight.config import read_config
from relight.errors import RelightError
from relight.store import Store, open_store
from relight.store.members import add_person, make_token
from relight.store.postgres_schema import migrate_server
from relight.store.rights import allow_projects

Row = tuple[str, str, str, str]
MONTH_MS, HISTORY_MS = 150.0, 1500.0
RIGHTS = {"all": ["*"], "some": [f"project-{one}" for one in (1, 2, 3)]}
# questions about all of the history that no page asks by itself
HISTORY = (
    "/api/report?by=source",
    "/api/report?by=project",
    "/api/report?by=month,model",
    "/api/report?by=person,model",
    "/api/report?by=machine",
    "/api/report?by=failure",
    "/api/sessions?sort=cost",
)


class KeptEngine(PostgresEngine):
    """A PostgreSQL whose databases stay: filling one takes longer than reading from it."""

    def make_home(self, home: Path, *, disk: Path | None = None) -> Path:
        return home if home.exists() else super().make_home(home, disk=disk)


class TokenConnection(http.client.HTTPConnection):
    """A connection that sends a member's token with every request."""

    token = ""

    def endheaders(self, *given: Any, **options: Any) -> None:
        self.putheader("Authorization", f"Bearer {self.token}")
        super().endheaders(*given, **options)


def measure(*, turns: int, only: str | None, asked: int) -> list[Row]:
    """Ask a filled server for every page and address, with an answer made again each time.

    It is filled once and kept for some days, where the database's own user can reach it.
    """
    folder = Path(tempfile.gettempdir()) / f"relight-bench-team-{turns}"
    done = folder / "done"
    is_fresh = done.exists() and time.time() - done.stat().st_mtime < FRESH_SECONDS
    if not is_fresh:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755)
    engine = KeptEngine(folder)
    try:
        server = TeamServer(folder / "home", engine)
        if not is_fresh:
            began = time.perf_counter()
            with open_store(server.home) as store:
                fill(store, turns, now=int(time.time() * 1000))
            done.write_text(f"{time.perf_counter() - began:.0f}")
        # a store that was kept may be of an earlier version
        migrate_server(read_config(server.home))
        with open_store(server.home) as store:
            size = store.read_size()
        spent = done.read_text()
        rows = [(f"{turns:,} turns, written in {spent} s", f"{size / 1e9:.1f} GB", "", "")]
        server.start()
        try:
            return rows + ask_people(server, only=only, asked=asked)
        finally:
            server.stop()
    finally:
        engine.close()


def ask_people(server: TeamServer, *, only: str | None, asked: int) -> list[Row]:
    """The times of all addresses, for a person who sees everything and one who sees some."""
    with open_store(server.home) as store:
        people = {name: connect(store, server.url, name) for name in RIGHTS}
    addresses = find_addresses(server.url, people["all"])[0]
    own = find_addresses(server.url, people["some"], sees_all=False)[0]
    rows = []
    for name, connection in people.items():
        connection.close()  # the server has, while the other person asked; a request opens it again
        found = addresses if name == "all" else own
        chosen = {one: make for one, make in found.items() if not only or only in one}
        rows += ask_month(connection, chosen, name, asked=asked)
        more = [one for one in HISTORY if not only or only in one]
        rows += ask_history(connection, chosen, more, who=name, asked=asked)
    return rows


def connect(store: Store, url: str, name: str) -> http.client.HTTPConnection:
    """A connection of a person with the rights of this name."""
    person = f"reads-{name}"
    with suppress(RelightError):  # the person is there if the store was kept
        add_person(store, person)
    allow_projects(store, person, RIGHTS[name])
    connection = TokenConnection(url.removeprefix("http://"), timeout=300)
    connection.token = make_token(store, person, ["read"])
    return connection


def ask_month(
    connection: http.client.HTTPConnection, addresses: Addresses, who: str, *, asked: int
) -> list[Row]:
    """The time that 95 of 100 requests about some 30 days take at most, for each address."""
    dice = random.Random(5)
    times = {}
    for name, make in addresses.items():
        paths = [make(dice, f"{dice.randint(20, 40)}d") for _ in range(asked)]
        times[f"{name}, 30 days, {who}"] = time_paths(connection, paths)
    return judge_times(times, f"95 of 100 requests, 30 days, {who}", MONTH_MS)


def ask_history(
    connection: http.client.HTTPConnection,
    addresses: Addresses,
    more: Sequence[str],
    *,
    who: str,
    asked: int,
) -> list[Row]:
    """The same about all days, for each address that has any."""
    dice = random.Random(5)
    found = {name: make(dice, "all") for name, make in addresses.items()}
    found |= {name: f"{name}&since=all" for name in more}
    times = {
        f"{name}, all, {who}": time_paths(connection, [path] * max(asked // 4, 2))
        for name, path in found.items()
        if "since=all" in path
    }
    return judge_times(times, f"95 of 100 requests, all, {who}", HISTORY_MS)


def time_paths(connection: http.client.HTTPConnection, paths: list[str]) -> list[float]:
    """The milliseconds of each of these paths, after the first was read once."""
    time_one(connection, paths[0], is_forced=True)
    return [time_one(connection, path, is_forced=True) * 1000 for path in paths]


def judge_times(times: dict[str, list[float]], together: str, limit: float) -> list[Row]:
    """The 95th percentile of all requests, and that of each address with the slowest first."""
    spent = {name: p95(own) for name, own in times.items()}
    ranked = sorted(spent.items(), key=lambda one: -one[1])
    every = [(together, p95([one for own in times.values() for one in own])), *ranked]
    return [(name, f"{took:.0f} ms", f"{limit:.0f} ms", judge(took, limit)) for name, took in every]
