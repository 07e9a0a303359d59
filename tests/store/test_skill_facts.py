"""Facts given about a session's skill override those of the session's own records."""

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

import build
import build_skills
from build_skills import check_report, read
from relight.errors import RelightError
from relight.intake.rebuild import rebuild
from relight.intake.retention import forget, prune
from relight.reports.labels import label_session
from relight.reports.sessions import find_session
from relight.reports.skills.uses import AS_KNOWN, record_skill_invocation
from relight.reports.totals import report
from relight.store import Store
from relight.store.queries.skills import read_daily

CHAT = "20261115_000000_abc123"
NAME = f"hermes:{CHAT}"
DERIVED = (
    "skill_version, model, provider, input_tokens, output_tokens, cache_read_tokens, cost_nanos,"
    " cost_status, cost_source, share, turns, duration_seconds, completed_at, quality_score"
)


@pytest.fixture
def session(tmp_path: Path, store: Store, hermes: sqlite3.Connection) -> Store:
    """A recorded session in which the agent looked up one skill."""
    viewed = build_skills.hermes_viewed("tidy", build_skills.TIDY)
    build_skills.write_hermes(
        hermes, CHAT, *viewed, {"role": "assistant", "content": "Done.", "finish_reason": "stop"}
    )
    build.import_home(store, tmp_path)
    return store


@pytest.fixture
def plain(tmp_path: Path, store: Store) -> Store:
    """A recorded session without any skill, of two priced turns and one without a price."""
    build.write_claude(
        tmp_path,
        [
            build.claude_prompt("go"),
            build.claude_answer("m1", at=1),
            build.claude_answer("m2", at=2),
            build.claude_answer("m3", at=3, model="no-price"),
        ],
    )
    build.import_home(store, tmp_path)
    return store


def tell(store: Store, session: str = CHAT, **fields: Any) -> int:
    told: dict[str, Any] = {"skill_name": "tidy", "invoked_at": build.START / 1000} | fields
    return record_skill_invocation(store, session_id=session, **told)


def test_what_is_left_out_is_derived_and_what_is_recorded_wins(session: Store) -> None:
    before = read(session, DERIVED)
    assert before[0][6] > 0
    tell(session, entry="tool", success=False)
    assert read(session, DERIVED) == before
    assert read(session, "success, is_told") == [(0, 1)]
    tell(session, entry="tool", cost_usd=0.5, model="mine", share=0.25)
    assert read(session, "cost_usd, cost_status, cost_source, model, share, success") == [
        (0.5, "reported", None, "mine", 0.25, 0)
    ]
    assert read(session, "input_tokens, skill_version") == [(1001, "1.2.0")]


def test_a_recorded_use_of_unknown_outcome_has_its_sessions(session: Store) -> None:
    tell(session, entry="tool", cost_usd=0.5)
    label_session(session, find_session(session, CHAT), "success", why="it did")
    assert read(session, "success, end_reason") == [(1, "a person said success: it did")]
    label_session(session, find_session(session, CHAT), "failure")
    assert read(session, "success") == [(0,)]
    tell(session, entry="tool", success=True)
    assert read(session, "success, end_reason") == [(1, None)]
    tell(session, entry="tool", end_reason="all clean")
    assert read(session, "success, end_reason") == [(1, "all clean")]


def test_a_rebuild_keeps_what_was_recorded_and_derives_the_rest_again(session: Store) -> None:
    number = tell(session, entry="tool", cost_usd=0.5)
    with session.transaction() as database:
        database.execute("update skill_invocations set input_tokens = 1, cost_nanos = 1")
    rebuild(session)
    assert read(session, "id, cost_usd, input_tokens") == [(number, 0.5, 1001)]
    check_report(session)


@pytest.mark.parametrize("is_first", [True, False])
def test_without_a_way_in_it_is_the_one_use_that_the_records_show(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection, is_first: bool
) -> None:
    build_skills.write_hermes(hermes, CHAT, *build_skills.hermes_viewed("tidy", build_skills.TIDY))
    if not is_first:
        build.import_home(store, tmp_path)
    number = tell(store, success=False)
    build.import_home(store, tmp_path)
    assert read(store, "id, session_id, entry, success, input_tokens") == [
        (number, NAME, "tool", 0, 1001)
    ]
    assert tell(store, NAME, quality_score=0.5) == number
    assert read(store, "id, success, quality_score") == [(number, 0, 0.5)]
    assert read_daily(store)[0].invocation_count == 1


