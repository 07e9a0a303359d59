"""Invented repositories whose sessions stumble over planted standing causes, and over themselves.

A standing cause hits sessions whatever their task is, and has a cure that most of them find. The
other failures belong to one task: own edits, reproductions, scratch files, guessed paths. The steps
are those of the demo's engine; what each failure is, is known.
"""

from collections.abc import Callable
from typing import NamedTuple

from relight.cli.demo.claude_transcript import answer, make_tool_use
from relight.cli.demo.dice import Dice
from relight.cli.demo.story import StoryStep
from relight.judging.lessons import TaughtSession
from relight.judging.recoveries import TriedCall
from relight.judging.stumbles import find_stumbles
from relight.judging.verdicts import judge_call

SESSIONS = 24
HIT_CHANCES = (0.35, 0.6, 0.9)
CURED, OTHERWISE = 0.9, 0.05  # of the sessions that were hit
OWN_FAILURES = 2.0  # a session
AREAS = ("cart", "stock", "users", "mail", "search", "billing", "auth", "export", "feed", "audit")
WORDS = ("rounding", "paging", "sorting", "limits", "dates", "totals", "tokens", "names", "quota")
CWD = "/home/ada/src/shop"


class Planted(NamedTuple):
    """A standing cause: what fails, what the shell says, what cures it and how a lesson says so."""

    name: str
    failing: tuple[str, ...]
    says: str
    exit: int
    # what is run in place of the failed command, or before it
    instead: str
    before: str
    cure: str


class Played(NamedTuple):
    """A session with its truth: the planted cause of each failed step, None for an own failure."""

    session: TaughtSession
    truth: dict[int, str | None]


def run(line: str, out: str = "", exit: int = 0) -> StoryStep:
    return StoryStep(tool="run", target=line, out=out, exit=exit)


PLANTED = (
    Planted("python3", ("python {test}", "python {test} -v"),
            "bash: line 1: python: command not found", 127, "python3 {test}", "",
            "`python3`"),
    Planted("bin/test", ("pytest {test}", "python3 -m pytest -x {test}"),
            "/usr/bin/python3: No module named pytest", 1, "bin/test {test}", "",
            "`bin/test <path>`"),
    Planted("venv", ("python3 -m pytest {test}", "cd {cwd} && python3 -m pytest {test} -q"),
            "/usr/bin/python3: No module named pytest", 1, ".venv/bin/pytest {test}", "",
            "`.venv/bin/pytest <path>`"),
    Planted("npm ci", ("npm test -- {test}", "npm test -- {test} --silent"),
            "> shop@1.0.0 test\n> vitest {test}\n\nsh: 1: vitest: not found", 127, "", "npm ci",
            "`npm ci` first"),
    Planted("make dev", ("pytest {test}", "pytest -q {test}"),
            "ImportError while loading conftest '{cwd}/conftest.py'.\n"
            "ModuleNotFoundError: No module named 'shop_native'", 4, "", "make dev",
            "`make dev` first"),
    Planted("database", ("python3 manage.py test {area}", "python3 manage.py test {area} -v 2"),
            "django.db.utils.OperationalError: could not connect to server: Connection refused\n"
            "\tIs the server running on host \"localhost\" (127.0.0.1) and accepting\n"
            "\tTCP/IP connections on port 5432?", 1, "", "docker compose up -d db",
            "`docker compose up -d db` first"),
    Planted("settings", ("pytest {test}", "pytest {test} -x"),
            "E   KeyError: 'SHOP_SETTINGS'\nKeyError: 'SHOP_SETTINGS'", 1,
            "SHOP_SETTINGS=test pytest {test}", "", "with `SHOP_SETTINGS=test`"),
    Planted("too long", ("pytest tests", "pytest tests -q"),
            "Command timed out after 2m 0.0s", 143, "pytest tests -k {area}", "",
            "`pytest -k …`"),
    Planted("no cov", ("pytest --cov {test}", "pytest --cov -q {test}"),
            "usage: pytest [options] [file_or_dir]\n"
            "pytest: error: unrecognized arguments: --cov", 4, "pytest {test}", "",
            "`pytest <path>`"),
    Planted("frontend", ("npm run check", "npm run check -- --all"),
            "npm error Missing script: \"check\"\nnpm error", 1,
            "cd frontend && npm run check", "", "in `frontend`"),
    Planted("not executable", ("./scripts/test.sh {test}", "./scripts/test.sh {test} -v"),
            "bash: line 1: ./scripts/test.sh: Permission denied", 126,
            "bash scripts/test.sh {test}", "", "`bash scripts/test.sh <path>`"),
    Planted("docker", ("make e2e", "make e2e ARGS={area}"),
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker"
            " daemon running?\nmake: *** [Makefile:12: e2e] Error 1", 2, "",
            "systemctl start docker", "`systemctl start docker` first"),
)  # fmt: skip


