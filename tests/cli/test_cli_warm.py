"""The commands of warm starts, as a person or a script runs them."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import build
import build_warm
from relight.chat.blocks import TAG
from relight.chat.tokens import estimate_tokens
from terminal import run_relight

TASK = "Fix the rounding in the invoices module"
LIKE = "invoice totals are rounded wrongly"


class Cli:
    """The real command in a separate process, with a separate home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        store = home / "relight"
        self.environment = {**os.environ, "HOME": str(home), "RELIGHT_HOME": str(store)}
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME"):
            self.environment.pop(name, None)

    def run(self, *words: str, given: str | None = None, code: int = 0) -> str:
        done = run_relight(self.environment, *words, given=given)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    lines = [
        {"id": "good", "messages": build_warm.session(TASK), "outcome": "success"},
        {"id": "short", "messages": build_warm.session(TASK)[:5], "outcome": "success"},
    ]
    (tmp_path / "chats.jsonl").write_bytes(build.as_lines(lines))
    build_warm.open_warm(tmp_path, hold_out=0.0).close()
    made = Cli(tmp_path)
    made.run("import", "--source", "chat", "--from", str(tmp_path / "chats.jsonl"))
    return made


def test_from_a_session_to_a_template_to_a_warm_start_to_a_report(cli: Cli) -> None:
    made = cli.json("template", "create", "chat:good", "--name", "rounding", "--tags", "money")
    assert (made["name"], made["version"], made["outcome"]) == ("rounding", 1, "success")
    listed = cli.json("template", "list")["templates"]
    assert [one["name"] for one in listed] == ["rounding"]
    text = cli.json("template", "show", "rounding")["text"]
    assert listed[0]["tokens"] == estimate_tokens(text), "what a session gets"
    given = cli.json("warm", LIKE, "--session", "next")
    assert (given["arm"], given["template"]) == ("warm", "rounding")
    assert given["text"].startswith(f'<{TAG} name="rounding"')
    assert given["similarity"] > 0.1
    for form in ("openai", "anthropic", "hermes"):
        messages = cli.json("warm", LIKE, "--format", form)["messages"]
        assert messages[0]["role"] == "user"
        assert messages[-1]["role"] == "assistant"
    report = cli.json("experiment", "report")
    assert report["verdict"] == "cannot tell yet"
    assert report["plan"]["number"] == 1
    assert report["provisions"] == {"warm": 4, "cold": 0, "abstained": 0}
    (stats,) = cli.json("template", "stats")["templates"]
    # no session followed these decisions: they are no sessions of unknown outcome
    assert (stats["template"], stats["warm"], stats["unknown"]) == ("rounding", 0, 0)
    assert stats["unfollowed"] == 4


def test_a_task_like_nothing_prints_nothing_and_is_no_error(cli: Cli) -> None:
    given = cli.json("warm", "write a poem about the sea")
    assert (given["arm"], given["template"], given["text"]) == ("cold", None, None)
    assert cli.run("warm", "write a poem about the sea") == ""


def test_what_does_not_make_a_template_is_reported_with_its_figure(cli: Cli) -> None:
    told = cli.run("template", "create", "chat:short", code=1)
    assert "too short: 5 messages and 2 calls, at least 20 and 5 are needed" in told
    shown = cli.run("template", "create", "chat:short", "--force")
    assert "overruled by --force: too short" in shown


def test_a_template_of_a_failed_session_is_shown_as_what_it_is(cli: Cli) -> None:
    told = cli.run("template", "create", "chat:good", "--outcome", "failure", "--force")
    (one,) = cli.json("template", "list")["templates"]
    shown = cli.run("template", "show", one["name"])
    for text in (told, shown):
        assert "the session failed: what it shows did not lead to success" in text
        assert "no outcome is known" not in text
    assert one["warning"].startswith("the session failed")


def test_a_gate_that_shuts_everything_out_is_reported(cli: Cli) -> None:
    cli.run("template", "create", "chat:good", "--name", "rounding")
    given = cli.json("warm", LIKE, "--tools", "get_user_details")
    why = "rounding is like this task, but it calls bash, which the session lacks"
    assert (given["arm"], given["reason"]) == ("cold", why)


