"""A home with invented sessions to serve, a client that asks it, and a separate server."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import cache
from html import unescape
from pathlib import Path

from starlette.testclient import TestClient

from relight.cli.demo import write_demo
from relight.cli.demo.own_records import record_facts, write_settings
from relight.config import read_config as read_config
from relight.intake.importing import import_all
from relight.store import open_store
from relight.web.app import create_app

ADDRESS = "http://127.0.0.1:7717"


def make_home(folder: Path) -> Path:
    """A copy of the home that `relight demo` makes, which takes seconds to make."""
    return copy_home(make_demo(datetime.now(UTC).date()), folder / "relight")


def copy_file_home(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target))


# with --postgres, the copy's store is there
copy_home = copy_file_home


@cache
def make_demo(_: date) -> Path:
    """The home that `relight demo` makes today, for this process; another day needs another."""
    folder = Path(tempfile.mkdtemp(prefix="relight-demo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    now = datetime.now(UTC)
    environment = write_demo(folder / "agents", now=now)
    home = folder / "relight"
    write_settings(home)
    with open_store(home) as store:
        import_all(store, environment=environment, workers=1)
        record_facts(store, now=now)
    return home


def make_client(home: Path, **options: object) -> TestClient:
    app = create_app(home, **options)  # type: ignore[arg-type]
    return TestClient(app, base_url=ADDRESS, follow_redirects=False)


def read_secret(client: TestClient) -> str:
    """The secret as a page has it."""
    found = re.search(r'name="relight-secret" content="([^"]+)"', client.get("/").text)
    assert found is not None
    return found[1]


def read_tile(text: str, name: str) -> tuple[str, str]:
    """The value and the note of a tile."""
    found = re.search(
        rf'<span class="name">{name}</span>\s*<span class="value[^"]*">(.*?)</span>'
        r'(?:\s*<span class="note">(.*?)</span>)?',
        text,
        re.DOTALL,
    )
    assert found is not None, name
    return unescape(found[1]), unescape(found[2] or "")


@contextmanager
def serve(
    home: Path,
    *words: str,
    through: Sequence[str] = (),
    errors: Path | None = None,
    **environment: str,
) -> Iterator[tuple[str, int]]:
    """`relight serve` in a separate process: its address and process id.

    The command `through` starts it, and its standard error goes to the file `errors`.
    """
    command = [*through, sys.executable, "-m", "relight", "serve"]
    written = None if errors is None else os.open(errors, os.O_WRONLY | os.O_CREAT, 0o600)
    child = subprocess.Popen(
        [*command, "--port", "0", *words],
        # as a person's own home: with `--home`, commands on pages would name that folder
        env={**os.environ, "RELIGHT_HOME": str(home), **environment},
        stdout=subprocess.PIPE,
        stderr=written,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip(), child.pid
    finally:
        if written is not None:
            os.close(written)
        child.terminate()
        child.communicate(timeout=20)
