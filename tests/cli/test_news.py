"""Commands that read the record first take in what is new, and answer whatever becomes of that."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import build
from relight.intake.importing import hold_import
from relight.store import open_store
from terminal import Cli, Run

OTHER = "22222222-aaaa-4aaa-8aaa-222222222222"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A home with one session on disk, of which nothing has been read."""
    found = Cli(tmp_path)
    build.write_claude(tmp_path, build.claude_session())
    return found


def count(cli: Cli, *words: str) -> int:
    sessions: int = cli.json("report", "--since", "all", *words)["total"]["sessions"]
    return sessions


def said(done: Run) -> str:
    """The lines on standard error, without the progress that a busy machine makes it show."""
    lines = done.stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("reading what is new"))


def test_a_report_has_what_was_written_a_moment_ago(cli: Cli) -> None:
    assert count(cli) == 1
    build.write_claude(cli.home, [build.claude_answer("m9", sessionId=OTHER)], name=OTHER)
    assert count(cli, "--no-import") == 1
    assert count(cli) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["show", f"claude-code:{build.CLAUDE_SESSION}"],
        ["label", f"claude-code:{build.CLAUDE_SESSION}", "success"],
        ["failures", "--since", "all"],
        ["job", "list"],
        ["job", "history"],
        ["skills", "stats"],
        ["template", "list"],
        ["experiment", "list"],
        [],
    ],
    ids=" ".join,
)
def test_every_command_that_reads_takes_in_what_is_new_unless_it_shall_not(
    cli: Cli, words: list[str]
) -> None:
    skipped = cli.run(*words, "--no-import")
    assert "No such option" not in skipped.stderr
    with open_store(cli.home / "relight") as store:
        assert not store.has_rows("session")
    done = cli.run(*words)
    assert done.returncode == 0, done.stderr
    with open_store(cli.home / "relight") as store:
        assert store.has_rows("session")


def test_the_last_session_is_forgotten_and_not_the_last_that_was_read(cli: Cli) -> None:
    assert count(cli) == 1
    build.write_claude(cli.home, [build.claude_answer("m9", sessionId=OTHER)], name=OTHER)
    assert cli.run("forget", "last", "--yes").stdout == "forgot 1 session\n"
    (left,) = cli.json("sessions", "--since", "all")["sessions"]
    assert left["session_id"] == f"claude-code:{build.CLAUDE_SESSION}"


def test_a_setting_turns_it_off(cli: Cli) -> None:
    with (cli.home / "relight" / "config.toml").open("a") as settings:
        settings.write("auto_import = false\n")
    assert count(cli) == 0
    assert "Nothing is recorded yet" in cli.run().stdout


def test_what_a_demo_shows_is_not_mixed_with_own_sessions(cli: Cli) -> None:
    from relight.cli.demo.own_records import write_settings

    write_settings(cli.home / "demo")
    found = cli.json("report", "--since", "all", "--home", str(cli.home / "demo"))
    assert found["total"]["sessions"] == 0


def test_while_another_import_runs_the_answer_is_what_it_has_recorded(cli: Cli) -> None:
    assert count(cli) == 1
    build.write_claude(cli.home, [build.claude_answer("m9", sessionId=OTHER)], name=OTHER)
    with open_store(cli.home / "relight") as store, hold_import(store):
        done = cli.run("report", "--since", "all", "--json")
    assert done.returncode == 0
    assert '"sessions": 1' in done.stdout
    assert said(done) == "another import is running: this is what it has recorded so far\n"


def test_another_import_delays_an_answer_by_less_than_half_a_second(cli: Cli) -> None:
    assert count(cli) == 1
    build.write_claude(cli.home, [build.claude_answer("m9", sessionId=OTHER)], name=OTHER)

    def spend(*words: str) -> float:
        began = time.perf_counter()
        cli.run("report", "--since", "all", *words)
        return time.perf_counter() - began

    with open_store(cli.home / "relight") as store, hold_import(store):
        # the least of some: the machine may be busy
        assert min(spend() for _ in range(5)) - min(spend("--no-import") for _ in range(5)) < 0.5


def test_nothing_new_needs_no_lock(cli: Cli) -> None:
    assert count(cli) == 1
    with open_store(cli.home / "relight") as store, hold_import(store):
        assert said(cli.run("report", "--since", "all")) == ""


def test_a_database_that_another_program_writes_to_is_read(cli: Cli) -> None:
    with open_store(cli.home / "relight") as store, build.holding(store):
        done = cli.run("report", "--since", "all", "--json")
    assert done.returncode == 0
    assert '"sessions": 0' in done.stdout
    assert said(done).startswith("warning: not everything new was read: ")
    assert said(done).count("\n") == 1


def test_a_file_that_cannot_be_read_is_reported_once_and_stops_nothing(cli: Cli) -> None:
    path = build.write_claude(cli.home, ["{broken", *build.claude_session()])
    done = cli.run("report", "--since", "all", "--json")
    assert '"sessions": 1' in done.stdout
    assert said(done) == "warning: 1 new line could not be read: see `relight doctor`\n"
    with path.open("ab") as file:
        file.write(build.as_lines([build.claude_answer("m9", at=9)]))
    assert said(cli.run("report", "--since", "all")) == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_can_only_be_read_answers_without_an_import(cli: Cli) -> None:
    assert count(cli) == 1
    build.write_claude(cli.home, [build.claude_answer("m9", sessionId=OTHER)], name=OTHER)
    home = cli.home / "relight"
    home.chmod(0o500)
    try:
        done = cli.run("report", "--since", "all", "--json")
    finally:
        home.chmod(0o700)
    assert done.returncode == 0
    assert done.stderr == "this home can only be read: what is new is missing here\n"
    assert '"sessions": 1' in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("search", "rounding"),
        ("failures",),
        ("label",),
        ("sessions",),
        ("report",),
        ("show", "last"),
        ("resume", "last"),
    ],
    ids=" ".join,
)
def test_an_empty_record_says_what_to_do(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli.run(*words, "--no-import", given="")
    assert "nothing is recorded yet; run `" in done.stdout + done.stderr


def test_hooks_and_diagnosis_import_nothing(cli: Cli) -> None:
    cli.run("warm", "--hook", "claude-code", given="{}")
    cli.run("doctor")
    with open_store(cli.home / "relight") as store:
        assert not store.has_rows("session")


# an import that has recorded Hermes' database, and is interrupted before it reads files
INTERRUPTED = """
import os, signal, sys, time
from relight.intake.sealing import Intake
def import_files(self, files):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
Intake._import_files = import_files
from relight.cli import main
main(sys.argv[1:])
"""


def test_an_interrupt_ends_the_import_and_not_the_command(cli: Cli) -> None:
    build.hermes_session(build.open_hermes(cli.home))
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "report", "--since", "all", "--json"],
        env=cli.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"sessions": 1' in done.stdout
    assert said(done) == "import interrupted: what was not read yet is missing here\n"
    assert count(cli) == 2


def test_an_import_that_takes_long_says_so(cli: Cli) -> None:
    program = (
        "from relight.cli import progress; progress.QUIET_SECONDS = 0.0;"
        "import sys; from relight.cli import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "report", "--since", "all", "--json"],
        env=cli.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert '"sessions": 1' in done.stdout
    assert done.stderr.startswith("reading what is new: ")
    assert done.stderr.count("\n") == 1
