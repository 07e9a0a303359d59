"""Clients, servers and derivers that are killed in mid-push, and many machines against one.

What a client struck out is on the server; at the end the server has what an undisturbed one has.
Only processes that this module started are signalled.
"""

import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.campaign.score import Score
from bench.campaign.stores import compare, dump_home, make_home
from bench.team.engines import Engine
from bench.team.homes import (
    TeamServer,
    copy_home,
    import_tree,
    make_machine,
    release,
    start_client,
    wait_ready,
)
from bench.trees import generate_tree
from relight.store import Store, open_store
from relight.store.team import count_due

VICTIMS = ("client", "server", "deriver", "server and client")
DATABASE = "database"
HUNG_SECONDS = 120.0
# a part is known on both sides by these
PLACE = """
    select source, path, part, generation, position from tape_part
    join origin on origin.id = origin_id
"""
# rows of the roll-ups and of all sessions, whichever machine they are from
ROLL_UPS = {
    "session_day": "session_id, root_id, day, source, project, model, provider, turns,"
    " input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_nanos,"
    " unpriced_turns, tool_calls, tool_failures, wall_ms",
    "call_day": "session_id, root_id, day, tool, kind, tool_calls, tool_failures",
    "position_day": "session_id, root_id, day, position, tool_calls, tool_failures",
    "session": "id, source, key, root_id, outcome, category, score, started_at, ended_at",
    "skill_invocations": "session_id, skill_name, entry, cost_nanos, success, share, turns",
}


def kill_pushes(
    score: Score,
    folder: Path,
    dice: random.Random,
    engine: Engine,
    *,
    kills: int,
    machines: int = 2,
    megabytes: float = 1.0,
) -> None:
    """Push again and again among kills, until there were so many."""
    folder.mkdir()
    homes = [
        make_machine(folder / f"made{number}", megabytes=megabytes, seed=dice.randrange(10**6))
        for number in range(machines)
    ]
    expected, span = push_quietly(folder / "quiet", homes, engine)
    ways: Counter[str] = Counter()
    number = 0
    while ways.total() < kills:
        number += 1
        own = folder / f"round{number}"
        kill_one_push(score, own, homes, dice, ways, span, engine=engine, most=kills)
        check_end(score, own / "server", expected, engine)
        engine.drop_home(own / "server")
        shutil.rmtree(own)
    score.counts["tried"] += ways.total()
    score.notes.append(f"{dict(sorted(ways.items()))}, in {number} pushes of everything")


def push_quietly(folder: Path, homes: list[Path], engine: Engine) -> tuple[dict[str, Any], float]:
    """What a server has after an undisturbed push, and the seconds that it took."""
    server = TeamServer(folder / "server", engine)
    server.start()
    own = join_all(server, folder, homes)
    began = time.monotonic()
    push_all(own)
    span = time.monotonic() - began
    derive_all(server)
    server.stop()
    return dump_server(server.home), span


def join_all(server: TeamServer, folder: Path, homes: list[Path]) -> list[Path]:
    own = [copy_home(home, folder / f"machine{number}") for number, home in enumerate(homes)]
    for home in own:
        server.join(home, home.name)
    return own


def push_all(homes: list[Path]) -> None:
    clients = [start_client(home) for home in homes]
    wait_ready(clients)
    for client in clients:
        release(client)
    for client in clients:
        _, errors = client.communicate()
        assert client.returncode == 0, errors.decode()[-500:]


def derive_all(server: TeamServer) -> None:
    until = time.monotonic() + HUNG_SECONDS
    while server.count_behind() and time.monotonic() < until:
        time.sleep(0.02)


def kill_one_push(
    score: Score,
    folder: Path,
    homes: list[Path],
    dice: random.Random,
    ways: Counter[str],
    span: float,
    *,
    engine: Engine,
    most: int,
) -> None:
    """Push everything of new machines to a new server, with kills until all of it is there."""
    server = TeamServer(folder / "server", engine)
    victims = (*VICTIMS, DATABASE) if engine.can_die else VICTIMS
    server.start()
    own = join_all(server, folder, homes)
    until = time.monotonic() + HUNG_SECONDS + span * 50
    try:
        while any(map(count_pending, own)):
            if time.monotonic() > until:
                score.add("hung", "a push among kills came to no end")
                return
            way = dice.choice(victims) if ways.total() < most else "none"
            disturb(server, own, way, dice.uniform(0.0, 0.6) * span, ways, dice, engine)
            check_acknowledged(score, server.home, own, way)
        derive_all(server)
    finally:
        server.stop()


