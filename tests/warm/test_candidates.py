"""Candidates: good sessions are kept at an import, and used only once a person says so."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import build
import build_warm
import relight
from relight.store import Store, open_store
from relight.warm import automatic
from relight.warm.automatic import QUIET_MS, propose_candidates
from relight.warm.candidates import capture_candidates
from relight.warm.library import (
    find_template,
    read_candidates,
    read_templates,
    restore_template,
    retire_template,
)

TASK = "Fix the rounding in the invoices module"
TASKS = {
    TASK: ("pytest", "ruff", "mypy", "invoice"),
    "Deploy the search cluster to the staging region": ("kubectl", "helm", "docker", "vault"),
    "Parse dates with time zones in the importer": ("python", "grep", "sed", "tzdata"),
    "Write the quarterly figures into the ledger": ("ledger", "csvcut", "bc", "column"),
}


def open_home(folder: Path, **settings: Any) -> Store:
    home = folder / "relight"
    home.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {value!r}" for name, value in {"hold_out": 0.0, **settings}.items()]
    build.write_settings(home, "\n".join(['timezone = "UTC"', "[templates]", *lines]))
    return open_store(home)


def import_sessions(store: Store, folder: Path, tasks: Sequence[str], **facts: Any) -> list[int]:
    lines = [
        {"id": task, "messages": build_warm.session(task, TASKS[task]), "outcome": "success"}
        | facts
        for task in tasks
    ]
    path = folder / "chats.jsonl"
    path.write_bytes(build.as_lines(lines))
    build.import_home(store, folder, sources=["chat"], folder=path)
    return [found for (found,) in store.query("select id from session")]


def test_a_good_session_becomes_a_candidate_that_is_not_used(tmp_path: Path) -> None:
    with open_home(tmp_path) as store:
        import_sessions(store, tmp_path, [TASK])
        (waiting,) = read_candidates(store)
        assert (waiting.state, waiting.source_session) == ("candidate", f"chat:{TASK}")
        assert read_templates(store) == []
        assert relight.choose_template(store, TASK) is None
        restore_template(store, waiting.name)
        chosen = relight.choose_template(store, TASK)
        assert read_candidates(store) == []
    assert chosen is not None
    assert chosen.template.state == "live"


def test_a_later_import_proposes_nothing_twice(tmp_path: Path) -> None:
    with open_home(tmp_path) as store:
        sessions = import_sessions(store, tmp_path, [TASK])
        assert propose_candidates(store, sessions) == []
        (waiting,) = read_candidates(store)
        retire_template(store, waiting.name, why="no use")
        assert propose_candidates(store, sessions) == []
        assert find_template(store, waiting.name).state == "retired"


@pytest.mark.parametrize(
    "facts",
    [
        {"outcome": "failure"},
        {"outcome": None},
        {"messages": build_warm.session(TASK)[:9]},
    ],
)
def test_what_does_not_clear_the_bar_is_no_candidate(tmp_path: Path, facts: dict[str, Any]) -> None:
    with open_home(tmp_path) as store:
        import_sessions(store, tmp_path, [TASK], **facts)
        assert read_candidates(store) == []


def test_a_session_that_only_points_to_a_success_is_not_read(tmp_path: Path) -> None:
    with open_home(tmp_path, auto="off") as store:
        sessions = import_sessions(store, tmp_path, [TASK])
        store.config.templates.auto = "candidates"
        with store.transaction() as database:
            database.execute("update session set outcome = null, points_to = 'success'")
        store.tapes_read = set()
        assert propose_candidates(store, sessions) == []
        assert store.tapes_read == set()


def test_the_settings_say_what_an_import_does_with_good_sessions(tmp_path: Path) -> None:
    with open_home(tmp_path / "off", auto="off") as store:
        import_sessions(store, tmp_path / "off", [TASK])
        assert read_candidates(store) == read_templates(store) == []
    with open_home(tmp_path / "use", auto="use", max_live_per_category=2) as store:
        import_sessions(store, tmp_path / "use", list(TASKS))
        live = read_templates(store)
        assert {one.state for one in live} == {"live"}
        assert max(Counter(one.category for one in live).values()) == 2
        assert read_candidates(store) == []
    with pytest.raises(relight.RelightError, match=r"templates\.auto = 'always' is not valid"):
        open_home(tmp_path / "bad", auto="always")


def test_a_session_that_may_go_on_is_looked_at_again_later(tmp_path: Path) -> None:
    with open_home(tmp_path, auto="off") as store:
        sessions = import_sessions(store, tmp_path, [TASK])
        store.config.templates.auto = "candidates"
        with store.transaction() as database:  # as an agent's own file would leave it
            database.execute("update session set source = 'codex', told_outcome = null")
            database.execute("update session set ended_at = 1000000")
            database.execute("update tape_part set session_id = (select id from session)")
        assert propose_candidates(store, sessions, now=1001000) == []
        assert store.query("select session_id from candidate_due") == [(sessions[0],)]
        assert propose_candidates(store, [], now=1001000) == []
        with store.transaction() as database:
            database.execute("update session set source = 'chat', told_outcome = 'success'")
        made = propose_candidates(store, [], now=1000000 + QUIET_MS)
        assert [one.source_session for one in made] == [f"chat:{TASK}"]
        assert store.query("select session_id from candidate_due") == []


def test_an_import_gives_candidates_little_time(tmp_path: Path) -> None:
    ticks = iter(range(100))
    with open_home(tmp_path, auto="off") as store:
        sessions = import_sessions(store, tmp_path, list(TASKS))
        store.config.templates.auto = "candidates"
        made = propose_candidates(store, sessions, clock=lambda: next(ticks) * 0.3)
        assert len(made) == 1
        later = propose_candidates(store, [], clock=lambda: 0.0)
    assert {one.source_session for one in made + later} == {f"chat:{one}" for one in TASKS}


@pytest.mark.parametrize("most", [2, 5])
def test_an_import_proposes_as_many_as_may_wait_and_the_newest_sessions(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic, "PROPOSE_SECONDS", 3600.0)
    topics = ("rounding invoices", "parsing dates", "caching pages", "sorting queues")
    lines = []
    for number, topic in enumerate(topics):
        tools = [f"{word}{number}" for word in build_warm.TOOLS]
        messages = build_warm.session(topic, tools)
        started = f"2026-03-0{number + 1}T10:00:00Z"
        lines.append({"id": topic, "messages": messages, "outcome": "success"})
        lines[-1]["started_at"] = started
    path = tmp_path / "chats.jsonl"
    path.write_bytes(build.as_lines(lines))
    with open_home(tmp_path, max_live_per_category=most) as store:
        build.import_home(store, tmp_path, sources=["chat"], folder=path)
        left = read_candidates(store)
    assert {one.category for one in left} == {"coding"}
    assert {one.source_session for one in left} == {f"chat:{one}" for one in topics[-most:]}


def test_of_too_many_candidates_the_oldest_go(tmp_path: Path) -> None:
    with open_home(tmp_path, auto="off", max_live_per_category=2) as store:
        sessions = import_sessions(store, tmp_path, list(TASKS))
        store.config.templates.auto = "candidates"
        made = [
            propose_candidates(store, [one], now=QUIET_MS + n) for n, one in enumerate(sessions)
        ]
        by_kind = [one for (one,) in made if one.category == made[-1][0].category]
        left = {one.name for one in read_candidates(store)}
    assert {one.name for one in by_kind[-2:]} <= left
    assert not {one.name for one in by_kind[:-2]} & left


@pytest.mark.parametrize("name", ["mine", None])
def test_a_template_made_by_hand_takes_the_place_of_its_candidate(
    tmp_path: Path, name: str | None
) -> None:
    with open_home(tmp_path) as store:
        import_sessions(store, tmp_path, [TASK])
        made = relight.capture_template(store, f"chat:{TASK}", name=name)
        assert read_candidates(store) == []
        assert [one.name for one in read_templates(store)] == [made.name]


def test_auto_takes_candidates_while_there_is_room_and_nothing_goes(tmp_path: Path) -> None:
    with open_home(tmp_path, max_live_per_category=1) as store:
        build_warm.capture(store, TASK, TASKS[TASK], name="mine")
        import_sessions(store, tmp_path, list(TASKS))
        planned = capture_candidates(store, dry_run=True)
        assert [one.name for one in read_templates(store)] == ["mine"]
        found = capture_candidates(store)
        live = read_templates(store, with_retired=False)
        kinds = [one.category for one in live]
    assert "mine" in [one.name for one in live]
    assert len(set(kinds)) == len(kinds)
    assert [(one.session, one.reason) for one in planned] == [
        (one.session, one.reason) for one in found
    ]
    assert any("has its 1 templates in use already" in one.reason for one in found)
