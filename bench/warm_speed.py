"""How fast warm starts are chosen and reported, on invented templates and sessions."""

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.measure import best, judge, relight, run
from relight.chat.similarity import weigh_words
from relight.model import row_id
from relight.store import open_store
from relight.store.templates import Template, insert_version
from relight.warm import index
from relight.warm.choice import choose_template
from relight.warm.words import read_words

TEMPLATES = 10_000
REPORTED = 5000
# times an empty Python: 50 ms, 0.4 s and 2 s where it takes 12 ms
CHOOSE_LIMIT, WARM_LIMIT, REPORT_LIMIT = 4.2, 33, 167

Row = tuple[str, str, str, str]


def place_template(database: Any, template: Template) -> Template:
    added = database.execute(
        "insert into template (name, project, category, created_at) values (?, ?, ?, 1)",
        (template.name, template.project, template.category),
    )
    return msgspec.structs.replace(template, id=added.lastrowid, version=1)


def measure_report() -> Iterator[Row]:
    """The report on thousands of sessions that began warm or cold, as a command."""
    dice = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        with open_store(folder) as store, store.transaction() as database:
            insert_version(database, place_template(database, _invent_template(1, "a task")))
            for number in range(REPORTED):
                _add_dealt(database, f"s{number}", dice)
        seconds = run(relight("experiment", "report", "--home", folder, "--json"), {}).seconds
    yield compare(f"relight experiment report on {REPORTED:,} sessions", seconds, REPORT_LIMIT)


def compare(what: str, seconds: float, limit: float) -> Row:
    """A time against that of an empty Python."""
    ratio = seconds / best(15, lambda: run([sys.executable, "-c", "pass"], {})).seconds
    figure = f"{seconds * 1000:.0f} ms, {ratio:.1f} × an empty Python"
    return what, figure, f"{limit} ×", judge(ratio, limit)


def _add_dealt(database: Any, key: str, dice: random.Random) -> None:
    found = row_id("session", "chat", key)
    outcome = dice.choices(("success", "failure", None), (0.45, 0.25, 0.3))[0]
    arm = "cold" if dice.random() < 0.2 else "warm"
    database.execute(
        "insert into session (id, source, key, root_id, outcome, started_at, ended_at)"
        " values (?, 'chat', ?, ?, ?, 1000, 61000)",
        (found, key, found, outcome),
    )
    database.executemany(
        "insert into tool_call (id, session_id, at, finished_at, tool, fingerprint, label)"
        " values (?, ?, ?, ?, ?, 1, ?)",
        [
            (row_id("call", key, str(n)), found, 2000 + n, 2500 + n, dice.choice("abcdef"), label)
            for n, label in enumerate(
                dice.choices(("ok", "error"), (0.92, 0.08), k=dice.randint(3, 60))
            )
        ],
    )
    database.execute(
        "insert into provision (id, session_key, arm, template_id, version, reason, created_at)"
        " values (?, ?, ?, 1, 1, '', 1)",
        (f"p{key}", key, arm),
    )


def measure_speed() -> Iterator[Row]:
    """Choosing among ten thousand templates of invented tasks, in a process and as a command."""
    dice = random.Random(3)
    vocabulary = [f"{a}{b}" for a in _HEADS for b in _TAILS]
    weights = [1 / (place + 1) ** 0.8 for place in range(len(vocabulary))]

    def invent(number: int) -> str:
        return " ".join(dice.choices(vocabulary, weights, k=60)) + f" ticket{number % 3000}"

    with tempfile.TemporaryDirectory() as folder:
        with open_store(folder) as store:
            with store.transaction() as database:
                for number in range(TEMPLATES):
                    insert_version(
                        database, place_template(database, _invent_template(number, invent(number)))
                    )
                index.rebuild_index(database)
            choose_template(store, "the first call in a process")
            spent = []
            for number in range(50):
                task = invent(number)
                started = time.perf_counter()
                choose_template(store, task, project="/p3", tools=["bash"])
                spent.append(time.perf_counter() - started)
        median = sorted(spent)[len(spent) // 2]
        yield compare(f"choose_template among {TEMPLATES:,}", median, CHOOSE_LIMIT)
        warm = relight("warm", invent(1), "--home", folder, "--json")
        seconds = sorted(run(warm, {}).seconds for _ in range(7))[3]
        yield compare(f"relight warm among {TEMPLATES:,}", seconds, WARM_LIMIT)


_HEADS = ("inv", "ord", "cust", "pay", "deploy", "parse", "cach", "rend", "sync", "migr", "auth")
_TAILS = ("oice", "er", "omer", "ment", "ing", "table", "view", "flow", "node", "spec", "rule")


def _invent_template(number: int, task: str) -> Template:
    function = {"name": "bash", "arguments": json.dumps({"command": task[:80]})}
    call = {"id": f"c{number:08x}", "type": "function", "function": function}
    seed: list[dict[str, Any]] = [
        {"role": "user", "content": task},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "done " * 300},
    ]
    return Template(
        id=0,
        name=f"t{number}",
        version=1,
        description="",
        project=f"/p{number % 50}",
        category="coding",
        task_type="code",
        tags=[],
        tools=["bash"],
        task=task,
        actions=weigh_words(task[:200]),
        seed=seed,
        tokens=500,
        score=0.5,
        outcome="success",
        evidence=[],
        overruled=[],
        redactions={},
        source_session=None,
        provenance=None,
        created_at=1,
        content_hash=str(number),
        words=read_words(seed, task=task),
    )
