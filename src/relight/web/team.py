"""The addresses that machines push to, and the process that derives what they pushed.

A push is answered after its commit. Its rows are derived by another process, as an import is, so
requests wait for no derivation and whatever a tape contains, the server answers.
"""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from relight.config import Config
from relight.errors import RefusedValueError, RelightError, StoreError
from relight.intake.importing import PIECE_SECONDS
from relight.intake.joining import describe_backlog
from relight.intake.retention import prune_daily
from relight.intake.sealing import describe_error
from relight.intake.take import TARGET, Deriver, QueueFullError, join, leave, take
from relight.intake.watching import WatchReport, open_watched
from relight.intake.wire import MOST_BYTES, NAME, VERSIONS, Joined, JoinRequest, Push, Pushed
from relight.intake.workers import Workers
from relight.store import Store, open_store
from relight.store.derive.rollup import add_up_days
from relight.store.members import CopiedHomeError, Member, check_marks
from relight.store.team import read_own_id
from relight.store.write.pushed import BadPartError, read_backlog
from relight.web.guard import JSON, MEMBER, ErrorResponse
from relight.web.parameters import NoParameters
from relight.web.request import RequestError
from relight.web.site import Site
from relight.web.team_jobs import JOB_ACTIONS, TeamAction, TeamRequest
from relight.web.watch import WatchProcess, end_with_server, make_reporter

T = TypeVar("T")
R = TypeVar("R")
DERIVER = "relight.web.team:run_deriver"
# threads that write to PostgreSQL
WRITERS = 2
# a process that derives gives way to the one that acknowledges
NICENESS = 10
# with less space on the disk, nothing more is taken
LEAST_FREE = 256 << 20
BUSY_SECONDS, FULL_SECONDS = 10, 300
IDLE_SECONDS = 0.2
FAILED_SECONDS = 5.0
# between two looks whether a day has passed since the last pruning
PRUNE_SECONDS = 600.0


class Health(Struct, frozen=True):
    """The health of the server, and how far it is behind what was pushed."""

    status: str
    behind: int
    behind_seconds: float
    failed: int


class TeamDoor:
    """The threads that write what machines push, each with its own connection.

    SQLite has one writer. On PostgreSQL one message is redacted while another one is committed.
    """

    def __init__(self, config: Config) -> None:
        self._home = config.home
        self._count = WRITERS if config.store.url else 1
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="relight-team")
        self._stores: SimpleQueue[Store] = SimpleQueue()

    def start(self) -> None:
        for _ in range(self._count):
            store = open_store(self._home)
            # an acknowledged part must outlive a power failure
            store.keep_up("sync")
            self._stores.put(store)

    def close(self) -> None:
        self._threads.shutdown()
        while not self._stores.empty():
            self._stores.get().close()

    async def run(self, action: Callable[[Store], T]) -> T:
        """Return the action's result."""

        def act() -> T:
            store = self._stores.get()
            try:
                return action(store)
            finally:
                self._stores.put(store)

        return await asyncio.get_running_loop().run_in_executor(self._threads, act)


class Team:
    """The parts of a team's server besides its dashboard: the addresses, and the deriver."""

    def __init__(self, site: Site, *, is_deriving: bool = True) -> None:
        self._site = site
        self._door = TeamDoor(site.config)
        # on SQLite a second one would derive the same once more
        count = site.config.serve.derivers if site.config.store.url else 1
        self._derivers = [
            WatchProcess(site.config.home, target=DERIVER, title="the deriver")
            for _ in range(count if is_deriving else 0)
        ]

    def routes(self) -> list[Route]:
        return [team_route(self._site, self._door, one) for one in TEAM_ACTIONS]

    def start(self) -> None:
        self._door.start()
        for deriver in self._derivers:
            deriver.start()

    def close(self) -> None:
        for deriver in self._derivers:
            deriver.close()
        self._door.close()


class LeftMachine(Struct, frozen=True):
    """The number of sessions that are gone with a machine."""

    sessions: int


def push_tapes(store: Store, request: TeamRequest, push: Push) -> Pushed:
    """Take parts of the tape, outcomes, runs, uses of skills and forgotten sessions of a machine.

    The response is sent after the commit. Sending again changes nothing.
    """
    # read each time: a backup may be restored meanwhile
    if request.store_id != read_own_id(store):
        raise RequestError(
            409, "the server has another store than the one that this machine joined"
        )
    return take(store, request.member, request.find_machine(store), push)


def join_team(store: Store, request: TeamRequest, asked: JoinRequest) -> Joined:
    """Add a machine of the token's person, or change its name and what it shares."""
    if not NAME.fullmatch(asked.name):
        raise RequestError(400, f"{asked.name!r} is not a name of a machine", "see --as")
    return join(store, request.member, asked)


