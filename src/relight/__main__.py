"""The command. A status line is printed without loading the command line: it runs all the time."""

import gc
import sys

# New objects before the garbage collector runs. Loading modules makes tens of thousands of objects
# and no garbage: with Python's 700 a short command spends 7 % of its time in the collector.
GC_THRESHOLD = 50_000


def main() -> None:
    gc.set_threshold(GC_THRESHOLD)
    words = sys.argv[1:]
    if "statusline" in words[:3]:
        from relight.warm.agents.status_line import find_plain_home, print_status

        is_plain, home = find_plain_home(words)
        if is_plain:
            print_status(home)
            return
    from relight.cli import main as run

    run()


if __name__ == "__main__":
    main()
