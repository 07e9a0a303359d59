"""Claude Code's status line: one line whatever it is given, and one import at a time behind it."""

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import build
from relight.intake.status import LOCK, REPORTS, SUMMARY, take_reports
from relight.reports.limits import read_limits_report
from relight.reports.status import read_status
from relight.store import open_store
from relight.warm.agents.status_line import make_parts, start_refresh
from terminal import Cli

NOW = 1_794_744_000.0  # 2026-11-15T12:00:00Z
SESSION = build.CLAUDE_SESSION
GIVEN: dict[str, Any] = {
    "session_id": SESSION,
    "transcript_path": "/nowhere.jsonl",
    "cwd": "/home/dev/shop",
    "model": {"id": "claude-opus-4-6", "display_name": "Opus 4.6"},
    "version": "2.1.325",
    "cost": {"total_cost_usd": 1.2345, "total_duration_ms": 1000},
    "context_window": {"used_percentage": 37.2, "context_window_size": 200000},
    "rate_limits": {
        "five_hour": {"used_percentage": 41.6, "resets_at": NOW + 4320},
        "seven_day": {"used_percentage": 18, "resets_at": NOW + 3 * 86400},
    },
    "prompt_cache": {"warm": True, "caching_observed": True, "expires_at": NOW + 250},
}
SUMMARISED: dict[str, Any] = {
    "made_at": NOW * 1000,
    "day_ends_at": (NOW + 3600) * 1000,
    "today": {"cost_usd": 8.1, "included_usd": 0.0, "unpriced_turns": 0},
    "windows": [
        {
            "source": "claude-code",
            "account": None,
            "kind": "5h",
            "ends_at": (NOW + 7200) * 1000,
            "used_percent": None,
            "basis": "estimated",
            "value_usd": 3.2,
        },
        {
            "source": "claude-code",
            "account": None,
            "kind": "week",
            "ends_at": (NOW + 86400) * 1000,
            "used_percent": 55.5,
            "basis": "estimated",
            "value_usd": 30.0,
        },
    ],
    "sessions": {
        SESSION: {
            "cost": {"cost_usd": 0.5, "included_usd": 0.0, "unpriced_turns": 2},
            "context_tokens": 84_000,
            "cache_until": (NOW + 120) * 1000,
        }
    },
}


def line(given: dict[str, Any], summary: dict[str, Any] | None = None) -> str:
    return " · ".join(make_parts(given, summary or {}, NOW))


def test_the_line_has_model_costs_windows_context_and_cache() -> None:
    assert line(GIVEN, SUMMARISED) == (
        "Opus 4.6 · $1.23 · $8.10 today · 5h 42% 1h12m · week 18% · ctx 37% · cache 4m"
    )


