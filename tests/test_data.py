import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relight import data

TABLES = sorted(path.name for path in data.FOLDER.glob("*.toml"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one table, which nothing has decoded yet."""
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    monkeypatch.setattr(data, "DECODED", tmp_path / "tables.json")
    data._read_decoded.cache_clear()
    (tmp_path / "some.toml").write_text("since = 2026-01-31\nrate = 0.5\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    data._read_decoded.cache_clear()


def write_decoded(folder: Path) -> None:
    found = data.decode_table((folder / "some.toml").read_bytes())
    (folder / "tables.json").write_bytes(msgspec.json.encode({"some.toml": found}))


@pytest.mark.parametrize("name", TABLES)
def test_a_decoded_table_has_what_its_toml_has(name: str) -> None:
    written = tomllib.loads(data.read_data(name))
    assert data.read_table(name, Any) == msgspec.to_builtins(written)


def test_an_edited_table_counts_although_nothing_decoded_it(folder: Path) -> None:
    write_decoded(folder)
    (folder / "some.toml").write_text("rate = 0.75\n", encoding="utf-8")
    assert data.read_table("some.toml", dict[str, float]) == {"rate": 0.75}


def test_a_table_that_is_decoded_is_not_parsed_again(folder: Path) -> None:
    text = (folder / "some.toml").read_bytes()
    found = msgspec.structs.replace(data.decode_table(text), content=msgspec.Raw(b'{"rate":1.0}'))
    (folder / "tables.json").write_bytes(msgspec.json.encode({"some.toml": found}))
    assert data.read_table("some.toml", dict[str, float]) == {"rate": 1.0}


@pytest.mark.parametrize(
    "content", [None, b"", b'{"some.toml":[1', b'{"some.toml":[0,"x"]}', b"\xff"]
)
def test_without_decoded_tables_the_toml_is_read(folder: Path, content: bytes | None) -> None:
    if content is not None:
        (folder / "tables.json").write_bytes(content)
    found = data.read_table("some.toml", dict[str, Any])
    assert found == {"since": "2026-01-31", "rate": 0.5}
