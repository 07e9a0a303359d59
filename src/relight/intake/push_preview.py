"""A preview of a push: what it would send, made as a push makes it, and not sent."""

from msgspec import Struct

from relight.intake.joining import find_shared, need_target
from relight.intake.pushed_facts import make_part
from relight.intake.wire import Naming
from relight.names import cut_project
from relight.store import Store
from relight.store.team import (
    count_without_tape,
    read_due_forgets,
    read_due_outcomes,
    read_due_parts,
)
from relight.store.team_facts import read_due_runs, read_due_uses


class DryRow(Struct, kw_only=True):
    """The parts of one project and source that would be sent."""

    project: str | None
    source: str
    sessions: int = 0
    parts: int = 0
    bytes: int = 0


class DryRun(Struct, frozen=True, kw_only=True):
    """Everything that would leave this machine; nothing was sent."""

    url: str
    share: str
    parts: list[DryRow]
    outcomes: int
    runs: int
    skill_uses: int
    forgotten: int
    left_out: int
    # parts whose project is not known yet
    waiting: int
    # sessions whose tapes were dropped: they stay here
    without_tape: int


def try_out(store: Store) -> DryRun:
    """Return everything that a push would send, without sending it."""
    target = need_target(store)
    naming = Naming(target.machine, target.share == "figures")
    rows: dict[tuple[str | None, str], DryRow] = {}
    sessions: dict[tuple[str | None, str], set[str]] = {}
    left_out = waiting = after = 0
    while some := read_due_parts(store, after):
        after = some[-1].id
        for due in some:
            if not (is_shared := find_shared(target, due.project)):
                left_out += is_shared is False
                waiting += is_shared is None
                continue
            made = make_part(store, due, naming, lambda note: None)
            if made is None:
                continue
            project = due.project
            if target.share == "figures":
                project = cut_project(project)
            place = (project, due.source)
            row = rows.setdefault(place, DryRow(project=project, source=due.source))
            row.parts += 1
            row.bytes += len(made.records) + len(made.state)
            sessions.setdefault(place, set()).add(due.session)
            row.sessions = len(sessions[place])
    runs, uses = read_due_runs(store), read_due_uses(store)
    outcomes = [one for one in read_due_outcomes(store) if find_shared(target, one.project)]
    return DryRun(
        url=target.url,
        share=target.share,
        parts=sorted(rows.values(), key=lambda row: (row.project or "", row.source)),
        outcomes=len(outcomes),
        runs=sum(find_shared(target, one.project) is True for one in runs),
        skill_uses=sum(find_shared(target, one.project) is True for one in uses),
        forgotten=len(read_due_forgets(store)),
        left_out=left_out,
        waiting=waiting,
        without_tape=count_without_tape(store),
    )
