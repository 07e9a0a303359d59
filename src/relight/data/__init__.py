"""Tables that people edit: prices, usage, failures, verdicts, admissions, secrets, recipes …"""

from functools import cache
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from msgspec import Raw, Struct, json

FOLDER = Path(__file__).parent
# all tables as `./dev docs` wrote them: to read their TOML takes fifty times as long
DECODED = FOLDER / "tables.json"
Table = TypeVar("Table")


class DecodedTable(Struct, frozen=True, array_like=True):
    """A table as JSON, and the checksum of the TOML that it was made from."""

    checksum: int
    content: Raw


def read_data(name: str) -> str:
    """Return the text of a file in this folder."""
    return (FOLDER / name).read_text(encoding="utf-8")


def read_table(name: str, kind: type[Table]) -> Table:
    """Return a table of this folder; its own TOML is parsed only if it was edited since."""
    text = (FOLDER / name).read_bytes()
    found = _read_decoded().get(name)
    if found is None or found.checksum != crc32(text):
        found = decode_table(text)
    return json.decode(found.content, type=kind)


def decode_table(text: bytes) -> DecodedTable:
    """Return a table from its TOML."""
    import tomllib

    return DecodedTable(crc32(text), Raw(json.encode(tomllib.loads(text.decode()))))


@cache
def _read_decoded() -> dict[str, DecodedTable]:
    try:
        return json.decode(DECODED.read_bytes(), type=dict[str, DecodedTable])
    except (OSError, ValueError):  # it is being written
        return {}
