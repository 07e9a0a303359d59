"""Runs whose process is gone: marked `unknown`, never repeated; what never began is due again."""

from collections.abc import Iterable, Sequence

from relight.store import Store
from relight.work.jobs.figures import add_figures
from relight.work.jobs.job import RunResult, name_run
from relight.work.jobs.leases import is_alive
from relight.work.jobs.notes import find_notes
from relight.work.jobs.results import finish
from relight.work.jobs.slots import OPEN
from relight.work.processes import find_marked, kill_all

LOST = (
    "the process that ran it ended before the run did ({holder}); what it had done by then is"
    " not known, and it is not repeated"
)
# our own sessions are named after their run
LEFT = """
    select source || ':' || key from session
    where source = 'relight' and key > ? || '-' and key < ? || '.' and parent_id is null
    order by started_at
"""

ENDED = "select 1 from run where id = ? and status not in ('claimed', 'running')"


def find_dead(store: Store, *, now: int) -> list[str]:
    """Holders of runs that have not ended, and who are not there any more."""
    rows = store.query(f"select holder, max(lease_until) from run where {OPEN} group by holder")
    return [
        name
        for name, lease in rows
        if not is_alive(store.config.home, name, lease_until=lease, now=now)
    ]


def settle_dead(store: Store, dead: Iterable[str]) -> int:
    """Give back what dead holders had only claimed, and mark as `unknown` what they were running.

    Gives how many runs were lost. What a lost run had started goes on for nobody, and is ended;
    what it left is told by `aftermath`, which takes longer.
    """
    lost = 0
    for holder in dead:
        _give_back(store, holder)
        rows = store.query(
            f"select id, key from run where holder = ? and {OPEN} and status = 'running'", (holder,)
        )
        for run_id, key in rows:
            lost += _mark_lost(store, run_id, key, holder, evidence=LOST.format(holder=holder))
    return lost


def _mark_lost(store: Store, run_id: int, key: str, holder: str, *, evidence: str) -> bool:
    kill_all(find_marked(name_run(store.config.home, key)))
    return finish(store, run_id, tell_cut_short(store, key, [evidence]), holder=holder)


def tell_cut_short(
    store: Store, key: str, evidence: list[str], *, left: Sequence[str] = ()
) -> RunResult:
    """What is known of a run that did not live to tell it: its sessions, and what they cost.

    Its own are known by their names; `left` are those that its programs left.
    """
    sessions = [*find_sessions(store, key), *left]
    spent = add_figures(store, sessions)
    return RunResult(
        status="unknown",
        outcome="unknown",
        evidence=evidence,
        attempts=max(len(sessions), 1),
        session=sessions[-1] if sessions else None,
        earlier=sessions[:-1],
        cost_nanos=spent.cost_nanos,
        usage=spent.usage,
    )


def find_untold(store: Store) -> set[int]:
    """The runs that were cut short, and of which nobody has told yet what they left."""
    return {
        note.run.id for note in find_notes(store.config.home) if store.query(ENDED, (note.run.id,))
    }


def find_sessions(store: Store, key: str) -> list[str]:
    """The sessions of our own that a run has left so far, one an attempt."""
    return [name for (name,) in store.query(LEFT, (key, key))]


def _give_back(store: Store, holder: str) -> None:
    """What a dead holder had claimed never began: its slot is due again, unless nobody wants it.

    Whoever claims it next judges anew whether it has become too late.
    """
    with store.transaction() as database:
        rows = database.execute(
            f"select job_id, scheduled_for, id from run where holder = ? and {OPEN}"
            " and status = 'claimed'",
            (holder,),
        ).fetchall()
        for job_id, slot, run_id in rows:
            database.execute("delete from run where id = ?", (run_id,))
            database.execute(
                "update job set state = 'scheduled',"
                " next_run_at = case when next_run_at < ?1 then next_run_at else ?1 end"
                " where id = ?2 and state in ('scheduled', 'done')",
                (slot, job_id),
            )


def lose(store: Store, run_id: int, holder: str, *, evidence: str) -> bool:
    """Mark a run as `unknown` whose process died; False if the run had not even begun."""
    rows = store.query("select key, status from run where id = ? and holder = ?", (run_id, holder))
    for key, status in rows:
        if status == "claimed":
            return False
        if status == "running":
            _mark_lost(store, run_id, key, holder, evidence=evidence)
    return True
