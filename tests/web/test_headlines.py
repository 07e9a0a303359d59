"""Headline numbers agree with the rows below them."""

import re
from datetime import UTC, date, datetime
from html import unescape
from pathlib import Path

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

import build
import serving
from relight.reports.coverage import count_known, find_rate
from relight.reports.sessions import find_session, read_head
from relight.reports.skills.uses import record_skill_invocation
from relight.reports.totals import is_priced, report
from relight.store import Store, open_store
from relight.store.provisions import Decision, insert_decision
from relight.store.queries.filters import Filter
from relight.warm.results import Posterior, read_stats
from relight.web.pages.session import draw_curve
from relight.web.periods import find_before


def test_a_share_needs_five_known_outcomes_and_a_third_of_all() -> None:
    assert find_rate(4, 4) is None
    assert find_rate(4, 5) == 0.8
    assert find_rate(9, 29, 100) is None
    assert find_rate(15, 30, 100) == 0.5
    assert count_known(0, 1) == "0 of 1"


def test_successes_are_shown_as_counts(client: TestClient) -> None:
    for path in ("/?since=all", "/jobs"):
        value, note = serving.read_tile(client.get(path).text, "Succeeded")
        assert re.fullmatch(r"[\d,]+ of [\d,]+", value), value
        share = r"[\d.]+% \([\d.]+–[\d.]+%\) of those"
        assert re.search(share, note), "enough is known for a share and its interval"
    text = unescape(client.get("/templates").text)
    for row in client.get("/api/templates/stats").json()["templates"]:
        known = row["successes"] + row["failures"]
        assert row["unknown"] == row["warm"] - known
    assert re.search(r"\d+ of \d+", text)


def test_how_many_outcomes_are_known_stands_before_the_share_of_successes(
    client: TestClient,
) -> None:
    total = client.get("/api/report?since=all").json()["total"]
    known = total["successes"] + total["failures"]
    _, note = serving.read_tile(client.get("/?since=all").text, "Succeeded")
    assert note.startswith(f"{known} of {total['sessions']} known, ")


def test_the_sentence_of_a_warm_start_is_a_count() -> None:
    posterior = Posterior(20.0, 6.0, 24, 30, 2)
    assert posterior.describe() == "24 of 30 sessions of known outcome succeeded"


def test_decisions_that_no_session_followed_are_not_unknown(tmp_path: Path) -> None:
    home = serving.make_home(tmp_path)
    with open_store(home) as store:
        before = read_stats(store)[0]
        ((template_id,),) = store.query(
            "select id from template where name = ?", (before.template,)
        )
        decision = Decision(
            id="p", session_key="p", source=None, arm="warm", template_id=template_id,
            version=before.version, similarity=None, reason="like", project=None, category=None,
            tokens=432, created_at=build.START,
        )  # fmt: skip
        insert_decision(store, decision)
        after = read_stats(store)[0]
    assert (after.warm, after.unknown) == (before.warm, before.unknown)
    assert after.unfollowed == before.unfollowed + 1


def test_a_span_is_compared_only_with_days_that_are_wholly_recorded(
    tmp_path: Path, store: Store
) -> None:
    build.write_claude(tmp_path, build.claude_session())  # on 2026-11-15
    build.import_home(store, tmp_path)
    today = date(2026, 11, 20)
    recorded = Filter(since="2026-11-18")
    assert find_before(store, recorded, today) == Filter(since="2026-11-15", until="2026-11-17")
    assert find_before(store, Filter(since="2026-11-16"), today) is None
    # a day that is not over is not compared with a whole one
    one_day = Filter(since="2026-11-16", until="2026-11-16")
    assert find_before(store, one_day, date(2026, 11, 16)) is None
    assert find_before(store, one_day, date(2026, 11, 17)) is not None
    # another agent's record begins inside the days before: its files of earlier days are gone
    build.write_codex(
        tmp_path,
        [
            build.codex_meta(),
            build.codex_count(86_400, build.codex_usage(1000), build.codex_usage(1000)),
        ],
    )
    build.import_home(store, tmp_path)
    assert find_before(store, recorded, today) is None
    alone = Filter(since="2026-11-18", source="claude-code")
    assert find_before(store, alone, today) == replace(
        alone, since="2026-11-15", until="2026-11-17"
    )


def test_the_days_before_are_named(client: TestClient) -> None:
    _, note = serving.read_tile(client.get("/?since=7d").text, "Cost")
    assert re.fullmatch(r"[+-]\d+ % vs. the 7 days before", note)


def test_a_day_is_compared_with_the_day_before(tmp_path: Path) -> None:
    build.write_claude(tmp_path, build.claude_session())  # on 2026-11-15
    later = [build.claude_prompt("Look", at=86_406), build.claude_answer("next", at=86_407)]
    build.write_claude(tmp_path, later, name="22222222-0000-4000-8000-000000000000")
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
    with serving.make_client(tmp_path / "relight") as client:
        page = client.get("/?since=2026-11-16&until=2026-11-16").text
    _, note = serving.read_tile(page, "Cost")
    assert re.fullmatch(r"[+-]\d+ % vs. the day before", note)
    assert " in the day before" in page


