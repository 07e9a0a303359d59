"""Exports as files: lines of JSON, or tables of comma-separated values.

A file appears when it is whole. One that is there already is replaced only if that is wanted.
"""

import csv
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from msgspec import Struct
from msgspec.structs import astuple

from relight.chat.exported import ExportedCall, ExportedFacts, ExportedFigures, ExportedTurn
from relight.errors import RelightError
from relight.locks import make_folder, replace_when_whole
from relight.reports.export import list_families, read_session_tables, write_session_line
from relight.store import Store
from relight.store.queries.export import count_roots
from relight.store.queries.filters import Filter
from relight.text import make_cell

Format = Literal["jsonl", "csv"]
Table = Literal["sessions", "turns", "calls"]
TABLES: tuple[Table, ...] = ("sessions", "turns", "calls")
# only the tape has these: they are in lines of JSON
ON_TAPE = ("recorded_exit_code", "is_error", "timed_out")
CALL_COLUMNS = tuple(one for one in ExportedCall.__struct_fields__ if one not in ON_TAPE)
COLUMNS: dict[Table, tuple[str, ...]] = {
    "sessions": (*ExportedFacts.__struct_fields__, *ExportedFigures.__struct_fields__),
    "turns": ("session_id", *ExportedTurn.__struct_fields__),
    "calls": ("session_id", *CALL_COLUMNS),
}
STANDARD_OUTPUT = "-"


class ExportSummary(Struct, kw_only=True):
    """The counts of an export; `cut_sessions` have shortened texts, `silent_sessions` have none."""

    format: Format
    files: list[str]
    sessions: int = 0
    turns: int = 0
    tool_calls: int = 0
    bytes: int = 0
    cut_sessions: int = 0
    silent_sessions: int = 0


def export_sessions(
    store: Store,
    target: str | Path,
    chosen: Filter | None = None,
    *,
    format: Format = "jsonl",
    table: Table | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ExportSummary:
    """Write sessions, turns and tool calls into a file; `-` is standard output.

    CSV is a folder of three files, or with `table` one file. A file that exists is replaced only
    with `force`.
    """
    if table is not None and format != "csv":
        raise RelightError("table needs format csv", "a line of JSON has turns and calls in it")
    wanted = chosen or Filter()
    names = _name_files(os.fspath(target), format, table)
    done = ExportSummary(format=format, files=names)
    total = count_roots(store, wanted) if progress else 0
    with ExitStack() as stack:
        files = [stack.enter_context(open_target(name, force=force)) for name in names]
        tables: dict[Table, BinaryIO] = {}
        if format == "csv":
            tables = dict(zip(TABLES if table is None else (table,), files, strict=True))
        for one, file in tables.items():
            done.bytes += _write_rows(file, [COLUMNS[one]])
        for number, family in enumerate(list_families(store, wanted), start=1):
            for session_id in family:
                if tables:
                    _write_tables(store, session_id, tables, done)
                else:
                    _write_line(store, session_id, files[0], done)
            if progress is not None:
                progress(number, max(total, number))
    return done


def _name_files(target: str, format: Format, table: Table | None) -> list[str]:
    if format == "jsonl" or table is not None:
        return [target]
    if target == STANDARD_OUTPUT:
        raise RelightError(
            "three tables cannot go to one standard output", f"choose a table: {', '.join(TABLES)}"
        )
    folder = Path(target)
    if folder.exists() and not folder.is_dir():
        raise RelightError(
            f"{target} is a file: CSV is a folder of three", "name a folder, or choose a table"
        )
    make_folder(folder)
    return [os.fspath(folder / f"{one}.csv") for one in TABLES]


@contextmanager
def open_target(name: str, *, force: bool) -> Iterator[BinaryIO]:
    """Yield the file to write; a pipe and standard output are written as they are."""
    path = Path(name)
    if name == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif path.is_dir():
        raise RelightError(f"{name} is a folder", "name a file")
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    elif path.exists() and not force:
        raise RelightError(f"{name} already exists", "`--force` replaces it")
    elif not path.parent.is_dir():
        raise RelightError(f"there is no folder {path.parent}", "create it, or name another")
    else:
        try:
            # a link stays one: what it names is replaced
            with replace_when_whole(path.resolve(), may_exist=force) as file:
                yield file
        except FileExistsError as error:
            raise RelightError(f"{name} was made meanwhile", "`--force` replaces it") from error


def _write_line(store: Store, session_id: int, file: BinaryIO, done: ExportSummary) -> None:
    made = write_session_line(store, session_id)
    file.write(made.line)
    file.write(b"\n")
    done.sessions += 1
    done.turns += made.turns
    done.tool_calls += made.calls
    done.bytes += len(made.line) + 1
    done.cut_sessions += made.is_cut
    done.silent_sessions += not made.has_texts


def _write_tables(
    store: Store, session_id: int, tables: Mapping[Table, BinaryIO], done: ExportSummary
) -> None:
    found = read_session_tables(store, session_id)
    name = found.facts.session_id
    rows: dict[Table, list[tuple[object, ...]]] = {
        "sessions": [(*astuple(found.facts), *astuple(found.figures))],
        "turns": [(name, *astuple(turn)) for turn in found.turns],
        "calls": [(name, *(getattr(one, c) for c in CALL_COLUMNS)) for one in found.calls],
    }
    for table, file in tables.items():
        done.bytes += _write_rows(file, rows[table])
    done.sessions += 1
    done.turns += len(found.turns)
    done.tool_calls += len(found.calls)


def _write_rows(file: BinaryIO, rows: Iterable[Sequence[object]]) -> int:
    """Write rows as CSV and return their bytes.

    Every text is quoted: a spreadsheet that separates cells by semicolons must not split one.
    """
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerows([make_cell(value) for value in row] for row in rows)
    data = text.getvalue().encode("utf-8", "replace")
    file.write(data)
    return len(data)
