"""Plans of the comparison of warm with cold sessions, as they were written."""

from msgspec import Struct

from relight.store import Store
from relight.store.sql import insert


class PlanRow(Struct, frozen=True):
    """A plan; it counts the sessions dealt from its beginning until that of the next one."""

    measure: str
    effect: float
    early_effect: float
    error: float
    begun_at: int
    cause_effect: float


def read_plan_rows(store: Store) -> list[PlanRow]:
    """Return all plans, oldest first."""
    return store.read(PlanRow, "select * from warm_plan order by id")


def add_plan_row(store: Store, plan: PlanRow, *, is_first: bool = False) -> None:
    """Add a plan; with `is_first` only if there is none, also if another process writes now."""
    with store.transaction() as database:
        if not is_first or not database.execute("select 1 from warm_plan limit 1").fetchone():
            insert(database, "warm_plan", [plan])
