"""How skills come into Codex' sessions: written out in a message, or read by the agent itself.

A skill that a person names (`$tidy`) is written into a separate message. A skill that the agent
chooses is read from its file with a shell command.
"""

import re
from collections.abc import Iterator

from relight.model import SkillEntry, ToolCall
from relight.sources.skill_documents import read_version

WRITTEN = re.compile(
    r"\A\s*<skill>\s*<name>\s*([^<]+?)\s*</name>(?:\s*<path>[^<]*</path>)?\n?(.*?)(?:</skill>\s*)?\Z",
    re.DOTALL,
)
FILE = re.compile(r"[/\\]skills[/\\]+(?:[\w.-]+[/\\]+)*?([\w.-]+)[/\\]+SKILL\.md")
READING = re.compile(r"\b(?:cat|sed|head|less|more|bat|nl|tail|awk|type|Get-Content)\b")
# each front matter, in plain output and in output that is JSON; a rule may stand before one
FRONT = re.compile(r"(?=---[ \t]*(?:\n|\\n)(.{0,4000}?)(?:\n|\\n)---)", re.DOTALL)
FIELD = r"""(?:^|\n|\\n){}:[ \t]*\\?["']?([\w.+-]+)"""
NAME, VERSION = (re.compile(FIELD.format(name)) for name in ("name", "version"))


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


def find_read(call: ToolCall | None, output: str | None) -> Iterator[SkillEntry]:
    """The skills whose documents a shell command printed; a search for files prints none."""
    arguments = (call.arguments if call else None) or ""
    if call is None or "SKILL.md" not in arguments or not READING.search(arguments):
        return
    fronts = FRONT.findall(output or "")
    shown = {name[1]: front for front in fronts if (name := NAME.search(front))}
    named = dict.fromkeys(FILE.findall(arguments))
    # a document may be named otherwise than the folder that it lies in
    found = {name: shown[name] for name in named if name in shown} or dict(
        zip(named, shown.values(), strict=False)
    )
    for name, front in found.items():
        version = VERSION.search(front)
        yield SkillEntry(
            key=f"{call.key}:{name}",
            session=call.session,
            name=name,
            entry="tool",
            at=call.at,
            version=version[1] if version else None,
            turn=call.turn,
        )
