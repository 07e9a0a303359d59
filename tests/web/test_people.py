"""A member of a team sees the rows of their own machines and projects, on both engines."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig

import build
import postgres
from build_team import URL, Laptop, Office, open_office
from relight.errors import StoreError
from relight.intake.retention import derive_from
from relight.store import Store, open_reader
from relight.store.derive.rollup import add_up_days
from relight.store.keep.machines import remove_person
from relight.store.members import find_member, find_person, make_cookie
from relight.store.rights import allow_projects, deny_projects, export_person, list_reads
from relight.store.visibility import HIDDEN, RULES, Viewer
from relight.web.app import create_app
from relight.web.guard import COOKIE
from relight.web.pages import PAGES
from relight.web.routes import DOCUMENT

# in all the words of one person each
MARKS = {"anna": "aardvark", "bob": "wombat", "carol": "zebra"}
KEYS = {
    person: f"1111111{number}-aaaa-4aaa-8aaa-111111111111"
    for number, person in enumerate(MARKS, start=1)
}
PATHS: dict[str, Any] = json.loads(DOCUMENT.read_bytes())["paths"]
READS = [path for path, methods in PATHS.items() if "get" in methods]
# one row of each other table, which nobody but its owner and people who see everything may see
UNPLANTED = {
    *("meta", "price", "model_alias", "stale_day"),  # of no person
    *("person", "machine", "search_words", "token", "member"),
}
EXAMPLES = 4


def write_session(home: Path, person: str) -> None:
    mark = MARKS[person]
    told: Any = {
        "sessionId": KEYS[person],
        "cwd": f"/home/{mark}/{mark}",
        "gitBranch": f"fix/{mark}",
    }
    command = build.tool_use(f"{mark}_1", command=f"cat {mark}.txt")
    edit = build.tool_use(f"{mark}_2", f"mcp__{mark}__edit", file_path=f"/{mark}/a.py")
    lines = [
        build.claude_prompt(f"Feed the {mark} well", **told),
        build.claude_answer(f"msg_{mark}_1", command, at=1, stop="tool_use", **told),
        build.claude_result(f"{mark}_1", f"{mark}: no such file", at=2, is_error=True, **told),
        build.claude_answer(f"msg_{mark}_2", edit, at=3, stop="tool_use", **told),
        build.claude_result(f"{mark}_2", f"the {mark} was fed", at=4, is_error=False, **told),
        build.claude_answer(
            f"msg_{mark}_3", {"type": "text", "text": f"The {mark} is full"}, at=5, **told
        ),
    ]
    build.write_claude(home, lines, name=KEYS[person])


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def office(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Office]:
    """A server with one session of each person; nobody has been allowed another's project."""
    folder = tmp_path_factory.mktemp("people")
    make = {"sqlite": build.make_file_store, "postgres": postgres.make_store}[request.param]
    before, build.make_store = build.make_store, make
    try:
        with open_office(folder / "server") as office:
            build.make_store = build.make_file_store
            for person in MARKS:
                token = office.add(person, "push", "read", "label", sees=())
                office.tokens[person] = token
                write_session(folder / person, person)
                laptop = Laptop(folder / person, f"{MARKS[person]}-laptop", office.line(token))
                build.import_home(laptop.store, folder / person)
                laptop.join()
                laptop.push()
                laptop.store.close()
            office.derive()
            plant(office.store)
            yield office
    finally:
        build.make_store = before
        postgres.free_below(folder)
        shutil.rmtree(folder)


def read_columns(store: Store, table: str) -> list[tuple[str, str]]:
    """Names and types of a table's columns."""
    if store.engine == "sqlite":
        info = store.query(f"pragma table_xinfo({table})")
        return [(row[1], row[2].lower()) for row in info if not row[6]]
    return store.query(
        "select column_name, data_type from information_schema.columns"
        " where table_name = ? and table_schema = 'public' and is_generated = 'NEVER'",
        (table,),
    )


