"""Plans: what a subscription pays for is included at list price, and not spent."""

from pathlib import Path
from typing import Any

import pytest

import build
from relight.config import read_config
from relight.errors import RelightError
from relight.intake.rebuild import rebuild
from relight.reports.sessions import find_session, read_session
from relight.reports.totals import ReportFigures, report
from relight.store import Store, open_store
from terminal import Cli

PLANNED = {"limit_id": "codex", "primary": {"used_percent": 12.0}, "plan_type": "pro"}
BY_KEY = {"limit_id": "codex", "primary": None, "secondary": None, "plan_type": None}


def open_planned(home: Path, settings: str) -> Store:
    folder = home / "relight"
    folder.mkdir(parents=True, exist_ok=True)
    build.write_settings(folder, f'timezone = "UTC"\n{settings}')
    return open_store(folder)


def total(store: Store) -> ReportFigures:
    return report(store, ("day",)).total


def codex_call(number: int, at: float, limits: Any, *, has_record: bool) -> list[dict[str, Any]]:
    """A response with its usage: newer clients write a record of it before the count."""
    used = build.codex_usage(1000 * number)
    count = build.codex_count(at + 0.2, used | {"total_tokens": 5000 * number}, used)
    count["payload"]["rate_limits"] = limits
    record = build.codex_line(
        "token_usage_record", at + 0.1, response_id=f"resp_{number}", usage=used
    )
    return [record, count] if has_record else [count]


def codex_session(*limits: Any, has_record: bool) -> list[dict[str, Any]]:
    context = build.codex_line("turn_context", 0.5, model="gpt-5.1-codex", turn_id="t")
    calls = [
        codex_call(number, number, one, has_record=has_record)
        for number, one in enumerate(limits, start=1)
    ]
    return [build.codex_meta(), context, *(line for call in calls for line in call)]


@pytest.mark.parametrize("has_record", [True, False])
@pytest.mark.parametrize("plan", ["free", "plus", "pro", "team", "enterprise", "edu", "brand_new"])
def test_a_codex_session_of_a_plan_is_included_and_not_spent(
    tmp_path: Path, has_record: bool, plan: str
) -> None:
    limits = PLANNED | {"plan_type": plan}
    build.write_codex(tmp_path, codex_session(limits, limits, has_record=has_record))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = total(store)
    by_key = tmp_path / "by key"
    build.write_codex(by_key, codex_session(BY_KEY, BY_KEY, has_record=has_record))
    with build.open_home(by_key) as store:
        build.import_home(store, by_key)
        spent = total(store).cost_usd
    assert (found.turns, found.cost_usd, found.unpriced_turns) == (2, 0.0, 0)
    assert found.included_usd == spent
    assert spent


@pytest.mark.parametrize("limits", [BY_KEY, None, PLANNED | {"plan_type": "team_usage_based"}])
@pytest.mark.parametrize("has_record", [True, False])
def test_a_codex_session_by_key_or_by_usage_is_spent(
    tmp_path: Path, limits: Any, has_record: bool
) -> None:
    build.write_codex(tmp_path, codex_session(limits, has_record=has_record))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = total(store)
        assert (found.turns, found.included_usd) == (1, 0.0)
        assert found.cost_usd


