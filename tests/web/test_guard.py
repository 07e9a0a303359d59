"""Access: this machine's browser and holders of the token are served, other sites are not."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import build
import serving
from relight.cli.serve import make_server
from relight.web.actions import ACTIONS
from relight.web.app import create_app
from relight.web.guard import COOKIE, POLICY
from relight.web.request import LARGEST_BODY

TOKEN = "correct-horse-battery-staple"
Names = pytest.mark.parametrize


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guard")
    build.write_claude(folder, build.claude_session())
    with build.open_home(folder) as store:
        build.import_home(store, folder)
        return store.config.home


@pytest.fixture(scope="module")
def locked(home: Path) -> Iterator[TestClient]:
    with serving.make_client(home, token=TOKEN, is_loopback=False) as client:
        yield client


@Names("host", ["127.0.0.1:7717", "localhost:7717", "[::1]:7717", "LOCALHOST", "127.0.0.1:9000"])
def test_this_machine_is_served_by_its_own_names(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


@Names(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:7717",
        "192.168.1.5",
        "",
        "a b",
        "[::",
    ],
)
@Names("path", ["/", "/api/report", "/static/relight.css"])
def test_a_name_that_leads_here_from_outside_is_not_served(
    client: TestClient, host: str, path: str
) -> None:
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 403
    assert "claude" not in answer.text


def test_beyond_this_machine_only_addresses_and_its_own_names_are_served(home: Path) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    options = {"token": TOKEN, "is_loopback": False, "hosts": ["box.lan"]}
    with serving.make_client(home, **options) as client:
        told = {
            host: client.get("/api/live", headers={"Host": host, **bearer}).status_code
            for host in ("192.168.1.5:7717", "[fe80::1]", "box.lan", "evil.example")
        }
    assert told == {"192.168.1.5:7717": 200, "[fe80::1]": 200, "box.lan": 200, "evil.example": 403}


@Names(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8000"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_what_another_site_asks_for_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/api/report", headers=headers).status_code == 403
    secret = serving.read_secret(client)
    sent = client.post("/api/templates/x/restore", headers=headers | {"X-Relight-Secret": secret})
    assert sent.status_code == 403


def test_a_link_on_another_site_may_open_a_page_but_not_send_a_form(client: TestClient) -> None:
    from_outside = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=from_outside).status_code == 200
    assert client.post("/api/templates/x/restore", headers=from_outside).status_code == 403


@Names("action", ACTIONS, ids=lambda action: action.path)
def test_whatever_changes_something_needs_the_secret(client: TestClient, action: object) -> None:
    path = re.sub(r"\{.*?\}", "x", action.path)  # type: ignore[attr-defined]
    for headers in ({}, {"X-Relight-Secret": ""}, {"X-Relight-Secret": "guessed"}):
        told = client.post(path, json={}, headers=headers)
        assert (told.status_code, told.json()["error"]) == (
            403,
            "the secret is missing or outdated",
        )
    form = client.post("/jobs", data={"secret": "guessed", "act": path})
    assert form.status_code == 403
    assert "the secret is missing or outdated" in form.text


@Names(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/api", {}, 404),
        ("POST", "/api", {}, 404),
        ("GET", "/api/none", {}, 404),
        ("GET", "/api/report?by=moon", {}, 400),
        ("POST", "/api/report", {}, 405),
        ("POST", "/api/jobs/x/pause", {}, 403),
        ("GET", "/api", {"Host": "evil.example"}, 403),
        ("GET", "/api/report", {"Host": "evil.example"}, 403),
        ("POST", "/api/jobs/x/pause", {"Origin": "https://evil.example"}, 403),
        ("GET", "/api/report", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", f"/api/report?project={'x' * 40_000}", {}, 414),
    ],
)
def test_every_error_below_the_api_is_json_with_a_hint(
    client: TestClient, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    told = client.request(method, path, headers={"Accept": "text/html", **headers})
    assert (told.status_code, told.headers["Content-Type"]) == (status, "application/json")
    assert set(told.json()) == {"error", "hint"}


def test_the_secret_of_a_page_opens_its_own_server_and_no_other(home: Path) -> None:
    with serving.make_client(home) as one, serving.make_client(home) as other:
        secret = {"X-Relight-Secret": serving.read_secret(one)}
        assert one.post("/api/templates/none/restore", headers=secret).status_code == 404
        assert other.post("/api/templates/none/restore", headers=secret).status_code == 403


def test_a_form_carries_the_secret_and_leads_to_a_page_of_ours(client: TestClient) -> None:
    session = f"claude-code:{build.CLAUDE_SESSION}"
    for following, leads_to in (
        ("/sessions?since=7d", "/sessions?since=7d"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
    ):
        sent = client.post(
            f"/sessions/{session}",
            data={
                "secret": serving.read_secret(client),
                "act": f"/api/sessions/{session}/label",
                "next": following,
                "outcome": "success",
                "why": "",
            },
        )
        assert (sent.status_code, sent.headers["Location"]) == (303, leads_to)
    assert client.get(f"/api/sessions/{session}").json()["outcome"] == "success"


@Names(
    "path", ["/", "/nope", "/api/report", "/api/nope", "/api/report?by=x", "/static/relight.css"]
)
def test_every_answer_says_what_a_browser_may_do_with_it(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert ("no-store" in headers["Cache-Control"]) is not path.startswith("/static/")


def test_a_refusal_says_so_too(client: TestClient) -> None:
    refused = client.get("/", headers={"Host": "evil.example"})
    assert refused.headers["Content-Security-Policy"] == POLICY


@pytest.mark.sqlite("it moves the file")
def test_an_error_of_ours_says_so_too_and_reveals_nothing(home: Path) -> None:
    app = create_app(home)
    client = TestClient(app, base_url=serving.ADDRESS, raise_server_exceptions=False)
    for name in home.glob("relight.db*"):
        name.rename(name.with_name(f"away-{name.name}"))
    try:
        failed = client.get("/api/report")
    finally:
        for name in home.glob("away-*"):
            name.rename(name.with_name(name.name.removeprefix("away-")))
    assert failed.status_code == 503
    assert failed.headers["Content-Security-Policy"] == POLICY
    assert set(failed.json()) == {"error", "hint"}


@Names("path", ["/api", "/api/report", "/api/none"])
def test_a_program_without_the_token_gets_json(locked: TestClient, path: str) -> None:
    told = locked.get(path, headers={"Accept": "text/html"})
    assert (told.status_code, set(told.json())) == (401, {"error", "hint"})


def test_with_a_token_nothing_is_shown_without_it(locked: TestClient) -> None:
    for path in ("/", "/sessions", "/api/report", "/api/live", "/api/secret", "/api/openapi.json"):
        answer = locked.get(path)
        assert answer.status_code == (401 if path.startswith("/api/") else 303)
        assert "relight-secret" not in answer.text
    assert locked.get("/api/report").headers["WWW-Authenticate"] == "Bearer"
    wrong = {"Authorization": f"Bearer {TOKEN}x"}
    assert locked.get("/api/report", headers=wrong).status_code == 401
    assert locked.get("/api/report", headers={"Cookie": f"{COOKIE}={TOKEN}"}).status_code == 401


def test_a_program_shows_the_token_and_needs_no_secret(locked: TestClient) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert locked.get("/api/report", headers=bearer).status_code == 200
    assert locked.post("/api/templates/none/restore", headers=bearer).status_code == 404


def test_a_browser_shows_the_token_once(home: Path) -> None:
    with serving.make_client(home, token=TOKEN) as client:
        asked = client.get("/sessions?since=7d")
        assert asked.headers["Location"] == "/login?next=/sessions%3Fsince%3D7d"
        page = client.get(asked.headers["Location"])
        assert 'value="/sessions?since=7d"' in page.text
        wrong = client.post("/login", data={"token": "guessed", "next": "/"})
        assert wrong.status_code == 403
        right = client.post("/login", data={"token": TOKEN, "next": "/sessions?since=7d"})
        assert (right.status_code, right.headers["Location"]) == (303, "/sessions?since=7d")
        cookie = right.headers["Set-Cookie"]
        assert TOKEN not in cookie
        assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
        assert client.get("/sessions").status_code == 200
        # a cookie comes by itself, so it does not stand for the secret
        assert client.post("/api/templates/none/restore").status_code == 403


def test_the_token_of_a_teams_server_cannot_be_guessed_where_members_sign_in(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.web.token_checks.PAUSE_SECONDS", 60.0)
    monkeypatch.setattr("relight.web.token_checks.MOST_WAITING", 0)
    with serving.make_client(home, token=TOKEN, is_team=True, is_deriving=False) as client:
        found = [client.post("/login", data={"token": one}) for one in ("guessed", TOKEN)]
    assert [one.status_code for one in found] == [403, 429]


def test_wrong_tokens_of_one_client_wait_whatever_it_calls_itself(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.web.token_checks.PAUSE_SECONDS", 60.0)
    monkeypatch.setattr("relight.web.token_checks.MOST_WAITING", 0)
    settings = make_server(create_app(home, token=TOKEN)).config
    settings.load()
    here = ("127.0.0.1", 50_000)
    with TestClient(settings.loaded_app, base_url=serving.ADDRESS, client=here) as client:
        found = [
            client.get("/api/report", headers={"Authorization": "x", "X-Forwarded-For": one})
            for one in ("192.0.2.1", "192.0.2.2")
        ]
    assert [one.status_code for one in found] == [401, 429]


def test_without_a_token_there_is_nothing_to_sign_in_to(client: TestClient) -> None:
    assert client.get("/login").headers["Location"] == "/"


def test_what_is_too_large_is_not_read(client: TestClient) -> None:
    secret = {"X-Relight-Secret": serving.read_secret(client)}
    path = "/api/templates/x/retire"
    too_much = client.post(path, json={"why": "a" * LARGEST_BODY}, headers=secret)
    assert too_much.status_code == 413
    assert client.get("/api/sessions?search=" + "a" * 33_000).status_code == 414


def test_what_is_neither_json_nor_a_form_is_not_read(client: TestClient) -> None:
    headers = {"X-Relight-Secret": serving.read_secret(client)}
    path = "/api/templates/x/retire"
    text = client.post(path, content="why=old", headers=headers | {"Content-Type": "text/plain"})
    assert text.status_code == 415
    for body in (b"{", b"[1]", b"\xff", b'"a"', b"[" * 100_00):
        told = client.post(
            path, content=body, headers=headers | {"Content-Type": "application/json"}
        )
        assert told.status_code == 400, body


def test_an_address_of_the_api_takes_no_form(client: TestClient) -> None:
    secret = serving.read_secret(client)
    sent = client.post(
        "/api/templates/nothing/retire", data={"why": "x"}, headers={"X-Relight-Secret": secret}
    )
    assert sent.status_code == 415
    assert sent.json()["error"] == "a form is not supported here"


@pytest.mark.parametrize("name", ["x" * 400, "%00", "..%2fapp.py", "nothing.css"])
def test_a_file_that_is_none_of_ours_is_not_found(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404
