"""Pages: each says something on an empty store, and every link on a full one leads somewhere."""

import json
import re
import time
from collections import Counter, deque
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

import serving
from build_dashboard import HOSTILE, import_chat, write_chat
from relight.intake.recorder import record
from relight.reports.skills.uses import record_skill_invocation
from relight.store import open_store
from relight.web.pages import PAGES
from relight.work.jobs.job import JobDefinition
from relight.work.jobs.registry import add_job

LISTS = [page.path for page in PAGES if page.is_in_navigation]
EVIL = "<script>alert(1)</script>\u202e'\"\x1b[2J"
# as many addresses of each kind are opened: the others differ by their figures only
MOST = 3


def find_links(text: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'\shref="(/[^"#]*)', text)]


@pytest.mark.parametrize("path", LISTS)
def test_a_page_of_an_empty_store_says_what_to_do_next(tmp_path: Path, path: str) -> None:
    with serving.make_client(tmp_path / "new") as client:
        page = client.get(path)
    assert page.status_code == 200
    (told, *_) = re.findall(r'<div class="empty">.*?</div>', page.text, re.DOTALL)
    assert re.search(r"<code>(relight |\[moa)", told)


def name_kind(path: str) -> tuple[str, bool, tuple[str, ...]]:
    """Which page an address is of, whether of one thing, and by what it is filtered."""
    parts = urlsplit(path)
    first, _, rest = parts.path.strip("/").partition("/")
    return first, bool(rest), tuple(sorted(name for name, _ in parse_qsl(parts.query)))