def plant(store: Store) -> None:
    """Write a row of the third person into every table, with the word in each text but days."""
    mark = MARKS["carol"]
    person = find_person(store, "carol")
    ((session,),) = store.query("select id from session where key = ?", (KEYS["carol"],))
    ((machine,),) = store.query("select id from machine where person_id = ?", (person,))
    known = {"session_id": session, "root_id": session, "machine_id": machine, "person_id": person}
    with store.transaction() as database:
        for number, table in enumerate(sorted(set(RULES) - UNPLANTED), start=700):
            values: dict[str, object] = {}
            for name, kind in read_columns(store, table):
                word = "2026-11-15" if name == "day" else f"{mark}{number}"
                value = word if kind == "text" else known.get(name, number)
                values[name] = b"zebra" if kind in ("blob", "bytea") else value
            if table == "run":
                ((values["job_id"],),) = database.execute("select min(id) from job").fetchall()
            names = ", ".join(values)
            marks = ", ".join("?" for _ in values)
            database.execute(
                f"insert into {table} ({names}) values ({marks}) on conflict do nothing",
                list(values.values()),
            )


def test_every_table_has_a_row_that_two_of_them_may_not_see(office: Office) -> None:
    for table in set(RULES) - UNPLANTED:
        assert office.store.has_rows(table), table


def read_as(office: Office, person: str, address: str) -> str:
    found = office.client.get(address, headers={"Authorization": f"Bearer {office.tokens[person]}"})
    assert found.status_code < 500, f"{address}: {found.text[:300]}"
    return found.text


def check_foreign(text: str, person: str, address: str) -> None:
    """Raise if a response has a word of another person, besides what the request itself says."""
    for other, mark in MARKS.items():
        if other != person and mark not in address and KEYS[other] not in address:
            assert mark not in text, f"{person} sees {mark} at {address}"
            assert KEYS[other] not in text, f"{person} sees a session of {other} at {address}"


@pytest.mark.parametrize("person", ["anna", "bob"])
def test_no_table_has_a_foreign_row_for_a_person(office: Office, person: str) -> None:
    viewer = Viewer(find_person(office.store, person))
    with open_reader(office.store.config) as reader, reader.snapshot(viewer):
        seen = {
            table: repr(reader.query(f"select * from {table}"))
            for table in (*RULES, "skill_stats_daily", "skill_run_now")
            if table != "search_words" or reader.engine == "postgres"
        }
    for table, rows in seen.items():
        check_foreign(rows, person, table)
    assert MARKS[person] in seen["session"], "their own they see"
    assert seen["budget"] == seen["alarm"] == seen["token"] == "[]"


@pytest.mark.parametrize("path", READS)
def test_no_address_of_the_document_shows_a_person_a_foreign_row(office: Office, path: str) -> None:
    """Two tokens send each generated request, and each with the names of the other's session."""
    config = SchemathesisConfig.from_dict(
        {"generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none"}}
    )
    app = create_app(office.store.config.home, hosts=["testserver"])
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, config=config)
    operation = schema[path]["GET"]
    names = [f"claude-code:{KEYS[person]}" for person in MARKS] + list(KEYS.values())

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy(), name=st.sampled_from(names))
    def ask(case: Any, name: str) -> None:
        for values in ({}, dict.fromkeys(case.path_parameters or {}, name)):
            sent = case.as_transport_kwargs(base_url=URL) if not values else None
            address = path
            for key, value in (values or case.path_parameters or {}).items():
                address = address.replace(f"{{{key}}}", str(value))
            query = (sent or {}).get("params") or {}
            for person in ("anna", "bob"):
                found = office.client.get(
                    address,
                    params=query,
                    headers={"Authorization": f"Bearer {office.tokens[person]}"},
                )
                assert found.status_code < 500, (address, query, found.text[:300])
                check_foreign(found.text, person, f"{address}{query}")
                if values and "{session}" in path and KEYS[person] not in name:
                    assert found.status_code in (403, 404), "as if there were none"

    ask()


def test_no_page_shows_a_person_a_foreign_row(office: Office) -> None:
    names = {"session": KEYS["bob"], "skill": "wombat", "words": KEYS["bob"]}
    for page in PAGES:
        address = page.path.replace("{text}", "prompt").replace(
            "{name:path}", names.get(page.name, MARKS["bob"])
        )
        for end in ("", "?since=all"):
            text = read_as(office, "anna", f"{address}{end}")
            if "{" not in page.path:
                check_foreign(text, "anna", f"{address}{end}")
            assert "the wombat was fed" not in text
    assert "Feed the aardvark well" in read_as(office, "anna", "/sessions?since=all")


def test_search_finds_no_foreign_word_and_does_not_say_that_there_is_one(office: Office) -> None:
    foreign, unknown = (
        read_as(office, "anna", f"/api/search?q={word}").replace(word, "…")
        for word in ("wombat", "okapi")
    )
    assert foreign == unknown
    own = json.loads(read_as(office, "anna", "/api/search?q=aardvark"))
    assert own["hits"]


