"""The API returns what the command line prints, validates requests, and changes what it may."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import build
import build_warm
import serving
from relight.warm.sharing import read_template_file
from relight.warm.units import render_text
from terminal import run_relight

SMALL_BEST = ("--max-examples=9", "--sort=best")
SAME = [
    ("/api/report", ["report"]),
    ("/api/report?by=model,project&since=7d", ["report", "--by", "model,project", "--since", "7d"]),
    ("/api/report?by=tool&source=codex", ["report", "--by", "tool", "--source", "codex"]),
    ("/api/report?by=session&since=all", ["report", "--by", "session", "--since", "all"]),
    ("/api/failures?since=all", ["failures", "--since", "all"]),
    ("/api/skills/stats?since=all", ["skills", "stats", "--since", "all"]),
    ("/api/skills/ema?half_life_days=5", ["skills", "ema", "--half-life", "5"]),
    ("/api/skills/compare?skill=price-watch", ["skills", "compare", "price-watch"]),
    ("/api/skills/price-watch/canary", ["skills", "canary", "price-watch"]),
    ("/api/jobs/price-watch/compare?margin=0.1", ["job", "compare", "price-watch", "--margin=10"]),
    ("/api/jobs", ["job", "list"]),
    ("/api/jobs/history?limit=500", ["job", "history"]),
    ("/api/templates", ["template", "list"]),
    ("/api/templates?state=all", ["template", "list", "--all"]),
    ("/api/templates?state=candidate", ["template", "list", "--candidates"]),
    (
        "/api/templates?category=coding&task_type=code&max_examples=9&sort=best&tags=auto",
        [*("template", "list", "--category=coding", "--type=code", "--tags=auto"), *SMALL_BEST],
    ),
    ("/api/templates/stats", ["template", "stats"]),
    ("/api/provisions", ["template", "provisions", "--limit", "50"]),
    ("/api/provisions?arm=cold&limit=3", ["template", "provisions", "--arm=cold", "--limit=3"]),
    ("/api/moa/traces", ["moa", "traces"]),
    ("/api/experiments", ["experiment", "report"]),
    ("/api/experiments/list", ["experiment", "list"]),
    ("/api/experiments/plans", ["experiment", "plan"]),
    ("/api/experiments/warm-or-cold", ["experiment", "report", "warm-or-cold"]),
]


def run_json(home: Path, *words: str) -> Any:
    done = run_relight({**os.environ, "RELIGHT_HOME": str(home)}, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("path", "words"), SAME, ids=lambda one: str(one))
def test_an_address_shows_what_its_command_shows(
    client: TestClient, home: Path, path: str, words: list[str]
) -> None:
    assert client.get(path).json() == run_json(home, *words)


def test_the_database_is_read_as_a_whole_only_if_that_is_asked_for(client: TestClient) -> None:
    quick, whole = (client.get(f"/api/doctor{query}").json() for query in ("", "?depth=usual"))
    assert (quick["ok"], quick["database"]["integrity"]) == (True, None)
    assert whole["database"]["integrity"] == "ok"


def test_a_session_is_shown_as_the_command_shows_it(client: TestClient, home: Path) -> None:
    first = client.get("/api/sessions?since=all&sort=cost&limit=1").json()["sessions"][0]
    told = client.get(f"/api/sessions/{first['session_id']}").json()
    assert told == run_json(home, "show", first["session_id"])
    assert told["figures"]["cost_usd"] == first["cost_usd"]
    assert client.get(f"/api/sessions/{first['session_id'].partition(':')[2]}").json() == told


def test_the_pages_of_a_list_have_every_session_once(client: TestClient) -> None:
    for sort in ("started", "cost", "duration", "turns", "tokens", "failures"):
        for order in ("asc", "desc"):
            path = f"/api/sessions?since=all&limit=7&sort={sort}&order={order}"
            seen: list[str] = []
            following: str | None = ""
            while following is not None:
                page = client.get(f"{path}&after={following}").json()
                seen += [one["session_id"] for one in page["sessions"]]
                following = page["next"]
            assert len(seen) == len(set(seen)) == page["count"]


def test_a_list_is_as_long_as_the_report_says(client: TestClient) -> None:
    for filters in ("since=all", "since=7d", "since=all&model=opus", "since=20d&source=codex"):
        total = client.get(f"/api/report?{filters}").json()["total"]
        assert client.get(f"/api/sessions?{filters}").json()["count"] == total["sessions"]


def test_a_list_behind_a_failure_is_as_long_as_its_row_says(client: TestClient) -> None:
    for row in client.get("/api/failures?since=all").json()["failures"]:
        tool = f"&tool={row['tool']}" if row["tool"] else ""
        path = f"/api/sessions?since=all&failure={row['kind']}{tool}"
        assert client.get(path).json()["count"] >= row["sessions"] > 0
        if tool:
            assert client.get(path).json()["count"] == row["sessions"]


def test_a_search_finds_beginnings_of_words(client: TestClient) -> None:
    every = client.get("/api/sessions?since=all&limit=500").json()["sessions"]
    word = "webhooks"
    wanted = {one["session_id"] for one in every if word in (one["title"] or "").lower()}
    for search in (word, word[:5], word.upper(), f"  {word} "):
        found = client.get(f"/api/sessions?since=all&limit=500&search={search}").json()
        assert {one["session_id"] for one in found["sessions"]} == wanted != set()
    by_id = client.get(
        f"/api/sessions?search={every[0]['session_id'].partition(':')[2][:8]}"
    ).json()["sessions"]
    assert every[0]["session_id"] in [one["session_id"] for one in by_id]
    for nothing in ("webhooks nosuchword", '"', "*", "a OR b NEAR(", "%", "'; drop table"):
        assert client.get("/api/sessions", params={"search": nothing}).status_code == 200


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/api/report?bye=day", "there is no parameter 'bye'"),
        ("/api/report?by=day&by=model", "by is given twice"),
        ("/api/report?by=moon", "cannot report by 'moon'"),
        ("/api/report?since=tomorrow", "'tomorrow' is not a day"),
        ("/api/report?source=vim", "there is no source 'vim'"),
        ("/api/sessions?limit=0", "limit: expected int >= 1"),
        ("/api/sessions?limit=all", "limit: expected int, got str"),
        ("/api/sessions?after=there", "after must be the `next` of a page, got 'there'"),
        ("/api/sessions?sort=luck", "sort: invalid enum value 'luck'"),
        ("/api/skills/compare", "object missing required field skill"),
        ("/api/skills/ema?alpha=1.5", "alpha: expected float <= 0.999"),
    ],
)
def test_what_cannot_be_asked_is_reported_clearly(
    client: TestClient, path: str, error: str
) -> None:
    told = client.get(path)
    assert (told.status_code, told.json()["error"]) == (400, error)


@pytest.mark.parametrize(
    "path",
    [
        "/api/sessions/none",
        "/api/sessions/none/steps",
        "/api/jobs/none",
        "/api/jobs/history?job=none",
        "/api/templates/none",
        "/api/moa/traces/none",
        "/api/skills/compare?skill=none",
        "/api/skills/none/canary",
        "/api/none",
    ],
)
def test_what_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    told = client.get(path)
    assert told.status_code == 404
    assert set(told.json()) == {"error", "hint"}


def test_an_unknown_method_is_refused_with_the_known_ones(client: TestClient) -> None:
    told = client.delete("/api/report")
    assert (told.status_code, set(told.headers["Allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert set(told.json()) == {"error", "hint"}


def test_a_person_says_how_a_session_went(client: TestClient) -> None:
    secret = {"X-Relight-Secret": client.get("/api/secret").json()["secret"]}
    name = client.get("/api/sessions?outcome=unknown&limit=1").json()["sessions"][0]["session_id"]
    body = {"outcome": "failure", "why": "wrong file"}
    sent = client.post(f"/api/sessions/{name}/label", json=body, headers=secret)
    assert sent.json() == {"session_id": name, "outcome": "failure", "why": "wrong file"}
    assert client.get(f"/api/sessions/{name}").json()["outcome"] == "failure"
    listed = client.get("/api/sessions?outcome=failure&limit=500").json()["sessions"]
    assert name in [one["session_id"] for one in listed]


def test_a_template_is_made_retired_and_restored(client: TestClient) -> None:
    secret = {"X-Relight-Secret": serving.read_secret(client)}
    name = client.get("/api/sessions?outcome=success&limit=1").json()["sessions"][0]["session_id"]
    body = {"session_id": name, "name": "made here", "tags": "a, b", "force": True}
    made = client.post("/api/templates", json=body, headers=secret)
    assert (made.status_code, made.json()["tags"]) == (200, ["a", "b"])
    path = "/api/templates/made here"
    assert client.get(path).json()["session_id"] == name
    retired = client.post(f"{path}/retire", json={"why": "old layout"}, headers=secret).json()
    assert (retired["state"], retired["retired_why"]) == ("retired", "old layout")
    assert client.post(f"{path}/restore", headers=secret).json()["state"] == "live"
    states = {one["state"] for one in client.get("/api/templates?state=live").json()["templates"]}
    assert states == {"live"}


def test_a_template_is_made_with_a_kind_and_read_as_the_file_that_an_import_takes(
    client: TestClient, tmp_path: Path
) -> None:
    asked = "/api/sessions?since=all&outcome=success&sort=turns&limit=1"
    found = client.get(asked).json()["sessions"]
    kind = {"category": "ops", "task_type": "file", "max_examples": 2}
    body = {"session_id": found[0]["session_id"], "name": "kind", "force": True, **kind}
    secret = {"X-Relight-Secret": serving.read_secret(client)}
    made = client.post("/api/templates", json=body, headers=secret).json()
    assert "error" not in made, made
    assert (made["category"], made["task_type"]) == ("ops", "file")
    assert 0 < made["examples"] <= 2
    path = tmp_path / "kind.json"
    path.write_bytes(client.get("/api/templates/kind/export").content)
    with build_warm.open_warm(tmp_path) as store:
        assert render_text(read_template_file(store, path).seed) == render_text(made["seed"])


def test_a_template_that_is_restored_takes_the_place_of_the_weakest(tmp_path: Path) -> None:
    with build_warm.open_warm(tmp_path, live=1) as store:
        first = build_warm.capture(store, "Fix the rounding in invoices").name
        tools = ("python", "grep", "sed", "tzdata")
        second = build_warm.capture(store, "Parse dates with time zones on import", tools).name
        home = store.config.home
    with serving.make_client(home) as client:
        secret = {"X-Relight-Secret": serving.read_secret(client)}
        assert client.post(f"/api/templates/{first}/restore", headers=secret).status_code == 200
        found = client.get("/api/templates?state=all").json()["templates"]
    assert {one["name"]: one["state"] for one in found} == {first: "live", second: "retired"}


def test_a_body_may_not_say_what_is_not_asked(client: TestClient) -> None:
    secret = {"X-Relight-Secret": serving.read_secret(client)}
    told = client.post("/api/templates/x/retire", json={"when": "now"}, headers=secret)
    assert (told.status_code, told.json()["hint"]) == (400, "known: why")


def test_a_cached_response_is_made_again_when_the_store_changes(client: TestClient) -> None:
    secret = {"X-Relight-Secret": serving.read_secret(client)}
    name = client.get("/api/sessions?limit=1").json()["sessions"][0]["session_id"]
    for outcome in ("success", "failure", "success"):
        body = {"outcome": outcome}
        client.post(f"/api/sessions/{name}/label", json=body, headers=secret)
        assert client.get("/api/sessions?limit=1").json()["sessions"][0]["outcome"] == outcome


def test_a_job_is_paused_resumed_and_run_now(client: TestClient, home: Path) -> None:
    words = ["job", "add", "echo", "--schedule", "0 3 * * *", "--prompt", "hello"]
    words += ["--runner", "command", "--command", "echo done"]
    run_json(home, *words)
    secret = {"X-Relight-Secret": serving.read_secret(client)}
    paused = client.post("/api/jobs/echo/pause", headers=secret).json()
    assert (paused["job"], paused["state"]) == ("echo", "paused")
    resumed = client.post("/api/jobs/echo/resume", headers=secret).json()
    assert resumed["state"] == "scheduled"
    assert resumed["next_run_at"] is not None
    begun = client.post("/api/jobs/echo/run", headers=secret)
    assert begun.json() == {"job": "echo", "is_begun": True}

    def read_history() -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = client.get("/api/jobs/echo").json()["runs"]
        return runs

    build.wait_for(lambda: any(run["finished_at"] for run in read_history()))
    assert read_history()[0]["outcome"] == "success"
    for action in ("pause", "resume", "run"):
        assert client.post(f"/api/jobs/none/{action}", headers=secret).status_code == 404