def test_templates_are_found_exported_imported_retired_and_deleted(cli: Cli) -> None:
    assert cli.json("template", "auto", "--dry-run")["candidates"][0]["session_id"] == "chat:good"
    assert cli.json("template", "list")["templates"] == []
    assert "1 template made" in cli.run("template", "auto")
    (one,) = cli.json("template", "list")["templates"]
    assert "made of chat:good" in cli.run("template", "show", one["name"])
    cli.run("template", "export", one["name"], "--to", str(cli.home / "out"))
    (path,) = (cli.home / "out").iterdir()
    cli.run("template", "retire", one["name"], "--why", "old")
    assert cli.json("warm", LIKE)["arm"] == "cold"
    shown = cli.run("template", "import", str(path), "--name", "foreign", given="y\n")
    assert f'<{TAG} name="foreign"' in shown
    assert cli.json("warm", LIKE)["template"] == "foreign"
    cli.run("template", "delete", "foreign", "--yes")
    cli.run("template", "restore", one["name"])
    assert cli.json("warm", LIKE)["template"] == one["name"]


def test_a_foreign_template_that_is_declined_is_not_kept(cli: Cli) -> None:
    cli.run("template", "auto")
    (one,) = cli.json("template", "list")["templates"]
    cli.run("template", "export", one["name"], "--to", str(cli.home / "out"))
    (path,) = (cli.home / "out").iterdir()
    cli.run("template", "import", str(path), "--name", "foreign", given="n\n", code=1)
    assert [found["name"] for found in cli.json("template", "list")["templates"]] == [one["name"]]


def test_a_near_duplicate_is_imported_by_force_and_its_record_says_so(cli: Cli) -> None:
    cli.run("template", "create", "chat:good", "--name", "rounding")
    cli.run("template", "export", "rounding", "--to", str(cli.home / "out"))
    (path,) = (cli.home / "out").iterdir()
    content = json.loads(path.read_text())
    for message in content["seed"]:
        if message["role"] == "tool":
            message["content"] += ", again"
    path.write_text(json.dumps(content))
    words = ("template", "import", str(path), "--name", "foreign", "--yes")
    told = cli.run(*words, code=1)
    assert "nearly the same as rounding" in told
    assert "template import --force" in told
    cli.run(*words, "--force")
    assert "overruled by --force: it is nearly the same" in cli.run("template", "show", "foreign")


def test_templates_are_made_and_listed_by_kind_and_shown_by_category(cli: Cli) -> None:
    kind = ("--type", "file", "--category", "ops", "--max-examples", "3", "--tags", "money,tests")
    made = cli.json("template", "create", "chat:good", "--name", "rounding", *kind)
    assert (made["task_type"], made["category"], made["examples"]) == ("file", "ops", 3)
    assert made["seed_messages"] == len(made["seed"])
    for wanted, number in (
        ((), 1),
        (("--type", "file"), 1),
        (("--type", "code"), 0),
        (("--category", "ops", "--tags", "money"), 1),
        (("--category", "coding"), 0),
        (("--tags", "money,other"), 0),
        (("--max-examples", "3", "--sort", "best"), 1),
        (("--max-examples", "2"), 0),
    ):
        assert len(cli.json("template", "list", *wanted)["templates"]) == number, wanted
    assert "no template matches" in cli.run("template", "list", "--type", "code")
    assert "no candidates wait" in cli.run("template", "list", "--candidates")
    shown = cli.json("template", "show", "--category", "ops")
    assert (shown["name"], shown["versions"]) == ("rounding", [1])
    told = cli.run("template", "show", "--category", "coding", code=1)
    assert "no template of category coding is in use" in told
    for words in ((), ("rounding", "--category", "ops")):
        cli.run("template", "show", *words, code=2)


def test_sessions_with_like_beginnings_do_not_look_alike_in_the_list_of_starts(cli: Cli) -> None:
    names = [f"claude-code:0a1b2c3d-4e5f-6789-{end}" for end in ("0001", "0002")]
    for name in names:
        cli.run("warm", LIKE, "--session", name)
    listed = cli.run("template", "provisions")
    assert [listed.count(name[-6:]) for name in names] == [1, 1], listed


def test_the_latest_starts_and_the_totals_are_listed(cli: Cli) -> None:
    cli.run("template", "create", "chat:good", "--name", "rounding")
    cli.run("warm", LIKE, "--session", "next")
    cli.run("warm", "write a poem about the sea", "--session", "poem")
    found = cli.json("template", "provisions")
    assert [(one["session_id"], one["arm"], one["template"]) for one in found["provisions"]] == [
        ("poem", "cold", None),
        ("next", "warm", "rounding"),
    ]
    assert found["total"] == 2
    (one,) = cli.json("template", "provisions", "--template", "rounding")["provisions"]
    tokens = cli.json("template", "list")["templates"][0]["tokens"]
    assert (one["tokens"], one["outcome"], one["is_followed"]) == (tokens, None, False)
    text = cli.run("template", "provisions", "--limit", "1")
    assert "no template is" in text
    assert "1 of 2: --limit shows more" in text
    stats = cli.json("template", "stats")
    assert [one["task_type"] for one in stats["types"]] == ["code"]
    assert (stats["total"]["live"], stats["total"]["unfollowed"]) == (1, 1)
    assert "unused" in cli.run("template", "stats")


