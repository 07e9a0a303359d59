"""Failed runs and sessions on the pages and in the API of a demo home."""

from html import unescape

from starlette.testclient import TestClient


def test_failed_runs_are_on_the_page_of_failures_with_their_sessions(client: TestClient) -> None:
    found = client.get("/api/failures?since=all").json()
    assert found["failed"]["runs"] > 20
    text = unescape(client.get("/failures?since=all").text)
    assert "Nothing failed" not in text
    for cause in found["causes"]:
        assert cause["cause"] in text
    for one in found["runs"][:5]:
        assert f'href="/sessions/{one["session_id"]}?since=all"' in text


def test_failed_runs_agree_with_the_list_of_jobs(client: TestClient) -> None:
    jobs = client.get("/api/jobs").json()["jobs"]
    failed = client.get("/api/failures?since=all").json()["failed"]
    assert failed["runs"] == sum(job["failures"] for job in jobs)
    by_job = {one["job"]: one["runs"] for one in failed["jobs"]}
    assert by_job == {job["job"]: job["failures"] for job in jobs if job["failures"]}


def test_the_overview_begins_with_the_jobs_that_failed(client: TestClient) -> None:
    text = unescape(client.get("/?since=all").text)
    total = client.get("/api/overview?since=all").json()["failed"]
    sentence = f"{len(total['jobs'])} jobs failed: "
    assert sentence in text
    assert text.index(sentence) < text.index('class="tiles"')


def test_failures_of_one_job(client: TestClient) -> None:
    found = client.get("/api/failures?since=all&job=price-watch").json()
    assert {one["name"] for one in found["runs"]} == {"price-watch"}
    assert found["failed"]["runs"] == len(found["runs"])
    everything = client.get("/api/failures?since=all").json()
    assert len(found["failures"]) < len(everything["failures"])
    assert "job price-watch" in client.get("/failures?since=all&job=price-watch").text
    nobody = client.get("/failures?job=nobody")  # a filter that matches nothing keeps its page
    assert nobody.status_code == 200
    assert "there is no job &#39;nobody&#39;" in nobody.text
    assert client.get("/api/failures?job=nobody").status_code == 404


def test_failed_calls_are_shown_by_place_length_and_kind_of_work(client: TestClient) -> None:
    for key, heading in {
        "position": "calls of the session",
        "length": "tool calls in all",
        "category": "kind of work",
    }.items():
        rows = client.get(f"/api/failures?since=all&by={key}").json()["failures"]
        text = unescape(client.get(f"/failures?since=all&by={key}").text)
        assert f'<th scope="col">{heading}</th>' in text
        for row in rows:
            assert f'<th scope="row" class="nowrap">{row[key]}' in text
            assert f'href="/sessions/{row["sessions_sample"][0]}?since=all"' in text
    assert client.get("/api/failures?by=colour").status_code == 400
    assert client.get("/failures?by=colour").status_code == 200
