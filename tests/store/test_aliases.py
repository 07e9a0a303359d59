"""Sessions on two names of a model are one row of a report, and keep the names they have."""

from pathlib import Path

import pytest

import build
from relight.intake.importing import import_all
from relight.intake.rebuild import rebuild
from relight.intake.recorder import record
from relight.reports.comparison.models import compare_models
from relight.reports.filters import read_filter
from relight.reports.listing import list_sessions
from relight.reports.sessions import find_session, read_session
from relight.reports.skills.uses import record_skill_invocation
from relight.reports.totals import report
from relight.store import Store, open_store
from relight.store.queries.listing import Listing

FULL, SHORT = "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"


def fill(store: Store) -> None:
    for name, model in (("a", FULL), ("b", SHORT), ("c", f"us.anthropic.{FULL}-v1:0")):
        with record(store, name, model=model, provider="anthropic") as rec:
            for _ in range(3):
                rec.turn(input_tokens=10, output_tokens=1, message="done")
                rec.tool_call("ls", {}, "a", exit_code=1)
    with record(store, "d", model="gpt-4o-2024-05-13", provider="openai") as rec:
        rec.turn(input_tokens=10, output_tokens=1)


def count_models(store: Store, *, model: str | None = None) -> dict[str, int | None]:
    found = report(store, ("model",), read_filter(store, since="all", model=model))
    return {str(row.model): row.turns for row in found.rows}


def test_a_report_has_one_row_for_a_model_and_show_has_the_full_name(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        fill(store)
        assert count_models(store) == {SHORT: 9, "gpt-4o-2024-05-13": 1}
        by_tool = report(store, ("model", "tool"), read_filter(store, since="all"))
        assert len(by_tool.rows) == 1
        found = read_session(store, find_session(store, "a"))
        assert {turn.model for turn in found.turns} == {FULL}
        before = build.dump(store)
        rebuild(store, workers=1)
        assert build.dump(store) == before


@pytest.mark.parametrize(
    ("wanted", "turns"),
    [
        (SHORT, 9),
        (FULL, 9),
        ("sonnet", 9),
        ("20250929", 9),
        (f'"{FULL}"', 9),
        (f'"{SHORT}"', 9),
        (f'"us.anthropic.{FULL}-v1:0"', 9),
        ("anthropic/claude-sonnet-4.5", 9),
        ("claude-sonnet-4-5@20250929", 9),
        ("gpt-4o", 1),
        ('"gpt-4o"', 0),
        ('"sonnet"', 0),
        ('""', 0),
    ],
)
def test_a_filter_matches_every_name_of_a_model(tmp_path: Path, wanted: str, turns: int) -> None:
    with build.open_home(tmp_path) as store:
        fill(store)
        assert sum(one or 0 for one in count_models(store, model=wanted).values()) == turns
        chosen = read_filter(store, since="all", model=wanted)
        listed = list_sessions(store, chosen, Listing()).sessions
        assert {one.model for one in listed} <= {SHORT, "gpt-4o-2024-05-13"}
        assert sum(one.turns for one in listed) == turns


def test_a_skill_is_compared_by_model_not_by_name(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        for number, model in enumerate((FULL, SHORT, "claude-haiku-4-5", "claude-haiku-4.5")):
            record_skill_invocation(
                store,
                skill_name="triage",
                invoked_at=1_794_700_000 + number,
                session_id=f"s{number}",
                model=model,
                success=True,
                cost_usd=0.1,
            )
        found = compare_models(store, "triage", models=[FULL, "haiku"])
        home = store.config.home
    assert {arm.model: arm.runs for arm in found.models} == {SHORT: 2, "claude-haiku-4-5": 2}
    build.write_settings(home, f'[models.aliases]\n"{SHORT}" = "sonnet"\n')
    with open_store(home) as store:
        import_all(store, environment={"HOME": str(tmp_path)})
        models = {arm.model for arm in compare_models(store, "triage").models}
    assert models == {"sonnet", "claude-haiku-4-5"}


def test_new_aliases_hold_for_old_sessions_after_the_next_import(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        fill(store)
        home = store.config.home
    build.write_settings(
        home,
        'timezone = "UTC"\n[models.aliases]\n"claude-sonnet-4-5" = "sonnet"\n'
        '"gpt-4o-2024-05-13" = "gpt-4o"\n',
    )
    with open_store(home) as store:
        record(store, "e", model=FULL).turn(input_tokens=1, output_tokens=1)
        import_all(store, environment={"HOME": str(tmp_path)})
        assert count_models(store) == {"sonnet": 10, "gpt-4o": 1}
        before = build.dump(store)
        rebuild(store, workers=1)
        assert build.dump(store) == before
    build.write_settings(home, 'timezone = "UTC"\n')
    with open_store(home) as store:
        import_all(store, environment={"HOME": str(tmp_path)})
        assert count_models(store) == {SHORT: 10, "gpt-4o-2024-05-13": 1}


def test_roll_ups_from_before_there_were_aliases_are_summed_again(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        fill(store)
        with store.transaction() as database:
            database.execute("delete from model_alias")
            database.execute("delete from meta where key = 'model_aliases'")
            for table in ("session_day", "call_day"):
                database.execute(
                    f"update {table} set model ="
                    f" (select model from session where id = {table}.session_id)"
                )
        assert len(count_models(store)) == 4
        import_all(store, environment={"HOME": str(tmp_path)})
        assert count_models(store) == {SHORT: 9, "gpt-4o-2024-05-13": 1}
