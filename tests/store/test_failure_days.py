"""Failed calls added up by day: figures are those of single calls, whatever is written."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import build
from relight.intake.rebuild import rebuild
from relight.intake.retention import forget
from relight.reports.labels import label_session
from relight.reports.sessions import find_session
from relight.store import Store
from relight.store.derive.rollup import add_up_days
from relight.store.queries import failure_sums, failures
from relight.store.queries.filters import Filter

DAY = 86_400
TOOLS = ("Bash", "Bash", "Read", "Edit")
TEXTS = ("Exit code 1\nno", "Exit code 127\nbash: line 1: nope: command not found", "<error>no")
LATER = "2999-01-01"
FILTERS = (
    Filter(),
    Filter(since="2026-11-16"),
    Filter(since="2026-11-16", until="2026-11-17"),
    Filter(until="2026-11-15"),
    Filter(model="haiku"),
)
KEYS = (
    ("kind", "tool"),
    ("tool", "kind"),
    ("kind",),
    ("position",),
    ("length",),
    ("category",),
    ("category", "position"),
    ("length", "category", "position"),
)


def write_calls(home: Path, name: str, dice: random.Random, *, agent: str | None = None) -> None:
    """A session, or one of its sub-agents, of which many calls fail; some go on for days."""
    is_long = name.startswith("1")
    fields: dict[str, Any] = {"sessionId": name}
    place = name
    if agent:
        fields |= {"agentId": agent, "isSidechain": True}
        place = f"{name}/subagents/agent-{agent}"
    lines = [build.claude_prompt(dice.choice(("Fix the bug", "Write docs")), at=0, **fields)]
    at = dice.choice((0, 0, DAY)) if is_long else DAY * (int(name[0]) % 3)
    for number in range(dice.randint(1, 14)):
        at += dice.choice((5, 5, 5, 5, DAY)) if is_long else 5
        key = f"{place}-{number}".replace("/", "-")
        call = build.tool_use(key, dice.choice(TOOLS), file_path=f"/{number}")
        model = dice.choice(("claude-opus-4-6", "claude-haiku-4-5"))
        lines.append(build.claude_answer(f"m{key}", call, at=at, model=model, **fields))
        is_error = dice.random() < 0.6
        text = dice.choice(TEXTS) if is_error else "out"
        lines.append(build.claude_result(key, text, at=at + 1, is_error=is_error, **fields))
    build.write_claude(home, lines, name=place)


def read_all(store: Store) -> list[Any]:
    """Everything that sums of days are read for."""
    found: list[Any] = []
    for chosen in FILTERS:
        found += [failures.read_failure_groups(store, chosen, by) for by in KEYS]
        rows: list[Any] = failures.count_failures_by_day(store, chosen)
        found.append(sorted(map(repr, rows)))
        rows = failures.find_failing_sessions(store, chosen, least=3)
        found.append(sorted(map(repr, rows)))
    return found


def check_sums(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check what is read from the sums of days against single calls."""
    found = read_all(store)
    with monkeypatch.context() as patch:
        never: Callable[..., bool] = lambda *_: False  # noqa: E731
        patch.setattr(failure_sums, "has_days", never)
        patch.setattr(failures, "has_days", never)
        assert found == read_all(store)


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_failures_are_those_of_single_calls_whatever_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    names = [f"{number}0000000-aaaa-4aaa-8aaa-111111111111" for number in (1, 1, 2, 3, 4, 5)]
    with build.open_home(tmp_path) as store:
        for _ in range(10):
            write_calls(tmp_path, dice.choice(names), dice, agent=dice.choice((None, None, "a1")))
            build.import_home(store, tmp_path)
            if dice.random() < 0.7:
                add_up_days(store, before=dice.choice((LATER, "2026-11-17")))
            check_sums(store, monkeypatch)
        add_up_days(store, before=LATER)
        assert store.has_rows("failure_day")
        check_sums(store, monkeypatch)
        (name,) = store.query(
            "select source || ':' || key from session where id = root_id limit 1"
        )[0]
        label_session(store, find_session(store, name), "failure")
        check_sums(store, monkeypatch)
        with store.transaction() as database:
            database.execute("update session set category = 'research' where id = root_id")
        check_sums(store, monkeypatch)
        add_up_days(store, before=LATER)
        check_sums(store, monkeypatch)
        forget(store, find_session(store, name))
        check_sums(store, monkeypatch)
        rebuild(store)
        check_sums(store, monkeypatch)
        add_up_days(store, before=LATER)
        check_sums(store, monkeypatch)


def test_failures_of_a_day_that_is_added_up_are_read_from_its_sums(tmp_path: Path) -> None:
    dice = random.Random(1)
    with build.open_home(tmp_path) as store:
        write_calls(tmp_path, "20000000-aaaa-4aaa-8aaa-111111111111", dice)
        build.import_home(store, tmp_path)
        add_up_days(store, before=LATER)
        before = read_all(store)
        with store.transaction() as database:
            database.execute("delete from call_day")
            database.execute("delete from stale_day")
        after = read_all(store)
        assert after[0] == before[0] != []
        assert after[3:5] == before[3:5]
