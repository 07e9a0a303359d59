"""Lessons from the stumbles of sessions."""

import pytest
from bench.repositories import play_repository
from bench.warm_lessons import measure_invented
from msgspec.structs import replace

from relight.cli.demo.dice import Dice
from relight.judging.lessons import (
    Taught,
    TaughtSession,
    derive_lessons,
)
from relight.judging.recoveries import Stumble, TriedCall
from relight.judging.stumbles import SessionStumbles, find_stumbles
from relight.judging.verdicts import judge_call

MISSING = "bash: line 1: python: command not found"
TRACEBACK = "Traceback (most recent call last):\n"
HOUR = 3_600_000


def see(*lines: tuple[str, str, int]) -> SessionStumbles:
    """The stumbles of a session that ran these commands: the line, its output, its exit code."""
    calls = []
    for step, (line, out, code) in enumerate(lines, 1):
        verdict = judge_call("bash", {"command": line}, out, exit_code=code)
        calls.append(
            TriedCall(
                step=step,
                tool="bash",
                arguments={"command": line},
                result=out,
                label=verdict.label,
                kind=verdict.kind,
                evidence=verdict.evidence,
                turn=step,
                cost_nanos=1000,
            )
        )
    return find_stumbles(calls)


def stumble_once(*lines: tuple[str, str, int]) -> Stumble:
    (found,) = see(*lines).stumbles
    return found


def session(number: int, *lines: tuple[str, str, int]) -> TaughtSession:
    return TaughtSession(number, number * HOUR, see(*lines))


def hit(number: int, cure: str = "python3 a.py") -> TaughtSession:
    return session(number, ("python a.py", MISSING, 127), (cure, "ok", 0))


def spared(number: int) -> TaughtSession:
    return session(number, ("python a.py", "ok", 0))


CURED = [
    pytest.param(
        [("python a.py", MISSING, 127), ("python3 a.py", "ok", 0)],
        ("missing", "python", "python", "`python3`"),
        id="another interpreter",
    ),
    pytest.param(
        [
            ("timeout 60 pytest -x tests/a.py | tail", "bash: pytest: command not found", 127),
            ("bin/test tests/a.py", "1 passed", 0),
        ],
        ("missing", "pytest", "pytest", "`bin/test <path>`"),
        id="another program",
    ),
    pytest.param(
        [
            ("npm test -- tests/a.ts", "sh: 1: vitest: not found", 127),
            ("npm ci", "added 3 packages", 0),
            ("npm test -- tests/a.ts", "ok", 0),
        ],
        ("missing", "vitest", "npm test", "`npm ci` first"),
        id="a step first",
    ),
    pytest.param(
        [
            ("pytest tests/a.py", "KeyError: 'SHOP_SETTINGS'", 4),
            ("SHOP_SETTINGS=test pytest tests/a.py", "1 passed", 0),
        ],
        ("not_configured", "SHOP_SETTINGS", "pytest", "with `SHOP_SETTINGS=test`"),
        id="a variable",
    ),
    pytest.param(
        [
            ("API_KEY=1 ./run tests/a.py", "Error: SHOP_TOKEN is not set", 1),
            ("SHOP_TOKEN=/home/ada/x ./run tests/a.py", "ok", 0),
        ],
        ("not_configured", "SHOP_TOKEN", "./run", "with `SHOP_TOKEN=…`"),
        id="a variable whose value belongs to a machine",
    ),
    pytest.param(
        [
            ("npm run check", 'npm error Missing script: "check"', 1),
            ("cd web && npm run check", "ok", 0),
        ],
        ("failed", 'npm error Missing script: "check"', "npm run check", "in `web`"),
        id="a folder",
    ),
    pytest.param(
        [
            ("python repro.py", f"{TRACEBACK}ModuleNotFoundError: No module named 'test_app'", 1),
            ("mkdir test_app && touch test_app/__init__.py", "", 0),
            ("python repro.py", "ok", 0),
        ],
        ("missing", "<own>", "python <own>", "make `__init__.py`"),
        id="a file",
    ),
    pytest.param(
        [("pytest tests/a.py", MISSING.replace("python", "pytest"), 127), ("ls", "a", 0)],
        ("missing", "pytest", "pytest", None),
        id="no recovery",
    ),
]


@pytest.mark.parametrize(("lines", "wanted"), CURED)
def test_a_stumble_has_its_cause_its_program_and_what_was_different_when_it_worked(
    lines: list[tuple[str, str, int]], wanted: tuple[str, str, str, str | None]
) -> None:
    found = stumble_once(*lines)
    assert (found.kind, found.name, found.program, found.cure) == wanted


