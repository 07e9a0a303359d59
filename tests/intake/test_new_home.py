"""The first import makes its home and store in a fork, while it loads what it needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.trees import generate_tree

import build
from relight.errors import RelightError
from relight.intake.importing import make_home
from relight.store import open_store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")

FIRST_IMPORT = """
import os, signal, sys
from pathlib import Path
from relight.intake import importing, workers
from relight.store import open_store
fate, home = sys.argv[1], Path(sys.argv[2])
workers.count_cores = lambda: 1 if fate == "one core" else 2
if fate == "killed":
    importing.open_store = lambda _: os.kill(os.getpid(), signal.SIGKILL)
if fate == "failing":
    importing.open_store = lambda _: 1 / 0
importing.make_home(home)
print((home / "relight.db").exists(), end=" ")
with open_store(home) as store:
    done = importing.import_all(store, environment=os.environ)
print(len(done.touched))
"""

IGNORE_CHILDREN = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("fate", "is_made"),
    [("done", True), ("killed", False), ("failing", False), ("one core", False)],
)
def test_the_first_import_has_its_store_also_if_the_fork_that_makes_it_fails(
    tmp_path: Path, fate: str, is_made: bool
) -> None:
    build.write_claude(tmp_path, build.claude_session())
    home = tmp_path / "new" / "home"
    words = [sys.executable, "-c", FIRST_IMPORT, fate, str(home)]
    environment = {**os.environ, "HOME": str(tmp_path), "TZ": "UTC"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{is_made} 1\n", "")
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "relight.db").stat().st_mode & 0o777 == 0o600


def test_a_home_that_exists_is_not_made_in_a_fork(tmp_path: Path) -> None:
    words = [sys.executable, "-c", FIRST_IMPORT, "done", str(tmp_path)]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False 0\n", "")


def test_a_home_that_cannot_be_looked_up_is_left_to_what_opens_it(tmp_path: Path) -> None:
    home = tmp_path / ("n" * 300)
    make_home(home)
    with pytest.raises(RelightError, match="cannot read "):
        open_store(home)


def test_a_caller_that_ignores_the_ends_of_its_children_may_import(tmp_path: Path) -> None:
    generate_tree(tmp_path, claude_mb=3, codex_mb=1)
    words = [sys.executable, "-m", "relight", "--home", str(tmp_path / "new"), "import"]
    done = subprocess.run(
        [sys.executable, "-c", IGNORE_CHILDREN, *words],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
