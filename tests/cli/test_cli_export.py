"""`relight export` as a person runs it."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import build
from relight import locks
from terminal import Cli


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A home with one session that was read."""
    made = Cli(tmp_path_factory.mktemp("home"))
    build.write_claude(made.home, build.claude_session())
    assert made.run("import").returncode == 0
    return made


def test_lines_go_to_standard_output_and_the_summary_beside_them(cli: Cli) -> None:
    done = cli.run("export", "--format", "jsonl", "-")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["session_id"] == f"claude-code:{build.CLAUDE_SESSION}"
    assert done.stderr.startswith("exported 1 session, ")
    both = cli.run("export", "--format", "jsonl", "-", "--json")
    assert (both.returncode, both.stdout) == (2, "")


def test_a_folder_of_tables_is_written_once_and_again_by_force(cli: Cli) -> None:
    folder = cli.home / "figures"
    words = ("export", "--format", "csv", str(folder))
    found = cli.json(*words)
    assert sorted(one.name for one in folder.iterdir()) == [
        "calls.csv",
        "sessions.csv",
        "turns.csv",
    ]
    assert (found["sessions"], found["turns"]) == (1, 3)
    assert found["bytes"] == sum(Path(name).stat().st_size for name in found["files"])
    (folder / "notes.txt").write_text("mine")
    again = cli.run(*words)
    assert (again.returncode, "already exists" in again.stderr) == (1, True)
    assert "--force" in again.stderr
    assert cli.run(*words, "--force").returncode == 0
    assert (folder / "notes.txt").read_text() == "mine"


def test_one_table_goes_to_standard_output(cli: Cli) -> None:
    done = cli.run("export", "--format", "csv", "--table", "turns", "-")
    assert len(list(csv.DictReader(done.stdout.splitlines()))) == 3
    three = cli.run("export", "--format", "csv", "-")
    assert (three.returncode, three.stdout) == (2, "")
    mixed = cli.run("export", "--format", "jsonl", "--table", "turns", "-")
    assert (mixed.returncode, mixed.stdout) == (2, "")


def test_a_full_disk_is_an_error_and_leaves_no_file(cli: Cli) -> None:
    words = [sys.executable, "-m", "relight", "export", "--no-import", "--format", "jsonl"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*words, "-"], env=cli.environment, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, b"No space left" in done.stderr) == (1, True)
    target = cli.home / "small.jsonl"
    limited = ["sh", "-c", 'ulimit -f 1 && exec "$@"', "sh", *words, str(target)]
    done = subprocess.run(limited, env=cli.environment, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    assert not [one for one in cli.home.iterdir() if "small" in one.name]


def test_a_process_that_dies_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("before")
    child = os.fork()
    if child == 0:
        with locks.replace_when_whole(path) as file:
            file.write(b"half")
            file.flush()
            os._exit(9)
    os.waitpid(child, 0)
    assert path.read_text() == "before"


def test_a_pipe_is_written_as_it_is(cli: Cli) -> None:
    pipe = cli.home / "pipe"
    os.mkfifo(pipe)
    words = [sys.executable, "-m", "relight", "export", "--format", "jsonl", str(pipe)]
    with subprocess.Popen(words, env=cli.environment, stdout=subprocess.DEVNULL):
        assert json.loads(pipe.read_bytes())["relight_export"] == 1


def test_spans_are_counted_by_a_dry_run_and_options_of_files_are_refused(cli: Cli) -> None:
    words = ("export", "--format", "otlp", "http://127.0.0.1:9")
    found = cli.json(*words, "--dry-run")
    assert (found["sessions"], found["turns"], found["is_dry_run"]) == (1, 3, True)
    failed = cli.run(*words)
    assert (failed.returncode, "cannot be reached" in failed.stderr) == (1, True)
    for wrong in (["--force"], ["--table", "turns"]):
        assert cli.run(*words, *wrong).returncode == 2
    assert cli.run("export", "--format", "jsonl", "--content", "-").returncode == 2


def test_a_history_has_the_report_of_the_months_that_are_over(tmp_path: Path) -> None:
    cli, month = Cli(tmp_path), -31 * 86_400
    answer = build.claude_answer("msg_1", at=month + 1)
    build.write_claude(tmp_path, [build.claude_prompt("go", month), answer])
    folder = str(tmp_path / "history")
    assert cli.run("report", "--history", folder).returncode == 2
    assert cli.run("import").returncode == 0
    assert cli.json("history", "export", folder)["written"] == ["2026-10"]
    found = cli.json("report", "--history", folder, "--by", "month")
    live = cli.json("report", "--by", "month", "--since", "all")
    assert found["rows"] == live["rows"]
    refused = cli.run("report", "--history", folder, "--by", "skill")
    assert (refused.returncode, "no skills" in refused.stderr) == (1, True)