def test_an_older_claude_code_gets_what_the_record_knows() -> None:
    older = {"session_id": SESSION, "model": {"id": "claude-opus-4-6"}}
    assert line(older, SUMMARISED) == (
        "claude-opus-4-6 · ≥$0.50 · $8.10 today · 5h $3.20 2h00m · week ≈56% · ctx 84k · cache 2m"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert line({"model": {"display_name": "Opus"}}) == "Opus"
    late = SUMMARISED | {"day_ends_at": (NOW - 1) * 1000}
    assert "today" not in line(GIVEN, late)
    cold = GIVEN | {"prompt_cache": {"warm": False, "caching_observed": True, "expires_at": None}}
    assert line(cold).endswith("cache cold")


@pytest.mark.parametrize("figure", [-1, -0.5, 1e7, 1e14])
def test_an_absurd_figure_is_left_out(figure: float) -> None:
    absurd = {
        "model": {"display_name": "Opus"},
        "cost": {"total_cost_usd": figure},
        "context_window": {"used_percentage": figure},
        "rate_limits": {"five_hour": {"used_percentage": figure, "resets_at": NOW + 60}},
        "prompt_cache": {"expires_at": NOW + 1e9},
    }
    assert line(absurd) == "Opus"
    far = {"five_hour": {"used_percentage": 5, "resets_at": 9e10}}
    assert line({"model": {"display_name": "Opus"}, "rate_limits": far}) == "Opus"


def test_a_reported_window_that_is_over_is_not_shown_as_the_open_one() -> None:
    over = {"five_hour": {"used_percentage": 97, "resets_at": NOW - 60}}
    assert "5h $3.20 2h00m" in line(GIVEN | {"rate_limits": over}, SUMMARISED)
    assert "5h" not in line(GIVEN | {"rate_limits": over})


def test_an_idle_session_shows_and_keeps_what_another_one_reported_since(tmp_path: Path) -> None:
    ends_at = (NOW + 4320) * 1000
    known = SUMMARISED["windows"][0] | {
        "ends_at": ends_at,
        "used_percent": 60.0,
        "basis": "reported",
    }
    assert "5h 60% 1h12m" in line(GIVEN, SUMMARISED | {"windows": [known]})
    home = tmp_path / "r"
    with open_store(home) as store:
        # the idle session draws its line again, last of all
        for at, session, used in ((1, "idle", 40), (2, "busy", 60), (3, "idle", 40)):
            report: dict[str, Any] = {"source": "claude-code", "session": session, "kind": "5h"}
            report |= {"ends_at": int(ends_at), "at": int(NOW) * 1000 + at, "used_percent": used}
            with (home / REPORTS).open("a") as file:
                file.write(f"{json.dumps(report)}\n")
            take_reports(store)
        (window,) = read_limits_report(store, now=int(NOW) * 1000 + 9).windows
    assert (window.used_percent, window.basis) == (60.0, "reported")


def test_what_plans_paid_for_is_shown_as_included() -> None:
    paid = SUMMARISED | {"today": {"cost_usd": 0.0, "included_usd": 12.5, "unpriced_turns": 0}}
    assert "$12.50 included today" in line(GIVEN, paid)


GARBAGE = [
    b"",
    b"\x00\xff\xfe",
    b"not json at all",
    b"[1, 2, 3]",
    b"null",
    b'"text"',
    b"[" * 100_000,
    b'{"model": 7, "cost": [], "rate_limits": "x", "context_window": null, "prompt_cache": 1}',
    b'{"model": {"display_name": {}}, "cost": {"total_cost_usd": NaN}}',
    b'{"cost": {"total_cost_usd": 1e999}, "context_window": {"used_percentage": -1e400}}',
    b'{"rate_limits": {"five_hour": {"used_percentage": 1e300, "resets_at": "soon"}}}',
    b'{"rate_limits": {"five_hour": {"used_percentage": 5, "resets_at": 99999999999999}}}',
    b'{"session_id": ["a"], "prompt_cache": {"expires_at": 1e17}}',
    b'{"model": {"display_name": "a\\n\\u001b[31mred\\u202e"}}',
]


@pytest.mark.parametrize("given", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize(
    "summary", [None, b"{", b"[]", b'{"sessions": 4, "windows": [3], "today": 1}']
)
def test_garbage_gives_a_line_all_the_same(
    tmp_path: Path, given: bytes, summary: bytes | None
) -> None:
    home = tmp_path / "relight"
    home.mkdir()
    if summary is not None:
        (home / SUMMARY).write_bytes(summary)
    (home / LOCK).write_text("tried")  # a moment ago: no import is started
    command = [sys.executable, "-m", "relight", "statusline", "--home", str(home)]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    (printed,) = done.stdout.decode().splitlines()
    assert printed.strip()
    assert "\x1b" not in printed


def test_a_home_that_cannot_be_used_gives_a_line_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    command = [sys.executable, "-m", "relight", "statusline", "--home", str(tmp_path / "file")]
    done = subprocess.run(
        command, input=json.dumps(GIVEN).encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Opus 4.6")


WATCHED = """
import json, sys
opened = []
sys.addaudithook(lambda name, given: opened.append(str(given[0])) if name == "open" else None)
sys.argv = ["relight", "statusline", "--home", sys.argv[1]]
from relight.__main__ import main
main()
print(json.dumps([sorted(sys.modules), opened]))
"""


def test_the_line_opens_no_log_and_no_database_and_loads_no_other_package(tmp_path: Path) -> None:
    home = tmp_path / "relight"
    home.mkdir()
    summary = SUMMARISED | {"made_at": time.time() * 1000 + 5000}
    (home / SUMMARY).write_text(json.dumps(summary))
    (home / LOCK).write_text("tried")
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(home)],
        input=json.dumps(GIVEN),
        capture_output=True,
        text=True,
        check=True,
    )
    modules, opened = json.loads(done.stdout.splitlines()[-1])
    loaded = {name.partition(".")[0] for name in modules}
    heavy = {"click", "msgspec", "sqlite3", "rich", "subprocess", "zoneinfo", "asyncio", "pathlib"}
    assert not loaded & (heavy - {"pathlib"})
    own = [Path(name).name for name in opened if name.startswith(str(tmp_path))]
    assert set(own) <= {SUMMARY, REPORTS, LOCK}
    assert not [name for name in opened if name == GIVEN["transcript_path"]]


def age(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def test_an_old_summary_starts_one_import_which_writes_a_new_one(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    build.write_claude(tmp_path, build.claude_session())
    home = tmp_path / "relight"
    for _ in range(3):
        assert cli.run("statusline", given=json.dumps(GIVEN)).returncode == 0
    build.wait_for(lambda: (home / SUMMARY).exists() and (home / SUMMARY).stat().st_size)
    made = json.loads((home / SUMMARY).read_bytes())
    assert abs(made["made_at"] / 1000 - time.time()) < 60
    with open_store(home) as store:
        assert store.query("select count(*) from session") == [(1,)]
        ((used,),) = store.query("select used_percent from limit_report where kind = '5h'")
    assert used == 41.6
    assert not (home / REPORTS).exists()


def test_no_import_is_started_while_one_runs_or_a_moment_after_a_try(tmp_path: Path) -> None:
    lock = tmp_path / LOCK
    lock.write_text("tried")
    assert not start_refresh(str(tmp_path))
    age(lock, 60)
    with lock.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not start_refresh(str(tmp_path))
    build.wait_for(lambda: start_refresh(str(tmp_path)))
    assert not start_refresh(str(tmp_path))
    # a clock that was set back: the last try seems to lie ahead
    build.wait_for(lambda: can_lock(lock))
    age(lock, -3600)
    assert start_refresh(str(tmp_path))
    build.wait_for(lambda: can_lock(lock))


def can_lock(path: Path) -> bool:
    with path.open("rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_imports_keep_a_summary_only_for_users_of_a_status_line(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        summary = store.config.home / SUMMARY
        assert not summary.exists()
        assert summary == store.config.status_file
        summary.touch()
        build.import_home(store, tmp_path)
        first = json.loads(summary.read_bytes())
        assert first["currency"] == "USD"
        assert summary.stat().st_mode & 0o077 == 0
        # a watched folder is imported again and again: not each import writes it
        build.import_home(store, tmp_path)
        assert json.loads(summary.read_bytes()) == first
        for seconds in (60, -3600):
            age(summary, seconds)
            build.import_home(store, tmp_path)
            assert json.loads(summary.read_bytes())["made_at"] > first["made_at"]


def test_the_summary_has_today_windows_and_recent_sessions(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        now = build.START + 60_000
        found = read_status(store, now=now)
        windows = read_limits_report(store, now=now).windows
        tomorrow = read_status(store, now=now + 86_400_000)
    assert found.today.cost_usd == pytest.approx(windows[0].value_usd)
    assert [one.kind for one in found.windows] == ["5h", "week"]
    session = found.sessions[SESSION]
    assert session.cost.cost_usd == found.today.cost_usd
    assert session.context_tokens == 4310
    assert session.cache_until == build.START + 5000 + 3_600_000
    assert (tomorrow.today.cost_usd, tomorrow.sessions) == (0, {})
    assert tomorrow.day_ends_at - found.day_ends_at == 86_400_000


def test_reports_with_strange_lines_are_taken_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    report = {"source": "claude-code", "session": SESSION, "kind": "5h", "at": build.START}
    lines = [
        json.dumps(report | {"ends_at": build.START + 60_000, "used_percent": 7}),
        json.dumps(report | {"ends_at": build.START + 60_000, "used_percent": -7}),
        json.dumps(report | {"kind": "month", "ends_at": 5, "used_percent": 7}),
        '{"cut off',
        "\ufffd",
    ]
    with build.open_home(tmp_path) as store:
        home = store.config.home
        (home / SUMMARY).touch()
        (home / REPORTS).write_text("\n".join(lines))
        build.import_home(store, tmp_path)
        assert store.query("select kind, used_percent from limit_report") == [("5h", 7.0)]
        assert [path.name for path in home.glob("*reports*")] == []


def test_installing_shows_the_change_and_does_nothing_unless_it_is_confirmed(
    tmp_path: Path,
) -> None:
    cli = Cli(tmp_path)
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  "model": "opus"\n}\n')
    done = cli.run("statusline", "--install", given="")
    assert done.returncode == 1
    assert '+  "statusLine": {' in done.stdout
    assert settings.read_text() == '{\n  "model": "opus"\n}\n'
    assert cli.run("statusline", "--install", "--yes").returncode == 0
    assert "statusline" in json.loads(settings.read_text())["statusLine"]["command"]
    assert cli.run("statusline", "--remove", "--yes").returncode == 0
    assert settings.read_text() == '{\n  "model": "opus"\n}\n'
    assert cli.run("statusline", "--install", "--remove").returncode == 2
