"""Where the CPU time of an import goes: seconds per GB of logs, by stage.

One process does what the workers and the writer do. A timer of CPU time looks at the stack every
few milliseconds; the innermost function that the table knows names the stage. So the figures are
shares of what was measured, and compare only within one run.
"""

import argparse
import re
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from bench.measure import tree
from relight.intake import importing
from relight.intake.importing import PIECE_SECONDS, import_all
from relight.intake.sealing import answer_task
from relight.redact import redact
from relight.sources.files import CHUNK_BYTES
from relight.store import open_store

TICK_SECONDS = 0.004
REDACTED_FILES = 200
REDACT_GOAL = 500  # MB/s
# a first guess at where a secret may be, in one expression
ONE_SEARCH = re.compile(rb"(?i)token|secret|passw|api_?key|authorization|sk-|ghp_")
# the longest name that fits a function's module decides; a trailing function name narrows it
STAGES = {
    "relight.sources.files": "worker: read and split",
    "relight.redact": "worker: redact",
    "relight.secret_shapes": "worker: redact",
    "relight.sources": "worker: parse",
    "relight.judging": "worker: judge calls",
    "relight.judging.kinds": "worker: kinds of work, words, fingerprints",
    "relight.store.derive.scores": "worker: kinds of work, words, fingerprints",
    "relight.store.derive.search_text": "search: words of texts",
    "relight.store.search_index": "search: index",
    "relight.store.write.seal": "worker: make rows",
    "relight.store.write.sealed": "worker: make rows",
    "relight.store.write.tape.compress": "worker: compress",
    "relight.intake.sealing.answer_task": "messages between processes",
    "relight.intake.sealing.decode_answer": "messages between processes",
    "relight.store.write": "writer: rows",
    "relight.store.write.tape": "writer: tape and marks",
    "relight.store.derive": "writer: roll-ups, outcomes, scores, skills",
    "relight.store.derive.pricing": "writer: prices",
    "relight.prices": "writer: prices",
    "relight.store.Store.transaction": "writer: commit",
}


class SameProcess:
    """Stands for the worker processes: seals in this process."""

    message_seconds = PIECE_SECONDS

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()

    def __enter__(self) -> "SameProcess":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def finish(self) -> None:
        pass

    def submit(self, message: bytes) -> None:
        self._waiting.append(message)

    def responses(self, messages: Iterable[bytes] = ()) -> Iterator[bytes]:
        for message in messages:
            self._waiting.append(message)
            while self._waiting:
                yield answer_task(self._waiting.popleft())


def find_stage(frame: FrameType | None) -> str:
    """Return the stage of the innermost function that the table knows."""
    while frame:
        name = f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            if stage := STAGES.get(".".join(parts[:length])):
                return stage
        frame = frame.f_back
    return "start, look for files, the rest"


@contextmanager
def sampling() -> Iterator[Counter[str]]:
    """Count the stages that the timer finds."""
    found: Counter[str] = Counter()

    def take(_: int, frame: FrameType | None) -> None:
        found[find_stage(frame)] += 1

    before = signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, TICK_SECONDS, TICK_SECONDS)
    try:
        yield found
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench profile")
    parser.add_argument("--mb", type=int, default=100, help="size of the generated tree")
    parser.add_argument("--home", type=Path, help="read this home's agents instead of a tree")
    options = parser.parse_args(words)
    if not hasattr(signal, "setitimer"):
        print("this system has no timer of CPU time", file=sys.stderr)
        return 0
    source = options.home or tree(options.mb)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(folder) as store,
        patch.object(importing, "_start_workers", lambda *_: SameProcess()),
    ):
        started = time.process_time()
        with sampling() as found:
            result = import_all(store, environment={"HOME": str(source)})
        spent = time.process_time() - started
    size = sum(one.bytes for one in result.sources) / 1e9
    if not size:
        print(f"no agent left files in {source}", file=sys.stderr)
        return 1
    samples = found.total()
    print(f"{'stage':45} {'s/GB':>6} {'share':>6}")
    for stage, count in sorted(found.items(), key=lambda one: (one[0].split(":")[0], -one[1])):
        share = count / samples
        print(f"{stage:45} {spent * share / size:6.2f} {share:6.1%}")
    print(f"{'all':45} {spent / size:6.2f}   of {size * 1e3:.0f} MB, {samples} samples")
    print_redaction(source)
    return 0


def print_redaction(source: Path) -> None:
    """Print how fast text without secrets is redacted, against one search of the same bytes."""
    pieces: list[bytes] = []
    for path in sorted(source.rglob("*.jsonl"))[:REDACTED_FILES]:
        with path.open("rb") as file:
            while piece := file.read(CHUNK_BYTES):
                pieces.append(piece)
    clean = [one for one in pieces if redact(one, key=b"key") is one]
    size = sum(map(len, clean)) / 1e6
    times = {}
    for name, look in (("redact", partial(redact, key=b"key")), ("search", ONE_SEARCH.findall)):
        runs = []
        for _ in range(3):
            started = time.process_time()
            for one in clean:
                look(one)
            runs.append(time.process_time() - started)
        times[name] = min(runs)
    if size:
        speed, ratio = size / times["redact"], times["search"] / times["redact"]
        print(
            f"redaction of {size:.0f} MB of clean text: {speed:.0f} MB/s (goal: {REDACT_GOAL}),"
            f" {ratio:.1f} × the speed of one search by `re`"
        )
