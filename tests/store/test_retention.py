"""What is let go goes with its sub-agents, and what is left still adds up."""

from pathlib import Path
from typing import Any

import pytest

import build
import build_skills
import relight
from build_skills import check_report, read
from relight.errors import RelightError
from relight.intake.retention import forget, prune
from relight.reports.sessions import find_session
from relight.reports.skills.uses import record_skill_invocation
from relight.store import Store

DAY_SECONDS = 86_400
ROOT = f"claude-code:{build.CLAUDE_SESSION}"
AGENT = f"{ROOT}/a1"
INDEX = (
    "session",
    "turn",
    "tool_call",
    "shared_turn",
    "session_day",
    "call_day",
    "listing",
    "position_day",
)


def write_tree(
    home: Path, *lines: dict[str, Any], ends: float = 4, copied: tuple[dict[str, Any], ...] = ()
) -> None:
    """A session with a skill, and a sub-agent of it that ends after so many seconds."""
    path = build.write_claude(home, [*build_skills.claude_skill("toolu_1", "tidy", at=1), *lines])
    build.write_agent(path, [*copied, build.claude_answer("m2", at=ends)])


def prune_index(store: Store, *, after_days: int) -> None:
    now = build.START + after_days * DAY_SECONDS * 1000
    prune(store, now=now, tape_days=None, index_days=100, dry_run=False)


@pytest.mark.parametrize("ends", [(4, 200 * DAY_SECONDS), (200 * DAY_SECONDS, 4)])
def test_a_session_is_pruned_with_its_sub_agents_when_the_last_of_them_is_old(
    tmp_path: Path, store: Store, ends: tuple[float, float]
) -> None:
    write_tree(tmp_path, build.claude_answer("m1", at=ends[0]), ends=ends[1])
    build.import_home(store, tmp_path)
    record_skill_invocation(
        store, session_id=AGENT, skill_name="sweep", invoked_at=build.START / 1000, cost_usd=0.5
    )
    before = build.dump(store)
    prune_index(store, after_days=210)
    assert build.dump(store) == before
    prune_index(store, after_days=400)
    assert not any(store.query(f"select * from {table}") for table in INDEX)
    assert read(store, "session_id, skill_name, cost_usd") == [(AGENT, "sweep", 0.5)]


@pytest.mark.parametrize("is_forgotten", [True, False])
def test_a_session_whose_sub_agent_has_copied_it_can_go_as_well(
    tmp_path: Path, store: Store, is_forgotten: bool
) -> None:
    lines = (build.claude_prompt("go"), *build_skills.claude_skill("toolu_2", "tidy", at=2))
    write_tree(tmp_path, *lines, copied=lines)
    build.import_home(store, tmp_path)
    assert store.query("select * from shared_turn")
    if is_forgotten:
        forget(store, find_session(store, ROOT))
    else:
        prune_index(store, after_days=400)
    tables = (*INDEX, "skill_entry", "skill_invocations", "skill_charge")
    assert not any(store.query(f"select * from {table}") for table in tables)


def test_a_forgotten_sub_agent_is_no_longer_in_its_sessions_skills(
    tmp_path: Path, store: Store
) -> None:
    write_tree(tmp_path)
    build.import_home(store, tmp_path)
    told: dict[str, Any] = {
        "session_id": AGENT,
        "invoked_at": build.START / 1000 + 4,
        "cost_usd": 0.5,
    }
    record_skill_invocation(store, skill_name="sweep", **told)
    record_skill_invocation(store, skill_name="tidy", **told)
    assert read(store, "skill_name, turns, cost_usd") == [("sweep", 0, 0.5), ("tidy", 2, 0.5)]
    forget(store, find_session(store, AGENT))
    check_report(store)
    assert read(store, "skill_name, turns, share, is_told") == [("tidy", 1, 1.0, 0)]
    assert store.query("select * from skill_charge") == []


