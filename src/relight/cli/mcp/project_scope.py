"""The part of the record that an agent may see: the project it works in, or all of it."""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from relight.errors import MissingError
from relight.reports.filters import is_in_project, read_filter
from relight.reports.listing import LARGEST_PAGE, list_sessions
from relight.reports.repository import find_worktrees
from relight.reports.sessions import LAST, find_session
from relight.store import Store
from relight.store.queries.filters import Filter
from relight.store.queries.listing import Listing
from relight.store.queries.sessions import read_facts


class Scope(Struct, frozen=True):
    """The folder that the server was started in, and the folders of its project.

    Without folders, the whole record is meant. A `problem` means that there is no project.
    """

    start: Path
    folders: tuple[str, ...] = ()
    problem: str | None = None

    def has(self, project: str | None) -> bool:
        """True if a session in this folder may be seen."""
        return not self.folders or any(is_in_project(project, one) for one in self.folders)

    def read_filter(
        self, store: Store, since: str | None, *, until: str | None, source: str | None = None
    ) -> Filter:
        """Return a filter as an agent typed it, within the scope."""
        found = read_filter(store, since=since or "all", until=until, source=source)
        return replace(found, folders=self.folders)

    def find_session(self, store: Store, name: str) -> int:
        """Return the row id of a session by name; one outside of the scope does not exist."""
        try:
            found = find_session(store, self._find_last(store, name) or name)
        except MissingError as error:
            # the error may name sessions of other projects
            raise self._deny(name) from error
        facts = read_facts(store, found)
        if facts is None or not self.has(facts.project):
            raise self._deny(name)
        return found

    def _find_last(self, store: Store, name: str) -> str | None:
        """Return the newest session in the scope if it is asked for, or one before it."""
        place = LAST.fullmatch(name)
        if place is None:
            return None
        number = int(place[1] or 0)
        wanted = Listing(limit=min(number + 1, LARGEST_PAGE))
        newest = list_sessions(store, Filter(folders=self.folders), wanted).sessions
        if number >= len(newest):
            raise self._deny(name)
        return newest[number].session_id

    def _deny(self, name: str) -> MissingError:
        where = " in this project" if self.folders else ""
        return MissingError(
            f"there is no single session {name!r}{where}",
            "write the whole session_id, as search_sessions shows it",
        )


def find_scope(start: Path, *, is_everything: bool) -> Scope:
    """Return the scope of a folder: its repository with all worktrees, else the folder itself.

    A folder with the user's home in it is no project: all projects are below it.
    """
    if is_everything:
        return Scope(start)
    found = find_worktrees(start)
    home = Path.home().resolve()
    wide = [one for one in found if home.is_relative_to(one.resolve())]
    problem = f"Relight was started in {start}, which is no project" if wide else None
    return Scope(start, tuple(map(str, found)), problem)
