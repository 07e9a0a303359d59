"""One demo home for the tests of a module, and a client that asks its dashboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import serving


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serving.make_home(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with serving.make_client(home) as client:
        yield client
