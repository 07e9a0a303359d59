"""Is a cheaper model good enough for a skill? Its runs on each model, and how certain they are."""

from collections.abc import Sequence

from msgspec import Struct

from relight.checks import check_number, check_text
from relight.errors import MissingError, RelightError
from relight.stats.beta import probability_at_least, runs_to_settle
from relight.stats.rates import wilson
from relight.store import Store
from relight.store.queries import skills as queries
from relight.store.queries.skills import ModelRuns

CERTAINTY = 0.95


class ModelArm(Struct, frozen=True, kw_only=True):
    """A skill's runs on one model; rates are over known outcomes, costs over known costs."""

    model: str | None
    runs: int
    successes: int
    failures: int
    unknown: int
    success_rate: float | None
    low: float
    high: float
    unpriced: int
    cost_per_call: float | None
    cost_per_success: float | None
    versions: list[str]


class Pairing(Struct, frozen=True, kw_only=True):
    """A model against the costliest: `probability` that it succeeds as often, less a margin.

    `is_cheaper` is None if a cost is unknown. `more_runs` of each would settle it at the current
    rates; None if no number would, or if it is unknown.
    """

    model: str | None
    against: str | None
    is_cheaper: bool | None
    probability: float | None
    is_settled: bool
    more_runs: int | None


class Comparison(Struct, frozen=True, kw_only=True):
    """A skill's models, the costliest first, and one sentence on whether a cheaper one will do."""

    skill_name: str
    margin: float
    models: list[ModelArm]
    pairs: list[Pairing]
    verdict: str
    notes: list[str]


def compare_models(
    store: Store, skill: str, *, models: Sequence[str] | None = None, margin: float = 0.05
) -> Comparison:
    """Compare a skill's runs on the other models with those on the costliest.

    Good enough is a success rate of at most `margin` below the costliest one's, with a probability
    of 0.95; "not enough data" is a possible answer. `models` are names, or parts that only one has.
    """
    check_text("skill", skill)
    check_number("margin", margin, least=0, below=1)
    arms = _read_arms(store, skill)
    if models is not None:
        arms = _choose(arms, models, skill)
    arms.sort(key=_costliest_first)
    # the others are compared with the costliest model that has known outcomes
    first = next((n for n, arm in enumerate(arms) if arm.success_rate is not None), 0)
    pairs = [_pair(arms[first], arm, margin) for arm in arms[first + 1 :]]
    return Comparison(
        skill_name=skill,
        margin=margin,
        models=arms,
        pairs=pairs,
        verdict=judge_models(skill, arms, pairs, margin),
        notes=find_notes(arms),
    )


def _read_arms(store: Store, skill: str) -> list[ModelArm]:
    versions = queries.read_versions_used(store, skill)
    arms = [
        _make_arm(one, versions.get(one.model, [])) for one in queries.count_by_model(store, skill)
    ]
    if not arms:
        # people often type a part of the name
        known = sorted(queries.list_skills(store), key=lambda name: (skill not in name, name))
        more = f" and {len(known) - 8} more" if len(known) > 8 else ""
        hint = f"there are {', '.join(known[:8])}{more}" if known else "run `relight import` first"
        raise MissingError(f"no use of a skill {skill!r} is recorded", hint)
    return arms


def _make_arm(found: ModelRuns, versions: list[str]) -> ModelArm:
    rate = found.successes / found.known if found.known else None
    cost = found.nanos / 1e9 / found.priced if found.priced else None
    interval = wilson(found.successes, found.known)
    return ModelArm(
        model=found.model,
        runs=found.runs,
        successes=found.successes,
        failures=found.known - found.successes,
        unknown=found.runs - found.known,
        success_rate=rate,
        low=interval.low,
        high=interval.high,
        unpriced=found.runs - found.priced,
        cost_per_call=cost,
        cost_per_success=cost / rate if cost is not None and rate else None,
        versions=versions,
    )


def _costliest_first(arm: ModelArm) -> tuple[bool, float, int, str]:
    """The order of arms. Models without a known cost come last: they may be free."""
    known = arm.successes + arm.failures
    return arm.cost_per_call is None, -(arm.cost_per_call or 0), -known, arm.model or ""


def _choose(arms: Sequence[ModelArm], models: Sequence[str], skill: str) -> list[ModelArm]:
    by_name = {arm.model or "unknown": arm for arm in arms}
    chosen = {}
    for name in models:
        found = [name] if name in by_name else [full for full in by_name if name in full]
        if len(found) != 1:
            reason = f"ran on several models like {name!r}" if found else f"never ran on {name!r}"
            raise MissingError(f"{skill} {reason}", f"it ran on {', '.join(found or by_name)}")
        chosen[found[0]] = by_name[found[0]]
    if len(chosen) < 2:
        raise RelightError("models must name two or more to compare", "leave it out for all")
    return list(chosen.values())


def _pair(costliest: ModelArm, other: ModelArm, margin: float) -> Pairing:
    a, b = (costliest.successes, costliest.failures), (other.successes, other.failures)
    dear, cost = costliest.cost_per_call, other.cost_per_call
    probability = probability_at_least(a, b, margin=margin) if sum(a) and sum(b) else None
    return Pairing(
        model=other.model,
        against=costliest.model,
        is_cheaper=None if dear is None or cost is None else cost < dear,
        probability=probability,
        is_settled=probability is not None and not 1 - CERTAINTY < probability < CERTAINTY,
        more_runs=None
        if probability is None
        else runs_to_settle(a, b, margin=margin, certainty=CERTAINTY),
    )


