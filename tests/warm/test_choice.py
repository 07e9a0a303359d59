"""Choosing a template: by what the task is about, and none where nothing is like it."""

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import build_warm
import relight
from relight.chat.similarity import cosine, rarity, weigh, weigh_words
from relight.store import Store
from relight.warm.choice import rank_templates
from relight.warm.library import delete_template, find_template
from relight.warm.sharing import export_template, import_template, read_template_file

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


@pytest.mark.parametrize("task", ["fix the kettle", "write a poem about the search for love"])
def test_one_common_word_alone_is_no_likeness(store: Store, task: str) -> None:
    assert rank_templates(store, task)
    assert relight.choose_template(store, task) is None


def test_one_word_is_enough_where_there_is_little_else(store: Store) -> None:
    build_warm.capture(store, "the scheduler", ("cron", "at"), name="scheduler")
    chosen = relight.choose_template(store, "scheduler bug")
    assert chosen is not None
    assert chosen.template.name == "scheduler"


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


def test_templates_of_the_same_agent_come_first_but_after_those_of_the_same_project(
    store: Store,
) -> None:
    """Another agent calls its tools otherwise, so that its example is of less use."""
    other = f"{INVOICES} and credit notes"
    for agent, task in (("claude-code", other), ("hermes", f"{other} and totals")):
        relight.capture_template(
            store,
            f"{agent}:1",
            name=agent,
            project="/b",
            messages=build_warm.session(task, ("make", agent)),
            outcome="success",
        )
    assert names(rank_templates(store, other))[0] == "claude-code"
    (first, *_) = rank_templates(store, other, agent="hermes")
    assert first.template.name == "hermes"
    assert "it is of the same agent" in first.reasons
    assert names(rank_templates(store, other, agent="hermes", project="/a"))[0] == "fix"
    assert names(rank_templates(store, other, agent="codex"))[0] == "claude-code"
    # also of one that came from elsewhere, without its session
    own = find_template(store, "hermes")
    foreign = export_template(own, Path(store.config.home / "shared"))
    delete_template(store, "hermes")
    import_template(store, read_template_file(store, foreign))
    assert names(rank_templates(store, other, agent="hermes"))[0] == "hermes"
    # likeness to nothing is not made up for
    assert not rank_templates(store, "write a poem about the autumn sea", agent="hermes")


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
            build_warm.add_provision(store, key, "warm", twin, at=int(time.time() * 1000))

    first = [names(rank_templates(store, CLUSTER, rng=Random(n)))[0] for n in range(20)]
    assert first.count("good") > 15 > first.count("poor")


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


def test_a_template_is_held_to_the_sessions_that_were_held_out_from_it(store: Store) -> None:
    """Its own tasks are hard, those of others easy: that is no harm it does."""
    hard = build_warm.capture(store, "Rotate the signing keys", ("gpg", "vault"), name="keys")
    easy = find_template(store, "fix")
    for number in range(30):
        for template, arm, outcome in (
            (hard, "warm", "success" if number < 8 else "failure"),
            (hard, "cold", "success" if number < 5 else "failure"),
            (easy, "cold", "success"),
        ):
            key = f"{template.name}-{arm}-{number}"
            build_warm.add_session(store, key, outcome)
            build_warm.add_provision(store, key, arm, template)
    assert relight.choose_template(store, "Rotate the signing keys") is not None
    assert find_template(store, "keys").state == "live"


@pytest.mark.parametrize("task", ["\ud800 deploy the cluster", "\x00", "", "the of and"])
def test_any_text_may_be_a_task(store: Store, task: str) -> None:
    assert isinstance(rank_templates(store, task), list)


def test_a_task_in_a_script_without_spaces_is_found_by_its_pairs_of_characters(
    store: Store,
) -> None:
    build_warm.capture(store, "请修复发票模块中的四舍五入错误", ("invoice", "test"), name="zh")
    chosen = relight.choose_template(store, "发票的四舍五入有误")
    assert chosen is not None
    assert chosen.template.name == "zh"


words = st.text("abcdefgh ", min_size=1, max_size=60)


@given(words, words)
def test_likeness_is_symmetric_and_between_nothing_and_all(a: str, b: str) -> None:
    first, second = weigh_words(a), weigh_words(b)
    assert cosine(first, second) == pytest.approx(cosine(second, first))
    assert 0 <= cosine(first, second) <= 1
    if first:
        assert cosine(first, first) == pytest.approx(1)


@given(words)
def test_weighed_words_have_length_one(text: str) -> None:
    weighed = weigh(weigh_words(text), {}, unseen=rarity(10, 0))
    assert sum(value * value for value in weighed.values()) == pytest.approx(float(bool(weighed)))
