"""Filters of pages: known names are suggested, days are picked, a legend filters, and a filter
that matches nothing is named."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import serving
from build_dashboard import HOSTILE, import_chat
from relight.store import open_store
from relight.store.queries.completions import MOST

LISTS = ("/", "/sessions", "/search", "/failures", "/jobs", "/skills", "/templates", "/moa")


def read_suggestions(text: str, name: str) -> list[str]:
    (found,) = re.findall(rf'<datalist id="known-{name}">(.*?)</datalist>', text, re.DOTALL)
    return [unescape(one) for one in re.findall(r'<option value="([^"]*)">', found)]


def read_empty(text: str) -> str:
    """What an empty page says, without tags."""
    (found, *_) = re.findall(r'<div class="empty">(.*?)</div>', text, re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", found)).split())


def read_links(text: str) -> list[str]:
    (found, *_) = re.findall(r'<div class="empty">(.*?)</div>', text, re.DOTALL)
    return [unescape(one) for one in re.findall(r'href="([^"]*)"', found)]


def test_every_filter_by_name_suggests_what_the_store_knows(client: TestClient, home: Path) -> None:
    with open_store(home) as store:
        known = {
            "project": "select distinct project from listing where project is not null",
            "model": "select distinct model from session_day where model is not null",
            "skill": "select distinct skill_name from skill_invocations",
            "job": "select name from job",
        }
        names = {kind: {row[0] for row in store.query(text)} for kind, text in known.items()}
    page = client.get("/sessions").text
    for kind, expected in names.items():
        assert set(read_suggestions(page, kind)) == expected, kind
        assert f'list="known-{kind}"' in page
    for path, kinds in {
        "/": ("model", "project"),
        "/search": ("model", "project"),
        "/failures": ("model", "project", "job"),
        "/jobs": ("model",),
        "/templates": ("project",),
        "/skills": ("model",),
        "/moa": ("model",),
    }.items():
        text = client.get(path).text
        assert all(read_suggestions(text, kind) for kind in kinds), path


def test_suggestions_are_few_the_newest_first_and_harmless(tmp_path: Path) -> None:
    """Of more projects than a list can hold, those of the newest sessions; one of them hostile."""
    home, rows = tmp_path / "home", []
    hostile = '"><script>alert(1)</script>'
    for number in range(MOST + 20):
        session = {
            "id": f"s{number}",
            "model": hostile if number == MOST else "claude-haiku-4-5",
            "project": f"/src/p{number}",
            "started_at": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z",
            "messages": [
                {"role": "user", "content": HOSTILE},
                {"role": "assistant", "content": "ok"},
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 6, "total_tokens": 15},
        }
        rows.append(json.dumps(session))
    (tmp_path / "runs.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    import_chat(home, tmp_path / "runs.jsonl")
    with serving.make_client(home) as client:
        text = client.get("/sessions?since=all").text
    projects = read_suggestions(text, "project")
    assert projects == [f"/src/p{number}" for number in range(MOST + 19, 19, -1)]
    assert hostile in read_suggestions(text, "model")
    assert "<script>alert" not in text


def test_a_date_that_is_picked_counts_and_otherwise_the_word_stays(client: TestClient) -> None:
    kept = client.get("/sessions?since=2w&since=&until=&until=").text
    assert 'name="since" value="2w"' in kept
    picked = client.get("/sessions?since=2w&since=2026-11-01&until=").text
    assert '<input type="date" name="since" value="2026-11-01">' in picked
    assert '<input type="hidden" name="since"' not in picked.partition("</form>")[0]
    for word in ("today", "2w", "month"):
        text = client.get(f"/?since={word}").text
        assert f'<input type="hidden" name="since" value="{word}">' in text
        assert '<input type="date" name="since" value="">' in text
        assert "is not a day" not in text


@pytest.mark.parametrize("since", ["today", "1d"])
def test_today_is_one_choice_however_the_address_names_it(client: TestClient, since: str) -> None:
    text = client.get(f"/sessions?since={since}").text
    assert re.search(r'<a href="/sessions\?since=today" aria-current="true">today</a>', text)
    assert "Take the dates out" not in text


@pytest.mark.parametrize(
    ("path", "name"), [("/failures", "kind"), ("/skills/ticket-triage", "model")]
)
def test_a_legend_filters_and_the_second_click_shows_all_again(
    client: TestClient, path: str, name: str
) -> None:
    def read_legend(address: str) -> list[tuple[str, bool]]:
        text = client.get(address).text
        entries = re.findall(r'<i class="s\d"></i><a href="([^"]*)"( aria-current="true")?', text)
        return [(unescape(link), bool(is_on)) for link, is_on in entries]

    before = read_legend(path)
    assert len(before) > 1
    assert not any(is_on for _, is_on in before)
    first = before[0][0]
    assert re.fullmatch(rf"{path}\?{name}=.+", first)
    (is_off,) = {link for link, is_on in read_legend(first) if is_on}
    assert is_off == path
    shown, whole = client.get(first).text, client.get(path).text
    assert len(re.findall("<tr|<polyline", shown)) < len(re.findall("<tr|<polyline", whole))


@pytest.mark.parametrize(
    ("path", "said", "link"),
    [
        ("/?model=nobody", "No session on model 'nobody' since", "/"),
        ("/sessions?project=shop-appi", "did you mean 'shop-api'?", "/sessions?project=shop-api"),
        (
            "/sessions?project=shop-api&model=nobody",
            "without the model ",
            "/sessions?project=shop-api",
        ),
        ("/sessions?skill=ticket-traige", "did you mean 'ticket-triage'?", None),
        ("/sessions?since=2099-01-01", "No session since 2099-01-01 on all days", None),
        ("/failures?project=nothing-here", "No failure in project 'nothing-here'", "/failures"),
        ("/failures?job=ticket-traige", "did you mean 'ticket-triage'?", None),
        ("/jobs?model=nobody", "No job on model 'nobody'", "/jobs"),
        ("/templates?project=nowhere", "No template in project 'nowhere'", "/templates"),
        ("/skills?model=nobody", "No skill on model 'nobody'", "/skills"),
        ("/moa?model=nobody", "No trace on model 'nobody'", "/moa"),
        ("/search?q=the&project=nowhere", "no matching text in project 'nowhere'", None),
    ],
)
def test_a_filter_that_matches_nothing_is_named(
    client: TestClient, path: str, said: str, link: str | None
) -> None:
    page = client.get(path)
    assert page.status_code == 200
    assert said in read_empty(page.text)
    if link is not None:
        assert link in read_links(page.text)
    for one in read_links(page.text):
        assert client.get(one).status_code == 200


def test_hostile_filters_are_shown_and_do_nothing(client: TestClient) -> None:
    evil = "<img src=x onerror=alert(1)>"
    for name in ("model", "project", "search", "skill", "job", "since", "kind"):
        for path in ("/sessions", "/failures"):
            text = client.get(path, params={name: evil}).text
            assert evil not in text, (path, name)
