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

    def is_current(self, text: str | None) -> bool:
        """True if nothing has changed the settings since Relight wrote them."""
        return text is not None and hash_text(text) == self.written


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def find_original(home: Path, settings: Path) -> Original | None:
    """Return the settings that a home keeps for a file; None if it keeps none that is valid."""
    try:
        found = msgspec.json.decode(_place(home, settings).read_bytes(), type=Original)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.path == str(settings) else None


def keep_original(home: Path, original: Original) -> None:
    """Keep settings until Relight is removed; they may contain keys, so only the owner reads."""
    place = _place(home, Path(original.path))
    make_folder(place.parent)
    write_private(place, msgspec.json.encode(original))


def drop_original(home: Path, settings: Path) -> None:
    _place(home, settings).unlink(missing_ok=True)


def _place(home: Path, settings: Path) -> Path:
    return home / FOLDER / f"{hash_text(str(settings))[:16]}.json"