def test_failures_of_some_projects_are_the_same_after_days_are_added_up(office: Office) -> None:
    address = "/api/failures?since=all&by="
    before = [json.loads(read_as(office, "anna", address + by)) for by in ("tool,kind", "length")]
    assert all(one["failures"] for one in before)
    add_up_days(office.store, before="2999-01-01")
    assert office.store.query("select count(*) from failure_day where what = 'kind'") != [(0,)]
    office.client.get("/", headers={"Cache-Control": "no-cache"})
    after = [json.loads(read_as(office, "anna", address + by)) for by in ("tool,kind", "length")]
    assert after == before


def count_sessions(office: Office, person: str) -> int:
    return len(json.loads(read_as(office, person, "/api/sessions?since=all"))["sessions"])


def test_an_allowed_project_is_seen_until_it_is_denied(office: Office) -> None:
    assert count_sessions(office, "anna") == 1
    for name in ("wombat", "/home/wombat/wombat", "*"):
        allow_projects(office.store, "anna", [name])
        office.client.get("/", headers={"Cache-Control": "no-cache"})
        with open_reader(office.store.config) as reader:
            viewer = Viewer(find_person(reader, "anna"))
            with reader.snapshot(viewer):
                found = {key for (key,) in reader.query("select key from session")}
        assert KEYS["bob"] in found, name
        assert (KEYS["carol"] in found) == (name == "*")
        assert deny_projects(office.store, "anna", [name]) == 1
    for name in ("ombat", "wombat/", "/home/wombat"):
        allow_projects(office.store, "anna", [name])
        with open_reader(office.store.config) as reader, reader.snapshot(viewer):
            found = {key for (key,) in reader.query("select key from session")}
        assert (KEYS["bob"] in found) == (name == "wombat/"), name
        deny_projects(office.store, "anna", [name])


def test_without_a_person_the_reading_role_of_postgresql_reads_nothing(office: Office) -> None:
    if office.store.engine == "sqlite":
        pytest.skip("SQLite has no roles")
    with open_reader(office.store.config) as reader, reader.snapshot():
        with reader.reading() as database:
            database.execute("set local role relight_reader")
        with pytest.raises(StoreError, match=r"relight\.person"):
            reader.query("select 1 from session")
    ((may_bypass,),) = office.store.query(
        "select rolbypassrls or rolsuper from pg_roles where rolname = 'relight_reader'"
    )
    assert not may_bypass


def test_a_connection_that_had_a_person_reads_no_table_without_one(office: Office) -> None:
    if office.store.engine == "sqlite":
        pytest.skip("SQLite has no roles")
    with open_reader(office.store.config) as reader:
        with reader.snapshot(Viewer(find_person(office.store, "anna"))):
            assert reader.has_rows("price")
        for table in (name for name, rule in RULES.items() if rule != HIDDEN):
            with reader.snapshot(), reader.reading() as database:
                database.execute("set local role relight_reader")
                with pytest.raises(StoreError, match=r"relight\.person"):
                    database.execute(f"select * from {table}")


def test_one_connection_reads_for_one_person_after_another(office: Office) -> None:
    """Also a plan that the database has kept from another person shows nothing of theirs."""
    count = "select count(*) from session join turn on turn.session_id = session.id"
    people = {person: Viewer(find_person(office.store, person)) for person in ("anna", "bob")}
    with open_reader(office.store.config) as reader:
        for person in ("anna", "bob", "anna", "bob"):
            with reader.snapshot(people[person]):
                assert reader.query("select key from session") == [(KEYS[person],)]
                seen = repr([reader.query(f"select * from {table}") for table in ("turn", "run")])
            check_foreign(seen, person, "one connection")
        if reader.engine == "postgres":
            with reader.reading() as database:
                database.execute("set plan_cache_mode = force_generic_plan")
                with reader.snapshot(people["anna"]):
                    database.execute(f"prepare kept as {count}")
                    assert database.execute("execute kept").fetchall() == [(3,)]
                with reader.snapshot(people["bob"]):
                    assert database.execute("execute kept").fetchall() == [(0,)]


def label(office: Office, person: str, session: str) -> int:
    """Label a session, as a program does: with the token and without the secret of pages."""
    return office.client.post(
        f"/api/sessions/{session}/label",
        json={"outcome": "success"},
        headers={"Authorization": f"Bearer {office.tokens[person]}"},
    ).status_code


