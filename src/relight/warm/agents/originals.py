"""Agents' settings as they were before Relight was added, so that removing it restores them."""

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from relight.locks import make_folder, write_private

FOLDER = "originals"


class Original(Struct, frozen=True):
    """A settings file before Relight changed it, and the hash of the text that Relight wrote."""

    path: str
    before: str | None
    written: str
    # the part of Relight that changed it, if not the first one: each is removed by itself
    part: str = ""
    # the folders that were made for the file, the innermost first; None if that is not known
    folders: list[str] | None = None

    def is_current(self, text: str | None) -> bool:
        """True if nothing has changed the settings since Relight wrote them."""
        return text is not None and hash_text(text) == self.written


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def find_original(home: Path, settings: Path, part: str = "") -> Original | None:
    """Return the settings that a home keeps for a file; None if it keeps none that is valid."""
    try:
        found = msgspec.json.decode(_place(home, settings, part).read_bytes(), type=Original)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.path == str(settings) else None


def keep_original(home: Path, original: Original) -> None:
    """Keep settings until Relight is removed; they may contain keys, so only the owner reads."""
    place = _place(home, Path(original.path), original.part)
    make_folder(place.parent)
    write_private(place, msgspec.json.encode(original))


def drop_original(home: Path, settings: Path, part: str = "") -> None:
    _place(home, settings, part).unlink(missing_ok=True)


def find_place(home: Path) -> Path:
    """Return the folder of a home that keeps settings."""
    return home / FOLDER


def _place(home: Path, settings: Path, part: str) -> Path:
    return find_place(home) / f"{hash_text(f'{settings}{part}')[:16]}.json"
