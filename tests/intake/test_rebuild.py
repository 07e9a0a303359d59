from pathlib import Path

import pytest

import build
from relight.intake.rebuild import rebuild
from relight.intake.retention import forget, prune
from relight.reports.totals import report
from relight.store import Store

DAY = 86_400_000


@pytest.fixture
def store(tmp_path: Path, store: Store) -> Store:
    """A store with a fork, a sub-agent, a growing file, a Hermes session and a chat file."""
    path = build.write_claude(tmp_path, build.claude_session()[:3])
    build.import_home(store, tmp_path)
    path.write_bytes(build.as_lines(build.claude_session()))
    fork = "00000000-bbbb-4bbb-8bbb-222222222222"
    copied = [line | {"sessionId": fork} for line in build.claude_session()]
    build.write_claude(tmp_path, copied, name=fork)
    agent = path.parent / build.CLAUDE_SESSION / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(build.as_lines([build.claude_answer("m_s", agentId="a1", isSidechain=True)]))
    build.hermes_session(build.open_hermes(tmp_path))
    build.import_home(store, tmp_path)
    return store


@pytest.mark.parametrize("workers", [1, 2])
def test_a_rebuild_gives_the_same_figures(store: Store, workers: int) -> None:
    before = build.dump(store)
    rebuild(store, workers=workers)
    assert build.dump(store) == before


def test_a_rebuild_keeps_recorded_prices_and_reprices_when_asked(store: Store) -> None:
    with store.transaction() as database:
        database.execute("update turn set cost_nanos = 7, cost_source = 'old' where calls = 1")
    rebuild(store)
    assert store.query("select distinct cost_nanos from turn where calls = 1") == [(7,)]
    rebuild(store, reprice=True)
    assert (7,) not in store.query("select cost_nanos from turn")


def test_a_rebuild_applies_newer_redaction_to_old_tapes_when_asked(store: Store) -> None:
    from relight.store.write import tape

    secret = b"ghp_" + b"aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    (part, records) = store.query("select id, records from tape_part limit 1")[0]
    spoiled = tape.decompress(records).replace(b"invoice", secret)
    with store.transaction() as database:
        database.execute(
            "update tape_part set records = ? where id = ?", (tape.compress(spoiled), part)
        )
    rebuild(store, again_redact=True)
    tapes = [tape.decompress(row[0]) for row in store.query("select records from tape_part")]
    assert not any(secret in text for text in tapes)


def test_pruned_tapes_leave_figures_that_no_rebuild_touches(store: Store) -> None:
    before = report(store, ("session",))
    now = build.START + 200 * DAY
    planned = prune(store, now=now, tape_days=90, index_days=None, dry_run=True)
    assert planned.tapes > 0
    assert store.query("select count(*) from tape_part") != [(0,)]
    assert prune(store, now=now, tape_days=90, index_days=None, dry_run=False) == planned
    assert store.query("select count(*) from tape_part") == [(0,)]
    rebuild(store)
    assert report(store, ("session",)) == before


def test_pruning_the_index_takes_whole_sessions(store: Store) -> None:
    now = build.START + 500 * DAY
    prune(store, now=now, tape_days=90, index_days=400, dry_run=False)
    for table in ("session", "turn", "tool_call", "tape_part", "session_day", "control_total"):
        assert store.query(f"select count(*) from {table}") == [(0,)]


def test_a_forgotten_session_is_gone_and_stays_gone(store: Store) -> None:
    (session_id,) = store.query("select id from session where source = 'hermes'")[0]
    forget(store, session_id)
    assert store.query("select 1 from session where source = 'hermes'") == []
    rebuild(store)
    assert store.query("select 1 from session where source = 'hermes'") == []


def test_nothing_of_a_forgotten_session_is_left_in_the_file(tmp_path: Path) -> None:
    build.write_claude(tmp_path, [build.claude_prompt("zebra crossing"), build.claude_answer("m")])
    with build.open_home(tmp_path) as store:
        build.import_home(store, tmp_path)
        store.run("pragma wal_checkpoint(truncate)")
        assert b"zebra crossing" in store.path.read_bytes()
        forget(store, store.query("select id from session")[0][0])
        assert b"zebra" not in store.path.read_bytes()


def test_what_a_fork_copied_passes_to_it_when_the_owner_is_forgotten(store: Store) -> None:
    owner = "00000000-bbbb-4bbb-8bbb-222222222222"
    (session_id,) = store.query("select id from session where key = ?", (owner,))[0]
    before = report(store, ("day",)).total
    forget(store, session_id)
    after = report(store, ("day",)).total
    assert (after.turns, after.tool_calls) == (before.turns, before.tool_calls)
    assert store.query("select count(*) from shared_turn") == [(0,)]


def test_a_forgotten_file_that_grows_is_not_read_again(store: Store, tmp_path: Path) -> None:
    (session_id,) = store.query("select id from session where key = ?", (build.CLAUDE_SESSION,))[0]
    forget(store, session_id)
    path = next((tmp_path / ".claude").rglob(f"{build.CLAUDE_SESSION}.jsonl"))
    with path.open("ab") as file:
        file.write(build.as_lines([build.claude_answer("msg_more", at=70)]))
    build.import_home(store, tmp_path)
    assert store.query("select 1 from session where key = ?", (build.CLAUDE_SESSION,)) == []