def test_where_the_records_show_two_ways_in_a_fact_without_one_is_a_separate_use(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    block = {"role": "user", "content": build_skills.hermes_block("tidy", build_skills.TIDY)}
    viewed = build_skills.hermes_viewed("tidy", build_skills.TIDY)
    build_skills.write_hermes(hermes, CHAT, *viewed)
    build.import_home(store, tmp_path)
    first = tell(store, success=True)
    assert read(store, "id, entry") == [(first, "tool")]
    build.insert(hermes, "messages", session_id=CHAT, timestamp=build.START / 1000 + 5, **block)
    build.import_home(store, tmp_path)
    assert read(store, "entry, is_told, success = 1") == [
        (None, 1, 1),
        ("slash", 0, 0),
        ("tool", 0, 0),
    ]
    check_report(store)


def test_what_names_its_way_in_stands_before_what_does_not(session: Store) -> None:
    tell(session, entry="tool", model="by-tool")
    tell(session, model="by-any", provider="any")
    assert read(session, "entry, model, provider") == [("tool", "by-tool", "any")]


def test_a_session_recorded_under_both_its_names_has_one_use(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection
) -> None:
    tell(store, entry="tool", model="mine")
    tell(store, NAME, entry="tool", success=True)
    assert len(read(store, "id")) == 2
    build_skills.write_hermes(hermes, CHAT, *build_skills.hermes_viewed("tidy", build_skills.TIDY))
    build.import_home(store, tmp_path)
    assert read(store, "session_id, model, success") == [(NAME, "mine", 1)]


TELLINGS: list[dict[str, Any]] = [
    {"entry": "tool", "model": "first", "cost_usd": 0.5},
    {"session": NAME, "entry": "tool", "model": "second", "cost_status": "unknown"},
    {"model": "third", "provider": "home", "success": True},
    {"skill_name": "sweep", "entry": "preload", "share": 0.25},
    {"session": NAME, "skill_name": "sweep", "duration_seconds": 3, "input_tokens": 7},
    {"session": NAME, "entry": "tool", "quality_score": 0.5, "cost_usd": 0.25},
    {"skill_name": "wipe", "entry": "preload", "invoked_at": AS_KNOWN},
]


@pytest.mark.parametrize("place", range(len(TELLINGS)))
def test_when_the_session_is_read_makes_no_difference(
    tmp_path: Path, store: Store, hermes: sqlite3.Connection, place: int
) -> None:
    build_skills.write_hermes(hermes, CHAT, *build_skills.hermes_viewed("tidy", build_skills.TIDY))
    found = []
    for name, number in (("one", place), ("other", len(TELLINGS))):
        with build.open_home(tmp_path / name) as store:
            for told in TELLINGS[:number]:
                tell(store, **told)
            build.import_home(store, tmp_path)
            for told in TELLINGS[number:]:
                tell(store, **told)
            found.append(build.dump(store)["skill_invocations"])
            check_report(store)
            rebuild(store)
            assert build.dump(store)["skill_invocations"] == found[-1]
    assert found[0] == found[1]
    assert len(found[0]) == 4


def test_a_name_that_two_sessions_have_is_refused(tmp_path: Path, session: Store) -> None:
    (tmp_path / "c.jsonl").write_bytes(
        build.as_lines([{"id": CHAT, "messages": [{"role": "user", "content": "go"}]}])
    )
    build.import_home(session, tmp_path, sources=["chat"], folder=tmp_path / "c.jsonl")
    with pytest.raises(RelightError, match=r"^session_id .* is of several sessions") as caught:
        tell(session)
    assert NAME in (caught.value.hint or "")


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"cost_usd": 0.5, "input_tokens": 7, "duration_seconds": 3},
        {"cost_usd": 0.5, "cost_status": "included"},
        {"cost_usd": 0, "cost_status": "unknown"},
        {"entry": "preload", "completed_at": build.START / 1000 + 2},
    ],
)
def test_what_is_recorded_leaves_a_reports_sums_as_they_are(
    plain: Store, told: dict[str, Any]
) -> None:
    tell(plain, build.CLAUDE_SESSION, **told)
    check_report(plain)
    rows = report(plain, ("skill",)).rows
    assert [row.skill for row in rows] == ["tidy"]
    assert rows[0].cost_usd
    rebuild(plain)
    check_report(plain)


def test_a_skill_that_is_only_recorded_shares_the_cost_with_those_seen(
    tmp_path: Path, store: Store
) -> None:
    build.write_claude(
        tmp_path,
        [
            build.claude_prompt("go"),
            build.claude_answer("m1", at=1),
            *build_skills.claude_skill("toolu_1", "tidy", at=2),
            build.claude_answer("m2", at=3),
        ],
    )
    build.import_home(store, tmp_path)
    number = tell(
        store, build.CLAUDE_SESSION, skill_name="sweep", entry="preload", invoked_at=AS_KNOWN
    )
    # sweep was there from the start: the first answer and the look-up of tidy are its own
    assert read(store, "skill_name, turns, is_told") == [("sweep", 2, 1), ("tidy", 1, 0)]
    assert store.query("select sum(share), sum(cost_nanos) from skill_invocations") == [
        (pytest.approx(1), store.query("select sum(cost_nanos) from session_day")[0][0])
    ]
    check_report(store)
    rebuild(store)
    assert read(store, "id, is_told, invoked_at")[0] == (number, 1, build.START)


