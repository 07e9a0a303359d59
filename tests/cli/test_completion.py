"""Names that shells complete, asked for as the shells ask."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import build
from terminal import Cli, Screen, run_relight

NAMES = ["f5e83048-1111", "f5e83048-2222", "a1b2c3d4-3333"]
NEWEST = ["last", "a1b2c3d4", "f5e83048-2", "f5e83048-1"]
SETUP = 'eval "$(_RELIGHT_COMPLETE={0}_source relight)"\n'
BASH = """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _relight_completion relight
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    for number, name in enumerate(NAMES):
        at = number * 3600
        lines = [
            build.claude_prompt("Fix: the\x1b[2J\n $(touch broken)", at=at, sessionId=name),
            build.claude_answer(f"m{number}", at=at + 5, sessionId=name),
        ]
        build.write_claude(tmp_path, lines, name=name)
    hostile = [
        build.claude_prompt("x", sessionId="$(touch broken)"),
        build.claude_answer("m9", sessionId="$(touch broken)"),
    ]
    hostile = [one | {"cwd": "/home/dev/$(touch broken)"} for one in hostile]
    build.write_claude(tmp_path, hostile, name="h")
    assert cli.run("import").returncode == 0
    return cli


def ask(cli: Cli, *words: str) -> list[str]:
    """The words that bash is offered for the last one, of which it got its own parts."""
    asked = {
        "_RELIGHT_COMPLETE": "bash_complete",
        "COMP_WORDS": "\n".join(["relight", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = run_relight(cli.environment | asked)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_sessions_are_completed_by_their_short_ids(cli: Cli) -> None:
    assert ask(cli, "show", "") == NEWEST
    assert ask(cli, "resume", "f5e") == ["f5e83048-2", "f5e83048-1"]
    assert ask(cli, "label", "f5e83048-2") == ["f5e83048-2222"]
    assert ask(cli, "show", "claude-code:a1") == ["a1b2c3d4"]
    assert ask(cli, "show", "claude-code", ":", "a1") == ["a1b2c3d4"]
    assert ask(cli, "show", "claude-code", ":")[0] == "a1b2c3d4"
    assert ask(cli, "show", "claude")[0] == "claude-code:a1b2c3d4"


def test_values_of_options_are_completed(cli: Cli) -> None:
    assert ask(cli, "report", "--model", "cla") == ["claude-opus-4-6"]
    assert ask(cli, "sessions", "--project", "/home") == ["/home/dev/shop"]
    assert ask(cli, "sessions", "--project", "sh") == ["shop"]
    assert ask(cli, "failures", "--source", "") == ["claude-code"]
    assert ask(cli, "report", "--by", "model,pro") == ["model,provider", "model,project"]
    assert ask(cli, "failures", "--by", "kind,po") == ["kind,position"]
    assert ask(cli, "report", "--since", "mon") == ["monday", "month"]
    cli.run("job", "add", "inbox", "--schedule", "daily 07:00", "--prompt", "x", "--model", "m")
    assert ask(cli, "job", "pause", "in") == ["inbox"]
    assert ask(cli, "failures", "--job", "") == ["inbox"]
    cli.run("skills", "record", "triage", "--invoked-at", "2026-11-15T00:00:00Z")
    assert ask(cli, "skills", "compare", "") == ["triage"]


def test_a_name_that_a_shell_would_run_is_not_offered(cli: Cli) -> None:
    for words in (("show", ""), ("show", "$"), ("sessions", "--project", "")):
        assert not [word for word in ask(cli, *words) if "$" in word]


@pytest.mark.parametrize("damage", ["missing", "empty", "noise", "settings", "home"])
def test_without_a_sound_store_nothing_is_completed_and_nothing_printed(
    cli: Cli, damage: str
) -> None:
    home = cli.home / "relight"
    if damage == "missing":
        (home / "relight.db").unlink()
    elif damage == "empty":
        (home / "relight.db").write_bytes(b"")
    elif damage == "noise":
        (home / "relight.db").write_bytes(b"noise" * 5000)
    elif damage == "settings":
        (home / "config.toml").write_text("not toml [")
    else:
        shutil.rmtree(home)
    before = sorted(path.name for path in cli.home.rglob("*"))
    assert ask(cli, "show", "") == []
    assert ask(cli, "report", "--model", "") == []
    assert sorted(path.name for path in cli.home.rglob("*")) == before


def test_nothing_is_imported_by_a_completion(cli: Cli) -> None:
    build.write_claude(cli.home, [build.claude_answer("new", sessionId="new-one")], name="new-one")
    assert ask(cli, "show", "new") == []


def run_shell(cli: Cli, shell: str, *words: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    path = f"{Path(sys.executable).parent}:{cli.environment['PATH']}"
    done = subprocess.run(
        [shell, *words],
        env=cli.environment | {"PATH": path},
        cwd=cli.home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert not (cli.home / "broken").exists()
    return done.stdout.splitlines()


def test_bash_itself_completes_sessions(cli: Cli) -> None:
    for words, found in (
        ("relight show f5", ["f5e83048-2", "f5e83048-1"]),
        ("relight show claude-code : a1", ["a1b2c3d4"]),
        ("relight report --by da", ["day"]),
    ):
        script = SETUP.format("bash") + BASH.format(words=words)
        assert run_shell(cli, "bash", "--norc", "-c", script) == found


@pytest.fixture
def alias(cli: Cli) -> str:
    """The line that makes `relight` an alias of a command of two words, as in a clone."""
    program = cli.home / "my clone" / "dev"
    program.parent.mkdir()
    relight = Path(sys.executable).parent / "relight"
    command = "RELIGHT_COMMAND=\"'$0' run\""
    program.write_text(f'#!/bin/sh\nshift\n{command} exec "{relight}" "$@"\n')
    program.chmod(0o755)
    return f"alias relight=\"'{program}' run\"\n"


def test_bash_itself_completes_an_alias_of_several_words(cli: Cli, alias: str) -> None:
    script = "shopt -s expand_aliases\n" + alias + SETUP.format("bash")
    script += "unalias relight; PATH=/usr/bin:/bin\n" + BASH.format(words="relight show f5")
    found = ["f5e83048-2", "f5e83048-1"]
    assert run_shell(cli, "bash", "--norc", "-c", script) == found


def test_fish_itself_completes_an_alias_of_several_words(cli: Cli, alias: str) -> None:
    script = f"{alias}_RELIGHT_COMPLETE=fish_source relight | source; complete -C 'relight show a'"
    lines = run_shell(cli, "fish", "--no-config", "-c", script)
    assert [line.split("\t")[0] for line in lines] == ["a1b2c3d4"]


def test_zsh_itself_completes_an_alias_of_several_words(cli: Cli, alias: str) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh")
    given = cli.environment | {"PS1": "> ", "TERM": "dumb"}
    with Screen(["zsh", "-f", "-i"], given, cli.home) as screen:
        screen.press("autoload -Uz compinit; compinit -u -D\n" + alias + SETUP.format("zsh"))
        screen.press("relight show a1\t\x01print -r -- \n")
        screen.wait_for(partial(screen.has, "\nrelight show a1b2c3d4"))


def test_fish_itself_completes_sessions_with_their_titles(cli: Cli) -> None:
    script = "_RELIGHT_COMPLETE=fish_source relight | source; complete -C 'relight show f5'"
    lines = run_shell(cli, "fish", "--no-config", "-c", script)
    assert sorted(line.split("\t")[0] for line in lines) == ["f5e83048-1", "f5e83048-2"]
    assert lines[0].split("\t")[1].startswith("Fix: the")
    assert "\x1b" not in "".join(lines)


def test_fish_itself_completes_words_with_commas_and_leaves_their_order(cli: Cli) -> None:
    script = "_RELIGHT_COMPLETE=fish_source relight | source; complete -C 'relight {}'"
    lines = run_shell(cli, "fish", "--no-config", "-c", script.format("report --by model,pro"))
    assert lines == ["model,provider", "model,project"]
    lines = run_shell(cli, "fish", "--no-config", "-c", script.format("show "))
    assert [line.split("\t")[0] for line in lines] == NEWEST


def test_zsh_itself_accepts_the_script(cli: Cli) -> None:
    script = (
        "autoload -Uz compinit; compinit -u -D; " + SETUP.format("zsh") + "print $_comps[relight]"
    )
    assert run_shell(cli, "zsh", "-f", "-c", script) == ["_relight_completion"]


def test_zsh_itself_completes_sessions_as_they_are_typed_and_leaves_their_order(cli: Cli) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh")
    path = f"{Path(sys.executable).parent}:{cli.environment['PATH']}"
    given = cli.environment | {"PATH": path, "PS1": "> ", "TERM": "dumb"}
    with Screen(["zsh", "-f", "-i"], given, cli.home) as screen:
        screen.press("autoload -Uz compinit; compinit -u -D\n" + SETUP.format("zsh"))
        screen.press("setopt menu_complete\n")  # the first Tab inserts the first word
        for typed, found in (
            ("relight show a1", "a1b2c3d4"),
            ("relight show claude-code:a1", "claude-code:a1b2c3d4"),
            ("relight show f5", "f5e83048-2"),
            ("relight show f5e83048-2", "f5e83048-2222"),
            ("relight report --model cla", "claude-opus-4-6"),
        ):
            # the completed line is printed, not run
            screen.press(f"{typed}\t\x01print -r -- \n")
            whole = f"\n{typed.rpartition(' ')[0]} {found}"
            screen.wait_for(partial(screen.has, whole))
    assert not (cli.home / "broken").exists()
