"""What a push may meet: a full disk, a full queue, no network, another store, a revoked token.

Each happens in mid-push to a server in its own processes. It is reported, nothing is lost, and the
next push catches up: the server has then what an undisturbed one has.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import relight.intake.push as client
from bench.campaign.score import Score
from bench.campaign.stores import compare
from bench.team.engines import Engine
from bench.team.homes import TeamServer, copy_home, make_machine
from bench.team.kills import derive_all, dump_server, push_quietly
from relight.errors import RelightError
from relight.intake.http_line import Answer
from relight.intake.joining import read_status
from relight.intake.team_client import Line, find_token
from relight.store import open_store
from relight.store.keep.restore import restore
from relight.store.members import make_token, revoke_tokens
from relight.store.team import count_due, read_target

BATCH_PARTS = 4
# the request of a push before which something happens
MOMENT = 3
MINUTE_MS = 60_000
OFFLINE_MINUTES, IMPORT_MINUTES = 30, 5
DISK_SIZE = "64m"


class HookedLine(Line):
    """A line that lets something happen before one of its requests."""

    def __init__(self, url: str, token: str, happen: Callable[[], None]) -> None:
        super().__init__(url, token)
        self._happen = happen
        self._number = 0

    def exchange(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> Answer:
        self._number += 1
        if self._number == MOMENT:
            self._happen()
        return super().exchange(method, path, data, headers)


class Trial:
    """A machine that has joined a server, and what the server has to have in the end."""

    def __init__(
        self,
        score: Score,
        folder: Path,
        made: Path,
        expected: dict[str, Any],
        engine: Engine,
        *,
        disk: Path | None = None,
    ) -> None:
        self.score, self.engine, self.expected = score, engine, expected
        self.folder, self.disk = folder, disk
        self.server = TeamServer((disk or folder) / "server", engine, disk=disk)
        self.server.start(**({"least_free": 0} if disk else {}))
        self.home = copy_home(made, folder / "machine0")
        self.server.join(self.home, self.home.name)

    def push(self, happen: Callable[[], None] = lambda: None) -> str | None:
        """Push everything; return why it failed, as the push and `relight status` report it."""
        client.BATCH_PARTS = BATCH_PARTS
        with open_store(self.home) as store:
            target = read_target(store)
            assert target is not None
            line = HookedLine(self.server.url, find_token(target.token_file), happen)
            try:
                notes = client.push(store, line=line).notes
                return notes[0] if notes else None
            except RelightError as error:
                trouble = read_status(store).trouble
                return error.message if trouble == error.message else None

    def check(self, what: str, said: str | None, *words: str) -> None:
        """Push what is left; the trouble was reported, and the server has everything once."""
        self.score.counts["tried"] += 1
        if said is None or not any(word in said for word in words):
            self.score.add("silent", f"{what} was reported as {said!r}")
        again = self.push()
        with open_store(self.home) as store:
            left = count_due(store)
        self.score.add("lost", f"items are pending after {what}: {again}", left)
        derive_all(self.server)
        found = dump_server(self.server.home)
        compare(self.score, self.expected, found, what=what)
        self.score.notes.append(f"{what}: {said}")

    def close(self) -> None:
        self.server.stop()
        self.engine.drop_home(self.server.home)


def meet_trouble(
    score: Score, folder: Path, engine: Engine, *, seed: int, megabytes: float = 1.0
) -> None:
    """Let each kind of trouble happen once, in mid-push."""
    folder.mkdir()
    made = make_machine(folder / "made", megabytes=megabytes, seed=seed)
    expected, _ = push_quietly(folder / "quiet", [made], engine)
    for meet in KINDS:
        own = folder / meet.__name__
        own.mkdir()
        with mounted() if meet is fill_disk else nullcontext() as disk:
            if meet is fill_disk and disk is None:
                score.notes.append("a full disk was not tried: only root can mount one")
                continue
            trial = Trial(score, own, made, expected, engine, disk=disk)
            try:
                meet(trial)
            finally:
                trial.close()
        shutil.rmtree(own)


@contextmanager
def mounted() -> Iterator[Path | None]:
    """A small file system that every user can reach; None if none can be mounted."""
    with TemporaryDirectory(prefix="relight-disk-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE},mode=755", "none", name]
        try:
            subprocess.run(words, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            yield None
            return
        try:
            yield folder
        finally:
            subprocess.run(["umount", name], check=True)


def revoke(trial: Trial) -> None:
    """The person's token is revoked; a new one is put into the same file."""

    def happen() -> None:
        with open_store(trial.server.home) as store:
            revoke_tokens(store, trial.home.name)

    said = trial.push(happen)
    with open_store(trial.server.home) as store:
        (trial.home / "team-token").write_text(make_token(store, trial.home.name, ("push",)))
    trial.check("a revoked token", said, "refused the token")


def fill_queue(trial: Trial) -> None:
    """The deriver stands still until the server takes no more (429), and goes on later."""
    trial.server.stop()
    trial.server.start(most_due=2)
    stopped = trial.server.find_deriver()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    said = trial.push()
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    derive_all(trial.server)
    trial.server.stop()
    trial.server.start()
    trial.check("a full queue (429)", said, "busy")


def change_target(trial: Trial) -> None:
    """A backup of the server is restored: it has forgotten what it acknowledged."""
    file = trial.folder / "backup"
    with open_store(trial.server.home) as store:
        store.backup(file)

    def happen() -> None:
        with open_store(trial.server.home) as store:
            config = store.config
        restore(config, file)

    said = trial.push(happen)
    trial.check("a changed target", said, "another store")


def go_offline(trial: Trial) -> None:
    """The server is gone for half an hour of the machine's clock, with pushes after imports."""
    trial.server.stop()
    clock = [0]
    told, tries, before = None, 0, client._now
    client._now = lambda: clock[0]
    try:
        for minute in range(0, OFFLINE_MINUTES, IMPORT_MINUTES):
            clock[0] = minute * MINUTE_MS
            with open_store(trial.home) as store:
                client.push_after_import(store)
                told = read_status(store).trouble
                tries += told is not None
        trial.server.start()
        clock[0] = OFFLINE_MINUTES * MINUTE_MS
        with open_store(trial.home) as store:
            client.push_after_import(store)
            is_reported = read_status(store).trouble is None
    finally:
        client._now = before
    if tries != OFFLINE_MINUTES // IMPORT_MINUTES or not is_reported:
        trial.score.add("silent", f"{tries} pushes of imports were tried and reported")
    trial.check("30 minutes offline", told, "cannot be reached")


def fill_disk(trial: Trial) -> None:
    """The file system of the server's tables becomes full, and has space again later."""
    assert trial.disk is not None
    ballast = trial.disk / "ballast"

    def happen() -> None:
        with ballast.open("wb") as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
                file.flush()

    said = trial.push(happen)
    ballast.unlink()
    trial.check("a full disk", said, "full")


KINDS = (revoke, fill_queue, change_target, go_offline, fill_disk)
