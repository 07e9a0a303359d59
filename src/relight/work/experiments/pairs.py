"""The result of an experiment: the same tasks in both arms, compared pair by pair.

The tasks are planned before the first run, so the test is made once, when all of them are done.
Until then there is neither a verdict nor a p-value, however often the result is looked at.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from relight.model import row_id
from relight.stats.permutation import cluster_bootstrap, part_pairs
from relight.stats.rates import Estimate
from relight.store import Store
from relight.store.experiments import TrialRun, read_trial_runs
from relight.store.queries import take_fields
from relight.store.sql import read_seconds, read_usd
from relight.text import share
from relight.work.experiments.metrics import METRICS, RunSide, find_arm_session
from relight.work.experiments.register import Experiment
from relight.work.experiments.warm_verdict import EARLY, SUCCESS
from relight.work.jobs.spending import sum_known

ALPHA = 0.05
SEED = 20261115
SAMPLES = 2000
# with fewer tasks even a clean sweep may be chance: with five, one in sixteen
LEAST_TASKS = 6


class PairedMeasure(Struct, frozen=True, kw_only=True):
    """One metric over the pairs in which both arms are known: the second less the first."""

    arms: dict[str, Estimate | None]
    difference: Estimate | None
    p_value: float | None
    pairs: int
    tasks: int


class TrialSummary(Struct, frozen=True, kw_only=True):
    """One run of an experiment as it is reported."""

    task: str
    round: int
    arm: str
    status: str
    outcome: str | None
    evidence: list[str]
    session_id: str | None
    template: str | None
    similarity: float | None
    cost_usd: float | None
    tokens: int | None
    duration_seconds: float | None


class PairedReport(Struct, frozen=True, kw_only=True):
    """The metrics of an experiment's pairs, with a verdict."""

    name: str
    arms: list[str]
    status: str
    note: str | None
    verdict: str
    primary: str
    # tasks times rounds: planned, run in both arms, skipped
    pairs: dict[str, int]
    outcomes: dict[str, dict[str, int]]
    measures: dict[str, PairedMeasure]
    cost_usd: dict[str, float | None]
    tokens: dict[str, int | None]
    runs: list[TrialSummary]


Pair = tuple[str, RunSide, RunSide]
Read = Callable[[RunSide], float | None]


def read_paired_report(store: Store, experiment: Experiment) -> PairedReport:
    """Return the result of an experiment so far."""
    arms = experiment.plan.arms
    sides = {
        (run.task, run.round, run.arm): _read_side(store, run)
        for run in read_trial_runs(store, experiment.id)
    }
    done = {key: side for key, side in sides.items() if side.run.status == "done"}
    pairs = [
        (task, side, done[task, number, arms[1]])
        for (task, number, arm), side in done.items()
        if arm == arms[0] and (task, number, arms[1]) in done
    ]
    skipped = {key[:2] for key, side in sides.items() if side.run.status == "skipped"}
    counts = {
        "planned": experiment.plan.planned_pairs,
        "done": len(pairs),
        "skipped": len(skipped),
    }
    is_done = counts["done"] >= counts["planned"] - counts["skipped"]
    measures = {
        name: _compare(arms, pairs, one.read_run, is_done=is_done)
        for name, one in METRICS.items()
        if one.read_run
    }
    runs = {arm: [side.run for side in done.values() if side.run.arm == arm] for arm in arms}
    nanos = {arm: _add_all(run.cost_nanos for run in some) for arm, some in runs.items()}
    primary = SUCCESS if experiment.plan.judged_by == "success" else EARLY
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
        cost_usd={arm: None if one is None else one / 1e9 for arm, one in nanos.items()},
        tokens={arm: _add_all(run.tokens for run in some) for arm, some in runs.items()},
        runs=[_summarise(side) for side in sides.values()],
    )


