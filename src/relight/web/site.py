"""State that all requests share: store readers, templates, the secret, and cached responses.

A response need not be built again while the store stays the same.
"""

import asyncio
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from mimetypes import guess_type
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from relight.config import Config, find_home, read_config
from relight.store import Store, open_reader, open_store
from relight.store.changes import identify, make_watcher
from relight.store.members import Member, find_member
from relight.store.members import make_cookie as make_member_cookie
from relight.store.rights import HOUR_MS, note_reads
from relight.store.visibility import Viewer
from relight.web.filters import NARROWING, Filters
from relight.web.guard import MEMBER, is_same, make_cookie
from relight.web.pages import PAGES
from relight.web.rendering import make_environment
from relight.web.token_checks import TokenChecks
from relight.web.watch import WatchProcess

LARGEST_BYTES = 8_000_000
# a response may also depend on today's date
OLDEST_SECONDS = 20.0
# While an import writes, the version changes all the time. A slow response is then rebuilt less
# often, so that no address takes more than a tenth of a processor.
TIMES_AS_LONG, OUTDATED_SECONDS = 10, 10.0
# the path, the query, and the rights of the token that asks
Key = tuple[str, bytes, tuple[int, bool] | None]
T = TypeVar("T")
THREADS = 4
# a change waits this long for an import
WRITE_SECONDS = 10.0
STATIC = Path(__file__).parent / "static"
FOREVER = "public, max-age=31536000, immutable"


class CachedResponse(Struct, frozen=True):
    """A cached response: store version, creation time, build time."""

    version: str
    created_at: float
    took: float
    response: Response


