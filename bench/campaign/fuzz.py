"""Random and mutated inputs to whatever reads them: no traceback, no hang, nothing else lost."""

import json
import random
import re
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.campaign import hostile
from bench.campaign.score import Clock, Score
from bench.campaign.speed import measure_growth
from bench.campaign.stores import make_home
from bench.trees import generate_tree
from relight.chat.blocks import strip_block
from relight.cli.demo.own_records import write_settings
from relight.config import read_config
from relight.errors import RelightError
from relight.intake.importing import import_all
from relight.intake.rebuild import rebuild
from relight.judging.failures import classify_error, find_kind
from relight.judging.shell import split_stages
from relight.judging.verdicts import judge_call
from relight.redact import redact
from relight.reports.totals import report
from relight.store import Store, open_store
from relight.web.api import QUERIES
from relight.web.pages import PAGES
from relight.work.agent.page_text import read_html
from relight.work.jobs.schedules import find_next, read_schedule

# far above what any of these takes, so that a loaded machine hangs nothing
HANG_SECONDS = 30
FILES = 20
SCHEDULE_WORDS = (
    *(
        "every",
        "30m",
        "0s",
        "1s",
        "99999999w",
        "-1m",
        "daily",
        "07:00",
        "25:00",
        "weekdays",
        "last",
    ),
    *(
        "monthly",
        "31",
        "0",
        "*/0",
        "*/15",
        "9-17",
        "* * * * *",
        "0 0 31 2 *",
        "60 * * * *",
        "fri-mon",
    ),
    *("@daily", "@reboot", "2027-01-31", "18:00", "L", "5#3", "weekly", "mon", "hourly", "?", "*"),
    *("1-5/2", "9999-12-31 23:59", "0001-01-01 00:00", "2026-03-29 02:30", "\x00", "١٢"),
)
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia")
PARAMETERS = (
    *("", " ", "0", "-1", "1e9", "NaN", "9" * 40, "null", "30d", "-30d", "99999999d", "2026-11-15"),
    *(
        "2026-13-45",
        "0001-01-01",
        "9999-12-31",
        "today",
        "a,b",
        ",",
        "day,model,project",
        "day,day",
    ),
    *(
        "\x00",
        "\udcff",
        "💥",
        "..",
        "'",
        '"',
        "relight:x",
        ":",
        "s" * 201,
        "1.5",
        "0x10",
        "asc",
        "cost",
    ),
    *("' or 1=1 --", "%", "*", 'NEAR(a b)"', "a AND", "(", "title:x", "2026-11-15T00:00:00+99:99"),
)


class Hung(BaseException):
    """Raised by the alarm; no handler of errors catches it."""


def run(folder: Path, dice: random.Random, clock: Clock) -> Score:
    score = Score("fuzz", "lost", "hung")
    fuzz_texts(score, dice, clock.part(0.2))
    fuzz_schedules(score, dice, clock.part(0.1))
    fuzz_settings(score, folder, dice, clock.part(0.1))
    fuzz_records(score, folder, dice, clock.part(0.3))
    fuzz_requests(score, folder, dice, clock.part(0.2))
    score.notes += measure_growth(clock.part(0.1))
    return score