def judge_models(
    skill: str, arms: Sequence[ModelArm], pairs: Sequence[Pairing], margin: float
) -> str:
    """Return one sentence: the cheapest model that is good enough, or why that is unknown."""
    known = [arm for arm in arms if arm.success_rate is not None]
    if len(known) < 2:
        which = f"only {_name(known[0].model)} has" if known else "no model has"
        return f"Not enough data: {which} runs of {skill} with a known outcome."
    asked = [pair for pair in pairs if pair.is_cheaper is not False]
    if not asked:
        return f"No model is cheaper than {_name(pairs[0].against)}: a call costs the same on each."
    good = [pair for pair in asked if pair.is_settled and (pair.probability or 0) >= CERTAINTY]
    if good:
        return _describe_good(skill, arms, good, margin)
    if unsettled := [one for one in asked if not one.is_settled and one.probability is not None]:
        return _describe_unsettled(skill, unsettled, margin)
    if worse := [pair for pair in asked if pair.is_settled]:
        return _describe_worse(skill, worse, margin)
    names = " and ".join(_name(pair.model) for pair in asked)
    return f"Not enough data: no run of {skill} on {names} has a known outcome."


def _describe_good(
    skill: str, arms: Sequence[ModelArm], good: Sequence[Pairing], margin: float
) -> str:
    # the cheapest of those that are known to be cheaper
    pair = next((pair for pair in reversed(good) if pair.is_cheaper), good[-1])
    return (
        f"{_name(pair.model)} is good enough for {skill}: with a probability of"
        f" {_percent(pair.probability)} it succeeds as often as {_name(pair.against)}"
        f"{_within(margin)}{_describe_saving(arms, pair)}."
    )


def _describe_unsettled(skill: str, unsettled: Sequence[Pairing], margin: float) -> str:
    pair = max(unsettled, key=lambda one: one.probability or 0)
    more = "at these rates more runs would hardly settle it"
    if pair.more_runs:
        runs = "run" if pair.more_runs == 1 else "runs"
        more = f"about {pair.more_runs:,} more {runs} of each would settle it"
    return (
        f"Not enough data: that {_name(pair.model)} succeeds as often as {_name(pair.against)} at"
        f" {skill}{_within(margin)}{',' if margin else ''} has a probability of"
        f" {_percent(pair.probability)}; {more}."
    )


def _describe_worse(skill: str, worse: Sequence[Pairing], margin: float) -> str:
    names = " and ".join(_name(pair.model) for pair in worse)
    below = f"over {_points(margin)} below" if margin else "below"
    return (
        f"{names} {'are' if len(worse) > 1 else 'is'} not good enough for {skill}: with a"
        f" probability of {CERTAINTY:.0%} or more the success rate is {below} that of"
        f" {_name(worse[0].against)}."
    )


def _describe_saving(arms: Sequence[ModelArm], pair: Pairing) -> str:
    if pair.is_cheaper is None:
        return "; whether it is cheaper is unknown"
    costs = {arm.model: arm.cost_per_success for arm in arms}
    cheap, dear = costs[pair.model], costs[pair.against]
    if cheap is None or dear is None:
        return ""
    return f", at ${cheap:.4g} a success in place of ${dear:.4g}"


def find_notes(arms: Sequence[ModelArm]) -> list[str]:
    """Return notes on the verdict: differing versions, unknown costs and outcomes."""
    notes = []
    if _differ(arms):
        known = [arm for arm in arms if arm.versions]
        each = "; ".join(f"{_name(arm.model)}: {', '.join(arm.versions[:3])}" for arm in known)
        notes.append(
            f"the skill's versions differ between models ({each}), so part of a difference may be"
            " the skill's own"
        )
    unpriced = [arm.model for arm in arms if arm.cost_per_call is None]
    if named := [model for model in unpriced if model is not None]:
        notes.append(
            f'the cost of {", ".join(named)} is unknown: add [prices."{named[0]}"] to config.toml,'
            " then run `relight rebuild --prices`"
        )
    if None in unpriced:
        notes.append("the cost of runs on an unknown model is unknown")
    if partly := sum(arm.unpriced for arm in arms if arm.cost_per_call is not None):
        notes.append(f"{_leave_out(partly, 'unknown or partly known cost')} of the costs")
    if unknown := sum(arm.unknown for arm in arms):
        notes.append(_leave_out(unknown, "unknown outcome"))
    return notes


def _differ(arms: Sequence[ModelArm]) -> bool:
    """True if models ran other versions; a declared version and a hash may be of one text."""
    for is_hash in (False, True):
        own = [{v for v in arm.versions if v.startswith("sha256:") is is_hash} for arm in arms]
        if len({frozenset(versions) for versions in own if versions}) > 1:
            return True
    return False


def _name(model: str | None) -> str:
    return model or "an unknown model"


def _leave_out(number: int, what: str) -> str:
    runs = "1 run" if number == 1 else f"{number:,} runs"
    return f"{runs} of {what} {'is' if number == 1 else 'are'} left out"


def _points(margin: float) -> str:
    return f"{margin * 100:g} points"


def _within(margin: float) -> str:
    return f", less {_points(margin)} at most" if margin else ""


def _percent(probability: float | None) -> str:
    """A probability in percent, never 100.

    >>> _percent(0.9998)
    'over 99%'
    """
    return "over 99%" if (probability or 0) > 0.995 else f"{probability:.0%}"
