import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import build
import build_skills

Run = subprocess.CompletedProcess[str]


class Cli:
    """The real command in a process of its own, on a home of its own."""

    def __init__(self, home: Path) -> None:
        build.open_home(home).close()
        store = str(home / "relight")
        self.environment = {**os.environ, "HOME": str(home), "RELIGHT_HOME": store}
        self.environment |= {"COLUMNS": "80"}

    def run(self, *words: str) -> Run:
        command = [sys.executable, "-m", "relight", *words]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def filled(cli: Cli) -> Cli:
    """Five runs of a skill on two models, today."""
    for model, cost, outcome in (
        ("opus", "0.9", "--success"),
        ("opus", "0.9", "--success"),
        ("haiku", "0.05", "--success"),
        ("haiku", "0.05", "--failure"),
    ):
        words = ["--model", model, "--cost-usd", cost, outcome, "--duration-seconds", "30"]
        assert cli.run("skills", "record", "triage", *words).returncode == 0
    assert cli.run("skills", "record", "triage", "--model", "haiku").returncode == 0
    return cli


def test_a_use_may_be_recorded_by_hand(cli: Cli) -> None:
    words = ("skills", "record", "tidy", "--session", "s1", "--entry", "cron", "--share", "0.5")
    first = cli.json(*words, "--invoked-at", "1794733200", "--job", "nightly")
    again = cli.json(*words, "--invoked-at", "2026-11-15T09:00:00Z", "--failure")
    assert first == again == {"id": 1}
    (row,) = cli.json("skills", "stats", "--since", "2026-11-15")["rows"]
    assert (row["day"], row["failure_count"]) == ("2026-11-15", 1)


def test_stats_have_the_columns_of_the_daily_view(filled: Cli) -> None:
    found = filled.json("skills", "stats")
    rows = {row["model"]: row for row in found["rows"]}
    assert list(rows["haiku"]) == [
        *("skill_name", "model", "provider", "day", "invocation_count", "success_count"),
        *("failure_count", "unknown_count", "avg_duration_s", "total_cost_usd", "avg_cost_usd"),
        *("unpriced_count", "total_input_tokens", "total_output_tokens", "avg_quality_score"),
        "last_invoked_at",
    ]
    haiku = rows["haiku"]
    assert (haiku["invocation_count"], haiku["unknown_count"], haiku["unpriced_count"]) == (3, 1, 1)
    assert haiku["avg_cost_usd"] == 0.05
    assert filled.json("skills", "stats", "--skill", "other")["rows"] == []


def test_averages_have_the_shape_scripts_rely_on(filled: Cli) -> None:
    found = filled.json("skills", "ema")
    assert found["window_days"] == 14
    assert found["half_life_days"] == pytest.approx(1.943, abs=1e-3)
    rows = {row["model"]: row for row in found["rows"]}
    assert rows["haiku"]["ema_success_rate"] == 0.5
    assert rows["haiku"]["ema_cost_per_call"] == pytest.approx(0.05)
    assert set(rows["opus"]) >= {
        *("skill_name", "model", "provider", "sample_count", "success_count", "failure_count"),
        *("unknown_count", "n_eff", "ema_success_rate", "ema_cost_per_call", "ema_duration_s"),
        *("days_with_data", "last_invoked_at"),
    }
    assert filled.json("skills", "ema", "--half-life", "5")["half_life_days"] == 5


def test_a_comparison_ends_in_one_sentence(filled: Cli) -> None:
    found = filled.json("skills", "compare", "triage", "--models", "haiku,opus", "--margin", "0.1")
    assert found["verdict"].startswith("Not enough data")
    assert [arm["model"] for arm in found["models"]] == ["opus", "haiku"]
    assert found["margin"] == 0.1
    done = filled.run("skills", "compare", "triage")
    assert "Not enough data" in done.stdout
    assert "1 runs of unknown outcome are left out" in done.stdout


@pytest.mark.parametrize("words", [["stats"], ["ema"], ["compare", "triage"]])
def test_tables_fit_eighty_columns(filled: Cli, words: list[str]) -> None:
    done = filled.run("skills", *words)
    assert done.returncode == 0, done.stderr
    table = [
        line for line in done.stdout.splitlines() if line.startswith(("skill", "model", "tri"))
    ]
    assert table
    assert all(len(line) <= 80 for line in table)
    if words != ["compare", "triage"]:
        assert "█" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["compare", "nothing"], 1, "no use of a skill 'nothing'"),
        (["ema", "--alpha", "2"], 1, "alpha must be"),
        (["ema", "--alpha", "0.3", "--half-life", "5"], 1, "say the same thing twice"),
        (["ema", "--window-days", "0"], 1, "window_days must be"),
        (["record", "x", "--entry", "magic"], 1, "entry cannot be 'magic'"),
        (["record", "x", "--invoked-at", "soon"], 1, "invoked_at must be a time"),
        (["stats", "--since", "soon"], 1, "is not a day"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_what_cannot_be_done_is_told(cli: Cli, words: list[str], code: int, told: str) -> None:
    done = cli.run("skills", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr


@pytest.mark.parametrize("words", [["stats"], ["ema"]])
def test_an_empty_store_says_what_to_do(cli: Cli, words: list[str]) -> None:
    done = cli.run("skills", *words)
    assert done.returncode == 0
    assert "no use of a skill" in done.stdout


def test_a_report_by_skill_names_what_used_none(tmp_path: Path, cli: Cli) -> None:
    build.write_claude(tmp_path, build.claude_session())
    build_skills.write_hermes(
        build.open_hermes(tmp_path),
        "20261115_000000_abc123",
        *build_skills.hermes_viewed("tidy", build_skills.TIDY),
    )
    assert cli.run("import").returncode == 0
    words = ("report", "--by", "skill", "--since", "all")
    assert [row["skill"] for row in cli.json(*words)["rows"]] == [None, "tidy"]
    assert "(no skill)" in cli.run(*words).stdout
    refused = cli.run("report", "--by", "skill,tool")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "report by skill, and by tool or failure apart" in refused.stderr