def test_what_is_recorded_of_a_sub_agent_is_a_use_in_its_whole_session(
    tmp_path: Path, store: Store
) -> None:
    path = build.write_claude(tmp_path, [build.claude_answer("m1", at=1)])
    build.write_agent(path, [build.claude_answer("m2", at=2)])
    build.import_home(store, tmp_path)
    ((child,),) = store.query("select key from session where parent_id is not null")
    number = tell(store, child, success=True)
    assert read(store, "id, session_id, turns") == [
        (number, f"claude-code:{build.CLAUDE_SESSION}", 2)
    ]
    check_report(store)


@pytest.mark.parametrize("is_first", [True, False])
def test_what_was_recorded_last_wins_of_a_session_and_its_sub_agent_too(
    tmp_path: Path, store: Store, is_first: bool
) -> None:
    path = build.write_claude(tmp_path, [build.claude_answer("m1", at=1)])
    build.write_agent(path, [build.claude_answer("m2", at=2)])
    if not is_first:
        build.import_home(store, tmp_path)
    tell(store, build.CLAUDE_SESSION, quality_score=0.25, model="mine")
    tell(store, f"claude-code:{build.CLAUDE_SESSION}/a1", quality_score=0.5)
    build.import_home(store, tmp_path)
    assert read(store, "quality_score, model") == [(0.5, "mine")]


def test_recording_again_keeps_what_is_left_out(store: Store) -> None:
    tell(store, duration_seconds=12.5, share=0.5, cost_usd=0.5, cost_status="estimated")
    tell(store, completed_at=build.START / 1000 + 60, cost_usd=0.7, success=True)
    assert read(store, "duration_seconds, share, cost_usd, cost_status, success") == [
        (12.5, 0.5, 0.7, "estimated", 1)
    ]


def test_a_cost_that_was_unknown_may_be_recorded_after_all_and_taken_back(store: Store) -> None:
    tell(store, cost_usd=0, cost_status="unknown")
    tell(store, cost_usd=0.7)
    assert read(store, "cost_usd, cost_status") == [(0.7, "reported")]
    tell(store, cost_status="unknown")
    assert read(store, "cost_usd, cost_status") == [(None, "unknown")]


def test_what_is_recorded_later_must_agree_with_what_was_recorded(store: Store) -> None:
    tell(store, completed_at=build.START / 1000 + 60)
    with pytest.raises(RelightError, match=r"^completed_at is before invoked_at"):
        tell(store, invoked_at=build.START / 1000 + 61)
    assert read(store, "invoked_at") == [(build.START,)]


def test_a_pruned_session_leaves_what_was_recorded_and_a_forgotten_one_nothing(
    session: Store,
) -> None:
    tell(session, entry="tool", cost_usd=0.5)
    now = build.START + 500 * 86_400_000
    prune(session, now=now, tape_days=90, index_days=400, dry_run=False)
    assert read(session, "cost_usd, input_tokens, root_id") == [(0.5, None, None)]


def test_a_use_recorded_without_a_time_is_of_the_moment_it_was_first_recorded(store: Store) -> None:
    before = int(time.time() * 1000)
    number = tell(store, invoked_at=AS_KNOWN)
    ((told_at,),) = read(store, "invoked_at")
    assert before <= told_at <= time.time() * 1000
    time.sleep(0.01)
    assert tell(store, invoked_at=AS_KNOWN, success=True) == number
    assert read(store, "invoked_at, success") == [(told_at, 1)]


@pytest.mark.parametrize("name", [None, "elsewhere"])
def test_a_use_with_only_an_end_has_that_moment_and_an_unknown_duration(
    store: Store, name: str | None
) -> None:
    end = build.START / 1000
    record_skill_invocation(
        store, session_id=name, skill_name="tidy", invoked_at=AS_KNOWN, completed_at=end
    )
    assert read(store, "invoked_at, duration_seconds") == [(build.START, None)]


def test_an_end_before_the_recorded_beginning_leaves_the_duration_unknown(
    session: Store,
) -> None:
    tell(session, entry="tool", invoked_at=AS_KNOWN, completed_at=build.START / 1000 - 5)
    assert read(session, "invoked_at, duration_seconds") == [(build.START, None)]


def test_a_use_recorded_without_a_time_keeps_that_of_its_pruned_session(session: Store) -> None:
    tell(session, entry="tool", invoked_at=AS_KNOWN)
    tell(session, skill_name="sweep", invoked_at=AS_KNOWN)
    found = read(session, "skill_name, invoked_at, day")
    now = build.START + 500 * 86_400_000
    prune(session, now=now, tape_days=90, index_days=400, dry_run=False)
    assert read(session, "skill_name, invoked_at, day") == found
    assert found[0][2] == "2026-11-15"


def test_a_forgotten_session_takes_along_what_was_recorded(session: Store) -> None:
    tell(session, entry="tool", cost_usd=0.5)
    forget(session, find_session(session, CHAT))
    for table in ("skill_invocations", "skill_told", "skill_charge"):
        assert session.query(f"select * from {table}") == []
