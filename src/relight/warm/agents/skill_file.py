"""The Agent Skill that teaches an agent to ask Relight: a file of ours among the agent's skills."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from relight.data import read_data
from relight.errors import RelightError
from relight.sources import SOURCES

NAME = "relight"
# the first lines of the file, by which one of ours is known that was edited
HEAD = "---\nname: relight\ndescription: Ask Relight,"


def find_skill(agent: str) -> Callable[[Mapping[str, str]], Path]:
    """Return what finds the file of the skill, from the environment."""

    def find(environment: Mapping[str, str]) -> Path:
        source = SOURCES[agent]
        folder = source.find_homes(environment)[0] / (source.skills or "")
        if source.user_skills:
            folder = Path(environment.get("HOME") or Path.home()) / source.user_skills
        return folder / NAME / "SKILL.md"

    return find


def write_skill(command: str) -> str:
    """Return the text of the skill; a command that is on the PATH is named shortly."""
    import shutil

    program, *rest = shlex.split(command)
    if shutil.which(NAME) == program:
        command = shlex.join([NAME, *rest])
    return read_data("skill.md").replace("{relight}", command)


def has_skill(_: Path, text: str, command: str) -> bool:
    return text == write_skill(command)


def add_skill(path: Path, text: str, command: str) -> str:
    """Return the skill; raise if the file is somebody else's."""
    if text:
        raise RelightError(f"{path} is there already, and not Relight's", "move it away first")
    return write_skill(command)


def remove_skill(path: Path, text: str, _: str) -> str | None:
    """Return None for a skill as Relight writes it, and the text of another file as it is."""
    if not text.startswith(HEAD):
        return text
    body = read_data("skill.md").partition("{relight}")[0]
    if text.startswith(body) and text.endswith(read_data("skill.md").rpartition("{relight}")[2]):
        return None
    raise RelightError(
        f"{path} was changed since Relight wrote it", "move it away, or delete it yourself"
    )
