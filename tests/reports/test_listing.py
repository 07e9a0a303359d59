"""Lists of sessions: found by words, in any order, each once, and gone when forgotten."""

from pathlib import Path

import pytest

import build
from relight.errors import RelightError
from relight.intake.retention import forget
from relight.reports.labels import label_session
from relight.reports.listing import SessionPage, list_sessions
from relight.reports.sessions import find_session
from relight.reports.totals import report
from relight.store import Store
from relight.store.derive import rollup
from relight.store.queries.filters import Filter
from relight.store.queries.listing import Listing

TITLES = {
    "11111111": "Fix the rounding in the invoice",
    "22222222": "Größe der Bilder prüfen",
    "33333333": "修复发票中的舍入错误",
    "44444444": "Read src/shop-api/pay.py, 100% of it",
}


def key(start: str) -> str:
    return f"{start}-aaaa-4aaa-8aaa-111111111111"


@pytest.fixture
def store(tmp_path: Path, store: Store) -> Store:
    for at, (start, title) in enumerate(TITLES.items()):
        lines = [
            build.claude_prompt(title, at=at * 1000, sessionId=key(start)),
            build.claude_answer(f"msg_{start}", at=at * 1000 + 5, sessionId=key(start)),
        ]
        build.write_claude(tmp_path, lines, name=key(start))
    build.import_home(store, tmp_path)
    return store


def check_days(store: Store) -> tuple[int, int]:
    """Check the sums of days against the rows below them; return those of sessions."""
    days, now = (
        sorted(map(repr, store.query(f"select * from {one}")))
        for one in ("usage_day", "usage_day_now")
    )
    assert days == now != []
    for table in ("session_day", "call_day"):
        assert not store.query(
            f"select 1 from {table} join listing on listing.root_id = {table}.root_id"
            f" where {table}.outcome is distinct from listing.outcome"
        )
    total = report(store, ()).total
    return total.sessions, total.successes


def find(store: Store, search: str) -> list[str]:
    found = list_sessions(store, None, Listing(search=search))
    return [one.session_id.partition(":")[2][:8] for one in found.sessions]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("rounding", ["11111111"]),
        ("ROUND invo", ["11111111"]),
        ("invoice rounding", ["11111111"]),
        ("ounding", []),
        ("GRÖSSE", []),
        ("größe", ["22222222"]),
        ("GRÖßE", ["22222222"]),
        ("bilder prüf", ["22222222"]),
        ("发票", ["33333333"]),
        ("shop-api/pay", ["44444444"]),
        ("100%", ["44444444"]),
        ("%", ["44444444"]),
        ("_", []),
        ("22222222", ["22222222"]),
        ('fix" or "', []),
        ("fix *", []),
        ("", ["44444444", "33333333", "22222222", "11111111"]),
    ],
)
def test_a_search_finds_what_it_says(store: Store, search: str, found: list[str]) -> None:
    assert find(store, search) == found


def test_a_session_with_subagents_is_listed_once_with_all_they_cost(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        parent = build.claude_session()
        child = [
            build.claude_prompt("Look around", at=2, agentId="a1", isSidechain=True),
            build.claude_answer("msg_9", at=3, agentId="a1", isSidechain=True),
        ]
        name = f"{build.CLAUDE_SESSION}/subagents/agent-a1"
        build.write_claude(tmp_path, child, name=name)
        build.import_home(store, tmp_path)
        build.write_claude(tmp_path, parent)
        build.import_home(store, tmp_path)
        (row,) = list_sessions(store).sessions
        figures = store.query("select sum(turns), sum(cost_nanos) from session_day")[0]
        assert (row.turns, round((row.cost_usd or 0) * 1e9)) == figures == (4, figures[1])
        assert row.subagents == 1
        assert store.query("select count(*) from session_day") == [(2,)]
        label_session(store, find_session(store, row.session_id), "failure")
        assert check_days(store) == (1, 0)


def test_what_is_listed_is_the_sum_of_the_roll_up_whatever_is_written(store: Store) -> None:
    with store.transaction() as database:
        rollup.refresh(database, [row[0] for row in store.query("select id from session")])
    forget(store, find_session(store, "22222222"))
    sums = "sum(turns), sum(cost_nanos), sum(unpriced_turns), sum(tool_calls), sum(wall_ms)"
    assert (
        store.query(
            f"select root_id, count(*), {sums} from session_day group by root_id order by 1"
        )
        == store.query(
            f"select root_id, sum(parts), {sums} from listing group by root_id order by 1"
        )
        != []
    )


def test_days_are_the_sum_of_the_roll_up_and_know_outcomes_whatever_is_written(
    store: Store,
) -> None:
    assert check_days(store) == (4, 0)
    label_session(store, find_session(store, "22222222"), "success")
    assert check_days(store) == (4, 1)
    with store.transaction() as database:
        rollup.refresh(database, [row[0] for row in store.query("select id from session")])
    assert check_days(store) == (4, 1)
    forget(store, find_session(store, "22222222"))
    assert check_days(store) == (3, 0)


def test_calls_are_rolled_up_as_they_are_counted_one_by_one(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        build.write_claude(tmp_path, build.claude_session())
        build.import_home(store, tmp_path)
        rows = store.query(
            "select tool, kind, tool_calls, tool_failures from call_day order by tool"
        )
        assert rows == [("Bash", None, 1, 0), ("Read", "file_not_found", 1, 1)]


def test_a_forgotten_session_leaves_no_word_in_any_file(store: Store) -> None:
    home = store.config.home
    forget(store, find_session(store, "11111111"))
    assert find(store, "rounding") == []
    store.close()
    for file in home.rglob("*"):
        if file.is_file():
            content = file.read_bytes().lower()
            assert b"rounding" not in content, file
            assert b"invoice" not in content, file


def test_a_list_that_cannot_be_made_is_reported(store: Store) -> None:
    for listing in (Listing(sort="luck"), Listing(limit=0), Listing(limit=501)):
        with pytest.raises(RelightError):
            list_sessions(store, None, listing)
    for after in ("", "x", "1", "1_", "1_x", "1_1_1", "1.5_2"):
        with pytest.raises(RelightError, match="after must be the `next` of a page"):
            list_sessions(store, None, Listing(after=after))
    beyond = list_sessions(store, None, Listing(after=f"{10**19 - 1}_{-(10**19) + 1}"))
    assert len(beyond.sessions) == 4


def test_a_day_without_sessions_has_an_empty_list(store: Store) -> None:
    found = list_sessions(store, Filter(since="2030-01-01"))
    assert found == SessionPage([], 0, is_more=False, next=None)
