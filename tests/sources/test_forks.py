"""Forks of Claude Code: each turn belongs to the session that made it, in any order of reading."""

from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

import build
import build_forks
from build_forks import DEEP, FORK, MARKS, PARENT, SECOND, copy, talk
from relight.intake.rebuild import rebuild
from relight.intake.retention import forget, prune
from relight.model import row_id
from relight.reports.totals import report
from relight.store import Store
from relight.store.runs import find_unclaimed_sessions

FAMILY = build_forks.family()
DAY = 86_400_000


def read_all(home: Path, steps: list[tuple[str, Any]]) -> dict[str, Any]:
    """The content of a store that read these pieces one by one, each with its own import."""
    with build.open_home(home) as store:
        for path, lines in steps:
            build_forks.append(home, path, lines)
            build.import_home(store, home, sources=["claude-code"])
        return build.dump(store)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return read_all(tmp_path_factory.mktemp("whole"), list(FAMILY.items()))


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with build.open_home(tmp_path) as opened:
        for path, lines in FAMILY.items():
            build_forks.append(tmp_path, path, lines)
        build.import_home(opened, tmp_path, sources=["claude-code"])
        yield opened


def session_id(key: str) -> int:
    return row_id("session", "claude-code", key)


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("order", [(PARENT, FORK), (FORK, PARENT)])
def test_a_turn_belongs_to_the_session_that_made_it(
    tmp_path: Path, mark: str | None, order: tuple[str, str]
) -> None:
    first = talk(PARENT, "one", 0)
    files = {PARENT: first, FORK: copy(first, FORK, talk(FORK, "two", 100), mark)}
    with build.open_home(tmp_path) as opened:
        for name in order:
            build_forks.append(tmp_path, f"{name}.jsonl", files[name])
            build.import_home(opened, tmp_path)
        # two turns and a call each
        assert build_forks.count_turns(opened) == {PARENT: 3, FORK: 3}
        assert build_forks.parents(opened) == {PARENT: (None, None), FORK: ("fork", PARENT)}
        assert opened.query("select count(*) from shared_turn") == [(2,)]
        found = {row.session: row.wall_seconds for row in report(opened, ("session",)).rows}
        # the head of a fork is its start; without one it begins with its first own line
        if mark is not None:
            assert found == {f"claude-code:{PARENT}": 3.0, f"claude-code:{FORK}": 3.0}


@pytest.mark.parametrize("mark", MARKS[:3])
def test_the_oldest_fork_owns_turns_whose_session_was_never_read(tmp_path: Path, mark: str) -> None:
    first = talk(PARENT, "one", 0)
    older = copy(first, SECOND, talk(SECOND, "two", 100), mark)
    younger = copy(first, FORK, talk(FORK, "three", 200), mark)
    with build.open_home(tmp_path) as opened:
        for name, lines in ((FORK, younger), (SECOND, older)):
            build_forks.append(tmp_path, f"{name}.jsonl", lines)
            build.import_home(opened, tmp_path)
        assert build_forks.count_turns(opened) == {SECOND: 6, FORK: 3}
        # nobody knows yet which session it was made from
        assert build_forks.parents(opened) == {SECOND: ("fork", None), FORK: ("fork", None)}
        build_forks.append(tmp_path, f"{PARENT}.jsonl", first)
        build.import_home(opened, tmp_path)
        assert build_forks.count_turns(opened) == {PARENT: 3, SECOND: 3, FORK: 3}
        assert set(build_forks.parents(opened).values()) == {(None, None), ("fork", PARENT)}


def test_a_family_has_its_turns_and_parents(store: Store) -> None:
    counts = build_forks.count_turns(store)
    assert counts == {PARENT: 6, f"{PARENT}/a1": 3, FORK: 3, f"{FORK}/b1": 3, DEEP: 3, SECOND: 3}
    assert build_forks.parents(store) == {
        PARENT: (None, None),
        FORK: ("fork", PARENT),
        DEEP: ("fork", FORK),
        SECOND: ("fork", PARENT),
    }
    # 7 tokens that only the parent's total shows, and 5 more of the fork's, which inherited those
    rows = store.query(
        "select session.key, input_tokens from turn join session on session.id = session_id"
        " where total_id is not null order by input_tokens"
    )
    assert rows == [(FORK, 5), (PARENT, 7)]


@pytest.mark.parametrize("number", range(24))
def test_any_order_of_files_gives_the_same_rows(
    tmp_path: Path, whole: dict[str, Any], number: int
) -> None:
    main = [path for path in FAMILY if "/" not in path]
    order = [*list(permutations(main))[number], *(path for path in FAMILY if "/" in path)]
    if number % 2:
        order.reverse()
    assert read_all(tmp_path, [(path, FAMILY[path]) for path in order]) == whole


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_pieces_gives_the_same_rows(
    tmp_path: Path, whole: dict[str, Any], seed: int
) -> None:
    dice = Random(seed)
    waiting = {path: list(lines) for path, lines in FAMILY.items()}
    steps = []
    while waiting:
        path = dice.choice(sorted(waiting))
        size = dice.randint(1, 6)
        steps.append((path, waiting[path][:size]))
        waiting[path] = waiting[path][size:]
        if not waiting[path]:
            del waiting[path]
    found = read_all(tmp_path, steps)
    with build.open_home(tmp_path) as opened:
        rebuild(opened)
        again = build.dump(opened)
    # lines above the first message are on no tape if they are read alone: the state has their time
    for content in (found, again):
        assert {**content, "tape": None} == {**whole, "tape": None}