def _read_side(store: Store, run: TrialRun) -> RunSide:
    session = None
    if run.session:
        session = find_arm_session(store, row_id("session", *run.session.split(":", 1)), run.arm)
    outcome = {"success": True, "failure": False}.get(run.outcome or "")
    if outcome is None and session is not None:
        outcome = session.outcome  # a person may have labelled it since
    return RunSide(run, outcome, session)


def _compare(
    arms: Sequence[str], pairs: Sequence[Pair], read: Read, *, is_done: bool
) -> PairedMeasure:
    """Compare the arms in one metric; runs of one task are alike, so tasks are resampled."""
    tasks = _add_rounds(pairs, read)
    parting = None
    if is_done:
        parting = part_pairs([(two - one, count) for one, two, count in tasks], seed=SEED)
    count = sum(one[2] for one in tasks)
    plain = Estimate(sum(one[1] - one[0] for one in tasks) / count, None, None) if count else None
    return PairedMeasure(
        arms={
            arm: cluster_bootstrap(
                [(one[place], one[2]) for one in tasks], seed=SEED, samples=SAMPLES
            )
            for place, arm in enumerate(arms)
        },
        difference=parting.difference if parting else plain,
        p_value=parting.p_value if parting else None,
        pairs=round(count),
        tasks=len(tasks),
    )


def _add_rounds(pairs: Sequence[Pair], read: Read) -> list[tuple[float, float, float]]:
    """Return each task's sums over the rounds known in both arms, and the number of those.

    Rounds of the same task are not independent.
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
    if found is None or found.value is None:
        missing = "a known outcome" if primary == SUCCESS else "judged calls"
        return f"not enough data: no pair has {missing} in both arms; give the tasks a check"
    text = _describe(arms, measure, found, primary)
    if measure.tasks < LEAST_TASKS:
        return (
            f"not enough data: {text}, and fewer than {LEAST_TASKS} tasks cannot show a difference"
        )
    if measure.p_value is None:
        return f"no difference: both arms did the same in all {measure.pairs} pairs"
    if measure.p_value >= ALPHA:
        return f"no difference found between {arms[1]} and {arms[0]}: {text}" + (
            f", p = {measure.p_value:.2f}; it may be anywhere in that interval"
        )
    is_better = (found.value > 0) is METRICS[primary].more_is_better
    word = "better" if is_better else "worse"
    return f"{arms[1]} is {word} than {arms[0]}: {text}, p = {measure.p_value:.3f}"


def _describe(arms: Sequence[str], measure: PairedMeasure, found: Estimate, primary: str) -> str:
    """Return the counts of the second arm against the first, then the difference."""
    first, second = ((one and one.value) or 0.0 for one in (measure.arms[arm] for arm in arms))
    if primary == SUCCESS:
        own, other = (
            f"{value * measure.pairs:.0f} of {measure.pairs}" for value in (second, first)
        )
        text = f"{own} runs succeeded against {other}"
    else:
        text = f"{share(second)} of the first calls failed against {share(first)}"
        text += f" in {measure.pairs} pairs"
    return f"{text}, {METRICS[primary].format_difference(found)}"


def _count_outcomes(sides: Iterable[RunSide], arm: str) -> dict[str, int]:
    own = [side.outcome for side in sides if side.run.arm == arm]
    return {
        "successes": own.count(True),
        "failures": own.count(False),
        "unknown": own.count(None),
    }


def _add_all(values: Iterable[int | None]) -> int | None:
    """Return the sum; None if one value is unknown, or if there is none."""
    listed = list(values)
    return None if None in listed else sum_known(listed)


def _summarise(side: RunSide) -> TrialSummary:
    run = side.run
    outcome = {True: "success", False: "failure", None: "unknown"}[side.outcome]
    return TrialSummary(
        **take_fields(run, TrialSummary, but=["outcome"]),
        outcome=outcome if run.status == "done" else None,
        session_id=run.session,
        cost_usd=read_usd(run.cost_nanos),
        duration_seconds=read_seconds(run.duration_ms),
    )