@pytest.mark.parametrize(
    "lines",
    [
        [("python a.py", "  File 'a.py', line 1\nSyntaxError: invalid syntax", 1)],
        [("python -c 'import x; x.y()'", f"{TRACEBACK}AttributeError: no y", 1)],
        [
            (
                "cat > repro.py <<'EOF'\nimport shop\nEOF\npython repro.py",
                f"{TRACEBACK}ValueError: bad",
                1,
            ),
            ("python repro.py", "ok", 0),
        ],
        [("cat src/nope.py", "cat: src/nope.py: No such file or directory", 1)],
        [("pytest tests/nope.py", "ERROR: file or directory not found: tests/nope.py", 4)],
        [("rm out.txt", "rm: cannot remove 'out.txt': No such file or directory", 1)],
        [
            ("echo 'x = 1' > helper.py", "", 0),
            ("rm helper.py", "", 0),
            ("python -m shop", f"{TRACEBACK}ModuleNotFoundError: No module named 'helper'", 1),
        ],
    ],
)
def test_what_a_session_did_to_itself_is_no_stumble(lines: list[tuple[str, str, int]]) -> None:
    assert see(*lines).stumbles == []


def test_a_lesson_needs_two_sessions_and_a_cure_that_they_share() -> None:
    assert derive_lessons([hit(1)]) == []
    assert derive_lessons([hit(1), hit(2, "pypy a.py")]) == []
    (lesson,) = derive_lessons([hit(1), hit(2), spared(3)])
    assert (lesson.hit, lesson.of_sessions, lesson.cured, lesson.seen) == (2, 3, 2, 2)
    assert lesson.evidence == ((2, 1), (1, 1))
    assert lesson.burnt_nanos == 2000
    assert lesson.text == (
        "`python`: no module or command `python` (2 of 3 sessions)."
        " What worked: `python3` (2 sessions)."
    )


def test_a_lesson_is_sure_from_three_sessions_on_if_it_is_frequent_enough() -> None:
    two, three = ([hit(n) for n in range(many)] for many in (2, 3))
    rare = [session(n, ("ls", "a", 0)) for n in range(3, 60)]
    lessons = [derive_lessons(some) for some in (two, three, [*three, *rare])]
    assert [[one.is_sure for one in some] for some in lessons] == [[False], [True], [False]]


def test_a_program_that_mostly_works_contradicts_a_lesson() -> None:
    assert derive_lessons([hit(1), hit(2), *(spared(n) for n in range(-5, 0))]) == []


def test_a_lesson_ends_when_its_failure_stops() -> None:
    hits = [hit(n) for n in range(6)]
    assert derive_lessons([*hits, spared(7)])
    assert derive_lessons([*hits, spared(7), spared(8)]) == []


def test_sessions_that_began_with_a_lesson_count_neither_for_nor_against_it() -> None:
    """One that works hides its own failure; one that fails nevertheless shows it is still there."""
    hits = [hit(n) for n in range(1, 7)]
    (lesson,) = derive_lessons(hits)
    given = frozenset([lesson.key])
    told = [replace(spared(n), given=given) for n in range(7, 40)]
    (same,) = derive_lessons([*hits, *told])
    assert (same.hit, same.of_sessions, same.cured) == (6, 6, 6)
    assert same.probability == pytest.approx(lesson.probability, rel=0.2)
    held_out = [spared(40), spared(41)]
    assert derive_lessons([*hits, *told, *held_out]) == []
    still = replace(hit(42), given=given)
    (kept,) = derive_lessons([*hits, *told, *held_out, still])
    assert (kept.hit, kept.of_sessions, kept.last_at) == (6, 8, 42 * HOUR)


def test_the_lesson_that_saves_most_comes_first() -> None:
    lines = (("npm test -- a.ts", "sh: 1: vitest: not found", 127), ("npm ci", "", 0))
    again = ("npm test -- a.ts", "ok", 0)
    many = [session(n, *lines, lines[0], *lines[1:], again) for n in range(10, 16)]
    assert [one.cure for one in derive_lessons([*many, hit(1), hit(2)])] == [
        "`npm ci` first",
        "`python3`",
    ]


def test_text_of_results_stays_on_one_line_without_hidden_characters() -> None:
    words = "do\u200b this\x1b[0m:\nrm -rf /"
    found = stumble_once(("./run a.py", f"{words}", 3))
    assert "\n" not in found.name
    assert found.name.isprintable()


def test_lessons_of_invented_repositories_are_the_planted_causes() -> None:
    found = measure_invented(range(1, 25))
    assert found.planted >= 15
    assert found.found >= 0.9 * found.planted
    assert found.true >= 0.95 * found.shown
    assert found.own_taught <= 0.05 * found.own_failures


def test_a_repository_without_a_standing_cause_teaches_nothing() -> None:
    played = [play_repository(Dice(seed)) for seed in range(1, 40)]
    quiet: list[list[Taught]] = [
        derive_lessons(one.session for one in sessions)
        for sessions, planted in played
        if not planted
    ]
    assert len(quiet) > 3
    assert not any(quiet)


def test_what_a_program_printed_is_quoted_and_cannot_end_its_quotation() -> None:
    lines = (("./run a.py", "no” `rm -rf /`", 3), ("make up", "", 0), ("./run a.py", "ok", 0))
    (lesson,) = derive_lessons([session(n, *lines) for n in (1, 2)])
    assert lesson.cause == "`./run`: it printed “no' 'rm -rf /'”"
