"""The number of worker processes, by what the process may use."""

import os
from pathlib import Path

import pytest

from relight.intake.workers import MOST_WORKERS, count_cores


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def test_eight_workers_are_the_most(tmp_path: Path) -> None:
    assert count_cores(tmp_path) == MOST_WORKERS


def test_cores_that_the_process_may_not_use_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert count_cores(tmp_path) == 2


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("150000 100000", 2), ("20000 100000", 1), ("max 100000", MOST_WORKERS), ("", MOST_WORKERS)],
)
def test_the_limit_of_a_container_counts(tmp_path: Path, limit: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    assert count_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("200000", 2), ("-1", MOST_WORKERS)])
def test_the_limit_of_an_older_container_counts(tmp_path: Path, quota: str, cores: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert count_cores(tmp_path) == cores