def disturb(
    server: TeamServer,
    homes: list[Path],
    way: str,
    seconds: float,
    ways: Counter[str],
    dice: random.Random,
    engine: Engine,
) -> None:
    """Let all machines push, kill one of the processes meanwhile, and start it again."""
    clients = [start_client(home, batch_parts=4) for home in homes if count_pending(home)]
    wait_ready(clients)
    for client in clients:
        release(client)
    if way != "none":
        time.sleep(seconds)
        ways[way] += 1
        if "client" in way:
            dice.choice(clients).kill()
        if "server" in way:
            server.kill()
        if way == "deriver" and (found := server.find_deriver()):
            with suppress(ProcessLookupError):
                os.kill(dice.choice(found), signal.SIGKILL)
        if way == DATABASE:
            engine.kill()
    for client in clients:
        client.communicate()
    if "server" in way:
        server.start()


def count_pending(home: Path) -> int:
    with open_store(home) as store:
        return count_due(store)


def check_acknowledged(score: Score, server: Path, homes: list[Path], way: str) -> None:
    """Every part that a machine struck out is stored; none is there twice."""
    with open_store(server) as store:
        stored = Counter(store.query(PLACE))
    score.add("twice", f"parts are stored twice after {way}", stored.total() - len(stored))
    for home in homes:
        with open_store(home) as store:
            sent = list_acknowledged(store)
        there = {
            (source, path.partition(":")[2], *rest)
            for source, path, *rest in stored
            if path.startswith(f"{home.name}:")
        }
        score.add("lost", f"acknowledged parts are not stored after {way}", len(sent - there))


def list_acknowledged(store: Store) -> set[tuple[Any, ...]]:
    due = "select id from push_due where kind = 'part'"
    return set(store.query(f"{PLACE} where tape_part.id not in ({due})"))


def check_end(score: Score, home: Path, expected: dict[str, Any], engine: Engine) -> None:
    if not engine.is_sound(home):
        score.add("lost", "the server's database is damaged")
    compare(score, expected, dump_server(home), what="a push among kills")


def dump_server(home: Path) -> dict[str, Any]:
    """The content of a server's store, without what depends on the order of arrival."""
    found = dump_home(home)
    with open_store(home) as store:
        found["part"] = sorted(store.query(PLACE))
    return found


def compare_machines(
    score: Score,
    folder: Path,
    machines: int,
    dice: random.Random,
    engine: Engine,
    *,
    megabytes: float = 4.0,
) -> None:
    """The same files, on so many machines and on one: the server's roll-ups are the same rows."""
    folder.mkdir()
    tree = folder / "tree"
    generate_tree(
        tree, claude_mb=megabytes * 0.7, codex_mb=megabytes * 0.3, seed=dice.randrange(10**6)
    )
    one = make_home(folder / "one")
    import_tree(one, tree)
    many = [make_home(folder / f"machine{number}") for number in range(machines)]
    for number, home in enumerate(many):
        part = split_tree(tree, folder / f"part{number}", number, machines)
        import_tree(home, part)
    found = []
    for name, homes in (("alone", [one]), ("together", many)):
        server = TeamServer(folder / name, engine)
        server.start()
        try:
            for home in homes:
                server.join(home, home.name)
            for start in range(0, len(homes), 4):
                push_all(homes[start : start + 4])
            derive_all(server)
        finally:
            server.stop()
        found.append(dump_roll_ups(server.home))
    score.counts["tried"] += sum(map(len, found[0].values()))
    compare(score, *found, what=f"{machines} machines")


def split_tree(tree: Path, folder: Path, number: int, machines: int) -> Path:
    """Every so many-th folder of sessions of a tree, as one machine has it."""
    files = sorted(path for path in tree.rglob("*.jsonl"))
    # a session and its sub-agents are of one machine
    names = sorted({name_session(tree, path) for path in files})
    own = set(names[number::machines])
    for path in files:
        if name_session(tree, path) in own:
            target = folder / path.relative_to(tree)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    folder.mkdir(exist_ok=True)
    return folder


def name_session(tree: Path, path: Path) -> str:
    parts = path.relative_to(tree).parts
    return "/".join(parts[:4]).removesuffix(".jsonl") if parts[0] == ".claude" else str(path)


def dump_roll_ups(home: Path) -> dict[str, Any]:
    with open_store(home) as store:
        return {
            table: sorted(store.query(f"select {columns} from {table}"), key=repr)
            for table, columns in ROLL_UPS.items()
        }