def test_installing_shows_the_change_asks_does_it_and_undoes_it(cli: Cli) -> None:
    settings = cli.home / ".claude" / "settings.json"
    cli.run("warm", "--install", "claude-code", given="n\n", code=1)
    assert not settings.exists()
    shown = cli.run("warm", "--install", "claude-code", given="y\n")
    assert '+            "command":' in shown
    hook = json.loads(settings.read_text())["hooks"]["UserPromptSubmit"][0]["hooks"][0]
    cli.run("template", "create", "chat:good", "--name", "rounding")
    prompt = json.dumps({"session_id": "s-1", "prompt": LIKE, "cwd": "/x"})
    *words, either, way = shlex.split(hook["command"])[1:]
    assert (either, way) == ("||", "true")
    answer = json.loads(cli.run(*words, given=prompt))
    assert TAG in answer["hookSpecificOutput"]["additionalContext"]
    assert cli.run(*words, given=prompt) == ""
    assert cli.run(*words, given="nonsense") == ""
    told = cli.json("warm", "--install", "claude-code", "--remove", "--yes")
    assert (told["agent"], told["path"], told["changed"]) == ("claude-code", str(settings), True)
    assert not cli.json("warm", "--install", "claude-code", "--remove", "--yes")["changed"]
    assert not settings.exists()
    cli.run("warm", "--install", "hermes", "--yes")
    config = cli.home / ".hermes" / "config.yaml"
    assert config.read_text() == "plugins:\n  enabled:\n    - relight\n"
    cli.run("warm", "--install", "hermes", "--remove", "--yes")
    assert not config.exists()


PROMPT = json.dumps({"session_id": "s-2", "prompt": LIKE, "cwd": "/x"})


