"""The home is its owner's alone: modes, homes that are refused, homes that can only be read."""

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import build
import serving
from relight.config import read_config
from relight.errors import RelightError
from relight.store import Store, open_reader, open_store
from relight.store.jobs import JobRow, replace_job
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


@pytest.mark.sqlite("it links the file")
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


def as_plain_user() -> list[str]:
    """The words that start a command which modes of files stop, also if root runs the tests."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root can write everywhere, and setpriv is missing")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A home that nobody may write in, and the name of its one session."""
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        home = store.config.home
        ((name,),) = store.query("select source || ':' || key from session")
    for path in (*home.rglob("*"), home):
        path.chmod(0o500 if path.is_dir() else 0o400)
    yield home, name
    home.chmod(0o700)


def run_plain(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*as_plain_user(), sys.executable, "-m", "relight", "--home", str(home), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.sqlite("the home is the file's")
def test_a_home_that_can_only_be_read_is_reported_shown_and_served(
    read_only: tuple[Path, str],
) -> None:
    home, session = read_only
    before = sorted(home.rglob("*"))
    for words in ((), ("report", "--since", "all"), ("show", session), ("failures",), ("doctor",)):
        done = run_plain(home, *words)
        assert (done.returncode, done.stderr, bool(done.stdout)) == (0, "", True), words
    with serving.serve(home, through=as_plain_user()) as (address, _):
        for path in ("", "sessions?since=all", "api/sessions?since=all", "api/live"):
            with urllib.request.urlopen(f"{address}{path}") as answer:
                assert answer.status == 200
    assert sorted(home.rglob("*")) == before


@pytest.mark.sqlite("the home is the file's")
@pytest.mark.parametrize("words", [("import",), ("label", "SESSION", "success")])
def test_nothing_is_written_to_a_home_that_can_only_be_read(
    read_only: tuple[Path, str], words: tuple[str, ...]
) -> None:
    home, session = read_only
    done = run_plain(home, *(session if word == "SESSION" else word for word in words))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "permissions" in done.stderr


@pytest.mark.sqlite("it writes the version of the file")
def test_a_database_that_needs_migration_is_not_read_from_a_read_only_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with open_store(home) as store:
        store.run("pragma user_version = 17")
    for path in (home / "relight.db", home):
        path.chmod(0o500 if path.is_dir() else 0o400)
    done = run_plain(home, "report")
    home.chmod(0o700)
    assert done.returncode == 1
    assert "is only read here, and its database has schema 17" in done.stderr


READER = """
import sys
from relight.store import open_store
from relight.store.changes import ChangeWatcher
with open_store(sys.argv[1]) as store:
    watcher = ChangeWatcher(store.config)
    versions = set()
    for line in sys.stdin:
        watcher.look_again()
        versions.add(watcher.version())
        print(store.query("select count(*) from job")[0][0], len(versions), flush=True)
    watcher.close()
"""


@pytest.mark.sqlite("it takes the right to write the file")
def test_a_reader_of_a_read_only_home_sees_what_its_owner_writes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    open_store(home).close()
    command = [*as_plain_user(), sys.executable, "-c", READER, str(home)]

    def set_mode(*, is_open: bool) -> None:
        home.chmod(0o700 if is_open else 0o500)
        for path in home.iterdir():
            path.chmod(0o600 if is_open else 0o400)

    def ask(reader: "subprocess.Popen[str]") -> str:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write("\n")
        reader.stdin.flush()
        return reader.stdout.readline().strip()

    def write(store: Store, key: str) -> None:
        with store.transaction() as database:
            replace_job(database, JobRow(id=len(key), source="x", key=key, name=key))

    set_mode(is_open=False)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert ask(reader) == "0 1"
        set_mode(is_open=True)
        with open_store(home) as store:  # the log is moved into the database when it is closed
            write(store, "a")
        set_mode(is_open=False)
        seen = [ask(reader), ask(reader)]
        set_mode(is_open=True)
        with open_store(home) as store:
            write(store, "bb")
            set_mode(is_open=False)
            last = ask(reader)
            set_mode(is_open=True)
    assert [one.split()[0] for one in [*seen, last]] == ["1", "1", "2"]
    assert last.split()[1] != "1"
