"""Relight notices hooks that Codex skips, from what Codex keeps of its user's trust."""

import json
from pathlib import Path

import pytest

from relight.warm.agents.codex_trust import hash_hook
from relight.warm.agents.settings import AGENTS, apply_change, find_troubles, plan_change
from terminal import Cli

COMMAND = "/opt/relight/bin/relight warm --hook codex || true"


def install(home: Path, command: str = COMMAND) -> Path:
    planned = plan_change("codex", environment={"HOME": str(home)}, command=command)
    apply_change(planned)
    return planned.path


def trust(path: Path, more: str = "") -> None:
    """Write what Codex does when its user trusts all hooks."""
    rows = []
    for event, name in (
        ("UserPromptSubmit", "user_prompt_submit"),
        ("SessionStart", "session_start"),
    ):
        (group,) = json.loads(path.read_text())["hooks"][event]
        key = json.dumps(f"{path}:{name}:0:0")
        hashed = hash_hook(event, group, group["hooks"][0])
        rows.append(f'[hooks.state.{key}]\ntrusted_hash = "{hashed}"\n{more}')
    path.with_name("config.toml").write_text("".join(rows))


def test_hooks_are_no_trouble_once_they_are_trusted(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    assert find_troubles(environment) == []
    path = install(tmp_path)
    (trouble,) = find_troubles(environment)
    assert "silently skips hooks that you have not trusted" in trouble
    trust(path)
    assert find_troubles(environment) == []


def test_trust_is_found_under_the_place_that_a_link_leads_to(tmp_path: Path) -> None:
    trust(install(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path / ".codex")
    assert find_troubles({"HOME": "/nowhere", "CODEX_HOME": str(tmp_path / "link")}) == []


def test_a_hook_that_changed_since_must_be_trusted_again(tmp_path: Path) -> None:
    path = install(tmp_path)
    trust(path)
    install(tmp_path, COMMAND.replace(" ||", " --home /x ||"))
    (trouble,) = find_troubles({"HOME": str(tmp_path)})
    assert "not trusted" in trouble


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[features]\nhooks = false\n", "set hooks = true under [features]"),
        ("[features]\ncodex_hooks = false\n", "set hooks = true under [features]"),
        ("no TOML at all", None),
        ("hooks = 5\n", None),
        ('[hooks]\nstate = "x"\n', None),
    ],
)
def test_what_codex_cannot_run_is_said_and_what_is_unreadable_is_not(
    tmp_path: Path, config: str, words: str | None
) -> None:
    path = install(tmp_path)
    path.with_name("config.toml").write_text(config)
    found = find_troubles({"HOME": str(tmp_path)})
    assert [one for one in found if words and words in one] == (found if words else [])
    assert bool(found) == bool(words)


def test_a_hook_that_is_switched_off_is_named(tmp_path: Path) -> None:
    trust(install(tmp_path), more="enabled = false\n")
    (trouble,) = find_troubles({"HOME": str(tmp_path)})
    assert "switched off" in trouble


def test_installing_and_the_doctor_say_that_one_step_is_left(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    done = cli.run("warm", "--install", "codex", "--yes")
    assert "one step is left: Codex silently skips" in done.stdout
    assert cli.json("warm", "--install", "codex", "--yes")["trouble"]
    assert any("warm starts in codex" in one for one in cli.json("doctor")["advice"])
    assert "hook" in AGENTS["codex"].words