@pytest.mark.parametrize(
    "words",
    [
        "warm --hook claude-code --option-of-a-newer-relight",
        "warm --hook agent-of-a-newer-relight",
        "warm --hook",
        "--nosuch warm --hook claude-code",
        "worm --hook=claude-code",
        "warm --hook claude-code --budget nonsense",
        "warm --hook claude-code >&-",
        "warm --hook claude-code <&-",
        "warm --hook claude-code <&- >&- 2>&-",
        "warm --hook claude-code >/dev/full",
        "warm --hook claude-code --home /dev/null/x",
        "--home /dev/null/x warm --hook claude-code",
    ],
)
def test_a_hook_never_ends_with_a_status_that_blocks_a_prompt(cli: Cli, words: str) -> None:
    cli.run("template", "create", "chat:good", "--name", "rounding")
    (cli.home / "prompt").write_text(PROMPT)
    line = f"{shlex.quote(sys.executable)} -m relight {words}"
    done = subprocess.run(
        f"{{ {line} ; }} <{shlex.quote(str(cli.home / 'prompt'))}",
        shell=True,
        env=cli.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


def test_an_installed_hook_ends_well_if_its_relight_lacks_the_option(cli: Cli) -> None:
    """An older Relight, or none at all: the status is the shell's."""
    cli.run("warm", "--install", "claude-code", "--yes")
    settings = json.loads((cli.home / ".claude" / "settings.json").read_text())
    command = settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    program = shlex.split(command)[0]
    older = cli.home / "older"
    older.write_text("#!/bin/sh\nexit 2\n")
    older.chmod(0o755)
    for other in (older, cli.home / "gone"):
        line = command.replace(program, shlex.quote(str(other)))
        done = subprocess.run(line, shell=True, capture_output=True, check=False)
        assert done.returncode == 0


def test_a_closed_output_is_no_error(cli: Cli) -> None:
    line = f"{shlex.quote(sys.executable)} -m relight report >&-"
    done = subprocess.run(
        line, shell=True, env=cli.environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_candidates_are_reported_listed_and_accepted(cli: Cli) -> None:
    listed = cli.json("template", "list")
    assert (listed["templates"], listed["candidates"]) == ([], 1)
    assert "1 candidate waits to be accepted" in cli.run("template", "list")
    (one,) = cli.json("template", "list", "--candidates")["templates"]
    assert one["state"] == "candidate"
    assert one["name"] in cli.run("template", "list", "--candidates")
    assert "not used until" in cli.run("template", "show", one["name"])
    assert cli.json("warm", LIKE)["arm"] == "cold"
    assert "is in use" in cli.run("template", "accept", one["name"])
    assert cli.json("warm", LIKE)["template"] == one["name"]
    assert cli.json("template", "list")["candidates"] == 0


def test_relight_alone_names_what_waits_for_a_person(cli: Cli) -> None:
    waiting = "→ 1 candidate waits to be accepted: "
    (line,) = [line for line in cli.run().splitlines() if line.startswith(waiting)]
    assert line.endswith("relight template list --candidates")
    (one,) = cli.json("template", "list", "--candidates")["templates"]
    cli.run("template", "accept", one["name"])
    assert waiting not in cli.run()


def test_an_import_names_new_candidates(cli: Cli) -> None:
    other = "Deploy the search cluster to the staging region"
    line = {"id": "b", "messages": build_warm.session(other, ("a", "b")), "outcome": "success"}
    (cli.home / "more.jsonl").write_bytes(build.as_lines([line]))
    words = ("import", "--source", "chat", "--from", str(cli.home / "more.jsonl"))
    assert "1 good session is now a candidate for a template" in cli.run(*words)
    assert cli.json(*words)["candidates"] == 0


def test_a_template_that_makes_way_is_reported(cli: Cli) -> None:
    build_warm.open_warm(cli.home, hold_out=0.0, live=1).close()
    cli.run("template", "create", "chat:good", "--name", "first")
    told = cli.json("template", "create", "chat:short", "--name", "second", "--force")
    assert told["made_way"] == ["first"]
    assert "second retired to make room" in cli.run("template", "restore", "first")
    assert "first is in use" in cli.run("template", "restore", "first")


def test_text_from_files_cannot_move_the_cursor(cli: Cli) -> None:
    evil = cli.home / "evil.json"
    evil.write_text(json.dumps({"format": "relight-template/1", "name": "\x1b[2J", "evil\x1b": 1}))
    assert "\x1b" not in cli.run("template", "import", str(evil), code=1)
    assert "\x1b" not in cli.run("template", "show", "\x1b[2J", code=1)


def test_values_that_cannot_be_meant_are_reported(cli: Cli) -> None:
    for words in (
        ("warm", LIKE, "--budget", "-1"),
        ("warm", LIKE, "--category", "mischief"),
        ("experiment", "report", "--plan", "0"),
        ("template", "auto", "--limit", "0"),
        ("template", "show", "x", "--version", "0"),
    ):
        assert "Invalid value" in cli.run(*words, code=2)
    told = cli.run("experiment", "report", "--template", "none", code=1)
    assert "there is no template 'none'" in told
    assert "nothing has started warm yet" in cli.run("experiment", "report")


def test_a_plan_is_shown_and_changed_for_later_sessions_and_no_report_takes_an_effect(
    cli: Cli,
) -> None:
    assert "the first one begins with this plan" in cli.run("experiment", "plan")
    cli.run("template", "create", "chat:good", "--name", "rounding")
    cli.json("warm", LIKE, "--session", "next")
    told = cli.run("experiment", "report", "--effect", "0.15", code=1)
    assert "the planned effect is fixed before the sessions are seen" in told
    assert "`relight experiment plan --effect X`" in told
    assert "not confirmed" in cli.run("experiment", "plan", "--effect", "0.15", code=1)
    changed = cli.json("experiment", "plan", "--effect", "0.15", "--measure", "success", "--yes")
    assert [(one["number"], one["measure"], one["effect"]) for one in changed["plans"]] == [
        (2, "success", 0.15),
        (1, "both", 0.1),
    ]
    assert changed["plans"][1]["ended_at"] == changed["plans"][0]["begun_at"]
    assert cli.json("experiment", "report")["provisions"]["warm"] == 0
    assert cli.json("experiment", "report", "--plan", "1")["provisions"]["warm"] == 1
    assert "no plan 7" in cli.run("experiment", "report", "--plan", "7", code=1)
    assert "effect must be above 0" in cli.run(
        "experiment", "plan", "--effect", "5", "--yes", code=1
    )
    shown = cli.run("experiment", "plan")
    assert "+15 points" in shown
    assert shown.count(changed["plans"][0]["begun_at"][:10]) >= 2  # days are whole at 80 columns


def test_an_empty_home_says_what_to_do(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert "`relight template auto --dry-run`" in cli.run("template", "list")
    assert "no success is known" in cli.run("template", "auto")
    assert "no templates yet" in cli.run("template", "stats")
    assert "no experiments yet" in cli.run("experiment", "list")


def test_wrong_words_are_reported(cli: Cli) -> None:
    assert "name the task" in cli.run("warm", code=2)
    assert "--remove goes with --install" in cli.run("warm", "x", "--remove", code=2)
    assert "no template 'none'" in cli.run("template", "show", "none", code=1)
