"""One import as `relight import` does it, with a number of workers and with or without search.

    --workers=N        worker processes (default: one a core)
    --without-search   make and write no texts
    --cpu=FILE         write the CPU seconds of the main process into a file

Other options are those of `relight import`. Forks share what is replaced here. Nothing is loaded
that the command does not load.
"""

import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from relight.__main__ import main as run
from relight.intake import workers
from relight.store import search_index

OPTIONS = ("--workers", "--without-search", "--cpu")


def main() -> None:
    own, more = {}, []
    for word in sys.argv[1:]:
        name, _, value = word.partition("=")
        if name in OPTIONS:
            own[name] = value
        else:
            more.append(word)
    if "--workers" in own:
        count = int(own["--workers"])
        vars(workers)["count_cores"] = lambda: count
    if "--without-search" in own:
        from relight.store.write import seal

        vars(seal)["make_texts"] = lambda *_: []
        vars(search_index)["add_texts"] = lambda *_: None
    if "--cpu" in own:
        _note_cpu(Path(own["--cpu"]))
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
