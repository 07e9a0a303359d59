"""The word index: what may be given is found before what is near, and an addition costs little."""

import sqlite3
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from msgspec.structs import replace

import build_warm
import relight
from relight.chat.similarity import weigh_words
from relight.names import tool_name
from relight.store import Store
from relight.warm import index
from relight.warm.choice import LISTED, rank_templates
from relight.warm.library import (
    Template,
    add_version,
    delete_template,
    find_template,
    restore_template,
    retire_template,
)
from relight.warm.words import read_words

TASK = "Fix the rounding error in the invoice totals"
MINE = "Fix the rounding error in the invoice totals of the tax report"
ODD_NAMES = ("functions.bash", "browser.open:url", "mcp://srv/read file", "a" * 80, "исполнить")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with build_warm.open_warm(tmp_path, hold_out=0.0, live=0) as opened:
        yield opened


def add(store: Store, like: Template, number: int, **facts: Any) -> Template:
    """Another template, without the session that it would be made of."""
    told = {"name": f"t{number}", "content_hash": str(number), "source_session": "told:x", **facts}
    words = replace(read_words(like.seed), user=weigh_words(facts.get("task", like.task)))
    return add_version(store, replace(like, words=words, **told))


@pytest.fixture
def crowded(store: Store) -> Store:
    """Far more templates like a task than are listed, and one less like it that alone fits."""
    first = build_warm.capture(store, f"{TASK}, ticket 0", name="t0", project="/p0")
    for number in range(1, 3 * LISTED):
        add(store, first, number, task=f"{TASK}, ticket {number}", project=f"/p{number}")
    facts = {"tools": ["shell"], "tags": ["tax"], "project": "/mine", "category": "ops"}
    add(store, first, 999, name="mine", task=MINE, source_session="codex:1", **facts)
    return store


def names(choices: list[Any]) -> list[str]:
    return [one.template.name for one in choices]


@pytest.mark.parametrize(
    "asked", [{"tools": ["shell"]}, {"tags": ["tax"]}, {"category": "ops"}, {"tools": {"shell"}}]
)
def test_what_does_not_fit_takes_no_place_from_what_does(
    crowded: Store, asked: dict[str, Any]
) -> None:
    assert names(rank_templates(crowded, TASK, **asked)) == ["mine"]


@pytest.mark.parametrize("asked", [{"project": "/mine"}, {"agent": "codex"}])
def test_many_that_are_nearer_do_not_hide_those_of_the_same_project_or_agent(
    crowded: Store, asked: dict[str, Any]
) -> None:
    assert "mine" not in names(rank_templates(crowded, TASK))
    assert "mine" in names(rank_templates(crowded, TASK, **asked))
    assert names(rank_templates(crowded, MINE, **asked))[0] == "mine"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_tool_is_known_again_by_its_name_whatever_that_is(store: Store, name: str) -> None:
    made = build_warm.capture(store, TASK, messages=build_warm.session(TASK, tool=name))
    assert made.tools == [tool_name(name)]
    given = relight.provision_session(store, TASK, tools=[name, "other"])
    assert given.arm == "warm"
    assert relight.choose_template(store, TASK, tools=["other"]) is None


@pytest.mark.parametrize(
    "tools",
    [
        [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
        [{"name": "bash", "input_schema": {}}],
        ("bash",),
        frozenset(["bash"]),
    ],
)
def test_tools_may_be_given_as_the_apis_take_them(store: Store, tools: Any) -> None:
    build_warm.capture(store, TASK)
    assert relight.choose_template(store, TASK, tools=tools) is not None
    assert relight.provision_session(store, TASK, tools=tools).text


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tools": "bash"}, "tools must be a list"),
        ({"tools": [{"type": "web_search"}]}, "tools must be a list of names"),
        ({"tools": [3]}, "tools must be a list of names"),
        ({"tags": None}, "tags must be a list of words, not None"),
        ({"task": None}, "task must be a text, not None"),
        ({"task": ["a"]}, "task must be a text"),
    ],
)
def test_what_cannot_be_meant_is_reported(store: Store, wrong: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"task": TASK, **wrong}
    for ask in (relight.rank_templates, relight.choose_template, relight.provision_session):
        with pytest.raises(relight.RelightError, match=words):
            ask(store, **asked)