def delete_machine(store: Store, request: TeamRequest, _: NoParameters) -> LeftMachine:
    """Delete everything that a machine has pushed; other machines keep what they pushed too."""
    machine = request.find_machine(store)
    check_marks(machine, request.marks)
    return LeftMachine(leave(store, machine))


# the addresses that machines use, in MessagePack
TEAM_ACTIONS = (
    TeamAction("POST", "/api/v1/tapes", push_tapes, Push, is_push=True),
    TeamAction("POST", "/api/v1/join", join_team, JoinRequest),
    TeamAction("DELETE", "/api/v1/machine", delete_machine),
    *JOB_ACTIONS,
)


def team_route(site: Site, door: TeamDoor, action: TeamAction) -> Route:
    async def respond(request: Request) -> Response:
        body = await _read(request, action.body)
        if action.is_push:
            _check_space(site)
        headers = request.headers
        member: Member = request.scope[MEMBER]
        marks = headers.get("x-relight-marks", "").split()
        run = request.path_params.get("run", "")
        machine, store_id = (headers.get(f"x-relight-{name}", "") for name in ("machine", "store"))
        sent = TeamRequest(member, machine, store_id, marks, run)
        return JSON(await door.run(lambda store: action.act(store, sent, body)))

    return Route(action.path, _guarded(respond), methods=[action.method])


def health_route(site: Site) -> Route:
    """The address for monitors: it needs no token and shows nothing of the record."""

    async def respond(_: Request) -> Response:
        try:
            backlog = await site.readers.read(read_backlog)
        except StoreError as error:
            return _refuse(503, error)
        return JSON(Health("ok", *astuple(describe_backlog(backlog, time.time()))))

    return Route("/healthz", respond, methods=["GET"])


def _guarded(
    act: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return the route with the responses by which a client knows what to do."""

    async def respond(request: Request) -> Response:
        try:
            return await act(request)
        except WireVersionError as error:
            return _refuse(409, error, versions=VERSIONS)
        except CopiedHomeError as error:
            return _refuse(409, error, copied=True)
        except QueueFullError as error:
            return _refuse(429, error, BUSY_SECONDS)
        except DiskFullError as error:
            return _refuse(429, error, FULL_SECONDS)
        except (RefusedValueError, OverflowError):
            return _refuse(422, BadPartError("the message has a value that no row can have"))
        except StoreError as error:
            is_full = "full" in error.message
            return _refuse(429 if is_full else 503, error, FULL_SECONDS if is_full else 10)
        except BadPartError as error:
            return _refuse(422, error)

    return respond


class WireVersionError(RelightError):
    """A message of a version that this server does not take."""


class DiskFullError(RelightError):
    """There is too little space to take more."""


class TeamRefusal(ErrorResponse, frozen=True):
    """A refused message: the versions that are taken here, or that the home was copied."""

    versions: tuple[int, ...] | UnsetType = UNSET
    copied: bool | UnsetType = UNSET


def _refuse(
    status: int, error: RelightError, wait_seconds: int | None = None, **more: Any
) -> Response:
    headers = {} if wait_seconds is None else {"Retry-After": str(wait_seconds)}
    return JSON(TeamRefusal(error.message, error.hint, **more), status, headers=headers)


def _check_version(request: Request) -> None:
    sent = request.headers.get("x-relight-wire", "")
    if sent not in map(str, VERSIONS):
        raise WireVersionError(
            f"wire version {sent[:20] or 'unknown'} is not taken here",
            f"this server takes {', '.join(map(str, VERSIONS))}",
        )


def _check_space(site: Site) -> None:
    if shutil.disk_usage(site.config.home).free < LEAST_FREE:
        raise DiskFullError("the disk of the server is full", "free some space there")


async def _read(request: Request, kind: type[R]) -> R:
    """Return the message in a request's body; raise if it is too large or none."""
    _check_version(request)
    if kind is NoParameters:
        return kind()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise RequestError(
                413, f"a message has more than {MOST_BYTES:,} bytes", "send less at once"
            )
    try:
        return msgspec.msgpack.decode(bytes(body), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(400, f"the message cannot be read: {error}") from error


def run_deriver(home: str) -> None:
    """Derive what machines push, for the server that started this process, until it ends."""
    report = make_reporter(sys.stdout.buffer)
    wait = end_with_server()
    if hasattr(os, "nice"):  # Windows has none
        os.nice(NICENESS)
    prune_at = 0.0
    while True:
        try:
            with (
                open_watched(home) as store,
                Workers(1, TARGET, message_seconds=PIECE_SECONDS) as pool,
            ):
                deriver = Deriver(store, pool)
                while True:
                    done = deriver.run()
                    report(WatchReport("live"))
                    if not done:
                        add_up_days(store)
                        if time.time() > prune_at:
                            prune_at = time.time() + PRUNE_SECONDS
                            prune_daily(store, now=int(time.time() * 1000))
                        wait(IDLE_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next try may work
            report(WatchReport("failing", describe_error(error)))
            wait(FAILED_SECONDS)