@pytest.mark.parametrize("has_record", [True, False])
def test_each_call_goes_by_the_login_that_made_it(tmp_path: Path, has_record: bool) -> None:
    lines = codex_session(PLANNED, BY_KEY, None, PLANNED, None, has_record=has_record)
    build.write_codex(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        rows = store.query("select cost_status from turn order by at")
        assert [status for (status,) in rows] == [
            "included",
            "estimated",
            "estimated",
            "included",
            "included",
        ]


def test_a_plan_that_is_read_after_its_call_counts_all_the_same(tmp_path: Path) -> None:
    lines = codex_session(PLANNED, PLANNED, has_record=True)
    dumps = []
    for size in (1, len(lines)):
        home = tmp_path / str(size)
        with build.open_home(home) as store:
            for end in range(size, len(lines) + 1, size):
                build.write_codex(home, lines[:end])
                build.import_home(store, home)
            dumps.append(build.dump(store))
            assert total(store).cost_usd == 0.0
            before = build.dump(store)
            rebuild(store)
            assert build.dump(store) == before
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize(
    ("settings", "is_included"),
    [
        ("[plans.claude-code]\n", True),
        ('[plans.claude-code]\nname = "max"\nmonthly_usd = 100\nsince = 2026-01-01\n', True),
        ("[plans.claude-code]\nsince = 2026-11-15\nuntil = 2026-11-15\n", True),
        ("[plans.claude-code]\nsince = 2026-11-16\n", False),
        ("[plans.claude-code]\nuntil = 2026-11-14\n", False),
        ('[plans.claude-code]\nprovider = "anthropic"\n', True),
        ('[plans.claude-code]\nprovider = "aws"\n', False),
        ("[plans.codex]\n", False),
    ],
)
def test_a_plan_in_the_settings_pays_for_the_sessions_of_its_days(
    tmp_path: Path, settings: str, is_included: bool
) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with open_planned(tmp_path, settings) as store:
        build.import_home(store, tmp_path)
        found = total(store)
        spent, included = found.cost_usd or 0.0, found.included_usd or 0.0
        assert (spent == 0.0, included > 0.0) == (is_included, is_included)
        figures = read_session(store, find_session(store, build.CLAUDE_SESSION)).figures
        assert (figures.cost_usd, figures.included_usd) == (spent, included)


def test_a_changed_plan_applies_to_earlier_sessions_when_prices_are_looked_up_again(
    tmp_path: Path,
) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        spent = total(store).cost_usd
    with open_planned(tmp_path, "[plans.claude-code]\n") as store:
        rebuild(store)
        assert (total(store).cost_usd, total(store).included_usd) == (spent, 0.0)
        rebuild(store, reprice=True)
        assert (total(store).cost_usd, total(store).included_usd) == (0.0, spent)
    with build.open_home(tmp_path) as store:
        rebuild(store, reprice=True)
        assert (total(store).cost_usd, total(store).included_usd) == (spent, 0.0)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ("[plans.claude-code]\nmonthly_us = 100\n", 'plans."claude-code".monthly_us'),
        ("[plans.claude-code]\nsince = 5\n", 'plans."claude-code".since'),
        ("[plans.claude-code]\nsince = 2026-02-01\nuntil = 2026-01-01\n", 'plans."claude-code"'),
    ],
)
def test_a_wrong_plan_is_refused_by_name(tmp_path: Path, settings: str, named: str) -> None:
    build.write_settings(tmp_path, settings)
    with pytest.raises(RelightError, match=named.replace(".", r"\.")):
        read_config(tmp_path)


def test_every_face_names_what_was_spent_and_what_was_included_apart(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    build.write_settings(tmp_path / "relight", 'timezone = "UTC"\n[plans.claude-code]\n')
    build.write_claude(tmp_path, build.claude_session())
    build.write_codex(tmp_path, codex_session(BY_KEY, has_record=True))
    cli.run("import")
    rows = {row["source"]: row for row in cli.json("report", "--by", "source")["rows"]}
    spent, worth = rows["codex"]["cost_usd"], rows["claude-code"]["included_usd"]
    assert spent
    assert worth
    assert (rows["claude-code"]["cost_usd"], rows["codex"]["included_usd"]) == (0.0, 0.0)
    shown = cli.run("report", "--by", "source").stdout
    assert "included" in shown.splitlines()[0]
    assert "paid by a plan, not in the cost" in shown
    assert f"${worth:.2f} included" in cli.run("show", build.CLAUDE_SESSION).stdout
    assert "included" not in cli.run("show", build.CODEX_SESSION).stdout
    assert f"${worth:.2f} included" in cli.run().stdout
    assert "plan of claude-code: unnamed" in cli.run("config").stdout
    assert cli.json("config")["plans"] == {"claude-code": {}}
    build.write_settings(tmp_path / "relight", 'timezone = "UTC"\n[plans.claud-code]\n')
    done = cli.run("rebuild", "--prices")
    assert "[plans.claud-code] names no source: did you mean claude-code?" in done.stderr
    assert "[plans.claud-code] names no source" in cli.run("config").stderr
    assert "[plans.claud-code] names no source" in cli.run("doctor").stdout
    assert "included in plans" not in done.stdout
    assert cli.json("report")["total"]["included_usd"] == 0.0
