"""What agents left on disk, read into Relight's own nouns.

To add a source: a module with `NAME`, `find` and `read`, a folder of fixtures, and a row here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from relight.errors import RelightError
from relight.model import Mark, Origin, Parsed, Piece
from relight.sources.talk import Talk


class Source(Protocol):
    """`find` looks for files; `read` understands their records, and is pure.

    A source that keeps a database, or many sessions in one file, also has `fetch`, which gives
    what is new in an origin as pieces of one record a line.
    """

    NAME: str

    def find(self, environment: Mapping[str, str], folder: Path | None) -> Iterator[Origin]: ...

    def folders(self, environment: Mapping[str, str]) -> list[Path]: ...

    def read(self, lines: Sequence[bytes], origin: Origin, state: bytes) -> Parsed: ...


Fetch = Callable[[Origin, Mapping[str, Mark]], Iterator[Piece]]

SOURCES = {
    "claude-code": "relight.sources.claude_code.reader",
    "codex": "relight.sources.codex.reader",
    "hermes": "relight.sources.hermes.reader",
    "chat": "relight.sources.chat.reader",
    "relight": "relight.sources.relight.reader",
}

# how each source's records are read as chat messages
TALKS = {
    "claude-code": "relight.sources.claude_code.talk",
    "codex": "relight.sources.codex.talk",
    "hermes": "relight.sources.hermes.talk",
    "chat": "relight.sources.chat.talk",
    "relight": "relight.sources.relight.talk",
}


def find_source(name: str) -> Source:
    """The source of that name, imported when first asked for."""
    if name not in SOURCES:
        raise RelightError(f"there is no source {name!r}", f"the sources are {', '.join(SOURCES)}")
    return cast(Source, import_module(SOURCES[name]))


def find_fetch(name: str) -> Fetch | None:
    """How a source's new records are fetched, where its origins are not plain files of lines."""
    return getattr(find_source(name), "fetch", None)


def read_talk(name: str, lines: Iterable[bytes], key: str) -> Talk:
    """What a source's records say was said in one session, as OpenAI chat messages."""
    talk: Talk = import_module(TALKS[name]).read_talk(lines, key)
    return talk
