"""Hermes' traces of mixtures: each adviser's call is a turn, and nothing is counted twice."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import build
import serving
from relight.intake.rebuild import rebuild
from relight.intake.retention import forget
from relight.reports.sessions import find_session, read_session
from relight.work.moa.trace_report import find_trace, list_traces

SESSION = "20261115_000000_abc123"


def reference(model: str, *, cost: str | None = "0.0011560", **changes: Any) -> dict[str, Any]:
    return {
        "label": f"openrouter:{model}",
        "model": model,
        "provider": "openrouter",
        "temperature": 0.6,
        "input_messages": [{"role": "user", "content": "What now? ☃"}],
        "output": "\n\nLook first.",
        "usage": {"input_tokens": 100, "output_tokens": 10, "cache_read_tokens": 0},
        "cost_usd": cost,
        "cost_status": "estimated" if cost else "unknown",
        "cost_source": "provider_models_api",
        **changes,
    }


def trace(at: float, *references: dict[str, Any], session: str = SESSION) -> dict[str, Any]:
    acted = {"label": "a", "model": "actor", "output": "I look.", "input_messages": []}
    return {
        "ts": at,
        "session_id": session,
        "preset": "review",
        "references": list(references),
        "aggregator": {**acted, "streamed": False, "output_location": "inline"},
    }


def write_traces(home: Path, *rows: dict[str, Any] | str, name: str = SESSION) -> Path:
    path = home / ".hermes" / "moa-traces" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build.as_lines(rows))
    return path


def write_session(home: Path, *, cost: float | None = 0.01, status: str = "estimated") -> None:
    """The total that Hermes keeps: advisers and acting model under the preset's name."""
    figures = {"input_tokens": 1000, "output_tokens": 90, "api_call_count": 2}
    with build.open_hermes(home) as database:
        begin = build.START / 1000
        row = {"id": SESSION, "source": "cli", "model": "review", "billing_provider": "moa"}
        build.insert(database, "sessions", started_at=begin, **row, **figures)
        build.insert(
            database,
            "session_model_usage",
            session_id=SESSION,
            model="review",
            billing_provider="moa",
            estimated_cost_usd=cost,
            cost_status=status,
            **figures,
        )
    database.close()


def test_advisers_are_turns_and_the_total_shrinks_to_the_acting_model(tmp_path: Path) -> None:
    write_session(tmp_path)
    two = (reference("r1"), reference("r2", cost="0.002"))
    write_traces(tmp_path, trace(1_794_700_801.5, *two), trace(1_794_700_802.5, *two))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        found = read_session(store, find_session(store, SESSION))
        before = build.dump(store)
        build.import_home(store, tmp_path)
        assert build.dump(store) == before
        rebuild(store, workers=1)
        assert build.dump(store) == before
    roles = [(turn.role, turn.model, turn.calls) for turn in found.turns]
    assert roles.count(("reference", "r1", 1)) == roles.count(("reference", "r2", 1)) == 2
    (acted,) = [turn for turn in found.turns if turn.role == "aggregator"]
    assert (acted.calls, acted.input_tokens, acted.output_tokens) == (2, 600, 50)
    assert acted.usage_status == "reconciled"
    figures = found.figures
    assert (figures.input_tokens, figures.output_tokens) == (1000, 90)
    assert round(figures.cost_usd or 0, 9) == 0.01


def test_traces_of_hermes_are_on_the_page_with_unknown_times(tmp_path: Path) -> None:
    write_session(tmp_path)
    failed = reference("r2", cost=None, output="[failed: connection refused]", usage=None)
    write_traces(tmp_path, trace(1_794_700_801.5, reference("r1"), failed))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        home = store.config.home
        (listed,) = list_traces(store)
        assert (listed.session_id, listed.turns) == (f"hermes:{SESSION}", 1)
        (turn,) = find_trace(store, SESSION).turns
        assert "table" not in turn
    with serving.make_client(home) as client:
        page = client.get("/moa").text
        assert f"/moa/hermes:{SESSION}" in page
        shown = client.get(f"/moa/hermes:{SESSION}").text
        assert f"/sessions/hermes:{SESSION}" in shown
        assert "connection refused" in shown
        assert "Look first." in shown
        assert "0.0s" not in shown
        told = client.get(f"/api/moa/traces/hermes:{SESSION}").json()
    assert [one["duration_ms"] for one in told["models"]] == [None, None, None]
    assert [one["failures"] for one in told["models"]] == [0, 1, 0]


def test_a_trace_of_a_forgotten_session_is_gone(tmp_path: Path) -> None:
    write_session(tmp_path)
    write_traces(tmp_path, trace(1_794_700_801.5, reference("r1"), reference("r2")))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        forget(store, find_session(store, SESSION))
        build.import_home(store, tmp_path)
        assert list_traces(store) == []


