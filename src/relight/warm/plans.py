"""The plan by which templates and lessons are judged, written before their sessions are seen.

A plan chosen after a look would find what the look had shown. So a changed plan begins a new
comparison, which counts only later sessions. The earlier comparisons stay readable.
"""

import time
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from relight.errors import MissingError, RelightError
from relight.stats.evalues import ERROR
from relight.store import Store, warm_plans
from relight.store.warm_plans import PlanRow
from relight.times import write_time

PlannedMeasure = Literal["success", "early_failures", "both"]
EFFECT, EARLY_EFFECT, CAUSE_EFFECT = 0.10, 0.03, 0.30
LARGEST_ERROR = 0.1


class WarmPlan(Struct, frozen=True, kw_only=True):
    """A comparison: its figures, the effects planned for, the accepted error, and its time.

    `measure` is about templates. Lessons are judged by all figures in their order: failures by
    their causes (`cause_effect`), early failures, success. Plans are numbered from 1. A plan
    without a number is the one that the first session begins.
    """

    number: int | None = None
    measure: PlannedMeasure = "both"
    effect: float = EFFECT
    early_effect: float = EARLY_EFFECT
    cause_effect: float = CAUSE_EFFECT
    error: float = ERROR
    begun_at: str | None = None
    ended_at: str | None = None

    @property
    def has_success(self) -> bool:
        return self.measure != "early_failures"

    @property
    def has_early_failures(self) -> bool:
        return self.measure != "success"


class WarmPlanList(Struct, frozen=True):
    """All plans, newest first; the first one counts the sessions that are dealt now."""

    plans: list[WarmPlan]


def read_warm_plans(store: Store) -> list[WarmPlan]:
    """Return all plans, newest first; the default one if no session was dealt yet."""
    found: list[WarmPlan] = []
    end: str | None = None
    rows = warm_plans.read_plan_rows(store)
    for number in range(len(rows), 0, -1):
        row = rows[number - 1]
        begin = write_time(row.begun_at)
        facts = asdict(row) | {"number": number, "begun_at": begin, "ended_at": end}
        found.append(msgspec.convert(facts, WarmPlan))
        end = begin
    return found or [WarmPlan()]


def find_plan(store: Store, number: int | None = None) -> WarmPlan:
    """Return a plan by its number, or the present one; raise if it does not exist."""
    plans = read_warm_plans(store)
    if number is None:
        return plans[0]
    for plan in plans:
        if plan.number == number:
            return plan
    raise MissingError(f"there is no plan {number}", "`relight experiment plan` lists them")


def change_plan(
    store: Store,
    *,
    measure: PlannedMeasure | None = None,
    effect: float | None = None,
    early_effect: float | None = None,
    cause_effect: float | None = None,
    error: float | None = None,
    now: int | None = None,
) -> WarmPlan:
    """Begin a new comparison with these changes; return the present plan if nothing changes."""
    effects = {"effect": effect, "early_effect": early_effect, "cause_effect": cause_effect}
    asked = {"measure": measure, "error": error} | effects
    before = find_plan(store)
    changed = replace(before, **{name: value for name, value in asked.items() if value is not None})
    if changed == before and before.number is not None:
        return before
    _add(store, check_plan_figures(changed), now=now)
    return find_plan(store)


def begin_first_plan(store: Store, *, now: int | None = None) -> None:
    """Write the default plan if there is none: the first session is about to be dealt."""
    if not store.has_rows("warm_plan"):
        _add(store, WarmPlan(), now=now, is_first=True)


def check_plan_figures(plan: WarmPlan) -> WarmPlan:
    """Return the plan; raise if a figure is out of range."""
    for name in ("effect", "early_effect", "cause_effect"):
        value = getattr(plan, name)
        if not 0 < value < 1:
            raise RelightError(
                f"{name} must be above 0 and below 1, got {value}",
                "give a share: 0.1 is ten points",
            )
    if not 0 < plan.error <= LARGEST_ERROR:
        raise RelightError(
            f"error must be above 0 and at most {LARGEST_ERROR}, got {plan.error}",
            "0.05 is one wrong verdict in 20 comparisons without an effect",
        )
    return plan


def _add(store: Store, plan: WarmPlan, *, now: int | None, is_first: bool = False) -> None:
    begun_at = int(time.time() * 1000) if now is None else now
    row = PlanRow(
        plan.measure, plan.effect, plan.early_effect, plan.error, begun_at, plan.cause_effect
    )
    warm_plans.add_plan_row(store, row, is_first=is_first)
