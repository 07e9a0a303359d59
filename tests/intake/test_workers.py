"""Worker processes: how many, by what the process may use, and how they are started."""

import os
from pathlib import Path

import pytest

from relight.intake.workers import MOST_WORKERS, Workers, count_cores


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def test_eight_workers_are_the_most(tmp_path: Path) -> None:
    assert count_cores(tmp_path, tmp_path / "groups") == MOST_WORKERS


def test_cores_that_the_process_may_not_use_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert count_cores(tmp_path, tmp_path / "groups") == 2


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("150000 100000", 2), ("20000 100000", 1), ("max 100000", MOST_WORKERS), ("", MOST_WORKERS)],
)
def test_the_limit_of_a_container_counts(tmp_path: Path, limit: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    assert count_cores(tmp_path, tmp_path / "groups") == cores


@pytest.mark.parametrize(("quota", "cores"), [("200000", 2), ("-1", MOST_WORKERS)])
def test_the_limit_of_an_older_container_counts(tmp_path: Path, quota: str, cores: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert count_cores(tmp_path, tmp_path / "groups") == cores


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({"user.slice/app.scope": "300000 100000"}, 3),
        ({"user.slice": "200000 100000", "user.slice/app.scope": "max 100000"}, 2),
        ({"user.slice": "400000 100000", ".": "100000 100000"}, 1),
        ({"system.slice": "100000 100000"}, MOST_WORKERS),
    ],
)
def test_the_narrowest_group_around_the_process_counts(
    tmp_path: Path, limits: dict[str, str], cores: int
) -> None:
    (tmp_path / "groups").write_text("0::/user.slice/app.scope\n")
    for folder, limit in limits.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "cpu.max").write_text(limit)
    assert count_cores(tmp_path, tmp_path / "groups") == cores


def test_the_group_of_an_older_kernel_counts(tmp_path: Path) -> None:
    (tmp_path / "groups").write_text("9:memory:/box\n4:cpu,cpuacct:/box/one\n")
    folder = tmp_path / "cpu" / "box"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("300000")
    (folder / "cpu.cfs_period_us").write_text("100000")
    assert count_cores(tmp_path, tmp_path / "groups") == 3


def test_groups_of_another_form_are_no_limit(tmp_path: Path) -> None:
    (tmp_path / "groups").write_text("no groups here\n0:\n:::\n0::/../..\n")
    assert count_cores(tmp_path, tmp_path / "groups") == MOST_WORKERS


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are not listed")
def test_forks_do_not_hold_one_anothers_pipes() -> None:
    """With the parent's end of another's pipe, a fork would keep that one alive after its death."""
    message = b"(str(os.getpid()) + ' ' + str(len(os.listdir('/proc/self/fd')))).encode()"
    message = message.replace(b"os.", b"__import__('os').")
    with Workers(3, "builtins:eval", message_seconds=60) as pool:
        assert pool.is_forked
        found = {one for one in pool.responses([message] * 12) if isinstance(one, bytes)}
    opened = {process: number for process, _, number in (one.partition(b" ") for one in found)}
    assert len(opened) == 3
    assert len(set(opened.values())) == 1


def test_finished_workers_end_while_the_caller_goes_on() -> None:
    with Workers(2, "builtins:bytes", message_seconds=60) as pool:
        assert set(pool.responses([b"one", b"two"])) == {b"one", b"two"}
        children = [child for child in pool._children if child is not None]
        pool.finish()
        assert [child.wait() for child in children] == [0, 0]