def test_every_link_of_every_page_leads_to_a_page(client: TestClient) -> None:
    """From the overview on; of addresses that differ only in names and figures, some."""
    waiting, seen = deque(["/"]), {"/"}
    opened: Counter[tuple[str, bool, tuple[str, ...]]] = Counter()
    while waiting:
        path = waiting.popleft()
        kind = name_kind(path)
        if opened[kind] >= MOST or len(kind[2]) > 2 or kind[0] == "static":
            continue
        opened[kind] += 1
        page = client.get(path)
        assert page.status_code == 200, path
        if page.headers["content-type"].startswith("text/html"):
            fresh = [link for link in find_links(page.text) if link not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
    reached = {kind[:2] for kind in opened}
    # no text of the demo is long enough to be a file
    missing = {name_kind(page.path)[:2] for page in PAGES} - reached
    assert missing <= {("words", True)}
    assert opened.total() > 60


@pytest.mark.parametrize("path", LISTS)
def test_nothing_in_a_page_acts_or_is_styled_by_itself(client: TestClient, path: str) -> None:
    text = client.get(path).text
    assert not re.search(r"<[^>]*\s(style|on\w+)\s*=", text)
    assert re.findall(r"<script(?![^>]*\ssrc=)", text) == []
    assert "<style" not in text
    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', text)
    assert all(re.match(r"/|#|\?", address) for address in addresses)


def test_names_full_of_markup_stay_names(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    with open_store(home) as store:
        with record(store, "evil", model=EVIL, provider=EVIL, project=EVIL, title=EVIL) as rec:
            rec.message("user", EVIL)
            call = {"id": "1", "type": "function", "function": {"name": EVIL, "arguments": EVIL}}
            message = {"role": "assistant", "content": EVIL, "tool_calls": [call]}
            rec.turn(input_tokens=5, output_tokens=5, message=message)
            for _ in range(3):
                rec.tool_call(EVIL, EVIL, EVIL, is_error=True)
            rec.finish("failure", why=EVIL)
        record_skill_invocation(
            store, skill_name="<b>evil</b>", invoked_at=1, model=EVIL, success=True
        )
        add_job(
            store, JobDefinition(name="job", schedule="0 7 * * *", prompt=EVIL, model=EVIL), now=0
        )
    with serving.make_client(home) as client:
        paths = [*LISTS, "/sessions/relight:evil", "/skills/<b>evil</b>", "/jobs/job"]
        asked = [(path, {"since": "all"}) for path in paths]
        asked += [("/sessions", {"project": EVIL}), ("/", {"since": EVIL})]
        asked += [("/jobs", {"model": EVIL}), ("/sessions", {"search": EVIL, "tool": EVIL})]
        for path, query in asked:
            text = client.get(path, params=query).text
            assert "<script>alert" not in text, path
            assert "<b>evil" not in text, path
            assert "\x1b" not in text, path
            assert "\u202e" not in text, path


def test_an_invalid_filter_is_reported_and_left_out(client: TestClient) -> None:
    page = client.get("/?since=banana")
    assert page.status_code == 200
    assert "&#39;banana&#39; is not a day" in page.text
    assert "Cost by day and model" in page.text


@pytest.mark.parametrize("name", ["path", "self", "view", "<b>&#", "x" * 900])
def test_a_parameter_that_nobody_knows_goes_along(client: TestClient, name: str) -> None:
    page = client.get("/sessions", params={name: "1", "outcome": "failure"})
    assert page.status_code == 200
    links = [link for link in find_links(page.text) if link.startswith("/sessions?")]
    assert any((name, "1") in parse_qsl(urlsplit(link).query) for link in links)


@pytest.mark.parametrize("path", [*LISTS, "/skills/ticket-triage"])
@pytest.mark.parametrize(
    "days",
    ["until=0001-01-01", "since=0001-01-01", "since=9999-12-31", "since=all&until=9999-12-31"],
)
def test_days_that_no_session_has_seen_are_days_too(
    client: TestClient, path: str, days: str
) -> None:
    assert client.get(f"{path}?{days}").status_code == 200


def test_the_days_of_skills_end_where_the_address_says(client: TestClient) -> None:
    uses = client.get("/api/skills/stats?since=all&skill=ticket-triage").json()["rows"]
    early = [row for row in uses if row["day"] < max(row["day"] for row in uses)]
    until = max(row["day"] for row in early)
    text = client.get(f"/skills?since=all&until={until}").text
    count = sum(row["invocation_count"] for row in early if row["model"] == "qwen3.6-27b")
    assert f">{count}</a>" in text


def test_skills_are_shown_with_counts_and_verdicts_by_job(tmp_path: Path) -> None:
    now = time.time()
    with open_store(tmp_path) as store:
        for job, model, successes, failures in (
            ("easy", "big", 18, 2),
            ("easy", "small", 4, 0),
            ("hard", "big", 2, 2),
            ("hard", "small", 12, 8),
        ):
            for number in range(successes + failures):
                record_skill_invocation(
                    store,
                    skill_name="lint",
                    invoked_at=now,
                    model=model,
                    job_id=job,
                    success=number < successes,
                    cost_usd=0.5 if model == "big" else 0.1,
                )
    with serving.make_client(tmp_path) as client:
        listed = client.get("/skills").text
        assert ">16 of 24<" in listed
        assert ">47–82%<" in listed
        assert ">cannot tell yet</a>" in listed
        text = client.get("/skills/lint").text
        assert "Cannot tell yet whether small is good enough for lint: 4 of 4 in easy" in text
        jobs = text.partition("Job by job:")[2].partition("</section>")[0]
        assert re.findall(r">(\w+)</bdi></th>.*?>(\d+ of \d+)<.*?>(\d+ of \d+)<", jobs) == [
            ("easy", "4 of 4", "18 of 20"),
            ("hard", "12 of 20", "2 of 4"),
        ]


@pytest.mark.parametrize(
    "query", ["", "?category=coding", "?task_type=research", "?tags=nowhere", "?sort=best"]
)
def test_the_page_of_templates_is_narrowed_and_ordered_as_the_api_is(
    client: TestClient, query: str
) -> None:
    asked = f"/api/templates{query or '?'}&state=all"
    wanted = [one["name"] for one in client.get(asked.replace("?&", "?")).json()["templates"]]
    page = client.get(f"/templates{query}").text
    shown = re.findall(r'<a class="name" data-row href="/templates/([^"?]+)', page)
    assert sorted(shown) == sorted(wanted)
    live = [one for one in wanted if one in shown]
    assert [one for one in shown if one in live[:2]] == live[:2]
    assert ("No template in use is of this kind" in page) is (not shown)
    assert '<h2 id="types-title">By task type</h2>' in page


def test_the_latest_starts_are_on_a_page_with_their_reasons(client: TestClient) -> None:
    listed = client.get("/api/provisions?limit=100").json()["provisions"]
    page = client.get("/provisions").text
    rows = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert rows.count("<tr>") == len(listed) > 0
    for one in listed[:5]:
        assert f'href="/sessions/{one["session_id"]}"' in rows or not one["is_followed"]
    name = next(one["template"] for one in listed if one["template"])
    of_one = client.get("/provisions", params={"template": name, "arm": "warm"}).text
    wanted = client.get("/api/provisions", params={"template": name, "arm": "warm", "limit": 100})
    assert of_one.count(f'href="/templates/{name}?') == len(wanted.json()["provisions"])


def test_a_page_that_days_do_not_narrow_says_so(client: TestClient) -> None:
    for path in LISTS:
        bar = client.get(path).text.partition('<div class="bar">')[2].partition("<main")[0]
        assert (">all days<" in bar) is (path in ("/jobs", "/templates", "/experiments", "/search"))
        assert ("How far back" in bar) is not (">all days<" in bar)


@pytest.mark.parametrize("query", ["é" * 5000, "a/" * 5000, '"\0' + "the " * 2500])
def test_ten_kilobytes_can_be_searched_on_the_page_and_over_http(
    client: TestClient, query: str
) -> None:
    page = client.get("/search", params={"q": query})
    assert (page.status_code, "<main" in page.text) == (200, True)
    answer = client.get("/api/search", params={"q": query})
    reason = answer.json().get("note") or answer.json()["error"]
    assert reason.startswith(("no text has ", "the query has "))


@pytest.mark.parametrize(
    "path",
    [
        "/sessions/nobody",
        "/skills/nothing",
        "/jobs/nothing",
        "/templates/nothing",
        "/experiments/nothing",
        "/moa/nothing",
        "/words/0/nobody",
    ],
)
def test_what_is_not_there_is_not_found_and_says_so(client: TestClient, path: str) -> None:
    page = client.get(path)
    assert page.status_code == 404
    assert re.search(r"<h1>(there is no|no use of)", page.text)


def test_a_mixture_shows_the_prompt_before_the_advice(client: TestClient) -> None:
    (trace,) = client.get("/api/moa/traces").json()["traces"]
    for turn in range(1, trace["turns"] + 1):
        text = unescape(client.get(f"/moa/{trace['session_id']}?turn={turn}").text)
        prompt = text.index("alter table orders add column channel")
        assert prompt < text.index(">advises<")
        shown = text[text.index('id="asked-title"') : text.index('id="turn-title"')]
        assert "Adviser" not in shown
    steps = client.get(f"/api/sessions/{trace['session_id']}/steps").json()["steps"]
    assert [one["kind"] for one in steps][:2] == ["prompt", "answer"]


def test_long_text_is_cut_and_kept_whole_in_a_file(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    result = HOSTILE + "\nline" * 20_000
    import_chat(home, write_chat(tmp_path / "a.jsonl", key="long", title="Long", result=result))
    with serving.make_client(home) as client:
        page = client.get("/sessions/chat:long")
        (link,) = re.findall(r'href="(/words/[^"]+)"', page.text)
        kept = client.get(unescape(link))
    assert len(page.text) < 60_000
    assert kept.content == result.encode()
    assert kept.headers["content-type"] == "text/plain; charset=utf-8"
    assert kept.headers["content-disposition"].startswith("attachment; ")


def test_a_total_that_is_all_there_is_stands_after_what_was_said(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Greet me."}, {"role": "assistant", "content": "Hello!"}]
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    session = {"id": "one", "model": "claude-haiku-4-5", "messages": said, "usage": usage}
    (tmp_path / "a.jsonl").write_text(json.dumps(session) + "\n")
    import_chat(tmp_path / "relight", tmp_path / "a.jsonl")
    with serving.make_client(tmp_path / "relight") as client:
        steps = client.get("/sessions/chat:one").text.partition('class="steps"')[2]
    places = [steps.index(text) for text in ("Greet me.", "Hello!", "reconciled")]
    assert places == sorted(places)


def test_a_running_cost_is_a_lower_bound_from_the_first_turn_without_a_price(
    client: TestClient,
) -> None:
    found = client.get("/api/sessions?since=all&limit=500").json()["sessions"]
    partly = [one["session_id"] for one in found if one["unpriced_turns"] and one["cost_usd"]]
    assert partly
    for name in partly:
        told = re.findall(r'all so far ([^"]*)"', client.get(f"/sessions/{name}").text)
        bounds = [cost.startswith("≥") for cost in told]
        assert bounds == sorted(bounds)
        assert bounds[-1]


def test_the_same_filters_are_in_every_link(client: TestClient) -> None:
    text = client.get("/?since=7d&source=codex").text
    navigation = text[text.index("<nav") : text.index("</nav>")]
    links = find_links(navigation)
    assert len(links) == len(LISTS)
    assert all("since=7d" in link and "source=codex" in link for link in links)
