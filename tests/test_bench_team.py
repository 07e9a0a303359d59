"""A slice of `./dev bench team`: pushes among kills."""

import random
from pathlib import Path

from bench.campaign.score import Score
from bench.team import kills
from bench.team.engines import SqliteEngine


def test_what_is_pushed_among_kills_is_there_once(tmp_path: Path) -> None:
    score = Score("kills", "lost", "twice", "hung")
    folder, dice = tmp_path / "kills", random.Random(1)
    kills.kill_pushes(score, folder, dice, SqliteEngine(), kills=2, machines=1, megabytes=0.05)
    assert score.counts["tried"] == 2
    assert score.problems == []
