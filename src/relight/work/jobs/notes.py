"""What a run has begun, noted in the home while it goes on.

A process that is killed tells nothing any more. Whoever finds its run cut short reads here which
skills the agent was given, and by what the sessions of its attempts are known.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.names import file_name
from relight.sources import list_sources
from relight.work.jobs.job import Run

FOLDER = "runs"
NOTE, PROGRAM, PROMPT = "note.json", "program.json", "prompt.md"


class Note(Struct, frozen=True, kw_only=True):
    """A run whose agent has begun: with which model, and which skills in which version."""

    run: Run
    model: str | None = None
    provider: str | None = None
    skills: list[tuple[str, str | None]] = []


class Program(Struct, frozen=True, kw_only=True):
    """A program at work: by what the session is known that it leaves, and which it was."""

    source: str | None
    key: str | None
    started_at: int
    # it can have begun nothing after this
    until: int
    places: dict[str, str]
    is_over: bool = False
    session: str | None = None


def note_run(home: Path, note: Note) -> None:
    """Note that the agent of a run begins."""
    _write(find_folder(home, note.run.key) / NOTE, note)


def note_program(folder: Path, program: Program) -> None:
    """Note in a folder of its own what a program is doing, or what came of it."""
    _write(folder / PROGRAM, program)


def choose_places(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where agents keep sessions, out of a program's environment.

    A later process, which looks for the program's session, may have other settings.
    """
    names = ["HOME", *(one.variable for one in list_sources().values() if one.variable)]
    return {name: environment[name] for name in names if name in environment}


def is_noted(home: Path, key: str) -> bool:
    """Whether the agent of a run has begun."""
    return (find_folder(home, key) / NOTE).exists()


def find_notes(home: Path) -> list[Note]:
    """The runs that have begun, and that nobody has put away."""
    found = []
    for path in (home / FOLDER).glob(f"*/{NOTE}"):
        with suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(path.read_bytes(), type=Note))
    return found


def read_programs(home: Path, key: str) -> list[tuple[Program, str]]:
    """The programs of a run's attempts, in their order, each with the prompt it was given."""
    found = []
    for path in find_folder(home, key).glob(f"*/{PROGRAM}"):
        with suppress(OSError, msgspec.MsgspecError):
            program = msgspec.json.decode(path.read_bytes(), type=Program)
            found.append((program, (path.parent / PROMPT).read_text("utf-8", "replace")))
    return sorted(found, key=lambda one: one[0].started_at)


def remove_note(home: Path, key: str) -> None:
    """Put away all that was noted of a run, once what came of it is written down."""
    shutil.rmtree(find_folder(home, key), ignore_errors=True)


def find_folder(home: Path, key: str) -> Path:
    """Where a run's notes are, and what its programs are given in files."""
    return home / FOLDER / file_name(key)


def _write(path: Path, value: Struct) -> None:
    """Write a note whole or not at all: its reader may come at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(value))
    new.replace(path)
