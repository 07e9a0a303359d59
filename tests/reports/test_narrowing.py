"""Why nothing matches: the filter in the way, what is there without it, and what was meant."""

from pathlib import Path

import pytest

import build
from relight.errors import MissingError
from relight.reports.failures import explain_no_failure
from relight.reports.filters import find_jobs, read_filter
from relight.reports.narrowing import explain_no_session, find_near
from relight.reports.search import find_hits
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.store.queries.listing import Listing


@pytest.fixture
def store(tmp_path: Path, store: Store) -> Store:
    """Three sessions: two in `shop` and one in `wiki`, the last of them on another model."""
    for at, (start, project, model) in enumerate(
        [
            ("11111111", "/src/shop", "claude-opus-4-6"),
            ("22222222", "/src/shop", "claude-opus-4-6"),
            ("33333333", "/src/wiki", "claude-haiku-4-5"),
        ]
    ):
        key = f"{start}-aaaa-4aaa-8aaa-111111111111"
        lines = [
            build.claude_prompt(f"Task {at} with apples", at=at * 1000, sessionId=key),
            build.claude_answer(f"msg_{start}", at=at * 1000 + 5, sessionId=key, model=model),
        ]
        build.write_claude(tmp_path, [one | {"cwd": project} for one in lines], name=key)
    build.import_home(store, tmp_path)
    return store


def explain(store: Store, chosen: Filter, listing: Listing | None = None) -> str:
    found = explain_no_session(store, chosen, listing)
    assert found is not None
    return found.text


def test_the_filter_in_the_way_is_named_with_what_is_there_without_it(store: Store) -> None:
    chosen = Filter(project="shop", model="haiku")
    assert explain(store, chosen) == (
        "no session on model 'haiku' in project 'shop'; without the model 2, without the project 1"
    )
    assert explain(store, Filter(since="2099-01-01")) == (
        "no session since 2099-01-01; on all days 3"
    )
    assert explain(store, Filter(project="shop"), Listing(search="pears")) == (
        "no session with the words 'pears' in project 'shop'; without the words 2"
    )


def test_a_misspelt_name_is_answered_with_the_nearest_known_one(store: Store) -> None:
    found = explain_no_session(store, Filter(project="sohp", since="2026-01-01"))
    assert found is not None
    assert found.words[0] == "did you mean 'shop'?"
    assert found.ways[0].changes == {"project": "shop"}
    assert find_near(store, "model", "claude-opsu-4-6") == "claude-opus-4-6"
    assert find_near(store, "project", "/src/wikki") == "/src/wiki"
    assert find_near(store, "project", "something else") is None


def test_a_name_that_other_days_have_is_not_taken_for_misspelt(store: Store) -> None:
    text = explain(store, Filter(project="wiki", since="2099-01-01"))
    assert text == "no session in project 'wiki' since 2099-01-01; on all days 1"


def test_days_in_the_wrong_order_are_said_to_be(store: Store) -> None:
    text = explain(store, Filter(since="2026-02-01", until="2026-01-01"))
    assert "the last day is before the first" in text


def test_whole_names_and_none_are_said_as_such(store: Store) -> None:
    assert explain(store, Filter(project='"/src/sh"')).startswith("no session in project '/src/sh'")
    assert explain(store, Filter(project='""')).startswith("no session without a project;")


def test_what_matches_or_is_not_recorded_has_no_reason(store: Store, tmp_path: Path) -> None:
    assert explain_no_session(store, Filter(project="shop")) is None
    with build.open_home(tmp_path / "other") as empty:
        assert explain_no_session(empty, Filter(project="shop")) is None


def test_failures_and_searches_say_the_same(store: Store) -> None:
    found = explain_no_failure(store, Filter(project="shpo"))
    assert found.text == "no failure in project 'shpo'; did you mean 'shop'?"
    note = find_hits(store, "apples", read_filter(store, since="all", project="none")).note
    assert note == "no matching text in project 'none'; without the project 3"


def test_a_misspelt_job_is_answered_with_the_nearest(store: Store) -> None:
    with store.transaction() as database:
        database.execute(
            "insert into job (id, source, key, name) values (1, 'relight', 'nightly', 'nightly')"
        )
    with pytest.raises(MissingError) as error:
        find_jobs(store, "nightyl")
    assert error.value.hint is not None
    assert error.value.hint.startswith("did you mean 'nightly'? ")
