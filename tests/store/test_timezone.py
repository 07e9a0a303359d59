"""The time zone of a store's days can be changed: every day is derived again."""

from pathlib import Path

import pytest

import build
from relight.intake.rebuild import rebuild
from relight.reports.skills.uses import record_skill_invocation
from relight.reports.totals import KEYS, report
from relight.store import Store
from relight.store.keep.timezone import DATED, change_timezone
from relight.store.queries.filters import Filter
from terminal import Cli

TABLES = (
    "session_day",
    "call_day",
    "position_day",
    "turn",
    "tool_call",
    "skill_invocations",
    "cache_rebuild",
)


def write_late_session(home: Path) -> None:
    """A session late in the evening of 15 November in UTC: a day later in Tokyo."""
    evening = 22 * 3600
    lines = [{**one} for one in build.claude_session()]
    for number, one in enumerate(lines):
        one["timestamp"] = build.stamp(evening + number * 60)
    build.write_claude(home, lines)


def read_days(store: Store) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: sorted(store.query(f"select day, count(*) from {table} group by day"))
        for table in TABLES
    }


def test_all_days_are_derived_again_as_a_new_store_would_have_them(
    tmp_path: Path, store: Store
) -> None:
    write_late_session(tmp_path)
    build.import_home(store, tmp_path)
    record_skill_invocation(store, skill_name="lint", invoked_at="2026-11-15T23:00:00Z")
    before = report(store).total
    assert [row.day for row in report(store, ("day",)).rows] == ["2026-11-15"]
    change_timezone(store, "Asia/Tokyo")
    assert store.timezone == "Asia/Tokyo"
    assert [row.day for row in report(store, ("day",)).rows] == ["2026-11-16"]
    assert report(store).total == before
    changed = read_days(store)
    assert {day for days in changed.values() for day, _ in days} == {"2026-11-16"}
    rebuild(store)
    assert read_days(store) == changed
    for key in KEYS:
        assert report(store, (key,), Filter(since="2026-11-16")).rows == report(store, (key,)).rows


@pytest.mark.sqlite("it asks the file for its tables")
def test_every_table_with_a_day_is_dated_again(store: Store) -> None:
    rolled_up = {"session_day", "usage_day", "call_day", "position_day", "tool_day", "stale_day"}
    rolled_up |= {"failure_day", "failure_session"}
    tables = [
        name for (name,) in store.query("select name from sqlite_master where type = 'table'")
    ]
    dated = {
        table
        for table in tables
        if any(column == "day" for _, column, *_ in store.query(f"pragma table_info({table})"))
    }
    assert dated == {*DATED} | rolled_up


def test_a_process_that_has_the_store_open_goes_on_in_the_new_zone(
    tmp_path: Path, store: Store
) -> None:
    with build.open_home(tmp_path) as other:
        change_timezone(other, "Asia/Tokyo")
    assert store.timezone == "UTC", "it has not looked since"
    write_late_session(tmp_path)
    build.import_home(store, tmp_path)
    assert [row.day for row in report(store, ("day",)).rows] == ["2026-11-16"]
    assert {day for day, _ in read_days(store)["tool_call"]} == {"2026-11-16"}
    assert store.timezone == "Asia/Tokyo"


def test_config_shows_the_zone_of_the_store_and_changes_it(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    write_late_session(tmp_path)
    cli.run("import")
    settings = tmp_path / "relight" / "config.toml"
    settings.write_text('timezone = "Asia/Tokyo"\n')
    shown = cli.json("config")
    assert (shown["timezone"], shown["timezone_setting"]) == ("UTC", "Asia/Tokyo")
    assert "`relight config timezone Asia/Tokyo` applies it" in cli.run("config").stdout
    assert cli.run("config", "timezone").stdout == "days are in UTC\n"
    cli.run("job", "add", "brief", "--schedule", "0 7 * * *", "--prompt", "Hello",
            "--model", "m")  # fmt: skip
    before = cli.json("job", "show", "brief")["next_run_at"]
    done = cli.run("config", "timezone", "Asia/Tokyo")
    assert "days are in Asia/Tokyo now; before they were in UTC\n" in done.stdout
    assert "jobs that go by it: brief\n" in done.stdout
    assert cli.json("job", "show", "brief")["next_run_at"] != before
    assert cli.json("report", "--since", "all")["rows"][0]["day"] == "2026-11-16"
    assert cli.json("config")["timezone"] == "Asia/Tokyo"
    wrong = cli.run("config", "timezone", "Mars/Base")
    assert wrong.returncode == 1
    assert "'Mars/Base' is not known" in wrong.stderr
