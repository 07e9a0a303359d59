"""The cost of branches, commits and paths, and what a hostile repository must not run."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import build
from build import git
from relight.cli import relight
from relight.errors import MissingError, RelightError
from relight.intake.rebuild import rebuild
from relight.judging.edits import find_commits
from relight.reports.git_costs import read_cost
from relight.reports.repository import find_commit, find_top, is_branch
from relight.reports.sessions import find_session, read_head
from relight.reports.totals import report
from relight.store import Store
from relight.store.queries.filters import Filter

ALL = Filter()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "app.py").write_text("one\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Begin")
    return folder


def edit(name: str, path: str, old: str, new: str) -> dict[str, Any]:
    return build.tool_use(name, "Edit", file_path=path, old_string=old, new_string=new)


def write_work(home: Path, folder: Path, printed: str, *, branch: str = "main") -> None:
    """A session of five turns: two edits, a commit, an edit that fails, another branch."""
    here: dict[str, Any] = {"cwd": str(folder)}
    lines = [
        build.claude_prompt("Fix it", gitBranch=branch, **here),
        build.claude_answer(
            "m1",
            edit("t1", f"{folder}/app.py", "one", "two\nthree"),
            build.tool_use("t2", "Write", file_path="src/new.py", content="a\nb\n"),
            at=1,
            gitBranch=branch,
            **here,
        ),
        build.claude_result("t1", "done", at=2, gitBranch=branch, **here),
        build.claude_result("t2", "done", at=3, gitBranch=branch, **here),
        build.claude_answer(
            "m2",
            build.tool_use("t3", command="git commit -am 'Fix it'"),
            at=4,
            gitBranch=branch,
            **here,
        ),
        build.claude_result("t3", printed, at=5, gitBranch=branch, **here),
        build.claude_answer(
            "m3", edit("t4", f"{folder}/app.py", "zzz", "y"), at=6, gitBranch="other", **here
        ),
        build.claude_result("t4", "String not found", at=7, is_error=True, **here),
        build.claude_answer(
            "m4", edit("t5", "app.py", "two", "2"), at=8, gitBranch="other", **here
        ),
        build.claude_result("t5", "done", at=9, gitBranch="other", **here),
        build.claude_answer("m5", at=10, gitBranch="other", **here),
    ]
    build.write_claude(home, lines)


def turn_cost(store: Store) -> float:
    costs = {cost for (cost,) in store.query("select cost_nanos from turn")}
    assert len(costs) == 1
    return float(costs.pop()) / 1e9


def test_turns_count_for_the_branch_they_were_made_on(
    store: Store, tmp_path: Path, project: Path
) -> None:
    write_work(tmp_path, project, "[main 1a2b3c4] Fix it")
    build.import_home(store, tmp_path)
    each = turn_cost(store)
    rows = report(store, ("branch",), ALL).rows
    assert {row.branch: row.turns for row in rows} == {"main": 2, "other": 3}
    main = read_cost(store, "main", project)
    other = read_cost(store, "other", project)
    assert (main.kind, main.sessions, main.turns) == ("branch", 1, 2)
    assert main.cost_usd == pytest.approx(2 * each)
    assert (main.lines_added, main.lines_removed) == (4, 1)
    # the edit that failed changed no line
    assert (other.turns, other.lines_added, other.lines_removed) == (3, 1, 1)
    assert other.cost_usd == pytest.approx(3 * each)
    # a folder inside the repository has the same branches
    (project / "src").mkdir()
    assert read_cost(store, "main", project / "src").turns == 2


def test_a_commit_costs_the_turns_since_the_one_before(
    store: Store, tmp_path: Path, project: Path
) -> None:
    (project / "app.py").write_text("two\nthree\n")
    printed = git(project, "commit", "-am", "Fix it")
    write_work(tmp_path, project, printed)
    build.import_home(store, tmp_path)
    full = git(project, "rev-parse", "HEAD").strip()
    for name in ("HEAD", full, full[:8]):
        found = read_cost(store, name, project)
        assert (found.kind, found.commit, found.is_verified) == ("commit", full, True)
        assert (found.sessions, found.turns, found.lines_added) == (1, 2, 4)
        assert found.cost_usd == pytest.approx(2 * turn_cost(store))
    # no session made the first commit
    first = read_cost(store, "HEAD~1", project)
    assert (first.sessions, first.turns, first.cost_usd) == (0, 0, None)
    assert first.note == "no recorded session made this commit"


def test_what_no_session_worked_on_has_no_cost_and_names_what_is_known(
    store: Store, tmp_path: Path, project: Path
) -> None:
    home = ["--home", str(tmp_path / "relight"), "--no-import", "cost", "--project", str(project)]
    empty = read_cost(store, "main", project)
    assert (empty.sessions, empty.cost_usd) == (0, None)
    assert empty.note is not None
    assert "no session on a branch is recorded" in empty.note
    shown = CliRunner().invoke(relight, [*home, "main"])
    assert shown.exit_code == 0
    assert "branch main: nothing is known" in shown.output
    assert "$0.00" not in shown.output
    write_work(tmp_path, project, "[main 1a2b3c4] Fix it", branch="feature/login")
    build.import_home(store, tmp_path)
    git(project, "branch", "feature/logins")
    near = read_cost(store, "feature/logins", project)
    assert (near.cost_usd, near.turns) == (None, 0)
    assert near.note == "no recorded session worked on it; did you mean 'feature/login'?"
    assert "here: feature/login, other" in str(read_cost(store, "main", project).note)
    with pytest.raises(MissingError, match="did you mean 'feature/login'"):
        read_cost(store, "feature/logn", project)
    with pytest.raises(RelightError, match="no name"):
        read_cost(store, "", project)
    (project / "untouched.py").touch()
    assert read_cost(store, "untouched.py", project).cost_usd is None


def test_a_commit_is_known_by_what_git_printed_if_the_repository_is_gone(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    write_work(tmp_path, folder, "[main 1a2b3c4] Fix it\n 1 file changed")
    build.import_home(store, tmp_path)
    found = read_cost(store, "1a2b3c4d5e", folder)
    assert (found.kind, found.turns, found.is_verified) == ("commit", 2, False)
    with pytest.raises(MissingError, match="no branch, commit or file"):
        read_cost(store, "9999999", folder)


def test_a_quiet_commit_is_known_by_its_time(store: Store, tmp_path: Path, project: Path) -> None:
    (project / "app.py").write_text("two\nthree\n")
    at = f"{(build.START + 5000) // 1000} +0000"
    (project / "app.py").write_text("quiet\n")
    who = ["-c", "user.name=Dev", "-c", "user.email=d@example.com"]
    subprocess.run(
        ["git", *who, "commit", "-qam", "Quiet"],
        cwd=project,
        env={**os.environ, "GIT_COMMITTER_DATE": at},
        check=True,
    )
    write_work(tmp_path, project, "")
    build.import_home(store, tmp_path)
    assert read_cost(store, "HEAD", project).turns == 2
    assert read_cost(store, "HEAD~1", project).turns == 0


def test_a_path_has_its_share_of_the_turns_that_changed_it(
    store: Store, tmp_path: Path, project: Path
) -> None:
    write_work(tmp_path, project, "[main 1a2b3c4] Fix it")
    build.import_home(store, tmp_path)
    each = turn_cost(store)
    found = read_cost(store, "app.py", project)
    # half of the first turn, which changed two files, and all of the fourth
    assert (found.kind, found.turns, found.lines_added, found.lines_removed) == ("path", 2, 3, 2)
    assert found.cost_usd == pytest.approx(1.5 * each)
    assert read_cost(store, "src", project).cost_usd == pytest.approx(0.5 * each)
    (project / "src").mkdir()
    assert read_cost(store, "new.py", project / "src").turns == 1
    # together the files cost what the turns cost
    assert read_cost(store, ".", project).cost_usd == pytest.approx(2 * each)


def test_edits_and_commits_are_derived_again_and_go_with_their_session(
    store: Store, tmp_path: Path, project: Path
) -> None:
    write_work(tmp_path, project, "[main 1a2b3c4] Fix it")
    build.import_home(store, tmp_path)
    tables = ("file_edit", "git_commit")
    before = [store.query(f"select * from {one}") for one in tables]
    assert all(before)
    rebuild(store)
    assert [store.query(f"select * from {one}") for one in tables] == before
    head = read_head(store, find_session(store, "last"))
    assert head.changed == "2 files changed by edit calls, +5 −2 lines · commit 1a2b3c4"
    run = CliRunner()
    home = ["--home", str(tmp_path / "relight"), "--no-import"]
    assert "2 files changed by edit calls" in run.invoke(relight, [*home, "show", "last"]).output
    shown = run.invoke(relight, [*home, "cost", "main", "--project", str(project), "--json"])
    assert json.loads(shown.output)["kind"] == "branch"
    assert run.invoke(relight, [*home, "forget", "last", "--yes"]).exit_code == 0
    assert [store.query(f"select * from {one}") for one in tables] == [[], []]


@pytest.mark.parametrize(
    ("command", "result", "hashes"),
    [
        ("git commit -m x", "[main (root-commit) 1a2b3c4] x\n 1 file", ["1a2b3c4"]),
        ("git add -A && git commit -qm x", "", [""]),
        (
            "git commit -m a; git commit -m b",
            "[x 1111111] a\n[x 2222222] b",
            ["1111111", "2222222"],
        ),
        ("git -C /tmp commit -m x", "[detached HEAD abcdef0] x", ["abcdef0"]),
        ("git log", "[main 1a2b3c4] x", []),
        ("echo commit", "[main 1a2b3c4] x", []),
    ],
)
def test_commits_are_read_from_what_git_prints(
    command: str, result: str, hashes: list[str]
) -> None:
    assert [one.hash for one in find_commits(command, result)] == hashes


def test_a_hostile_repository_runs_nothing(tmp_path: Path, project: Path) -> None:
    trap = tmp_path / "trap"
    script = tmp_path / "run"
    script.write_text(f"#!/bin/sh\ntouch {trap}\n")
    script.chmod(0o755)
    hooks = project / ".git" / "hooks"
    for name in ("post-checkout", "reference-transaction", "pre-commit", "post-index-change"):
        (hooks / name).parent.mkdir(exist_ok=True)
        (hooks / name).write_text(script.read_text())
        (hooks / name).chmod(0o755)
    for key in (
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "gpg.program",
        "diff.external",
        "credential.helper",
        "core.gitProxy",
        "pager.rev-parse",
        "alias.rev-parse",
        "alias.cat-file",
        "uploadpack.packObjectsHook",
    ):
        value = f"!{script}" if key.startswith("alias") else str(script)
        git(project, "config", key, value)
    git(project, "config", "log.showSignature", "true")
    # a partial clone fetches what it lacks through any transport that is allowed
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", f"ext::{script}"),
        ("remote.evil.promisor", "true"),
        ("protocol.ext.allow", "always"),
    ):
        git(project, "config", key, value)
    assert find_top(project) == project
    assert is_branch(project, "main")
    assert find_commit(project, "HEAD") is not None
    assert find_commit(project, "1" * 40) is None
    assert find_commit(project, "--exec=x") is None
    assert not trap.exists()
