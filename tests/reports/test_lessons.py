"""Lessons of recorded sessions: read from their tapes once, and shown with their evidence."""

from pathlib import Path

import build
import build_lessons
import relight
from build_lessons import MISSING, SPARED, write_session
from relight.intake.retention import forget
from relight.reports.failures import read_cures
from relight.reports.lessons import list_lessons, read_new
from relight.reports.sessions import find_session
from relight.reports.trace import read_trace
from relight.store import Store
from relight.store.queries.filters import Filter

PROJECT = "/home/dev/shop"


def take(store: Store, home: Path, *numbers: int, **options: object) -> None:
    for number in numbers:
        write_session(home, number)
    build.import_home(store, home)


def test_a_lesson_names_cause_cure_counts_cost_and_the_failed_steps(
    tmp_path: Path, store: Store
) -> None:
    take(store, tmp_path, 1, 2, 3)
    write_session(tmp_path, 4, SPARED)
    build.import_home(store, tmp_path)
    (lesson,) = relight.find_lessons(store, project=PROJECT)
    assert (lesson.project, lesson.machine, lesson.is_sure) == (PROJECT, None, True)
    assert lesson.text == (
        "`python`: no module or command `python` (3 of 4 sessions)."
        " What worked: `python3` (3 sessions)."
    )
    assert (lesson.seen, lesson.sessions, lesson.cured_sessions) == (3, 3, 3)
    assert lesson.last_at == build.stamp(3 * 86_400)
    assert lesson.burnt_usd is not None
    for one in lesson.evidence:
        step = read_trace(store, find_session(store, one.session_id)).steps[one.step - 1]
        assert step.command == "python run.py"
        assert step.label == "error"
    assert relight.find_lessons(store, project="/home/dev/other") == []


def test_a_session_is_read_once_and_again_when_it_has_grown(tmp_path: Path, store: Store) -> None:
    take(store, tmp_path, 1, 2)
    assert list_lessons(store, Filter()).unread_sessions == 2
    assert read_new(store, Filter()) == 0
    assert [one.sessions for one in list_lessons(store, Filter()).lessons] == [2]
    take(store, tmp_path, 3)
    grown = write_session(tmp_path, 1, [*build_lessons.HIT, ("ls", "a", 0)])
    build.import_home(store, tmp_path)
    assert grown.exists()
    assert list_lessons(store, Filter()).unread_sessions == 2
    assert [one.sessions for one in relight.find_lessons(store)] == [3]


def test_reading_stops_when_its_time_is_over_and_goes_on_later(
    tmp_path: Path, store: Store
) -> None:
    take(store, tmp_path, 1, 2, 3)
    ticks = iter(range(100))
    assert read_new(store, Filter(), seconds=2, clock=lambda: next(ticks)) == 2
    assert read_new(store, Filter(), seconds=0, clock=lambda: 5) == 2
    assert read_new(store, Filter()) == 0


def test_projects_do_not_share_lessons(tmp_path: Path, store: Store) -> None:
    for number in (1, 2):
        write_session(tmp_path, number, cwd=f"/home/dev/{number}")
    build.import_home(store, tmp_path)
    assert relight.find_lessons(store) == []


def test_a_forgotten_session_teaches_nothing(tmp_path: Path, store: Store) -> None:
    take(store, tmp_path, 1, 2)
    (lesson,) = relight.find_lessons(store)
    forget(store, find_session(store, lesson.evidence[0].session_id))
    assert relight.find_lessons(store) == []
    assert store.query("select count(*) from stumble_reading") == [(1,)]


def test_causes_of_failed_calls_have_their_usual_cure(tmp_path: Path, store: Store) -> None:
    take(store, tmp_path, 1, 2)
    write_session(tmp_path, 3, [("python run.py", MISSING, 127)])
    build.import_home(store, tmp_path)
    read_new(store, Filter())
    (cure,) = read_cures(store, Filter())
    assert (cure.cause, cure.count, cure.sessions) == (
        "`python`: no module or command `python`",
        3,
        3,
    )
    assert (cure.cure, cure.cured) == ("`python3`", 2)
    assert read_cures(store, Filter(since="2026-11-17", until="2026-11-17"))[0].count == 1
    assert read_cures(store, Filter(project="other")) == []


def test_secrets_in_commands_are_not_in_lessons(tmp_path: Path, store: Store) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    lines = [
        ("./run a.py", "Error: SHOP_TOKEN is not set", 1),
        (f"SHOP_TOKEN={secret} ./run a.py", "ok", 0),
    ]
    for number in (1, 2):
        write_session(tmp_path, number, lines)
    build.import_home(store, tmp_path)
    (lesson,) = relight.find_lessons(store)
    assert lesson.cure == "with `SHOP_TOKEN=…`"
    assert secret not in str(store.query("select found from stumble_reading"))
