"""Long lists: each page is small, and its neighbours have the rest."""

import re
from pathlib import Path

from starlette.testclient import TestClient

import build
import serving
from relight.model import row_id
from relight.store import Store

LARGEST_BYTES = 100_000
RUNS = 30


def fill_jobs(store: Store, number: int) -> None:
    """Jobs of another scheduler, with thirty runs each."""
    with store.transaction() as database:
        for place in range(number):
            key, job = f"job{place:03}", row_id("job", "hermes", f"job{place:03}")
            database.execute(
                "insert into job (id, source, key, name, schedule, skills, state, created_at)"
                " values (?, 'hermes', ?, ?, '0 3 * * *', '[]', 'scheduled', ?)",
                (job, key, f"night-{place:03}", build.START),
            )
            for run in range(RUNS):
                found, at = f"{key}-{run}", build.START + run * 60_000
                database.execute(
                    "insert into run (id, source, key, job_id, status, started_at, finished_at,"
                    " outcome, outcome_evidence)"
                    " values (?, 'hermes', ?, ?, 'completed', ?, ?, ?, '[]')",
                    (
                        row_id("run", "hermes", found),
                        found,
                        job,
                        at,
                        at + 30_000,
                        ("success", "failure", "unknown")[run % 3],
                    ),
                )


def fill_templates(store: Store, number: int) -> None:
    with store.transaction() as database:
        for place in range(1, number + 1):
            database.execute(
                "insert into template (id, name, category, created_at) values (?, ?, ?, ?)",
                (place, f"template-{place:03}", "bugfix", build.START + place),
            )
            database.execute(
                "insert into template_version (template_id, version, description, tags, task_type,"
                " task, tools, actions, seed, tokens, content_hash, score, outcome, evidence,"
                " overruled, redactions, source_session, created_at) values (?, 1, ?, '[]', 'code',"
                " 't', '[]', '{}', '[]', 9, ?, 0.8, 'success', '[]', '[]', '{}', ?, ?)",
                (place, "words " * 30, str(place), f"codex:{place:032}", build.START + place),
            )


def walk(client: TestClient, path: str, name: str) -> list[str]:
    """The names of a list on all of its pages, by the links from one to the next."""
    found = []
    while path:
        text = client.get(path).text
        assert len(text.encode()) <= LARGEST_BYTES, path
        found += re.findall(name, text)
        after = re.search(r'rel="next" href="([^"]+)"', text)
        path = after[1].replace("&amp;", "&") if after else ""
    return found


def test_a_hundred_jobs_are_shown_in_pages_with_their_outcomes(store: Store) -> None:
    fill_jobs(store, 100)
    with serving.make_client(store.config.home) as client:
        names = walk(client, "/jobs", r'data-row href="/jobs/hermes:(job\d+)"')
        assert sorted(names) == [f"job{place:03}" for place in range(100)]
        text = client.get("/jobs?page=3").text
        assert "81–100 of 100 jobs" in text
        assert text.count("of the last 30 runs 10 succeeded and 10 failed") == 20
        # a page that does not exist is the last one, and no page the first
        assert "81–100 of 100 jobs" in client.get("/jobs?page=9999").text
        for odd in ("0", "-1", "x", "", "²"):
            assert "1–40 of 100 jobs" in client.get("/jobs", params={"page": odd}).text, odd


def test_the_runs_of_few_jobs_are_links_one_by_one(store: Store) -> None:
    fill_jobs(store, 8)
    with serving.make_client(store.config.home) as client:
        text = client.get("/jobs").text
        assert text.count("?run=") == 8 * RUNS
        assert "pager" not in text


def test_many_templates_are_shown_in_pages(store: Store) -> None:
    fill_templates(store, 120)
    with serving.make_client(store.config.home) as client:
        names = walk(client, "/templates", r'data-row href="/templates/(template-\d+)"')
        assert names == [f"template-{place:03}" for place in range(120, 0, -1)]
        best = client.get("/templates?sort=best&page=2").text
        assert re.search(r'rel="next" href="[^"]*sort=best[^"]*page=3', best)


def test_no_page_of_hits_offers_itself_as_more(tmp_path: Path) -> None:
    for number in range(70):  # more sessions than are read
        key = f"{number:08d}-aaaa-4aaa-8aaa-111111111111"
        build.write_claude(tmp_path, [build.claude_prompt("A word", sessionId=key)], name=key)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        home = store.config.home
    with serving.make_client(home) as client:
        first, whole = (client.get(f"/search?q=word{end}").text for end in ("", "&all=hits"))
    assert re.findall(r"\d+ of 70 hits|up to \d+ more", first) == ["50 of 70 hits", "up to 20 more"]
    assert re.findall(r"\d+ of 70 hits|up to \d+ more", whole) == ["60 of 70 hits"]
