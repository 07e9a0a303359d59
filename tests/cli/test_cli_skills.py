import time
from pathlib import Path

import pytest
from msgspec.structs import replace

import build
import build_skills
from relight.cli.skills import print_stats
from relight.store.queries.skills import SkillTotal, SkillUseDay
from terminal import Cli


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


@pytest.mark.parametrize(
    ("typed", "day"),
    [
        ("0", "1970-01-01"),
        ("20261101", "2026-11-01"),
        ("2026-11-01", "2026-11-01"),
        ("20261101T230000-0200", "2026-11-02"),
        ("1794733200.5", "2026-11-15"),
    ],
)
def test_a_time_is_read_as_a_person_means_it(cli: Cli, typed: str, day: str) -> None:
    cli.json("skills", "record", "tidy", "--invoked-at", typed)
    (row,) = cli.json("skills", "stats", "--since", "all")["rows"]
    assert row["day"] == day


def test_a_time_without_a_zone_is_in_the_stores(cli: Cli) -> None:
    (cli.home / "relight" / "config.toml").write_text('timezone = "America/New_York"\n')
    words = ("skills", "record", "tidy", "--invoked-at", "20261115")
    cli.json(*words, "--completed-at", "2026-11-15T00:00:30")
    (row,) = cli.json("skills", "stats", "--since", "all")["rows"]
    assert (row["day"], row["avg_duration_s"]) == ("2026-11-15", 30)
    assert row["last_invoked_at"] == "2026-11-15T05:00:00.000Z"


