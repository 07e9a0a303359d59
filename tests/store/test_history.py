"""History: closed months as Parquet, whose reports are those of the live store."""

import builtins
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import build
from relight.errors import RelightError
from relight.intake.recorder import record
from relight.intake.retention import forget, prune
from relight.reports.sessions import find_session
from relight.reports.totals import KEYS, report
from relight.store import Store
from relight.store.history import open_history
from relight.store.history_export import HistorySummary, export_history
from relight.store.queries.filters import Filter

NOW = datetime(2026, 11, 16, tzinfo=UTC).timestamp()
CLOSED = "2026-10-31"
MODELS = ("gpt-5.1", "claude-opus-4-6", "nobody-knows-it", None)
FILTERS = [
    Filter(until=CLOSED),
    Filter(since="2026-09-10", until="2026-10-05"),
    Filter(until=CLOSED, model="GPT"),
    Filter(until=CLOSED, project="Shop_1"),
    Filter(until=CLOSED, source="relight", machine="here"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with build.open_home(tmp_path) as store:
        yield store


def fill(store: Store, seed: int, *, sessions: int = 14) -> None:
    """Record random sessions from August to November, some of them over the end of a month."""
    dice = random.Random(seed)
    for number in range(sessions):
        at = datetime(2026, dice.randint(8, 11), dice.choice([1, 15, 30, 28]), 22, tzinfo=UTC)
        moment = [at.timestamp()]

        def tick(moment: list[float] = moment) -> float:
            moment[0] += dice.choice([1, 60, 3600])
            return moment[0]

        project = f"/home/x/shop_{dice.randint(0, 2)}"
        with record(store, f"s{seed}-{number}", project=project, title="t", clock=tick) as session:
            trackers = [session, session.child()] if dice.random() < 0.3 else [session]
            for tracker in trackers * dice.randint(0, 3):
                tracker.turn(
                    model=dice.choice(MODELS),
                    input_tokens=dice.randint(0, 5000),
                    cache_read_tokens=dice.choice([None, 0, 700]),
                    output_tokens=dice.randint(0, 900),
                    reasoning_tokens=dice.choice([None, 5]),
                    cost_usd=dice.choice([None, 0.1, 0.000_000_003]),
                    failure=dice.choice([None, None, None, "429 Too Many Requests"]),
                )
                code = dice.choice([0, 1, 127])
                tracker.tool_call(dice.choice(["bash", "read"]), {}, "out", exit_code=code)
            session.finish(dice.choice(["success", "failure", None]))


def export(store: Store, folder: Path) -> HistorySummary:
    return export_history(store, folder, now=NOW)


def test_every_report_of_the_history_is_that_of_the_live_store(
    store: Store, tmp_path: Path
) -> None:
    fill(store, 1)
    folder = tmp_path / "it's history"
    done = export(store, folder)
    assert {"2026-09", "2026-10"} <= {*done.written}
    assert "2026-11" not in done.written
    groups = [(), *((key,) for key in KEYS if key != "skill"), ("month", "model"), ("day", "tool")]
    asked = [(by, FILTERS[0]) for by in groups]
    asked += [(by, chosen) for chosen in FILTERS[1:] for by in [(), ("model",)]]
    with open_history(store.config, folder) as history:
        for by, chosen in asked:
            live = report(store, by, chosen)
            assert report(history, by, chosen) == live, (by, chosen)
            assert live.total.turns or live.total.tool_calls or "failure" in by
        ranked = {"sort": "cost", "top": 2}
        for by in (("session",), ("week",)):
            assert report(history, by, FILTERS[0], **ranked) == report(  # type: ignore[arg-type]
                store,
                by,
                FILTERS[0],
                **ranked,  # type: ignore[arg-type]
            )


def test_a_month_is_written_again_only_if_its_rows_changed(store: Store, tmp_path: Path) -> None:
    fill(store, 2)
    folder = tmp_path / "history"
    first = export(store, folder)
    files = {path.name for path in folder.iterdir()}
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    (folder / ".2026-10.usage.1").write_bytes(b"left by a kill")
    (folder / "2026-10.usage.0000000000000000.parquet").write_bytes(b"not in the list")
    (folder / "mine.parquet").write_bytes(b"another's")
    again = export(store, folder)
    assert (again.written, again.unchanged) == ([], first.written)
    left = {path.name for path in folder.iterdir()}
    assert left == {*files, "mine.parquet", ".2026-10.usage.1"}
    at = datetime(2026, 10, 3, tzinfo=UTC).timestamp()
    with record(store, "late", clock=lambda: at) as session:
        session.turn(model="gpt-5.1", input_tokens=1, output_tokens=1)
    assert export(store, folder).written == ["2026-10"]


def test_pruned_sessions_stay_in_the_history_and_forgotten_ones_leave_it(
    store: Store, tmp_path: Path
) -> None:
    fill(store, 3)
    folder = tmp_path / "history"
    export(store, folder)
    before = report(store, ("month",), FILTERS[0])
    names = store.query("select key from session where id = root_id and key like 's3-%'")
    prune(store, now=round(NOW * 1000), tape_days=None, index_days=30, dry_run=False)
    assert report(store, ("month",), FILTERS[0]) != before
    assert export(store, folder).written == []
    with open_history(store.config, folder) as history:
        assert report(history, ("month",), FILTERS[0]) == before
    left = {key for (key,) in store.query("select key from session")}
    key = next(key for (key,) in names if key in left)
    old = report(store, ("session",), Filter(until=CLOSED)).rows
    forget(store, find_session(store, f"relight:{key}"))
    export(store, folder)
    with open_history(store.config, folder) as history:
        found = {row.session for row in report(history, ("session",), FILTERS[0]).rows}
    assert f"relight:{key}" not in found
    assert {row.session for row in old} - {f"relight:{key}"} <= found


def test_files_of_an_earlier_version_that_lack_a_column_are_read_and_lose_no_session(
    store: Store, tmp_path: Path
) -> None:
    fill(store, 4)
    folder = tmp_path / "history"
    written = export(store, folder).written
    before = report(store, ("month",), FILTERS[0])
    drop_columns(folder, {"sessions": "version", "usage": "branch, wall_ms"})
    prune(store, now=round(NOW * 1000), tape_days=None, index_days=30, dry_run=False)
    for _ in range(2):  # the earlier files, and those that the export writes
        with open_history(store.config, folder) as history:
            rows = report(history, ("month",), FILTERS[0]).rows
        assert [(one.month, one.turns, one.cost_usd) for one in rows] == [
            (one.month, one.turns, one.cost_usd) for one in before.rows
        ]
        done = export(store, folder)
        assert ({*done.written, *done.unchanged}, done.damaged) == ({*written}, [])


def drop_columns(folder: Path, columns: dict[str, str]) -> None:
    """Write the files of these tables again as if these columns were added later."""
    import duckdb

    for table, names in columns.items():
        for path in folder.glob(f"*.{table}.*.parquet"):
            rows = f"select * exclude ({names}) from read_parquet('{path}')"
            duckdb.execute(f"copy ({rows}) to '{path}.new' (format parquet)")
            Path(f"{path}.new").replace(path)


def test_a_history_belongs_to_one_store_and_names_what_is_missing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 4, sessions=6)
    folder = tmp_path / "history"
    with pytest.raises(RelightError, match="no history"):
        open_history(store.config, tmp_path)
    export(store, folder)
    with build.open_home(tmp_path / "other") as other, pytest.raises(RelightError, match="another"):
        export(other, folder)
    for lost in folder.glob("*.usage.*.parquet"):
        whole = lost.read_bytes()
        lost.write_bytes(b"damaged")
        with pytest.raises(RelightError) as caught, open_history(store.config, folder) as history:
            report(history, ())
        assert "history export" in str(caught.value.hint)
        lost.write_bytes(whole)
    lost.unlink()
    with pytest.raises(RelightError, match="lacks"):
        open_history(store.config, folder)
    assert export(store, folder).damaged == [lost.name[:7]]
    with open_history(store.config, folder) as history:
        assert report(history, (), FILTERS[0]) == report(store, (), FILTERS[0])

    find = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return find(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(RelightError) as caught:
        export(store, folder)
    assert "relight[history]" in str(caught.value.hint)
