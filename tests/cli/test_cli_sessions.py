"""The list of sessions in a terminal, and sessions continued in their agents."""

import json
import os
import re
from pathlib import Path

import pytest

import build
from relight.sources.resume import quote_word
from relight.store import open_store
from terminal import Cli

FIELDS = {
    "session_id", "source", "title", "project", "branch", "model", "started_at", "ended_at",
    "outcome", "outcome_evidence", "cost_usd", "unpriced_turns", "turns", "tool_calls",
    "tool_failures", "resume",
}  # fmt: skip
NAMES = ["11111111-aaaa", "22222222-bbbb", "33333333-cccc"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def filled(cli: Cli) -> Cli:
    for number, name in enumerate(NAMES):
        lines = [
            build.claude_prompt(f"Task {number} of the invoice", at=number * 3600, sessionId=name),
            build.claude_answer(f"m{number}", at=number * 3600 + 5, sessionId=name),
        ]
        lines = [one | {"gitBranch": f"feature-{number}"} for one in lines]
        build.write_claude(cli.home, lines, name=name)
    child = [
        build.claude_prompt("Within", at=9, sessionId=NAMES[0], agentId="a1", isSidechain=True),
        build.claude_answer("m9", at=10, sessionId=NAMES[0], agentId="a1", isSidechain=True),
    ]
    build.write_claude(cli.home, child, name=f"{NAMES[0]}/subagents/agent-a1")
    assert cli.run("import").returncode == 0
    return cli


def list_names(cli: Cli, *words: str) -> list[str]:
    found = cli.json("sessions", "--since", "all", *words)["sessions"]
    return [one["session_id"].removeprefix("claude-code:")[:8] for one in found]


def test_sessions_are_listed_newest_first_with_the_promised_fields(filled: Cli) -> None:
    found = filled.json("sessions", "--since", "all")
    assert set(found) >= {"sessions", "next"}
    assert found["next"] is None
    assert set(found["sessions"][0]) >= FIELDS
    first = found["sessions"][0]
    assert first["session_id"] == f"claude-code:{NAMES[2]}"
    assert first["branch"] == "feature-2"
    assert first["resume"] == f"cd /home/dev/shop && claude --resume {NAMES[2]}"
    assert list_names(filled) == ["33333333", "22222222", "11111111"]


def test_words_and_outcomes_choose_sessions(filled: Cli) -> None:
    assert list_names(filled, "invoice", "task", "1") == ["22222222", "11111111"]
    assert list_names(filled, "22222222") == ["22222222"]
    assert list_names(filled, "nothing-such") == []
    filled.run("label", "last", "success")
    filled.run("label", "last~1", "failure")
    assert list_names(filled, "--succeeded") == ["33333333"]
    assert list_names(filled, "--failed") == ["22222222"]
    assert list_names(filled, "--unknown") == ["11111111"]


def test_a_list_is_sorted_and_paged(filled: Cli) -> None:
    assert list_names(filled, "--sort", "cost")[0] == "11111111"
    page = filled.json("sessions", "--since", "all", "--limit", "2")
    assert list_names(filled, "--limit", "2", "--after", page["next"]) == ["11111111"]
    text = filled.run("sessions", "--since", "all", "--limit", "2").stdout
    assert f"2 of 3: --limit shows more, --after {page['next']} goes on" in text
    assert filled.run("sessions", "--sort", "luck").returncode == 1
    assert filled.run("sessions", "--limit", "0").returncode == 2
    wrong = filled.run("sessions", "--after", "there").stderr
    assert "error: --after must be the `next` of a page, got 'there'" in wrong


def test_sub_agents_have_rows_if_asked_for_and_figures_add_up_once(filled: Cli) -> None:
    whole = filled.json("sessions", "--since", "all")["sessions"]
    single = filled.json("sessions", "--since", "all", "--subagents")["sessions"]
    (child,) = [one for one in single if one["parent_session_id"]]
    assert child["parent_session_id"] == f"claude-code:{NAMES[0]}"
    assert child["resume"] is None
    assert len(single) == len(whole) + 1
    for figure in ("turns", "cost_usd", "tokens", "tool_calls"):
        assert sum(one[figure] for one in single) == pytest.approx(
            sum(one[figure] for one in whole)
        )
    within = filled.json("sessions", "within", "--since", "all", "--subagents")["sessions"]
    assert within == [child]


@pytest.mark.parametrize("columns", [80, 200])
def test_a_table_of_sessions_fits_and_names_sessions_that_show_takes(
    filled: Cli, columns: int
) -> None:
    filled.environment["COLUMNS"] = str(columns)
    text = filled.run("sessions", "--since", "all").stdout
    lines = text.splitlines()
    assert max(map(len, lines)) <= columns
    shown = re.findall(r"claude-code:\S+", text.partition("continue one")[0])
    assert shown == ["claude-code:33333333", "claude-code:22222222", "claude-code:11111111"]
    assert all(filled.run("show", one).returncode == 0 for one in shown)
    assert "shop" in text
    assert "Task 2 of the invoice" in text
    assert ("claude-opus" in text) == (columns == 200)


def test_a_list_names_the_command_that_continues_a_session(filled: Cli) -> None:
    first = filled.json("sessions", "--since", "all")["sessions"][0]
    assert first["resume"]
    text = filled.run("sessions", "--since", "all").stdout
    assert (
        f"continue one in its agent: relight resume claude-code:{first['session_id'][12:20]}"
        in text
    )


def test_outcomes_have_colours_in_a_terminal_only(filled: Cli) -> None:
    filled.run("label", "last", "success")
    filled.run("label", "last~1", "failure")
    assert "\x1b" not in filled.run("sessions", "--since", "all").stdout
    filled.environment |= {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    filled.environment.pop("NO_COLOR", None)
    text = filled.run("sessions", "--since", "all").stdout
    assert re.search(r"\x1b\[32msuccess", text)
    assert re.search(r"\x1b\[31mfailure", text)


def test_an_empty_list_says_what_to_try(cli: Cli, filled: Cli) -> None:
    done = filled.run("sessions", "zebra", "--since", "all", "--project", "x", "--failed")
    assert done.stdout == (
        "no session with the words 'zebra' of outcome failure in project 'x';"
        " without any filter 3\nin all that was said and done: relight search zebra\n"
    )
    done = filled.run("sessions", "--since", "all", "--project", "shpo")
    assert done.stdout == (
        "no session in project 'shpo'; did you mean 'shop'? without the project 3\n"
    )


def test_hostile_titles_and_folders_cannot_act(cli: Cli) -> None:
    lines = [build.claude_prompt("\x1b[2J\u202eevil [bold]x"), build.claude_answer("m1")]
    build.write_claude(cli.home, [one | {"cwd": "/x/\x1b]0;t\x07"} for one in lines])
    cli.run("import")
    done = cli.run("sessions", "--since", "all")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert cli.json("sessions", "--since", "all")["sessions"][0]["resume"] is None


def write_agent(cli: Cli, name: str) -> None:
    """A program that prints its folder and its words."""
    path = cli.home / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('#!/bin/sh\npwd\nprintf "[%s]" "$@"\n')
    path.chmod(0o755)
    cli.environment["PATH"] = f"{path.parent}:{os.environ['PATH']}"


def record_in(cli: Cli, folder: Path, name: str = "s-1") -> None:
    lines = [build.claude_prompt("Go", sessionId=name), build.claude_answer("m", sessionId=name)]
    build.write_claude(cli.home, [one | {"cwd": str(folder)} for one in lines], name=name)
    assert cli.run("import").returncode == 0


def test_resume_runs_the_agent_in_the_session_s_folder(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "it's; $(touch broken) here"
    folder.mkdir()
    record_in(cli, folder)
    write_agent(cli, "claude")
    done = cli.run("resume", "last")
    assert (done.returncode, done.stdout) == (0, f"{folder}\n[--resume][s-1]")
    line = cli.run("resume", "last", "--print").stdout
    assert line == f"cd {quote_word(str(folder))} && claude --resume s-1\n"
    assert json.loads(cli.run("show", "last", "--json").stdout)["resume"] == line.strip()


def test_resume_says_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    record_in(cli, tmp_path / "gone")
    write_agent(cli, "claude")
    done = cli.run("resume", "last")
    assert done.returncode == 1
    assert f"the session's folder {tmp_path / 'gone'} cannot be opened" in done.stderr
    name = cli.json("sessions", "--since", "all")["sessions"][0]["session_id"]
    assert f"hint: `relight resume {name} --print` prints the line" in done.stderr
    (tmp_path / "gone").mkdir()
    (cli.home / "bin" / "claude").unlink()
    cli.environment["PATH"] = str(cli.home / "bin")
    done = cli.run("resume", "last")
    assert done.returncode == 1
    assert "there is no program 'claude' on the PATH" in done.stderr
    assert "hint: " in done.stderr


def test_resume_refuses_what_cannot_be_continued(filled: Cli) -> None:
    (child,) = [
        one["session_id"]
        for one in filled.json("sessions", "--since", "all", "--subagents")["sessions"]
        if one["parent_session_id"]
    ]
    done = filled.run("resume", child)
    assert done.returncode == 1
    assert f"relight resume claude-code:{NAMES[0]}" in done.stderr
    chat = filled.home / "talk.jsonl"
    chat.write_text('[{"role": "user", "content": "Hi"}]\n')
    filled.run("import", "--source", "chat", "--from", str(chat))
    name = filled.json("sessions", "--since", "all", "--source", "chat")["sessions"][0]
    assert name["resume"] is None
    refused = filled.run("resume", name["session_id"]).stderr
    assert "cannot be continued: what recorded it has no command for that" in refused
    assert f"hint: `relight show {name['session_id']}` shows what it did" in refused


def test_signs_of_an_outcome_are_a_word_with_a_question_mark(filled: Cli) -> None:
    """They point to an outcome and prove nothing; the note below says so."""
    with open_store(filled.home / "relight") as store, store.transaction() as database:
        database.execute("update session set points_to = 'failure' where key like '22222222%'")
    done = filled.run("sessions", "--since", "all", "--no-import")
    row = next(line for line in done.stdout.splitlines() if "22222222" in line)
    assert "failure?" in row
    assert "signs point there and prove nothing" in done.stdout
    found = json.loads(filled.run("sessions", "--since", "all", "--no-import", "--json").stdout)
    assert {one["session_id"][12:20]: one["points_to"] for one in found["sessions"]} == {
        "11111111": None,
        "22222222": "failure",
        "33333333": None,
    }
    hits = filled.run("search", "Task", "--no-import").stdout
    assert "failure?" in hits