@pytest.mark.parametrize(
    "typed", ["", " ", "20261399", "202611010900", "-5", "1e9", "nan", "1_000", "soon", "١٢"]
)
def test_what_is_no_time_is_refused_with_the_forms_there_are(cli: Cli, typed: str) -> None:
    done = cli.run("skills", "record", "tidy", f"--invoked-at={typed}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: --invoked-at must be a time" in done.stderr
    assert "2026-11-15T09:00:00Z or 20261115, or Unix seconds" in done.stderr
    assert cli.run("skills", "record", "tidy", f"--completed-at={typed}").returncode == 1


def test_recording_again_by_hand_keeps_what_is_left_out(cli: Cli) -> None:
    words = ("skills", "record", "tidy", "--session", "s1")
    first = cli.json(*words, "--invoked-at", "20261101", "--cost-usd", "0.5", "--share", "0.5")
    assert cli.json(*words, "--success") == first
    assert "the session s1 is not recorded yet" in cli.run(*words).stdout
    (row,) = cli.json("skills", "stats", "--since", "all")["rows"]
    assert (row["day"], row["success_count"], row["total_cost_usd"]) == ("2026-11-01", 1, 0.5)


def test_a_mean_time_is_over_the_known_ones(cli: Cli) -> None:
    for at, seconds in (("20261101", ["--duration-seconds", "10"]), ("20261102", [])):
        for _ in range(9 if seconds == [] else 1):
            cli.json("skills", "record", "tidy", "--invoked-at", at, *seconds)
    cli.json("skills", "record", "tidy", "--invoked-at", "20261102", "--duration-seconds", "20")
    assert " 15.0s " in cli.run("skills", "stats", "--since", "all").stdout


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


def test_the_mean_quality_is_called_a_weak_score(filled: Cli) -> None:
    for quality in ("0.5", "1"):
        filled.run("skills", "record", "triage", "--model", "opus", "--quality-score", quality)
    filled.environment["COLUMNS"] = "120"
    head, _, *rows = filled.run("skills", "stats").stdout.splitlines()
    assert " weak score " in f"{head} "
    (opus,) = [row for row in rows if " opus " in row]
    assert " 0.75 " in f"{opus} "


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
    assert found["verdict"].startswith("haiku cannot be judged at triage: the outcome of 1 of 3")
    assert [arm["model"] for arm in found["models"]] == ["opus", "haiku"]
    assert found["margin"] == 0.1
    assert filled.json("skills", "compare", "triage", "--margin", "10")["margin"] == 0.1
    done = filled.run("skills", "compare", "triage")
    assert "haiku cannot be judged" in done.stdout
    assert "1 run of unknown outcome is left out" in done.stdout


def test_a_comparison_shows_each_job(cli: Cli) -> None:
    for job, model, outcome in (
        ("easy", "opus", "--success"),
        ("easy", "haiku", "--success"),
        ("hard", "haiku", "--failure"),
        ("easy", "haiku", "--success"),
    ):
        cost = "0.9" if model == "opus" else "0.05"
        words = ["--job", job, "--model", model, "--cost-usd", cost, outcome]
        assert cli.run("skills", "record", "triage", *words).returncode == 0
    shown = cli.run("skills", "compare", "triage").stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    # counts of different jobs make no rate of a model
    assert "model runs ok failed unkn. a run" in lines
    assert "haiku 3 2 1 0 $0.05" in lines
    assert "easy haiku 2 of 2 opus 1 of 1 cannot tell yet" in lines
    assert "hard haiku 0 of 1 opus 0 of 0 not shared" in lines
    alone = cli.json("skills", "compare", "triage", "--job", "easy")
    assert (alone["job"], len(alone["pairs"][0]["jobs"])) == ("easy", 1)
    heading = cli.run("skills", "compare", "triage", "--job", "easy").stdout.splitlines()[0]
    assert heading.split()[-4:] == ["95", "%", "a", "success"]


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
        (["ema", "--alpha", "2"], 1, "error: --alpha must be"),
        (
            ["ema", "--alpha", "0.3", "--half-life", "5"],
            1,
            "error: --alpha and --half-life exclude each other",
        ),
        (["ema", "--half-life", "-1"], 1, "error: --half-life must be a number above 0, not -1"),
        (["ema", "--window-days", "0"], 1, "error: --window-days must be"),
        (["record", "x", "--entry", "magic"], 1, "error: --entry cannot be 'magic'"),
        (["record", "x", "--invoked-at", "soon"], 1, "error: --invoked-at must be a time"),
        (["stats", "--since", "soon"], 1, "is not a day"),
        (["compare", "x", "--margin", "100"], 2, "less than 100 points, not 100"),
        (["compare", "x", "--margin", "some"], 2, "give points, as 5, or a share, as 0.05"),
        (["compare", "x", "--models", ","], 2, "name two models or more"),
        (["compare", "x", "--models", ""], 2, "name two models or more"),
        (["compare", "x", "--models", "a,a"], 2, "name two models or more"),
        (["record", "x", "--quality-score", "7"], 1, "error: --quality-score must be"),
        (["record", "x", "--cost-usd", "1e10"], 1, "error: --cost-usd must be"),
        (["record", "x", "--input-tokens", str(2**63)], 1, "error: --input-tokens must be"),
        (["record", " "], 1, "error: SKILL must be a text that is not empty"),
        (["record", "x", "--cost-status", "reported"], 1, "but there is no --cost-usd"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_what_cannot_be_done_is_an_error(cli: Cli, words: list[str], code: int, told: str) -> None:
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


def test_a_table_of_many_skills_takes_time_in_proportion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def draw(number: int) -> float:
        names = [f"skill-{place}" for place in range(number)]
        one = SkillUseDay(
            skill_name="", model="m", provider=None, day="", invocation_count=1, success_count=1,
            failure_count=0, unknown_count=0, avg_duration_s=None, total_cost_usd=None,
            avg_cost_usd=None, unpriced_count=0, total_input_tokens=None,
            total_output_tokens=None, avg_quality_score=None, last_invoked_at=None,
        )  # fmt: skip
        daily = [
            replace(one, skill_name=name, day=f"2026-11-{day:02}")
            for day in range(1, 15)
            for name in names
        ]
        total = SkillTotal(
            skill_name="", model="m", uses=14, successes=14, failures=0, unknown=0, cost_usd=0.5,
            included_usd=0.0, unpriced=0, mean_seconds=1.0, mean_quality=None,
        )  # fmt: skip
        began = time.process_time()
        print_stats([replace(total, skill_name=name) for name in names], daily)
        return time.process_time() - began

    draw(1)
    assert draw(1000) < 20 * draw(100)
    assert "███████" in capsys.readouterr().out
