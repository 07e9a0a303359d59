"""The use of the windows of plans, as agents reported it."""

from collections.abc import Sequence

from msgspec import Struct

from relight.model import LimitReport, WindowKind, row_id
from relight.store import Store
from relight.store.sql import Connection, insert, take_new

MERGE = f"""
    on conflict (session_id, kind, ends_at) do update set {take_new(("at", "used_percent"))}
    where excluded.at >= limit_report.at
"""
# a status line is drawn again without news: its report is as old as its figure
MERGE_STATUS = f"{MERGE} and excluded.used_percent <> limit_report.used_percent"


class LimitReportRow(Struct, frozen=True, array_like=True):
    """A row of `limit_report`."""

    session_id: int
    kind: WindowKind
    ends_at: int
    source: str
    at: int
    used_percent: float


class StatusReport(LimitReport, frozen=True, kw_only=True):
    """A report that an agent's status line left for the next import."""

    source: str


def make_limit_row(source: str, report: LimitReport) -> LimitReportRow:
    return LimitReportRow(
        session_id=row_id("session", source, report.session),
        kind=report.kind,
        ends_at=report.ends_at,
        source=source,
        at=report.at,
        used_percent=report.used_percent,
    )


def write_limits(database: Connection, rows: Sequence[LimitReportRow]) -> None:
    """Write reports; of those of one session on one window, the last one holds."""
    insert(database, "limit_report", rows, on_conflict=MERGE)


def write_status_limits(database: Connection, rows: Sequence[LimitReportRow]) -> None:
    """Write what status lines reported; a repeated figure keeps the time it was first seen."""
    insert(database, "limit_report", rows, on_conflict=MERGE_STATUS)


def read_limits(store: Store, source: str, since: int) -> list[LimitReportRow]:
    """Return the reports on windows that ended after a moment, or have not ended."""
    return store.read(
        LimitReportRow,
        "select * from limit_report where source = ? and ends_at > ?"
        " order by ends_at, at, session_id",
        (source, since),
    )
