"""Skill documents (`SKILL.md`) as they stand in transcripts: which version one is."""

import re
from hashlib import sha256

FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
# of the document itself, else of its metadata
VERSIONS = (
    re.compile(r"""^version:[ \t]*["']?([^"'#\n]+)""", re.MULTILINE),
    re.compile(r"""^[ \t]+version:[ \t]*["']?([^"'#\n]+)""", re.MULTILINE),
)


def read_version(document: str) -> str | None:
    """The version a skill declares, else a hash of its text: another text is another version.

    The hash is of what stands below the front matter, which some clients leave out.

    >>> read_version("---\\nname: tidy\\nversion: 1.2.0\\n---\\nTidy up.")
    '1.2.0'
    >>> read_version("Tidy up.\\n")
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
    return f"sha256:{sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