def test_a_rebuild_gives_the_same_rows(store: Store, whole: dict[str, Any]) -> None:
    rebuild(store)
    assert build.dump(store) == whole


@pytest.mark.parametrize("name", [PARENT, FORK, DEEP, SECOND])
def test_a_forgotten_session_leaves_its_turns_as_if_it_was_never_read(
    store: Store, tmp_path: Path, name: str
) -> None:
    forget(store, session_id(name))
    left = [(path, lines) for path, lines in FAMILY.items() if not path.startswith(name)]
    assert build.dump(store) == read_all(tmp_path / "without", left)
    after = build.dump(store)
    rebuild(store)
    assert build.dump(store) == after


@pytest.mark.parametrize("name", [PARENT, FORK, DEEP, SECOND])
def test_figures_stay_when_a_tape_of_the_family_is_pruned(store: Store, name: str) -> None:
    before = report(store, ("session",))
    with store.transaction() as database:
        # all others go on later
        database.execute("update session set ended_at = ended_at + ? where key <> ?", (DAY, name))
        database.execute(
            "update session set ended_at = ended_at - ? where root_id in"
            " (select id from session where key = ?) and key <> ?",
            (DAY, name, name),
        )
    ends = store.query("select ended_at from session where key = ?", (name,))[0][0]
    now = ends + DAY // 2 + DAY
    assert prune(store, now=now, tape_days=1, index_days=None, dry_run=False).sessions == 0
    assert store.query("select key from session where is_frozen = 1 and id = root_id") == [(name,)]
    rebuild(store)
    assert report(store, ("session",)).total == before.total
    counts = build_forks.count_turns(store)
    assert counts == {PARENT: 6, f"{PARENT}/a1": 3, FORK: 3, f"{FORK}/b1": 3, DEEP: 3, SECOND: 3}
    assert build_forks.parents(store)[DEEP] == ("fork", FORK)


def test_a_frozen_fork_gives_turns_back_to_a_parent_that_is_read_later(tmp_path: Path) -> None:
    first = talk(PARENT, "one", 0)
    fork = copy(first, FORK, talk(FORK, "two", 100), "queue-operation")
    with build.open_home(tmp_path) as opened:
        build_forks.append(tmp_path, f"{FORK}.jsonl", fork)
        build.import_home(opened, tmp_path)
        prune(opened, now=build.START + 9 * DAY, tape_days=1, index_days=None, dry_run=False)
        build_forks.append(tmp_path, f"{PARENT}.jsonl", first)
        build.import_home(opened, tmp_path)
        rebuild(opened)
        assert build_forks.count_turns(opened) == {PARENT: 3, FORK: 3}
        assert build_forks.parents(opened)[FORK] == ("fork", PARENT)


def test_a_session_that_is_resumed_is_no_fork(tmp_path: Path) -> None:
    head = {"type": "queue-operation", "operation": "enqueue", "sessionId": PARENT}
    lines = [
        head | {"timestamp": build.stamp(0)},
        *talk(PARENT, "one", 0.2),
        head | {"timestamp": build.stamp(50)},
        *talk(PARENT, "two", 50.2),
    ]
    with build.open_home(tmp_path) as opened:
        build_forks.append(tmp_path, f"{PARENT}.jsonl", lines)
        build.import_home(opened, tmp_path)
        assert build_forks.parents(opened) == {PARENT: (None, None)}
        assert opened.query("select forked_at from session") == [(None,)]


def test_a_snapshot_just_after_the_first_prompt_makes_no_fork(tmp_path: Path) -> None:
    lines = talk(PARENT, "one", 1)
    head = build_forks.snapshot(lines[0]["uuid"], build.stamp(1.004))
    with build.open_home(tmp_path) as opened:
        build_forks.append(tmp_path, f"{PARENT}.jsonl", [head, *lines])
        build.import_home(opened, tmp_path)
        rows = opened.query("select parent_kind, forked_at, started_at from session")
        assert rows == [(None, None, build.START + 1000)]


def test_a_fork_of_a_forgotten_codex_session_is_read(tmp_path: Path) -> None:
    child = "01a1dd3f-17d7-7420-9fbf-d960215b41b5"
    usage = build.codex_usage(900)
    with build.open_home(tmp_path) as opened:
        build.write_codex(tmp_path, [build.codex_meta(), build.codex_count(1, usage, usage)])
        build.import_home(opened, tmp_path)
        forget(opened, row_id("session", "codex", build.CODEX_SESSION))
        meta = build.codex_meta(child, forked_from_id=build.CODEX_SESSION)
        build.write_codex(tmp_path, [meta, build.codex_count(9, usage, usage)], name=child)
        build.import_home(opened, tmp_path)
        before = opened.query("select key, parent_id, parent_kind from session")
        assert before == [(child, None, None)]
        rebuild(opened)
        assert opened.query("select key, parent_id, parent_kind from session") == before


def test_a_fork_can_be_the_session_of_a_jobs_run(store: Store) -> None:
    begin = build.START + 99_000
    found = find_unclaimed_sessions(store, source="claude-code", begin=begin, end=begin + 5000)
    assert [one.name for one in found] == [f"claude-code:{FORK}"]
