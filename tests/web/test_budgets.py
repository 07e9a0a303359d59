"""Budgets on the dashboard: on the page of limits, in the API, and among what needs a person."""

from pathlib import Path

import serving
from build_dashboard import HOSTILE
from relight.intake.recorder import record
from relight.reports.budgets import set_limit
from relight.store import open_store


def test_a_budget_that_is_over_is_named_first_and_leads_to_all_budgets(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    with open_store(home) as store:
        with record(store, "one", model="claude-haiku-4-5", project=HOSTILE) as rec:
            rec.turn(input_tokens=1_000_000, output_tokens=1)
            rec.finish("success")
        set_limit(store, f"project:{HOSTILE}", "0.50/day", stops=True)
        set_limit(store, "all", "900/month", stops=False)
    with serving.make_client(home) as client:
        overview, page = client.get("/?since=all").text, client.get("/limits").text
        budgets = client.get("/api/budgets").json()["budgets"]
        needs = client.get("/api/overview?since=all").json()["needs"]
    assert [one["state"] for one in budgets] == ["ok", "over"]
    assert [one["kind"] for one in needs] == ["budget"]
    assert 'href="/limits#budgets"' in overview.replace("?since=all", "")
    assert '<h2 id="budgets">Budgets</h2>' in page
    assert "$900.00 a month" in page
    assert "over, stops agents" in page
    for text in (overview, page):
        assert "<script>document.title" not in text
        assert "<img src=x" not in text


def test_without_a_budget_the_page_says_nothing_of_them(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    open_store(home).close()
    with serving.make_client(home) as client:
        assert 'id="budgets"' not in client.get("/limits").text
        assert client.get("/api/budgets").json() == {"budgets": []}