def test_a_browser_that_is_signed_in_needs_the_secret_of_a_page_for_a_change(
    office: Office,
) -> None:
    member = find_member(office.store, office.tokens["anna"])
    assert member is not None
    cookie = f"{COOKIE}={make_cookie(member, office.tokens['anna'])}"
    address = f"/api/sessions/{KEYS['anna']}/label"
    for more in ({}, {"Authorization": "Basic YTpi"}):
        headers = {"Cookie": cookie, **more}
        found = office.client.post(address, json={"outcome": "success"}, headers=headers)
        assert (found.status_code, "secret" in found.text) == (403, True)


def test_wrong_tokens_of_others_behind_the_same_proxy_hold_up_no_member(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.web.token_checks.PAUSE_SECONDS", 60.0)
    monkeypatch.setattr("relight.web.token_checks.MOST_WAITING", 0)

    def ask(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return office.client.get("/api/overview", headers=headers).status_code

    def sign_in(token: str) -> int:
        return office.client.post("/login", data={"token": token}).status_code

    for attempt, welcome in ((ask, 200), (sign_in, 303)):
        found = [attempt(one) for one in ("wrong", "wrong too", office.tokens["anna"])]
        assert found[1:] == [429, welcome]


@pytest.mark.parametrize("token", ["\xb2.x", "9" * 30 + ".x", "1.x", "."])
def test_what_is_no_token_is_refused_and_no_error(office: Office, token: str) -> None:
    for headers in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"{COOKIE}={token}"}):
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        found = office.client.get("/api/overview", headers=encoded)
        assert found.status_code in (401, 429)


def test_a_person_labels_their_own_sessions_and_those_of_projects_they_lead(
    office: Office,
) -> None:
    assert label(office, "anna", KEYS["anna"]) == 200
    assert label(office, "anna", KEYS["bob"]) == 404
    assert label(office, "anna", "claude-code:1111111") == 200, "the only one that they see"
    allow_projects(office.store, "anna", ["wombat"])
    assert label(office, "anna", KEYS["bob"]) == 403
    allow_projects(office.store, "anna", ["wombat"], role="lead")
    assert label(office, "anna", KEYS["bob"]) == 200
    deny_projects(office.store, "anna", ["wombat"])


def test_who_read_which_tape_is_noted_once_an_hour(office: Office) -> None:
    address = f"/api/sessions/claude-code:{KEYS['carol']}"
    allow_projects(office.store, "bob", ["zebra"])
    for end in ("", "", "/steps"):
        assert "Feed the zebra" in read_as(office, "bob", address + end)
    deny_projects(office.store, "bob", ["zebra"])
    found = [one for one in list_reads(office.store, "carol") if one.person == "bob"]
    assert [one.session for one in found] == [f"claude-code:{KEYS['carol']}"]
    assert list_reads(office.store, "bob")[0].person == "bob"


def test_an_export_has_every_row_of_a_person_and_none_of_others(office: Office) -> None:
    rows = list(export_person(office.store, "bob"))
    text = msgspec.json.encode(rows).decode()
    check_foreign(text.replace("carol", ""), "bob", "export")
    found = {row.table for row in rows}
    assert {"person", "token", "machine", "session", "turn", "tool_call", "tape_part"} <= found
    assert "the wombat was fed" in text
    ((digest,),) = office.store.query(
        "select min(digest) from token where person_id = ?", (find_person(office.store, "bob"),)
    )
    assert digest not in text
    # each row of each table that has the word is in it, but for what is made from the others
    for table in set(RULES) - {"search_words", "tape_part", "meta", "token", "tape_read"}:
        has = repr(office.store.query(f"select * from {table}"))
        assert ("wombat" in has) <= (table in found), table


def test_nothing_of_a_person_is_left_after_the_removal(office: Office) -> None:
    """It is the last test of the module: the person is gone."""
    person = find_person(office.store, "bob")
    ((session,),) = office.store.query("select id from session where key = ?", (KEYS["bob"],))
    remove_person(office.store, "bob", derive_from(office.store))
    for table in RULES:
        if table == "search_words" and office.store.engine == "sqlite":
            continue
        rows = office.store.query(f"select * from {table}")
        assert "wombat" not in repr(rows), table
        assert KEYS["bob"] not in repr(rows), table
        if table != "forgotten":
            assert session not in {value for row in rows for value in row}, table
        columns = [name for name, _ in read_columns(office.store, table)]
        if "person_id" in columns:
            place = columns.index("person_id")
            assert person not in {row[place] for row in rows}, table
