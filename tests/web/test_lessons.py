"""The page of lessons and the cures on the page of failures, of a demo home."""

import re
from html import unescape

from starlette.testclient import TestClient

from relight.web.rendering import mark_code


def test_the_page_has_every_lesson_with_a_link_to_its_newest_failure(client: TestClient) -> None:
    lessons = client.get("/api/lessons").json()["lessons"]
    assert len(lessons) > 1
    text = client.get("/lessons").text
    for one in lessons:
        last = one["evidence"][0]
        assert mark_code(one["cause"]) in text
        assert mark_code(one["cure"]) in text
        address = f"/sessions/{last['session_id']}?step={last['step']}#step-{last['step']}"
        assert address in unescape(text)


def test_a_project_narrows_the_lessons(client: TestClient) -> None:
    every = client.get("/api/lessons").json()["lessons"]
    project = every[0]["project"]
    own = client.get("/api/lessons", params={"project": project}).json()["lessons"]
    assert own == [one for one in every if one["project"] == project]
    assert "share a cause that still holds" in client.get("/lessons?project=nowhere").text


def test_failures_name_the_usual_cure_of_each_cause(client: TestClient) -> None:
    cures = client.get("/api/failures?since=all").json()["cures"]
    text = client.get("/failures?since=all").text
    cured = [one for one in cures if one["cure"]]
    assert cured
    for one in cured[:3]:
        assert mark_code(one["cause"]) in text
        assert mark_code(one["cure"]) in text


def test_the_page_of_experiments_has_the_effect_of_lessons_as_the_api_has_it(
    client: TestClient,
) -> None:
    effect = client.get("/api/experiments").json()["lessons"]
    assert effect["sessions"]["given"]
    assert list(effect["measures"]) == [
        "cause_failure_rate",
        "first_30_failure_rate",
        "success_rate",
    ]
    text = unescape(client.get("/experiments").text)
    for sentence in effect["sentences"]:
        assert sentence in text
    shown = re.sub("</?code>", "`", text)
    for one in effect["lessons"]:
        assert " ".join(one["text"].split())[:80] in shown