def test_a_session_has_no_skill_when_the_sub_agent_that_loaded_it_is_forgotten(
    tmp_path: Path, store: Store
) -> None:
    skill = build_skills.claude_skill("toolu_2", "tidy", at=2)
    path = build.write_claude(tmp_path, [build.claude_answer("m1", at=1)])
    build.write_agent(path, skill)
    build.import_home(store, tmp_path)
    assert read(store, "session_id, turns") == [(ROOT, 2)]
    forget(store, find_session(store, AGENT))
    assert read(store, "id") == []
    check_report(store)


def test_a_session_forgotten_while_it_goes_on_does_not_come_back(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store, relight.record(store, "mine") as rec:
        rec.message("user", "the zebra is blue")
        rec.turn(input_tokens=10, output_tokens=5)
        forget(store, find_session(store, "mine"))
        rec.message("user", "the zebra is green")
        rec.turn(input_tokens=10, output_tokens=5)
        assert store.query("select * from session") == []
        assert store.query("select * from tape_part") == []


@pytest.mark.sqlite("it looks into the file")
def test_a_sub_agent_on_its_sessions_own_tape_is_forgotten_only_with_it(
    tmp_path: Path, store: Store
) -> None:
    side = build.claude_prompt("the zebra is blue", at=2, isSidechain=True, uuid="side-1")
    build.write_claude(tmp_path, [*build.claude_session(), side])
    build.import_home(store, tmp_path)
    with pytest.raises(RelightError, match="on the tape of") as caught:
        forget(store, find_session(store, f"{ROOT}/sidechain-side-1"))
    assert caught.value.hint == f"forget that one: relight forget {ROOT}"
    assert forget(store, find_session(store, build.CLAUDE_SESSION)) == 2
    assert b"zebra" not in store.path.read_bytes()


def read_files(store: Store) -> bytes:
    """Everything that the store has on disk: the database and its log."""
    return b"".join(path.read_bytes() for path in store.path.parent.glob("relight.db*"))


@pytest.mark.sqlite("it looks into the file")
def test_pruning_leaves_no_words_in_the_file(tmp_path: Path, store: Store) -> None:
    for number in range(30):
        prompt = build.claude_prompt(f"the zebra{number} is blue {'and striped ' * 50}", at=1)
        key = f"{number:08}-0000-4000-8000-000000000000"
        lines = [{**one, "sessionId": key} for one in (prompt, build.claude_answer("m1", at=2))]
        build.write_claude(tmp_path, lines, name=key)
    build.import_home(store, tmp_path)
    now = build.START + 200 * DAY_SECONDS * 1000
    # the tapes went before: then the index alone is pruned
    prune(store, now=now, tape_days=100, index_days=None, dry_run=False)
    assert b"zebra" in read_files(store)
    prune(store, now=now, tape_days=100, index_days=100, dry_run=False)
    assert store.query("select count(*) from session") == [(0,)]
    assert b"zebra" not in read_files(store)


@pytest.mark.sqlite("it looks into the file")
def test_forgetting_keeps_no_path_and_reads_the_file_no_more(tmp_path: Path, store: Store) -> None:
    write_tree(tmp_path, build.claude_prompt("the zebra is blue", at=3))
    (path,) = [one for one in tmp_path.rglob("*.jsonl") if one.stem == build.CLAUDE_SESSION]
    build.import_home(store, tmp_path)
    folder = path.parent.name.encode()
    assert folder in read_files(store)
    forget(store, find_session(store, build.CLAUDE_SESSION))
    assert folder not in read_files(store)
    assert build.CLAUDE_SESSION.encode() not in read_files(store)
    assert sum(one.files for one in build.import_home(store, tmp_path)) == 0
    # the file grows, and is copied: still nothing of it is kept
    with path.open("ab") as file:
        file.write(build.as_lines([build.claude_prompt("the zebra is green", at=9)]))
    (path.parent / "copy.jsonl").write_bytes(path.read_bytes())
    build.import_home(store, tmp_path)
    assert store.query("select * from session") == []
    assert folder not in read_files(store)
    assert b"zebra" not in read_files(store)
    assert sum(one.files for one in build.import_home(store, tmp_path)) == 0
