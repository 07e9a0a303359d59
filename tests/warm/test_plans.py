"""Plans of stores that were made before there were any."""

from pathlib import Path

import pytest

import build
from relight.store.keep.migrate import find_migrations
from relight.warm.plans import read_warm_plans


@pytest.mark.sqlite("it migrates a file")
def test_sessions_dealt_before_there_were_plans_count_for_the_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = next(n for n, path in find_migrations().items() if path.stem.endswith("warm_plan"))
    older = {number: path for number, path in find_migrations().items() if number < own}
    with monkeypatch.context() as patch:
        patch.setattr("relight.store.keep.migrate.find_migrations", lambda: older)
        patch.setattr("relight.store.SCHEMA", own - 1)
        with build.open_home(tmp_path) as store, store.transaction() as database:
            database.executemany(
                "insert into provision (id, session_key, arm, template_id, reason, created_at,"
                " experiment_id) values (?, ?, 'warm', ?, '', ?, ?)",
                [
                    ("p1", "a", None, 1000, None),
                    ("p2", "b", 7, 2000, 3),
                    ("p3", "c", 7, 4000, None),
                    ("p4", "d", 7, 3000, None),
                ],
            )
    with build.open_home(tmp_path) as store:
        (plan,) = read_warm_plans(store)
    assert (plan.number, plan.measure, plan.effect, plan.error) == (1, "both", 0.1, 0.05)
    assert plan.begun_at == "1970-01-01T00:00:03.000Z"


def test_a_store_without_dealt_sessions_has_no_plan_yet(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        (plan,) = read_warm_plans(store)
    assert (plan.number, plan.begun_at) == (None, None)
