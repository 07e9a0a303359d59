"""Sources: what agents leave on disk, read into Relight's own nouns.

To add a source:

1. Write a subclass of `reading.Reader` in a module or package of this room. Its `read_line` yields
   the events of one record: nouns of `relight.model` and the events of `events`. Index rows and
   chat messages both come from them. A source with a database, or with many sessions in one file,
   also has `fetch`; one whose files are not all `.jsonl` files below its folders has `find`.
2. Add a row to `data/sources.toml`, and tests with real files to `tests/sources/`.

A package outside Relight adds a source with an entry point of the group `relight.sources` that
names a `Source`. `docs/adding.md` has a complete example.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from relight.data import read_table
from relight.errors import RelightError
from relight.locks import IS_WINDOWS
from relight.model import Mark, Origin, Parsed, Piece

if TYPE_CHECKING:
    from relight.sources.events import Event, Transcript
    from relight.sources.reading import Reader

    Fetch = Callable[[Origin, Mapping[str, Mark]], Iterator[Piece]]

GROUP = "relight.sources"
RECEIVED = b'{"otlp":'  # a line of telemetry begins so, on a tape of any source


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table: the facts about an agent, and the name of its reader.

    The reader is imported when records are first looked for or read.
    """

    name: str
    title: str
    reader: str  # `module:Class`, a subclass of `reading.Reader`
    # the environment variable that names the agent's home folder
    variable: str | None = None
    # the variable that names the folder or the database of sessions itself, before that one
    sessions_variable: str | None = None
    # True if the first may name several, separated by commas
    has_many_homes: bool = False
    # the usual homes, below the user's home: the same on Linux, macOS and Windows
    homes: tuple[str, ...] = ()
    windows_home: str | None = None  # the first on Windows, below its folder of local data
    # the folders in a home that sessions are in; without them, the home itself
    folders: tuple[str, ...] = ()
    # Files of forms that are not read, which `relight doctor` counts: a pattern below a home, or
    # with `~/` below the user's, and what they are.
    unread: tuple[tuple[str, str], ...] = ()
    # a part of the paths of its `.jsonl` files, if they are found without loading the reader
    path_part: str | None = None
    # the folder of skills in a home and in a project; a lower rank is searched first
    skills: str | None = None
    project_skills: str | None = None
    # the folder of skills below the user's home, if the agent prefers it to that in its own
    user_skills: str | None = None
    skills_rank: int = 9
    settings: str | None = None  # the file in a home that hooks and plugins are set in
    needs_path: bool = False  # True if a file has no usual place and must be named
    is_complete: bool = False  # True if a recorded session is complete and does not grow
    # the command that continues a session, before the session's id
    resume: tuple[str, ...] = ()
    # True if that command finds a session from any folder, not only from the session's own
    resumes_anywhere: bool = False
    has_windows: bool = False  # True if its plans have windows of five hours and of a week
    telemetry: str | None = None  # the reader of its telemetry, beside that of its files
    # True if no two machines give the same id: a session from two machines is one session
    has_global_ids: bool = False
    job_editor: str | None = None  # `module:Class`, which changes the model of its scheduler's jobs

    def find_homes(self, environment: Mapping[str, str]) -> list[Path]:
        """The agent's home folders: those that its variable names, else the usual ones."""
        named = environment.get(self.variable, "") if self.variable else ""
        names = named.split(",") if self.has_many_homes else [named]
        found = [Path(name.strip()).expanduser() for name in names if name.strip()]
        user = find_user(environment)
        usual = [user / home for home in self.homes]
        if IS_WINDOWS and self.windows_home:
            local = environment.get("LOCALAPPDATA") or user / "AppData" / "Local"
            usual.insert(0, Path(local) / self.windows_home)
        return found or usual

    def find_folders(self, environment: Mapping[str, str]) -> list[Path]:
        """The folders that sessions are in; a home that is such a folder is taken as it is."""
        found = [
            home / folder if folder and home.name != folder else home
            for home in self.find_homes(environment)
            for folder in self.folders or ("",)
        ]
        if named := environment.get(self.sessions_variable or "", "").strip():
            return [found[0] / Path(named).expanduser()]  # a whole path stays as it is
        return found

    def find(self, environment: Mapping[str, str], folder: Path | None) -> Iterator[Origin]:
        """The files in the folder given, else in the agent's own folders.

        The reader is loaded only if one of the folders exists: most machines have few agents.
        """
        for root in [folder] if folder else self.find_folders(environment):
            try:
                if root.exists():
                    yield from self._find_below(root)
            except Exception as error:  # noqa: BLE001 - one source must not stop the others
                yield Origin(str(root), trouble=describe_briefly(error))

    def _find_below(self, root: Path) -> Iterator[Origin]:
        if self.path_part is None:
            return find_reader(self).find(root)
        from relight.sources.files import find_files

        part = self.path_part
        return (one for one in find_files(root) if part in one.path or one.trouble)

    def read(self, lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed:
        """The index rows of a stretch of records, going on from `state`."""
        return self._choose_reader(lines).read(lines, origin, state)

    def read_messages(self, lines: Iterable[bytes], session: str) -> "Transcript":
        """A session as OpenAI chat messages, from all of its records."""
        spoken = self._choose_spoken(lines)
        return self._choose_reader(spoken).read_messages(spoken, session)

    def read_events(self, lines: Iterable[bytes], session: str) -> "Iterator[Event]":
        """A session's events in the order of the conversation, from all of its records."""
        spoken = self._choose_spoken(lines)
        return self._choose_reader(spoken).read_events(spoken, session)

    def _choose_reader(self, lines: Sequence[bytes]) -> "type[Reader]":
        """The reader of these lines, which are all from the agent's files or all received."""
        return find_reader(self, is_received=bool(lines and lines[0].startswith(RECEIVED)))

    def _choose_spoken(self, lines: Iterable[bytes]) -> Sequence[bytes]:
        """The lines with the conversation: telemetry only if no file of the agent was read."""
        listed = list(lines)
        own = [line for line in listed if not line.startswith(RECEIVED)] if self.telemetry else []
        return own or listed

    @property
    def fetch(self) -> "Fetch | None":
        """The reader of new records, if origins are not plain files of one record a line."""
        reader = find_reader(self)
        return reader.fetch if reader.has_fetch else None


SOURCES = {
    source.name: source for source in read_table("sources.toml", dict[str, list[Source]])["source"]
}


def find_user(environment: Mapping[str, str]) -> Path:
    """The user's home."""
    return Path(environment.get("HOME") or Path.home())


def list_agents() -> list[Source]:
    """The sources with a usual place: agents, whose sessions are found by themselves."""
    return [source for source in list_sources().values() if source.homes]


def find_source(name: str) -> Source:
    """The source of that name; other packages are searched for a name that is not built in."""
    found = SOURCES.get(name) or find_added().sources.get(name)
    if found is None:
        names = ", ".join(list_sources())
        raise RelightError(f"there is no source {name!r}", f"the sources are {names}")
    return found


def is_source(name: str) -> bool:
    """True if there is a source of that name."""
    return name in SOURCES or name in find_added().sources


def list_sources() -> dict[str, Source]:
    """All sources by name: built-in ones first, then those of other packages."""
    return SOURCES | find_added().sources


@cache
def find_reader(source: Source, *, is_received: bool = False) -> "type[Reader]":
    """A source's reader of files, or of what was received, imported when it is first needed."""
    path = source.telemetry if is_received and source.telemetry else source.reader
    module, _, name = path.partition(":")
    reader: type[Reader] = getattr(import_module(module), name)
    return reader


class AddedSources(Struct, frozen=True):
    """The sources of other packages, and why some of them cannot be used."""

    sources: dict[str, Source]
    warnings: list[str]


@cache
def find_added() -> AddedSources:
    """The sources that other packages add; a broken one costs itself alone."""
    if not _has_entry_points():
        return AddedSources({}, [])
    from relight.sources.added import load_added

    return load_added()


def _has_entry_points() -> bool:
    """True if an installed package names the group: 1 ms, where `importlib.metadata` takes 30."""
    group = f"[{GROUP}]".encode()
    for place in sys.path:
        with suppress(OSError), os.scandir(place or ".") as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError):
                        if group in (Path(entry.path) / "entry_points.txt").read_bytes():
                            return True
    return False


def describe_briefly(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