def play_repository(dice: Dice, *, sessions: int = SESSIONS) -> tuple[list[Played], list[Planted]]:
    """Return the sessions of a repository with up to two standing causes, and these."""
    planted = dice.sample(PLANTED, dice.choice((0, 1, 1, 2)))
    chances = {one.name: dice.choice(HIT_CHANCES) for one in planted}
    played = [play_session(dice, number, planted, chances) for number in range(sessions)]
    return played, planted


def play_session(
    dice: Dice, number: int, planted: list[Planted], chances: dict[str, float]
) -> Played:
    """Return one session: reading, own failures, and the standing causes that hit it."""
    words = {
        "area": dice.choice(AREAS),
        "word": dice.choice(WORDS),
        "cwd": CWD,
        "n": str(number),
    }
    words["test"] = f"tests/{words['area']}/test_{words['word']}.py"
    hit = [one for one in planted if dice.is_lucky(chances[one.name])]
    parts = [_stumble(dice, one, words) for one in hit]
    many = min(4, int(dice.expovariate(1 / OWN_FAILURES) + 0.5))
    parts += [[(step, None) for step in dice.choice(OWN)(dice, words)] for _ in range(many)]
    dice.shuffle(parts)
    steps: list[tuple[StoryStep, str | None]] = [(run("ls -la", "src tests"), None)]
    for part in parts:
        steps += [*part, (run(f"cat src/{words['area']}.py", "def total(): ..."), None)]
    calls, truth = [], {}
    for place, (step, cause) in enumerate(steps, 1):
        call = _see(place, step)
        calls.append(call)
        if call.label == "error":
            truth[place] = cause
    return Played(TaughtSession(number, number * 3_600_000 + 1, find_stumbles(calls)), truth)


def _see(place: int, step: StoryStep) -> TriedCall:
    tool, arguments = make_tool_use(step, CWD)
    result, _, is_error = answer(step, CWD)
    verdict = judge_call(tool, arguments, result, is_error=is_error)
    return TriedCall(
        step=place,
        tool=tool,
        arguments=arguments,
        result=str(result),
        label=verdict.label,
        kind=verdict.kind,
        evidence=verdict.evidence,
    )


def _stumble(dice: Dice, one: Planted, words: dict[str, str]) -> list[tuple[StoryStep, str | None]]:
    """The steps of a session that a standing cause hits: a failure or two, and mostly the cure."""
    line = dice.choice(one.failing).format(**words)
    failed = (run(line, one.says.format(**words), one.exit), one.name)
    steps: list[tuple[StoryStep, str | None]] = [failed]
    if dice.is_lucky(0.3):
        steps += [(run("ls", "Makefile bin src tests"), None), failed]
    if dice.is_lucky(CURED):
        if one.before:
            steps.append((run(one.before, "done"), None))
        steps.append((run((one.instead or line).format(**words), "all is well"), None))
    elif dice.is_lucky(OTHERWISE * 10):
        steps.append((run(f"git stash && {line}", one.says.format(**words), one.exit), one.name))
    return steps


def _syntax(_: Dice, words: dict[str, str]) -> list[StoryStep]:
    path = f"src/{words['area']}.py"
    return [
        StoryStep(tool="edit", target=path, old="a", new="def f(:"),
        run(f"python3 {path}", f'  File "{path}", line 3\nSyntaxError: invalid syntax', 1),
        StoryStep(tool="edit", target=path, old="def f(:", new="def f():"),
        run(f"python3 {path}", "ok"),
    ]


