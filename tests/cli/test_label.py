import re
from pathlib import Path

import pytest

import build
from terminal import Cli

FIRST = "11111111-0000-4000-8000-000000000000"
SECOND = "22222222-0000-4000-8000-000000000000"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    for name, task, at in ((FIRST, "Fix the first bug", 0), (SECOND, "Fix the other one", 100)):
        lines = [
            build.claude_prompt(task, at=at),
            build.claude_answer(f"m{at}", at=at + 1),
            build.claude_prompt("and the test?", at=at + 2),
            build.claude_answer(f"n{at}", at=at + 3),
        ]
        build.write_claude(tmp_path, [{**line, "sessionId": name} for line in lines], name=name)
    cli.run("import")
    return cli


def read_outcome(cli: Cli, name: str) -> str:
    outcome: str = cli.json("show", name)["outcome"]
    return outcome


def test_label_alone_asks_for_each_session_without_outcome_newest_first(cli: Cli) -> None:
    done = cli.run("label", given="y\nn\n")
    first, other = done.stdout.index("Fix the other one"), done.stdout.index("Fix the first bug")
    assert first < other
    assert "> and the test?" in done.stdout
    assert (
        "every other session has an outcome\n2 labelled now; 2 labelled success or failure in all"
        in done.stdout
    )
    assert (read_outcome(cli, SECOND), read_outcome(cli, FIRST)) == ("success", "failure")
    assert "0 labelled now; 2 labelled success or failure in all" in cli.run("label").stdout


def test_a_wrong_key_is_asked_again_and_a_label_can_be_undone_and_skipped(cli: Cli) -> None:
    done = cli.run("label", given="x\ny\nz\nz\ns\nu\nq\n")
    assert f"the label of claude-code:{SECOND} is removed" in done.stdout
    assert "nothing to undo" in done.stdout
    assert read_outcome(cli, SECOND) == "unknown"
    assert cli.json("show", FIRST)["evidence"][0] == "a person said unknown"
    assert "1 labelled now; 0 labelled success or failure in all" in done.stdout


def test_the_last_label_can_be_undone_too(cli: Cli) -> None:
    done = cli.run("label", given="y\nn\nz\ny\nq\n")
    assert f"the label of claude-code:{FIRST} is removed" in done.stdout
    assert (read_outcome(cli, SECOND), read_outcome(cli, FIRST)) == ("success", "success")
    assert "2 labelled now; 2 labelled success or failure in all" in done.stdout


def test_a_label_is_taken_back_by_its_name(cli: Cli) -> None:
    cli.run("label", FIRST, "failure")
    done = cli.run("label", FIRST, "clear")
    assert done.stdout == f"the label of claude-code:{FIRST} is removed\n"
    assert read_outcome(cli, FIRST) == "unknown"


def test_a_label_without_an_outcome_says_what_is_missing(cli: Cli) -> None:
    done = cli.run("label", FIRST)
    assert done.returncode == 2
    assert "success, failure, unknown or clear" in done.stderr


def test_the_end_names_the_sign_that_needs_the_fewest_further_labels(cli: Cli) -> None:
    assert "50 more with one sign until it can decide" in cli.run("label", given="q\n").stdout
    answer = build.claude_answer("o1", {"type": "text", "text": "I could not fix it."}, at=201)
    lines = [build.claude_prompt("Fix the third", at=200), answer]
    third = "33333333-0000-4000-8000-000000000000"
    build.write_claude(cli.home, [{**line, "sessionId": third} for line in lines], name=third)
    done = cli.run("label", given="n\nq\n")
    assert "49 more with the sign “admitted” until it can decide" in done.stdout


def test_a_terminal_breaks_what_it_asks_about_between_words(cli: Cli) -> None:
    long = "Rename the customer of every unpaid invoice to its successor, and say which ones"
    lines = [
        build.claude_prompt(long, at=200),
        build.claude_answer("o1", {"type": "text", "text": long}, at=201),
    ]
    third = "33333333-0000-4000-8000-000000000000"
    build.write_claude(cli.home, [{**line, "sessionId": third} for line in lines], name=third)
    whole = cli.run("label", given="q\n").stdout
    assert whole.count(long) == 2
    cli.environment |= {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "40"}
    shown = re.sub(r"\x1b\[[0-9;]*m", "", cli.run("label", given="q\n").stdout)
    asked = shown.partition("labelled now")[0].splitlines()
    assert "Rename the customer of every unpaid" in asked
    assert all(len(line) <= 40 for line in asked)
