"""How full the windows of plans are, from transcripts, rollouts and settings."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import build
import serving
from relight.intake.rebuild import rebuild
from relight.intake.recorder import record
from relight.intake.retention import forget
from relight.reports.limits import LimitWindow, read_limits_report
from relight.reports.plan_worth import describe_plan, read_plans
from relight.reports.sessions import find_session
from relight.store import Store, open_store
from relight.times import read_time, write_time
from relight.warm.automatic import import_and_propose
from terminal import Cli

HOUR = 3600
DAY = 24 * HOUR
# Sunday 2026-11-15, 12:00 UTC
NOON = 12 * HOUR


def at(seconds: float) -> int:
    return build.START + round(seconds * 1000)


def answers(*moments: float) -> list[dict[str, Any]]:
    prompts = [build.claude_prompt("Go on", moments[0] - 1)]
    return prompts + [build.claude_answer(f"msg_{one}", at=one) for one in moments]


def refusal(text: str, moment: float) -> dict[str, Any]:
    message = {
        "id": f"e-{moment}",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [{"type": "text", "text": text}],
        "usage": build.claude_usage(0),
    }
    fields = {"isApiErrorMessage": True, "apiErrorStatus": 429, "error": "rate_limit"}
    return build.claude_line("assistant", moment, message=message, **fields)


def open_with(home: Path, settings: str = "") -> Store:
    folder = home / "relight"
    folder.mkdir(parents=True, exist_ok=True)
    build.write_settings(folder, f'timezone = "UTC"\n{settings}')
    return open_store(folder)


def read(
    home: Path,
    records: list[dict[str, Any]] | None,
    *,
    now: float,
    settings: str = "",
    history: bool = False,
) -> list[LimitWindow]:
    if records is not None:
        build.write_claude(home, records)
    with open_with(home, settings) as store:
        build.import_home(store, home)
        since = 0 if history else None
        return read_limits_report(
            store, now=at(now), history_since=since, environment={"HOME": str(home)}
        ).windows


def test_the_open_block_and_the_week_are_shown_with_their_worth_and_rate(tmp_path: Path) -> None:
    block, week = read(tmp_path, answers(NOON - DAY, NOON, NOON + HOUR), now=NOON + 2 * HOUR)
    assert (block.source, block.kind, block.turns, block.tokens) == ("claude-code", "5h", 2, 8720)
    assert (block.started_at, block.ends_at) == (
        write_time(at(NOON)),
        write_time(at(NOON + 5 * HOUR)),
    )
    assert (week.kind, week.turns, week.started_at) == ("week", 3, "2026-11-09T00:00:00.000Z")
    assert block.value_usd
    assert block.burn_usd_per_hour == pytest.approx(block.value_usd / 2)
    assert block.projected_usd == pytest.approx(block.value_usd * 2.5)
    assert (block.used_percent, block.basis, block.rests_on) == (
        None,
        "estimated",
        "no limit is known",
    )


def test_a_window_that_is_over_is_in_the_history_alone(tmp_path: Path) -> None:
    records = answers(NOON - DAY, NOON)
    assert [one.kind for one in read(tmp_path, records, now=NOON + 9 * HOUR)] == ["week"]
    found = read(tmp_path, None, now=NOON + 9 * HOUR, history=True)
    assert [(one.kind, one.is_current) for one in found] == [
        ("week", True),
        ("5h", False),
        ("5h", False),
    ]
    assert found[1].started_at == write_time(at(NOON))
    assert {one.burn_usd_per_hour for one in found[1:]} == {None}


@pytest.mark.parametrize(
    ("text", "kind", "ends"),
    [
        ("Claude AI usage limit reached|1794762000", "5h", NOON + 5 * HOUR),
        ("5-hour limit reached ∙ resets 5pm (UTC)", "5h", NOON + 5 * HOUR),
        ("5-hour limit reached ∙ resets 17:00 (UTC)", "5h", NOON + 5 * HOUR),
        ("You've hit your session limit · resets 6:30pm (Europe/Berlin)", "5h", NOON + 5.5 * HOUR),
        ("You've hit your weekly limit · resets Nov 18, 9am (UTC)", "week", 3 * DAY + 9 * HOUR),
        ("You've hit your Opus limit · resets Nov 18 at 9am (UTC)", "week", 3 * DAY + 9 * HOUR),
    ],
)
def test_a_limit_message_names_the_window_and_its_end(
    tmp_path: Path, text: str, kind: str, ends: float
) -> None:
    hit = NOON + 3 * HOUR
    records = [*answers(NOON + 1800, NOON + HOUR), refusal(text, hit)]
    (window,) = [one for one in read(tmp_path, records, now=hit + 60) if one.kind == kind]
    assert (window.ends_at, window.limit_hit_at) == (write_time(at(ends)), write_time(at(hit)))
    assert (window.used_percent, window.basis) == (100.0, "reported")
    assert window.rests_on == "refused at Sun 2026-11-15 15:00 UTC"


def test_a_window_that_refuses_more_is_not_projected_beyond_it(tmp_path: Path) -> None:
    records = [*answers(NOON), refusal("You've hit your session limit · resets 5pm", NOON + 60)]
    block, week = read(tmp_path, records, now=NOON + HOUR)
    assert (block.used_percent, block.projected_percent) == (100.0, 100.0)
    assert block.projected_usd == block.value_usd
    # what the user set may be exceeded
    settings = "[limits.claude-code]\nweek_tokens = 1000\n"
    _, week = read(tmp_path, None, now=NOON + HOUR, settings=settings)
    assert week.projected_percent is not None
    assert week.used_percent is not None
    assert week.projected_percent > week.used_percent > 100


def test_a_limit_message_without_a_time_fills_the_block_it_came_in(tmp_path: Path) -> None:
    records = [*answers(NOON), refusal("You've hit your session limit", NOON + HOUR)]
    block, week = read(tmp_path, records, now=NOON + 2 * HOUR)
    assert (block.used_percent, block.limit_hit_at) == (100.0, write_time(at(NOON + HOUR)))
    assert (week.used_percent, week.limit_hit_at) == (None, None)


def test_later_blocks_are_measured_by_the_one_that_was_full(tmp_path: Path) -> None:
    records = [
        *answers(NOON - DAY, NOON - DAY + 60),
        refusal("You've hit your session limit · resets 5pm (UTC)", NOON - DAY + 120),
        build.claude_answer("msg_today", at=NOON),
    ]
    block = read(tmp_path, records, now=NOON + HOUR)[0]
    assert block.used_percent == pytest.approx(50.0)
    assert block.basis == "estimated"
    assert block.rests_on == "what the window of Sat 2026-11-14 12:00 UTC allowed, at list price"
    assert block.limit_at == write_time(at(NOON + 2 * HOUR))


def test_a_limit_in_the_settings_measures_a_window(tmp_path: Path) -> None:
    settings = "[limits.claude-code]\nfive_hour_tokens = 10_000\nweek_usd = 0.5\n"
    block, week = read(tmp_path, answers(NOON), now=NOON + HOUR, settings=settings)
    assert block.used_percent == pytest.approx(43.6)
    assert block.basis == "set"
    assert week.value_usd
    assert week.used_percent == pytest.approx(200 * week.value_usd)


def test_a_table_that_names_no_source_is_noted_and_a_way_to_a_limit_is_shown(
    tmp_path: Path,
) -> None:
    cli = Cli(tmp_path)
    settings = "[plans.claude_code]\nmonthly_usd = 100\n[limits.claude]\nweek_usd = 9\n"
    build.write_settings(tmp_path / "relight", settings)
    done = cli.run("limits")
    assert done.returncode == 0
    assert "[plans.claude_code] names no source: did you mean claude-code?" in done.stderr
    assert "[limits.claude] names no source" in done.stderr
    assert "$0.00" not in done.stdout
    assert "statusline --install" not in done.stderr
    began = (time.time() * 1000 - build.START) / 1000 - 60
    build.write_claude(tmp_path, answers(began))
    assert "statusline --install" in cli.run("limits").stderr


def test_a_limit_that_is_not_above_zero_is_refused(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    build.write_settings(tmp_path / "relight", "[limits.claude-code]\nweek_usd = 0\n")
    done = cli.run("limits")
    assert done.returncode == 1
    assert "limits" in done.stderr
    assert "dollars or tokens above 0" in done.stderr


def codex_limits(*, five: float, week: float, **changes: Any) -> dict[str, Any]:
    return {
        "limit_id": "codex",
        "primary": {
            "used_percent": five,
            "window_minutes": 299,
            "resets_at": at(NOON + 4 * HOUR) // 1000,
        },
        "secondary": {
            "used_percent": week,
            "window_minutes": 10080,
            "resets_in_seconds": 3 * DAY,
        },
        "plan_type": "pro",
        **changes,
    }


def codex_records(*limits: Any) -> list[dict[str, Any]]:
    records = [build.codex_meta(), build.codex_line("turn_context", 1, model="gpt-5.1-codex")]
    for number, one in enumerate(limits, start=1):
        used = build.codex_usage(1000 * number)
        total = used | {"total_tokens": 5000 * number}
        count = build.codex_count(NOON + number, total, used)
        count["payload"]["rate_limits"] = one
        records.append(count)
    return records


def read_codex(home: Path, *limits: Any) -> list[LimitWindow]:
    build.write_codex(home, codex_records(*limits))
    return read(home, None, now=NOON + HOUR)


def test_what_a_rollout_reports_is_stored_and_the_last_report_holds(tmp_path: Path) -> None:
    limits = [codex_limits(five=12.0, week=3), codex_limits(five=14.5, week=4)]
    block, week = read_codex(tmp_path, *limits)
    assert (block.source, block.used_percent, block.basis) == ("codex", 14.5, "reported")
    assert (block.ends_at, block.turns) == (write_time(at(NOON + 4 * HOUR)), 2)
    assert (week.used_percent, week.ends_at) == (4.0, write_time(at(NOON + 3 * DAY)))
    assert week.started_at == write_time(at(NOON - 4 * DAY))
    assert block.reported_at == write_time(at(NOON + 2))


@pytest.mark.parametrize(
    "strange",
    [
        {"primary": 7, "secondary": "full"},
        {"primary": {"used_percent": "much", "resets_at": []}, "secondary": {}},
        {"primary": {"used_percent": -3, "window_minutes": 300, "resets_at": 1}},
        {"primary": {"used_percent": 3, "window_minutes": 43200, "resets_at": 1795000000}},
        {"limit_id": "codex_spark"},
        {"primary": {"used_percent": 1e300, "window_minutes": 1e300, "resets_at": 1e300}},
        {"primary": {"used_percent": 3, "window_minutes": None, "resets_in_seconds": 1e30}},
    ],
)
def test_a_strange_report_costs_neither_the_line_nor_another(
    tmp_path: Path, strange: dict[str, Any]
) -> None:
    five, week = read_codex(
        tmp_path, codex_limits(five=12.0, week=3, **{"secondary": None, **strange})
    )
    assert (five.basis, five.turns, week.turns) == ("estimated", 1, 1)


def test_reports_survive_a_rebuild_and_go_with_a_forgotten_session(tmp_path: Path) -> None:
    build.write_codex(tmp_path, codex_records(codex_limits(five=12.0, week=3)))
    with open_with(tmp_path) as store:
        build.import_home(store, tmp_path)
        before = store.query("select session_id, kind, ends_at, at, used_percent from limit_report")
        rebuild(store)
        after = store.query("select session_id, kind, ends_at, at, used_percent from limit_report")
        assert sorted(before) == sorted(after)
        assert len(before) == 2
        forget(store, find_session(store, build.CODEX_SESSION))
        assert not store.has_rows("limit_report")


def test_a_stretch_read_later_replaces_the_report_and_an_older_one_does_not(tmp_path: Path) -> None:
    lines = codex_records(codex_limits(five=12.0, week=3), codex_limits(five=13.0, week=3))
    with open_with(tmp_path) as store:
        for end in (len(lines), len(lines) - 1):
            home = tmp_path / str(end)
            build.write_codex(home, lines[:end])
            build.import_home(store, home)
        rows = store.query("select used_percent from limit_report where kind = '5h'")
    assert rows == [(13.0,)]


def test_homes_named_together_are_accounts(tmp_path: Path) -> None:
    names = {}
    for name, moment in (("work", NOON), ("own", NOON + 60)):
        folder = tmp_path / name / "projects" / "p"
        folder.mkdir(parents=True)
        records = [one | {"sessionId": name} for one in answers(moment)]
        (folder / f"{name}.jsonl").write_bytes(build.as_lines(records))
        names[name] = str(tmp_path / name)
    environment = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": ",".join(names.values())}
    with open_with(tmp_path) as store:
        import_and_propose(store, environment=environment, workers=1)
        found = read_limits_report(store, now=at(NOON + HOUR), environment=environment).windows
    assert [(one.account, one.kind, one.turns) for one in found] == [
        (names["own"], "5h", 1),
        (names["own"], "week", 1),
        (names["work"], "5h", 1),
        (names["work"], "week", 1),
    ]


def test_the_command_shows_windows_as_a_table_and_as_json(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    build.write_claude(tmp_path, answers(NOON))
    shown = cli.run("limits", "--history", "--since", "all").stdout
    assert "claude-code" in shown
    assert "5h" in shown
    found = cli.json("limits", "--history", "--since", "all")
    (week, block) = sorted(found["windows"], key=lambda one: -len(one["kind"]))
    assert set(block) >= {
        "source",
        "account",
        "kind",
        "started_at",
        "ends_at",
        "tokens",
        "value_usd",
        "used_percent",
        "basis",
        "burn_usd_per_hour",
        "projected_percent",
        "limit_hit_at",
    }
    assert (block["kind"], week["kind"], block["tokens"]) == ("5h", "week", 4360)
    assert read_time(block["started_at"]) == at(NOON)
    assert json.dumps(found)


def test_the_page_and_the_api_show_the_windows_of_the_command(tmp_path: Path) -> None:
    build.write_claude(tmp_path, answers(NOON))
    with open_with(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = read_limits_report(store, history_since=0)
    with serving.make_client(tmp_path / "relight") as client:
        answered = client.get("/api/limits?history=true&since=all").json()
        page = client.get("/limits?since=all").text
        others = client.get("/limits?since=all&source=codex").text
    assert [(one["kind"], one["tokens"]) for one in answered["windows"]] == [
        (one.kind, one.tokens) for one in found.windows
    ]
    assert page.count('<th scope="row"') == len(found.windows)
    assert '<th scope="row"' not in others


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (
            '[plans.claude-code]\nname = "max"\nmonthly_usd = 0.1\nsince = 2026-11-01\n',
            ["plan max of claude-code: <$0.01 at list price this month, for $0.10"],
        ),
        ("[plans.claude-code]\nuntil = 2026-10-31\n", []),
    ],
)
def test_the_worth_of_a_plan_is_set_against_its_price(
    tmp_path: Path, settings: str, shown: list[str]
) -> None:
    build.write_claude(tmp_path, answers(NOON - 20 * DAY, NOON))
    with open_with(tmp_path, settings) as store:
        build.import_home(store, tmp_path)
        plans = read_plans(store, now=at(NOON + HOUR))
        windows = read_limits_report(store, now=at(NOON + HOUR)).windows
    assert [all(word in describe_plan(one) for word in shown) for one in plans] == (
        [True] if shown else []
    )
    for plan in plans:  # the turn of October is not of this month
        assert (plan.month, plan.value_usd) == ("2026-11", windows[0].value_usd)
        assert (plan.paid_usd, plan.monthly_usd) == (0.0, 0.1)


def test_the_overview_names_the_worth_of_a_plan(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    build.write_claude(tmp_path, answers(NOON))
    settings = tmp_path / "relight" / "config.toml"
    settings.write_text(settings.read_text() + '[plans.claude-code]\nname = "max"\n')
    assert "plan max of claude-code: " in cli.run().stdout


def test_a_plan_that_is_named_after_its_sessions_says_how_they_come_under_it(
    tmp_path: Path,
) -> None:
    cli = Cli(tmp_path)
    now = (time.time() * 1000 - build.START) / 1000
    build.write_claude(tmp_path, answers(now - 60))
    cli.run("import")
    settings = tmp_path / "relight" / "config.toml"
    settings.write_text(settings.read_text() + "[plans.claude-code]\n")
    assert "rebuild --prices" in cli.run("limits").stderr
    cli.run("rebuild", "--prices")
    done = cli.run("limits")
    assert "rebuild" not in done.stderr
    assert "plan of claude-code: " in done.stdout


@pytest.mark.parametrize("gap_minutes", [50, 200, 310, 380])
@pytest.mark.parametrize("has_report", [False, True])
def test_windows_do_not_depend_on_how_much_of_the_record_is_read(
    tmp_path: Path, gap_minutes: int, has_report: bool
) -> None:
    days = 40
    moments = [60.0 * gap_minutes * place for place in range(days * 24 * 60 // gap_minutes)]
    records = answers(*moments)
    if has_report:
        records.append(refusal("You've hit your limit · resets 3pm (UTC)", 5 * DAY + 11.5 * HOUR))
    build.write_claude(tmp_path, records)
    now = days * DAY
    with open_with(tmp_path) as store:
        build.import_home(store, tmp_path)
        whole, part = (
            read_limits_report(
                store, now=at(now), history_since=since, environment={"HOME": str(tmp_path)}
            ).windows
            for since in (0, at(now - 3 * DAY))
        )
    last = {(one.kind, one.started_at): one for one in whole}
    assert len(part) > 10
    assert [last[one.kind, one.started_at] for one in part] == part


def test_sums_by_hour_are_those_of_the_turns_however_these_arrived(tmp_path: Path) -> None:
    moments = [NOON - 1, NOON, NOON + 1, NOON + HOUR, NOON + 3 * HOUR]
    path = build.write_claude(tmp_path, answers(*moments[:3]))
    with open_with(tmp_path) as store:
        build.import_home(store, tmp_path)
        with path.open("a") as file:
            file.writelines(json.dumps(one) + "\n" for one in answers(*moments[3:]))
        build.import_home(store, tmp_path)
        found = read_sums(store)
        assert [(hour, turns) for hour, _, turns, *_ in found] == [(11, 2), (12, 2), (14, 1)]
        rebuild(store)
        assert read_sums(store) == found
        session = find_session(store, "last")
        forget(store, session)
        assert read_sums(store) == []


def test_a_live_session_is_summed_by_hour_as_its_rebuild_sums_it(tmp_path: Path) -> None:
    moments = iter([NOON, NOON, NOON + 60, NOON + 120, NOON + 2 * HOUR, NOON + 2 * HOUR + 5])
    now = [at(NOON)]
    with open_with(tmp_path) as store:
        with record(store, "live", model="m", clock=lambda: now[0] / 1000) as tracker:
            for one in moments:
                now[0] = at(one)
                tracker.turn(input_tokens=10, output_tokens=5, cost_usd=0.5)
        found = read_sums(store)
        assert [turns for _, _, turns, *_ in found] == [2, 2, 1, 1]
        assert [nanos for *_, nanos in found] == [10**9] * 2 + [5 * 10**8] * 2
        rebuild(store)
        assert read_sums(store) == found


def read_sums(store: Store) -> list[tuple[Any, ...]]:
    """The rows of `session_hour`, hours counted from the first day of the tests."""
    first = build.START // 3_600_000
    return store.query(
        f"select hour - {first}, first_at, turns, unpriced_turns, tokens, nanos"
        " from session_hour order by hour"
    )
