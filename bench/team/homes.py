"""Homes of machines, a server of a team with its members, and clients that push."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

from msgspec.structs import replace

from bench.campaign.stores import Process, make_home
from bench.measure import ROOT, tree_of
from bench.team.engines import Engine
from bench.trees import generate_tree
from relight.intake import joining
from relight.intake.importing import import_all
from relight.intake.joining import need_target
from relight.intake.push import Pusher
from relight.intake.take import MOST_DUE
from relight.intake.team_client import Line, find_token
from relight.intake.wire import Push, Share
from relight.store import Store, open_store
from relight.store.members import add_person, make_mark, make_token
from relight.store.team import read_own_id
from relight.web.team import LEAST_FREE
from relight.work.jobs.leases import LEASE_MS

# a server whose deriver starts again at once after a kill
SERVER = """
import sys
import relight.web.watch as watch
from relight.cli.serve import serve
import relight.intake.take as take
import relight.web.team as team
import relight.work.jobs.slots as slots
watch.RESTART_SECONDS, slots.LEASE_MS = 0.05, int(sys.argv[3])
take.MOST_DUE, team.LEAST_FREE = int(sys.argv[4]), int(sys.argv[5])
serve(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]), is_watching=False, is_team=True)
"""
# opens its store first, so that only the push is measured
CLIENT = """
import sys
import relight.intake.push as client
from relight.store import open_store
client.BATCH_PARTS = int(sys.argv[2])
with open_store(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    print(client.push(store).sent, flush=True)
"""
# has its messages ready, so that reading and striking out on the machine are not measured
SENDER = """
import sys
from bench.team.homes import make_messages
from relight.store import open_store
with open_store(sys.argv[1]) as store:
    line, headers, messages = make_messages(store)
    print("ready", flush=True)
    sys.stdin.readline()
    for message in messages:
        line.send("POST", "/api/v1/tapes", message, **headers)
"""
WAIT_SECONDS = 60.0


def make_machine(home: Path, *, megabytes: float, seed: int) -> Path:
    """A home with imported sessions of Claude Code and Codex."""
    tree = home.parent / f"{home.name}-tree"
    generate_tree(tree, claude_mb=megabytes * 0.7, codex_mb=megabytes * 0.3, seed=seed)
    import_tree(make_home(home), tree)
    with open_store(home) as store:
        read_own_id(store)  # copies of it are the same machine
    return home


def import_tree(home: Path, tree: Path) -> None:
    with open_store(home) as store:
        import_all(store, environment={"HOME": str(tree)}, workers=1)


class TeamServer:
    """A `relight serve --team` in its own processes, on a port that stays the same."""

    def __init__(
        self, home: Path, engine: Engine, *, lease_ms: int = LEASE_MS, disk: Path | None = None
    ) -> None:
        self._lease_ms = lease_ms
        self.home = engine.make_home(home, disk=disk)
        self.port = 0
        self.process: Process | None = None

    def start(self, *, most_due: int = MOST_DUE, least_free: int = LEAST_FREE) -> None:
        """Start it; it takes no more with so many parts in its queue, or with less free space."""
        numbers = map(str, (self.port, self._lease_ms, most_due, least_free))
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(self.home), *numbers],
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        address = self.process.stdout.readline().decode().strip().rstrip("/")
        self.port = int(address.rpartition(":")[2])
        self._wait()

    def _wait(self) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        connection.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def find_deriver(self) -> list[int]:
        """The processes of the server besides its own: the deriver and its worker."""
        assert self.process is not None
        return tree_of(self.process.pid)[1:]

    def kill(self) -> None:
        """End the server alone; its deriver ends with it."""
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.communicate()

    def join(
        self, home: Path, name: str, *, share: Share = "tapes", scopes: Sequence[str] = ("push",)
    ) -> None:
        """Add a member, and let the home join with a token of theirs."""
        with open_store(self.home) as store:
            add_person(store, name)
            token = make_token(store, name, scopes)
        file = home / "team-token"
        file.write_text(token)
        file.chmod(0o600)
        with open_store(home) as store:
            joining.join(store, self.url, token_file=str(file), share=share, name=name)

    def count_behind(self) -> int:
        with open_store(self.home) as store:
            ((count,),) = store.query("select count(*) from derive_due where reason is null")
        return int(count)


class Collector(Pusher):
    """A push whose messages are kept instead of sent."""

    def collect(self) -> Iterator[Push]:
        self._sent: list[Push] = []
        self._send_parts()
        before = self._marks[0]
        for message in self._sent:
            mark = make_mark()
            yield replace(message, before=before, mark=mark)
            before = mark

    def _send(self, message: Push, **_: object) -> None:
        self._sent.append(message)


def make_messages(store: Store) -> tuple[Line, dict[str, str], list[Push]]:
    """The connection of a machine that has joined, its headers, and all parts as it sends them."""
    target = need_target(store)
    headers = {"Machine": read_own_id(store), "Store": target.store_id}
    line = Line(target.url, find_token(target.token_file))
    return line, headers, list(Collector(store, target).collect())


def start_client(home: Path, *, batch_parts: int = 64, program: str = CLIENT) -> Process:
    """A process that pushes for each line that it reads."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(home), str(batch_parts)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_ready(clients: Sequence[Process]) -> None:
    for client in clients:
        assert client.stdout is not None
        client.stdout.readline()


def release(client: Process) -> None:
    """Let a client push."""
    assert client.stdin is not None
    with suppress(BrokenPipeError):
        client.stdin.write(b"\n")
        client.stdin.flush()


def copy_home(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))
