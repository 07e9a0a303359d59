"""Calls of tools added up by day: figures are those of single calls, whatever is written."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import build
from relight.intake.rebuild import rebuild
from relight.intake.retention import forget
from relight.reports.labels import label_session
from relight.reports.sessions import find_session
from relight.reports.totals import report
from relight.store import Store, open_store
from relight.store.derive import rollup
from relight.store.derive.rollup import add_up_days
from relight.store.queries.filters import Filter, where
from relight.store.queries.tool_sums import SPREAD, count_tools

DAY = 86_400
TOOLS = ("Bash", "Read", "Edit")
MODELS = ("claude-opus-4-6", "claude-haiku-4-5")
LATER = "2999-01-01"
FILTERS = (
    Filter(),
    Filter(since="2026-11-16"),
    Filter(since="2026-11-16", until="2026-11-17"),
    Filter(model="haiku"),
    Filter(source="claude-code", until="2026-11-15"),
)


def write_calls(home: Path, name: str, dice: random.Random, *, agent: str | None = None) -> None:
    """A session of some days, or one of its sub-agents, with calls of which some fail."""
    fields: dict[str, Any] = {"sessionId": name}
    place = name
    if agent:
        fields |= {"agentId": agent, "isSidechain": True}
        place = f"{name}/subagents/agent-{agent}"
    lines = [build.claude_prompt("Go", at=0, **fields)]
    at = dice.choice((0, 0, DAY, 2 * DAY))
    for number in range(dice.randint(1, 6)):
        at += dice.choice((5, 5, 5, DAY))
        key = f"{place}-{number}".replace("/", "-")
        call = build.tool_use(key, dice.choice(TOOLS), file_path=f"/{number}")
        model = dice.choice(MODELS)
        lines.append(build.claude_answer(f"m{key}", call, at=at, model=model, **fields))
        is_error = dice.random() < 0.4
        lines.append(build.claude_result(key, "out", at=at + 1, is_error=is_error, **fields))
    build.write_claude(home, lines, name=place)


def sum_singly(store: Store, chosen: Filter, by: Sequence[str] = ("tool",)) -> list[Any]:
    """Return the sums of single calls: sessions, successes, failures, calls and failed calls."""
    test, values = where(chosen)
    outcomes = ", ".join(
        f"count(distinct case when outcome = '{one}' then root_id end)"
        for one in ("success", "failure")
    )
    grouped = f"group by {', '.join(by)}" if by else ""
    return sorted(
        store.query(
            f"select {', '.join((*by, 'count(distinct root_id)'))}, {outcomes},"
            " coalesce(sum(tool_calls), 0), coalesce(sum(tool_failures), 0)"
            f" from call_day {test or 'where 1 = 1'} and tool is not null {grouped}",
            values,
        )
    )


def count_singly(store: Store, chosen: Filter) -> list[Any]:
    test, values = where(chosen)
    return sorted(
        store.query(
            f"select tool, {SPREAD} from (select tool, cast(sum(tool_calls) as bigint) as calls,"
            f" cast(sum(tool_failures) as bigint) as failed from call_day {test or 'where 1 = 1'}"
            " and tool is not null group by tool, root_id) as one group by tool",
            values,
        )
    )


def check_sums(store: Store) -> None:
    """Check reports of tools against the sums of single calls."""
    for chosen in FILTERS:
        for by in (("tool",), ("tool", "day"), ("model", "tool")):
            found = report(store, by, chosen)
            rows = [
                (
                    *(one.key(key) for key in by),
                    one.sessions,
                    one.successes,
                    one.failures,
                    one.tool_calls,
                    one.tool_failures,
                )
                for one in found.rows
            ]
            assert sorted(rows) == sum_singly(store, chosen, by)
        ((sessions, successes, failures, calls, failed),) = sum_singly(store, chosen, ())
        total = found.total
        assert (total.sessions, total.successes, total.failures) == (sessions, successes, failures)
        assert (total.tool_calls, total.tool_failures) == (calls, failed)
        counted = [
            (one.tool, *(getattr(one, name) for name in one.__struct_fields__ if name != "tool"))
            for one in count_tools(store, chosen)
        ]
        assert sorted(counted) == count_singly(store, chosen)


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_days_are_those_of_single_calls_whatever_is_written(
    tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    names = [f"{number}0000000-aaaa-4aaa-8aaa-111111111111" for number in range(1, 5)]
    with build.open_home(tmp_path) as store:
        for _ in range(10):
            write_calls(tmp_path, dice.choice(names), dice, agent=dice.choice((None, "a1", "a2")))
            build.import_home(store, tmp_path)
            if dice.random() < 0.7:
                add_up_days(store, before=dice.choice((LATER, "2026-11-17")))
            check_sums(store)
        add_up_days(store, before=LATER)
        (name,) = store.query(
            "select source || ':' || key from session where id = root_id limit 1"
        )[0]
        label_session(store, find_session(store, name), "failure")
        check_sums(store)
        add_up_days(store, before=LATER)
        check_sums(store)
        forget(store, find_session(store, name))
        check_sums(store)
        rebuild(store)
        check_sums(store)
        add_up_days(store, before=LATER)
        check_sums(store)


def test_sums_of_days_have_the_calls_of_sessions_that_stayed_in_one_place(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        build.write_claude(tmp_path, build.claude_session())
        build.import_home(store, tmp_path)
        assert add_up_days(store, before=LATER) in (0, 1)
        assert store.query("select count(*) from stale_day") == [(0,)]
        rows = store.query(
            "select tool, sessions, tool_calls from tool_day order by tool nulls first"
        )
        assert rows == [(None, 1, 2), ("Bash", 1, 1), ("Read", 1, 1)]
        assert add_up_days(store, before=LATER) == 0


def test_a_report_counts_each_call_once_while_another_process_adds_days_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with build.open_home(tmp_path) as store, open_store(tmp_path / "relight") as other:
        build.write_claude(tmp_path, build.claude_session())
        build.import_home(store, tmp_path)
        other.run(
            "insert into stale_day (day) select distinct day from call_day"
            " where 1 = 1 on conflict do nothing"
        )
        query = store.query

        def query_and_add_up(statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
            found = query(statement, values)
            add_up_days(other, before=LATER)
            return found

        monkeypatch.setattr(store, "query", query_and_add_up)
        assert report(store, ("tool",)).total.tool_calls == 2


def test_days_that_an_interrupted_import_did_not_add_up_are_added_up_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Store) -> None:
        raise KeyboardInterrupt

    # three years ago: no day of it is still going on
    lines = [
        build.claude_answer("m1", build.tool_use("t1", "Bash"), at=-3 * 365 * DAY),
        build.claude_result("t1", "out", at=-3 * 365 * DAY + 1, is_error=False),
    ]
    build.write_claude(tmp_path, lines)
    with build.open_home(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(rollup, "add_up_days", interrupt)
            with pytest.raises(KeyboardInterrupt):
                build.import_home(store, tmp_path)
        assert store.has_rows("stale_day")
        build.import_home(store, tmp_path)
        assert not store.has_rows("stale_day")
        assert store.has_rows("tool_day")


def test_the_last_days_are_left_until_they_are_over(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        build.write_claude(tmp_path, build.claude_session())
        build.import_home(store, tmp_path)
        with store.transaction() as database:
            database.execute(
                "insert into stale_day (day) select distinct day from call_day"
                " where 1 = 1 on conflict do nothing"
            )
        assert add_up_days(store, before="2026-11-15") == 0
        assert add_up_days(store, before="2026-11-16") == 1
