"""The files of a status line: the summary that imports keep for it, and the reports it leaves.

An agent runs its status line several times a second. So that it starts quickly it reads this small
file instead of the database, and leaves what it learns in another one. Nothing heavy is imported
here: the status line imports this module.
"""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relight.store import Store
    from relight.store.limits import LimitReportRow

SUMMARY = "statusline.json"  # as `Config.status_file`
REPORTS = "statusline-reports.jsonl"
# a watched folder is imported each second: its summary need not be as new
KEPT_SECONDS = 5
# held by the process that refreshes the summary; its time is that of the last try
LOCK = "statusline.lock"


def keep_status(store: "Store") -> None:
    """Record what status lines reported and write their summary, unless it is seconds old."""
    about = store.config.status_file.stat()
    if not store.can_write or (about.st_size and 0 <= time.time() - about.st_mtime < KEPT_SECONDS):
        return
    import msgspec

    from relight.locks import write_private
    from relight.reports.status import read_status

    take_reports(store)
    write_private(store.config.status_file, msgspec.json.encode(read_status(store)))


def take_reports(store: "Store") -> None:
    """Record the limits that status lines reported; a line that cannot be read is left out."""
    home = store.config.home
    taken = home / f".{REPORTS}"
    if not taken.exists():  # else an earlier import ended before it was done
        try:
            (home / REPORTS).replace(taken)
        except FileNotFoundError:
            return
    rows = _read_rows(taken)
    if rows:
        from relight.store.limits import write_status_limits

        with store.transaction() as database:
            write_status_limits(database, rows)
    taken.unlink()


def _read_rows(path: Path) -> "list[LimitReportRow]":
    import msgspec

    from relight.store.limits import StatusReport, make_limit_row

    rows = []
    for line in path.read_bytes().splitlines():
        try:
            found = msgspec.json.decode(line, type=StatusReport)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        rows.append(make_limit_row(found.source, found))
    return rows


def begin_status(home: Path) -> None:
    """Make an empty summary if there is none: with it, imports keep one."""
    os.close(os.open(home / SUMMARY, os.O_WRONLY | os.O_CREAT, 0o600))
