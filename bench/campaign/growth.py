"""Session files that are read while they are written: tape and index equal to one read."""

import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from bench.campaign.score import Clock, Score
from bench.campaign.stores import compare, dump, dump_home, finish, make_home, start
from bench.trees import generate_tree
from relight.intake.importing import import_all
from relight.store import open_store


def run(folder: Path, dice: random.Random, clock: Clock) -> Score:
    score = Score("growth", "lost", "twice", "hung")
    pieces = 0
    for number in clock.part(0.5).rounds():
        pieces += cut_files(score, folder / f"cut-{number}", dice)
        shutil.rmtree(folder / f"cut-{number}")
    score.notes.append(f"{pieces} pieces read by one import after another")
    pieces = 0
    for number in clock.part(0.5).rounds():
        pieces += watch_files(score, folder / f"watched-{number}", dice)
        shutil.rmtree(folder / f"watched-{number}")
    score.notes.append(f"{pieces} pieces written under a watcher")
    return score


def make_tree(folder: Path, dice: random.Random) -> dict[Path, bytes]:
    """The files of a new tree, by their place in it."""
    generate_tree(folder, claude_mb=0.05, codex_mb=0.05, seed=dice.randrange(10**6))
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.jsonl")}


def cut_files(score: Score, folder: Path, dice: random.Random, *, most: int = 40) -> int:
    """Write files piece by piece, in any order, with imports between; return the pieces."""
    files = make_tree(folder / "whole", dice)
    with open_store(make_home(folder / "expected")) as store:
        import_all(store, environment={"HOME": str(folder / "whole")}, workers=1)
        expected = dump(store)
    pieces = 0
    with open_store(make_home(folder / "found")) as store:
        for path, content in write_pieces(files, dice, most=most):
            append(folder / "grown" / path, content)
            pieces += 1
            if dice.random() < 0.6:
                import_all(store, environment={"HOME": str(folder / "grown")}, workers=1)
        import_all(store, environment={"HOME": str(folder / "grown")}, workers=1)
        compare(score, expected, dump(store), what="read in pieces")
    score.counts["tried"] += pieces
    return pieces


def watch_files(score: Score, folder: Path, dice: random.Random) -> int:
    """Write files piece by piece while `relight import --watch` reads; return the pieces."""
    files = make_tree(folder / "whole", dice)
    expected_home, home = make_home(folder / "expected"), make_home(folder / "found")
    finish(score, start("import", home=expected_home, tree=folder / "whole"), what="one read")
    expected = dump_home(expected_home)
    grown = folder / "grown"
    grown.mkdir()
    watcher = start("import", "--watch", home=home, tree=grown)
    pieces = 0
    for path, content in write_pieces(files, dice, most=30):
        append(grown / path, content)
        pieces += 1
        time.sleep(dice.uniform(0.0, 0.1))
    watcher.send_signal(dice.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL)))
    finish(score, watcher, what="a watcher after its signal")
    finish(score, start("import", home=home, tree=grown), what="the import after it")
    compare(score, expected, dump_home(home), what="watched")
    score.counts["tried"] += pieces
    return pieces


def write_pieces(
    files: dict[Path, bytes], dice: random.Random, *, most: int
) -> Iterator[tuple[Path, bytes]]:
    """Yield pieces of all files until each is whole; some end in the midst of a line."""
    left = dict(files)
    size = max(sum(map(len, files.values())) // most, 200)
    while left:
        path = dice.choice(sorted(left))
        content = left.pop(path)
        cut = dice.randrange(1, 2 * size)
        if dice.random() < 0.5:  # most agents write whole lines
            cut = content.find(b"\n", cut) + 1 or len(content)
        yield path, content[:cut]
        if content[cut:]:
            left[path] = content[cut:]


def append(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(content)
