"""The beginning of a canary: what it is likely to take, said before it starts, and its checks."""

import secrets
from itertools import islice, takewhile
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from relight.errors import RelightError
from relight.names import find_model_name
from relight.reports.comparison.pairing import RECENT_DAYS, measure_pace
from relight.reports.comparison.sentences import format_points
from relight.stats import canary
from relight.stats.canary import Forecast
from relight.stats.odds import MARGIN, Tally
from relight.store import Store
from relight.store import canaries as canary_table
from relight.store.canaries import CanaryRow
from relight.store.queries.comparison import read_job_cells
from relight.text import dollars, plural
from relight.work.jobs.canaries import deal_next, find_editor
from relight.work.jobs.job import JobDefinition
from relight.work.jobs.preparation import choose_route, settle_job
from relight.work.jobs.registry import describe_job, find_job, schedule_of
from relight.work.jobs.replays import find_repeatable_tasks

Settings: TypeAlias = dict[str, str | None]

DAY_MS = 86_400_000
# enough slots to know how often a job runs
MOST_SLOTS = 5000
ADVICE = (
    "--replay N repeats past tasks first, --share 50% gives it more runs, --margin 10 asks for"
    " less; --anyway begins it"
)


class CanaryOrder(Struct, frozen=True, kw_only=True):
    """An order for a trial: the model on trial, where it is, and the terms of the trial."""

    model: str
    base_url: str | None = None
    key_variable: str | None = None
    provider: str | None = None
    share: float = canary.FIRST_SHARE
    margin: float = MARGIN
    budget_usd: float | None = None
    is_auto: bool = False
    anyway: bool = False
    # at most so many tasks will be repeated first, and may save as many runs
    replay: int = 0


class CanaryPlan(Struct, frozen=True):
    """A canary that has not begun: its row, its forecast, and the sentence about it."""

    row: CanaryRow
    forecast: Forecast
    sentence: str


def plan_canary(store: Store, name: str, order: CanaryOrder, *, now: int) -> CanaryPlan:
    """Return what a canary is likely to take; raise if it cannot begin, or not in useful time."""
    job = describe_job(store, name, now=now).job
    if canary_table.read_canaries(store, job, is_open=True):
        hint = f"relight job canary {job} --stop ends it; `relight job canary {job}` shows it"
        raise RelightError(
            f"a model is on trial in {job} already, or was switched and is watched", hint
        )
    find = _find_foreign_settings if ":" in job else _find_own_settings
    change, before, in_use = find(store, job, order)
    aliases = store.config.models.aliases
    against = find_model_name(in_use, aliases) if in_use else None
    if against is None or not canary_table.count_span(store, job, against).runs:
        # runs may name the model in another way than the job does
        against = _find_usual(store, job, now=now) or against
    model = find_model_name(order.model, aliases)
    if model == against:
        raise RelightError(f"{job} runs on {model} already", "name a cheaper model")
    if order.replay:
        order = replace(order, replay=_count_tasks(store, job, against, number=order.replay))
    done = canary_table.count_span(store, job, against)
    a = Tally(done.successes, done.known - done.successes)
    found = canary.forecast(
        a,
        slots_a_day=_count_slots(store, job, now=now),
        first=order.share,
        margin=order.margin,
        known=done.known / done.runs if done.known else 1.0,
        replayed=order.replay,
    )
    budget = _find_budget(order, found, done)
    row = CanaryRow(
        id=0,
        job=job,
        model=model,
        against=against,
        change=msgspec.json.encode(change).decode(),
        before=msgspec.json.encode(before).decode(),
        margin=order.margin,
        first_share=order.share,
        share=order.share,
        budget_nanos=None if budget is None else round(budget * 1e9),
        is_auto=int(order.is_auto),
        seed=secrets.token_hex(8),
        started_at=now,
        seen=canary_table.count_ended(store, job),
    )
    plan = CanaryPlan(row, found, _describe(row, found, order, a))
    is_long = found.days is None or found.days > canary.MOST_DAYS
    if is_long and not order.anyway:
        raise RelightError(plan.sentence, ADVICE)
    return plan


def start_canary(store: Store, plan: CanaryPlan, *, replay: str | None = None) -> CanaryRow:
    """Begin a canary: from now on slots of its job are dealt."""
    with store.transaction() as database:
        if canary_table.read_canaries(store, plan.row.job, is_open=True):
            raise RelightError(f"a model is on trial in {plan.row.job} already", "look at it first")
        row = canary_table.add_canary(database, replace(plan.row, replay=replay))
    if ":" in row.job:
        deal_next(store, row, now=row.started_at)
    return row