def invent(dice: Random) -> str:
    words = [f"{a}{b}ing" for a in "bcdfghklm" for b in ("ar", "el", "or", "un")]
    rare = f"{dice.choice('pqrst')}{dice.randrange(40)}"
    return " ".join([*dice.sample(words, 12), rare, f"part_{dice.choice(words)}"])


@pytest.mark.sqlite("it counts changed rows by SQLite's own counter")
def test_adding_one_template_writes_its_own_words_and_no_others(store: Store) -> None:
    dice = Random(7)
    first = build_warm.capture(store, invent(dice), name="t0")
    written = []
    for number in range(1, 100):
        before = _count_changes(store)
        add(store, first, number, task=invent(dice))
        written.append(_count_changes(store) - before)
    alone = median(written)
    assert alone < 100
    assert sum(written[20:]) < 10 * alone * len(written[20:])


def _count_changes(store: Store) -> int:
    with store.reading() as database:
        assert isinstance(database, sqlite3.Connection)
        return database.total_changes


def test_templates_are_ranked_as_if_the_index_were_rebuilt(store: Store) -> None:
    """Also after some have gone and come back: words are as rare as they are now.

    Only which are listed last may differ, as the first step picks those.
    """
    dice = Random(3)
    first = build_warm.capture(store, invent(dice), name="t0")
    for number in range(1, 70):
        add(store, first, number, task=invent(dice), project=f"/p{number % 7}")
    for number in range(20, 30):
        retire_template(store, f"t{number}", why="a test")
    for number in range(20, 24):
        restore_template(store, f"t{number}")
    delete_template(store, "t5")
    tasks = [invent(dice) for _ in range(20)]
    before: list[Any] = []
    after: list[Any] = []
    for ranked in (before, after):
        for task in tasks:
            found = rank_templates(store, task)
            assert len(found) == LISTED
            ranked.append([(one.template.name, one.similarity) for one in found[:20]])
        with store.transaction() as database:
            index.rebuild_index(database)
    assert before == after


def test_an_index_of_an_older_form_is_rebuilt(store: Store) -> None:
    build_warm.capture(store, TASK, name="mine")
    with store.transaction() as database:
        database.execute("delete from template_word where word like '% %'")
        database.execute(
            "update meta set value = ? where key = 'template_catalogue'",
            ('{"documents":1,"floor":0.1}',),
        )
    assert names(rank_templates(store, TASK, tools=["bash"])) == ["mine"]


def test_words_that_only_a_deleted_template_had_are_gone(store: Store) -> None:
    dice = Random(5)
    first = build_warm.capture(store, invent(dice), name="t0")
    for number in range(1, 30):
        add(store, first, number, task=invent(dice))
    add(store, first, 99, name="secret", task="reorganise the acquisition")
    delete_template(store, "secret")
    for table in ("template_word", "template_rarity"):
        assert store.query(f"select word from {table} where word like 'acquisition%'") == []


def test_agreement_on_what_to_do_never_beats_a_task_that_is_clearly_more_alike(
    store: Store,
) -> None:
    """Ten that all do the same stand behind the one whose task is nearer, which does another."""
    build_warm.capture(store, TASK, ("cargo", "make"), name="near", tags=["it"])
    other = build_warm.capture(store, f"{TASK} of the shop and the till", name="t0")
    for number in range(1, 10):
        add(store, other, number, task=f"{other.task} number{number}")
    first, second, *_ = rank_templates(store, f"{TASK} please")
    assert first.template.name == "near"
    assert second.similarity < first.similarity


def test_of_equal_tasks_in_a_project_the_one_others_agree_with_comes_first(
    store: Store,
) -> None:
    odd = build_warm.capture(store, TASK, ("cargo", "make"), name="z-odd", project="/a")
    usual = build_warm.capture(store, TASK, name="usual", project="/a", force=True)
    for number in range(3):
        add(store, usual, number, task=f"{TASK} in the shop{number}")
    assert find_template(store, "z-odd").task == usual.task == odd.task
    assert names(rank_templates(store, TASK, project="/a"))[0] == "usual"
