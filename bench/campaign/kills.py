"""Kills at random moments: afterwards everything that was acknowledged is there, once.

Only processes that this module started are signalled.
"""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from bench.campaign.score import Clock, Score
from bench.campaign.stores import (
    Process,
    compare,
    dump_home,
    finish,
    is_sound,
    make_home,
    start,
)
from bench.measure import ROOT, tree_of
from bench.trees import generate_tree
from relight.intake.importing import import_all
from relight.store import open_store
from relight.store.keep.migrate import find_migrations, split_statements
from relight.store.queries.runs import read_runs

# the second is above the size from which an import has worker processes
TREES_MB = (2.0, 13.0)
WAYS = ("group", "parent", "worker", "term", "int")
RECORDER = """
import os, sys
import relight
home, name, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
with relight.open_store(home) as store, relight.record(store, session_id=name) as rec:
    for number in range(first, first + 100_000):
        call = {"id": f"c{number}", "type": "function"}
        call["function"] = {"name": "terminal", "arguments": "{}"}
        message = {"role": "assistant", "content": "x" * 200, "tool_calls": [call]}
        rec.turn(input_tokens=number, output_tokens=1, message=message)
        rec.tool_call("terminal", {"command": "true"}, "ok", call_id=f"c{number}", exit_code=0)
        os.write(1, b"%d\\n" % number)
"""
MIGRATION = """
import os, signal, sqlite3, sys
from relight.store.keep.migrate import migrate
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.set_progress_handler(lambda: os.kill(os.getpid(), signal.SIGKILL), int(sys.argv[2]))
migrate(database, timezone="UTC")
"""


def run(
    folder: Path, dice: random.Random, clock: Clock, *, trees_mb: Sequence[float] = TREES_MB
) -> Score:
    score = Score("kills", "lost", "twice", "hung")
    kill_recorders(score, folder, dice, clock.part(0.2))
    kill_schedulers(score, folder, dice, clock.part(0.25))
    kill_migrations(score, folder, dice, clock.part(0.1))
    seconds_by_mb = 0.0
    for tree_mb in trees_mb:
        part = clock.part(0.45 / len(trees_mb))
        if seconds_by_mb * tree_mb > part.seconds:
            score.notes.append(f"no time for imports of {tree_mb:.0f} MB on this machine")
            continue
        place = folder / f"import-{tree_mb}"
        place.mkdir()
        span = kill_imports(score, place, dice, part, tree_mb=tree_mb)
        seconds_by_mb = span / tree_mb
    return score


def kill_imports(
    score: Score, folder: Path, dice: random.Random, clock: Clock, *, tree_mb: float
) -> float:
    """Imports of one tree, again and again; those that get to the end have what one read gives.

    Returns the seconds that an undisturbed import takes.
    """
    tree, whole, home = folder / "tree", make_home(folder / "whole"), folder / "killed"
    generate_tree(tree, claude_mb=tree_mb * 0.7, codex_mb=tree_mb * 0.3, seed=dice.randrange(10**6))
    empty = shutil.copytree(whole, folder / "empty")
    began = time.monotonic()
    finish(score, start("import", home=whole, tree=tree), what="an undisturbed import")
    span = time.monotonic() - began
    expected = dump_home(whole)
    ways: Counter[str] = Counter()
    shutil.copytree(empty, home)
    for _ in clock.rounds():
        child = start("import", home=home, tree=tree)
        time.sleep(dice.uniform(0.05, 0.95) * span)
        way = dice.choice(WAYS)
        if child.poll() is None:
            ways[way] += 1
            score.counts["tried"] += 1
            signal_import(child, way, dice)
        finish(score, child, what=f"an import after {way}")
        if not is_sound(home):
            score.add("lost", f"the database is damaged after {way}")
        if child.returncode == 0:
            compare(score, expected, dump_home(home), what=f"import after {way}")
            shutil.rmtree(home)
            shutil.copytree(empty, home)
    finish(score, start("import", home=home, tree=tree), what="the last import")
    compare(score, expected, dump_home(home), what="the last import")
    score.notes.append(f"signals to imports of {tree_mb:.0f} MB: {dict(sorted(ways.items()))}")
    return span