def _find_own_settings(
    store: Store, name: str, order: CanaryOrder
) -> tuple[Settings, Settings, str | None]:
    """Return the settings that change, those that they replace, and the model in use."""
    job = find_job(store, name)
    change: Settings = {"model": order.model, "default_model": None}
    for field in ("base_url", "key_variable", "provider"):
        if given := getattr(order, field):
            change[field] = given
    trial: JobDefinition = replace(job, **change)
    settle_job(store, trial)
    if choose_route(trial, config=store.config).model is None:
        raise RelightError(
            f"the command of {name} does not receive the job's model",
            "write {model} where its program takes one: relight job edit NAME --command …",
        )
    before = {field: getattr(job, field) for field in change}
    return change, before, choose_route(job, config=store.config).model


def _find_foreign_settings(
    _: Store, job: str, order: CanaryOrder
) -> tuple[Settings, Settings, str | None]:
    """Return the same for another scheduler's job."""
    if order.base_url or order.key_variable:
        raise RelightError(
            "another scheduler's job takes a model and a provider only", "set the rest there"
        )
    editor, key = find_editor(job)
    model, provider, in_use = editor.read_model(key)
    change: Settings = {"model": order.model, "provider": order.provider or provider}
    return change, {"model": model, "provider": provider}, in_use


def _count_tasks(store: Store, job: str, against: str | None, *, number: int) -> int:
    """Return how many of so many past tasks can be repeated safely; raise if there is none."""
    if ":" in job:
        raise RelightError(
            "tasks of another scheduler's job cannot be repeated safely", "leave out --replay"
        )
    tasks, skipped = find_repeatable_tasks(store, find_job(store, job), against, number=number)
    if not tasks:
        reason = skipped[0] if skipped else "it has no run with an outcome"
        raise RelightError(
            f"no past task of {job} can be repeated safely: {reason}", "leave out --replay"
        )
    return len(tasks)


def _find_usual(store: Store, job: str, *, now: int) -> str | None:
    """Return the model that most runs of the last days had."""
    cells = read_job_cells(store, job, since=now - RECENT_DAYS * DAY_MS)
    recent = {cell.model: cell.recent for cell in cells if cell.model is not None}
    return max(recent, key=lambda one: (recent[one], one)) if recent else None


def _count_slots(store: Store, job: str, *, now: int) -> float:
    """Return how many runs of a job are due a day; of another scheduler's, how many there were."""
    if ":" in job:
        cells = read_job_cells(store, job, since=now - RECENT_DAYS * DAY_MS)
        return measure_pace(cells, now=now)
    schedule = schedule_of(find_job(store, job), store.timezone)
    until = now + RECENT_DAYS * DAY_MS
    slots = list(islice(takewhile(lambda at: at <= until, schedule.slots(now)), MOST_SLOTS))
    if not slots:
        return 0.0
    days = (slots[-1] - now) / DAY_MS if len(slots) == MOST_SLOTS else RECENT_DAYS
    return len(slots) / max(days, 1e-6)


def _find_budget(order: CanaryOrder, found: Forecast, done: canary_table.SpanCount) -> float | None:
    """Return what a trial may cost: as much as its runs would on the model in use.

    A replayed task is two runs.
    """
    if order.budget_usd is not None:
        return order.budget_usd
    if found.runs is None or not done.priced:
        return None
    return (found.runs + 2 * order.replay) * done.nanos / done.priced / 1e9


def _describe(row: CanaryRow, found: Forecast, order: CanaryOrder, a: Tally) -> str:
    """Return how many runs and days a canary is likely to need, and what it may cost."""
    within = format_points(row.margin)
    if found.runs is None or found.days is None:
        why = (
            "it is never due" if found.runs is not None else f"at {found.rate:.0%} success it takes"
        )
        end = "" if found.runs is not None else f" over 20,000 runs of {row.model}"
        return f"This job cannot tell models {within} apart: {why}{end}."
    time = plural(found.days, "day") if found.days <= 730 else f"{found.days / 365:.0f} years"
    rate = f"at {found.rate:.0%} success" if a.runs else "if 95 % of its runs succeed"
    runs = plural(found.runs, "run")
    tasks, replayed, few = plural(order.replay, "task"), "", ""
    if order.replay >= canary.CHECKED_TASKS:
        replayed = f" after {tasks} replayed"
    elif order.replay:
        few = f" {tasks} will be replayed: fewer than {canary.CHECKED_TASKS} do not count."
    if found.days > canary.MOST_DAYS:
        return (
            f"This job cannot tell models {within} apart: {rate} it takes about {runs} of"
            f" {row.model}{replayed}, {time} at this pace.{few}"
        )
    limit = None if row.budget_nanos is None else dollars(row.budget_nanos / 1e9)
    budget = f" They may cost {limit}." if limit else " No cost is known, so no budget holds it."
    later = ", and 50% after 20 clean ones" if row.share < canary.LATER_SHARE else ""
    return (
        f"If {row.model} is as good as {row.against or 'the model in use'}, about {runs} of it show"
        f" that within {within} {rate}{replayed}: {time} at this pace. It gets {row.share:.0%} of"
        f" the runs{later}; a model that does worse is stopped.{budget}{few}"
    )
