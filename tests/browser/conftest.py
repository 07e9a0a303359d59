"""A browser, and one demo for all tests; those that change something get a copy of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

import serving
from chromium import ARGUMENTS, find_chromium


# one for each module: while it is open an event loop runs, in which no other test may start its own
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program, why = find_chromium()
    if program is None:
        pytest.skip(why)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serving.make_home(tmp_path_factory.mktemp("dashboard"))


@pytest.fixture(scope="session")
def address(demo_home: Path) -> Iterator[str]:
    """The address of the demo, which tests must not change."""
    with serving.serve(demo_home) as (found, _):
        yield found.rstrip("/")


@pytest.fixture(scope="module")
def shared_home(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the demo for a module, each of whose tests adds or changes something else."""
    return Path(shutil.copytree(demo_home, tmp_path_factory.mktemp("shared") / "relight"))


@pytest.fixture(scope="module")
def shared_address(shared_home: Path) -> Iterator[str]:
    with serving.serve(shared_home) as (found, _):
        yield found.rstrip("/")


@pytest.fixture
def own_home(demo_home: Path, tmp_path: Path) -> Path:
    """A copy of the demo that a test may change."""
    return Path(shutil.copytree(demo_home, tmp_path / "relight"))


@pytest.fixture
def own_address(own_home: Path) -> Iterator[str]:
    with serving.serve(own_home) as (found, _):
        yield found.rstrip("/")