class ResponseCache:
    """The newest responses by address; simultaneous requests for the same one share a build."""

    def __init__(self) -> None:
        self._cached: OrderedDict[Key, CachedResponse] = OrderedDict()
        self._bytes = 0
        self._building: dict[Key, asyncio.Future[Response]] = {}

    async def respond(
        self, request: Request, version: str, build: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Return the cached response to this address, else a new one; a forced reload skips it."""
        member = request.scope.get(MEMBER)
        viewer = None if member is None else (member.person_id, member.may("admin"))
        key = (request.url.path, request.scope["query_string"], viewer)
        is_forced = "no-cache" in request.headers.get("cache-control", "")
        cached = None if is_forced else self._cached.get(key)
        if cached is not None and _is_fresh(cached, version):
            self._cached.move_to_end(key)
            return cached.response
        building = self._building.get(key)
        if building is None:
            began = time.monotonic()
            building = asyncio.ensure_future(build())
            self._building[key] = building
            building.add_done_callback(lambda done: self._store(key, version, began, done))
        # a client that disconnects must not cancel the build for the others
        return await asyncio.shield(building)

    def clear(self) -> None:
        """Drop everything: a change made by this process must show at once."""
        self._cached.clear()
        self._building.clear()
        self._bytes = 0

    def _store(
        self, key: Key, version: str, began: float, done: "asyncio.Future[Response]"
    ) -> None:
        is_current = self._building.get(key) is done
        if is_current:
            del self._building[key]
        if done.cancelled() or done.exception() is not None or not is_current:
            return
        response = done.result()
        if response.status_code != 200 or len(response.body) > LARGEST_BYTES // 4:
            return
        if key in self._cached:
            self._bytes -= len(self._cached.pop(key).response.body)
        now = time.monotonic()
        self._cached[key] = CachedResponse(version, now, now - began, response)
        self._bytes += len(response.body)
        while self._bytes > LARGEST_BYTES:
            _, oldest = self._cached.popitem(last=False)
            self._bytes -= len(oldest.response.body)


def _is_fresh(cached: CachedResponse, version: str) -> bool:
    age = time.monotonic() - cached.created_at
    if cached.version == version:
        return age < OLDEST_SECONDS
    return age < min(cached.took * TIMES_AS_LONG, OUTDATED_SECONDS)


class Site:
    """The dashboard of one home folder."""

    def __init__(
        self,
        home: str | Path | None,
        *,
        token: str | None = None,
        is_watching: bool = False,
        is_team: bool = False,
    ) -> None:
        # creates or migrates the database, which readers cannot do
        with open_store(home) as store:
            timezone = store.timezone
        self.config = read_config(find_home(home))
        self.token = token
        self.is_team = is_team
        self.token_checks = TokenChecks()
        self.readers = Readers(self.config)
        self.watcher = make_watcher(self.config)
        self.watch = WatchProcess(self.config.home) if is_watching else None
        self.cache = ResponseCache()
        self.static_files = StaticFiles()
        self.templates = make_environment(timezone)
        self.templates.globals |= {
            "pages": PAGES,
            "static": self.static_files.address,
            "narrowing": NARROWING,
        }
        # only our own pages contain it, and every change requires it
        self.secret = secrets.token_urlsafe(24)
        # person, session and hour of the reads of tapes that the store has
        self._noted: set[tuple[int, int, int]] = set()

    def start(self) -> None:
        if self.watch is not None:
            self.watch.start()

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()
        self.readers.close()
        self.watcher.close()

    async def read(self, request: Request, query: Callable[[Store], T]) -> T:
        """Return the query's result as far as the member who sent the request may see it.

        Tapes that a member read are noted before the result is given away.
        """
        member: Member | None = request.scope.get(MEMBER)
        if member is None:
            return await self.readers.read(query)
        tapes: set[int] = set()

        def run(store: Store) -> T:
            store.tapes_read = tapes
            try:
                return query(store)
            finally:
                store.tapes_read = None

        viewer = None if member.may("admin") else Viewer(member.person_id)
        found = await self.readers.read(run, viewer)
        await self._note_reads(member, tapes)
        return found

    async def _note_reads(self, member: Member, tapes: set[int]) -> None:
        """Note who read which tapes, once an hour: a page that is open is read all the time."""
        hour = int(time.time() * 1000) // HOUR_MS
        self._noted = {one for one in self._noted if one[2] == hour}
        new = {one for one in tapes if (member.person_id, one, hour) not in self._noted}
        if not new:
            return

        def write() -> None:
            with open_store(self.config.home, wait_seconds=WRITE_SECONDS) as store:
                note_reads(store, member.person_id, new)

        await run_in_threadpool(write)
        self._noted |= {(member.person_id, one, hour) for one in new}

    async def find_member(self, token: str) -> Member | None:
        """Return the member of a token or cookie, as the store has it now."""
        if not token:
            return None
        return await self.readers.read(lambda store: find_member(store, token))

    async def sign_in(self, token: str) -> str | None:
        """Return the cookie of a token; None if it is wrong."""
        if self.is_team and (member := await self.find_member(token)):
            return make_member_cookie(member, token)
        if self.token is not None and is_same(token, self.token):
            return make_cookie(self.token)
        return None

    def render(self, template: str, *, version: str, filters: Filters, **context: Any) -> str:
        """Return a page rendered from its template, `context` and the common names."""
        return self.templates.get_template(template).render(
            link=filters.link, filters=filters, secret=self.secret, version=version, **context
        )


class Readers:
    """Threads that read the store, each with its own read-only connection.

    There are only a few: more would wait for each other.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._start()

    def _start(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="relight-reader")
        self._own = threading.local()
        self._opened: list[Store] = []

    def close(self) -> None:
        """Finish the reads in progress and close all connections.

        Later reads open new ones: an application may be started more than once.
        """
        self._threads.shutdown()
        for store in self._opened:
            store.close()
        self._start()

    async def read(self, query: Callable[[Store], T], viewer: Viewer | None = None) -> T:
        """Return the query's result as of one moment; of a viewer, by the rows that they see."""
        run = asyncio.get_running_loop().run_in_executor
        return await run(self._threads, self._run, query, viewer)

    def _run(self, query: Callable[[Store], T], viewer: Viewer | None) -> T:
        file = identify(self.config)
        store: Store | None = getattr(self._own, "store", None)
        if store is None or self._own.file != file:
            if store is not None:
                self._opened.remove(store)
                store.close()
            store = self._own.store = open_reader(self.config)
            self._opened.append(store)
            self._own.file = file
        with store.snapshot(viewer):
            return query(store)


class StaticFiles:
    """Scripts, styles and images, cached by browsers until they change."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, bytes, str]] = {}

    def address(self, name: str) -> str:
        """Return a file's address with a hash of its content."""
        return f"/static/{name}?v={self._read(name)[1]}"

    async def respond(self, request: Request) -> Response:
        try:
            content, digest = self._read(request.path_params["name"])
        except FileNotFoundError:
            raise HTTPException(404) from None
        has_digest = request.query_params.get("v") == digest
        headers = {"ETag": f'"{digest}"', "Cache-Control": FOREVER if has_digest else "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        kind, _ = guess_type(request.path_params["name"])
        return Response(content, headers=headers, media_type=kind or "application/octet-stream")

    def _read(self, name: str) -> tuple[bytes, str]:
        # a requested name is any text; only names listed in the folder are opened
        if name not in self._files and STATIC / name not in STATIC.iterdir():
            raise FileNotFoundError(name)
        path = STATIC / name
        modified = path.stat().st_mtime_ns
        file = self._files.get(name)
        if file is None or file[0] != modified:
            content = path.read_bytes()
            file = (modified, content, blake2b(content, digest_size=8).hexdigest())
            self._files[name] = file
        return file[1:]
