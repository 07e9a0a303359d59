"""A project's git repository, read without running anything that it configures.

A repository's configuration may name programs: a monitor of files, hooks, pagers, signers, helpers
for credentials and transports. Only plumbing that reads objects and refs is used, with these
switched off, without the user's configuration, without network, and for two seconds at most.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

LONGEST_SECONDS = 2.0
MOST_BYTES = 1_000_000
MOST_WORKTREES = 50
LONGEST_PATH = 4096
OFF = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.askPass=",
    "credential.helper=",
    "gc.auto=0",
)
SAFE = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
COMMITTED = re.compile(rb"^committer .* (\d{1,11}) [+-]\d{4}$", re.MULTILINE)


class RepositoryCommit(Struct, frozen=True):
    """A commit of a repository: its full hash and the second it was made in."""

    hash: str
    committed_at: int


def find_top(folder: Path) -> Path:
    """Return the top folder of the repository that a folder is in; itself without one."""
    found = _run(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(found.rstrip(b"\n"))) if found else folder


def find_worktrees(folder: Path) -> list[Path]:
    """Return the top folder of a folder's repository, and of its other worktrees.

    A worktree counts only if it names the same repository itself: a repository of a stranger may
    name any folder as its worktree.
    """
    top = find_top(folder)
    common = _run(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")
    listed = _run(folder, "worktree", "list", "--porcelain", "-z")
    if not common or not listed:
        return [top]
    home = Path(os.fsdecode(common.rstrip(b"\n"))).resolve()
    names = [line[9:] for line in listed.split(b"\0") if line.startswith(b"worktree ")]
    found = [Path(os.fsdecode(name)) for name in names[:MOST_WORKTREES]]
    own = [one for one in found if _find_repository(one) == home]
    return [top, *(one for one in own if one != top)] if top in own else [top]


def _find_repository(top: Path) -> Path | None:
    """Return the repository that a worktree says it belongs to."""
    place = top / ".git"
    try:
        if place.is_dir():
            return place.resolve()
        with place.open("rb") as file:
            word, _, name = file.read(LONGEST_PATH).decode(errors="replace").partition(": ")
        # REPOSITORY/worktrees/NAME
        return (top / name.rstrip("\n")).resolve().parent.parent if word == "gitdir" else None
    except OSError:
        return None


def find_commit(folder: Path, name: str) -> RepositoryCommit | None:
    """Return the commit that a name stands for in a folder's repository; None if there is none."""
    if not name or name.startswith("-") or "\0" in name:
        return None
    found = _run(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if not found:
        return None
    full = found.decode("ascii", "replace").strip()
    data = _run(folder, "cat-file", "commit", full)
    if data is None or (made := COMMITTED.search(data.partition(b"\n\n")[0])) is None:
        return None
    return RepositoryCommit(full, int(made[1]))


def is_branch(folder: Path, name: str) -> bool:
    """True if a folder's repository has a local branch of this name."""
    if not name or name.startswith("-") or "\0" in name:
        return False
    return bool(_run(folder, "rev-parse", "--verify", "--quiet", f"refs/heads/{name}"))


def _run(folder: Path, *words: str) -> bytes | None:
    """Return what git prints; None if it fails, takes too long, or is not installed."""
    program = shutil.which("git")
    if program is None or not Path(program).is_absolute() or not folder.is_dir():
        return None
    settings = [word for one in OFF for word in ("-c", one)]
    environment = {"PATH": os.environ.get("PATH", os.defpath), **SAFE}
    try:
        done = subprocess.run(
            [program, "--no-pager", *settings, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    is_good = done.returncode == 0 and len(done.stdout) <= MOST_BYTES
    return done.stdout if is_good else None
