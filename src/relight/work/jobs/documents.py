"""The skills that a job names: where their documents lie, and what they say."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from relight.errors import RelightError
from relight.sources.skill_documents import find_project_skills, find_skill_folders, read_version

FILE = "SKILL.md"
LIMIT_BYTES = 512 << 10


class Skill(Struct, frozen=True):
    """A skill's document, and the folder that the files it speaks of are in."""

    name: str
    text: str
    folder: str
    version: str | None


def find_skills(
    names: Sequence[str],
    *,
    home: Path,
    workdir: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Skill]:
    """The documents of these skills, each once, in the order named.

    Relight's own `skills` folder comes before those of the agents, and what lies in the working
    folder comes last: a repository must not replace what a person wrote.
    """
    environment = os.environ if environment is None else environment
    roots = list(find_roots(home, workdir, environment))
    return [_find_skill(name, roots) for name in dict.fromkeys(names)]


def find_roots(home: Path, workdir: Path | None, environment: Mapping[str, str]) -> Iterator[Path]:
    """The folders that skills are looked for in, first things first."""
    own = Path(environment.get("HOME") or Path.home())
    yield home / "skills"
    yield from find_skill_folders(environment)
    yield own / ".agents" / "skills"
    if workdir is not None:
        yield from find_project_skills(workdir)
        yield workdir / ".agents" / "skills"


def _find_skill(name: str, roots: Sequence[Path]) -> Skill:
    if Path(name).is_absolute() or {"..", "."} & set(name.replace("\\", "/").split("/")):
        raise RelightError(f"{name!r} is not the name of a skill", "name it, do not say where")
    for root in roots:
        for path in _find_files(root, name):
            return _read_skill(name, path)
    looked = ", ".join(str(root) for root in roots)
    raise RelightError(f"there is no skill {name!r}", f"put {name}/{FILE} into one of {looked}")


def _find_files(root: Path, name: str) -> Iterator[Path]:
    """A skill's document in a folder of skills; some agents sort skills into categories."""
    below = sorted(root.glob(f"*/{glob.escape(name)}/{FILE}")) if root.is_dir() else []
    for path in (root / name / FILE, root / f"{name}.md", *below):
        if path.is_file():
            yield path


def _read_skill(name: str, path: Path) -> Skill:
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise RelightError(
            f"the skill {name!r} cannot be read: {error}", "check the file's permissions"
        ) from error
    if len(data) > LIMIT_BYTES:
        hint = f"keep {path} short, and let it name other files"
        raise RelightError(f"the skill {name!r} is larger than {LIMIT_BYTES >> 10} KB", hint)
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    if not text:
        raise RelightError(f"the skill {name!r} is empty", f"write {path}")
    return Skill(name, text, str(path.parent), read_version(text))
