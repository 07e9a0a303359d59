"""Why nothing matches: the filter in the way, what is there without it, and what was meant."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import build
from relight.errors import MissingError, RelightError
from relight.reports.failures import explain_no_failure
from relight.reports.filters import find_jobs, is_in_project, read_filter
from relight.reports.listing import list_sessions
from relight.reports.narrowing import explain_no_session, find_near
from relight.reports.search import find_hits
from relight.reports.totals import report
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


def test_a_long_filter_is_not_repeated_whole(store: Store) -> None:
    assert len(explain(store, Filter(project="x" * 400))) < 150


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


def test_days_in_the_wrong_order_are_refused_with_both(store: Store) -> None:
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    with pytest.raises(RelightError) as caught:
        read_filter(store, since="today", until="yesterday", now=now)
    assert caught.value.message == "the last day, 2026-11-15, is before the first, 2026-11-16"
    assert caught.value.hint == "swap them"
    with pytest.raises(RelightError) as caught:
        read_filter(store, until="2026-01-31", now=now)  # the first day is 30 days ago
    assert caught.value.hint == "also give the first day, such as 2026-01-31"


def test_a_path_is_that_folder_and_those_below_it(store: Store, tmp_path: Path) -> None:
    for number, folder in enumerate(("/src/shop-old", "/src/shop/api", "/src/SHOP2")):
        key = f"4444444{number}-aaaa-4aaa-8aaa-111111111111"
        lines = [build.claude_prompt("Go", sessionId=key), build.claude_answer(key, sessionId=key)]
        build.write_claude(tmp_path, [one | {"cwd": folder} for one in lines], name=key)
    build.import_home(store, tmp_path)

    def find(project: str) -> set[str | None]:
        chosen = Filter(project=project)
        found = {one.project for one in list_sessions(store, chosen).sessions}
        assert found == {row.project for row in report(store, ("project",), chosen).rows}
        every = {row.key("project") for row in report(store, ("project",)).rows}
        assert found == {one for one in every if is_in_project(one, project)}
        return found

    assert find("/src/shop") == find("/src/shop/") == {"/src/shop", "/src/shop/api"}
    assert find("shop") == {"/src/shop", "/src/shop-old", "/src/shop/api", "/src/SHOP2"}
    assert find('"/src/shop"') == {"/src/shop"}


@pytest.mark.parametrize("text", ["_" * 30_000, "%" * 30_000, "日" * 30_000])
def test_a_text_that_is_too_long_to_look_for_is_refused(store: Store, text: str) -> None:
    for ask in (
        lambda: list_sessions(store, Filter(), Listing(search=text)),
        lambda: report(store, ("day",), Filter(project=text)),
        lambda: report(store, ("day",), Filter(project=f"/{text}")),
        lambda: report(store, ("day",), Filter(model=text)),
    ):
        with pytest.raises(RelightError, match="cannot look for a text of 30,00") as caught:
            ask()
        assert caught.value.hint == "4,000 are the most: look for a part of it"


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
