"""Choosing a template: by what the task is about, and none where nothing is like it."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import build_warm
import relight
from relight.relevance import cosine, rarity, read_words, weigh
from relight.store import Store
from relight.templates.choice import rank_templates
from relight.templates.library import find_template

INVOICES = "Fix the rounding in the invoices module"
CLUSTER = "Deploy the search cluster to the staging region"
DATES = "Parse dates with time zones in the importer"
TOOLS = {
    INVOICES: ("pytest", "ruff", "mypy", "invoice"),
    CLUSTER: ("kubectl", "helm", "docker", "terraform"),
    DATES: ("python", "grep", "sed", "tzdata"),
}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with build_warm.open_warm(tmp_path, hold_out=0.0) as opened:
        for task, programs in TOOLS.items():
            build_warm.capture(opened, task, programs, name=task.split()[0].lower(), project="/a")
        yield opened


def names(choices: list[Any]) -> list[str]:
    return [one.template.name for one in choices]


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("invoice totals are rounded wrongly", "fix"),
        ("roll the cluster out to staging", "deploy"),
        ("the importer gets time zones wrong", "parse"),
    ],
)
def test_the_template_whose_task_is_most_like_it_is_chosen(
    store: Store, task: str, name: str
) -> None:
    chosen = relight.choose_template(store, task)
    assert chosen is not None
    assert chosen.template.name == name
    assert 0 < chosen.similarity < 1
    assert "like this one" in chosen.reasons[0]


def test_a_task_like_none_of_them_gets_none(store: Store) -> None:
    assert relight.choose_template(store, "write a poem about the autumn sea") is None


def test_a_template_needs_the_tools_the_category_and_the_tags_asked_for(store: Store) -> None:
    assert relight.choose_template(store, INVOICES, tools=["bash", "read"]) is not None
    assert relight.choose_template(store, INVOICES, tools=["terminal"]) is None
    assert relight.choose_template(store, INVOICES, category="research") is None
    assert relight.choose_template(store, INVOICES, tags=["none"]) is None


def test_templates_of_the_same_project_come_first(store: Store) -> None:
    other = f"{INVOICES} and credit notes"
    build_warm.capture(store, other, ("make", "cargo"), name="elsewhere", project="/b")
    assert names(relight.rank_templates(store, other, project="/a"))[0] == "fix"
    assert names(relight.rank_templates(store, other, project="/b"))[0] == "elsewhere"


def test_among_near_equals_the_one_that_achieved_more_is_chosen_more_often(
    store: Store,
) -> None:
    twins = [
        build_warm.capture(store, CLUSTER, [f"{name}{n}" for n in range(4)], name=name)
        for name in ("good", "poor")
    ]
    for number in range(30):
        for twin, outcome in zip(twins, ("success", "failure"), strict=True):
            key = f"{twin.name}-{number}"
            build_warm.add_session(store, key, outcome)
            build_warm.add_provision(store, key, "warm", twin)

    first = [names(rank_templates(store, CLUSTER, rng=Random(n)))[0] for n in range(20)]
    assert first.count("good") > first.count("poor")


def test_a_template_that_does_harm_retires_by_itself_and_says_why(store: Store) -> None:
    made = build_warm.capture(store, "Rotate the signing keys", ("gpg", "vault"), name="keys")
    for number in range(12):
        for arm, outcome in (("warm", "failure"), ("cold", "success")):
            build_warm.add_session(store, f"{arm}-{number}", outcome)
            build_warm.add_provision(store, f"{arm}-{number}", arm, made)
    assert relight.choose_template(store, "Rotate the signing keys") is None
    retired = find_template(store, "keys")
    assert retired.retired_at is not None
    assert "worse than starting cold with a probability of" in (retired.retired_why or "")
    assert "0 of 12 succeeded with version 1, 12 of 12 without" in (retired.retired_why or "")


words = st.text("abcdefgh ", min_size=1, max_size=60)


@given(words, words)
def test_likeness_is_symmetric_and_between_nothing_and_all(a: str, b: str) -> None:
    first, second = read_words(a), read_words(b)
    assert cosine(first, second) == pytest.approx(cosine(second, first))
    assert 0 <= cosine(first, second) <= 1
    if first:
        assert cosine(first, first) == pytest.approx(1)


@given(words)
def test_weighed_words_have_length_one(text: str) -> None:
    weighed = weigh(read_words(text), {}, unseen=rarity(10, 0))
    assert sum(value * value for value in weighed.values()) == pytest.approx(float(bool(weighed)))
