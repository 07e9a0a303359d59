"""The overview: what needs a person first, figures that are unknown or right, one chart."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import build
import serving
from relight.intake.recorder import record
from relight.model import OutcomeName
from relight.store import Store, open_store
from relight.work.jobs.claimed_run import run_now
from relight.work.jobs.job import JobDefinition, JobResult
from relight.work.jobs.registry import add_job

FIGURES = ("cost", "tokens", "outcomes")
KEYS = ("model", "project", "source")


def strip(text: str) -> str:
    """The part of the page that says what needs a person."""
    return unescape(text.partition('id="needs"')[2].partition("</section>")[0])


def finish(store: Store, name: str, outcome: OutcomeName | None, **about: Any) -> None:
    with record(store, name, **{"model": "claude-haiku-4-5", **about}) as rec:
        rec.turn(input_tokens=1_000_000, output_tokens=1)
        rec.finish(outcome or "unknown")


def test_the_page_begins_with_what_needs_a_person(client: TestClient) -> None:
    text = client.get("/?since=all").text
    assert text.index('id="needs"') < text.index('class="tiles"') < text.index('id="chart-title"')
    needs = client.get("/api/overview?since=all").json()["needs"]
    kinds = {one["kind"] for one in needs}
    assert kinds == {"job", "spiral", "outcome", "price"}
    shown = strip(text)
    for kind in kinds:
        assert next(one["title"] in shown for one in needs if one["kind"] == kind), kind


def test_each_need_leads_to_the_very_thing(client: TestClient) -> None:
    needs = client.get("/api/overview?since=all").json()["needs"]
    links = re.findall(
        r'<a class="name" data-row href="([^"]*)"', strip(client.get("/?since=all").text)
    )
    assert all(client.get(link).status_code == 200 for link in links)
    first = {kind: next(one for one in needs if one["kind"] == kind) for kind in ("job", "spiral")}
    job, spiral = first["job"]["name"], first["spiral"]["name"]
    assert f"/jobs/{job}?since=all&outcome=failure#runs-title" in links
    assert f"/sessions/{spiral}?since=all&kind=error#steps" in links
    (labels,) = [link for link in links if "outcome=unknown" in link]
    number = client.get("/api" + labels).json()["count"]
    assert f"{number} sessions have no outcome" in strip(client.get("/?since=all").text)
    (price,) = [link for link in links if "model=" in link]
    assert client.get("/api" + price).json()["count"] > 0


def test_a_missing_price_comes_with_the_lines_that_set_it(client: TestClient) -> None:
    shown = strip(client.get("/?since=all").text)
    (lines,) = re.findall(r'<pre class="code">(.*?)</pre>', shown, re.DOTALL)
    assert re.match(r'\[prices\."[^"]+"\]\ninput_usd_per_mtok = ', lines)
    assert "relight rebuild --prices" in shown


def test_when_nothing_needs_anybody_one_sentence_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        finish(store, "one", "success")
    with serving.make_client(tmp_path) as client:
        shown = strip(client.get("/").text)
        assert "Nothing does: no job fails" in shown
        assert "<li" not in shown
        assert client.get("/api/overview").json()["needs"] == []


def test_more_needs_of_a_kind_are_counted_and_linked(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for number in range(5):
            finish(store, f"s{number}", "success", model=f"own-model-{number}")
    with serving.make_client(tmp_path) as client:
        shown = strip(client.get("/").text)
        assert shown.count('<li class="need price">') == 3
        assert re.search(r'<a href="/#models">models without a price: 2 more</a>', shown)


def test_today_and_this_month_are_figures_whatever_days_are_chosen(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    build.write_settings(tmp_path, 'timezone = "UTC"\n')
    with open_store(tmp_path) as store:
        finish(store, "now", "success")
        long_ago = now - timedelta(days=70)
        finish(store, "then", "failure", clock=long_ago.timestamp)
    with serving.make_client(tmp_path) as client:
        for path in ("/", f"/?since=all&until={long_ago.date()}"):
            text = client.get(path).text
            assert serving.read_tile(text, "Today") == ("$1.00", "1 session")
            assert serving.read_tile(text, "This month") == ("$1.00", "1 session")
        # both sessions have an outcome, and one of them succeeded
        assert serving.read_tile(client.get("/?since=all").text, "Cost per success")[0] == "$2.00"
        assert serving.read_tile(client.get(path).text, "Cost per success")[0] == "–", (
            "unknown, not zero"
        )
        found = client.get("/api/overview?since=all").json()
        assert found["today"]["cost_usd"] == pytest.approx(1.0, abs=1e-4)
        assert found["month"]["sessions"] == 1
        assert found["total"]["sessions"] == 2


def test_figures_of_models_without_a_price_are_no_zeros(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        finish(store, "one", "success", model="my-own-model")
    with serving.make_client(tmp_path) as client:
        text = client.get("/").text
        assert serving.read_tile(text, "Today")[0] == "no price"
        assert serving.read_tile(text, "Cost per success")[0] == "–"
        assert "$0.00" not in text.partition('class="tiles"')[2].partition('class="grid')[0]


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("by", KEYS)
def test_one_chart_shows_each_figure_by_each_key(client: TestClient, figure: str, by: str) -> None:
    text = client.get(f"/?chart={figure}&by={by}").text
    assert f">{figure.capitalize()} by day and {by}</h2>" in text
    assert len(re.findall(r'<svg class="chart', text)) == 1
    switches = re.findall(r'<a href="[^"]*"( aria-current="true")?>(\w+)</a>', text)
    chosen = [name for mark, name in switches if mark and name in (*FIGURES, *KEYS)]
    assert chosen == [figure, by]


@pytest.mark.parametrize("query", ["chart=banana&by=banana", "chart=&by=", "chart=%00&by=%3Cb%3E"])
def test_a_switch_that_does_not_exist_is_the_first(client: TestClient, query: str) -> None:
    assert ">Cost by day and model</h2>" in client.get(f"/?{query}").text


def test_a_switch_keeps_the_other_and_the_filters(client: TestClient) -> None:
    text = client.get("/?since=7d&chart=tokens&by=source").text
    links = [unescape(one) for one in re.findall(r'href="([^"]*)#chart-title"', text)]
    assert "/?since=7d&by=source" in links, "cost is what the page begins with"
    assert "/?since=7d&chart=outcomes&by=source" in links
    assert "/?since=7d&chart=tokens&by=project" in links


def test_the_chart_and_the_api_have_the_same_figures(client: TestClient) -> None:
    for by in KEYS:
        found = client.get(f"/api/overview?since=7d&by={by}").json()
        assert (found["series"]["step"], found["series"]["by"]) == ("day", by)
        points = found["series"]["points"]
        assert sum(one["turns"] for one in points) == found["total"]["turns"]
        assert len({one["name"] for one in points}) == len(found[f"{by}s"])
    assert client.get("/api/overview?by=day").status_code == 400


def test_one_day_is_drawn_by_hours(client: TestClient) -> None:
    days = client.get("/api/report?by=day").json()["rows"]
    day = max(days, key=lambda row: row["turns"])["day"]
    text = client.get(f"/?since={day}&until={day}").text
    assert ">Cost by hour and model</h2>" in text
    (table,) = re.findall(r'<details id="chart-table">.*?</details>', text, re.DOTALL)
    assert len(re.findall(r"<tr>", table)) == 25
    assert ">07:00<" in table
    found = client.get(f"/api/overview?since={day}&until={day}").json()
    assert found["series"]["step"] == "hour"
    points = found["series"]["points"]
    assert len({one["step"] for one in points}) > 2
    assert sum(one["turns"] for one in points) == found["total"]["turns"]
    cost = sum(one["cost_usd"] or 0 for one in points)
    assert cost == pytest.approx(found["total"]["cost_usd"])


def test_a_record_of_one_day_is_drawn_by_hours_from_all_days(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        finish(store, "one", "success")
    with serving.make_client(tmp_path) as client:
        assert ">Cost by hour and model</h2>" in client.get("/?since=all").text
        assert client.get("/api/overview?since=all").json()["series"]["step"] == "hour"


def test_all_rows_of_a_table_are_one_link_away(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for number in range(12):
            finish(store, f"s{number}", "success", project=f"/src/project-{number:02}")
    with serving.make_client(tmp_path) as client:
        text = client.get("/?by=project").text
        (link,) = re.findall(r'<a href="([^"]*)">and 5 more</a>', text)
        table = client.get(unescape(link)).text.partition('id="projects"')[2]
        assert table.partition("</section>")[0].count("<bdi>project-") == 12


def test_projects_of_one_name_in_two_folders_differ(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for number, project in enumerate(("/home/kim/shop", "/srv/shop", "/srv/docs")):
            finish(store, f"s{number}", "success", project=project)
    with serving.make_client(tmp_path) as client:
        table = client.get("/").text.partition('id="projects"')[2].partition("</table>")[0]
    assert sorted(re.findall(r"<bdi>([^<]*)</bdi>", table)) == ["docs", "kim/shop", "srv/shop"]


def test_sessions_without_a_label_are_a_list(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        finish(store, "one", None)
        finish(store, "two", None)
    with serving.make_client(tmp_path) as client:
        secret = serving.read_secret(client)
        path = "/api/sessions/relight:one/label"
        headers = {"x-relight-secret": secret}
        assert client.post(path, json={"outcome": "unknown"}, headers=headers).status_code == 200

        def names(**asked: str) -> list[str]:
            rows = client.get("/api/sessions", params=asked).json()["sessions"]
            return [one["session_id"] for one in rows]

        assert names(label='""') == ["relight:two"]
        assert names(label="unknown") == ["relight:one"]
        assert names(label="success") == []
        page = client.get("/sessions", params={"outcome": "unknown", "label": '""'}).text
        assert "label: <bdi>none</bdi> ×" in page


@pytest.mark.parametrize(("cents", "is_shown"), [(7, False), (9, True), (12, True)])
def test_the_job_budget_is_a_figure_when_most_of_it_is_spent(
    tmp_path: Path, cents: int, is_shown: bool
) -> None:
    build.write_settings(tmp_path, "[jobs]\nbudget_usd_per_day = 0.1\n")
    result = JobResult(
        status="completed", outcome="success", evidence=["done"], cost_nanos=cents * 10**7
    )
    with open_store(tmp_path) as store:
        finish(store, "one", "success")
        add_job(store, JobDefinition(name="job", schedule="0 7 * * *", prompt="Do it."), now=0)
        run_now(store, "job", holder="test", execute=lambda *_, **__: result)
    with serving.make_client(tmp_path) as client:
        text = client.get("/").text
    assert (">Jobs today<" in text) is is_shown
    if is_shown:
        value, note = serving.read_tile(text, "Jobs today")
        assert (value, note) == (f"$0.{cents:02}", "of a budget of $0.10")