def _reproduction(dice: Dice, words: dict[str, str]) -> list[StoryStep]:
    name = dice.choice(("repro", "reproduce_issue", f"check_{words['word']}", "debug", "verify"))
    error = dice.choice(("ValueError: bad total", "TypeError: cannot add", "KeyError: 'total'"))
    return [
        StoryStep(tool="write", target=f"{name}.py", text="from shop import total"),
        run(f"python3 {name}.py", f"Traceback (most recent call last):\n{error}", 1),
        StoryStep(tool="edit", target=f"src/{words['area']}.py", old="a", new="b"),
        run(f"python3 {name}.py", "12.50"),
    ]


def _assertion(_: Dice, words: dict[str, str]) -> list[StoryStep]:
    return [
        run(f"cat > t_{words['n']}.py <<'EOF'\nassert 1 == 2\nEOF\npython3 t_{words['n']}.py",
            "Traceback (most recent call last):\nAssertionError", 1),
        run(f"python3 t_{words['n']}.py", "ok"),
    ]  # fmt: skip


def _guess(dice: Dice, words: dict[str, str]) -> list[StoryStep]:
    path = f"src/{words['word']}/{words['area']}{dice.randint(1, 9)}.py"
    return [
        run(f"cat {path}", f"cat: {path}: No such file or directory", 1),
        StoryStep(tool="read", target=path, exit=1),
        run(f"ls src/{words['word']}", f"ls: cannot access 'src/{words['word']}': No such file"
            " or directory", 2),
    ]  # fmt: skip


def _scratch(_: Dice, words: dict[str, str]) -> list[StoryStep]:
    return [
        run("rm repro.py out.txt", "rm: cannot remove 'out.txt': No such file or directory", 1),
        run("rm -f repro.py out.txt"),
        run("python3 repro.py", f"python3: can't open file '{words['cwd']}/repro.py': [Errno 2]"
            " No such file or directory", 2),
    ]  # fmt: skip


def _broken_import(dice: Dice, words: dict[str, str]) -> list[StoryStep]:
    name = f"{words['word']}_{dice.choice('abcdefgh')}"
    return [
        StoryStep(tool="edit", target=f"src/{words['area']}.py", old="x", new=f"import {name}"),
        run(f"python3 -c 'import shop.{words['area']}'",
            f"ImportError: cannot import name '{name}' from 'shop.{words['area']}'", 1),
        StoryStep(tool="edit", target=f"src/{words['area']}.py", old=f"import {name}", new="x"),
        run(f"python3 -c 'import shop.{words['area']}'"),
    ]  # fmt: skip


def _helper(dice: Dice, words: dict[str, str]) -> list[StoryStep]:
    name = f"{words['word']}_helper{dice.randint(1, 99)}"
    return [
        StoryStep(tool="write", target="repro_two.py", text=f"import {name}"),
        run("python3 repro_two.py", f"ModuleNotFoundError: No module named '{name}'", 1),
        StoryStep(tool="write", target=f"{name}.py", text="x = 1"),
        run("python3 repro_two.py", "1"),
    ]


def _name_error(_: Dice, words: dict[str, str]) -> list[StoryStep]:
    return [
        StoryStep(tool="edit", target=f"src/{words['area']}.py", old="a", new="totl"),
        run(f"python3 -m shop.{words['area']}", "NameError: name 'totl' is not defined", 1),
        StoryStep(tool="edit", target=f"src/{words['area']}.py", old="totl", new="total"),
        run(f"python3 -m shop.{words['area']}", "ok"),
    ]


def _wrong_test(dice: Dice, words: dict[str, str]) -> list[StoryStep]:
    path = f"tests/test_{words['area']}{dice.randint(1, 99)}.py"
    return [
        run(f"ruff check {path}", f"error: {path}: No such file or directory (os error 2)", 2),
        run(f"ruff check tests/test_{words['area']}.py", "All checks passed!"),
    ]


Own = Callable[[Dice, dict[str, str]], list[StoryStep]]
OWN: tuple[Own, ...] = (
    _syntax, _reproduction, _reproduction, _assertion, _guess, _scratch, _broken_import, _helper,
    _name_error, _wrong_test,
)  # fmt: skip