def test_an_equal_cost_is_a_change_of_zero_without_a_sign(tmp_path: Path) -> None:
    for day, name in ((0, "22222222"), (1, "33333333")):
        lines = [
            build.claude_prompt("Look", at=day * 86_400 + 6),
            build.claude_answer(f"day-{day}", at=day * 86_400 + 7),
        ]
        build.write_claude(tmp_path, lines, name=f"{name}-0000-4000-8000-000000000000")
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
    with serving.make_client(tmp_path / "relight") as client:
        page = client.get("/?since=2026-11-16&until=2026-11-16").text
    assert serving.read_tile(page, "Cost")[1] == "0 % vs. the day before"
    assert serving.read_tile(page, "Failed tool calls")[1] == "0 of 0"


def test_the_cost_of_sub_agents_is_in_the_curve_of_a_session(tmp_path: Path, store: Store) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    build.write_agent(path, [build.claude_prompt("Look", at=6), build.claude_answer("sub", at=7)])
    build.import_home(store, tmp_path)
    session_id = find_session(store, build.CLAUDE_SESSION)
    figures = read_head(store, session_id).figures
    curve = draw_curve(store, session_id)
    assert curve is not None
    assert figures.cost_usd is not None
    last = curve.rows[-1]
    assert [cell.text for cell in last] == [f"turn {figures.turns}", f"${figures.cost_usd:.4f}"]


def test_only_the_calls_of_a_spiral_bear_its_badge(tmp_path: Path) -> None:
    lines = [build.claude_prompt("go")]
    commands = ["pytest -q", "pip install -e .", "pytest -q", "pytest -q"]
    for number, command in enumerate(commands):
        call = build.tool_use(f"t{number}", command=command)
        lines.append(build.claude_answer(f"m{number}", call, at=number * 2 + 1))
        text = "Exit code 127\nbash: line 1: no: command not found"
        lines.append(build.claude_result(f"t{number}", text, at=number * 2 + 2, is_error=True))
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
    with serving.make_client(tmp_path / "relight") as client:
        text = client.get(f"/sessions/claude-code:{build.CLAUDE_SESSION}").text
        shown = client.get(f"/api/sessions/claude-code:{build.CLAUDE_SESSION}").json()
    rows = [one.partition("</summary>")[0] for one in text.split("<summary>")[1:]]
    folded, *calls = [one for one in rows if ">Bash<" in one]
    assert "made the same failing call 3 times" in folded
    assert [">spiral<" in one for one in calls] == [command == "pytest -q" for command in commands]
    # an exit code that stands in the result is the call's exit code
    assert {one["exit_code"] for one in shown["tool_calls"]} == {127}
    # the score is a weak hint: no headline
    assert '<span class="name">Score</span>' not in text
    assert "score" in shown


def test_the_cost_of_a_run_is_that_of_priced_runs_that_did_work(client: TestClient) -> None:
    """The demo's backup-check has runs that died before a model answered, and an unpriced model."""
    runs = client.get("/api/jobs/history?job=backup-check&limit=30").json()["runs"]
    assert any(run["cost_usd"] == 0 for run in runs)
    worked = [run["cost_usd"] for run in runs if run["output_tokens"] and not run["unpriced_turns"]]
    value, _ = serving.read_tile(client.get("/jobs/hermes:e7735d01f48c").text, "Cost of a run")
    assert value == ("no price" if not worked else f"${sum(worked) / len(worked):.2f}")
    assert value != "$0.00"


def test_all_schedulers_runs_are_spent_today(client: TestClient) -> None:
    today = datetime.now(UTC).date().isoformat()
    runs = client.get("/api/jobs/history?limit=500").json()["runs"]
    begun = [run for run in runs if (run["started_at"] or "")[:10] == today]
    spent = sum(run["cost_usd"] or 0 for run in begun)
    value, _ = serving.read_tile(client.get("/jobs").text, "Spent today")
    # the first run of the demo's day is on a model without a price
    if not spent and any(run["unpriced_turns"] for run in begun):
        assert value == "no price"
    else:
        assert float(value.lstrip("≥$")) == pytest.approx(spent, abs=0.006)


def test_a_recorded_use_without_a_session_is_no_turn(store: Store) -> None:
    at = build.START / 1000
    record_skill_invocation(
        store, skill_name="triage", session_id="s1", invoked_at=at, cost_usd=0.5
    )
    record_skill_invocation(store, skill_name="review", session_id="s2", invoked_at=at)
    rows = {row.skill: row for row in report(store, ("skill",)).rows}
    assert (rows["triage"].turns, rows["triage"].cost_usd) == (0, 0.5)
    assert (rows["review"].turns, rows["review"].cost_usd) == (0, None), "unknown is not zero"
    assert not is_priced(0, 1, 0.0)


def test_each_share_of_failed_calls_has_its_interval(client: TestClient) -> None:
    value, note = serving.read_tile(client.get("/?since=all").text, "Failed tool calls")
    found = re.fullmatch(r"\(([\d.]+)–([\d.]+)%\) [\d,.k]+ of [\d,.k]+", note)
    assert found, note
    assert float(found[1]) < float(value.rstrip("%")) < float(found[2])
    for query in ("", "&kind=timeout"):
        text = client.get(f"/failures?since=all{query}").text
        table = text[text.index('id="tools-title"') :]
        rows = table[table.index("<tbody>") : table.index("</tbody>")].split("</tr>")[:-1]
        assert rows
        assert all(re.search(r"[\d.]+–[\d.]+%|>–</td>$", row) for row in rows)
