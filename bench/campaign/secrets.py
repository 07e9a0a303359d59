"""Planted secrets: what of them reaches the disk, in whatever form.

Each secret is written into one place of a session, which is then imported or recorded. All cells
of the database, its raw bytes and its write-ahead log, the tapes decompressed, backlogs and the
output of the command are searched. A secret that redaction takes from a plain text and that is
found all the same is a leak. How many redaction recognises at all is reported beside, and must
reach the goals. Traces of mixtures are exact by design, as the guide says: only that nobody else
can read them is checked.
"""

import json
import random
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.campaign.examples import (
    Example,
    Share,
    is_taken,
    measure,
    read_lookalikes,
    read_secrets,
    undo,
)
from bench.campaign.score import Clock, Score
from bench.campaign.stores import finish, make_home, start
from relight.intake.recorder import record
from relight.reports.labels import label_session
from relight.reports.sessions import find_session
from relight.store import Store, open_store
from relight.store.write.tape import decompress
from relight.work.moa.traces import write_trace

PLACES = ("prompt", "argument", "result", "answer", "error", "folder", "escaped")
RECORDED = ("message", "turn", "call", "result", "id", "tool", "label", "backlog")
# percent of the examples of a kind that redaction removes, and of look-alikes that it may
GOALS = {"own": 95.0, "form": 90.0, "assigned": 99.0, "disguise": 90.0}
MOST_LOOKALIKES = 1.0
ZSTD = b"\x28\xb5\x2f\xfd"
# examples of a round; each has a session of its own
SAMPLE = 60


