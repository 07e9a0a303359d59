"""Lists: templates by kind, the newest or the best first, and the sessions they were chosen for."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import build_warm
import relight
from relight.errors import MissingError, RelightError
from relight.store import Store
from relight.warm.library import Template, delete_template, retire_template, show_template
from relight.warm.listing import list_provisions, list_templates, load_template
from relight.warm.results import read_template_stats


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as opened:
        yield opened


@pytest.fixture
def shelf(store: Store) -> Store:
    """Three templates; the one in the middle has a kind that a person gave it."""
    make(store, "rounding invoices", "old", now=1000, tags=["money", "tests"])
    make(store, "rotating signing keys", "keys", now=3000, category="ops", task_type="file")
    make(store, "parsing dates", "new", now=2000, tags=["tests"], max_examples=3)
    return store


def make(store: Store, task: str, name: str, **facts: Any) -> Template:
    tools = [f"{word}-{name}" for word in build_warm.TOOLS]
    return build_warm.capture(store, task, tools, name=name, **facts)


def list_names(store: Store, **wanted: Any) -> list[str]:
    return [one.name for one in list_templates(store, **wanted)]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, ["keys", "new", "old"]),
        ({"category": "ops"}, ["keys"]),
        ({"category": "research"}, []),
        ({"task_type": "code"}, ["new", "old"]),
        ({"task_type": "file", "category": "coding"}, []),
        ({"tags": ["tests"]}, ["new", "old"]),
        ({"tags": ["tests", "money"]}, ["old"]),
        ({"tags": ["test"]}, []),
        ({"max_examples": 3}, ["new"]),
        ({"project": "shop"}, []),
        ({"state": "candidate"}, []),
        ({"state": "all"}, ["keys", "new", "old"]),
    ],
)
def test_templates_are_listed_by_kind_and_tags_the_newest_first(
    shelf: Store, wanted: dict[str, Any], names: list[str]
) -> None:
    assert list_names(shelf, **wanted) == names


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"category": "cooking"}, "category cannot be 'cooking'"),
        ({"task_type": "coding"}, "task_type cannot be 'coding'"),
        ({"state": "dead"}, "state cannot be 'dead'"),
        ({"sort": "name"}, "sort cannot be 'name'"),
        ({"tags": "money"}, "tags must be a list of words"),
        ({"max_examples": -1}, "max_examples must be a whole number from 0 up"),
    ],
)
def test_a_kind_that_does_not_exist_is_refused_by_name(
    store: Store, wanted: dict[str, Any], problem: str
) -> None:
    with pytest.raises(RelightError, match=problem):
        list_templates(store, **wanted)


def test_a_person_may_say_the_kind_and_the_number_of_examples(shelf: Store) -> None:
    (keys,), (new,) = (list_templates(shelf, tags=[], category="ops"), list_at(shelf, "new"))
    assert (keys.category, keys.task_type) == ("ops", "file")
    shown = show_template(new, with_seed=False)
    assert (shown.examples, shown.seed_messages) == (3, len(new.seed))
    assert relight.validate_messages(new.seed) == []
    for wrong in ({"category": "cooking"}, {"task_type": "coding"}, {"max_examples": 0}):
        with pytest.raises(RelightError, match=next(iter(wrong))):
            make(shelf, "sorting queues", "more", **wrong)


def list_at(store: Store, name: str) -> list[Template]:
    return [one for one in list_templates(store) if one.name == name]


def test_the_best_of_a_category_has_the_best_outcome_then_the_best_results(store: Store) -> None:
    first = make(store, "rounding invoices", "first", now=1000)
    second = make(store, "parsing dates", "second", now=2000)
    make(store, "sorting queues", "failed", now=3000, outcome="failure", force=True)
    now = int(time.time() * 1000)
    for number in range(4):
        follow(store, f"a{number}", "warm", first, "success", at=now)
        follow(store, f"b{number}", "warm", second, "failure", at=now)
    assert list_names(store, sort="best") == ["first", "second", "failed"]
    assert load_template(store, category="coding").name == "first"
    assert load_template(store, "second", category=None).name == "second"
    retire_template(store, "first", why="a test")
    assert load_template(store, category="coding").name == "second"
    with pytest.raises(MissingError, match="no template of category ops is in use"):
        load_template(store, category="ops")
    with pytest.raises(RelightError, match="name must be given"):
        load_template(store)


def follow(
    store: Store, key: str, arm: str, template: Template | None, outcome: str | None, at: int = 1
) -> None:
    build_warm.add_session(store, key, outcome)
    build_warm.add_provision(store, key, arm, template, at=at)


def test_every_decision_is_listed_with_the_session_that_followed(store: Store) -> None:
    made = make(store, "rounding invoices", "first")
    gone = make(store, "parsing dates", "gone")
    follow(store, "one", "warm", made, "success", at=1000)
    follow(store, "two", "cold", made, None, at=2000)
    follow(store, "three", "warm", gone, "failure", at=3000)
    build_warm.add_provision(store, "four", "warm", made, at=4000)
    build_warm.add_provision(store, "five", "cold", None, at=5000)
    delete_template(store, "gone")
    found = list_provisions(store)
    assert [
        (one.session_id, one.arm, one.template, one.template_version, one.is_followed, one.outcome)
        for one in found.provisions
    ] == [
        ("five", "cold", None, None, False, None),
        ("four", "warm", "first", 1, False, None),
        ("chat:three", "warm", None, 1, True, "failure"),
        ("chat:two", "cold", "first", 1, True, "unknown"),
        ("chat:one", "warm", "first", 1, True, "success"),
    ]
    assert (found.total, found.provisions[0].at) == (5, "1970-01-01T00:00:05.000Z")
    of_first = list_provisions(store, template="first", arm="warm", limit=1)
    assert ([one.session_id for one in of_first.provisions], of_first.total) == (["four"], 2)
    build_warm.add_provision(store, "six", "continued", None, at=6000)
    assert [one.session_id for one in list_provisions(store, arm="continued").provisions] == ["six"]
    for wrong in ({"template": "none"}, {"arm": "lukewarm"}, {"limit": 0}):
        with pytest.raises(RelightError):
            list_provisions(store, **wrong)


def test_totals_count_templates_examples_and_results_by_type(shelf: Store) -> None:
    (old,) = list_at(shelf, "old")
    follow(shelf, "one", "warm", old, "success")
    follow(shelf, "two", "warm", old, None)
    follow(shelf, "three", "cold", old, "failure")
    build_warm.add_provision(shelf, "four", "warm", old)
    retire_template(shelf, "keys", why="a test")
    found = read_template_stats(shelf)
    code, file = found.types
    assert (code.task_type, code.live, code.retired, code.candidates) == ("code", 2, 0, 0)
    assert code.examples == 3 + sum(len(one.get("tool_calls", ())) for one in old.seed)
    assert (code.warm, code.cold, code.unfollowed) == (2, 1, 1)
    assert (code.successes, code.failures, code.unknown) == (1, 0, 1)
    assert (file.task_type, file.live, file.retired, file.examples) == ("file", 0, 1, 0)
    for name in ("live", "retired", "examples", "warm", "cold", "successes", "unfollowed"):
        assert getattr(found.total, name) == getattr(code, name) + getattr(file, name)
