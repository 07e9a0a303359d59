"""One import as `relight import` does it, with a number of workers and with or without search.

It writes the CPU seconds of the main process into a file. Forks share what is replaced here. Other
options are those of `relight import`.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from relight.__main__ import main as run
from relight.intake import workers
from relight.store import search_index


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.one_import")
    parser.add_argument("--workers", type=int, help="worker processes (default: one a core)")
    parser.add_argument("--without-search", action="store_true", help="make and write no texts")
    parser.add_argument("--cpu", type=Path, help="the file for the seconds")
    options, more = parser.parse_known_args()
    if options.workers:
        vars(workers)["count_cores"] = lambda: options.workers
    if options.without_search:
        from relight.store.write import seal

        vars(seal)["make_texts"] = lambda *_: []
        vars(search_index)["add_texts"] = lambda *_: None
    if options.cpu:
        _note_cpu(options.cpu)
    sys.argv = ["relight", "import", *more]
    run()


def _note_cpu(file: Path) -> None:
    """Write the CPU seconds of this process, but not of its forks, when it ends."""
    end, process = os._exit, os.getpid()

    def note_and_end(status: int) -> NoReturn:
        if os.getpid() == process:
            file.write_text(str(time.process_time()))
        end(status)

    vars(os)["_exit"] = note_and_end


if __name__ == "__main__":
    main()