def run(folder: Path, dice: random.Random, clock: Clock) -> Score:
    score = Score("secrets", "lost", "hung", "leaked")
    examples = [one for one in read_secrets(seed=dice.randrange(10**6)) if is_taken(one)]
    for number in clock.rounds():
        place = folder / f"round-{number}"
        chosen = dice.sample(examples, SAMPLE)
        import_planted(score, place / "import", chosen, dice)
        record_planted(score, place / "record", dice.sample(examples, SAMPLE // 3), dice)
        shutil.rmtree(place)
    check_shares(score, dice)
    return score


def check_shares(score: Score, dice: random.Random) -> None:
    """Compare what redaction recognises of all examples with the goals."""
    seed = dice.randrange(10**6)
    found = measure(read_secrets(seed=seed)) | measure(read_lookalikes(seed=seed))
    alike = found.pop("lookalike")
    for kind, share in found.items():
        score.notes.append(f"{describe(kind, share)} removed; goal {GOALS[kind]:.0f} %")
        if share.percent < GOALS[kind]:
            score.add("leaked", describe(kind, share), share.tried - share.taken)
    score.notes.append(f"{describe('look-alikes', alike)} taken; at most {MOST_LOOKALIKES:.0f} %")
    if alike.percent > MOST_LOOKALIKES:
        score.add("lost", f"look-alikes taken: {list(alike.missed)[:5]}", alike.taken)


def describe(kind: str, share: Share) -> str:
    return f"{kind}: {share.taken} of {share.tried} ({share.percent:.1f} %)"


def import_planted(
    score: Score, folder: Path, examples: list[Example], dice: random.Random
) -> None:
    """Sessions of Claude Code with one secret each, imported by a process."""
    files = folder / "tree" / ".claude" / "projects" / "-p"
    files.mkdir(parents=True)
    planted = []
    for number, example in enumerate(examples):
        fits = [place for place in PLACES if can_stand(example, place)]
        place = dice.choice(fits)
        name = f"{number:08x}-0000-4000-8000-{dice.randrange(16**12):012x}"
        lines = write_session(name, place, example.text)
        (files / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        planted.append((example, place))
    home = make_home(folder / "home")
    # another connection keeps the write-ahead log from being emptied
    with closing(sqlite3.connect(home / "relight.db")) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from session").fetchone()
        with (home / "output.txt").open("wb") as output:
            options = {"stdout": output, "stderr": subprocess.STDOUT}
            child = start("import", home=home, tree=folder / "tree", **options)
            finish(score, child, what="an import of planted secrets")
        search(score, home, planted)
    with open_store(home) as store:
        (row,) = store.query("select count(*) from session")
    score.add("lost", "sessions with secrets were not imported", len(examples) - row[0])


def can_stand(example: Example, place: str) -> bool:
    if place == "folder":
        return example.kind == "own" and not set("/\n\"'\\") & set(example.text)
    if place == "escaped":  # as it is, inside of a JSON string
        try:
            json.loads(f'"{example.text}"')
        except ValueError:
            return False
        return "\\" in example.text
    return True


def write_session(name: str, place: str, text: str) -> list[str]:
    """The lines of a session whose text stands in one place, each with a line of its own."""
    shown = dict.fromkeys((*PLACES, place), "nothing")
    shown[place] = f"look:\n{text}\nthat is all" if place != "folder" else text
    common = {"sessionId": name, "version": "2.1.0", "isSidechain": False}
    common["cwd"] = f"/home/ada/{shown['folder']}"

    def line(kind: str, second: int, message: dict[str, object]) -> str:
        at = f"2026-11-10T10:00:{second:02d}.000Z"
        record = {"type": kind, "uuid": f"u{second}", "timestamp": at, **common}
        if kind == "assistant":
            usage = {"input_tokens": 10, "output_tokens": 5}
            message = {
                "id": f"{name}-{second}",
                "model": "claude-opus-4-6",
                "usage": usage,
                **message,
            }
            record["requestId"] = f"r-{name}-{second}"
        return json.dumps({**record, "message": {"role": kind, **message}}, ensure_ascii=False)

    def use(number: int, command: str) -> dict[str, object]:
        return {
            "type": "tool_use",
            "id": f"t{number}",
            "name": "Bash",
            "input": {"command": command},
        }

    def result(number: int, content: str, is_error: bool) -> dict[str, object]:
        answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": content}
        return {"content": [{**answer, "is_error": is_error}]}

    spoken = {"type": "text", "text": shown["answer"]}
    lines = [
        line("user", 0, {"content": f"Please do this.\n{shown['prompt']}"}),
        line("assistant", 1, {"content": [spoken, use(1, f"cat <<X\n{shown['argument']}\nX")]}),
        line("user", 2, result(1, shown["result"], False)),
        line("assistant", 3, {"content": [use(2, "false")]}),
        line("user", 4, result(2, f"Exit code 1\n{shown['error']}", True)),
    ]
    if place == "escaped":
        lines[0] = line("user", 0, {"content": "Please do PLACE now"}).replace("PLACE", text)
    return lines


def record_planted(
    score: Score, folder: Path, examples: list[Example], dice: random.Random
) -> None:
    """Secrets given to a recorder and to a label."""
    home = make_home(folder / "home")
    planted = []
    with open_store(home) as store:
        for number, example in enumerate(examples):
            place = dice.choice(RECORDED)
            if place in ("id", "tool") and example.kind != "own":
                place = "turn"
            record_session(store, place, example.text, number)
            planted.append((example, place))
        check_trace(score, store, examples[0].text)
        search(score, home, planted)
    finish(score, start("import", "--source", "relight", home=home), what="reading the backlog")
    search(score, home, planted)


def check_trace(score: Score, store: Store, text: str) -> None:
    """A trace holds all that was sent; others cannot read it."""
    write_trace(store.config.trace_folder, "traced", {"output": text})
    for path in (store.config.trace_folder, *store.config.trace_folder.iterdir()):
        is_private = not path.stat().st_mode & 0o077
        score.check(is_private, "leaked", f"{path.name} can be read by others")
    shutil.rmtree(store.config.trace_folder)


def record_session(store: Store, place: str, text: str, number: int) -> None:
    shown = dict.fromkeys(RECORDED, "nothing") | {place: text}
    name = f"s{number}-{shown['id']}" if place == "id" else f"s{number}"
    with record(store, name, model="gpt-5.1") as rec:
        rec.message("user", f"Please do this.\n{shown['message']}")
        function = {"name": "terminal", "arguments": json.dumps({"command": shown["call"]})}
        call = {"id": "c1", "type": "function", "function": function}
        message = {"role": "assistant", "content": shown["turn"], "tool_calls": [call]}
        rec.turn(input_tokens=5, output_tokens=1, message=message)
        tool = f"x {shown['tool']}" if place == "tool" else "terminal"
        rec.tool_call(tool, {"command": shown["call"]}, shown["result"], call_id="c1", exit_code=0)
        if place == "backlog":
            with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
                other.execute("begin immediate")
                rec.message("user", f"And this.\n{text}")
                other.execute("rollback")
    if place == "label":
        label_session(store, find_session(store, rec.name), "success", why=text)


def search(score: Score, home: Path, planted: list[tuple[Example, str]]) -> None:
    """Count the secrets that can be read anywhere in the home."""
    texts = {where: undo(data.decode("utf-8", "replace")) for where, data in read_home(home)}
    words = "\n".join(read_words(home))
    for example, place in planted:
        found = [where for where, text in texts.items() if leaks_in(text, example)]
        found += ["an index of words"] if any(run in words for run in list_runs(example)) else []
        problem = f"{example.line!r} as {place} is in {', '.join(found)}"
        score.check(not found, "leaked", problem)


def leaks_in(text: str, example: Example) -> bool:
    return any(undo(core) in text for core in example.cores)


def list_runs(example: Example) -> list[str]:
    """The longest words of the secrets, as an index of words would have them."""
    runs = [max(re.findall(r"[A-Za-z0-9]+", core), key=len, default="") for core in example.cores]
    return [run.lower() for run in runs if len(run) >= 12]


def read_home(home: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the content of each file, of each table, and of the tapes decompressed."""
    for path in home.rglob("*"):
        if path.is_file():
            yield path.name, path.read_bytes()
    with closing(sqlite3.connect(f"file:{home}/relight.db?mode=ro", uri=True)) as database:
        query = (
            "select name from sqlite_master where type = 'table' and sql not like '% using fts5%'"
        )
        for (table,) in database.execute(query).fetchall():
            cells = []
            for row in database.execute(f'select * from "{table}"'):
                for cell in row:
                    data = cell.encode() if isinstance(cell, str) else cell
                    if isinstance(data, bytes):
                        cells.append(decompress(data) if data.startswith(ZSTD) else data)
            yield f"table {table}", b"\n".join(cells)


def read_words(home: Path) -> Iterator[str]:
    """Yield the words of the indexes that are searched; they keep no text."""
    with closing(sqlite3.connect(f"file:{home}/relight.db?mode=ro", uri=True)) as database:
        query = "select name from sqlite_master where sql like '% using fts5%'"
        for (table,) in database.execute(query).fetchall():
            vocabulary = (
                f"create virtual table temp.{table}_terms using fts5vocab(main, {table}, row)"
            )
            database.execute(vocabulary)
            yield from (
                term for (term,) in database.execute(f"select term from temp.{table}_terms")
            )