@contextmanager
def guarded(score: Score, what: str) -> Iterator[None]:
    """A block whose exceptions and hangs are counted; an error in words is a proper answer."""

    def ring(*_: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    score.counts["tried"] += 1
    try:
        yield
    except RelightError:
        pass
    except Hung:
        score.add("hung", f"{what} took more than {HANG_SECONDS} s")
    except Exception as error:  # noqa: BLE001 - any exception is what is looked for
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(frames))
        score.add("lost", f"{what}: {type(error).__name__}: {str(error)[:120]} at {places}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def list_readers() -> dict[str, Callable[[str], object]]:
    """Functions that take any text."""
    return {
        "redact": lambda text: redact(text.encode("utf-8", "replace"), key=b"k" * 32, known=()),
        "strip_block": strip_block,
        "split_stages": split_stages,
        "read_html": read_html,
        "find_kind": lambda text: find_kind(text, is_tool=True),
        "classify_error": classify_error,
        "judge_call of a command": lambda text: judge_call("Bash", {"command": text}, "ok"),
        "judge_call of a result": lambda text: judge_call("Bash", {"command": "make"}, text),
        "judge_call of fields": lambda text: judge_call("mcp_x", {"a": text}, {"error": text}),
    }


def fuzz_texts(score: Score, dice: random.Random, clock: Clock) -> None:
    readers = list_readers()
    for _ in clock.rounds():
        pieces = dice.choices(hostile.REPEATED + hostile.MARKUP, k=dice.choice((1, 1, 2, 3)))
        text = hostile.repeat("".join(pieces), dice.choice((100, 3_000, 60_000)))
        name = dice.choice(list(readers))
        with guarded(score, f"{name} of {pieces!r} × {len(text)}"):
            readers[name](text)


def fuzz_schedules(score: Score, dice: random.Random, clock: Clock) -> None:
    for _ in clock.rounds():
        text = " ".join(dice.choices(SCHEDULE_WORDS, k=dice.randint(1, 6)))
        zone, made_at = dice.choice(ZONES), dice.choice((0, 1794700800000, 253402300799000))
        with guarded(score, f"schedule {text!r} in {zone!r}"):
            schedule = read_schedule(text, timezone=zone, made_at=made_at)
            at: int | None = 1794700800000
            for _ in range(5):
                at = None if at is None else find_next(schedule, at)


def fuzz_settings(score: Score, folder: Path, dice: random.Random, clock: Clock) -> None:
    home = folder / "settings"
    home.mkdir(mode=0o700)
    write_settings(home)
    text = (
        home / "config.toml"
    ).read_text() + '\n[serve]\nhosts = ["box.lan"]\n[jobs]\nwarn_at = 0.8\n'
    for _ in clock.rounds():
        changed = hostile.mutate_lines(text, dice)
        (home / "config.toml").write_bytes(changed)
        with guarded(score, f"config {changed[:200]!r}"):
            read_config(home)


def fuzz_records(score: Score, folder: Path, dice: random.Random, clock: Clock) -> None:
    """Mutated sessions beside whole ones: imported, rebuilt, reported; the whole ones are there."""
    generate_tree(folder / "good", claude_mb=0.1, codex_mb=0.1, seed=dice.randrange(10**6))
    good = {path.relative_to(folder / "good"): path for path in (folder / "good").rglob("*.jsonl")}
    lines = {path: file.read_bytes().splitlines() for path, file in good.items()}
    for number in clock.rounds():
        tree = folder / f"mutated-{number}"
        planted = 0
        for place in range(FILES):
            path = dice.choice(sorted(lines))
            at = dice.randrange(len(lines[path]))
            some = lines[path][at : at + dice.randint(2, 14)]
            changed = [hostile.mutate(one, dice) if dice.random() < 0.7 else one for one in some]
            is_claude = path.parts[0] == ".claude"
            if is_claude:
                planted += 1
                changed += plant(
                    f"{number:04x}{place:04x}-0000-4000-8000-{dice.randrange(16**12):012x}"
                )
            target = tree / path.parent / f"{path.stem[:20]}{place:04d}-{path.stem[-36:]}.jsonl"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(b"\n".join(changed) + b"\n")
        home = make_home(folder / f"home-{number}")
        with guarded(score, f"import of records, round {number}"), open_store(home) as store:
            take(store, tree)
            score.add("lost", "whole turns among mutated ones", planted - count_planted(store))
            rebuild(store)
            score.add("lost", "whole turns after a rebuild", planted - count_planted(store))
            report(store, ("day", "model"))
        score.counts["tried"] += FILES - 1


def plant(session: str) -> list[bytes]:
    """A whole exchange of Claude Code, recognised by its tokens."""
    common: dict[str, Any] = {
        "sessionId": session,
        "timestamp": "2026-11-10T10:00:00.000Z",
        "cwd": "/p",
    }
    common |= {"version": "2.1.0", "isSidechain": False}
    asked = {"type": "user", "uuid": "a", **common, "message": {"role": "user", "content": "hello"}}
    usage = {"input_tokens": 7071, "output_tokens": 5051}
    message: dict[str, Any] = {
        "id": f"m-{session}",
        "type": "message",
        "role": "assistant",
        "usage": usage,
    }
    message |= {"model": "claude-opus-4-6", "content": [{"type": "text", "text": "x"}]}
    said = {"type": "assistant", "uuid": "b", **common, "requestId": f"r-{session}"}
    return [json.dumps(one).encode() for one in (asked, {**said, "message": message})]


def take(store: Store, tree: Path) -> None:
    for _ in range(2):
        import_all(store, environment={"HOME": str(tree)}, workers=1)


def count_planted(store: Store) -> int:
    query = "select count(*) from turn where input_tokens = 7071 and output_tokens = 5051"
    return int(store.query(query)[0][0])


def fuzz_requests(score: Score, folder: Path, dice: random.Random, clock: Clock) -> None:
    """Every page and address with strange names and parameters: no status of 500 and above."""
    from starlette.testclient import TestClient

    from relight.cli.demo import write_demo
    from relight.web.app import create_app

    home = make_home(folder / "served")
    environment = write_demo(folder / "agents", now=datetime(2026, 11, 15, tzinfo=UTC))
    with open_store(home) as store:
        import_all(store, environment=environment, workers=1)
    paths = [query.path for query in QUERIES] + [page.path for page in PAGES]
    names = (
        "since",
        "until",
        "source",
        "model",
        "project",
        "search",
        "sort",
        "after",
        "by",
        "limit",
    )
    with TestClient(create_app(home), base_url="http://127.0.0.1:7717") as client:
        for _ in clock.rounds():
            path = re.sub(
                r"\{[^}]+\}", lambda _: _quote(dice.choice(PARAMETERS)) or "x", dice.choice(paths)
            )
            chosen = dice.sample(names, k=dice.randint(0, 3))
            words = "&".join(f"{name}={_quote(dice.choice(PARAMETERS))}" for name in chosen)
            with guarded(score, f"GET {path}?{words}"):
                status = client.get(f"{path}?{words}").status_code
                if status >= 500:
                    score.add("lost", f"GET {path}?{words} is answered {status}")


def _quote(value: Any) -> str:
    return quote(value, safe="", errors="surrogateescape")
