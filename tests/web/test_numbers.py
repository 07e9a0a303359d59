"""Numbers that lead somewhere: the list behind each has as many rows as the number says."""

import re
from collections import defaultdict
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

# a figure that counts sessions: a link whose text is a number, or a tile that says so
FIGURES = re.compile(r'<a href="(/sessions\?[^"]*)"[^>]*>([\d,]+)</a>')
TILES = re.compile(
    r'<a class="tile" href="(/sessions[^"]*)"[^>]*>\s*<span class="name">'
    r"(?:Sessions|Warm sessions|Held out cold)</span>"
    r'\s*<span class="value[^"]*">([\d,]+)</span>'
)
# failed calls: a session may have several, and its list says how many sessions there are
CALLS = re.compile(r'<a href="(/sessions[^"]*failure=[^"]*)">[\d,]+</a>')
PAGES = [
    "/",
    "/?since=all",
    "/?model=sonnet",
    "/skills",
    "/skills?since=all",
    "/skills?since=2026-01-01&until=2099-01-01",
    "/skills/ticket-triage",
    "/skills/code-review?since=7d",
    "/templates",
    "/experiments",
    "/failures",
    "/failures?since=all&model=opus",
]


# an amount, but not a lower bound below a cent, which needs its digits
AMOUNT = re.compile(r"(?<!≥)[$][\d,]+[.](\d+)|≥[$](?!0[.]00)[\d,]+[.](\d+)")
# a cell of shares and nothing else; an interval alone (63–90%) has its own precision
SHARES = re.compile(r"[\d.%()<\s]*%[\d.%()<\sto]*")
SHARE = re.compile(r"(?<![<\d.])\d+(?:[.](\d+))?%")
WITH_FIGURES = [
    "/",
    "/sessions?since=all",
    "/failures?since=all",
    "/jobs",
    "/jobs/price-watch",
    "/skills",
    "/moa",
    "/skills/ticket-triage",
    "/cache",
    "/limits",
    "/experiments",
    "/experiments/warm-or-cold",
    "/jobs/ticket-triage",
]


def count_rows(client: TestClient, link: str) -> int:
    asked = dict(parse_qsl(urlsplit(link).query))
    count: int = client.get("/api/sessions", params=asked).json()["count"]
    return count


def find_figures(text: str) -> list[tuple[str, int]]:
    found = FIGURES.findall(text) + TILES.findall(text)
    return [(unescape(link), int(figure.replace(",", ""))) for link, figure in found]


def find_digits(text: str) -> set[int]:
    """The numbers of digits after the point of amounts, and of shares if there is nothing else."""
    shares = SHARE.findall(text) if SHARES.fullmatch(text) else []
    return {len(a or b) for a, b in AMOUNT.findall(text)} | {len(one) for one in shares}


def find_columns(text: str) -> list[set[int]]:
    """The numbers of digits after the point in each column of figures, and on each scale."""
    columns: defaultdict[object, set[int]] = defaultdict(set)
    for number, table in enumerate(re.findall(r"<tbody>.*?</tbody>", text, re.DOTALL)):
        for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL):
            cells = re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row, re.DOTALL)
            for place, cell in enumerate(reversed(cells)):  # the first may span several rows
                shown = re.sub(r"<[^>]*>", "", cell)
                columns[number, place] |= find_digits(shown)
    for number, drawn in enumerate(re.findall(r"<svg.*?</svg>", text, re.DOTALL)):
        for tick in re.findall(r'class="tick"[^>]*>([^<]*)<', drawn):
            columns["svg", number] |= find_digits(tick)
    for cost in re.findall(r'<span class="cost[^>]*>([^<]*)</span>', text):
        columns["steps"] |= find_digits(cost)
    return [found for found in columns.values() if found]


@pytest.mark.parametrize("path", WITH_FIGURES)
def test_the_amounts_and_shares_of_a_column_have_as_many_digits(
    client: TestClient, path: str
) -> None:
    columns = find_columns(client.get(path).text)
    assert columns, path
    assert [found for found in columns if len(found) > 1] == []


@pytest.mark.parametrize(("path", "field"), [("sessions", "sessions"), ("moa/traces", "traces")])
def test_the_amounts_of_one_session_have_as_many_digits(
    client: TestClient, path: str, field: str
) -> None:
    for one in client.get(f"/api/{path}").json()[field][:12]:
        page = f"/{path.partition('/')[0]}/{one['session_id']}"
        columns = find_columns(client.get(page).text)
        assert [found for found in columns if len(found) > 1] == [], page


@pytest.mark.parametrize("path", PAGES)
def test_a_number_leads_to_a_list_of_as_many(client: TestClient, path: str) -> None:
    figures = find_figures(client.get(path).text)
    assert figures, path
    wrong = [
        (link, figure, rows)
        for link, figure in figures
        if (rows := count_rows(client, link)) != figure
    ]
    assert wrong == []


def test_a_template_leads_to_the_sessions_that_began_with_each_version(client: TestClient) -> None:
    versions = [
        (link, figure)
        for one in client.get("/api/templates").json()["templates"]
        for link, figure in find_figures(client.get(f"/templates/{one['name']}").text)
    ]
    assert any(figure for _, figure in versions)
    assert [link for link, figure in versions if count_rows(client, link) != figure] == []


@pytest.mark.parametrize("job", ["release-watch", "price-watch"])
def test_the_runs_of_a_job_lead_to_a_list_of_as_many(client: TestClient, job: str) -> None:
    """Not of sessions: a run that was tried three times has three of them."""
    text = client.get(f"/jobs/{job}").text
    tiles = re.findall(
        r'<a class="tile" href="([^"]*)#runs-title">\s*<span class="name">(?:Runs|Failed)</span>'
        r'\s*<span class="value[^"]*">(\d+)</span>',
        text,
    )
    assert len(tiles) == 2
    for link, figure in tiles:
        table = client.get(unescape(link)).text.partition('id="runs-title"')[2]
        assert table.count("<tr") - 1 == int(figure)


def test_failed_calls_lead_to_the_sessions_that_had_them(client: TestClient) -> None:
    """Those of models too: they have no tool, which is not the same as any tool."""
    failures = client.get("/api/failures").json()["failures"]
    links = [unescape(link) for link in CALLS.findall(client.get("/failures").text)]
    assert any(one["tool"] is None for one in failures)
    assert [count_rows(client, link) for link in links] == [one["sessions"] for one in failures]


def test_a_name_in_quotes_is_the_whole_name_and_quotes_alone_are_none(client: TestClient) -> None:
    by_model = client.get("/api/report?by=model").json()["rows"]
    named = {row["model"]: row["sessions"] for row in by_model}
    whole = next(one for one in named if one.startswith("claude-"))
    found = client.get("/api/sessions", params={"model": f'"{whole}"'}).json()["count"]
    assert found == named[whole]
    assert client.get("/api/sessions", params={"model": "claude-"}).json()["count"] > found
    assert client.get("/api/sessions", params={"model": '"claude-"'}).json()["count"] == 0
    by_project = client.get("/api/report?by=project").json()["rows"]
    without = next(row["sessions"] for row in by_project if row["project"] is None)
    assert client.get("/api/sessions", params={"project": '""'}).json()["count"] == without
