"""Settings for all tests: examples are the same on every machine, and never against the clock."""

import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import build
from relight.store import Store

settings.register_profile("relight", deadline=None, derandomize=True)
settings.load_profile("relight")

# A job that a shell put into the background ignores interrupts, and so would every program that a
# test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _end_hermes() -> Iterator[None]:
    yield
    while build.HELD:
        build.HELD.pop().close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store, whose days are UTC."""
    with build.open_home(tmp_path) as store:
        yield store


@pytest.fixture
def hermes(tmp_path: Path) -> sqlite3.Connection:
    """Hermes' own database beside the store, as Hermes has it open."""
    return build.open_hermes(tmp_path)
