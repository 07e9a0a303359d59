"""An experiment's result: the same tasks in both arms, compared pair by pair, with a verdict."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from relight.ids import row_id
from relight.stats.permutation import cluster_bootstrap, part_pairs
from relight.stats.rates import Estimate
from relight.stats.trials import LiveView, always_valid_pairs
from relight.store import Store
from relight.work.experiments.comparison import ALPHA, SEED
from relight.work.experiments.register import Experiment, Run, read_runs
from relight.work.experiments.sessions import Session, read_one

SAMPLES = 2000
# with fewer even a clean sweep may be chance: of five tasks one in sixteen
LEAST_TASKS = 6


class PairedMeasure(Struct, frozen=True, kw_only=True):
    """One figure of both arms over the pairs in which both are known: the second less the first."""

    arms: dict[str, Estimate | None]
    difference: Estimate | None
    p_value: float | None
    pairs: int
    tasks: int


class PairedReport(Struct, frozen=True, kw_only=True):
    """What an experiment came to, and what may be said of it."""

    name: str
    arms: list[str]
    status: str
    note: str | None
    verdict: str
    primary: str
    # tasks times rounds: asked for, run in both arms, left out
    pairs: dict[str, int]
    outcomes: dict[str, dict[str, int]]
    measures: dict[str, PairedMeasure]
    live_view: LiveView | None
    cost_usd: dict[str, float | None]
    tokens: dict[str, int | None]
    runs: list[dict[str, Any]]


class _Side(Struct, frozen=True):
    """One run of a pair with what its session shows."""

    run: Run
    outcome: bool | None
    session: Session | None


Pair = tuple[str, _Side, _Side]


def read_paired_report(store: Store, experiment: Experiment) -> PairedReport:
    """The result of an experiment so far."""
    arms = experiment.plan.arms
    sides = {
        (run.task, run.round, run.arm): _read_side(store, run)
        for run in read_runs(store, experiment.id)
    }
    done = {key: side for key, side in sides.items() if side.run.status == "done"}
    pairs = [
        (task, side, done[task, number, arms[1]])
        for (task, number, arm), side in done.items()
        if arm == arms[0] and (task, number, arms[1]) in done
    ]
    skipped = {key[:2] for key, side in sides.items() if side.run.status == "skipped"}
    measures = {name: _compare(arms, pairs, read) for name, read in MEASURES.items()}
    primary = "success_rate" if measures["success_rate"].pairs else "first_30_failure_rate"
    counts = {
        "planned": experiment.plan.planned_pairs,
        "done": len(pairs),
        "skipped": len(skipped),
    }
    return PairedReport(
        name=experiment.name,
        arms=arms,
        status=experiment.status,
        note=experiment.note,
        verdict=_judge(arms, measures[primary], primary, counts),
        primary=primary,
        pairs=counts,
        outcomes={arm: _count_outcomes(done.values(), arm) for arm in arms},
        measures=measures,
        live_view=always_valid_pairs(
            [(two - one) / count for one, two, count in _add_rounds(pairs, MEASURES[primary])],
            tau=0.1 if primary == "success_rate" else 0.03,
        ),
        cost_usd={arm: _add_cost(done.values(), arm) for arm in arms},
        tokens={arm: _add_tokens(done.values(), arm) for arm in arms},
        runs=[_show(side) for side in sides.values()],
    )


def _read_side(store: Store, run: Run) -> _Side:
    session = None
    if run.session:
        session = read_one(store, row_id("session", *run.session.split(":", 1)), run.arm)
    outcome = {"success": True, "failure": False}.get(run.outcome or "")
    if outcome is None and session is not None:
        outcome = session.outcome  # a person may have said since how it went
    return _Side(run, outcome, session)


def _read_success(side: _Side) -> float | None:
    return None if side.outcome is None else float(side.outcome)


def _read_first_failures(side: _Side) -> float | None:
    one = side.session
    return one.failed_first / one.judged_first if one and one.judged_first else None


def _read_failures(side: _Side) -> float | None:
    return None if side.session is None else float(side.session.failures)


def _read_calls(side: _Side) -> float | None:
    return None if side.session is None else float(side.session.calls)


def _read_cost(side: _Side) -> float | None:
    return None if side.run.cost_nanos is None else side.run.cost_nanos / 1e9


def _read_tokens(side: _Side) -> float | None:
    return None if side.run.tokens is None else float(side.run.tokens)


def _read_seconds(side: _Side) -> float | None:
    return None if side.run.duration_ms is None else side.run.duration_ms / 1000


MEASURES: dict[str, Callable[[_Side], float | None]] = {
    "success_rate": _read_success,
    "first_30_failure_rate": _read_first_failures,
    "failures_per_run": _read_failures,
    "calls_per_run": _read_calls,
    "tokens_per_run": _read_tokens,
    "cost_usd_per_run": _read_cost,
    "seconds_per_run": _read_seconds,
}


def _compare(
    arms: Sequence[str], pairs: Sequence[Pair], read: Callable[[_Side], float | None]
) -> PairedMeasure:
    """The arms in one figure; runs of one task are alike, so tasks are what is drawn."""
    tasks = _add_rounds(pairs, read)
    parting = part_pairs([(two - one, count) for one, two, count in tasks], seed=SEED)
    alike = Estimate(0.0, None, None) if tasks else None
    return PairedMeasure(
        arms={
            arm: cluster_bootstrap(
                [(one[place], one[2]) for one in tasks], seed=SEED, samples=SAMPLES
            )
            for place, arm in enumerate(arms)
        },
        difference=parting.difference if parting else alike,
        p_value=parting.p_value if parting else None,
        pairs=round(sum(one[2] for one in tasks)),
        tasks=len(tasks),
    )


def _add_rounds(
    pairs: Sequence[Pair], read: Callable[[_Side], float | None]
) -> list[tuple[float, float, float]]:
    """Each task's sums in both arms over the rounds in which both are known, and their number.

    Rounds of the same task are no news of their own.
    """
    sums: dict[str, tuple[float, float, float]] = {}
    for task, one, two in pairs:
        first, second = read(one), read(two)
        if first is not None and second is not None:
            before = sums.get(task, (0.0, 0.0, 0.0))
            sums[task] = before[0] + first, before[1] + second, before[2] + 1
    return list(sums.values())


def _judge(
    arms: Sequence[str], measure: PairedMeasure, primary: str, counts: Mapping[str, int]
) -> str:
    wanted = counts["planned"] - counts["skipped"]
    if counts["done"] < wanted:
        return f"not finished: {counts['done']} of {wanted} pairs have been run in both arms"
    found = measure.difference
    if not measure.pairs or found is None or found.value is None:
        return "not enough data: no pair tells how it went in both arms; give the tasks a check"
    what, worth = ("task success", 1) if primary == "success_rate" else ("failed calls", -1)
    told = f"{what} {found.value:+.1%}"
    if found.low is not None and found.high is not None:
        told += f" [{found.low:+.1%}, {found.high:+.1%}]"
    told += f" in {measure.pairs} pairs"
    if measure.tasks < LEAST_TASKS:
        return f"not enough data: {told}, and fewer than {LEAST_TASKS} tasks can show nothing"
    if measure.p_value is None:
        return f"no difference: both arms did the same in all {measure.pairs} pairs"
    if measure.p_value >= ALPHA:
        return f"no difference found between {arms[1]} and {arms[0]}: {told}" + (
            f" (p = {measure.p_value:.2f}); it may be anywhere in that interval"
        )
    word = "better" if found.value * worth > 0 else "worse"
    return f"{arms[1]} is {word} than {arms[0]}: {told} (p = {measure.p_value:.3f})"


def _count_outcomes(sides: Iterable[_Side], arm: str) -> dict[str, int]:
    own = [side.outcome for side in sides if side.run.arm == arm]
    return {
        "success": own.count(True),
        "failure": own.count(False),
        "unknown": own.count(None),
    }


def _add_cost(sides: Iterable[_Side], arm: str) -> float | None:
    costs = [side.run.cost_nanos for side in sides if side.run.arm == arm]
    known = [cost for cost in costs if cost is not None]
    return sum(known) / 1e9 if known and len(known) == len(costs) else None


def _add_tokens(sides: Iterable[_Side], arm: str) -> int | None:
    counts = [side.run.tokens for side in sides if side.run.arm == arm]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _show(side: _Side) -> dict[str, Any]:
    run = side.run
    outcome = {True: "success", False: "failure", None: "unknown"}[side.outcome]
    return {
        "task": run.task,
        "round": run.round,
        "arm": run.arm,
        "status": run.status,
        "outcome": outcome if run.status == "done" else None,
        "evidence": run.evidence,
        "session": run.session,
        "template": run.template,
        "similarity": run.similarity,
        "cost_usd": None if run.cost_nanos is None else run.cost_nanos / 1e9,
        "tokens": run.tokens,
        "duration_seconds": None if run.duration_ms is None else run.duration_ms / 1000,
    }


def as_json(report: PairedReport) -> dict[str, Any]:
    shown: dict[str, Any] = to_builtins(report)
    return shown
