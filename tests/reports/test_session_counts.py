"""The number of sessions is the same on every screen: a sub-agent is part of its parent's."""

from pathlib import Path

import pytest

import build
import serving
from relight.reports.doctor import examine
from relight.reports.listing import list_sessions
from relight.reports.totals import report
from relight.store import Store
from relight.store.queries.sessions import count_by_source, count_subagents, count_successes
from terminal import Cli


def write_sessions(home: Path) -> None:
    """Two sessions, one with a sub-agent, and a fork whose parent's file is gone."""
    path = build.write_claude(home, build.claude_session())
    build.write_agent(path, [build.claude_prompt("Look", at=6), build.claude_answer("sub", at=7)])
    build.hermes_session(build.open_hermes(home))
    meta = build.codex_meta("01999999-0000-7000-8000-000000000002") | {}
    meta["payload"]["forked_from_id"] = "01999999-0000-7000-8000-000000000001"
    usage = build.codex_usage(1000)
    build.write_codex(
        home,
        [meta, build.codex_count(5, usage, usage)],
        name="01999999-0000-7000-8000-000000000002",
    )


def test_every_report_counts_the_same_sessions(tmp_path: Path, store: Store) -> None:
    write_sessions(tmp_path)
    done = {one.source: one for one in build.import_home(store, tmp_path)}
    by_source = {row.source: row.sessions for row in report(store, ("source",)).rows}
    assert by_source == {"claude-code": 1, "hermes": 1, "codex": 1}
    assert {name: one.sessions_new for name, one in done.items() if one.bytes} == by_source
    assert count_by_source(store) == by_source
    found = examine(store, environment={"HOME": str(tmp_path)}, depth="quick").sources
    assert {one.source: one.sessions for one in found if one.sessions} == by_source
    assert {one.source: one.subagents for one in found if one.subagents} == {"claude-code": 1}
    assert count_subagents(store) == {"claude-code": 1}
    assert list_sessions(store).count == report(store).total.sessions == 3
    assert count_successes(store) == report(store).total.successes


def test_a_sub_agent_that_grows_is_a_session_that_grows(tmp_path: Path, store: Store) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    lines = [build.claude_prompt("Look", at=6), build.claude_answer("sub", at=7)]
    agent = build.write_agent(path, lines)
    build.import_home(store, tmp_path)
    more = build.claude_answer("more", at=8) | {"agentId": "a1", "isSidechain": True}
    agent.write_bytes(agent.read_bytes() + build.as_lines([more]))
    (found,) = [one for one in build.import_home(store, tmp_path) if one.bytes]
    assert (found.sessions_new, found.sessions_grown) == (0, 1)


def test_a_model_of_sub_agents_only_has_no_time(tmp_path: Path, store: Store) -> None:
    path = build.write_claude(tmp_path, build.claude_session())
    answer = build.claude_answer("sub", at=7, model="claude-haiku-4-5")
    build.write_agent(path, [build.claude_prompt("Look", at=6), answer])
    build.import_home(store, tmp_path)
    times = {row.model: row.wall_seconds for row in report(store, ("model",)).rows}
    assert times == {"claude-opus-4-6": 5, "claude-haiku-4-5": None}


@pytest.mark.parametrize("address", ["/?since=all", "/sessions?since=all"])
def test_pages_count_as_reports_do(tmp_path: Path, address: str) -> None:
    write_sessions(tmp_path)
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
    with serving.make_client(tmp_path / "relight") as client:
        text = client.get(address).text
        listed = client.get("/api/sessions?since=all").json()
        total = client.get("/api/report?since=all").json()["total"]
    assert listed["count"] == total["sessions"] == 3
    if address.startswith("/?"):
        assert serving.read_tile(text, "Sessions")[0] == "3"
    else:
        assert text.count("data-row") == 3


def test_the_overview_names_sub_agents_apart(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    write_sessions(tmp_path)
    text = cli.run().stdout
    assert "3 sessions (1 of claude-code, 1 of codex, 1 of hermes), with 1 sub-agent," in text
