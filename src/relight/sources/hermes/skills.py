"""Skills in Hermes' sessions: loaded by a tool call, or written out in a user's message.

Scheduled jobs, slash commands and auto-loading put the whole document into the message, behind a
line that names it. Preloaded skills are only in the system prompt, which is not stored.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from relight.model import SkillEntry, SkillWay, ToolCall
from relight.sources.skill_documents import read_skill_version

OPENING = "[IMPORTANT: The "
LOADED = re.compile(
    r"""^\[IMPORTANT:[ ]The[ ](?:
        user[ ]has[ ]invoked[ ]the[ ]"(?P<invoked>[^"\n]+)"[ ]
            (?P<bundle>(?:stacked[ ])?skill[ ]bundle,|skill,)
        | "(?P<auto>[^"\n]+)"[ ]skill[ ]is[ ]auto-loaded\.
    )[^\n]*$""",
    re.MULTILINE | re.VERBOSE,
)
NAMES = re.compile(r"^Skills loaded: (.+)$", re.MULTILINE)
BUNDLED = re.compile(r"^\[Loaded as part of the [^\n]*\]$", re.MULTILINE)
# after the documents comes the request, with the output of a job's script: untrusted text
ASKED = "\n\nThe user has provided the following instruction alongside the skill invocation: "
# what Hermes adds to a document: its folder and its settings
BEHIND = re.compile(
    r"\n\n\[(?:Skill (?:directory|config|setup note)|This skill has supporting files:\]"
    r"|Runtime note: )"
)
PRELOADED = re.compile(
    r'\[IMPORTANT: The user launched this CLI session with the "(?P<name>[^"\n]+)" skill'
    r" preloaded\.[^\n]*\n(?P<document>.*?)(?=\n\[IMPORTANT: The user launched|\Z)",
    re.DOTALL,
)


def find_written(session: str, text: str, at: int | None) -> Iterator[SkillEntry]:
    """The skills whose documents a user's message of this session holds."""
    if not text.startswith(OPENING):
        return
    text = text.partition(ASKED)[0]
    typed: Literal["cron", "slash"] = "cron" if session.startswith("cron_") else "slash"
    marks = list(LOADED.finditer(text))
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        block = text[mark.end() : end]
        way: SkillWay = "auto" if mark["auto"] else typed
        documents = [(mark["auto"] or mark["invoked"], block)]
        if "bundle" in (mark["bundle"] or "") and (names := NAMES.search(block)):
            parts = BUNDLED.split(block)[1:]
            listed = [name.strip() for name in names[1].split(",") if name.strip()]
            documents = [
                (name, parts[place] if place < len(parts) else "")
                for place, name in enumerate(listed)
            ]
        for name, document in documents:
            version = read_skill_version(BEHIND.split(document, maxsplit=1)[0])
            yield SkillEntry(
                key=f"{session}:{way}:{name}:{at}",
                session=session,
                name=name,
                entry=way,
                at=at,
                version=version,
            )


def find_viewed(call: ToolCall | None, result: str | None) -> SkillEntry | None:
    """The skill that a `skill_view` call loaded, unless the call failed."""
    if call is None or call.tool != "skill_view":
        return None
    arguments, loaded = _read_object(call.arguments), _read_object(result)
    if loaded.get("success") is not True:
        return None
    name = loaded.get("name") or arguments.get("name")
    if not isinstance(name, str) or not name:
        return None
    # a supporting file is part of the skill, but its text is not the skill's version
    document = loaded.get("content") if not arguments.get("file_path") else None
    return SkillEntry(
        key=call.key,
        session=call.session,
        name=name,
        entry="tool",
        at=call.at,
        version=read_skill_version(document) if isinstance(document, str) else None,
    )


def find_preloaded(text: str) -> list[tuple[str, str | None]]:
    """The skills that the user preloaded into a system prompt, with their versions."""
    if "skill preloaded." not in text:
        return []
    return [
        (found["name"], read_skill_version(BEHIND.split(found["document"], maxsplit=1)[0]))
        for found in PRELOADED.finditer(text)
    ]


def _read_object(text: str | None) -> dict[str, Any]:
    """The object at the start of a text; Hermes may have written a warning after it."""
    from json import JSONDecoder

    try:
        found = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        try:
            found, _ = JSONDecoder().raw_decode((text or "").lstrip())
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}
