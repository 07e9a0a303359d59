"""Settings for all tests: examples are the same on every machine, and never against the clock."""

import atexit
import gc
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import build
from relight.cli import TYPED
from relight.sources import SOURCES
from relight.store import Store

settings.register_profile("relight", deadline=None, derandomize=True)
settings.load_profile("relight")

# A job that a shell put into the background ignores interrupts, and so would every program that a
# test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Commands that read take in what is new: no test may reach the sessions of this machine's agents.
os.environ.setdefault("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
os.environ["HOME"] = tempfile.mkdtemp(prefix="relight-nobody-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
for _source in SOURCES.values():
    for _name in (_source.variable, _source.sessions_variable):
        os.environ.pop(_name or "", None)

# tests start `python -m relight`; people type `relight`, so hints say that
os.environ[TYPED] = "relight"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--real", action="store_true", help="run the programs of all agents too")
    parser.addoption("--postgres", action="store_true", help="keep the stores on PostgreSQL")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--postgres"):
        import postgres

        postgres.start()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the programs of the newer agents, 2 GB from npm, unless they are wanted."""
    if config.getoption("--postgres"):
        for item in items:
            if mark := item.get_closest_marker("sqlite"):
                item.add_marker(pytest.mark.skip(reason=f"about SQLite: {mark.args[0]}"))
    if not config.getoption("--real"):
        left_out = [item for item in items if item.get_closest_marker("programs")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish() -> None:
    """Leave thousands of tests out of later collections; a fork then shares their memory."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _end_hermes() -> Iterator[None]:
    yield
    while build.HELD:
        build.HELD.pop().close()


@pytest.fixture(autouse=True)
def _free_databases(request: pytest.FixtureRequest) -> Iterator[None]:
    """With --postgres, give the databases of a test to the next one."""
    if not request.config.getoption("--postgres") or "tmp_path" not in request.fixturenames:
        yield
        return
    import postgres

    folder = request.getfixturevalue("tmp_path")
    yield
    postgres.free_below(folder)


@pytest.fixture(autouse=True, scope="module")
def _end_background() -> Iterator[None]:
    """End the threads that a module leaves: with one alive, an import cannot fork its worker."""
    yield
    if background := sys.modules.get("relight.models.background"):
        background.stop_background()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store, whose days are UTC."""
    with build.open_home(tmp_path) as store:
        yield store


@pytest.fixture
def hermes(tmp_path: Path) -> sqlite3.Connection:
    """Hermes' own database beside the store, as Hermes has it open."""
    return build.open_hermes(tmp_path)