def test_a_call_of_a_tool_is_the_acting_models(tmp_path: Path) -> None:
    write_session(tmp_path)
    asked = [{"id": "c", "function": {"name": "terminal", "arguments": "{}"}}]
    with closing(sqlite3.connect(tmp_path / ".hermes" / "state.db")) as database, database:
        place = {"session_id": SESSION, "timestamp": 1_794_700_803.0}
        row = {"role": "assistant", "tool_calls": json.dumps(asked), **place}
        build.insert(database, "messages", **row)
        # Hermes notes usage after the answer, and so after the advice
        database.execute("update session_model_usage set first_seen = 1794700804.0")
    write_traces(tmp_path, trace(1_794_700_801.5, reference("r1"), reference("r2")))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        rows = store.query("select model, sum(tool_calls) from session_day group by 1 order by 1")
    assert rows == [("r1", 0), ("r2", 0), ("review", 1)]


def test_the_order_of_reading_does_not_matter(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    dumps = []
    for home in (first, second):
        with build.open_home(home) as store:
            if home is first:
                write_session(home)
                build.import_home(store, home)
            write_traces(home, trace(1_794_700_801.5, reference("r1")))
            build.import_home(store, home)
            if home is second:
                write_session(home)
                build.import_home(store, home)
            dumps.append(
                {k: v for k, v in build.dump(store).items() if k in ("turn", "session_day")}
            )
    assert dumps[0] == dumps[1]


def test_without_a_price_the_acting_models_share_is_unknown(tmp_path: Path) -> None:
    write_session(tmp_path, cost=0.004, status="unknown")
    write_traces(tmp_path, trace(1_794_700_801.5, reference("r1"), reference("r2", cost=None)))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        figures = read_session(store, find_session(store, SESSION)).figures
    assert round(figures.cost_usd or 0, 9) == 0.001156
    assert figures.unpriced_turns == 3


def test_failed_advisers_torn_lines_and_shared_files_are_understood(tmp_path: Path) -> None:
    failed = reference("r1", output="[failed: HTTP 429: slow down]", usage={}, cost=None)
    other = trace(2.5, reference("r2"), session="other")
    path = write_traces(tmp_path, trace(1.5, failed), other)
    with path.open("a") as file:
        file.write('{"ts": 3.5, "sess')
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        rows_found = store.query(
            "select key, role, calls, failure from turn join session"
            " on session.id = session_id order by key"
        )
    assert rows_found == [
        (SESSION, "reference", 0, "rate_limit"),
        ("other", "reference", 1, None),
    ]


def test_a_large_file_is_read_in_pieces_without_losing_any(tmp_path: Path) -> None:
    bulk = [{"role": "user", "content": "x" * 100_000}]
    rows = [trace(float(n), reference("r1", input_messages=bulk)) for n in range(1, 61)]
    path = write_traces(tmp_path, *rows)
    assert path.stat().st_size > 5_000_000
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        assert store.query("select count(*) from turn") == [(60,)]
        assert json.dumps(bulk)[:20] not in str(build.dump(store)["turn"])


def test_a_trace_that_cannot_be_read_is_reported_with_its_place(tmp_path: Path) -> None:
    write_session(tmp_path)
    path = write_traces(tmp_path, "{not json", "", trace(build.START / 1000, reference("adviser")))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        ((place, reason),) = store.query(
            "select position, reason from unreadable join origin on origin.id = origin_id"
            " where path = ?",
            (str(path),),
        )
        assert (place, "malformed" in reason) == (0, True)
        assert store.query("select count(*) from turn where role = 'reference'") == [(1,)]


def test_advisers_of_hermes_are_summed_across_sessions(tmp_path: Path) -> None:
    write_session(tmp_path)
    two = (reference("r1"), reference("r2", cost="0.002", output="Restart everything tonight"))
    write_traces(tmp_path, trace(1_794_700_801.5, *two), trace(1_794_700_802.5, *two))
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        home = store.config.home
    with serving.make_client(home) as client:
        rows = {one["adviser"]: one for one in client.get("/api/moa/advisers").json()["advisers"]}
        page = client.get("/moa").text
    assert (rows["r2"]["sessions"], rows["r2"]["calls"]) == (1, 2)
    assert rows["r2"]["cost_usd"] == pytest.approx(0.004)
    assert (rows["r2"]["compared"], rows["r2"]["differed"]) == (2, 2)
    # Hermes traces no times
    assert (rows["r2"]["mean_ms"], rows["r2"]["untimed_calls"]) == (None, 2)
    assert rows["r2"]["verdict"] == "not known yet"
    assert "what it is worth" in page
