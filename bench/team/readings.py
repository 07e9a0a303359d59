"""Every reading of two stores, compared: reports, addresses of the API, pages and their links.

What is read comes from the tables that the program itself has (`KEYS`, `QUERIES`, `PAGES`), and
pages are followed from link to link: a new key, address or page is compared without a change here.
A new parameter of the API needs values in `find_values`; without them the comparison raises.
"""

import itertools
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
from msgspec import Struct
from starlette.testclient import TestClient

from relight.judging.kinds import Category, TaskType
from relight.reports.totals import KEYS, SORTS, report
from relight.sources import SOURCES
from relight.store import Store
from relight.store.queries.failures import FAILURE_KEYS
from relight.store.queries.filters import Filter
from relight.web.api import QUERIES, Query
from relight.web.app import create_app
from relight.web.filters import NAMES
from relight.web.pages import PAGES
from relight.web.parameters import KEY_LISTS

ADDRESS = "http://127.0.0.1:7717"
# describes the engine and its files, not the record
OF_THE_ENGINE = ("/api/doctor",)
LINK = re.compile(r'(?:href|src|data-[a-z]+)="(/(?!static/|api/|login)[^"#]*)')
PATHS = [
    re.compile(re.sub(r"{\w+:path}", ".+", re.sub(r"{\w+}", "[^/]+", page.path))) for page in PAGES
]
# folders, secrets and versions of the store, times of the reading
VARIABLE = re.compile(
    r'/(?:sqlite|postgres)/relight|(?<=content=")[^"]{8,}(?=")|(?<=value=")[\w-]{32}(?=")|\?v=\w+'
    r'|"(?:until|exported_at)":"[^"]*Z"'
)
# relative times may pass a minute between two readings
TRIES = 3
PAIRS = sorted({pair for keys in KEY_LISTS for pair in itertools.combinations(keys, 2)})
Values = Mapping[str, Sequence[str]]


class Difference(Struct, frozen=True):
    """A reading that differs, with the place where it begins to."""

    what: str
    local: str
    server: str


