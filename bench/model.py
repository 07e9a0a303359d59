"""A scripted model in a separate process, for benchmarks: its name says how slow it is.

`slow-200` answers after 200 ms; `task-30` calls three tools a turn, thirty times, each after 20 ms.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

TASK_MS = 20


def script(body: dict[str, Any]) -> Any:
    from scripted import Reply, call

    kind, _, number = body["model"].partition("-")
    if kind == "slow":
        return Reply("Advice: look at the log. " * 20, delay_seconds=int(number) / 1000)
    turns = sum(one["role"] == "assistant" for one in body["messages"])
    calls = [call("read_file", f"{turns}-{n}", path="a.txt") for n in range(3)]
    is_done = turns >= int(number)
    return Reply("Done.", () if is_done else calls, delay_seconds=TASK_MS / 1000)


@contextmanager
def serving() -> Iterator[str]:
    """The address of a model that runs beside."""
    child = Popen([sys.executable, "-m", "bench.model"], stdout=PIPE, text=True)
    assert child.stdout is not None
    try:
        yield child.stdout.readline().strip()
    finally:
        child.terminate()
        child.wait()
        child.stdout.close()


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from scripted import Server

    with Server(script) as server:
        print(server.base_url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
