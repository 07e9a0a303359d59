"""Skills of agents: the folders they are in, and the versions of their documents."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from relight.names import find_sha256
from relight.sources import Source, list_sources

FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
# of the document itself, else of its metadata
VERSIONS = (
    re.compile(r"""^version:[ \t]*["']?([^"'#\n]+)""", re.MULTILINE),
    re.compile(r"""^[ \t]+version:[ \t]*["']?([^"'#\n]+)""", re.MULTILINE),
)


def find_skill_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """The agents' folders of skills, the first to be searched first."""
    for source in _sources_with_skills():
        homes = source.find_homes(environment)
        is_named = source.variable is not None and environment.get(source.variable, "").strip(", ")
        for home in homes if is_named else homes[:1]:
            yield home / (source.skills or "")


def find_project_skills(project: Path) -> Iterator[Path]:
    """The agents' folders of skills inside a project."""
    for source in _sources_with_skills():
        if source.project_skills:
            yield project / source.project_skills


def _sources_with_skills() -> list[Source]:
    found = [source for source in list_sources().values() if source.skills]
    return sorted(found, key=lambda source: source.skills_rank)


def read_skill_version(document: str) -> str | None:
    """The version a skill declares, else a hash of its text: another text is another version.

    The hash is of what stands below the front matter, which some clients leave out.

    >>> read_skill_version("---\\nname: tidy\\nversion: 1.2.0\\n---\\nTidy up.")
    '1.2.0'
    >>> read_skill_version("Tidy up.\\n")
    'sha256:b246a1d1e6bd'
    """
    text = document.strip()
    if not text:
        return None
    if front := FRONT_MATTER.match(text):
        for pattern in VERSIONS:
            if (found := pattern.search(front[1])) and (version := found[1].strip()):
                return version[:60]
        text = text[front.end() :].strip()
    digest = find_sha256()(text.encode("utf-8", "replace")).hexdigest()
    return f"sha256:{digest[:12]}"
