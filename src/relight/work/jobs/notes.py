"""Notes of a run on disk while it goes on, for the case that its process is killed.

A later process reads from them which skills the agent was given, and how to find the sessions of
the run's attempts.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.locks import make_folder, write_private
from relight.names import file_name
from relight.sources import list_sources
from relight.work.jobs.job import JobRun

FOLDER = "runs"
NOTE, PROGRAM, PROMPT = "note.json", "program.json", "prompt.md"


class RunNote(Struct, frozen=True, kw_only=True):
    """A run whose agent has begun: its model, and its skills with their versions."""

    run: JobRun
    model: str | None = None
    provider: str | None = None
    skills: list[tuple[str, str | None]] = []


class ProgramNote(Struct, frozen=True, kw_only=True):
    """A program at work, and how to find its session; `session` is set when it is found."""

    source: str | None
    key: str | None
    started_at: int
    # the program's time limit: its session began before this
    until: int
    places: dict[str, str]
    is_over: bool = False
    session: str | None = None


def write_run_note(home: Path, note: RunNote) -> None:
    """Note that the agent of a run begins."""
    _write(find_run_folder(home, note.run.key) / NOTE, note)


def write_program_note(folder: Path, program: ProgramNote) -> None:
    """Note a program's state in its scratch folder."""
    _write(folder / PROGRAM, program)


def choose_places(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that say where agents store sessions; a later process may have others."""
    named = ((one.variable, one.sessions_variable) for one in list_sources().values())
    names = ["HOME", *(name for both in named for name in both if name)]
    return {name: environment[name] for name in names if name in environment}


def has_note(home: Path, key: str) -> bool:
    """True if the agent of a run has begun."""
    return (find_run_folder(home, key) / NOTE).exists()


def find_run_notes(home: Path) -> list[RunNote]:
    """The notes of all runs that have begun and were not cleared away."""
    found = []
    for path in (home / FOLDER).glob(f"*/{NOTE}"):
        with suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(path.read_bytes(), type=RunNote))
    return found


def read_programs(home: Path, key: str) -> list[tuple[ProgramNote, str]]:
    """The programs of a run's attempts in order, each with its prompt."""
    found = []
    for path in find_run_folder(home, key).glob(f"*/{PROGRAM}"):
        with suppress(OSError, msgspec.MsgspecError):
            program = msgspec.json.decode(path.read_bytes(), type=ProgramNote)
            found.append((program, (path.parent / PROMPT).read_text("utf-8", "replace")))
    return sorted(found, key=lambda one: one[0].started_at)


def remove_notes(home: Path, key: str) -> None:
    """Clear a run's notes away once its result is written."""
    shutil.rmtree(find_run_folder(home, key), ignore_errors=True)


def find_run_folder(home: Path, key: str) -> Path:
    """The folder of a run's notes, and of the files for its programs."""
    return home / FOLDER / file_name(key)


def _write(path: Path, value: Struct) -> None:
    """Write a note atomically, since it may be read at any moment."""
    make_folder(path.parent)
    write_private(path, msgspec.json.encode(value))
