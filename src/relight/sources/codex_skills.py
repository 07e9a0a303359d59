"""How skills come into Codex' sessions: written out in a message, or read by the agent itself.

A skill that a person names (`$tidy`) is put into a message of its own; one that the agent chooses
it reads from its file with a shell command.
"""

import re
from collections.abc import Iterator

from relight.model import SkillEntry, ToolCall
from relight.sources.documents import read_version

WRITTEN = re.compile(
    r"\A\s*<skill>\s*<name>\s*([^<]+?)\s*</name>(?:\s*<path>[^<]*</path>)?\n?(.*?)(?:</skill>\s*)?\Z",
    re.DOTALL,
)
FILE = re.compile(r"/skills/(?:[\w.-]+/)*?([\w.-]+)/SKILL\.md")
READING = re.compile(r"\b(?:cat|sed|head|less|more|bat|nl|tail|awk|type|Get-Content)\b")
# the front matter, in plain output and in output that is JSON
FRONT = re.compile(r"---[ \t]*(?:\n|\\n)(.{0,4000}?)(?:\n|\\n)---", re.DOTALL)
VERSION = re.compile(r"""(?:^|\n|\\n)version:[ \t]*\\?["']?([\w.+-]+)""")


def find_written(session: str, texts: list[str], at: int | None) -> Iterator[SkillEntry]:
    """The skills whose documents a user's message holds."""
    for text in texts:
        if text.startswith("<skill>") and (found := WRITTEN.match(text)):
            name = found[1]
            yield SkillEntry(
                key=f"{session}:{name}:{at}",
                session=session,
                name=name,
                entry="slash",
                at=at,
                version=read_version(found[2]),
            )


def find_read(call: ToolCall | None, output: str | None) -> SkillEntry | None:
    """The skill whose document a shell command showed; looking for one shows none."""
    if call is None or output is None or "SKILL.md" not in (call.arguments or ""):
        return None
    arguments = call.arguments or ""
    found, front = FILE.search(arguments), FRONT.search(output)
    if not found or not front or "name:" not in front[1] or not READING.search(arguments):
        return None
    version = VERSION.search(front[1])
    return SkillEntry(
        key=call.key,
        session=call.session,
        name=found[1],
        entry="tool",
        at=call.at,
        version=version[1] if version else None,
        turn=call.turn,
    )