class Reader:
    """A store's own dashboard."""

    def __init__(self, home: Path) -> None:
        app = create_app(home)
        self._client = TestClient(app, base_url=ADDRESS, follow_redirects=False)

    def __enter__(self) -> "Reader":
        self._client.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__(None, None, None)

    def read(self, address: str) -> str:
        """Return the status and the text of an address, without what names this store."""
        found = self._client.get(address, headers={"Cache-Control": "no-cache"})
        assert found.status_code < 500, f"{address}: {found.text[:500]}"
        return f"{found.status_code} {VARIABLE.sub('', found.text)}"

    def list_rows(self, address: str, list_name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._client.get(address).json()[list_name]
        return rows


def compare_readings(
    local: Store, server: Store, *, most: int, first_only: int | None = None
) -> tuple[int, list[Difference]]:
    """Read everything from both; return the number of readings and those that differ.

    Of links, and of sessions and other names in addresses, which differ in their values only, so
    `most` are read. `first_only` ends it after so many addresses.
    """
    found: list[Difference] = []
    count = 0
    for by in [(), *((key,) for key in KEYS), *PAIRS]:
        texts = [repr(report(store, by, Filter())) for store in (local, server)]
        count += 1
        found += find_difference(f"report by {','.join(by)}", *texts)
    with Reader(local.config.home) as first, Reader(server.config.home) as second:
        for address, text in itertools.islice(walk(first, most=most), first_only):
            count += 1
            other = second.read(address)
            for _ in range(TRIES):
                if text == other:
                    break
                text, other = first.read(address), second.read(address)
            found += find_difference(address, text, other)
    return count, found


def find_difference(what: str, local: str, server: str) -> Iterator[Difference]:
    if local == server:
        return
    place = next(
        (number for number, (a, b) in enumerate(zip(local, server, strict=False)) if a != b),
        min(len(local), len(server)),
    )
    shown = slice(max(place - 80, 0), place + 80)
    yield Difference(what, local[shown], server[shown])


def walk(reader: Reader, *, most: int) -> Iterator[tuple[str, str]]:
    """Yield every address with its text: those of the tables, then the links of pages."""
    values = find_values(reader, most=most)
    addresses = deque(dict.fromkeys([*list_addresses(values), *list_pages(values)]))
    seen, shapes = set(addresses), Counter[str]()
    while addresses:
        address = addresses.popleft()
        text = reader.read(address)
        yield address, text
        for match in LINK.finditer(text):
            link = unescape(match[1])
            shape = find_shape(link)
            if link not in seen and shapes[shape] < most:
                shapes[shape] += 1
                seen.add(link)
                addresses.append(link)


def find_shape(link: str) -> str:
    """Return the page of a link and the names of its parameters, besides those of all pages."""
    parts = urlsplit(link)
    page = next((one.pattern for one in PATHS if one.fullmatch(parts.path)), parts.path)
    return f"{page} {sorted({name for name, _ in parse_qsl(parts.query)}.difference(NAMES))}"


def find_values(reader: Reader, *, most: int) -> Values:
    """Return values for the parameters of the API that are names of things in the store."""

    def list_names(address: str, list_name: str, field: str) -> list[str]:
        rows = reader.list_rows(address, list_name)
        return list(dict.fromkeys(str(row[field]) for row in rows if row[field] is not None))[:most]

    every = "/api/report?since=all&by="
    sessions = "/api/sessions?since=all&limit=500"
    jobs = list_names("/api/jobs", "jobs", "job")
    templates = list_names("/api/templates?state=all", "templates", "name")
    experiments = list_names("/api/experiments/list", "experiments", "name")
    traces = list_names("/api/moa/traces", "traces", "session_id")
    models = list_names(f"{every}model", "rows", "model")
    found = {name: list_names(every + name, "rows", name) for name in ("project", "tool", "skill")}
    quoted = {name: [*some, *(f'"{one}"' for one in some), '""'] for name, some in found.items()}
    return {
        **quoted,
        **{name: list_names(every + name, "rows", name) for name in ("machine", "person")},
        "after": [""],
        "alpha": ["0.1"],
        "category": [*get_args(Category)],
        "experiment": [*experiments, "none"],
        "failure": list_names(f"{every}failure", "rows", "failure"),
        "half_life_days": ["3"],
        "job": [*jobs, "none"],
        "limit": ["1", "7", "100"],
        "margin": ["0.2"],
        "max_examples": ["5"],
        "model": [*models, *(f'"{one}"' for one in models), '""'],
        "models": [",".join(models[:3])],
        "plan": ["1"],
        "q": ["test", '"the tests"', "rou* -fix", "path:src", "tool:bash", "Ünïcode", "日本", "'"],
        "search": ["invoice", "fix te"],
        "session": [
            *list_names(sessions, "sessions", "session_id"),
            *list_names(f"{sessions}&subagents=true", "sessions", "session_id"),
            *traces,
            "none",
        ],
        "since": ["all", "7d", "30d", "2026-10-20", "month"],
        "skill": [*found["skill"], "none"],
        "source": [*list_names(f"{every}source", "rows", "source"), *list(SOURCES)[-1:]],
        "step": ["2", "40"],
        "tags": ["python", "a,b"],
        "task_type": [*get_args(TaskType)],
        "template": [*templates, "none"],
        "tool": [*found["tool"], '""'],
        "top": ["1", "3"],
        "turn": ["1"],
        "until": ["2026-10-25", "yesterday"],
        "version": ["1", "2"],
        "window_days": ["60"],
    }


def list_addresses(values: Values) -> Iterator[str]:
    """Yield every address of the API, with each value of each of its parameters."""
    for query in QUERIES:
        if query.path in OF_THE_ENGINE:
            continue
        fields = msgspec.structs.fields(query.parameters)
        given = {"since": "all"} if any(one.name == "since" for one in fields) else {}
        for needed in fields:
            if needed.required:
                given[needed.name] = values[needed.name][0]
        for path in fill_path(query.path, values):
            yield f"{path}?{urlencode(given)}" if given else path
        some = next(iter(fill_path(query.path, values)))
        for one in fields:
            for value in choose_values(query, one, values):
                yield f"{some}?{urlencode({**given, one.name: value})}"


def fill_path(path: str, values: Values) -> Iterable[str]:
    """Return an address for each name that can stand in its path."""
    name = re.search(r"{(\w+)(:path)?}", path)
    if name is None:
        return [path]
    return [path.replace(name[0], quote(value)) for value in values[name[1]]]


def choose_values(query: Query, field: Any, values: Values) -> Sequence[str]:
    """Return the values of a parameter: those of its type, else those that the store has."""
    if field.name == "by" and query.path == "/api/report":
        return [*KEYS, "day,model", "project,model", "tool,failure"]
    if field.name == "by" and query.path == "/api/failures":
        return [*FAILURE_KEYS, ",".join(FAILURE_KEYS)]
    if field.name == "sort" and query.path == "/api/report":
        return [*SORTS]
    literals = list(find_literals(field.type))
    return literals or values[field.name]


def find_literals(kind: Any) -> Iterator[str]:
    """Yield the words of a type: those of its literals, and `true` for a flag."""
    if kind is bool:
        yield "true"
    elif get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    else:
        for one in get_args(kind):
            yield from find_literals(one)


def list_pages(values: Values) -> Iterator[str]:
    """Yield every page, with the days and filters that all of them take."""
    names = {
        "session": values["session"],
        "words": values["session"],
        "skill": values["skill"],
        "job": values["job"],
        "template": values["template"],
        "experiment": values["experiment"],
        "mixture": values["session"],
    }
    for page in PAGES:
        if "{" in page.path:
            path = page.path.replace("{text}", "prompt")
            for value in names[page.name]:
                yield path.replace("{name:path}", quote(value))
            continue
        yield page.path
        for name in NAMES:
            for value in values[name]:
                yield f"{page.path}?{urlencode({'since': 'all', name: value})}"
