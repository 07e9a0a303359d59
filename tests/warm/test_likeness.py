"""Which template a task gets: by what templates did and saw, and by what such tasks take."""

from pathlib import Path
from typing import Any

import pytest

import build_messages as say
import build_warm
import relight
from relight.store import Store
from relight.store.templates import TemplateWords, read_words
from relight.warm.choice import USUAL, rank_templates
from relight.warm.likeness import WordComparison
from relight.warm.sharing import export_template, import_template, read_template_file
from relight.warm.words import read_words as find_words

HARNESS = (
    "Consider the following request. {0} Instructions: you are an engineer with a shell. Work in"
    " the current directory, change files, run the tests, and submit when everything passes."
)
SUBJECTS = ("invoice", "ledger", "calendar", "mailer", "parser", "cache", "login", "search")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with build_warm.open_warm(tmp_path, hold_out=0.0, live=0) as opened:
        yield opened


def session(task: str, commands: list[str], results: list[str] | None = None) -> list[Any]:
    messages = [say.user(task)]
    for number in range(12):
        at = number % len(commands)
        result = results[at] if results else "ok"
        messages += say.act(f"c{number}", "bash", result, command=commands[at])
    return [*messages, say.assistant("It is done.")]


def add(store: Store, name: str, task: str, commands: list[str], **facts: Any) -> None:
    results = facts.pop("results", None)
    messages = session(task, commands, results)
    build_warm.capture(store, task, name=name, messages=messages, force=True, **facts)


def names(choices: list[Any]) -> list[str]:
    return [one.template.name for one in choices]


def test_a_task_is_compared_with_what_templates_ran_and_saw(store: Store) -> None:
    add(store, "ran", "Make it faster", ["python profile.py ledger_totals"])
    add(store, "saw", "Clean up here", ["git status"], results=["modified: mailer_queue.py"])
    add(store, "other", "Look around", ["ls"])
    for task, name, word in (
        ("why does ledger_totals take so long", "ran", "ledger_totals (its commands)"),
        ("mailer_queue drops a message", "saw", "mailer_queue (its results)"),
    ):
        first = rank_templates(store, task)[0]
        assert first.template.name == name
        assert word in first.reasons[0]


@pytest.mark.parametrize(("number", "is_given"), [(2, False), (3, True)])
def test_a_project_with_three_templates_always_gives_one_of_them(
    store: Store, number: int, is_given: bool
) -> None:
    for subject in SUBJECTS[:number]:
        add(store, subject, f"Fix the {subject}", [f"pytest {subject}"], project="/shop")
    task = "write a poem about the autumn sea"
    assert (relight.choose_template(store, task, project="/shop") is not None) == is_given
    assert relight.choose_template(store, task, project="/other") is None
    assert relight.choose_template(store, task) is None


def test_the_same_project_comes_first_at_any_likeness(store: Store) -> None:
    for subject in SUBJECTS[:3]:
        add(store, subject, f"Fix the {subject}", [f"pytest {subject}"], project="/shop")
    task = "Translate the manual into French"
    add(store, "elsewhere", task, ["make translation"], project="/docs")
    ranked = rank_templates(store, task, project="/shop")
    assert sorted(names(ranked)[:3]) == sorted(SUBJECTS[:3])
    assert names(rank_templates(store, task, project="/new"))[0] == "elsewhere"


def test_in_a_project_the_steps_that_such_tasks_take_decide(store: Store) -> None:
    """One is nearer by a word; the others agree on how such a thing is done here."""
    usual = ["bin/test invoices", "git diff", "bin/lint invoices"]
    for number in range(4):
        add(store, f"usual-{number}", f"Wrong totals {number} in invoices", usual, project="/shop")
    odd = ["curl http://x", "docker ps"]
    add(store, "odd", "Wrong totals in invoices on the tax page", odd, project="/shop")
    first = rank_templates(store, "wrong totals in invoices, tax page", project="/shop")[0]
    assert first.template.name.startswith("usual")
    assert USUAL in first.reasons
    alone = rank_templates(store, "wrong totals in invoices, tax page")[0]
    assert alone.template.name == "odd"
    assert USUAL not in alone.reasons


def test_the_message_of_a_harness_changes_no_choice(store: Store) -> None:
    for number in range(24):
        subject = SUBJECTS[number % len(SUBJECTS)]
        task = HARNESS.format(f"The {subject} of part{number} is wrong.")
        add(store, f"{subject}-{number}", task, [f"pytest tests/{subject}_{number}"], project="/a")
    for subject in SUBJECTS:
        plain = f"please look at the {subject}"
        inside = HARNESS.format(plain)
        for project in ("/a", "/b"):
            ranked, wrapped = (
                rank_templates(store, one, project=project) for one in (plain, inside)
            )
            assert names(ranked)[0].startswith(subject)
            assert names(wrapped)[:3] == names(ranked)[:3]


def test_words_that_every_template_holds_make_none_alike() -> None:
    held = {n: TemplateWords(user={"fix": 1.0, f"part{n}": 1.0}) for n in range(30)}
    alike = WordComparison(held).compare({"fix": 1.0}).similarity
    assert max(alike.values()) < 0.001
    assert WordComparison(held).compare({"fix": 1.0, "part7": 1.0}).similarity[7] > 0.2


def test_failed_calls_and_here_documents_are_no_commands() -> None:
    script = "cat > totals.py <<'EOF'\nsecret_body = 1\nEOF\npython totals.py"
    messages = [
        say.user("Run it"),
        *say.act("a", "bash", "fine", command=script),
        *say.act("b", "bash", "bash: frobnicate: command not found", command="frobnicate"),
    ]
    words = find_words(messages)
    assert "total" in words.commands
    assert "secret_body" not in words.commands
    assert "frobnicat" not in words.commands
    assert "frobnicat" in words.results


def test_tools_and_what_follows_what_are_actions_where_no_command_is_run() -> None:
    messages = [say.user("Cancel my order")]
    for at, tool in enumerate(("find_user", "get_order", "cancel_order")):
        messages += say.act(f"c{at}", tool, '{"ok": true}', order_id="W1")
    words = find_words(messages)
    assert {"find_user", "get_order", "find_user get_order"} <= set(words.actions)
    assert "order_id" in words.commands


def test_no_secret_is_among_the_words_of_a_template(store: Store) -> None:
    token = "ghp_" + "Zk3v9QxR7mT2bN8cW5yH1jL4pS6dF0gA1b2C"
    messages = session(f"Push with {token}", [f"git push https://{token}@github.com/a/b"])
    made = build_warm.capture(store, "x", messages=messages, name="push", force=True)
    with store.reading() as database:
        (words,) = read_words(database, [made.id]).values()
    assert "git" in words.commands
    held = [word for field in words.__struct_fields__ for word in getattr(words, field)]
    assert not any("zk3v9" in word for word in held)


def test_a_template_of_an_earlier_relight_or_from_a_file_gets_its_words_from_its_seed(
    store: Store, tmp_path: Path
) -> None:
    add(store, "old", "Make it faster", ["python profile.py ledger_totals"])
    made = relight.rank_templates(store, "ledger_totals")[0].template
    foreign = export_template(made, tmp_path / "shared")
    with store.transaction() as database:
        database.execute("update template_version set words = null")
        database.execute("delete from meta where key = 'template_catalogue'")
    assert names(rank_templates(store, "why is ledger_totals slow")) == ["old"]
    with build_warm.open_warm(tmp_path / "second", hold_out=0.0) as other:
        import_template(other, read_template_file(other, foreign))
        assert names(rank_templates(other, "why is ledger_totals slow")) == ["old"]
