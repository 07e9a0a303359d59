"""The sources that other packages add by an entry point; loaded only if a package has one."""

from collections.abc import Mapping
from importlib.metadata import entry_points

from relight.errors import RelightError
from relight.sources import (
    GROUP,
    SOURCES,
    AddedSources,
    Source,
    describe_briefly,
    find_reader,
)
from relight.sources.reading import Reader


def load_added() -> AddedSources:
    """Return the sources of other packages; a broken one costs itself alone."""
    added: dict[str, Source] = {}
    warnings: list[str] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        owner = entry.dist.name if entry.dist else "a package"
        try:
            source = entry.load()
            _check_added(source, added)
            added[source.name] = source
        except Exception as error:  # noqa: BLE001 - another package's code may raise anything
            why = error.message if isinstance(error, RelightError) else describe_briefly(error)
            warnings.append(f"the source {entry.name!r} of {owner} is not used: {why}")
    return AddedSources(added, warnings)


def _check_added(source: object, added: Mapping[str, Source]) -> None:
    """Raise unless this is a source with a new name, and its reader can be imported."""
    if not isinstance(source, Source):
        raise RelightError(f"it is {type(source).__name__}, not relight.sources.Source")
    if source.name in SOURCES or source.name in added:
        raise RelightError(f"there is already a source {source.name!r}")
    if not source.name.replace("-", "").replace("_", "").isalnum():
        raise RelightError(f"{source.name!r} is not a name of letters, digits, - and _")
    if not issubclass(find_reader(source), Reader):
        raise RelightError(f"{source.reader} is not a subclass of relight.sources.reading.Reader")
