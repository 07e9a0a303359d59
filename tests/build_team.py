"""A server of a team in this process, and machines that push to it without a network."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from starlette.testclient import TestClient

import build
from relight.intake import joining
from relight.intake.http_line import Answer
from relight.intake.push import PushReport, push
from relight.intake.take import Deriver
from relight.intake.team_client import Line
from relight.intake.wire import Share
from relight.reports.totals import report
from relight.store import Store
from relight.store.members import add_person, make_token
from relight.store.rights import allow_projects
from relight.store.visibility import EVERYTHING
from relight.web.app import create_app

URL = "http://127.0.0.1:7717"
# stores of machines, closed with their server
_opened: list[Store] = []


class DirectLine(Line):
    """A line to an application in this process; `cut` may raise before or after a request."""

    def __init__(self, client: TestClient, token: str) -> None:
        super().__init__(URL, token)
        self.token = token
        self.client = client
        self.cut: Callable[[str, int], None] = lambda when, number: None
        self.number = 0
        self.sent: list[bytes] = []

    def exchange(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> Answer:
        self.number += 1
        self.cut("before", self.number)
        self.sent.append(data)
        found = self.client.request(method, path, content=data, headers=dict(headers))
        self.cut("after", self.number)
        return Answer(found.status_code, dict(found.headers.items()), found.content)


class Office:
    """The server's home, its application, and its store."""

    def __init__(self, folder: Path, client: TestClient, store: Store) -> None:
        self.folder = folder
        self.client = client
        self.store = store
        self.tokens: dict[str, str] = {}

    def add(self, person: str, *scopes: str, sees: Collection[str] = (EVERYTHING,)) -> str:
        """Add a person, who sees everything unless the test says otherwise; return a token."""
        add_person(self.store, person)
        allow_projects(self.store, person, sees)
        return make_token(self.store, person, scopes or ("push", "read"))

    def line(self, token: str) -> DirectLine:
        return DirectLine(self.client, token)

    def derive(self) -> None:
        """Derive everything that waits."""
        deriver = Deriver(self.store)
        while deriver.run():
            pass

    def by(self, *keys: str) -> dict[tuple[str | None, ...], tuple[int, int | None]]:
        """Sessions and turns by these keys of a report."""
        rows = report(self.store, keys).rows
        return {tuple(row.key(key) for key in keys): (row.sessions, row.turns) for row in rows}


@contextmanager
def open_office(folder: Path) -> Iterator[Office]:
    """A server of a team whose pushes are derived when the test says so."""
    folder.mkdir(parents=True, exist_ok=True)
    with build.open_home(folder) as store:
        app = create_app(store.config.home, is_team=True, is_deriving=False)
        with TestClient(app, base_url=URL, follow_redirects=False) as client:
            yield Office(folder, client, store)
    while _opened:
        _opened.pop().close()


class Laptop:
    """A machine with its own store, and its line to the server."""

    def __init__(self, folder: Path, name: str, line: DirectLine) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.name = name
        self.line = line
        self.open()

    def open(self) -> None:
        """Open the store, which is a file, whatever the server has."""
        self.store = build.open_home(self.folder, is_file=True)
        _opened.append(self.store)

    def join(self, share: Share = "tapes", **options: list[str]) -> None:
        joining.join(
            self.store, URL, token_file=None, share=share, name=self.name, line=self.line, **options
        )

    def push(self) -> PushReport:
        return push(self.store, line=self.line)

    def leave(self, *, forget: bool) -> int | None:
        return joining.leave(self.store, forget=forget, line=self.line)
