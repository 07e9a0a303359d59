"""The home is its owner's alone: modes of folders and files, and homes that are refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import build
from relight.config import read_config
from relight.errors import RelightError
from relight.store import open_reader, open_store
from relight.work.moa.traces import write_trace

JOB = ("job", "add", "look", "--schedule", "daily 07:00", "--prompt", "Look.")


def run_open(home: Path, *words: str) -> None:
    """Run a command under a umask that takes nothing away."""
    command = [sys.executable, "-m", "relight", *words]
    environment = {**os.environ, "HOME": str(home.parent.parent), "RELIGHT_HOME": str(home)}
    subprocess.run(command, env=environment, umask=0, check=True, capture_output=True)


def test_every_folder_is_0700_and_every_file_0600_whatever_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "new" / "relight"
    build.write_claude(tmp_path, build.claude_session())
    run_open(home, "import")
    run_open(home, *JOB, "--command", "echo {prompt_file} all is well")
    run_open(home, "job", "run", "look")
    run_open(home, "backup", str(home / "copy.db"))
    before = os.umask(0)
    try:
        write_trace(home / "moa" / "traces", "s", {"a": 1})
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (home.parent, *home.parent.rglob("*"))}
    assert {"jobs", "import.lock", "relight.db", "copy.db"} <= {path.name for path in modes}
    assert {
        path: mode for path, mode in modes.items() if mode != (0o600, 0o700)[path.is_dir()]
    } == {}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_home_that_everybody_may_write_in_is_refused_with_the_cure(tmp_path: Path) -> None:
    home = tmp_path / "my home"
    open_store(home).close()
    home.chmod(0o777)
    for use in (open_store, lambda home: open_reader(read_config(home))):
        with pytest.raises(RelightError, match="every user of this machine may write") as raised:
            use(home)
        assert raised.value.hint == f"run: chmod go-w '{home}'"
    home.chmod(0o755)
    open_store(home).close()


def test_a_database_that_is_a_link_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path / "elsewhere").close()
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "relight.db").symlink_to(tmp_path / "elsewhere" / "relight.db")
    with pytest.raises(RelightError, match=r"relight\.db is a link"):
        open_store(home)
    (home / "relight.db").unlink()
    (home / "relight.db").symlink_to(tmp_path / "not there")
    with pytest.raises(RelightError, match=r"relight\.db is a link"):
        open_store(home)
    assert not (tmp_path / "not there").exists()