def signal_import(child: Process, way: str, dice: random.Random) -> None:
    workers = tree_of(child.pid)[1:]
    with suppress(ProcessLookupError):
        if way == "group":
            os.killpg(child.pid, signal.SIGKILL)
        elif way == "parent" or (way == "worker" and not workers):
            child.kill()
        elif way == "worker":
            os.kill(dice.choice(workers), signal.SIGKILL)
        else:
            child.send_signal(signal.SIGINT if way == "int" else signal.SIGTERM)


def kill_recorders(score: Score, folder: Path, dice: random.Random, clock: Clock) -> None:
    """Programs that record print a number after each turn; every number printed is a turn."""
    home = make_home(folder / "recorded")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    acknowledged: set[int] = set()
    kills, first = 0, 1
    for _ in clock.rounds():
        children = []
        for _ in range(2):
            words = [sys.executable, "-c", RECORDER, str(home), f"s{dice.randrange(5)}", str(first)]
            children.append(
                subprocess.Popen(
                    words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            )
            first += 100_000
        begun = [child.stdout.readline() for child in children if child.stdout]
        acknowledged.update(map(int, filter(None, begun)))
        time.sleep(dice.uniform(0.0, 1.0))
        for child in children:
            child.send_signal(dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            kills += 1
        for child in children:
            output, _ = child.communicate()
            acknowledged.update(int(line) for line in output.split(b"\n")[:-1])
    finish(score, start("import", "--source", "relight", home=home), what="reading the backlogs")
    with open_store(home) as store:
        turns = Counter(number for (number,) in store.query("select input_tokens from turn"))
        (calls,) = store.query("select count(*), count(distinct turn_id) from tool_call")
        (rolled,) = store.query("select sum(turns), coalesce(sum(tool_calls), 0) from session_day")
    score.counts["tried"] += kills
    score.add("lost", "acknowledged turns are not there", len(acknowledged - set(turns)))
    score.add("twice", "turns are there twice", sum(turns.values()) - len(turns))
    score.add("lost", f"the roll-up has {rolled[1]} of {calls[0]} calls", abs(rolled[1] - calls[0]))
    backlog = home / "backlog"
    left = list(backlog.glob("*.jsonl")) if backlog.is_dir() else []
    score.add("lost", "backlogs that nobody read", len(left))
    score.notes.append(f"{kills} recorders killed, {len(acknowledged)} turns acknowledged")


def kill_schedulers(score: Score, folder: Path, dice: random.Random, clock: Clock) -> None:
    """Two schedulers, of which one is killed every second; each slot begins at most once."""
    home, ledger = make_home(folder / "scheduled"), folder / "ledger.txt"
    script = folder / "job.sh"
    lines = [f'echo "$RELIGHT_RUN_ID {word}" >> {ledger}' for word in ("begin", "end")]
    script.write_text(f"#!/bin/sh\n{lines[0]}\nsleep 0.2\n{lines[1]}\necho done\n")
    script.chmod(0o700)
    for number in range(3):
        words = ["--schedule", "every 2s", "--prompt", "go", "--command", str(script)]
        child = start("job", "add", f"j{number}", *words, home=home)
        finish(score, child, what="adding a job")
    alive = [start("scheduler", home=home, stderr=subprocess.DEVNULL) for _ in range(2)]
    kills = 0
    for _ in clock.rounds():
        time.sleep(dice.uniform(0.6, 1.4))
        place = dice.randrange(2)
        workers = tree_of(alive[place].pid)[1:]
        kills += 1
        if workers and dice.random() < 0.3:
            with suppress(ProcessLookupError):
                os.kill(dice.choice(workers), signal.SIGKILL)
            continue
        alive[place].kill()
        alive[place].wait()
        alive[place] = start("scheduler", home=home, stderr=subprocess.DEVNULL)
    time.sleep(2.5)  # what the killed ones left is settled by the others
    for child in alive:
        child.send_signal(signal.SIGTERM)
    for child in alive:
        finish(score, child, what="a scheduler after SIGTERM", seconds=60)
    finish(score, start("scheduler", "--once", home=home), what="the last scheduler")
    check_runs(score, home, ledger)
    score.counts["tried"] += kills
    score.notes.append(f"{kills} schedulers and workers killed")


def check_runs(score: Score, home: Path, ledger: Path) -> None:
    text = ledger.read_text() if ledger.exists() else ""
    marks = Counter(tuple(line.split()) for line in text.splitlines())
    with open_store(home) as store:
        runs = {run.run_id: run for run in read_runs(store, limit=10_000)}
    for (key, word), count in marks.items():
        score.add("twice", f"run {key} began more than once", (count - 1) if word == "begin" else 0)
        if key not in runs:
            score.add("lost", f"run {key} is not in the history")
    slots = Counter((run.job, run.scheduled_for) for run in runs.values())
    score.add("twice", "slots with more than one run", sum(slots.values()) - len(slots))
    for key, run in runs.items():
        if run.status == "completed" and (key, "end") not in marks:
            score.add("lost", f"run {key} is completed and never ran")
        if run.status in ("claimed", "running"):
            score.add("lost", f"run {key} is still {run.status}")
    score.notes.append(f"{len(runs)} runs of schedules")


def kill_migrations(score: Score, folder: Path, dice: random.Random, clock: Clock) -> None:
    """Migrations of a store of the first schema that end in the midst of a statement."""
    source = make_home(folder / "filled")
    generate_tree(folder / "small", claude_mb=0.1, codex_mb=0.05, seed=dice.randrange(10**6))
    with open_store(source) as store:
        import_all(store, environment={"HOME": str(folder / "small")}, workers=1)
    old = make_old_home(source, folder / "old")
    quiet = Path(shutil.copytree(old, folder / "quiet"))
    expected = dump_home(quiet)
    killed = 0
    for number in clock.rounds(most=60):
        home = Path(shutil.copytree(old, folder / f"migrated-{number}"))
        for _ in range(dice.randint(1, 3)):
            steps = str(int(10 ** dice.uniform(0, 3)))
            words = [sys.executable, "-c", MIGRATION, str(home / "relight.db"), steps]
            killed += subprocess.run(words, check=False).returncode == -signal.SIGKILL
            score.counts["tried"] += 1
        if not is_sound(home):
            score.add("lost", "the database is damaged after a killed migration")
        compare(score, expected, dump_home(home), what="migration")
        shutil.rmtree(home)
    score.notes.append(f"{killed} migrations killed")


def make_old_home(source: Path, home: Path) -> Path:
    """A home with the first schema, and the rows of `source` as far as it knows their columns."""
    home.mkdir(mode=0o700)
    shutil.copy(source / "config.toml", home)
    version, script = min(find_migrations().items())
    with closing(sqlite3.connect(home / "relight.db", isolation_level=None)) as database:
        for statement in split_statements(script.read_text("utf-8")):
            database.execute(statement)
        database.execute("attach ? as source", (str(source / "relight.db"),))
        # `listing` follows from the others by triggers
        named = "select name from main.sqlite_master where type = 'table' and sql like 'create %'"
        tables = [name for (name,) in database.execute(named)]
        for table in tables:
            if not table.startswith(("listing", "sqlite_")) and "_words_" not in table:
                copy_rows(database, table)
        database.execute(f"pragma user_version = {version}")
    (home / "relight.db").chmod(0o600)
    return home


def copy_rows(database: sqlite3.Connection, table: str) -> None:
    query = "select name from pragma_table_info(?, ?)"
    old = [name for (name,) in database.execute(query, (table, "main"))]
    new = {name for (name,) in database.execute(query, (table, "source"))}
    columns = ", ".join(name for name in old if name in new)
    if columns:
        database.execute(
            f"insert or ignore into main.{table} ({columns}) select {columns} from source.{table}"
        )
