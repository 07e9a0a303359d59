"""The skill that teaches an agent to ask Relight: written, kept apart from the user's, removed."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from relight.cli import relight as program
from relight.errors import RelightError
from relight.sources.skill_documents import FRONT_MATTER
from relight.warm.agents.settings import SKILLS, apply_change, plan_change
from terminal import Cli

COMMAND = "/opt/relight/bin/relight"
PLACES = {
    "claude-code": ".claude/skills/relight/SKILL.md",
    "codex": ".agents/skills/relight/SKILL.md",
    "hermes": ".hermes/skills/relight/SKILL.md",
}


def change(agent: str, home: Path, *, remove: bool = False, command: str = COMMAND) -> Path:
    planned = plan_change(
        agent,
        remove=remove,
        environment={"HOME": str(home)},
        home=home / "relight",
        command=command,
        agents=SKILLS,
    )
    apply_change(planned)
    return planned.path


@pytest.mark.parametrize("agent", SKILLS)
def test_the_skill_is_written_once_and_removed_with_its_folder(tmp_path: Path, agent: str) -> None:
    path = change(agent, tmp_path)
    assert path == tmp_path / PLACES[agent]
    text = path.read_text()
    assert change(agent, tmp_path).read_text() == text
    (path.parent.parent / "mine").mkdir()
    change(agent, tmp_path, remove=True)
    assert [one.name for one in path.parent.parent.iterdir()] == ["mine"]


@pytest.mark.parametrize("theirs", [(), (".agents",), (".agents/skills/relight", "relight")])
def test_removing_the_skill_leaves_the_folders_that_were_there_before_and_no_others(
    tmp_path: Path, theirs: tuple[str, ...]
) -> None:
    for folder in theirs:
        (tmp_path / folder).mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    change("codex", tmp_path, command="/opt/older/relight")
    change("codex", tmp_path)
    change("codex", tmp_path, remove=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_skill_has_the_front_matter_that_agents_need(tmp_path: Path) -> None:
    found = FRONT_MATTER.match(change("claude-code", tmp_path).read_text())
    assert found
    fields = dict(line.split(": ", 1) for line in found[1].splitlines())
    assert fields["name"] == "relight"
    assert 80 < len(fields["description"]) <= 1024
    assert ": " not in fields["description"]  # a plain scalar of YAML


def test_every_command_in_the_skill_is_one_that_relight_has(tmp_path: Path) -> None:
    text = change("codex", tmp_path).read_text()
    commands = re.findall(rf"`{COMMAND} ([^`]+)`", text)
    assert len(commands) >= 7
    for line in commands:
        name, *words = shlex.split(line)
        command = program.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        known = {one for param in command.params for one in param.opts}
        assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("theirs", ["mine\n", "---\nname: relight\n---\nMy own.\n"])
def test_a_file_of_the_user_is_neither_replaced_nor_removed(tmp_path: Path, theirs: str) -> None:
    path = tmp_path / PLACES["codex"]
    path.parent.mkdir(parents=True)
    path.write_text(theirs)
    with pytest.raises(RelightError, match="is there already"):
        change("codex", tmp_path)
    change("codex", tmp_path, remove=True)
    assert path.read_text() == theirs


def test_a_skill_that_the_user_edited_is_left_to_the_user(tmp_path: Path) -> None:
    path = change("codex", tmp_path)
    path.write_text(path.read_text().replace("Prefer", "Always prefer"))
    for remove in (True, False):
        with pytest.raises(RelightError, match="was changed since Relight wrote it"):
            change("codex", tmp_path, remove=remove)
    assert "Always prefer" in path.read_text()


def test_a_skill_of_another_home_of_relight_is_updated_and_removed(tmp_path: Path) -> None:
    path = change("codex", tmp_path)
    for kept in (tmp_path / "relight" / "originals").iterdir():
        kept.unlink()
    change("codex", tmp_path, remove=True)
    assert not path.exists()


def test_the_command_writes_for_the_agents_that_are_there_and_asks_first(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert "none of claude-code, codex and hermes was found" in cli.run("skills", "install").stderr
    assert cli.run("skills", "install", "--remove", "--yes").stdout.count("nothing to do") == 3
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".codex").mkdir()
    asked = cli.run("skills", "install")
    assert asked.returncode == 1
    assert "add --yes" in asked.stderr
    assert "+name: relight" in asked.stdout
    assert not (tmp_path / PLACES["claude-code"]).exists()
    done: Any = json.loads(cli.run("skills", "install", "--yes", "--json").stdout)
    paths = [one["path"] for one in done["installations"]]
    assert paths == [str(tmp_path / PLACES[name]) for name in ("claude-code", "codex")]
    assert all(Path(path).exists() for path in paths)
    removed = cli.run("skills", "install", "codex", "--remove", "--yes")
    assert f"removed {tmp_path / PLACES['codex']}" in removed.stdout
    assert Path(paths[0]).exists()


def test_an_edited_skill_of_one_agent_does_not_keep_those_of_others(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.run("skills", "install", "claude-code", "codex", "--yes")
    edited, other = (tmp_path / PLACES[name] for name in ("claude-code", "codex"))
    edited.write_text(edited.read_text() + "mine\n")
    (tmp_path / ".codex").mkdir()
    done = cli.run("skills", "install", "--remove", "--yes")
    assert (done.returncode, f"{edited} was changed" in done.stderr) == (1, True)
    assert (edited.exists(), other.exists()) == (True, False)
